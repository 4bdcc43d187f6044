"""Above memory_bytes_max nothing is accepted that would need more memory; predictions go on."""

from __future__ import annotations

import pytest

from riata.base.errors import Unavailable
from riata.run.served_model import LEARNING_BYTES, NEW_MODEL_BYTES
from riata.web.api.problems import problem_of
from tests.run.node import Node, events

BOUND = 2**24


def fill(node: Node, most: int) -> None:
    """Let all models take as much as leaves `most` bytes of the bound."""
    bound = node.engine.memory
    bound._counted_ms = None
    bound.bytes_max = bound.taken() + most
    bound._counted_ms = None


@pytest.mark.parametrize("settings", [{"memory_bytes_max": BOUND}])
async def test_a_new_model_is_refused_where_there_is_no_memory_for_it_and_accepted_where_there_is(node: Node) -> None:
    content = await node.admin.export("m")
    fill(node, NEW_MODEL_BYTES)
    with pytest.raises(Unavailable, match="memory_bytes_max") as full:
        await node.admin.put_model("another", {})
    assert problem_of(full.value).status == 507
    assert "another" not in node.engine.served_models
    fill(node, len(content))
    with pytest.raises(Unavailable, match="this import"):
        await node.admin.import_model("m", content)
    fill(node, NEW_MODEL_BYTES + 1)
    assert (await node.admin.put_model("another", {}))[0]
    fill(node, BOUND)
    assert (await node.admin.import_model("m", content))["name"] == "m"


@pytest.mark.parametrize("settings", [{"memory_bytes_max": BOUND}])
async def test_events_are_refused_before_memory_runs_out_and_accepted_once_there_is_room(node: Node) -> None:
    assert (await node.observe(events(3))).accepted == 3
    fill(node, LEARNING_BYTES + 1)
    assert (await node.observe(events(3))).accepted == 3
    fill(node, LEARNING_BYTES)
    with pytest.raises(Unavailable, match="learning more in model m") as full:
        await node.observe(events(3))
    assert (full.value.code, full.value.outcome) == ("memory_full", "not_accepted")
    health = node.service.health()
    assert not health.models["m"].accepting
    assert not health.models["default"].accepting
    assert any("memory_bytes_max" in warning for warning in health.warnings)
    assert health.memory[0] < health.memory[1]
    assert health.ready
    assert node.service.published("m").model.seq > 0  # predictions go on
    fill(node, BOUND)
    assert (await node.observe(events(3))).accepted == 3
    assert not any("memory_bytes_max" in warning for warning in node.service.health().warnings)


async def test_without_a_bound_nothing_is_refused(node: Node) -> None:
    node.service.published("m").memory["table"] = 2**60
    assert (await node.observe(events(3))).accepted == 3
    lines = {line["name"]: line["memory_bytes_total"] for line in node.service.models()}
    assert lines["m"] == node.service.describe("m")["memory_bytes"]["total"] > 0
