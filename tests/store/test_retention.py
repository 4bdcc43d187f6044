from __future__ import annotations

import dataclasses
import itertools

import pytest

from riata.store.append_plan import new_head
from riata.store.records import first_chain
from riata.store.retention import CAUSE, NOTE, REQUEST, SAVED, judge_commit, leads_on, oldest_of_newest, trim_bound
from riata.store.retention import kept as kept_of
from riata.store.store import Generation, Head, Verdict
from tests.store.batches import LINEAGE, generation

CHAIN = bytes([3] * 20)
HEAD = Head(LINEAGE, 50, CHAIN, 1, 1)


def kept(gen: int, applied: int, verified: bool = True) -> Generation:
    return dataclasses.replace(generation(gen, applied, CHAIN, b"state"), verified=verified)


@pytest.mark.parametrize(
    ("made", "base", "chain", "verdict"),
    [
        (kept(3, 50), 2, CHAIN, Verdict.OK),
        (kept(3, 40), 2, None, Verdict.OK),  # where the newest generation is, though the log no longer does
        (kept(3, 45), 2, None, Verdict.FORK),
        (kept(3, 50), 2, bytes(20), Verdict.FORK),
        (kept(3, 39), 2, CHAIN, Verdict.BEHIND),
        (kept(3, 50), 1, CHAIN, Verdict.CONFLICT),
        (kept(4, 50), 2, CHAIN, Verdict.CONFLICT),
        (dataclasses.replace(kept(3, 50), lineage=bytes(16)), 2, CHAIN, Verdict.FORK),
        (dataclasses.replace(kept(3, 50), parent=1), 2, CHAIN, Verdict.CONFLICT),
        (dataclasses.replace(kept(3, 40), chain=bytes(20)), 2, bytes(20), Verdict.FORK),
    ],
)
def test_a_commit_is_checked_against_the_stored_data(made: Generation, base: int, chain: bytes | None, verdict: Verdict) -> None:
    assert judge_commit(made, base, HEAD, [kept(2, 40), kept(1, 20)], chain) is verdict


def test_the_first_checkpoint_may_stand_before_the_first_event() -> None:
    head = new_head(LINEAGE)
    made = generation(1, 0, head.chain, b"")
    assert judge_commit(made, 0, head, [], first_chain(LINEAGE)) is Verdict.OK
    assert judge_commit(dataclasses.replace(made, chain=CHAIN), 0, head, [], None) is Verdict.FORK


@pytest.mark.parametrize("keep", [-1, 0, 1, 3])
def test_three_verified_generations_stay_whatever_is_asked(keep: int) -> None:
    assert oldest_of_newest([kept(5, 50), kept(4, 40), kept(3, 30), kept(2, 20)], keep) == 3


def test_unverified_generations_do_not_count() -> None:
    retained = [kept(5, 50, False), kept(4, 40), kept(3, 30, False), kept(2, 20), kept(1, 10)]
    assert oldest_of_newest(retained, 3) == 1
    assert oldest_of_newest(retained[:-1], 3) == 0


def test_the_log_is_kept_from_the_oldest_verified_generation_on() -> None:
    retained = [kept(3, 48), kept(2, 40), kept(1, 30)]
    assert trim_bound(HEAD, retained, 1, 0) == 30
    assert trim_bound(HEAD, retained, 1, 10) == 30
    assert trim_bound(HEAD, retained, 1, 25) == 25
    assert trim_bound(HEAD, retained, 1, -5) == 30


def test_the_log_is_kept_from_where_a_promoted_state_stands_while_a_generation_before_the_promotion_is_kept() -> None:
    retained = [kept(3, 48), kept(2, 40), kept(1, 30)]
    assert trim_bound(HEAD, retained, 1, 0, [(45, 20)]) == 20
    assert trim_bound(HEAD, retained, 1, 0, [(45, 20), (31, 10)]) == 10
    assert trim_bound(HEAD, retained, 1, 0, [(30, 20), (45, 35)]) == 30
    assert trim_bound(HEAD, retained, 1, 35, [(45, 20)]) == 15
    assert trim_bound(HEAD, retained[:2], 1, 0, [(45, 20)]) == 0
    assert (
        trim_bound(HEAD, [*retained[:2], kept(1, 35), kept(4, 25, False)], 1, 0, [(28, 9)]) == 9
    )  # one that may yet be verified


def test_nothing_is_trimmed_before_three_generations_are_verified() -> None:
    assert trim_bound(HEAD, [kept(3, 48), kept(2, 40), kept(1, 30, False)], 0, 0) == 0


def test_older_generations_do_not_hold_the_log_back() -> None:
    retained = [kept(6, 48), kept(5, 40), kept(4, 30), kept(2, 10), kept(1, 5)]
    assert trim_bound(HEAD, retained, 4, 0) == 30
    assert trim_bound(HEAD, retained, 4, 30) == 20
    assert [leads_on(one, dataclasses.replace(HEAD, first_seq=11)) for one in retained] == [True, True, True, True, False]


def test_what_is_learnt_again_stays_for_every_generation_whose_events_stay() -> None:
    retained = [kept(6, 48), kept(5, 40), kept(4, 30), kept(2, 25), kept(1, 5)]
    assert trim_bound(HEAD, retained, 4, 0, [(28, 9)]) == 30  # no later state can be learnt from event 25 anyway
    assert trim_bound(HEAD, retained, 4, 26, [(28, 9)]) == 9
    assert trim_bound(HEAD, retained, 4, 26, [(28, 9), (20, 2)]) == 9
    assert trim_bound(HEAD, [*retained, kept(1, 12)], 4, 26, [(28, 9), (20, 2)]) == 2


def saved(gen: int, applied: int, verified: bool = True) -> Generation:
    return dataclasses.replace(kept(gen, applied, verified), info={CAUSE: SAVED, NOTE: "good", "non_zeros": 3})


def test_saved_generations_push_out_no_other_and_hold_no_event_back() -> None:
    retained = [*(saved(gen, 50) for gen in range(9, 3, -1)), kept(3, 30), kept(2, 20), kept(1, 10)]
    assert oldest_of_newest(retained, 3) == 1
    assert oldest_of_newest(retained[:-1], 3) == 0
    assert trim_bound(HEAD, retained, 1, 0) == 10
    assert trim_bound(HEAD, [*retained, saved(0, 2)], 1, 0) == 10
    assert trim_bound(HEAD, [saved(5, 50), saved(4, 40), kept(3, 30), kept(2, 20)], 0, 0) == 0


def test_of_those_that_requests_caused_the_newest_three_stay_verified_or_not_and_hold_nothing_back() -> None:
    retained = [dataclasses.replace(kept(gen, 50, gen % 2 == 0), info={CAUSE: REQUEST}) for gen in range(9, 3, -1)]
    retained += [kept(3, 30), kept(2, 20), kept(1, 10)]
    assert [one.gen for one in kept_of(retained, oldest_of_newest(retained, 3), 99, [9, 8])] == [9, 8, 7, 3, 2, 1]
    assert trim_bound(HEAD, [*retained, dataclasses.replace(kept(1, 2), info={CAUSE: REQUEST})], 1, 0) == 10


def test_saved_generations_stay_until_they_are_deleted() -> None:
    retained = [saved(9, 50), kept(8, 45), saved(7, 40, False), kept(6, 40), kept(5, 30), saved(2, 9), kept(1, 8)]
    assert [one.gen for one in kept_of(retained, 5, 0)] == [9, 8, 7, 6, 5, 2]
    assert [one.gen for one in kept_of(retained, 5, 0, [7, 2, 8, 77])] == [9, 8, 6, 5]
    assert [one.gen for one in kept_of(retained, 5, 0, [9])] == [
        9,
        8,
        7,
        6,
        5,
        2,
    ]  # the newest of all is what the next is based on


def at(second: float, gen: int, of_bytes: int = 1, verified: bool = True) -> Generation:
    return dataclasses.replace(kept(gen, gen, verified), created_ms=int(1000 * second), bytes=of_bytes)


def run_schedule(until_s: int, every_s: int, bytes_max: int = 2**40) -> list[Generation]:
    retained: list[Generation] = []
    for gen, second in enumerate(range(0, until_s, every_s), 1):
        retained.insert(0, at(second, gen))
        retained = kept_of(retained, oldest_of_newest(retained, 3), bytes_max)
    return retained


@pytest.mark.parametrize("until_s", [10, 30, 31, 1000, 3601, 100_000])
def test_whatever_the_age_there_is_one_at_most_twice_as_old(until_s: int) -> None:
    retained = run_schedule(until_s, 10)
    ages = [(retained[0].created_ms - one.created_ms) // 1000 for one in retained]
    assert ages[:3] == [0, 10, 20][: len(ages)]
    assert ages[-1] == (until_s - 1) // 10 * 10  # the first one
    assert all(older <= 2 * newer for newer, older in itertools.pairwise(ages[2:]))
    assert all(after > 2 * before for before, after in zip(ages[2:], ages[4:], strict=False))  # and not more than needed
    assert len(ages) <= 32


def test_the_oldest_go_first_beyond_the_budget() -> None:
    assert len(run_schedule(3600, 10, 4)) == 3 + 4
    assert len(run_schedule(3600, 10, 0)) == 3
    ages = [3590 - one.created_ms // 1000 for one in run_schedule(3600, 10, 4)]
    assert all(older <= 2 * newer for newer, older in itertools.pairwise(ages[2:]))


def test_a_pause_or_a_clock_that_is_set_back_loses_no_more_than_it_must() -> None:
    paused = [at(1020, 6), at(1010, 5), at(1000, 4), at(10, 3), at(8, 2), at(0, 1)]
    assert [one.gen for one in kept_of(paused, 4, 99)] == [6, 5, 4, 3, 1]
    back = [at(20, 6), at(10, 5), at(0, 4), at(1000, 3), at(990, 2), at(30, 1)]
    assert [one.gen for one in kept_of(back, 4, 99)] == [6, 5, 4, 1]


def test_older_generations_that_did_not_verify_go() -> None:
    retained = [at(100, 6), at(90, 5), at(80, 4), at(70, 3, verified=False), at(60, 2)]
    assert [one.gen for one in kept_of(retained, 4, 99)] == [6, 5, 4, 2]
