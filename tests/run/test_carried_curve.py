"""Learning curves that came from another log, and directories in which their positions were mistaken for those of this log."""

from __future__ import annotations

import contextlib
import gzip
from pathlib import Path

import pytest
from typer.testing import CliRunner

from riata.cli.app import app
from riata.run.state.replay import replay
from riata.store import layout
from riata.store.sqlite.store import read_sqlite
from tests.doubles.memory_store import MemoryStore
from tests.run.journeys import service_on
from tests.run.node import Node, events, serving, started

STORED = Path(__file__).parents[1] / "golden" / "carried_curve.db.gz"  # of the release before checkpoints said `carried`


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


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A data directory as an older release left it."""
    made = tmp_path / "data"
    made.mkdir()
    (made / "riata.db").write_bytes(gzip.decompress(STORED.read_bytes()))
    return made


def test_the_directory_of_an_older_release_holds_curves_out_of_order(directory: Path) -> None:
    with contextlib.closing(read_sqlite(directory)) as store:
        for model in ("whole", "trimmed"):
            newest = store.generations(model)[0]
            header, arrays = layout.decode_checkpoint(store.open_generation(model, newest.gen))
            assert newest.verified
            assert "carried" not in header
            assert arrays["watch.curve"][:, 0].tolist()[:4] == [11, 21, 51, 42]
        assert store.head("trimmed").first_seq > 2  # the log does not lead past what was written


def test_checkpoints_that_an_older_release_could_not_read_are_equal_to_a_replay(directory: Path) -> None:
    done = CliRunner().invoke(app, ["replay", "--data", str(directory), "--verify"])
    assert done.exit_code == 0, done.output
    assert "whole: snapshot 1 at event 52: equal" in done.output
    assert "trimmed: snapshot 3 at event 152: equal" in done.output


async def test_a_service_continues_from_checkpoints_that_an_older_release_could_not_read(directory: Path) -> None:
    async with started(service_on(directory)) as node:
        assert node.engine.context.tally.generations_corrupt == 0
        for model, applied in (("whole", 53), ("trimmed", 153)):  # the last event is the upgrade
            assert node.service.published(model).applied == applied
            shown = [seq for seq, _ in positions(node, model)]
            assert shown[:4] == [41, 41, 41, 42]  # which event brought them is not known any more, but that it was before 42
            await node.admin.restore(model, node.service.published(model).model.gen)
            await node.observe(events(120, seed=9), model)
            assert (await node.admin.snapshot_now(model))["verified"]
            await node.admin.import_model(f"{model}-copy", await node.admin.export(model))
    done = CliRunner().invoke(app, ["replay", "--data", str(directory), "--verify"])
    assert done.exit_code == 0, done.output
