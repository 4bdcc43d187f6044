"""A start serves each model at once from its newest checkpoint, and learns the rest of its log meanwhile."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from riata.base.errors import Busy, NotFound
from riata.run.served_model import Coming
from riata.run.state.config import Change
from riata.run.state.damage import ModelDamaged
from riata.run.state.model_state import ModelState
from riata.run.state.recovery import Recovery
from riata.run.state.replay import replay
from riata.run.state.starting import Looked, Stand, Starting
from riata.store import records
from riata.store.store import Append
from riata.wire.batch import Batch
from tests.doubles.memory_store import Faults, MemoryStore
from tests.run.events import CONFIG, here, random_batch
from tests.run.node import SMALL, Node, build, events, replayed, serving
from tests.run.promotions import another_state, promotion
from tests.run.test_recovery import acquire, save

MODELS = ("a", "b", "slow")
SAVED = 31  # events of each model in its checkpoint: the configuration, and 30 rows
LATE = 20  # rows after it


class Dam:
    """Holds up every step of some models until `open`; the other threads go on."""

    def __init__(self, *models: str) -> None:
        self.models = set(models)
        self.reached = threading.Event()
        self._opened = threading.Event()

    def open(self) -> None:
        self._opened.set()

    def before(self, state: ModelState) -> None:
        if state.name in self.models:
            self.reached.set()
            self._opened.wait()


@asynccontextmanager
async def starting(store: MemoryStore, monkeypatch: pytest.MonkeyPatch, *held: str) -> AsyncIterator[tuple[Node, Dam]]:
    """A service that starts on a store while models are held up."""
    learn, dam, node = ModelState.learn, Dam(*held), build(store, min_seq_wait_ms=20_000)

    def late(self: ModelState, first: int, batches: Sequence[Batch], skips: frozenset[int]) -> dict[int, str]:
        dam.before(self)
        return learn(self, first, batches, skips)

    with monkeypatch.context() as patch:
        patch.setattr(ModelState, "learn", late)
        await node.service.start()
        try:
            yield node, dam
        finally:
            dam.open()  # learning has to end before the service can
            await node.service.stop()


def stored(models: Sequence[str] = MODELS, saved: Sequence[str] = MODELS) -> MemoryStore:
    """A store of models that have learnt 30 rows, with a checkpoint of those in `saved`, and then 20 rows more."""
    store, owner = MemoryStore(), None
    for number, name in enumerate(models):
        rng = np.random.default_rng(number)
        store.create(name, bytes([number + 1]) * 16)
        store.append([Append(name, "config", 0, payload=Change(CONFIG).payload())])
        for _ in range(3):
            store.append([Append(name, "observe", 0, random_batch(rng, 10))])
        if name in saved:
            owner = owner or acquire(store)
            assert save(store, owner, Recovery(here(store), owner, lambda: 0).recover(name).state)
        for _ in range(LATE // 5):
            store.append([Append(name, "observe", 0, random_batch(rng, 5))])
    return store


def row() -> dict[str, Any]:
    return events(1)[0]


def equal_after_all(store: MemoryStore, *models: str) -> None:
    """The next process finds logs that replay to their checkpoints."""
    for model in models:
        report = replay(store.crash(), model)
        assert report.compared
        assert report.equal


async def test_a_model_that_replays_for_long_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    store = stored(("slow",))
    async with starting(store, monkeypatch, "slow") as (node, dam):
        published = node.service.published("slow")
        assert (published.applied, published.model.seq, published.replaying) == (SAVED, SAVED, True)
        await asyncio.to_thread(dam.reached.wait)
        health = node.service.health()
        assert (health.ready, health.started) == (True, True)
        assert health.replaying == {"slow": (SAVED, SAVED + LATE)}
        assert health.models["slow"].seq_logged == SAVED + LATE
        with pytest.raises(Busy, match="not served yet") as late:
            await node.engine.wait_for("slow", SAVED + LATE, 50)
        assert late.value.code == "not_yet"
        assert (await node.observe([row()], "slow", wait_applied=False)).accepted == 1  # the log takes them
        assert node.service.published("slow").applied == SAVED
        waiting = asyncio.create_task(node.service.wait_for("slow", SAVED + LATE + 1))
        dam.open()
        published = await waiting
        assert (published.applied, published.replaying) == (SAVED + LATE + 1, False)
        await replayed(node.engine)
        assert node.service.health().replaying == {}
        assert (await node.observe([row()], "slow")).applied  # and from here on as always
    assert store.crash().generations("slow")[0].applied == SAVED + LATE + 2
    equal_after_all(store, "slow")


async def test_every_model_is_served_at_once_from_its_own_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    store = stored()
    async with starting(store, monkeypatch, "slow") as (node, dam):
        for model in MODELS:
            assert node.service.published(model).applied >= SAVED
        dam.open()
        await replayed(node.engine)
    equal_after_all(store, *MODELS)


async def test_a_model_without_a_checkpoint_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    store = stored(saved=("a", "b"))
    async with starting(store, monkeypatch, "slow") as (node, dam):
        assert node.service.published("a").applied >= SAVED
        await asyncio.to_thread(dam.reached.wait)
        for ask in (node.service.published, node.service.describe):
            with pytest.raises(Busy, match=r"model slow is not served yet: .*event \d+ of 51") as refused:
                ask("slow")
            assert refused.value.code == "not_ready"
        assert [line["name"] for line in node.service.models()] == ["a", "b", "default", "slow"]
        assert node.service.health().ready
        dam.open()
        await replayed(node.engine)
        assert node.service.published("slow").applied == SAVED + LATE
    equal_after_all(store, "slow")


@asynccontextmanager
async def starting_slowly(
    monkeypatch: pytest.MonkeyPatch, held: str, asked: str = ""
) -> AsyncIterator[tuple[Node, threading.Event, list[str]]]:
    """A start on a store without checkpoints that stands before the look at `held`, until the event is set.

    asked : a model that is asked for while it is looked at. Yields the node, the event and the order of the looks."""
    looked: list[str] = []
    reached, opened = threading.Event(), threading.Event()
    look = Starting._look_at

    def late(self: Starting, coming: Coming, stand: Stand) -> Looked:
        looked.append(coming.name)
        if coming.name == asked:
            self._context.catalogue.asked = asked
        if coming.name == held:
            reached.set()
            opened.wait()
        return look(self, coming, stand)

    with monkeypatch.context() as patch:
        patch.setattr(Starting, "_look_at", late)
        node = build(stored(saved=()))
        started = asyncio.create_task(node.service.start())
        try:
            await asyncio.to_thread(reached.wait)
            yield node, opened, looked
        finally:
            opened.set()
            await started
            await node.service.stop()


async def test_a_small_model_without_a_checkpoint_learns_before_the_others_if_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with starting_slowly(monkeypatch, "slow", asked="b") as (node, opened, looked):
        while "b" in node.engine.context.catalogue.coming:
            await asyncio.sleep(0.002)
        assert node.service.published("b").applied == SAVED + LATE
        assert not node.engine.started
        for model in ("a", "slow"):
            with pytest.raises(Busy, match=f"model {model} is not served yet"):
                node.service.published(model)
        assert "2 of 3 models" in node.service.health().reasons[0]
        opened.set()
        await replayed(node.engine)
        assert [node.service.published(model).applied for model in ("a", "slow")] == [SAVED + LATE] * 2
    assert looked == ["a", "b", "slow"]


async def test_a_request_for_a_model_that_is_not_looked_at_yet_waits_for_it_and_has_it_looked_at_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with starting_slowly(monkeypatch, "a") as (node, opened, looked):
        asking = asyncio.create_task(node.service.await_arrival("slow"))
        while node.engine.context.catalogue.asked != "slow":
            await asyncio.sleep(0.002)
        opened.set()
        while "slow" in node.engine.context.catalogue.coming:
            await asyncio.sleep(0.002)
        await asking
        assert node.service.published("slow").applied == SAVED + LATE
    assert looked == ["a", "slow", "b"]


async def test_a_service_that_serves_no_model_yet_is_not_ready_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    store = stored(("default",), saved=())
    async with starting(store, monkeypatch, "default") as (node, dam):
        health = node.service.health()
        assert (health.started, health.ready) == (True, False)
        assert "model default is not served yet: its log is being learnt, event" in health.reasons[0]
        dam.open()
        await replayed(node.engine)
        assert node.service.health().ready


def control(store: MemoryStore, kind: str) -> Append:
    """An event of `slow` after which a state from before it is not to be served; its process crashed before it saved that."""
    if kind == "config":
        return Append("slow", "config", 0, payload=Change(CONFIG).payload())
    if kind == "promotion":
        return promotion(another_state(store, SAVED + LATE, "slow"), "slow")
    before = replay(store, "slow", to=SAVED - 10).state.freeze()
    return Append("slow", "restore", 0, payload=records.encode_restore({"generation": 1, "to": SAVED - 10}, before.encode()))


@pytest.mark.parametrize("kind", ["config", "restore", "promotion"])
@pytest.mark.parametrize("held", ["", "a"])
async def test_a_state_from_before_a_control_event_is_never_served(monkeypatch: pytest.MonkeyPatch, held: str, kind: str) -> None:
    """What stands between the checkpoint and the event is learnt first; what comes after it, while the model is served."""
    store = stored()
    seq = store.append([control(store, kind)])[0].seq
    for _ in range(4):
        store.append([Append("slow", "observe", 0, random_batch(np.random.default_rng(9), 5))])
    async with starting(store, monkeypatch, held or "slow") as (node, dam):
        if not held:
            with pytest.raises(Busy, match="model slow is not served yet: its log is being learnt"):
                node.service.published("slow")
        dam.open()
        while node.engine.context.catalogue.coming:
            await asyncio.sleep(0)
        assert node.service.published("slow").applied >= seq
        await replayed(node.engine)
    equal_after_all(store, "slow")


def make_unreadable(store: MemoryStore, model: str, at: int) -> int:
    """Cut the payload of a record of a log, and give it the right digests. Returns its first event."""
    kept = store._kept.models[model]
    changed = dataclasses.replace(kept.log[at], payload=kept.log[at].payload[:10])
    digest = records.record_digest(changed.kind, changed.count, changed.accepted_ms, changed.payload)
    chain = kept.log[at - 1].chain
    for place in range(len(kept.log) + at, len(kept.log)):
        one = dataclasses.replace(changed, digest=digest) if place == len(kept.log) + at else kept.log[place]
        chain = records.next_chain(chain, one.digest)
        kept.log[place] = dataclasses.replace(one, chain=chain)
    kept.head = dataclasses.replace(kept.head, chain=chain)
    return changed.first


@pytest.mark.parametrize("checkpoint", [True, False])
async def test_a_record_that_cannot_be_read_after_what_is_served_damages_that_model_alone(
    monkeypatch: pytest.MonkeyPatch, checkpoint: bool
) -> None:
    """Its digest is right, so nobody has found it before it is learnt."""
    store = stored(saved=MODELS if checkpoint else ("a", "b"))
    event = make_unreadable(store, "slow", -3)
    async with starting(store, monkeypatch) as (node, _):
        while "slow" not in node.service.health().damaged:
            assert node.engine.fatal is None
            await asyncio.sleep(0.002)
        assert f"model slow is damaged at event {event}" in node.service.health().damaged["slow"]
        for ask in (node.service.published, node.service.describe):
            with pytest.raises(ModelDamaged):
                ask("slow")
        await replayed(node.engine)
        for model in ("a", "b"):
            assert (await node.observe([row()], model)).applied
        assert node.service.health().ready
    equal_after_all(store, "a", "b")
    assert store.crash().head("slow").seq == SAVED + LATE  # it is left as it was


async def test_a_model_that_replays_can_be_dropped_and_created_again(monkeypatch: pytest.MonkeyPatch) -> None:
    store = stored(saved=("a", "b"))
    async with starting(store, monkeypatch, "slow") as (node, dam):
        await asyncio.to_thread(dam.reached.wait)
        await node.admin.drop_model("slow")
        with pytest.raises(NotFound):
            node.service.published("slow")
        assert "slow" not in store.models()
        dam.open()
        created, _ = await node.admin.put_model("slow", {"encoder": {"bits": 12}})
        assert created
        assert (await node.observe([row()], "slow")).seq == 2
        await replayed(node.engine)
        assert not node.fatal


async def test_a_start_that_is_stopped_while_it_replays_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    store = stored()
    for stops in range(3):
        async with starting(store, monkeypatch) as (node, _):
            if stops == 2:
                await replayed(node.engine)
                assert node.service.published("slow").applied == SAVED + LATE
        store = store.crash()
    equal_after_all(store, "slow")


async def served(node: Node, name: str) -> None:
    while (one := node.engine.served_models.get(name)) is None or one.published is None:
        await asyncio.sleep(0.001)


async def test_a_challenger_that_is_dropped_before_its_leader_is_served_is_no_longer_followed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = MemoryStore(faults=Faults(lossy=True))
    async with serving(store) as node:
        await node.observe(events(10))
        await node.admin.put_model("b", {"follow": "m"})
        await node.observe(events(20, seed=1))
        store.sync()  # and lose the checkpoints of the stop
    store = store.crash()
    async with starting(store, monkeypatch, "m") as (node, dam):
        await asyncio.to_thread(dam.reached.wait)
        await served(node, "b")
        with pytest.raises(Busy):
            node.service.published("m")
        await node.admin.drop_model("b")
        await node.admin.put_model("b", SMALL)
        end = store.head("b").seq
        dam.open()
        await served(node, "m")
        await node.observe(events(30, seed=2))
        assert store.head("b").seq == end
        await node.admin.put_model("b", {"follow": "m"})
        began = store.head("b").seq
        await node.observe(events(40, seed=3))
        await node.engine.led("this test").settle()
        (listed,) = node.service.describe("m")["challengers"]
        assert (listed["events"], store.head("b").seq) == (40, began + 40)
        assert node.engine.published("m").pairs.challengers == ("b",)
