"""The simulated server behaves like Redis: the same commands give the same answers and leave the same keys on a real server and
on the simulated one.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from riata.store.redis.link import Credentials, Link, Refused, Reply
from riata.store.redis.store import RedisStore
from riata.store.redis.url import read_url
from riata.store.store import SharedStore
from tests.redis_server import RedisServer
from tests.settings import redis_settings
from tests.simulation.lua_host import Scripts
from tests.simulation.mini_redis import MiniRedis, RedisError, SortedSet, Stream, number_text, written
from tests.simulation.server import Server
from tests.simulation.world import World
from tests.store.test_contract import Stores, Walk

SETTINGS: Final = redis_settings(dedupe_events=60)
STEPS: Final = 120  # at least
WRITES: Final = STEPS // 4


class DirectCalls:
    """`Calls` without a network."""

    address = "the simulated server"

    def __init__(self, server: Server) -> None:
        self._server = server

    def script(self, name: str, keys: Sequence[bytes], arguments: Sequence[bytes], timeout_ms: int) -> Reply:  # noqa: ARG002
        return self._ask(lambda: self._server.execute(name, list(keys), list(arguments)))

    def command(self, parts: Sequence[bytes], timeout_ms: int) -> Reply:  # noqa: ARG002
        return self._ask(lambda: self._server.redis.call(parts[0].upper().decode(), *parts[1:]))

    def close(self) -> None:
        return

    def _ask(self, work: Any) -> Reply:
        try:
            found: Reply = work()
        except RedisError as error:
            raise Refused(str(error)) from None
        return found


class Twins(Stores):
    """One store on a real server, one on the simulated server."""

    def __init__(self, directory: Path, server: RedisServer) -> None:
        self.directory = directory
        self.server = server
        self.simulated = Server(World(0), Scripts(), "always")
        self._drawn = (random.Random(1), random.Random(1))
        self.stores = [*self.opened()]

    def opened(self) -> list[Any]:
        address = read_url(self.server.url)
        real, ours = self._drawn
        stores = [
            RedisStore(Link(address, Credentials()), SETTINGS, draw=real.randbytes),
            RedisStore(DirectCalls(self.simulated), SETTINGS, draw=ours.randbytes),
        ]
        for store in stores:
            store.attach()
        return stores

    def restart(self, kill: bool = False) -> None:
        for store in self.stores:
            store.close()
        if kill:
            self.server.kill()
            self.server.start()
        self.simulated.floor = len(self.simulated.file)
        before = content(self.simulated.redis)
        self.simulated.redis = MiniRedis(self.simulated.now_ms)
        for effects in self.simulated.file:
            self.simulated.redis.play(effects)
        assert content(self.simulated.redis) == before, "the file does not lead to what was there"
        self.simulated.restart()
        self.stores = [*self.opened()]

    def dump(self) -> None:
        super().dump()
        assert stored(self.server) == content(self.simulated.redis)


def told(key: bytes) -> bool:
    """Whether a key is compared: answers stored with tickets are packed by another library and are not."""
    return b":p:" not in key


def content(redis: MiniRedis) -> dict[bytes, Any]:
    """All that the simulated server holds, by key."""
    return {key: _plain(value) for key, value in redis.data.items() if told(key)}


def _plain(value: Any) -> Any:
    if isinstance(value, Stream):
        return [(written(at), list(fields)) for at, fields in zip(value.ids, value.fields, strict=True)]
    if isinstance(value, SortedSet):
        return {member: number_text(score) for member, score in value.items()}
    return bytes(value) if isinstance(value, bytearray) else dict(value) if isinstance(value, dict) else value


def stored(server: RedisServer) -> dict[bytes, Any]:
    """The same for a real server."""
    client: Any = server.client()
    try:
        return {key: _read(client, key) for key in client.scan_iter(count=1000) if told(key)}
    finally:
        client.close()


def _read(client: Any, key: bytes) -> Any:
    kind = client.type(key).decode()
    if kind == "hash":
        return client.hgetall(key)
    if kind == "stream":
        return [(at, [part for pair in fields.items() for part in pair]) for at, fields in client.xrange(key)]
    if kind == "zset":
        return {member: number_text(score) for member, score in client.zrange(key, 0, -1, withscores=True)}
    return client.get(key)


@pytest.fixture
def twins(tmp_path: Path) -> Iterator[Twins]:
    with RedisServer(tmp_path / "redis", "--appendfsync", "no") as server:
        made = Twins(tmp_path, server)
        try:
            yield made
        finally:
            for store in made.stores:
                store.close()


@pytest.mark.parametrize("seed", range(4))
def test_the_same_commands_give_the_same_answers_and_leave_the_same_keys(twins: Twins, seed: int) -> None:
    """A walk goes on until enough of its commands have written: of some seeds most are refused, as by a lack of models."""
    walk = Walk(twins, seed)
    for step in range(10 * STEPS):
        if step >= STEPS and len(twins.simulated.file) > WRITES:
            break
        walk.step()
    twins.dump()
    assert len(twins.simulated.file) > WRITES


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 200))
def test_many_more_commands(twins: Twins, seed: int) -> None:
    test_the_same_commands_give_the_same_answers_and_leave_the_same_keys(twins, seed)


def test_a_difference_is_seen(twins: Twins) -> None:
    twins.all(lambda store: store.create("a", bytes(16)))
    twins.simulated.redis.call("HSET", "{riata:riata}:m:1:meta", "seq", "7")
    with pytest.raises(AssertionError):
        twins.all(lambda store: store.head("a"))


def test_calls_of_shared_stores_give_the_same_answers_too(twins: Twins) -> None:
    """Marks of a log, as followers check them."""

    def chains(store: Any) -> list[bytes | None]:
        shared: SharedStore = store
        return shared.chains_at("a", [0, 1, 2, 99])

    walk = Walk(twins, 5)
    twins.all(lambda store: store.create("a", bytes(16)))
    for _ in range(10):
        walk.append()
    found = twins.all(chains)
    assert found[0]
    assert found[3] in (b"", None) or found[3]
