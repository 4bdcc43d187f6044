"""Results of many threads arrive in the order of the items, each once; the caller works instead of waiting."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from riata.base.errors import Malformed
from riata.run.files.reading import ordered_map

THREADS = [1, 2, 5]


def helpers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "riata-in-order"]


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("ahead", [1, 3, 100])
def test_results_come_in_the_order_of_their_items(threads: int, ahead: int) -> None:
    def work(item: int) -> int:
        time.sleep(0.002 * (item % 3))  # the later ones are often done first
        return item * item

    assert list(ordered_map(iter(range(50)), work, threads, ahead)) == [item * item for item in range(50)]
    assert list(ordered_map(iter(()), work, threads, ahead)) == []
    assert helpers() == []


@pytest.mark.parametrize("threads", THREADS)
def test_exceptions_of_source_and_work_are_raised_in_order(threads: int) -> None:
    def items() -> Iterator[int]:
        yield from range(5)
        raise Malformed("no more")

    def work(item: int) -> int:
        if item == 3:
            raise ValueError("three")
        return item

    drawn = ordered_map(items(), lambda item: item, threads, 3)
    assert [next(drawn) for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(Malformed, match="no more"):
        next(drawn)
    worked = ordered_map(iter(range(9)), work, threads, 3)
    assert [next(worked) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="three"):
        next(worked)
    assert helpers() == []


@pytest.mark.parametrize("threads", THREADS)
def test_no_more_is_drawn_than_is_asked_for_and_closing_ends_the_threads(threads: int) -> None:
    drawn: list[int] = []

    def endless() -> Iterator[int]:
        while True:
            drawn.append(len(drawn))
            yield drawn[-1]

    results = ordered_map(endless(), lambda item: item, threads, 2)
    assert [next(results) for _ in range(10)] == list(range(10))
    assert len(drawn) <= 10 + 2 + threads
    assert len(helpers()) == threads - 1
    results.close()
    assert helpers() == []


def test_a_thread_that_would_wait_for_a_result_works_on_another() -> None:
    met = threading.Barrier(2, timeout=900.0)
    caller, workers = threading.get_ident(), set()

    def work(item: int) -> int:
        workers.add(threading.get_ident())
        met.wait()  # goes on when a second one works at the same time: it can only be the caller
        return item

    assert list(ordered_map(iter(range(20)), work, 2, 4)) == list(range(20))
    assert caller in workers
    assert len(workers) == 2


def test_a_thread_works_ahead_while_a_result_is_used() -> None:
    begun: set[int] = set()
    second = threading.Event()

    def work(item: int) -> int:
        begun.add(item)
        if item == 1:
            second.set()
        return item

    results = ordered_map(iter(range(4)), work, 2, 4)
    assert next(results) == 0
    assert second.wait(60.0)  # although nobody has asked for it
    assert list(results) == [1, 2, 3]
    assert begun == {0, 1, 2, 3}
