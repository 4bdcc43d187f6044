"""The contract over every way to reach a Redis: TLS, Unix socket, restricted user, sentinels, cluster."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from riata.base.errors import BadInput, Unavailable
from riata.store.redis.store import open_redis
from riata.store.redis.url import read_url
from tests.doubles.memory_store import MemoryStore
from tests.redis_server import (
    AclRedis,
    RedisCluster,
    RedisServer,
    Sentinel,
    TlsRedis,
    UnixRedis,
    redis_has_tls,
    redis_version,
    until,
)
from tests.refused import refused
from tests.running import ROOT
from tests.settings import redis_settings
from tests.store.test_contract import Stores, Walk

PASSWORD = "correct horse battery staple"
DIGEST = "c4bbcb1fbec99d65bf59d85c8cb62ee2db963f0fe106f483d9afa73bd4e39a8a"
QUICK = ("--appendfsync", "no")


class Reached(Stores):
    """A store in memory, and one in a Redis at `url`."""

    def __init__(self, url: str, password: str = "") -> None:
        self.url = url
        self.settings = redis_settings(dedupe_events=60, password=password, timeout_ms=20_000)
        self.stores = [MemoryStore(dedupe_events=60), open_redis(url, self.settings)]

    def restart(self, kill: bool = False) -> None:  # noqa: ARG002  what is killed here is told below
        memory, redis = self.stores
        assert isinstance(memory, MemoryStore)
        redis.close()
        self.stores = [memory.crash(), open_redis(self.url, self.settings)]


def tls(directory: Path, stack: ExitStack) -> Reached:
    if not redis_has_tls():
        pytest.skip("this redis-server was built without TLS")
    return Reached(stack.enter_context(TlsRedis(directory, *QUICK)).url)


def unix(directory: Path, stack: ExitStack) -> Reached:
    return Reached(stack.enter_context(UnixRedis(directory, *QUICK)).url)


def restricted(directory: Path, stack: ExitStack) -> Reached:
    """The list of commands that is deployed."""
    if redis_version() < (7,):
        pytest.skip("the deployed list is for Redis 7")
    users = (ROOT / "deploy" / "redis" / "users.acl").read_text(encoding="utf-8").replace("0" * 64, DIGEST)
    server = stack.enter_context(AclRedis(directory, f"{users}user admin on nopass ~* &* +@all\n", *QUICK))
    return Reached(f"redis://riata@127.0.0.1:{server.port}/0", PASSWORD)


def one_node(directory: Path, stack: ExitStack) -> Reached:
    return Reached(stack.enter_context(RedisCluster(directory, 1, *QUICK)).url)


def three_nodes(directory: Path, stack: ExitStack) -> Reached:
    """The first node in the URL has our slot or does not; the store must find the right one."""
    return Reached(stack.enter_context(RedisCluster(directory, 3, *QUICK)).url)


def other_database(directory: Path, stack: ExitStack) -> Reached:
    return Reached(f"redis://127.0.0.1:{stack.enter_context(RedisServer(directory, *QUICK)).port}/3")


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


Way = Callable[[Path, ExitStack], Reached]


@pytest.mark.parametrize("way", [tls, unix, restricted, one_node, three_nodes, other_database], ids=lambda way: way.__name__)
def test_the_contract_holds_over(way: Way, tmp_path_factory: pytest.TempPathFactory, stack: ExitStack) -> None:
    reached = way(tmp_path_factory.mktemp("r"), stack)
    for seed in range(2):
        walk = Walk(reached, 400 + seed)
        for _ in range(150):
            walk.step()
    reached.dump()
    reached.stores[1].close()


def test_the_contract_holds_over_sentinels_and_a_promotion(tmp_path: Path, stack: ExitStack) -> None:
    master = stack.enter_context(RedisServer(tmp_path / "one", *QUICK))
    replica = stack.enter_context(RedisServer(tmp_path / "two", *QUICK, "--replicaof", "127.0.0.1", str(master.port)))
    until("a replica that follows", lambda: b"master_link_status:up" in info(replica))
    sentinel = stack.enter_context(Sentinel(tmp_path / "sentinel", master))
    reached = Reached(sentinel.url)
    walk = Walk(reached, 500)
    for _ in range(100):
        walk.step()
    assert master.cli("WAIT", 1, 10_000) == 1
    master.kill()
    for _ in range(100):  # the first of these waits for the promotion
        walk.step()
    reached.dump()
    assert sentinel.master_port() == replica.port
    reached.stores[1].close()


@pytest.mark.parametrize("kind", ["cluster", "sentinel"])
def test_a_node_that_hangs_is_passed_over(tmp_path: Path, stack: ExitStack, kind: str) -> None:
    hung = stack.enter_context(socket.create_server(("127.0.0.1", 0)))  # takes connections and says nothing
    first = f"127.0.0.1:{hung.getsockname()[1]}"
    if kind == "cluster":
        url = stack.enter_context(RedisCluster(tmp_path, 3, *QUICK)).url
    else:
        url = stack.enter_context(Sentinel(tmp_path / "s", stack.enter_context(RedisServer(tmp_path / "r", *QUICK)))).url
    store = open_redis(url.replace("127.0.0.1", f"{first},127.0.0.1"), redis_settings(timeout_ms=4000))
    store.create("m", bytes(16))
    assert store.models() == ["m"]
    store.close()


def info(server: RedisServer) -> bytes:
    with server.client() as client:
        client.set_response_callback("INFO", lambda said, **_: said)
        said = client.execute_command("INFO", "replication")
    assert isinstance(said, bytes)
    return said


def test_a_foreign_certificate_is_not_trusted(tmp_path: Path, stack: ExitStack) -> None:
    if not redis_has_tls():
        pytest.skip("this redis-server was built without TLS")
    server = stack.enter_context(TlsRedis(tmp_path, *QUICK))
    with refused(Unavailable, "store_forbidden", "not_accepted", match="certificate"):
        open_redis(server.url.partition("?")[0], redis_settings())
    open_redis(server.url, redis_settings()).close()


def test_a_named_authority_is_the_only_trusted_one(tmp_path: Path, stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's certificate is one that the system trusts. It must be refused if another authority is named."""
    if not redis_has_tls():
        pytest.skip("this redis-server was built without TLS")
    server = stack.enter_context(TlsRedis(tmp_path / "one", *QUICK))
    other = TlsRedis(tmp_path / "other", *QUICK)
    monkeypatch.setenv("SSL_CERT_FILE", str(server.authority))
    with refused(Unavailable, "store_forbidden", match="certificate"):
        open_redis(server.url.replace(str(server.authority), str(other.authority)), redis_settings())
    open_redis(server.url.partition("?")[0], redis_settings()).close()


def test_a_wrong_password_is_refused_and_is_not_shown(tmp_path: Path, stack: ExitStack) -> None:
    server = stack.enter_context(RedisServer(tmp_path, *QUICK))
    server.cli("CONFIG", "SET", "requirepass", "secret-horse")
    for url, password in ((server.url, ""), (server.url.replace("//", "//:wrong-horse@"), ""), (server.url, "wrong-horse")):
        with pytest.raises(Unavailable) as error:
            open_redis(url, redis_settings(password=password))
        assert error.value.code == "store_forbidden"
        assert "horse" not in error.value.detail
    open_redis(server.url.replace("//", "//:secret-horse@"), redis_settings()).close()
    open_redis(server.url, redis_settings(password="secret-horse")).close()


def test_two_namespaces_share_a_server_and_nothing_else(tmp_path: Path, stack: ExitStack) -> None:
    server = stack.enter_context(RedisServer(tmp_path, *QUICK))
    one, other = (open_redis(server.url, redis_settings(namespace=name)) for name in ("one", "other"))
    one.create("m", bytes(16))
    assert (one.models(), other.models()) == (["m"], [])
    assert other.acquire(b"2" * 16, 1, "here", 1, 1000) is not None
    assert one.holder() is None
    one.close()
    other.close()


@pytest.mark.parametrize(
    ("url", "nodes", "db"),
    [
        ("redis://localhost", (("localhost", 6379),), 0),
        ("redis://user:p%40ss@localhost:7000/4", (("localhost", 7000),), 4),
        ("rediss://[::1]:7000", (("::1", 7000),), 0),
        ("unix:///run/redis.sock?db=2", (("", 0),), 2),
        ("redis+sentinel://a:1,b/mymaster?db=1", (("a", 1), ("b", 26379)), 1),
        ("redis+cluster://a,b:7", (("a", 6379), ("b", 7)), 0),
    ],
)
def test_urls_are_read(url: str, nodes: tuple[tuple[str, int], ...], db: int) -> None:
    address = read_url(url)
    assert (address.nodes, address.db) == (nodes, db)
    assert "p%40ss" not in address.shown
    assert "p@ss" not in repr(address) + repr(redis_settings(password="p@ss"))
    assert address.password == ("p@ss" if "@" in url else "")


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost", "redis://", "redis://a:b", "redis://a:70000", "redis://a/x", "redis://a,b", "redis://a?dbb=1", "unix://host/x",
        "unix://", "redis+sentinel://a", "redis+sentinel://a/b/c", "redis+cluster://a/1", "redis://[::1", "redis://a?db=-1", "redis://a?db",
    ],
)  # fmt: skip
def test_other_urls_are_refused(url: str) -> None:
    with refused(BadInput, "bad_store_url"):
        read_url(url)


def test_a_namespace_that_would_break_the_names_of_keys_is_refused() -> None:
    with pytest.raises(BadInput, match="namespace"):
        open_redis("redis://127.0.0.1:1", redis_settings(namespace="a}b"))
