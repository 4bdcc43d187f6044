"""A candidate takes the place of the learner of a running service, which goes on accepting events meanwhile."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from riata.base.errors import Busy, Conflict, Unavailable
from riata.run.candidates import promotion as module
from riata.run.candidates.judging import Verdict
from riata.run.candidates.promotion import promote
from riata.run.log.log_reading import read_again
from riata.run.state.model_state import ModelState
from riata.run.state.replay import replay
from riata.run.writer import learning
from riata.store import records
from riata.store.store import Append
from tests.doubles.memory_store import MemoryStore
from tests.run.node import Node, events, serving
from tests.run.promotions import another_state, learnt, straight

BETTER: Verdict = {"decision": "PROMOTE", "why": "it is better", "events": 9}
WORSE: Verdict = {"decision": "REJECT", "why": "it is worse", "events": 9}


def candidate(node: Node) -> ModelState:
    """A state of the log's last event with another learner."""
    frozen = another_state(node.store, node.store.head("m").seq)
    return ModelState.thaw(frozen.header, frozen.arrays)


def promotions(node: Node) -> list[dict[str, Any]]:
    """What the promotions in the log say."""
    log = node.store.read("m", 0, 2**30)
    return [records.decode_restore(record.payload)[0] for record in log if record.kind == "restore"]


async def test_a_candidate_learns_what_came_after_it_and_is_served_and_replayed_to_the_same_bits(store: MemoryStore) -> None:
    async with serving(store) as node:
        await node.observe(events(200))
        made = candidate(node)
        frozen = made.freeze()
        await node.observe(events(60, seed=1))
        promoted = await promote(node.engine, "m", made, BETTER, {"refit": "r1"})
        assert (promoted["through"], promoted["seq"]) == (261, 262)
        await node.observe(events(30, seed=2))
        await node.engine.save("m")
        published = node.engine.published("m")
        assert published.applied == 292
        assert published.figures["cumulative"]["examples"] == 290
        assert promotions(node) == [{"refit": "r1", "of": 201, "forced": False, "verdict": BETTER}]
        report = replay(store, "m")
        assert report.equal
        assert learnt(report.state) == straight(frozen, store.read("m", 0, 2**30))
        weights = report.state.learner.weights()
        assert published.model.weights.beta.tobytes() == weights.beta.tobytes()
    async with serving(store.crash()) as node:
        assert node.engine.published("m").applied == 292
        assert node.engine.published("m").figures["cumulative"]["examples"] == 290


async def test_events_that_arrive_while_a_candidate_is_promoted_are_acknowledged_and_count_once(
    node: Node, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They come after the checkpoint that the promotion carries, and before its event."""

    await node.observe(events(200))
    made = candidate(node)
    frozen = made.freeze()
    begun, go_on = threading.Event(), threading.Event()
    catch_up = module.catch_up

    def waiting(*asked: Any) -> None:
        catch_up(*asked)
        begun.set()
        go_on.wait()

    monkeypatch.setattr(module, "catch_up", waiting)
    promoting = asyncio.create_task(promote(node.engine, "m", made, BETTER, {"refit": "r1"}))
    await asyncio.to_thread(begun.wait)
    for seed in range(5):
        assert (await node.observe(events(20, seed=seed))).applied
    go_on.set()
    promoted = await promoting
    assert (promoted["through"], promoted["seq"]) == (201, 302)
    await node.observe(events(30, seed=9))
    assert node.engine.published("m").figures["cumulative"]["examples"] == 330
    report = replay(store, "m")
    assert learnt(report.state) == straight(frozen, store.read("m", 0, 2**30))
    assert node.engine.published("m").model.weights.beta.tobytes() == report.state.learner.weights().beta.tobytes()


async def test_only_a_better_candidate_is_promoted_unless_it_is_forced_and_that_is_in_the_log(node: Node) -> None:
    await node.observe(events(100))
    with pytest.raises(Conflict, match=r"REJECT: it is worse; .* by force") as refused:
        await promote(node.engine, "m", candidate(node), WORSE, {"refit": "r1"})
    assert refused.value.code == "not_promoted"
    assert promotions(node) == []
    promoted = await promote(node.engine, "m", candidate(node), WORSE, {"refit": "r1"}, force=True)
    (logged,) = promotions(node)
    assert (promoted["forced"], logged["forced"], logged["verdict"]["decision"]) == (True, True, "REJECT")


@pytest.mark.parametrize("change", ["configured", "restored", "promoted", "created again"])
async def test_an_outdated_candidate_is_refused(node: Node, change: str) -> None:
    await node.observe(events(100))
    made, other = candidate(node), candidate(node)
    if change == "configured":
        await node.admin.change("m", {"publish_every_ms": 2})
    elif change == "restored":
        await node.admin.restore("m", (await node.admin.snapshot_now("m"))["generation"])
    elif change == "promoted":
        await promote(node.engine, "m", other, BETTER, {"refit": "r2"})
    else:
        await node.admin.drop_model("m")
        await node.admin.put_model("m", {"encoder": {"bits": 12}})
        await node.observe(events(100))
    seq = node.store.head("m").seq
    with pytest.raises(Conflict) as refused:
        await promote(node.engine, "m", made, BETTER, {"refit": "r1"})
    assert refused.value.code == "refit_outdated"
    assert node.store.head("m").seq == seq


async def test_a_change_that_comes_between_the_checkpoint_and_the_event_wins(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log decides: the promotion is in it, and void."""

    await node.observe(events(100))
    made = candidate(node)
    carried = node.store.open_generation("m", (await node.admin.snapshot_now("m"))["generation"])
    catch_up = module.catch_up

    def meanwhile(*asked: Any) -> None:
        catch_up(*asked)
        append = Append("m", "restore", 0, payload=records.encode_restore({}, carried))
        node.engine.context.log_thread.submit(append, lambda _answer: None)

    monkeypatch.setattr(module, "catch_up", meanwhile)
    with pytest.raises(Conflict, match="changed while") as refused:
        await promote(node.engine, "m", made, BETTER, {"refit": "r1"})
    assert refused.value.code == "refit_outdated"
    assert len(promotions(node)) == 2
    assert node.engine.published("m").changes == (1, 102)
    await node.observe(events(10))
    assert replay(node.store, "m").equal


async def test_a_candidate_of_events_that_the_log_no_longer_continues_is_refused(node: Node) -> None:
    await node.observe(events(100))
    made = candidate(node)
    for _ in range(3):
        await node.observe(events(50))
        await node.engine.save("m")
    owner = node.engine.led("a test").owner
    await node.engine.call(lambda s: s.trim(owner, "m", 3, 0))
    with pytest.raises(Conflict, match="trimmed") as refused:
        await promote(node.engine, "m", made, BETTER, {"refit": "r1"})
    assert refused.value.code == "refit_outdated"


async def test_a_log_that_grows_faster_than_it_is_saved_is_not_promoted_into(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    await node.observe(events(100))
    made = candidate(node)
    monkeypatch.setattr(module, "BEHIND_MAX", -1)
    with pytest.raises(Busy, match="within -1 events") as refused:
        await promote(node.engine, "m", made, BETTER, {"refit": "r1"})
    assert refused.value.code == "candidate_behind"


async def test_the_state_before_a_promotion_can_be_restored(node: Node) -> None:
    await node.observe(events(100))
    before = node.engine.published("m").model.weights.beta.tobytes()
    await promote(node.engine, "m", candidate(node), BETTER, {"refit": "r1"})
    assert node.engine.published("m").model.weights.beta.tobytes() != before
    generations: list[Any] = await node.engine.call(lambda s: s.generations("m"))
    await node.admin.restore("m", next(one.gen for one in generations if one.applied == 101))
    assert node.engine.published("m").model.weights.beta.tobytes() == before


async def test_an_export_after_a_promotion_is_the_promoted_state(node: Node) -> None:
    await node.observe(events(100))
    await promote(node.engine, "m", candidate(node), BETTER, {"refit": "r1"})
    await node.observe(events(20, seed=3))
    content = await node.admin.export("m")
    await node.admin.import_model("copy", content)
    copy, original = (node.engine.published(name).model.weights for name in ("copy", "m"))
    assert copy.beta.tobytes() == original.beta.tobytes()


async def test_a_store_that_does_not_answer_while_events_are_learnt_again_is_waited_for(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [2]

    def failing(*asked: Any) -> Any:
        if failures[0]:
            failures[0] -= 1
            raise Unavailable("away", "store_unreachable")
        return read_again(*asked)

    await node.observe(events(100))
    monkeypatch.setattr(learning, "read_again", failing)
    monkeypatch.setattr(learning, "AGAIN_S", 0.001)
    await promote(node.engine, "m", candidate(node), BETTER, {"refit": "r1"})
    assert failures == [0]
    assert node.fatal == []
    assert replay(node.store, "m").digest
