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

from riata.base.errors import BadInput, Unavailable
from riata.base.read_settings import load_settings
from riata.run import archive
from riata.run.archive import Archive
from riata.run.checkpointer import Checkpointer, Retention
from riata.run.engine_settings import ArchiveSettings
from riata.run.recovery import Recovery
from riata.run.replay import replay
from riata.run.segment_building import segments_of
from riata.store import segment
from riata.store.segment import Segment
from riata.store.segments import Segments
from riata.store.store import Owner, Store
from riata.wiring import archive_settings
from tests.doubles.memory_store import MemoryStore
from tests.run.events import create_model, here
from tests.run.node import Node, events, run_with
from tests.run.test_segment_building import ORIGIN, content, held, learn

FAST = 2**40  # bytes per second


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, "ROWS_MAX", 40)
    monkeypatch.setattr(archive, "EVENTS_MIN", 1)


class World:
    """A store whose events are learnt, checkpointed, trimmed and archived, one step at a time."""

    def __init__(self, folder: Path, keep_events: int = 20, bytes_max: int = 2**40) -> None:
        self.folder = folder
        self.settings = ArchiveSettings(folder, bytes_max, keep_events, bytes_per_s=FAST)
        self.store = MemoryStore()
        create_model(self.store)
        self.every = content(self.store)
        self.start()

    def start(self) -> None:
        """As a process does."""
        self.call = here(self.store)
        self.owner: Owner = self.store.acquire(os.urandom(16), 1, "here", 0)
        self.archive = Archive(self.settings, self.call, lambda: [ORIGIN], lambda: 0)
        retention = Retention(3, self.settings.keep_events)
        self.checkpointer = Checkpointer(self.call, self.owner, retention, self.archive.bound)

    def observe(self, rows: int, seed: int) -> None:
        before = self.store.head("m").seq
        learn(self.store, rows, seed)
        self.every += [row for row in content(self.store) if row[0] > before]

    def save(self) -> None:
        state = Recovery(self.call, self.owner, lambda: 0).recover("m").state
        assert self.checkpointer.save(state.freeze(), 0, {}).generation is not None

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
        assert world.store.head("m").first_seq <= max([0, *(one.last for one in world.segments() if one.is_full)]) + 1
    world.archive.step()
    for _ in range(3):
        world.save()
    assert world.store.head("m").first_seq > 1
    assert replay(world.store, "m").equal
    assert (
        replay(world.store, "m").digest == Recovery(world.call, world.owner, lambda: 0).recover("m").state.freeze().digest().hex()
    )


def test_without_an_archive_the_same_log_is_trimmed_to_the_same_event(tmp_path: Path) -> None:
    world = World(tmp_path / "segments", keep_events=0)
    for checkpointer in (world.checkpointer, Checkpointer(world.call, world.owner, Retention(3, 0))):
        world.observe(70, 1)
        for _ in range(3):
            state = Recovery(world.call, world.owner, lambda: 0).recover("m").state
            checkpointer.save(state.freeze(), 0, {})
        assert (world.store.head("m").first_seq == 1) == (checkpointer is world.checkpointer)


def test_a_process_that_dies_between_segment_and_trim_trims_later(tmp_path: Path) -> None:
    world = World(tmp_path / "segments", keep_events=0)
    world.observe(100, 1)
    world.archive.step()
    before = [one.path for one in world.segments()]
    assert len(before) == 2
    world.crash()
    for _ in range(3):
        world.save()
    assert world.store.head("m").first_seq == 1  # a new process trims nothing before it has looked at the segments
    world.archive.step()
    world.save()
    assert world.store.head("m").first_seq == world.segments()[-1].last + 1
    assert [one.path for one in world.segments()] == before
    assert world.kept() == world.every


def test_a_full_disk_stops_the_archive_and_with_it_the_trim(tmp_path: Path) -> None:
    world = World(tmp_path / "segments", keep_events=0)
    world.observe(100, 1)
    world.archive._settings = ArchiveSettings(world.folder, 2**40, 0, reserve_bytes=2**62, bytes_per_s=FAST)
    with pytest.raises(Unavailable, match="reserved for checkpoints"):
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


def test_the_oldest_segments_go_beyond_the_bound_but_none_that_the_log_still_has(tmp_path: Path) -> None:
    world = World(tmp_path / "segments", keep_events=0)
    world.observe(400, 1)
    world.archive.step()
    found = world.segments()
    bytes_max = sum(one.bytes for one in found[-3:])
    world.archive._settings = ArchiveSettings(world.folder, bytes_max, 0, bytes_per_s=FAST)
    world.observe(100, 2)
    world.archive.step()
    assert world.kept() == world.every  # nothing was trimmed yet
    for _ in range(3):
        world.save()
    world.observe(300, 3)
    world.archive.step()
    kept = world.kept()
    assert kept == world.every[-len(kept) :]
    assert found[-1].last < kept[0][0]
    world.save()
    world.observe(300, 4)
    world.archive.step()
    assert world.segments()[0].first <= world.store.head("m").first_seq


def test_what_fills_no_segment_is_not_read_again_and_again(tmp_path: Path) -> None:
    world = World(tmp_path / "segments", keep_events=0)
    read: list[int] = []
    call = world.archive._call

    def counted(work: Callable[[Store], Any]) -> Future[Any]:
        read.append(1)
        return call(work)

    world.archive._call = counted
    world.observe(30, 1)
    world.archive.step()
    first = len(read)
    for _ in range(5):
        world.observe(2, 2)
        world.archive.step()
    assert len(read) - first == 5  # only the head
    world.observe(60, 3)
    world.archive.step()
    assert len(world.segments()) >= 1


def test_a_service_archives_warns_and_deletes_the_archive_of_a_model_that_is_dropped(tmp_path: Path) -> None:
    settings = ArchiveSettings(tmp_path / "segments", 2**40, 0, bytes_per_s=FAST)

    async def work(node: Node) -> None:
        loop = asyncio.get_running_loop()
        await node.observe(events(200))
        kept = node.engine.context.archive
        assert kept is not None
        await loop.run_in_executor(None, kept.step)
        assert kept.bound("m", node.engine.served_models["m"].lineage) > 100
        assert len(list((tmp_path / "segments" / "m").iterdir())) >= 1
        await node.observe(events(100, seed=1))
        assert node.engine.learning is not None
        await node.engine.learning.make_room()  # as on a full disk: everything is trimmed that may be
        assert 100 < node.store.head("m").first_seq <= kept.bound("m", node.engine.served_models["m"].lineage) + 1
        kept.problem = "the archive cannot be written"
        assert "the archive cannot be written" in node.service.health().warnings
        await node.admin.drop_model("m")
        assert not (tmp_path / "segments" / "m").exists()
        (tmp_path / "segments" / "gone").mkdir()  # as a drop leaves it that was interrupted
        await loop.run_in_executor(None, kept.step)
        assert not (tmp_path / "segments" / "gone").exists()

    run_with(MemoryStore(), work, archive=settings)


def test_a_service_without_an_archive_has_no_thread_for_it() -> None:
    async def work(node: Node) -> None:
        assert node.engine.context.archive is None
        await node.observe(events(20))

    run_with(MemoryStore(), work)


def test_the_setting_asks_for_the_embedded_store(tmp_path: Path) -> None:
    given = {"data": tmp_path, "archive_bytes_max": 10**9, "log_keep_events": 7}
    made = archive_settings(load_settings(given))
    assert made is not None
    assert (made.directory, made.bytes_max, made.keep_events) == (tmp_path / "segments", 10**9, 7)
    assert archive_settings(load_settings({"data": tmp_path})) is None
    for store in ("memory:", "redis://localhost:6379/0"):
        with pytest.raises(BadInput, match="only the store sqlite: has an archive"):
            archive_settings(load_settings({**given, "store": store}))
