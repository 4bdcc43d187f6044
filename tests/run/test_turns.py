from __future__ import annotations

import queue
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from typing import Any

import numpy as np
import pytest

from riata.base.errors import Corrupt, LogFork, LogGap
from riata.run.log.log_reading import ROWS_TOGETHER, TURN_MS, TURN_ROWS_MAX, Turn, runs
from riata.run.state.config import read_config
from riata.run.state.core import Core, Schedule
from riata.run.state.model_state import ModelState
from riata.run.writer.queue import Logged, PublishNow, WriterQueue
from riata.store import records
from riata.store.payload import decode_batch
from riata.store.store import Append, Record
from tests.doubles.memory_store import MemoryStore
from tests.run.events import create_model, log_batch, random_batch
from tests.run.writers import LEFT_S

LEARNERS: list[dict[str, Any]] = [
    {"kind": "truncated_gradient", "gravity": 0.01},
    {"kind": "truncated_gradient", "rate": "constant", "normalised": False, "step": "gradient", "eta": 0.01},
    {"kind": "ftrl_proximal"},
    {"kind": "taylor_sketch", "k": 4, "gamma": 0.5, "block": 10, "rounds": 1},
]


def a_log(learner: dict[str, Any] | None = None, sizes: tuple[int, ...] = (1,) * 40) -> list[Record]:
    """A config record and observe records of these sizes, with one skip record after the first half."""
    store = MemoryStore()
    document = {"encoder": {"bits": 12}} if learner is None else {"encoder": {"bits": 12}, "learner": learner}
    create_model(store, config=read_config(document))
    rng = np.random.default_rng(17)
    for i, size in enumerate(sizes):
        log_batch(store, random_batch(rng, size))
        if i == len(sizes) // 2:
            store.append([Append("m", "skip", 0, payload=records.encode_skip(5, "refused"))])
    return store.read("m", 0)


def observed(sizes: tuple[int, ...]) -> list[Record]:
    return [record for record in a_log(sizes=sizes) if record.kind == "observe"]


def test_runs_hold_every_record_once_and_in_order_and_nothing_but_rows_together() -> None:
    log = a_log(sizes=(1, 2, 3, ROWS_TOGETHER, 1, ROWS_TOGETHER - 1, 1, 1))
    cut = list(runs(log))
    assert [record for run in cut for record in run] == log
    assert [[(record.kind, record.count) for record in run] for run in cut] == [
        [("config", 1)],
        [("observe", 1), ("observe", 2), ("observe", 3)],
        [("observe", ROWS_TOGETHER)],
        [("observe", 1)],
        [("skip", 1)],
        [("observe", ROWS_TOGETHER - 1), ("observe", 1)],
        [("observe", 1)],
    ]
    assert list(runs([])) == []


def test_a_run_ends_at_a_stop() -> None:
    log = observed((1, 1, 1, 1))
    assert [len(run) for run in runs(log, {log[1].last})] == [2, 2]


def by_kind(log: list[Record]) -> list[list[Record]]:
    return [list(some) for _, some in groupby(log, key=attrgetter("kind"))]


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: "-".join(map(str, learner.values())))
@pytest.mark.parametrize(
    ("sizes", "skips", "cut"),
    [((1,) * 120 + (7, 1, 300, 1, 1), {5, 9}, runs), ((1, 1, 600, 500, 700, 3, 1200, 2, 1), {3, 700}, by_kind)],
    ids=["runs", "turns of large records"],
)
def test_records_learnt_together_end_in_the_bits_of_records_learnt_one_by_one(
    learner: dict[str, Any], sizes: tuple[int, ...], skips: set[int], cut: Callable[[list[Record]], Iterable[list[Record]]]
) -> None:
    log = a_log(learner, sizes)
    one, together = ModelState("m", log[0].digest[:16]), ModelState("m", log[0].digest[:16])
    for record in log:
        one.apply(record, None, frozenset(skips))
    for run in cut(log):
        decoded = [record.kind == "observe" and (cut is by_kind or record.first % 2) for record in run]  # all, or some of them
        batches = [decode_batch(record.payload) if wanted else None for record, wanted in zip(run, decoded, strict=True)]
        together.apply_all(run, batches, frozenset(skips))
    assert together.freeze().encode() == one.freeze().encode()
    assert together.progressive.history() == one.progressive.history()
    assert one.skipped == together.skipped == len(skips)


def test_a_turn_grows_while_it_is_short_and_full_and_shrinks_when_it_is_long() -> None:
    turn = Turn()
    assert turn.rows_max == ROWS_TOGETHER
    turn.took(ROWS_TOGETHER // 2, 0)
    assert turn.rows_max == ROWS_TOGETHER  # there was not more to learn
    sizes = []
    for _ in range(5):
        turn.took(turn.rows_max, 1)
        sizes.append(turn.rows_max)
    assert sizes == [2 * ROWS_TOGETHER, 4 * ROWS_TOGETHER, 8 * ROWS_TOGETHER, *[TURN_ROWS_MAX] * 2]
    turn.took(turn.rows_max, TURN_MS)
    assert turn.rows_max == TURN_ROWS_MAX
    for _ in range(5):
        turn.took(turn.rows_max, TURN_MS + 1)
    assert turn.rows_max == ROWS_TOGETHER


def test_a_record_with_another_count_than_its_payload_is_learnt_neither_alone_nor_together() -> None:
    log = a_log()
    state = ModelState("m", bytes(16))
    state.apply(log[0])
    before = state.freeze().encode()
    wrong = replace(log[2], count=2)
    with pytest.raises(Corrupt, match="payload holds 1"):
        state.apply_all([log[1], wrong])
    with pytest.raises(Corrupt, match="payload holds 1"):
        state.apply(wrong)
    assert state.freeze().encode() == before
    state.apply_all(log[1:3])
    assert state.applied == log[2].last


def test_the_core_checks_every_record_of_a_run() -> None:
    log = observed((1, 1, 1))

    def core() -> Core:
        before = a_log(sizes=(1,))[0]
        return Core(before.last, before.chain, Schedule(1, 1, 1), 0)

    core().logged_all(log[:2])
    with pytest.raises(LogGap):
        core().logged_all([log[1], log[2]])
    with pytest.raises(LogGap):
        core().logged_all([log[0], replace(log[1], first=log[1].first + 1)])
    broken = core()
    with pytest.raises(LogFork):
        broken.logged_all([log[0], replace(log[1], chain=bytes(20))])
    assert broken.stopped


def test_the_inbox_hands_out_waiting_records_of_one_model_together_up_to_the_next_other_item() -> None:
    inbox = WriterQueue(LEFT_S)
    log = [Logged(record, None) for record in observed((1, 1, 1))]
    other = Logged(replace(log[0].record, model="other"), None)
    for item in (log[0], other, log[1], PublishNow("m"), log[2]):
        inbox.put(item)
    out: list[Any] = []
    while (line := inbox.take()) is not None:
        while (taken := inbox.next_of(line)) is not None:
            out.append(inbox.run_of(line, taken) if isinstance(taken, Logged) else taken)
        inbox.give_back(line)
    assert out == [log[:2], PublishNow("m"), [log[2]], [other]]
    assert not inbox.waits()
    with pytest.raises(queue.Empty):
        inbox.wait(0.0)


def test_a_record_that_would_be_too_much_waits_for_the_next_run() -> None:
    inbox = WriterQueue(LEFT_S)
    log = [Logged(record, None) for record in observed((ROWS_TOGETHER - 1, 2, 1))]
    for item in log:
        inbox.put(item)
    line = inbox.take()
    assert line is not None
    assert inbox.next_of(line) == log[0]
    assert inbox.run_of(line, log[0]) == log[:1]
    assert inbox.run_of(line, log[0], ROWS_TOGETHER + 1) == log[:2]
    assert inbox.next_of(line) == log[2]
