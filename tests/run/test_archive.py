"""The archive: what is trimmed is in a segment, whichever process dies, and the log that is left replays to the same bits."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from riata import wiring
from riata.base.errors import BadInput, Unavailable
from riata.base.read_settings import load_settings
from riata.run.candidates.segment_building import build_segments, segments_of
from riata.run.log import archive
from riata.run.log.archive import Archive
from riata.run.log.effective_log import read_effective_log
from riata.run.state.recovery import Recovery
from riata.run.state.replay import replay
from riata.run.writer.checkpointer import Checkpointer
from riata.store import records, segment
from riata.store.segment import Segment, Segments
from riata.store.store import Append, Owner, Store
from tests.doubles.memory_store import MemoryStore
from tests.run.events import create_model, here
from tests.run.node import Node, events, serving
from tests.run.test_segment_building import ORIGIN, content, held, learn
from tests.settings import archive_settings, retention

FAST = 2**40  # bytes per second


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, "ROWS_MAX", 40)
    monkeypatch.setattr(archive, "EVENTS_MIN", 1)


class World:
    """A store whose events are learnt, checkpointed, trimmed and archived, one step at a time."""

    def __init__(self, folder: Path, keep_events: int = 20, bytes_max: int = 2**40) -> None:
        self.folder = folder
        self.settings = archive_settings(folder, bytes_max, keep_events, bytes_per_s=FAST)
        self.store = MemoryStore()
        create_model(self.store)
        self.every = content(self.store)
        self.start()

    def start(self) -> None:
        """As a process does."""
        self.call = here(self.store)
        self.owner: Owner = self.store.acquire(os.urandom(16), 1, "here", 0)
        self.archive = Archive(self.settings, self.call, lambda: [ORIGIN], lambda: 0)
        self.checkpointer = Checkpointer(self.call, self.owner, retention(events=self.settings.keep_events), self.archive.bound)

    def observe(self, rows: int, seed: int) -> None:
        before = self.store.head("m").seq
        learn(self.store, rows, seed)
        self.every += [row for row in content(self.store) if row[0] > before]

    def save(self) -> None:
        state = Recovery(self.call, self.owner, lambda: 0).recover("m").state
        assert self.checkpointer.save(state.freeze(), 0, {}).generation is not None

    def save_all(self) -> None:
        """Checkpoint until every generation is at the head: then a trim may take everything before it."""
        for _ in range(3):
            self.save()

    def turn(self, rows: int, seed: int) -> None:
        """Learn, checkpoint and archive."""
        self.observe(rows, seed)
        self.save_all()
        self.archive.step()

    def crash(self) -> None:
        self.store = self.store.crash()
        self.start()

    def segments(self) -> list[Segment]:
        return segments_of(self.call, ORIGIN, Segments(self.folder / "m"))

    def kept(self) -> list[tuple[int, list[int], list[float], float]]:
        """The examples of the segments, and of the log after them."""
        found = self.segments()
        last = found[-1].last if found else 0
        return held(found) + [row for row in content(self.store) if row[0] > last]


@pytest.mark.parametrize("seed", range(6))
def test_every_event_is_in_a_segment_or_in_the_log_whatever_happens(seed: int, tmp_path: Path) -> None:
    world, rng = World(tmp_path / "segments"), np.random.default_rng(seed)
    steps: list[Callable[[], None]] = [
        lambda: world.observe(int(rng.integers(1, 60)), int(rng.integers(1000))),
        lambda: world.observe(int(rng.integers(1, 60)), int(rng.integers(1000))),
        lambda: world.archive.step(),
        lambda: world.save(),
        lambda: world.crash(),
    ]
    for _ in range(40):
        steps[int(rng.integers(len(steps)))]()
        assert world.kept() == world.every
        assert world.store.head("m").first_seq <= max([0, *(one.last for one in world.segments())]) + 1
    world.save_all()
    world.archive.step()
    world.save()
    assert world.store.head("m").first_seq > 1
    assert replay(world.store, "m").equal
    assert (
        replay(world.store, "m").digest == Recovery(world.call, world.owner, lambda: 0).recover("m").state.freeze().digest().hex()
    )


def test_without_an_archive_the_same_log_is_trimmed_to_the_same_event(tmp_path: Path) -> None:
    world = World(tmp_path / "segments", keep_events=0)
    for checkpointer in (world.checkpointer, Checkpointer(world.call, world.owner, retention(events=0))):
        world.observe(70, 1)
        for _ in range(3):
            state = Recovery(world.call, world.owner, lambda: 0).recover("m").state
            checkpointer.save(state.freeze(), 0, {})
        assert (world.store.head("m").first_seq == 1) == (checkpointer is world.checkpointer)


def test_a_process_that_dies_between_segment_and_trim_trims_later(tmp_path: Path) -> None:
    world = World(tmp_path / "segments", keep_events=0)
    world.turn(100, 1)
    before = [one.path for one in world.segments()]
    assert before
    world.crash()
    world.save_all()
    assert world.store.head("m").first_seq == 1  # a new process trims nothing before it has looked at the segments
    world.archive.step()
    world.save()
    assert world.store.head("m").first_seq == world.segments()[-1].last + 1
    assert [one.path for one in world.segments()] == before
    assert world.kept() == world.every


def test_a_full_disk_stops_the_archive_and_with_it_the_trim(tmp_path: Path) -> None:
    world = World(tmp_path / "segments", keep_events=0)
    world.observe(100, 1)
    world.save_all()
    world.archive._settings = archive_settings(world.folder, 2**40, 0, reserve_bytes=2**62, bytes_per_s=FAST)
    with pytest.raises(Unavailable, match="reserved for snapshots"):
        world.archive.step()
    for _ in range(3):
        world.save()
    assert world.store.head("m").first_seq == 1
    assert world.kept() == world.every
    assert not list(world.folder.rglob("*.part"))
    world.archive._settings = world.settings
    world.archive.step()
    world.save()
    assert world.store.head("m").first_seq > 40


def test_the_oldest_segments_go_beyond_the_bound_but_none_that_the_log_still_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path / "segments", keep_events=0)
    monkeypatch.setattr(archive, "EVENTS_MIN", 40)
    monkeypatch.setattr(archive, "BOUND_SHARE", 2)
    world.turn(400, 1)
    found = world.segments()
    assert len(found) > 5
    bytes_max = sum(one.bytes for one in found[-3:])
    world.archive._settings = archive_settings(world.folder, bytes_max, 0, bytes_per_s=FAST)
    world.observe(100, 2)
    world.archive.step()
    assert world.kept() == world.every  # nothing was trimmed yet
    world.save_all()
    world.observe(300, 3)
    world.archive.step()
    kept = world.kept()
    assert kept == world.every[-len(kept) :]
    assert found[-1].last < kept[0][0]
    world.save()
    world.observe(300, 4)
    world.archive.step()
    assert world.segments()[0].first <= world.store.head("m").first_seq


def test_what_fills_no_segment_is_not_read_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path / "segments", keep_events=0)
    read: list[int] = []
    call = world.archive._call

    def counted(work: Callable[[Store], Any]) -> Future[Any]:
        read.append(1)
        return call(work)

    monkeypatch.setattr(archive, "EVENTS_MIN", 40)
    world.archive._call = counted
    world.observe(41, 1)
    world.save_all()
    world.archive._settings = archive_settings(world.folder, 2**40, 10, bytes_per_s=FAST)
    world.archive._next[ORIGIN.lineage] = 0
    world.archive.step()
    first = len(read)
    for _ in range(3):
        world.turn(2, 2)
    assert len(read) - first == 3 * 2  # only the head and the generations
    world.turn(60, 3)
    assert len(world.segments()) >= 1


@pytest.fixture
def full_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()


@pytest.mark.usefixtures("full_size")
def test_a_log_keeps_about_what_it_is_to_keep_and_an_archive_about_its_bound(tmp_path: Path) -> None:
    keep, bound = 2000, 300_000
    world = World(tmp_path / "segments", keep, bound)
    world.archive.trim = world.checkpointer.trim
    for seed in range(12):
        learn(world.store, 2000, seed, of=100)
        world.save_all()
        world.archive.step()
        kept = world.store.head("m").seq - world.store.head("m").first_seq + 1
        assert kept <= 1.4 * keep
    assert kept >= keep
    sizes = [one.bytes for one in world.segments()]
    assert 0.7 * bound <= sum(sizes) <= bound
    assert sum(path.stat().st_size for path in world.folder.rglob("*") if path.is_file()) == sum(sizes)
    world.every = content(world.store)
    assert world.kept()[-len(world.every) :] == world.every


@pytest.mark.usefixtures("full_size")
def test_segments_that_a_refit_made_of_the_log_do_not_push_out_the_archive(tmp_path: Path) -> None:
    world = World(tmp_path / "segments", 2000, 300_000)
    world.archive.trim = world.checkpointer.trim
    learn(world.store, 6000, 1, of=100)
    world.save_all()
    world.archive.step()
    before = world.segments()
    build_segments(world.call, ORIGIN, Segments(world.folder / "m"))  # as a refit does
    assert world.segments()[-1].last == world.store.head("m").seq
    world.archive._settings = archive_settings(world.folder, sum(one.bytes for one in before), 2000, bytes_per_s=FAST)
    learn(world.store, 600, 2, of=100)
    world.save_all()
    world.archive.step()
    assert world.segments()[0].first == before[0].first


def test_small_segments_are_merged_to_the_same_content(tmp_path: Path) -> None:
    world = World(tmp_path / "segments", keep_events=0)
    world.archive.trim = world.checkpointer.trim
    for seed in range(40):
        world.observe(1 + seed % 3, seed)
        if seed == 20:
            world.store.append([Append("m", "skip", 7, payload=records.encode_skip(3, "bad"))])
        world.save_all()
        world.archive.step()
    found = world.segments()
    assert len(found) < 20
    assert held(found) == world.every
    assert sorted(path.name for path in (world.folder / "m").iterdir()) == [one.path.name for one in found]
    whole = read_effective_log(world.call, "m", found)
    assert whole.window().document()["skipped"] == 1


def test_a_crash_between_a_merged_segment_and_its_parts_leaves_every_event_once(
    tmp_path: Path,
) -> None:
    world = World(tmp_path / "segments", keep_events=0)
    world.archive.trim = world.checkpointer.trim
    copies = tmp_path / "copies"
    copies.mkdir()
    for seed in range(7):
        world.turn(5, seed)
        for path in (world.folder / "m").iterdir():
            (copies / path.name).write_bytes(path.read_bytes())
    world.turn(5, 8)
    assert len(world.segments()) == 1
    for path in copies.iterdir():
        (world.folder / "m" / path.name).write_bytes(path.read_bytes())
    assert held(world.segments()) == world.every
    world.turn(5, 9)
    assert held(world.segments()) == world.every


def test_a_damaged_segment_is_not_merged(tmp_path: Path) -> None:
    world = World(tmp_path / "segments", keep_events=0)
    world.archive.trim = world.checkpointer.trim
    for seed in range(7):
        world.turn(5, seed)
    path = world.segments()[3].path
    content_of = bytearray(path.read_bytes())
    content_of[-20] ^= 1
    path.write_bytes(content_of)
    world.turn(5, 8)
    assert path in [one.path for one in world.segments()]
    assert len(world.segments()) == 8


async def test_a_service_archives_warns_and_deletes_the_archive_of_a_model_that_is_dropped(tmp_path: Path) -> None:
    settings = archive_settings(tmp_path / "segments", 2**40, 0, bytes_per_s=FAST)
    async with serving(MemoryStore(), archive=settings) as node:
        loop = asyncio.get_running_loop()
        await node.observe(events(200))
        assert node.engine.learning is not None
        await node.engine.learning.make_room()
        node.engine.learning._room._made_room_ms = None
        kept = node.engine.context.archive
        assert kept is not None
        await loop.run_in_executor(None, kept.step)
        assert kept.bound("m", node.engine.served_models["m"].lineage) > 100
        assert len(list((tmp_path / "segments" / "m").iterdir())) >= 1
        await node.observe(events(100, seed=1))
        await node.engine.learning.make_room()  # as on a full disk: everything is trimmed that may be
        assert node.store.head("m").first_seq > 100
        assert node.store.head("m").first_seq <= kept.bound("m", node.engine.served_models["m"].lineage) + 1
        kept.problem = "the archive cannot be written"
        assert "the archive cannot be written" in node.service.health().warnings
        await node.admin.drop_model("m")
        assert not (tmp_path / "segments" / "m").exists()
        (tmp_path / "segments" / "gone").mkdir()  # as a drop leaves it that was interrupted
        await loop.run_in_executor(None, kept.step)
        assert not (tmp_path / "segments" / "gone").exists()


async def test_a_service_without_an_archive_has_no_thread_for_it(node: Node) -> None:
    assert node.engine.context.archive is None
    await node.observe(events(20))


def test_the_setting_asks_for_the_embedded_store(tmp_path: Path) -> None:
    given = {"data": tmp_path, "archive_bytes_max": 10**9, "log_keep_events": 7}
    made = wiring.archive_settings(load_settings(given))
    assert made is not None
    assert (made.directory, made.bytes_max, made.keep_events) == (tmp_path / "segments", 10**9, 7)
    assert wiring.archive_settings(load_settings({"data": tmp_path})) is None
    for store in ("memory:", "redis://localhost:6379/0"):
        with pytest.raises(BadInput, match="only the store sqlite: has an archive"):
            wiring.archive_settings(load_settings({**given, "store": store}))
