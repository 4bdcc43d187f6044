"""The same random commands to both shared stores, with several processes each: leases, positions, editions, appends."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from riata.base.errors import RiataError
from riata.store.layout import checkpoint_digest
from riata.store.redis.store import open_redis
from riata.store.store import Edition, Head, Holder, Owner, Record, SharedStore, Verdict
from tests.doubles.manual_clock import ManualClock
from tests.doubles.shared_memory_store import SharedMemoryStore
from tests.redis_server import RedisServer, until
from tests.settings import redis_settings
from tests.store.batches import observe, one_row, random_batch, save
from tests.store.test_contract import answer_of, kind_of, plain, server

__all__ = ["server"]  # a fixture

LONG_MS = 600_000
REDIS = redis_settings(dedupe_events=60)


class Twins:
    """Two shared stores, each used by two processes, that get the same commands."""

    def __init__(self, server: RedisServer) -> None:
        self.clock = ManualClock(1000)
        memory = SharedMemoryStore(60, self.clock)
        self.redis = [open_redis(server.url, REDIS) for _ in range(2)]
        self.views: list[tuple[SharedStore, SharedStore]] = [(memory, self.redis[0]), (memory.another(), self.redis[1])]

    def ask(self, view: int, ask: Callable[[SharedStore], Any]) -> Any:
        """The answer to process `view`, which must be the same from both stores."""
        memory, redis = (answer_of(ask, store) for store in self.views[view])  # type: ignore[arg-type]
        assert comparable(memory) == comparable(redis)
        return memory

    def lapse(self, owner: Owner) -> None:
        """Let the lease of `owner` expire, if it has one."""
        memory, redis = self.views[0]
        if memory.heartbeat(owner, 1) is None:
            assert redis.heartbeat(owner, 1) is None
            return
        redis.heartbeat(owner, 1)
        self.clock.now_ms += 1
        until("a lease that lapses", lambda: redis.holder() is None)
        assert memory.holder() is None

    def close(self) -> None:
        for store in self.redis:
            store.close()


def comparable(answer: Any) -> Any:
    """As `plain`; of the time of a lease, only whether much of it is left."""
    if isinstance(answer, Holder):
        return answer.epoch, answer.host, answer.remaining_ms > LONG_MS // 2, answer.remaining_ms == 2**53
    return plain(answer)


@pytest.fixture
def twins(server: RedisServer) -> Iterator[Twins]:
    server.cli("FLUSHALL")
    made = Twins(server)
    yield made
    made.close()


class SharedWalk:
    """Draws commands from a seed."""

    def __init__(self, twins: Twins, seed: int) -> None:
        self.twins = twins
        self.rng = np.random.default_rng(seed)
        self.owners = [Owner(7, bytes(16))]
        self.nonces = [self.rng.bytes(16) for _ in range(3)]
        self.seen: set[str] = set()

    def step(self) -> None:
        commands = [self.acquire, self.acquire, self.heartbeat, self.heartbeat, self.release, self.lapse, self.create, self.drop]
        commands += [self.announce]
        commands += [self.append] * 4 + [self.publish] * 6 + [self.follow] * 2 + [self.checkpoint, self.trim]
        commands[int(self.rng.integers(0, len(commands)))]()

    def ask(self, ask: Callable[[SharedStore], Any]) -> Any:
        answer = self.twins.ask(int(self.rng.integers(0, 2)), ask)
        self.seen |= {kind_of(item) for item in (answer if isinstance(answer, list) else [answer])}
        return answer

    def model(self) -> str:
        return "abn"[int(self.rng.choice(3, p=[0.6, 0.3, 0.1]))]

    def owner(self) -> Owner:
        return self.owners[-1] if self.rng.random() < 0.8 else self.owners[int(self.rng.integers(0, len(self.owners)))]

    def acquire(self) -> None:
        nonce, version = self.nonces[int(self.rng.integers(0, 3))], int(self.rng.choice([1, 2, 2, 2]))
        ttl = None if self.rng.random() < 0.1 else LONG_MS
        owner = self.ask(lambda store: store.acquire(nonce, version, "here", 1, ttl))
        if isinstance(owner, Owner):
            self.owners.append(owner)
        self.ask(lambda store: store.holder())

    def heartbeat(self) -> None:
        owner = self.owner()
        self.seen.add("beat" if self.ask(lambda store: store.heartbeat(owner, LONG_MS)) is not None else "lost")

    def announce(self) -> None:
        host, ttl_ms = "ab"[int(self.rng.integers(0, 2))], int(self.rng.choice([0, LONG_MS]))
        said = self.rng.bytes(3)
        found = self.ask(lambda store: [(one.host, one.said) for one in store.announce(host, ttl_ms, said)])
        assert [one for one in found if one[0] == host] == ([(host, said)] if ttl_ms else [])

    def release(self) -> None:
        owner = self.owner()
        self.ask(lambda store: store.release(owner))
        self.ask(lambda store: store.holder())

    def lapse(self) -> None:
        self.twins.lapse(self.owner())
        self.ask(lambda store: store.holder())

    def create(self) -> None:
        model, lineage = self.model(), self.rng.bytes(16)
        if model != "n":
            self.ask(lambda store: store.create(model, lineage))

    def drop(self) -> None:
        owner, model = self.owner(), self.model()
        if self.rng.random() < 0.2:
            self.ask(lambda store: store.drop(owner, model))

    def append(self) -> None:
        models = [self.model() for _ in range(int(self.rng.integers(1, 4)))]
        group = [observe(model, random_batch(self.rng, int(self.rng.integers(1, 5)), 30)) for model in models]
        self.ask(lambda store: store.append(group))

    def checkpoint(self) -> None:
        owner, model, data = self.owner(), self.model(), self.rng.bytes(100)
        head = self.ask(lambda store: store.head(model))
        if not isinstance(head, RiataError) and self.ask(lambda store: store.stage(owner, model, 99, 0, b"loose")) is True:
            self.ask(lambda store: save(store, owner, model, head, data))

    def trim(self) -> None:
        owner, model = self.owner(), self.model()
        self.ask(lambda store: store.trim(owner, model, 3, 0))

    def publish(self) -> None:
        owner, model, content = self.owner(), self.model(), self.rng.bytes(int(self.rng.choice([0, 10, 300_000])))
        head = self.ask(lambda store: store.head(model))
        if isinstance(head, RiataError):
            return
        made = edition_of(head, content)
        spoilt: list[dict[str, Any]] = [{"lineage": bytes(16)}, {"chain": bytes(20)}, {"applied": head.seq + 1}, {"applied": 0}]
        if self.rng.random() < 0.3:
            made = dataclasses.replace(made, **spoilt[int(self.rng.integers(0, 4))])
        self.ask(lambda store: store.publish(owner, model, made, content))
        self.ask(lambda store: store.open_edition(model))

    def follow(self) -> None:
        self.ask(lambda store: store.standings())
        model, after = self.model(), int(self.rng.integers(0, 30))
        head = self.ask(lambda store: store.head(model))
        if not isinstance(head, RiataError) and head.seq != after:
            self.ask(lambda store: store.await_log({model: after, "n": 0}, 1))


@pytest.mark.parametrize("seed", range(4))
def test_shared_stores_agree_on_random_commands(twins: Twins, seed: int) -> None:
    walk = SharedWalk(twins, seed)
    for _ in range(150):
        walk.step()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1200))
def test_shared_stores_agree_on_many_random_commands(twins: Twins, seed: int) -> None:
    walk = SharedWalk(twins, seed)
    for _ in range(300):
        walk.step()


def test_the_shared_walk_reaches_every_answer(twins: Twins) -> None:
    seen: set[str] = set()
    for seed in range(100, 104):
        walk = SharedWalk(twins, seed)
        for _ in range(150):
            walk.step()
        seen |= walk.seen
    wanted = {
        "Verdict.OK",
        "Verdict.FENCED",
        "Verdict.BEHIND",
        "Verdict.FORK",
        "owned",
        "older_algorithm",
        "fenced",
        "beat",
        "lost",
    }
    assert wanted - seen == set()


@pytest.mark.parametrize("kind", [0, 1])
def test_a_waiting_follower_is_notified_of_an_append_at_once(twins: Twins, kind: int) -> None:
    import threading

    one, other = (view[kind] for view in twins.views)
    one.create("m", bytes(16))
    told: list[Mapping[str, Sequence[Record]]] = []
    waiting = threading.Thread(target=lambda: told.append(other.await_log({"m": 0}, 3_600_000)))
    start = time.monotonic()
    waiting.start()
    one.append([observe("m", one_row(1))])
    waiting.join()
    assert told == [{"m": one.read("m", 0)}]
    assert time.monotonic() - start < 1800


@pytest.mark.parametrize("kind", [0, 1])
def test_a_follower_that_lags_far_does_not_wait_for_trimmed_records(twins: Twins, kind: int) -> None:
    store = twins.views[0][kind]
    store.create("m", bytes(16))
    owner = store.acquire(bytes(16), 1, "here", 1)
    store.append([observe("m", one_row(1))])
    for _ in range(3):
        save(store, owner, "m", store.head("m"), b"x")
    assert store.trim(owner, "m", 3, 0) == 1
    assert store.await_log({"m": 0}, 1) == {"m": []}
    assert store.await_log({"m": 1}, 1) == {}


def edition_of(head: Head, content: bytes, **changes: Any) -> Edition:
    made = Edition(9, head.seq, head.chain, head.lineage, 0, 0, 5, len(content), checkpoint_digest(content))
    return dataclasses.replace(made, **changes)


def test_the_edition_before_the_newest_stays_readable_and_a_republished_one_is_new(twins: Twins) -> None:
    head = twins.ask(0, lambda store: store.create("m", bytes(16)))
    owner = twins.ask(0, lambda store: store.acquire(bytes(16), 1, "here", 1, LONG_MS))
    assert twins.ask(1, lambda store: store.open_edition("m")) is None
    for number in range(1, 4):
        content = bytes([number]) * 700_000
        made = edition_of(head, content)
        assert twins.ask(0, lambda store: store.publish(owner, "m", made, content)) is Verdict.OK  # noqa: B023
        opened = twins.ask(1, lambda store: store.open_edition("m"))
        assert opened == (dataclasses.replace(made, number=number, epoch=owner.epoch), content)
    twins.ask(0, lambda store: store.append([observe("m", one_row())]))
    end = twins.ask(0, lambda store: store.head("m"))
    twins.ask(0, lambda store: save(store, owner, "m", end, b"state"))
    assert twins.ask(0, lambda store: store.publish(owner, "m", edition_of(end, b"x"), b"x")) is Verdict.OK
    standing = twins.ask(1, lambda store: store.standings())["m"]
    assert (standing.edition, standing.edition_applied, standing.gen, standing.gen_applied, standing.head) == (4, 1, 1, 1, end)
    for wrong, verdict in (
        (edition_of(head, b"x"), Verdict.BEHIND),
        (edition_of(end, b"x", chain=bytes(20)), Verdict.FORK),
        (edition_of(end, b"x", lineage=b"o" * 16), Verdict.FORK),
        (edition_of(end, b"x", applied=5), Verdict.FORK),
    ):
        assert twins.ask(0, lambda store: store.publish(owner, "m", wrong, b"x")) is verdict  # noqa: B023
    assert twins.ask(0, lambda store: store.publish(owner, "m", edition_of(end, b"right"), b"wrong")) is Verdict.OK
    assert twins.ask(1, lambda store: store.open_edition("m")).code == "edition_corrupt"


def test_a_lease_is_taken_by_one_and_by_the_next_when_it_is_given_up_or_lapses(twins: Twins) -> None:
    def take(view: int, letter: bytes, ttl_ms: int | None = LONG_MS) -> Any:
        return twins.ask(view, lambda store: store.acquire(letter * 16, 1, letter.decode(), 1, ttl_ms))

    head = twins.ask(0, lambda store: store.create("m", bytes(16)))
    one = take(0, b"1")
    assert take(1, b"2").code == "owned"
    assert "1 owns the store" in take(1, b"2").detail
    assert take(0, b"1") == one  # who holds it may ask again
    twins.ask(0, lambda store: store.release(one))
    assert twins.ask(1, lambda store: store.holder()) is None
    two = take(1, b"2")
    assert two == Owner(one.epoch + 1, b"2" * 16)
    assert twins.ask(0, lambda store: store.heartbeat(one, LONG_MS)) is None
    twins.lapse(two)
    three = take(0, b"3")
    assert three == Owner(two.epoch + 1, b"3" * 16)
    four = take(1, b"4", None)  # without a time to live the store is taken over
    assert four == Owner(three.epoch + 1, b"4" * 16)
    assert twins.ask(0, lambda store: store.heartbeat(three, LONG_MS)) is None
    for owner, verdict in ((three, Verdict.FENCED), (four, Verdict.OK)):
        assert twins.ask(0, lambda store: store.publish(owner, "m", edition_of(head, b"x"), b"x")) is verdict  # noqa: B023
