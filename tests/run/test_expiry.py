"""Predictions without a label in time: they get the default label once, or are deleted."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pytest

from riata.base.errors import BadInput, Unavailable
from riata.run.labels import expiry
from riata.run.labels.expiry import SLICE_ROWS, Swept, Terms, sweep
from riata.run.labels.pending_rows import Labelled, Waiting, decode_row, encode_labelled, encode_waiting
from riata.run.labels.remembering import event_id, labelled
from riata.run.state.replay import replay
from riata.store.sqlite.store import open_sqlite
from riata.store.store import Append, Appended, PendingPrediction, Store
from riata.wire.batch import take_rows
from riata.wire.names import NOTHING_NAMED, NamesSeen
from tests.doubles.memory_store import MemoryStore
from tests.run.events import create_model, labels, logged, random_batch
from tests.run.node import SMALL, Node, events, serving
from tests.settings import sqlite_settings

T = TypeVar("T")
DAY_MS = 86_400_000
DUE_MS = 1_000
RED = {"colour": "red", "size": 3.0}
NONE = Terms(None, NamesSeen(10))
ZERO = Terms(0.0, NamesSeen(10))


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "EVERY_S", 0.05)


@dataclass(frozen=True)
class Direct:
    """The store itself, called in this thread."""

    store: Store

    def call(self, work: Callable[[Store], T]) -> T:
        return work(self.store)

    def append(self, append: Append) -> Appended:
        return self.store.append([append])[0]


class Dies(Direct):
    """A store that fails between the append and the deletion of the pending prediction."""

    def call(self, work: Callable[[Store], T]) -> T:
        if self.store.remembered("m")[0] and any(batch.has_id.any() for batch in logged_of(self.store)):
            raise KeyboardInterrupt
        return super().call(work)


def logged_of(store: Store) -> list[Any]:
    return logged(store)


def waiting_store(n: int = 5, due_ms: int = DUE_MS) -> tuple[MemoryStore, list[bytes]]:
    """A store with n pending predictions of m, and their keys."""
    store = MemoryStore()
    create_model(store)
    return store, remember(store, n, due_ms)


def remember(store: Store, n: int, due_ms: int = DUE_MS, first: int = 0) -> list[bytes]:
    rows = encode_waiting(random_batch(np.random.default_rng(first), n), NOTHING_NAMED)
    keys = [(first + i).to_bytes(16, "big") for i in range(n)]
    store.remember("m", [PendingPrediction(key, due_ms, row) for key, row in zip(keys, rows, strict=True)], 2**30)
    return keys


def test_a_due_prediction_gets_the_default_label_once_and_is_forgotten() -> None:
    store, keys = waiting_store()
    assert sweep(Direct(store), "m", DUE_MS - 1, ZERO) == Swept()
    assert store.remembered("m")[0] == 5
    assert sweep(Direct(store), "m", DUE_MS, Terms(1.0, NamesSeen(10))) == Swept(5, 5, 0)
    assert store.remembered("m") == (0, 0)
    [batch] = logged(store)
    assert batch.label.tolist() == [1.0] * 5
    assert [row.tobytes() for row in batch.event_id] == [event_id(key).tobytes() for key in keys]
    wanted = random_batch(np.random.default_rng(0), 5)
    assert batch.value.tobytes() == wanted.value.tobytes()
    assert sweep(Direct(store), "m", DUE_MS, ZERO) == Swept()


def test_without_a_default_it_is_only_forgotten() -> None:
    store, _ = waiting_store()
    remember(store, 2, DUE_MS + 1, first=50)
    assert sweep(Direct(store), "m", DUE_MS, NONE) == Swept(5, 0, 5)
    assert store.remembered("m")[0] == 2
    assert logged(store) == []


def test_a_label_that_came_keeps_the_default_away() -> None:
    store, keys = waiting_store()
    row = decode_row(store.recall("m", keys)[keys[0]].row)
    assert isinstance(row, Waiting)
    store.append([Append("m", "observe", 1, labelled(row, keys[0], 1.0, 2.0).batch)])
    marked = encode_labelled(Labelled(1.0, 1.0, 2))
    store.remember("m", [PendingPrediction(keys[1], DUE_MS, marked)], 2**30)
    # The first has its label in the log and no mark, the second a mark: both count as labelled, and neither is labelled again.
    assert sweep(Direct(store), "m", DUE_MS, ZERO) == Swept(5, 3, 0)
    assert labels(store) == [1.0, 0.0, 0.0, 0.0]
    assert store.remembered("m") == (0, 0)


def test_a_death_between_append_and_forgetting_applies_nothing_twice() -> None:
    store, _ = waiting_store()
    with pytest.raises(KeyboardInterrupt):
        sweep(Dies(store), "m", DUE_MS, ZERO)
    reborn = store.crash()
    assert (reborn.remembered("m")[0], len(labels(reborn))) == (5, 5)
    assert sweep(Direct(reborn), "m", DUE_MS, ZERO) == Swept(5, 0, 0)
    assert (reborn.remembered("m")[0], len(labels(reborn))) == (0, 5)


def test_a_death_after_which_the_default_is_another_keeps_the_first() -> None:
    store, _ = waiting_store()
    with pytest.raises(KeyboardInterrupt):
        sweep(Dies(store), "m", DUE_MS, ZERO)
    assert sweep(Direct(store), "m", DUE_MS, Terms(1.0, NamesSeen(10))) == Swept(5, 0, 0)
    assert labels(store) == [0.0] * 5


def test_two_at_once_do_no_harm() -> None:
    """Both processes read before either appends. This can happen for a moment after a lease is lost."""
    store, _ = waiting_store()

    class Interrupted(Direct):
        done = False

        def append(self, append: Append) -> Appended:
            if not Interrupted.done:
                Interrupted.done = True
                assert sweep(Direct(store), "m", DUE_MS, ZERO) == Swept(5, 5, 0)
            return super().append(append)

    assert sweep(Interrupted(store), "m", DUE_MS, ZERO) == Swept(5, 0, 0)
    assert labels(store) == [0.0] * 5


def test_a_store_that_refuses_the_append_forgets_nothing() -> None:
    store, _ = waiting_store()
    store.faults.appends_refused = 1
    with pytest.raises(Unavailable):
        sweep(Direct(store), "m", DUE_MS, ZERO)
    assert (store.remembered("m")[0], logged(store)) == (5, [])
    assert sweep(Direct(store), "m", DUE_MS, ZERO) == Swept(5, 5, 0)


def test_a_damaged_row_is_given_up_and_does_not_delay_the_others() -> None:
    store, keys = waiting_store()
    kept = store.recall("m", keys[:2])
    for key, row in zip(keys, (b"", kept[keys[1]].row[:-1] + b"?"), strict=False):
        store.remember("m", [dataclasses.replace(kept[key], row=row)], 2**30)
    assert sweep(Direct(store), "m", DUE_MS, ZERO) == Swept(5, 3, 2)
    assert store.remembered("m") == (0, 0)
    assert len(labels(store)) == 3


def test_a_prediction_that_the_model_cannot_learn_is_forgotten() -> None:
    store, _ = waiting_store()
    unfit = Terms(
        0.0, NamesSeen(10), lambda parsed: dataclasses.replace(parsed, batch=take_rows(parsed.batch, np.zeros(0, np.int64)))
    )
    assert sweep(Direct(store), "m", DUE_MS, unfit) == Swept(5, 0, 5)
    assert logged(store) == []


def test_a_slice_is_bounded_and_the_earliest_come_first() -> None:
    store, _ = waiting_store(SLICE_ROWS)
    remember(store, 30, DUE_MS - 1, first=1000)
    assert sweep(Direct(store), "m", DUE_MS, NONE) == Swept(SLICE_ROWS, 0, SLICE_ROWS)
    assert {row.due_ms for row in store.due("m", DUE_MS, 999)} == {DUE_MS}
    assert sweep(Direct(store), "m", DUE_MS, NONE) == Swept(30, 0, 30)


def test_it_is_the_same_in_sqlite(tmp_path: Any) -> None:
    store = open_sqlite(tmp_path, sqlite_settings(ballast_bytes=2**16, reserve_bytes=2**10))
    create_model(store)
    remember(store, 5)
    with pytest.raises(KeyboardInterrupt):
        sweep(Dies(store), "m", DUE_MS, ZERO)
    store.close()
    again = open_sqlite(tmp_path, sqlite_settings(ballast_bytes=2**16, reserve_bytes=2**10))
    assert sweep(Direct(again), "m", DUE_MS, ZERO) == Swept(5, 0, 0)
    assert (again.remembered("m"), again.head("m").seq) == ((0, 0), 6)
    again.close()


# -- in the running service ----------------------------------------------------------------------------------------


async def test_the_service_gives_default_labels_by_itself_and_they_are_learnt(store: MemoryStore) -> None:
    async with serving(store, {**SMALL, "label_ttl_s": 60, "default_label": 0}) as node:
        rows = events(250)
        ids = await node.remember([row["features"] for row in rows])
        assert (await node.label(ids[0], 1)).accepted == 1
        node.clock.ahead_ms += 59_000
        await node.remember([RED])
        node.clock.ahead_ms += 2_000
        await node.until(lambda: node.tally().defaulted == 249)
        assert (node.tally().expired, node.tally().joined) == (0, 1)
        await node.service.wait_for("m", 251)
        assert node.service.published("m").figures["cumulative"]["examples"] == 250
        assert node.service.published("m").figures["cumulative"]["base_rate"] == 1 / 250
        assert await node.refusal(ids[1], 1) == "prediction_late"
        await node.until(lambda: node.tally().rows == 1)
    left = store.crash()
    assert labels(left) == [1.0] + [0.0] * 249
    report = replay(left, "m")
    assert report.equal
    assert report.compared  # the checkpoint of the clean stop, written by the process that gave the labels


async def test_a_default_label_can_be_changed_while_the_model_learns(node: Node, store: MemoryStore) -> None:
    await node.remember([RED])
    await node.admin.change("m", {"default_label": 1, "label_ttl_s": 5})
    [later] = await node.remember([RED])
    node.clock.ahead_ms += 6_000
    await node.until(lambda: store.remembered("m")[0] == 1)  # the first keeps the time that it was given
    await node.admin.change("m", {"default_label": None})
    node.clock.ahead_ms += 7 * DAY_MS
    await node.until(lambda: (node.tally().defaulted, node.tally().expired) == (1, 1))
    assert await node.refusal(later, 1) == "prediction_late"
    with pytest.raises(BadInput):
        await node.admin.change("m", {"default_label": 2})
    assert labels(store) == [1.0]


@pytest.mark.parametrize("document", [{**SMALL, "labels": "-1/+1", "default_label": -1}])
async def test_labels_of_minus_and_plus_one_have_such_a_default(node: Node, store: MemoryStore) -> None:
    await node.remember([RED])
    node.clock.ahead_ms += 8 * DAY_MS
    await node.until(lambda: node.tally().defaulted == 1)
    assert labels(store) == [0.0]


async def test_a_store_outage_is_survived() -> None:
    class Away(MemoryStore):
        away = False
        asked = 0

        def due(self, model: str, now_ms: int, rows_max: int) -> list[PendingPrediction]:
            if self.away:
                self.asked += 1
                raise Unavailable("the store does not answer", "store_unreachable")
            return super().due(model, now_ms, rows_max)

    store = Away()
    async with serving(store, {**SMALL, "default_label": 0}) as node:
        await node.remember([RED])
        store.away = True
        node.clock.ahead_ms += 8 * DAY_MS
        await node.until(lambda: store.asked > 1)
        store.away = False
        await node.until(lambda: node.tally().defaulted == 1)
        assert labels(store) == [0.0]


async def test_a_prediction_with_new_features_for_a_full_vocabulary_is_only_forgotten(store: MemoryStore) -> None:
    learner = {"kind": "taylor_sketch", "mode": "exact", "features_max": 3, "warm_up": 0, "ramp": 0.0, "block": 1}
    async with serving(store, {**SMALL, "learner": learner, "default_label": 0}) as node:
        await node.observe([{"features": {"a": 1.0, "b": 1.0}, "label": 1}] * 5)
        await node.until(lambda: node.service.published("m").closed_vocabulary is not None)
        one, _, _ = await node.remember([{"c": 1.0}, {"a": 1.0}, {"d": 1.0}])
        assert await node.refusal(one, 1) == "vocabulary_full"
        node.clock.ahead_ms += 8 * DAY_MS
        await node.until(lambda: node.tally().expired == 2)
        assert (node.tally().defaulted, node.tally().joined) == (1, 0)
        assert node.service.published("m").skipped == 0
        assert labels(store) == [1.0] * 5 + [0.0]


async def test_a_dropped_model_does_not_stop_the_others(node: Node) -> None:
    for name in ("a", "b", "z"):
        await node.admin.put_model(name, {"default_label": 1})
        await node.remember([RED] * 150, name)
    node.clock.ahead_ms += 8 * DAY_MS
    await node.admin.drop_model("b")
    await node.until(lambda: node.tally("z").defaulted == 150 == node.tally("a").defaulted)
    assert "b" not in node.service.remembered()


async def test_only_the_owner_of_the_store_sweeps(node: Node, store: MemoryStore) -> None:
    await node.remember([RED])
    await node.until(lambda: node.tally().rows == 1)
    node.engine.fatal = "the learning thread has ended"
    node.clock.ahead_ms += 8 * DAY_MS
    await node.until(lambda: node.tally().rows is None)
    await asyncio.sleep(0.1)
    assert store.remembered("m")[0] == 1
    node.engine.fatal = None
    await node.until(lambda: node.tally().expired == 1)
