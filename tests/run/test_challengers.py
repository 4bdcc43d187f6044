"""A model follows another: it learns copies of its events under other settings, is compared with it, and takes its place."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from riata.base.errors import BadInput, Busy, Conflict, NotFound, RiataError, Unavailable
from riata.learn.learner import Stepped
from riata.run.candidates.challengers import Backfilling, at_the_seam, learn_past
from riata.run.candidates.judging import BLOCKS, event_losses
from riata.run.candidates.pairs import COMPARED, OWN, Pairs, SharedEvents, comparison
from riata.run.changing import append_and_serve
from riata.run.engine_context import aside
from riata.run.log.log_reading import read_log
from riata.run.state.config import Change
from riata.run.state.model_state import ModelState, unlogged
from riata.run.state.replay import in_this_thread, replay
from riata.store.store import Append, Record
from tests.doubles.memory_store import Faults, MemoryStore
from tests.run.node import SMALL, Node, events, serving

FOLLOWS: dict[str, Any] = {"follow": "m", "learner": {"eta": 0.1}}


def rows_of(store: MemoryStore, model: str) -> list[Record]:
    return [record for record in store.read(model, 0, 2**30) if record.kind == "observe"]


def assert_copied(store: MemoryStore, first: int) -> None:
    """The log of b has each record of m from event `first` on, once, and nothing else; both logs replay to the bits learnt."""
    of_leader = [record.digest for record in rows_of(store, "m") if record.first >= first]
    assert [record.digest for record in rows_of(store, "b")] == of_leader
    assert replay(store, "m").equal
    assert replay(store, "b").equal


async def test_a_challenger_learns_what_its_leader_is_sent_and_takes_its_place_by_one_event(store: MemoryStore) -> None:
    began: list[int] = []
    async with serving(store) as node:
        await node.observe(events(300))
        sending = asyncio.gather(*(node.observe(events(20, seed=seed, first_id=20 * seed)) for seed in range(1, 20)))
        created, config = await node.admin.put_model("b", FOLLOWS)
        began.append(node.engine.published("m").changes[-1])
        assert created
        assert config == replace(node.engine.published("m").config, learner=config.learner)
        await sending
        await node.observe(events(40, seed=1, first_id=20))  # 20 of them are known to the leader, and count once for both
        await node.observe(events(600, seed=99))
        await node.engine.led("this test").settle()
        followed = node.service.describe("b")["follow"]
        (listed,) = node.service.describe("m")["challengers"]
        assert followed == {"model": "m", "events": listed["events"], "lag_events": 0, "detached": False}
        assert listed["compared"] <= listed["events"] == sum(record.count for record in rows_of(store, "b"))
        assert_copied(store, began[0])
        slot = int(node.engine.published("b").model.weights.slot[0])
        assert node.service.names("b").in_slot(slot, 12)  # names came before it followed
        with pytest.raises(Conflict, match="follows m"):
            await node.observe(events(1), "b")
        with pytest.raises(Conflict, match="follows m"):
            await node.service.remember("b", [b""])
        with pytest.raises(Conflict, match="follows m"):
            node.service.observe_soon("b", b"{}", "application/json", None, lambda _observed: None)
    store = store.crash()
    async with serving(store) as node:
        await node.observe(events(100, seed=100))
        assert node.service.describe("b")["follow"]["detached"] is False
        with pytest.raises(Conflict, match="promote it by force"):
            await node.admin.promote("m", "b", False)
        sending = asyncio.gather(*(node.observe(events(5, seed=seed)) for seed in range(200, 220)))
        promoted = await node.admin.promote("m", "b", True)
        await sending
        await node.engine.led("this test").settle()
        assert (promoted["challenger"], promoted["forced"]) == ("b", True)
        m, b = node.engine.published("m"), node.engine.published("b")
        assert m.config == b.config
        assert m.figures["cumulative"]["examples"] == sum(record.count for record in rows_of(node.store, "m"))
        assert m.pairs.shared["b"].losses.events == b.pairs.shared[OWN].losses.events
        assert m.pairs.shared["b"].chain == b.pairs.shared[OWN].chain
        assert m.model.weights.beta.tobytes() == b.model.weights.beta.tobytes()
        newest = (await node.service.changes("m"))[0]
        assert (newest["kind"], newest["source"]["challenger"]) == ("promoted", "b")
        assert (await node.service.changes("b"))[-2]["source"] == {"follow": "m"}
        assert_copied(node.store, began[0])
        with pytest.raises(Conflict, match="b learn the events of model m"):
            await node.admin.drop_model("m")
        await node.admin.drop_model("b")
        await node.observe(events(10, seed=300))
        assert node.service.describe("m")["challengers"] == []
        await node.admin.drop_model("m")


async def test_the_difference_is_that_of_the_losses_event_by_event(store: MemoryStore) -> None:
    found: list[dict[str, Any]] = []
    async with serving(store) as node:
        await node.admin.put_model("b", {"follow": "m", "learner": {"eta": 0.001}})
        for seed in range(8):
            await node.observe(events(200, seed=seed))
        await node.engine.led("this test").settle()
        found.append(node.service.describe("m")["challengers"][0])
    store, losses = store.crash(), []
    for model in ("m", "b"):
        state = ModelState(model, store.head(model).lineage)
        seen: list[Stepped] = []
        state.on_learnt = seen.append
        for record in read_log(in_this_thread(store), model, 0):
            state.apply(record)
        losses.append(np.concatenate([event_losses(one, "logistic") for one in seen]))
    difference = losses[1] - losses[0]
    assert found[0]["compared"] == len(difference) == 1600
    assert found[0]["difference"] == pytest.approx(difference.mean())
    blocks = difference.reshape(BLOCKS * 2, -1).mean(axis=1) if len(difference) % (2 * BLOCKS) == 0 else difference
    assert found[0]["standard_error"] == pytest.approx(blocks.std(ddof=1) / np.sqrt(len(blocks)))
    assert found[0]["interval"][0] > 0.0  # steps this small cost something


async def test_a_challenger_may_learn_the_log_of_its_leader_first(store: MemoryStore) -> None:
    async with serving(store) as node:
        for seed in range(6):
            await node.observe(events(600, seed=seed))
        sending = asyncio.gather(*(node.observe(events(20, seed=seed)) for seed in range(10, 40)))
        node.engine.jobs.patience_s = 0.0
        with pytest.raises(Backfilling, match="learns the log of m first") as backfilling:
            await node.admin.put_model("b", {**FOLLOWS, "backfill": True}, patient=False)
        created, _ = await node.admin.put_model("b", {**FOLLOWS, "backfill": True})
        assert not created  # by the first call
        job = backfilling.value.job.document()
        assert (job["kind"], job["model"], job["state"], job["result"]["follow"]) == ("backfill", "b", "done", "m")
        await sending
        await node.observe(events(50, seed=99))
        await node.engine.led("this test").settle()
        m, b = node.engine.published("m"), node.engine.published("b")
        assert b.figures["cumulative"]["examples"] == m.figures["cumulative"]["examples"] == 3600 + 600 + 50
        (listed,) = node.service.describe("m")["challengers"]
        assert 50 <= listed["events"] <= 650  # those of the log are not compared with what the leader was when it learnt them
        told = (await node.service.changes("b"))[1]
        assert (told["kind"], told["source"]["backfill"]) == ("backfilled", "m")
        assert 3600 <= told["source"]["events"] <= 4200
        assert told["source"]["interval"][0] < told["source"]["difference"] < told["source"]["interval"][1]
        assert set(listed["past"]) == set(COMPARED)
        assert listed["past"]["measure"] == "log loss"
        assert listed["past"] == {**listed["past"], **{name: told["source"][name] for name in ("difference", "interval")}}
        assert node.service.describe("b")["challengers"] == []
        saved = await node.admin.snapshot_now("b")
        content = await node.engine.call(lambda store: store.open_generation("b", saved["generation"]))
        assert ModelState.of(content).observers[Pairs].past == listed["past"]
        slot = int(b.model.weights.slot[0])
        assert node.service.names("b").in_slot(slot, 12)
        assert (await node.admin.promote("m", "b", True))["promoted"]
    store = store.crash()
    config = replay(store, "b").state.config
    once = ModelState("once", store.head("m").lineage)  # learns what was sent, in the order of the log, under the settings of b
    once.apply(unlogged(once, "config", 1, Change(config, after=0).payload()))
    for record in rows_of(store, "m"):
        once.apply(replace(record, first=once.applied + 1))
    for model in ("b", "m"):
        report = replay(store, model)
        assert report.equal
        for name, array in once.learner.freeze().items():
            assert report.state.learner.freeze()[name].tobytes() == array.tobytes(), (model, name)


async def test_a_backfill_is_for_the_log_that_it_has_learnt(node: Node) -> None:
    with pytest.raises(BadInput, match="backfill: expected true or false"):
        await node.admin.put_model("b", {**FOLLOWS, "backfill": 1})
    await node.admin.put_model("b", {**FOLLOWS, "backfill": True})  # there is nothing to be learnt
    assert node.service.describe("b")["follow"]["events"] == 0
    await node.observe(events(300))
    config, call = node.engine.published("m").config, node.engine.context.log_thread.call
    learnt = await aside(learn_past, call, "m", config, config, lambda _share: None)
    assert learnt is not None
    assert [one.kind for one in await node.engine.call(lambda s: at_the_seam(s, learnt, "c", 0))] == ["restore"]
    await node.observe(events(5, seed=1))
    assert [one.kind for one in await node.engine.call(lambda s: at_the_seam(s, learnt, "c", 0))] == ["restore", "observe"]
    await node.admin.change("m", {"publish_every_ms": 3})
    with pytest.raises(Busy, match="kind config; try again"):
        await node.engine.call(lambda s: at_the_seam(s, learnt, "c", 0))


async def test_a_store_that_dies_has_a_record_and_its_copy_or_neither() -> None:
    for fault in ("appends_lost", "appends_written"):
        store = MemoryStore(faults=Faults())
        async with serving(store) as node:
            await node.admin.put_model("b", FOLLOWS)
            await node.observe(events(50))
            setattr(node.store.faults, fault, 1)
            with pytest.raises(Unavailable):
                await node.observe(events(50, seed=1))
            node.fatal.clear()
        store = store.crash()
        async with serving(store) as node:
            await node.observe(events(50, seed=2))
        store = store.crash()
        assert len(rows_of(store, "b")) == (2 if fault == "appends_lost" else 3)
        assert_copied(store, 2)


async def test_what_cannot_follow_says_why(node: Node) -> None:
    async def refused(kind: type[RiataError], said: str, model: str, **document: Any) -> None:
        with pytest.raises(kind, match=said):
            await node.admin.put_model(model, document)

    await node.observe(events(10))
    await refused(NotFound, "no model named 'nobody'", "b", follow="nobody")
    await refused(BadInput, "expected the name of a model", "b", follow=3)
    await refused(Conflict, "does not follow itself", "m", follow="m")
    await refused(Conflict, "default model follows none", "default", follow="m")
    await refused(Conflict, r"encoder\.bits: rows are stored as model m encoded them", "b", follow="m", encoder={"bits": 13})
    await refused(BadInput, "learner.etta", "b", follow="m", learner={"etta": 1.0})
    await node.admin.put_model("other", {"encoder": {"bits": 12}})
    await node.observe(events(10), "other")
    await refused(Conflict, "has another history", "other", follow="m")
    await node.admin.put_model("b", FOLLOWS)
    assert await node.admin.put_model("b", {"follow": "m", "publish_every_ms": 7}) == (
        False,
        node.engine.published("b").config,
    )
    assert node.engine.published("b").config.publish_every_ms == 7
    await refused(Conflict, "follow m", "c", follow="b")
    await node.admin.put_model("squared", {"encoder": {"bits": 12}, "learner": {"loss": "squared"}})
    await refused(Conflict, "losses are of different kinds", "squared", follow="m")
    for name in ("c", "d", "e"):
        await node.admin.put_model(name, {"follow": "m"})
    await refused(Conflict, "4 challengers, the maximum", "f", follow="m")
    with pytest.raises(Conflict, match="its challengers: b, c, d, e"):
        await node.admin.promote("m", "other", True)


async def test_a_challenger_that_lacks_events_is_not_promoted_and_detached_at_the_next_start(store: MemoryStore) -> None:
    async with serving(store) as node:
        await node.admin.put_model("b", FOLLOWS)
        await node.observe(events(50))
        node.engine.context.log_thread.followers.clear()  # as if events had not been copied
        await node.observe(events(50, seed=1))
        with pytest.raises(Conflict, match="has not learnt the same events"):
            await node.admin.promote("m", "b", True)
    store = store.crash()
    async with serving(store) as node:
        await node.observe(events(10, seed=2))
        assert node.service.describe("m")["challengers"] == []
        assert node.service.describe("b")["follow"] == {"model": "m", "events": 50, "lag_events": 0, "detached": True}
        assert (await node.service.changes("m"))[0]["source"] == {"challengers": []}
        with pytest.raises(Conflict, match="has not learnt the same events"):
            await node.admin.put_model("b", {"follow": "m"})
        await node.admin.drop_model("b")
        await node.admin.put_model("b", SMALL)
        await node.observe(events(10, seed=3))
        assert node.engine.published("b").applied == 1  # another model of this name gets nothing
    assert replay(store.crash(), "m").equal


async def test_a_model_whose_leader_does_not_name_it_yet_joins_when_the_request_comes_again(
    node: Node, store: MemoryStore
) -> None:
    """Version 0.2.0 logged the two events one after the other, and may have been killed between them."""

    await node.observe(events(50))
    await node.admin.put_model("b", SMALL)
    follows = Change(node.engine.published("b").config, follow="m").payload()
    await append_and_serve(node.engine, Append("b", "config", 0, payload=follows))
    assert node.service.describe("b")["follow"]["detached"] is True
    before = store.head("b").seq
    await node.admin.put_model("b", {"follow": "m"})
    assert (store.head("b").seq, node.service.describe("b")["follow"]["detached"]) == (before, False)
    began = store.head("m").seq
    await node.observe(events(50, seed=1))
    assert_copied(store, began)


def test_losses_of_another_kind_and_of_refused_events_do_not_count() -> None:
    pairs = Pairs("logistic")
    pairs.configure(None, ("b",))
    assert pairs.challengers == ("b",)
    one, other = SharedEvents("logistic"), SharedEvents("logistic")
    rng = np.random.default_rng(0)
    for start in range(0, 6400, 100):
        loss, weight = rng.uniform(0.1, 1.0, 100), np.ones(100)
        one.losses.add(loss, weight)
        refused = np.where(np.arange(start, start + 100) == 320, 0.0, weight)
        other.losses.add(loss + 0.25, refused)
    found = comparison(one, other)
    assert (found["compared"], found["difference"]) == (6400 - 64, pytest.approx(0.25))
    thawed = SharedEvents.thaw("logistic", other.freeze())
    assert comparison(one, thawed) == found
    with pytest.raises(ValueError, match="another size"):
        SharedEvents.thaw("logistic", {**other.freeze(), "sums": np.zeros(3)})
    with pytest.raises(ValueError, match="not possible"):
        SharedEvents.thaw("logistic", {**other.freeze(), "counts": np.array([3, 100])})
