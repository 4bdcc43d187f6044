"""When something is due of many models, and how much may be done in a time."""

from __future__ import annotations

import time

from riata.run.writer.queue import Dues, Share


def test_the_model_that_has_been_due_for_longest_is_taken_first_and_once() -> None:
    dues = Dues()
    for name, at_ms in (("late", 300), ("early", 100), ("middle", 200)):
        dues.set(name, at_ms)
    assert dues.first_ms() == 100
    assert dues.take(99) is None
    assert [dues.take(250), dues.take(250), dues.take(250), dues.take(300), dues.take(300)] == [
        "early",
        "middle",
        None,
        "late",
        None,
    ]
    assert dues.first_ms() is None


def test_another_moment_replaces_the_one_before() -> None:
    dues = Dues()
    dues.set("m", 100)
    dues.set("m", 500)
    assert dues.take(499) is None
    assert dues.get("m", 0) == dues.first_ms() == 500
    dues.set("m", 50)
    assert dues.take(50) == "m"
    assert dues.take(10**6) is None
    dues.set("m", 70)
    dues.set("m", None)
    assert dues.first_ms() is None
    assert dues.get("m", 7) == 7


def test_a_model_among_a_thousand_is_found_as_quickly_as_among_ten() -> None:
    def seconds(models: int) -> float:
        dues = Dues()
        for k in range(models):
            dues.set(f"m{k}", k)
        best = 1.0
        for _ in range(20):
            begun = time.perf_counter()
            for _ in range(100):
                dues.first_ms()
                dues.set(str(dues.take(0)), 0)
            best = min(best, time.perf_counter() - begun)
        return best

    assert seconds(1000) < 10 * seconds(10)


def test_what_takes_longer_than_its_share_rests_and_what_was_not_taken_is_saved() -> None:
    share = Share(10, saved_ms=100)
    share.spend(1000, 10)
    assert share.free_ms() == 1000
    share.spend(1000, 3)
    assert share.free_ms() == 1030
    share.spend(5000, 11)
    assert share.free_ms() == 5010


def test_nobody_rests_for_longer_than_a_bound() -> None:
    share = Share(30, rest_ms_max=1000)
    share.spend(1000, 10)
    assert share.free_ms() == 1300
    share.spend(2000, 500)
    assert share.free_ms() == 3000
