"""Records of few rows are gathered before the writer is woken; everything else wakes it at once."""

from __future__ import annotations

import queue
import threading
import time

import pytest

from riata.run.writer_queue import GATHERED_MAX, SMALL_ROWS, Item, Logged, PublishNow, WriterQueue
from riata.store.store import Kind, Record

LONG_S = 1800.0


def logged(first: int, count: int = 1, kind: Kind = "observe") -> Logged:
    return Logged(Record("m", kind, first, count, 0, b"", b"", b""), None)


@pytest.mark.parametrize(
    "item", [PublishNow("m"), None, logged(2, SMALL_ROWS), logged(2, 1, "config")], ids=["nudge", "end", "large", "config"]
)
def test_an_urgent_record_is_not_gathered(item: Item | None) -> None:
    inbox = WriterQueue()
    assert not inbox.presses()
    inbox.put(logged(1))
    assert not inbox.presses()
    inbox.put(item)
    assert inbox.presses()
    inbox.gather(LONG_S)
    assert inbox.get() == logged(1)
    assert inbox.get() is item


@pytest.mark.parametrize("item", [PublishNow("m"), None, logged(2, SMALL_ROWS), logged(2, 1, "config")])
def test_an_urgent_record_ends_the_gathering(item: Item | None) -> None:
    inbox = WriterQueue()
    inbox.put(logged(1))
    gathering = threading.Thread(target=inbox.gather, args=(LONG_S,))
    gathering.start()
    inbox.put(item)
    gathering.join(LONG_S / 2)
    assert not gathering.is_alive()
    assert inbox.get() == logged(1)


def test_enough_records_of_few_rows_end_the_gathering() -> None:
    inbox = WriterQueue()
    inbox.put(logged(1))
    gathering = threading.Thread(target=inbox.gather, args=(LONG_S,))
    gathering.start()
    for first in range(2, GATHERED_MAX):
        inbox.put(logged(first))
    assert not inbox.presses()
    inbox.put(logged(GATHERED_MAX))
    gathering.join(LONG_S / 2)
    assert not gathering.is_alive()
    assert [inbox.get() for _ in range(GATHERED_MAX)] == [logged(first) for first in range(1, GATHERED_MAX + 1)]


def test_records_of_few_rows_gather_until_the_time_is_over() -> None:
    inbox = WriterQueue()
    inbox.put(logged(1))
    begun = time.monotonic()
    inbox.gather(0.05)
    assert time.monotonic() - begun >= 0.04
    assert inbox.waits()
    assert inbox.get() == logged(1)
    assert not inbox.waits()


def test_a_thread_that_waits_for_the_first_result_is_woken_by_it() -> None:
    inbox = WriterQueue()
    with pytest.raises(queue.Empty):
        inbox.wait(0.01)
    found: list[Item | None] = []
    waiting = threading.Thread(target=lambda: found.append(inbox.get(LONG_S)))
    waiting.start()
    inbox.put(logged(1))
    waiting.join(LONG_S / 2)
    assert found == [logged(1)]
