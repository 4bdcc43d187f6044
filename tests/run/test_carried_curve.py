"""Learning curves that came from another log."""

from __future__ import annotations

from riata.run.state.replay import replay
from tests.doubles.memory_store import MemoryStore
from tests.run.node import Node, events, serving


def positions(node: Node, model: str) -> list[tuple[int, int]]:
    """Log position and number of examples of every point of the learning curve."""
    return [(point["seq"], point["examples"]) for point in node.service.published(model).history]


async def test_an_imported_model_learns_on_and_its_checkpoints_and_points_are_read_back(store: MemoryStore) -> None:
    async with serving(store) as node:
        await node.observe(events(60))
        await node.admin.import_model("b", await node.admin.export("m"))
        await node.observe(events(50, seed=1), "b")
        before = positions(node, "b")
        assert (await node.admin.snapshot_now("b"))["verified"]
    store = store.crash()
    report = replay(store, "b")
    assert report.compared
    assert report.equal, report.compared
    async with serving(store) as node:
        assert node.engine.context.tally.generations_corrupt == 0
        assert (node.service.published("b").applied, positions(node, "b")) == (52, before)
        await node.admin.restore("b", 1)


async def test_points_from_another_log_stand_at_the_event_that_brought_them(node: Node) -> None:
    await node.observe(events(60))
    assert positions(node, "m") == [(11, 10), (21, 20), (51, 50)]
    content = await node.admin.export("m")
    await node.admin.import_model("b", content)
    assert positions(node, "b") == [(2, 10), (2, 20), (2, 50)]
    await node.observe(events(50, seed=1), "b")
    assert positions(node, "b") == [(2, 10), (2, 20), (2, 50), (42, 100)]
    saved = (await node.admin.snapshot_now("b"))["generation"]
    await node.observe(events(100, seed=2), "b")
    await node.admin.restore("b", saved)  # of this log: nothing more is carried
    assert positions(node, "b") == [(2, 10), (2, 20), (2, 50), (42, 100)]
    await node.admin.import_model("b", content)
    assert positions(node, "b") == [(154, 10), (154, 20), (154, 50)]
    await node.admin.import_model("c", await node.admin.export("b"))
    assert positions(node, "c") == [(2, 10), (2, 20), (2, 50)]
