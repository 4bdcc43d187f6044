"""Snapshots: those that people save stay, older ones thin out, and only the newest hold the log back; on every store."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from riata.base.errors import Conflict, LogGap, NotFound, RiataError, Unavailable
from riata.run.admin import Admin
from riata.run.engine_alone import AloneEngine
from riata.run.service import Service
from riata.run.state.recovery import Recovery
from riata.run.state.replay import in_this_thread, replay
from riata.store.redis.store import open_redis
from riata.store.sqlite.store import open_sqlite
from riata.store.store import Store
from tests.doubles.memory_store import MemoryStore
from tests.redis_server import RedisServer, redis_version
from tests.run.node import SMALL, MovedClock, Node, events, started
from tests.settings import engine_settings, redis_settings, retention, sqlite_settings

KINDS = ("memory", "sqlite", "redis")
KEEP_NOTHING = retention(events=0, older_bytes=2**24)


class World:
    """A store that outlives the services on it."""

    def __init__(self, kind: str, folder: Path, redis: RedisServer | None) -> None:
        self.clock = MovedClock()
        self._memory = MemoryStore()
        opened: dict[str, Callable[[], Store]] = {
            "memory": lambda: self._memory.crash(),
            "sqlite": lambda: open_sqlite(folder / "data", sqlite_settings(ballast_bytes=2**20, reserve_bytes=2**20)),
            "redis": lambda: open_redis(redis.url if redis else "", redis_settings(namespace=folder.name[:40])),
        }
        self._open = opened[kind]

    def open(self) -> Store:
        store = self._open()
        if isinstance(store, MemoryStore):
            self._memory = store
        return store

    @asynccontextmanager
    async def serve(self, **settings: Any) -> AsyncIterator[Node]:
        """A service with a model m."""
        numbers, fatal = itertools.count(int.from_bytes(b"nonce")), list[str]()
        asked = engine_settings(**{"retention": KEEP_NOTHING, **settings})
        engine = AloneEngine(self.open, asked, self.clock, lambda size: next(numbers).to_bytes(size, "big"), fatal.append)
        async with started(Node(engine, Service(engine), Admin(engine), self._memory, fatal)) as node:
            if "m" not in engine.served_models:
                await node.admin.put_model("m", SMALL)
            yield node


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer | None]:
    if redis_version() < (7,):
        yield None
        return
    with RedisServer(tmp_path_factory.mktemp("redis")) as running:
        yield running


@pytest.fixture(params=KINDS)
def world(request: pytest.FixtureRequest, tmp_path: Path, redis: RedisServer | None) -> World:
    if request.param == "redis" and redis is None:
        pytest.skip("needs a Redis server of version 7 or newer")
    return World(request.param, tmp_path, redis)


async def learn_and_save(node: Node, clock: MovedClock, count: int, hours: float = 1.0) -> None:
    for _ in range(count):
        await node.observe(events(5))
        await node.engine.save("m")
        clock.ahead_ms += int(3.6e6 * hours)


async def shown(node: Node) -> dict[int, dict[str, Any]]:
    return {one["generation"]: one for one in await node.admin.snapshots("m")}


async def test_a_saved_snapshot_stays_through_schedules_starts_and_trims_and_holds_no_event_back(world: World) -> None:
    async with world.serve() as node:
        await node.observe(events(5))
        kept = await node.admin.snapshot_now("m", "before the import")
        assert (kept["cause"], kept["note"], kept["leads_on"]) == ("saved", "before the import", True)
        await learn_and_save(node, world.clock, 6)
    for _ in range(3):
        async with world.serve() as node:
            await learn_and_save(node, world.clock, 6)
            found = (await shown(node))[kept["generation"]]
            assert found["age_s"] >= 6 * 3600
            same = ("seq", "created", "state_digest", "note", "cause", "bytes")
            assert [found[key] for key in same] == [kept[key] for key in same]
            assert found["verified"]
            assert not found["leads_on"]  # the log begins after it
    async with world.serve() as node:
        head = await node.engine.call(lambda s: s.head("m"))
        newest = [one["seq"] for one in (await node.admin.snapshots("m")) if one["cause"] == "schedule"][:3]
        assert head.first_seq == newest[2] + 1
        await node.admin.restore("m", kept["generation"])
        again = await node.admin.snapshot_now("m")
        assert again["metrics"]["non_zeros"] == kept["metrics"]["non_zeros"]
    with contextlib.closing(world.open()) as store:
        assert all(one.equal for one in replay(store, "m").compared)


async def test_older_snapshots_thin_out_by_age_within_their_budget(world: World) -> None:
    async with world.serve() as node:
        await learn_and_save(node, world.clock, 16)
        ages = [round(one["age_s"] / 3600) - 1 for one in await node.admin.snapshots("m")]
        assert ages[:3] == [0, 1, 2]
        assert all(older <= 2 * newer for newer, older in itertools.pairwise(ages[2:]))
        assert len(ages) <= 9
        assert [one["leads_on"] for one in (await shown(node)).values()] == [True] * 3 + [False] * (len(ages) - 3)
    async with world.serve(retention=retention(events=0, older_bytes=1)) as node:
        await learn_and_save(node, world.clock, 1)
        assert len(await node.admin.snapshots("m")) == 3


async def test_the_bound_of_saved_snapshots_refuses_and_names_what_to_delete(world: World) -> None:
    async with world.serve() as node:
        await node.observe(events(5))
        await node.engine.save("m")
        size = (await node.admin.snapshots("m"))[0]["bytes"]
    async with world.serve(saved_bytes_max=size * 3 // 2) as node:
        await node.observe(events(5))
        first = await node.admin.snapshot_now("m", "the first")
        with pytest.raises(Unavailable) as refused:
            await node.admin.snapshot_now("m")
        assert refused.value.code == "saved_full"
        assert f"snapshot {first['generation']} of {first['created']}" in refused.value.detail
        assert "'the first'" in refused.value.detail
        assert "saved_bytes_max is" in refused.value.detail
        assert [one["cause"] for one in await node.admin.snapshots("m")].count("saved") == 1
        await node.engine.save("m")  # those of the service are not refused
        await node.admin.delete_snapshot("m", first["generation"])
        second = await node.admin.snapshot_now("m", "the second")
        assert [key for key, one in (await shown(node)).items() if one["cause"] == "saved"] == [second["generation"]]
    async with world.serve(saved_bytes_max=0) as node:
        with pytest.raises(Unavailable, match="saved_bytes_max is 0: delete one"):
            await node.admin.snapshot_now("m")


async def test_only_saved_snapshots_can_be_deleted_and_no_number_is_given_twice(world: World) -> None:
    async with world.serve() as node:
        await node.observe(events(5))
        made = (await node.admin.snapshot_now("m"))["generation"]
        await node.admin.delete_snapshot("m", made)  # though it is the newest
        assert made not in await shown(node)
        with pytest.raises(NotFound, match="no snapshot"):
            await node.admin.delete_snapshot("m", made)
        by_itself = next(iter(await shown(node)))
        assert by_itself > made
        with pytest.raises(Conflict) as refused:
            await node.admin.delete_snapshot("m", by_itself)
        assert refused.value.code == "not_saved"
        assert by_itself in await shown(node)
        assert (await node.admin.snapshot_now("m"))["generation"] > by_itself


async def test_a_snapshot_that_somebody_saves_is_for_nobody_else(world: World) -> None:
    """Who waits for a checkpoint of the service, as forgetting does, gets one that counts among the newest."""
    async with world.serve() as node:
        await node.observe(events(5))
        saved, other = await asyncio.gather(node.admin.snapshot_now("m", "mine"), node.engine.save("m"))
        assert other.generation is not None
        assert saved["generation"] != other.generation.gen
        assert {key: one["cause"] for key, one in (await shown(node)).items()} == {
            saved["generation"]: "saved", other.generation.gen: "schedule",
        }  # fmt: skip


async def test_no_start_begins_from_a_snapshot_that_no_log_follows(world: World) -> None:
    async with world.serve() as node:
        await node.observe(events(5))
        await node.admin.snapshot_now("m")
        await learn_and_save(node, world.clock, 5)
    with closing(world.open()) as store:
        owner = store.acquire(b"another nonce---", 1000, "here", 1)
        newest = [one.gen for one in store.generations("m") if one.applied >= store.head("m").first_seq - 1]
        real = store.open_generation

        def damaged(model: str, gen: int) -> bytes:
            content = real(model, gen)
            return content[:-1] + bytes([content[-1] ^ 1]) if gen in newest else content

        store.open_generation = damaged  # type: ignore[method-assign]
        with pytest.raises(LogGap, match="every retained snapshot failed verification"):
            Recovery(in_this_thread(store), owner, lambda: 1).recover("m")


async def test_a_scrub_reads_the_newest_and_one_of_the_others_at_a_time(world: World) -> None:
    async with world.serve() as node:
        await node.observe(events(5))
        await node.admin.snapshot_now("m")
        await learn_and_save(node, world.clock, 12)
        kept = list(await shown(node))
        assert len(kept) >= 6
        learning = node.engine.led("scrubbing")
        read: list[int] = []

        async def verifies(name: str, generation: Any) -> bool:
            if name == "m":
                read.append(generation.gen)
            return True

        learning._scrub._verifies = verifies  # type: ignore[method-assign]
        for _ in kept[3:]:
            before = len(read)
            await learning.scrub()
            assert len(read) - before == 4
        assert sorted(set(read)) == sorted(kept)


async def test_a_scrub_finds_a_saved_snapshot_that_is_damaged_and_it_stays_listed(world: World) -> None:
    async with world.serve() as node:
        await node.observe(events(5))
        made = (await node.admin.snapshot_now("m"))["generation"]
        await learn_and_save(node, world.clock, 3)
        learning = node.engine.led("scrubbing")
        real = learning._scrub._verifies

        async def verifies(name: str, generation: Any) -> bool:
            return (name, generation.gen) != ("m", made) and await real(name, generation)

        learning._scrub._verifies = verifies  # type: ignore[method-assign]
        assert await learning.scrub() == ["m"]
        assert not (await shown(node))[made]["verified"]
        assert await learning.scrub() == []
        await node.admin.delete_snapshot("m", made)
        assert made not in await shown(node)


async def test_what_is_not_there_has_no_snapshots(world: World) -> None:
    async with world.serve() as node:
        for wanted in (node.admin.snapshots("none"), node.admin.snapshot_now("none"), node.admin.delete_snapshot("none", 1)):
            with pytest.raises(RiataError, match="none"):
                await wanted
