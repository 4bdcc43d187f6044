"""Settings that change while a model learns are events of the log like any other."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from riata.base.errors import BadInput, Conflict, NotFound, Unavailable
from riata.learn.registry import build_learner
from riata.run.state.config import read_config
from riata.run.state.model_state import ModelState
from riata.run.state.replay import replay
from riata.run.writer.queue import PathQuestion
from tests.doubles.memory_store import MemoryStore
from tests.run.node import SMALL, Node, events, serving

EXACT: dict[str, Any] = {"kind": "taylor_sketch", "mode": "exact", "gamma": 0.5, "block": 10, "features_max": 32}
HYBRID: dict[str, Any] = {"kind": "taylor_sketch", "mode": "hybrid", "k": 3, "gamma": 0.5, "block": 10, "rounds": 1}
LEARNERS = pytest.mark.parametrize("learner", [EXACT, HYBRID], ids=["exact", "hybrid"])


@pytest.fixture
def learner() -> dict[str, Any]:
    return EXACT


@pytest.fixture
def document(learner: dict[str, Any]) -> dict[str, Any]:
    return {**SMALL, "learner": learner}


def served(node: Node, model: str = "m") -> tuple[float, bytes, float]:
    """Penalty, weights and intercept of the served model."""
    published = node.service.published(model)
    weights = published.model.weights
    gamma = getattr(published.config.learner, "gamma", -1.0)
    return gamma, weights.slot.tobytes() + weights.beta.tobytes(), weights.intercept


@LEARNERS
async def test_a_model_moves_to_another_penalty_without_learning_again(node: Node, document: dict[str, Any]) -> None:
    await node.observe(events(95))
    before = node.service.published("m")
    config, seq = await node.admin.change("m", {"gamma": 30.0})
    after = node.service.published("m")
    assert (seq, after.applied, after.config) == (97, 97, config)
    assert after.figures["cumulative"]["examples"] == before.figures["cumulative"]["examples"] == 95
    alone = build_learner(read_config(document).learner, 12)
    alone.step(node.parse(events(95)).batch)
    changed = read_config({**document, "learner": {**document["learner"], "gamma": 30.0}}).learner
    alone.adjust(changed)
    expected = alone.weights()
    assert served(node) == (30.0, expected.slot.tobytes() + expected.beta.tobytes(), expected.intercept)
    assert after.model.weights.non_zeros < before.model.weights.non_zeros


async def test_a_model_that_is_asked_for_twice_at_once_is_made_once(node: Node) -> None:
    asked = await asyncio.gather(*(node.admin.put_model("twin", {**SMALL, "learner": HYBRID}) for _ in range(3)))
    assert sorted(created for created, _ in asked) == [False, False, True]
    assert [model["seq_logged"] for model in node.service.models() if model["name"] == "twin"] == [1]


@LEARNERS
async def test_after_a_kill_the_log_leads_to_the_same_bits_with_the_change_in_it(document: dict[str, Any]) -> None:
    store, digests = MemoryStore(), []
    async with serving(store, document) as node:
        await node.observe(events(60))
        await node.admin.snapshot_now("m")
        await node.admin.change("m", {"gamma": 0.05})
        await node.observe(events(60, seed=1))
        digests.append((await node.admin.snapshot_now("m"))["state_digest"])
        await node.admin.change("m", {"gamma": 2.0, "checkpoint_every_s": 77})
        await node.observe(events(30, seed=2))
    async with serving(store.crash()) as node:
        gamma, _, _ = served(node)
        assert (gamma, node.service.published("m").config.checkpoint_every_s) == (2.0, 77)
        digests.append((await node.admin.snapshot_now("m"))["state_digest"])
    report = replay(store.crash(), "m")
    assert report.equal
    assert [one.stored for one in report.compared][1] == digests[0]
    assert report.digest == digests[-1]


@LEARNERS
async def test_a_generation_from_before_the_change_brings_its_penalty_back(node: Node) -> None:
    await node.observe(events(60))
    saved, before = await node.admin.snapshot_now("m"), served(node)
    await node.admin.change("m", {"gamma": 3.0})
    await node.observe(events(20, seed=1))
    assert served(node) != before
    await node.admin.restore("m", saved["generation"])
    assert served(node) == before
    again = await node.admin.snapshot_now("m")
    assert again["state_digest"] == saved["state_digest"]
    await node.observe(events(20, seed=1))
    assert served(node)[0] == 0.5
    assert replay(node.store, "m").equal


async def test_an_export_carries_the_penalty_in_force(node: Node) -> None:
    await node.observe(events(60))
    await node.admin.change("m", {"gamma": 3.0})
    await node.admin.import_model("copy", await node.admin.export("m"))
    assert served(node, "copy") == served(node)
    assert set(node.service.names("copy").slots_with("colour=red", 32))


async def test_an_import_of_another_learner_is_served_with_that_learner(node: Node) -> None:
    await node.admin.put_model("plain", SMALL)
    await node.observe(events(60))
    await node.observe(events(60), model="plain")
    content = await node.admin.export("plain")
    await node.admin.import_model("m", content)
    assert served(node)[1:] == served(node, "plain")[1:]
    assert node.service.models()[1]["learner"] == "truncated_gradient"
    assert node.service.describe("m")["std_error"]["why_not"] == "the learner keeps no curvature"
    with pytest.raises(BadInput, match="gamma: unknown key"):
        await node.admin.change("m", {"gamma": 3.0})


async def test_a_change_without_effect_is_not_logged(node: Node) -> None:
    await node.observe(events(5))
    _, seq = await node.admin.change("m", {"gamma": 0.5})
    assert seq == node.engine.served_model("m").logged == 6
    assert await node.admin.change("m", {}) == (node.service.published("m").config, 6)


async def test_of_changes_at_the_same_moment_none_is_lost(node: Node) -> None:
    changes: list[dict[str, Any]] = [
        {"gamma": 3.0},
        {"publish_every_ms": 5},
        {"checkpoint_every_s": 9},
        {"checkpoint_every_events": 77},
    ]
    await asyncio.gather(*(node.admin.change("m", change) for change in changes))
    config = node.service.published("m").config
    assert getattr(config.learner, "gamma", None) == 3.0
    assert (config.publish_every_ms, config.checkpoint_every_s, config.checkpoint_every_events) == (5, 9, 77)


async def test_fixed_and_unknown_settings_are_refused_and_nothing_changes(node: Node) -> None:
    with pytest.raises(Conflict, match="mode cannot change"):
        await node.admin.change("m", {"gamma": 1.0, "mode": "strict"})
    with pytest.raises(BadInput, match="did you mean 'gamma'"):
        await node.admin.change("m", {"gama": 1.0})
    with pytest.raises(NotFound):
        await node.admin.change("none", {"gamma": 1.0})
    assert node.engine.served_model("m").logged == 1


@LEARNERS
async def test_computing_the_path_changes_nothing_and_runs_beside_learning(node: Node) -> None:
    await node.observe(events(80))
    before = (await node.admin.snapshot_now("m"))["state_digest"]
    first = await node.service.path("m", PathQuestion(gammas=8))
    again = await node.service.path("m", PathQuestion(gammas=8))
    # Standard errors that were late may have been served meanwhile: another version of the same state.
    assert again["model"].pop("version") >= first["model"].pop("version")
    assert again == first
    assert (await node.admin.snapshot_now("m"))["state_digest"] == before
    assert first["model"]["seq"] == 81
    assert (first["gamma"], first["points"][0]["non_zeros"]) == (0.5, 0)
    assert first["points"][-1]["non_zeros"] == 4
    await asyncio.gather(node.service.path("m", PathQuestion()), node.observe(events(20, seed=1)))


async def test_the_point_of_the_path_at_the_penalty_in_force_has_the_weights_that_are_served(node: Node) -> None:
    await node.observe(events(80))  # a whole number of blocks: the learner has just solved
    path = await node.service.path("m", PathQuestion())
    [point] = [point for point in path["points"] if point["in_force"]]
    assert point["non_zeros"] == node.service.published("m").model.weights.non_zeros
    await node.admin.change("m", {"gamma": path["points"][5]["gamma"]})
    assert node.service.published("m").model.weights.non_zeros == path["points"][5]["non_zeros"]


@pytest.mark.parametrize("document", [SMALL])
async def test_a_path_of_a_model_that_keeps_none_or_is_not_there_is_refused(node: Node) -> None:
    with pytest.raises(Conflict, match="taylor_sketch does") as refused:
        await node.service.path("m", PathQuestion())
    assert refused.value.code == "no_sketch"
    with pytest.raises(NotFound):
        await node.service.path("none", PathQuestion())
    await node.admin.put_model("other", {**SMALL, "learner": EXACT})
    looking = asyncio.create_task(node.service.path("other", PathQuestion()))
    await asyncio.sleep(0)
    await node.admin.drop_model("other")
    await asyncio.gather(looking, return_exceptions=True)
    assert node.service.health().alive


@pytest.mark.parametrize("learner", [{**EXACT, "shadow": [0.1, 40.0]}])
async def test_shadows_are_points_of_the_path_with_their_losses(node: Node) -> None:
    await node.observe(events(80))
    path = await node.service.path("m", PathQuestion(gammas=2))
    tried = {point["gamma"]: point["log_loss"] for point in path["points"]}
    assert 0.0 < tried[0.1] < tried[40.0]
    assert tried[0.5] is None
    assert path["log_loss"] == node.service.published("m").figures["cumulative"]["log_loss"]
    assert [shadow["weight"] for shadow in path["shadows"]] == [80.0, 80.0]
    assert np.isfinite([shadow["faded_log_loss"] for shadow in path["shadows"]]).all()


async def test_no_request_for_a_copy_waits_after_learning_has_ended(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_arguments: object) -> None:
        raise RuntimeError("broken")

    with monkeypatch.context() as patch:
        patch.setattr(ModelState, "apply", broken)
        await node.observe(events(1), wait_applied=False)
        while node.service.health().alive:
            await asyncio.sleep(0.01)
    with pytest.raises(Unavailable, match="learning has stopped"):
        await node.service.path("m", PathQuestion())
    with pytest.raises(Unavailable):
        await node.admin.change("m", {"gamma": 1.0})
    assert node.service.published("m").model.seq == 0  # predictions go on
