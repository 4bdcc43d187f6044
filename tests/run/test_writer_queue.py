"""Records of few rows are gathered before the writer is woken; everything else wakes it at once."""

from __future__ import annotations

import queue
import threading
import time
from typing import cast

import pytest

from riata.run.state.core import Core, Schedule
from riata.run.state.model_state import ModelState
from riata.run.writer.queue import (
    AVERAGED,
    GATHERED_MAX,
    PARTS,
    PATIENCE,
    QUIET_MS,
    SAVED_MS,
    SMALL_ROWS,
    Cell,
    Item,
    Line,
    Logged,
    PublishNow,
    WriterQueue,
)
from riata.store.store import Kind, Record
from tests.run.writers import LEFT_S

LONG_S = 1800.0


def logged(first: int, count: int = 1, kind: Kind = "observe") -> Logged:
    return Logged(Record("m", kind, first, count, 0, b"", b"", b""), None)


@pytest.mark.parametrize(
    "item", [PublishNow("m"), logged(2, SMALL_ROWS), logged(2, 1, "config")], ids=["nudge", "large", "config"]
)
def test_an_urgent_record_is_not_gathered(item: Item) -> None:
    inbox = WriterQueue(LEFT_S)
    assert not inbox.presses()
    inbox.put(logged(1))
    assert not inbox.presses()
    inbox.put(item)
    assert inbox.presses()
    inbox.gather(LONG_S)
    assert taken(inbox) == [logged(1), item]


@pytest.mark.parametrize("item", [PublishNow("m"), logged(2, SMALL_ROWS), logged(2, 1, "config")])
def test_an_urgent_record_ends_the_gathering(item: Item) -> None:
    inbox = WriterQueue(LEFT_S)
    inbox.put(logged(1))
    gathering = threading.Thread(target=inbox.gather, args=(LONG_S,))
    gathering.start()
    inbox.put(item)
    gathering.join(LONG_S / 2)
    assert not gathering.is_alive()
    assert taken(inbox) == [logged(1), item]


def test_enough_records_of_few_rows_end_the_gathering() -> None:
    inbox = WriterQueue(LEFT_S)
    inbox.put(logged(1))
    gathering = threading.Thread(target=inbox.gather, args=(LONG_S,))
    gathering.start()
    for first in range(2, GATHERED_MAX):
        inbox.put(logged(first))
    assert not inbox.presses()
    inbox.put(logged(GATHERED_MAX))
    gathering.join(LONG_S / 2)
    assert not gathering.is_alive()
    assert taken(inbox) == [logged(first) for first in range(1, GATHERED_MAX + 1)]


def test_records_of_few_rows_gather_until_the_time_is_over() -> None:
    inbox = WriterQueue(LEFT_S)
    inbox.put(logged(1))
    begun = time.monotonic()
    inbox.gather(0.05)
    assert time.monotonic() - begun >= 0.04
    assert inbox.waits()
    assert taken(inbox) == [logged(1)]
    assert not inbox.waits()


def published_until(inbox: WriterQueue, name: str, in_s: float, turn_s: float = 0.0) -> None:
    """Have a model of which nothing newer is served before so many seconds have passed. turn_s : how long its turns take"""
    inbox.put(PublishNow(name))
    line = inbox.take()
    assert line is not None
    inbox.next_of(line)
    core = Core(0, b"", Schedule(round(1000 * in_s), 10**6, 10**6), now_ms=0)
    core.published(round(1000 * time.monotonic()))
    line.cell = Cell(cast(ModelState, None), core, 0)
    line.took(1000 * turn_s, is_typical=True)
    inbox.give_back(line)


@pytest.mark.parametrize(
    ("served_s", "turn_s", "due_s", "left_s", "alone_s", "least_s"),
    [
        pytest.param(0.1, 0.0, LONG_S, LONG_S, LONG_S, 0.09, id="until it may be served"),
        pytest.param(LONG_S, LONG_S - 0.1, LONG_S, LONG_S, LONG_S, 0.09, id="until it has to be learnt for that"),
        pytest.param(LONG_S, 0.0, LONG_S, LONG_S, 0.1, 0.09, id="not for longer than ALONE_S"),
        pytest.param(LONG_S, 0.0, 0.1, LONG_S, LONG_S, 0.09, id="until something else is due"),
        pytest.param(LONG_S, 0.0, LONG_S, 0.1, LONG_S, 0.09, id="not for longer than a record may be left"),
        pytest.param(0.0, 0.0, LONG_S, LONG_S, LONG_S, 0.0, id="it may be served at once"),
    ],
)
def test_records_of_one_model_gather_until_its_state_may_be_served(
    monkeypatch: pytest.MonkeyPatch, served_s: float, turn_s: float, due_s: float, left_s: float, alone_s: float, least_s: float
) -> None:
    monkeypatch.setattr("riata.run.writer.queue.ALONE_S", alone_s)
    inbox = WriterQueue(left_s)
    published_until(inbox, "m", served_s, turn_s)
    inbox.put(one_row("m"))
    begun = time.monotonic()
    inbox.gather(0.01, due_s)
    assert least_s <= time.monotonic() - begun < LONG_S / 2
    assert taken(inbox) == [one_row("m")]


def test_records_of_one_model_gather_no_longer_once_another_has_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("riata.run.writer.queue.ALONE_S", LONG_S)
    inbox = WriterQueue(LONG_S)
    published_until(inbox, "m", LONG_S)
    inbox.put(one_row("m"))
    gathering = threading.Thread(target=inbox.gather)
    gathering.start()
    inbox.put(one_row("other"))
    gathering.join(LONG_S / 2)
    assert not gathering.is_alive()
    assert taken(inbox) == [one_row("m"), one_row("other")]


def test_a_thread_that_waits_for_the_first_result_is_woken_by_it() -> None:
    inbox = WriterQueue(LEFT_S)
    with pytest.raises(queue.Empty):
        inbox.wait(0.01)
    waiting = threading.Thread(target=inbox.wait, args=(LONG_S,))
    waiting.start()
    inbox.put(logged(1))
    waiting.join(LONG_S / 2)
    assert not waiting.is_alive()
    assert taken(inbox) == [logged(1)]


def test_the_end_wakes_a_thread_that_waits_or_gathers() -> None:
    for wait in (WriterQueue.wait, WriterQueue.gather):
        inbox = WriterQueue(LEFT_S)
        waiting = threading.Thread(target=wait, args=(inbox, LONG_S))
        waiting.start()
        inbox.end()
        waiting.join(LONG_S / 2)
        assert not waiting.is_alive()
        assert inbox.take() is None


def test_the_items_of_a_busy_model_wait_and_those_of_others_do_not() -> None:
    inbox = WriterQueue(LEFT_S)
    inbox.put(PublishNow("slow"))
    slow = inbox.take()
    assert slow is not None
    assert inbox.next_of(slow) == PublishNow("slow")
    inbox.put(PublishNow("slow"))
    assert not inbox.waits()
    assert not inbox.presses()
    assert inbox.take() is None
    inbox.put(PublishNow("m"))
    assert inbox.presses()
    assert taken(inbox) == [PublishNow("m")]
    inbox.give_back(slow)
    assert inbox.presses()
    assert taken(inbox) == [PublishNow("slow")]


def test_the_model_whose_turn_is_short_goes_first_and_none_waits_much_longer_than_its_own_turn() -> None:
    inbox = WriterQueue(LEFT_S)
    lines: dict[str, Line] = {}
    for name, turn_ms in (("long", 30.0), ("short", 0.0)):
        inbox.put(PublishNow(name))
        line = inbox.take()
        assert line is not None
        lines[name] = line
        line.cell = cast(Cell, "a model that was added")
        inbox.next_of(line)
        line.took(turn_ms, is_typical=True)
        inbox.give_back(line)
    inbox.put(PublishNow("long"))
    inbox.put(PublishNow("short"))
    assert inbox.take() is lines["short"]
    time.sleep(30 * PATIENCE / 1000)
    inbox.give_back(lines["short"])
    inbox.put(PublishNow("short"))
    assert inbox.take() is lines["long"]


def test_a_dropped_model_leaves_nothing_and_its_name_has_a_new_line() -> None:
    inbox = WriterQueue(LEFT_S)
    for _ in range(2):
        inbox.put(PublishNow("m"))
    old = inbox.take()
    assert old is not None
    assert inbox.drop("m", b"another lineage") is None
    assert inbox.drop("m", b"") is old
    assert inbox.next_of(old) is None
    inbox.put(logged(1))
    new = inbox.take()
    assert new is not None
    assert new is not old
    inbox.give_back(old)
    assert inbox.lines() == [new]


def taken(inbox: WriterQueue) -> list[Item]:
    """Everything that waits, in the order in which it is taken."""
    found: list[Item] = []
    while (line := inbox.take()) is not None:
        while (item := inbox.next_of(line)) is not None:
            found.append(item)
        inbox.give_back(line)
    return found


def one_row(model: str, first: int = 1) -> Logged:
    return Logged(Record(model, "observe", first, 1, 0, b"", b"", b""), None)


def test_lines_that_are_left_to_gather_have_a_share_of_the_time_and_the_longest_waiting_is_next() -> None:
    inbox = WriterQueue(LEFT_S)
    for name in ("a", "b", "c"):
        inbox.put(one_row(name))
    first = inbox.take()
    assert first is not None
    assert first.model == "a"
    inbox.spent(first, (SAVED_MS + 50) // PARTS)  # what was saved, and 50 ms more
    inbox.give_back(first)
    begun = time.monotonic()
    inbox.put(one_row("a", 2))
    assert inbox.take() is None
    while (second := inbox.take()) is None:
        inbox.gather(0.0)
    assert second.model == "b"
    assert time.monotonic() - begun >= 0.04
    third = inbox.take()
    assert third is not None
    assert third.model == "c"


@pytest.mark.parametrize(
    "items",
    [[PublishNow("m")], [logged(2, SMALL_ROWS)], [logged(first) for first in range(2, GATHERED_MAX + 1)]],
    ids=["asked for", "large", "many"],
)
def test_a_line_that_somebody_asks_for_or_with_many_rows_passes_those_that_are_left_to_gather(items: list[Item]) -> None:
    inbox = WriterQueue(LEFT_S)
    for k in range(GATHERED_MAX):
        inbox.put(one_row(f"other{k}"))
    assert inbox.presses()
    first = inbox.take()
    assert first is not None
    inbox.spent(first, 10**6)
    inbox.put(logged(1))
    assert inbox.take() is None
    assert not inbox.presses()
    for item in items:
        inbox.put(item)
    assert inbox.presses()
    assert taken(inbox) == [logged(1), *items]


def test_lines_that_are_left_to_gather_do_not_wait_for_their_share_once_no_row_arrives() -> None:
    inbox = WriterQueue(LEFT_S)
    for name in ("a", "b"):
        inbox.put(one_row(name))
    first = inbox.take()
    assert first is not None
    inbox.spent(first, 10**6)  # a share of it would be back after hours
    inbox.give_back(first)
    begun = time.monotonic()
    inbox.put(one_row("c"))
    assert inbox.take() is None
    while (second := inbox.take()) is None:
        inbox.gather(0.0)
    assert second.model == "b"
    assert time.monotonic() - begun >= 0.9 * QUIET_MS / 1000


def test_a_line_that_was_left_to_gather_for_long_does_not_wait_for_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("riata.run.writer.queue.QUIET_MS", 10**9)  # as if rows arrived all the time
    inbox = WriterQueue(left_s=0.1)
    begun = time.monotonic()
    for name in ("a", "b"):
        inbox.put(one_row(name))
    first = inbox.take()
    assert first is not None
    inbox.spent(first, 10**6)
    while (second := inbox.take()) is None:
        inbox.gather(0.0)
        assert time.monotonic() - begun < LONG_S
    assert second.model == "b"
    assert time.monotonic() - begun >= 0.09


@pytest.mark.parametrize(("lines", "waits"), [(3, True), (100, False)])
def test_lines_do_not_wait_for_their_share_if_their_turns_would_take_too_long_together(
    monkeypatch: pytest.MonkeyPatch, lines: int, waits: bool
) -> None:
    monkeypatch.setattr("riata.run.writer.queue.QUIET_MS", 10**9)
    inbox = WriterQueue(left_s=LONG_S)
    for k in range(lines):
        inbox.put(one_row(f"m{k}"))
    first = inbox.take()
    assert first is not None
    first.since_s -= LONG_S / 50 * AVERAGED  # its turn was so long that the average is LONG_S / 50
    inbox.spent(first, 10**6)
    assert (inbox.take() is None) == waits
