"""One damaged model of three: the others start, serve and learn; requests for the damaged one are refused; the log is read
back.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from riata.base.clock import SystemClock
from riata.base.errors import Corrupt, LogFork
from riata.run.admin import Admin
from riata.run.engine_alone import AloneEngine
from riata.run.health import Health
from riata.run.log.scrubbing import LogScrub
from riata.run.service import Service
from riata.run.state.damage import ModelDamaged
from riata.run.writer.learning import Learning
from riata.store import records
from riata.store.records import coded_digest
from riata.store.sqlite.store import open_sqlite
from riata.store.store import Record
from tests import damaging
from tests.doubles.shared_memory_store import SharedMemoryStore
from tests.run.node import SMALL, Node, events, started
from tests.run.roles import running, until, with_model
from tests.settings import engine_settings, retention, sqlite_settings

SETTINGS = sqlite_settings(long_bytes=4096)
MODELS = ("a", "b", "default")
BATCHES, ROWS = 6, 20
LONG_ROWS = 600  # whose payload lies in a file


def serve(directory: Path, **settings: Any) -> AbstractAsyncContextManager[Node]:
    """A service on `directory`."""
    fatal: list[str] = []
    reported = engine_settings(durability="fsync", **settings)
    engine = AloneEngine(lambda: open_sqlite(directory, SETTINGS), reported, SystemClock(), os.urandom, fatal.append)
    return started(Node(engine, Service(engine), Admin(engine), None, fatal))  # type: ignore[arg-type]


async def observe(node: Node, model: str, rows: int = ROWS, seed: int = 0) -> None:
    await node.observe(events(rows, seed), model)


async def fill(data: Path) -> None:
    async with serve(data) as node:
        for name in MODELS[:2]:
            await node.admin.put_model(name, {**SMALL, "checkpoint_every_s": 3600})
        await node.admin.change("default", {"publish_every_ms": 1, "checkpoint_every_s": 3600})
        await observe(node, "a", LONG_ROWS)
        for i in range(BATCHES):
            for k, name in enumerate(MODELS):
                await observe(node, name, seed=10 * i + k)
                if i == BATCHES // 2 - 1:
                    await node.admin.snapshot_now(name)
        await observe(node, "a", LONG_ROWS)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three models, each with a checkpoint in the middle of its log and not at the end, left by a killed process."""
    data = tmp_path_factory.mktemp("built") / "data"
    asyncio.run(fill(data))
    for name in MODELS:  # what a stop saves
        number = damaging.number_of(data, name)
        for table in ("generations", "chunks"):
            damaging.change(data, f"DELETE FROM {table} WHERE model = ? AND gen > 1", number)
    return data


@pytest.fixture
def directory(built: Path, tmp_path: Path) -> Path:
    """A copy of `built`, to be damaged."""
    return Path(shutil.copytree(built, tmp_path / "data"))


async def looked_at(directory: Path, model: str = "a") -> Health:
    """Serve: every request for `model` is refused with its name; the others are served and learn. Returns the health report."""
    async with serve(directory) as node:
        service, admin = node.service, node.admin
        for other in MODELS:
            if other != model:
                seen = await node.observe(events(ROWS, 99), other)
                assert (seen.accepted, service.published(other).applied) == (ROWS, seen.seq)
                assert (await admin.snapshot_now(other))["verified"]
        refused: list[Callable[[], Any]] = [
            lambda: service.published(model), lambda: service.now(model), lambda: service.context(model, True),
            lambda: service.describe(model), lambda: service.names(model), lambda: service.stale_s(model),
        ]  # fmt: skip
        for ask in refused:
            with pytest.raises(ModelDamaged, match=f"model {model} is damaged.*riata repair"):
                ask()
        wanted: list[Callable[[], Awaitable[Any]]] = [
            lambda: admin.snapshots(model), lambda: admin.snapshot_now(model), lambda: admin.restore(model, 1),
            lambda: admin.export(model), lambda: admin.put_model(model, SMALL),
            lambda: admin.change(model, {"publish_every_ms": 9}),
        ]  # fmt: skip
        for want in wanted:
            with pytest.raises(ModelDamaged) as error:
                await want()
            assert error.value.code == "model_damaged"
        lines = {line["name"]: line for line in service.models()}
        assert list(lines) == sorted(MODELS)
        assert "is damaged" in lines[model]["damaged"]
        assert all("damaged" not in lines[other] for other in MODELS if other != model)
        health = service.health()
        assert health.ready
        assert list(health.damaged) == [model]
        assert health.damaged[model] in health.warnings
        assert model not in health.models
    return health


def short(directory: Path, behind: bool) -> int:
    """A record of `a` in the database: before its newest checkpoint, or after it."""
    found = damaging.firsts(directory, "a")
    return found[2] if behind else found[-2]


def long(directory: Path, behind: bool) -> int:
    """A record of `a` with its payload in a file."""
    found = damaging.firsts(directory, "a")
    return found[1] if behind else found[-1]


def spoil_row(directory: Path, behind: bool = False) -> int:
    event = short(directory, behind)
    assert damaging.flip_payload(directory, "a", event).name == "riata.db"
    return event


def spoil_file(directory: Path, behind: bool = False) -> int:
    event = long(directory, behind)
    assert damaging.flip_payload(directory, "a", event).name.startswith("riata.payloads.")
    return event


def cut_file(directory: Path, behind: bool = False) -> int:
    event = long(directory, behind)
    file, [at], length = damaging.place_of(directory, "a", event)
    with file.open("r+b") as opened:
        opened.truncate(at + length // 2)
    return event


def spoil_kind(directory: Path, behind: bool = False) -> int:
    event = short(directory, behind)
    key = damaging.number_of(directory, "a") << damaging.SEQ_BITS | event
    damaging.change(directory, "UPDATE log SET kind = 17 WHERE key = ?", key)
    return event


@pytest.mark.parametrize("spoil", [spoil_row, spoil_file, cut_file, spoil_kind])
async def test_a_damaged_record_affects_one_model(spoil: Callable[[Path], int], directory: Path) -> None:
    event = spoil(directory)
    health = await looked_at(directory)
    assert f"is damaged at event {event}:" in health.damaged["a"]
    assert health.damaged == (await looked_at(directory)).damaged  # a second start finds the same


async def test_checkpoints_none_of_which_verifies_damage_one_model_if_the_log_is_trimmed(directory: Path) -> None:
    async with serve(directory, retention=retention(events=0)) as node:
        for _ in range(3):
            await observe(node, "a")
            await node.engine.save("a")
    assert damaging.firsts(directory, "a")[:1] != [1]
    damaging.flip_generations(directory, "a")
    assert "every retained snapshot failed verification" in (await looked_at(directory)).damaged["a"]


async def test_a_damaged_default_model_is_not_created_again(directory: Path) -> None:
    damaging.flip_payload(directory, "default", damaging.firsts(directory, "default")[BATCHES - 1])
    await looked_at(directory, "default")


async def test_a_record_of_a_newer_program_is_no_damage_and_nothing_starts(directory: Path) -> None:
    event = damaging.firsts(directory, "a")[BATCHES - 1]
    key = damaging.number_of(directory, "a") << damaging.SEQ_BITS | event
    count, stamp, payload = damaging._rows(directory, "SELECT count, accepted_ms, payload FROM log WHERE key = ?", key)[0]
    assert isinstance(count, int)
    assert isinstance(stamp, int)
    assert isinstance(payload, bytes)
    digest = coded_digest(17, count, stamp, payload)
    damaging.change(directory, "UPDATE log SET kind = 17, digest = ? WHERE key = ?", digest, key)
    with pytest.raises(Corrupt, match="not known") as error:
        async with serve(directory):
            pass
    assert error.value.code == "newer_format"


async def test_damaged_names_affect_only_names(directory: Path) -> None:
    damaging.change(directory, "UPDATE names SET digest = zeroblob(16)")
    async with serve(directory) as node:
        for name in MODELS:
            await observe(node, name, seed=7)
            assert node.service.published(name).model.weights.non_zeros


@pytest.mark.parametrize("model", ["a", "default"])
async def test_a_damaged_model_may_be_dropped(model: str, directory: Path) -> None:
    damaging.flip_payload(directory, model, damaging.firsts(directory, model)[BATCHES - 1])
    async with serve(directory) as node:
        await node.admin.drop_model(model)
        assert node.service.health().damaged == {}
        if model != "default":
            await node.admin.put_model(model, SMALL)
        await observe(node, model)
        assert node.service.published(model).applied == ROWS + 1
    async with serve(directory) as node:
        await observe(node, model)


def scrubbed(node: Node) -> LogScrub:
    learning = node.engine.learning
    assert isinstance(learning, Learning)
    return LogScrub(node.engine.context, learning)


@pytest.mark.parametrize("spoil", [spoil_row, spoil_file, spoil_kind])
async def test_damage_after_the_newest_checkpoint_is_found_by_the_running_service(
    spoil: Callable[[Path, bool], int], directory: Path
) -> None:
    event = spoil(directory, True)
    async with serve(directory, scrub_bytes_per_s=2**30) as node:
        scrub = scrubbed(node)
        generations = len(await node.admin.snapshots("a"))
        assert await scrub.scrub() == ["a"]
        assert node.engine.tally.log_scrubbed_bytes > 0
        health = node.service.health()
        assert health.log_damaged == {"a": event}
        assert health.damaged == {}
        assert [warning for warning in health.warnings if f"damaged at event {event}" in warning and "riata repair" in warning]
        newest = (await node.admin.snapshots("a"))[0]
        assert newest["verified"]
        assert newest["seq"] == node.engine.served_model("a").logged
        assert len(await node.admin.snapshots("a")) >= min(3, generations + 1)
        await observe(node, "a", seed=5)  # it serves and learns on
        assert await scrub.scrub() == []  # and is told once
    async with serve(directory) as node:
        assert node.service.health().damaged == {}
        await observe(node, "a", seed=6)


async def test_a_log_without_damage_is_read_and_nothing_is_reported(directory: Path) -> None:
    async with serve(directory, scrub_bytes_per_s=2**30) as node:
        assert await scrubbed(node).scrub() == []
        assert node.engine.tally.log_scrubbed_bytes > 10_000
        assert node.service.health().log_damaged == {}
        assert not [warning for warning in node.service.health().warnings if "damaged" in warning]


async def test_damage_that_is_trimmed_is_no_longer_reported(directory: Path) -> None:
    spoil_file(directory, behind=True)
    async with serve(directory, retention=retention(events=0), scrub_bytes_per_s=2**30) as node:
        scrub = scrubbed(node)
        assert await scrub.scrub() == ["a"]
        for _ in range(3):
            await observe(node, "a")
            await node.engine.save("a")
        assert await scrub.scrub() == []
        assert node.service.health().log_damaged == {}


async def test_the_log_is_read_at_a_bounded_pace_and_after_waiting_requests(directory: Path) -> None:
    async with serve(directory, scrub_bytes_per_s=10_000) as node:
        waits: list[float] = []
        sleep = asyncio.sleep

        async def counted(seconds: float) -> None:
            waits.append(seconds)
            await sleep(0)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(asyncio, "sleep", counted)
            await scrubbed(node).scrub()
        read = node.engine.tally.log_scrubbed_bytes
        assert read > 0
        assert sum(waits) >= read / node.engine.settings.scrub_bytes_per_s


async def test_a_service_scrubs_by_itself(directory: Path) -> None:
    damaging.flip_payload(directory, "b", damaging.firsts(directory, "b")[2])
    async with serve(directory, scrub_every_s=0.05, scrub_bytes_per_s=2**30) as node:
        for _ in range(600):
            if node.service.health().log_damaged:
                break
            await asyncio.sleep(0.1)
        assert list(node.service.health().log_damaged) == ["b"]


async def test_a_web_and_a_writer_refuse_a_damaged_model_of_a_shared_store_and_the_others_continue() -> None:
    store = SharedMemoryStore()

    def spoil() -> None:
        entry = store._kept.models["m"]
        entry.log[-1] = replace(entry.log[-1], payload=entry.log[-1].payload[:-1] + b"\xff")
        del entry.generations[:-1]  # what the stop has saved

    async with running(store, "writer") as writer, running(store, "web") as web:
        await with_model(web)
        await until(lambda: writer.has() and web.has("default"))
        await web.observe(events(20))
        await writer.admin.snapshot_now("m")
        await web.observe(events(20))
        await web.observe(events(20), "default")
    spoil()
    async with running(store, "writer") as writer, running(store, "web") as web:
        await until(lambda: web.has("default") and writer.engine.leads)
        for process in (writer, web):
            await until(lambda process=process: "m" in process.service.health().damaged)  # type: ignore[misc]
            with pytest.raises(ModelDamaged):
                process.service.published("m")
            with pytest.raises(ModelDamaged):
                process.parse(events(1))
        assert (await web.observe(events(5), "default")).applied
        await writer.admin.drop_model("m")
        await until(lambda: not web.service.health().damaged)
        await with_model(web)
        assert (await web.observe(events(5))).applied
    assert (writer.fatal, writer.lost, web.fatal, web.lost) == ([], [], [], [])


async def test_a_writer_that_meets_a_damaged_record_gives_up_that_model_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    store, rots = SharedMemoryStore(), threading.Event()
    read, await_log = SharedMemoryStore.read, SharedMemoryStore.await_log

    def awaited(self: SharedMemoryStore, after: Mapping[str, int], timeout_ms: int) -> Mapping[str, Sequence[Record]]:
        """A record whose digest is wrong is left to `read`, also if the call began before it came."""
        found = await_log(self, after, timeout_ms)
        return {name: [] if name == "m" and rots.is_set() else records for name, records in found.items()}

    def rotten(self: SharedMemoryStore, model: str, after_seq: int, bytes_max: int = 2**24) -> list[Record]:
        found = read(self, model, after_seq, bytes_max)
        if model == "m" and rots.is_set() and found and found[-1].last > 1:
            raise LogFork("the record at event 2 was changed after it was written", records.RECORD_DAMAGED, 2)
        return found

    monkeypatch.setattr(SharedMemoryStore, "read", rotten)
    monkeypatch.setattr(SharedMemoryStore, "await_log", awaited)
    async with running(store, "writer") as writer, running(store, "web") as web:
        await with_model(web)
        await until(lambda: writer.has() and web.has("default"))
        rots.set()
        await web.observe(events(3), wait_applied=False)
        await until(lambda: "m" in writer.service.health().damaged and "m" in web.service.health().damaged)
        rots.clear()
        for process in (writer, web):
            assert "at event 2" in process.service.health().damaged["m"]
            with pytest.raises(ModelDamaged):
                process.service.published("m")
        assert (await web.observe(events(5), "default")).applied
        assert writer.service.health().sharing.leads
    assert (writer.fatal, writer.lost) == ([], [])
