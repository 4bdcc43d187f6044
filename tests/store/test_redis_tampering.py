"""Another client writes to the Redis: deleted, edited, added or swapped data is detected, never accepted as written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from riata.base.errors import Corrupt, LogFork, LogGap, RiataError
from riata.store.layout import checkpoint_digest
from riata.store.redis.store import RedisStore, open_redis
from riata.store.store import Append, Edition, Owner, PendingPrediction
from tests.redis_server import RedisServer
from tests.settings import redis_settings
from tests.store.batches import batch_of, observe, one_row, random_batch, save
from tests.store.test_contract import answer_of, plain

LINEAGE = bytes(range(16))
PREFIX = "{riata:riata}:"
OWNER_NONCE = b"n" * 16
SETTINGS = redis_settings(dedupe_events=1000)
KEY = bytes([7] * 16)
Calls = dict[str, Callable[[RedisStore], Any]]


IDS = [bytes([6 * i]) * 16 for i in range(40)]  # in every bucket


def known_ids() -> list[Append]:
    """A request of ids that are all in the log."""
    return [observe("m", batch_of([[(5, 1.0)]] * 40, [1.0] * 40, IDS))]


READING: Calls = {
    "models": lambda store: store.models(),
    "standings": lambda store: store.standings(),
    "heartbeat": lambda store: store.heartbeat(Owner(1, OWNER_NONCE), 600_000),
    "holder": lambda store: (store.holder() or Owner(0, b"")).epoch,
    "inflight": lambda store: store.inflight("m"),
    "read": lambda store: store.read("m", store.head("m").first_seq - 1, 2**30),
    "names": lambda store: list(store.names("m")),
    "generations": lambda store: store.generations("m"),
    "open": lambda store: [store.open_generation("m", generation.gen) for generation in store.generations("m")],
    "edition": lambda store: store.open_edition("m"),
    "recall": lambda store: store.recall("m", [KEY]),
    "due": lambda store: store.due("m", 10, 10),
    "remembered": lambda store: store.remembered("m"),
    "duplicates": lambda store: store.append(known_ids()),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis"), "--appendfsync", "no") as running:
        fill(running)
        yield running


def fill(server: RedisServer) -> None:
    """A store with data of every kind."""
    store = open_redis(server.url, SETTINGS)
    rng = np.random.default_rng(1)
    owner = store.acquire(OWNER_NONCE, 1, "here", 1, 600_000)
    for model in ("m", "o"):
        store.create(model, LINEAGE if model == "m" else bytes(16))
        for _ in range(5):
            store.append([observe(model, random_batch(rng, 4))])
            save(store, owner, model, store.head(model), rng.bytes(300_000))
        store.append([Append(model, "observe", 3, batch=one_row(9), names=[(3, b"three")])])
        store.trim(owner, model, 3, 8)
        head = store.head(model)
        content = model.encode() * 300_000
        for _ in range(2):
            edition = Edition(0, head.seq, head.chain, head.lineage, 0, 5, 5, 300_000, checkpoint_digest(content))
            store.publish(owner, model, edition, content)
        store.remember(model, [PendingPrediction(KEY, 5, b"row")], 1000)
        store.mark_inflight(owner, model, 3, 1)
    store.append(known_ids())
    store.append([Append("m", "observe", 3, batch=one_row(10), names=[(4, b"four")])])
    store.close()


@pytest.fixture
def client(server: RedisServer) -> Iterator[Any]:
    """A client on a server that is restored afterwards to its filled state."""
    with server.client() as opened:
        kept = {key: opened.dump(key) for key in opened.keys("*")}
        yield opened
        opened.flushall()
        for key, value in kept.items():
            opened.restore(key, 0, value)


@pytest.fixture
def store(server: RedisServer, client: Any) -> Iterator[RedisStore]:  # noqa: ARG001  closed before the client restores
    opened = open_redis(server.url, SETTINGS)
    yield opened
    opened.close()


def answers(store: RedisStore) -> dict[str, Any]:
    return {name: plain(answer_of(ask, store)) for name, ask in READING.items()}  # type: ignore[arg-type]


def test_every_missing_key_is_detected(server: RedisServer, client: Any) -> None:
    before = open_redis(server.url, SETTINGS)
    wanted = answers(before)
    assert not [answer for answer in wanted.values() if isinstance(answer, tuple) and answer[:1] == ("Corrupt",)]
    unmissed = set()
    for key in sorted(client.keys(PREFIX + "*")):
        kept = client.dump(key)
        client.unlink(key)
        if not {**noticed(before, wanted), **noticed_by_a_new_process(server, wanted)}:
            unmissed.add(key.decode().removeprefix(PREFIX))
        client.delete(key)
        client.restore(key, 0, kept)
    before.close()
    # Of the other model nothing was asked here but its position; of tickets a new one is drawn; the edition before the newest
    # is for those who are reading it, and what is staged may be staged again.
    of_others = {name for name in unmissed if name.startswith(("m:2:", "p:"))}
    assert unmissed - of_others <= {"m:1:e:1", "m:1:stage"}
    assert "m:2:meta" not in unmissed


def noticed(store: RedisStore, wanted: dict[str, Any]) -> dict[str, Any]:
    """The calls whose answer changed. Each must be a named error, or report that the lease is lost."""
    found = {name: answer for name, answer in answers(store).items() if answer != wanted[name]}
    silent = {name: answer for name, answer in found.items() if not is_error(answer) and (name, answer) not in LOST_LEASE}
    assert silent == {}
    return found


LOST_LEASE = [("heartbeat", None), ("holder", 0)]


def is_error(answer: Any) -> bool:
    return (
        isinstance(answer, tuple) and len(answer) == 2 and answer[0] in ("Corrupt", "LogGap", "LogFork", "Conflict", "NotFound")
    )


def noticed_by_a_new_process(server: RedisServer, wanted: dict[str, Any]) -> dict[str, Any]:
    """The same as `noticed`, for a process that starts later."""
    try:
        store = open_redis(server.url, SETTINGS)
    except Corrupt as error:
        return {"open": error}
    found = noticed(store, wanted)
    store.close()
    return found


@pytest.mark.parametrize("place", [0, 0.5, 1])
def test_every_stored_byte_string_that_is_edited_is_noticed(store: RedisStore, client: Any, place: float) -> None:
    """Descriptions, chunks, pieces, remembered rows, ids: one byte is changed."""
    wanted = answers(store)
    edited = 0
    for name in ("gens", "c:3", "c:4", "c:5", "ed", "e:2", "r", *dedupe_buckets(client)):
        key = f"{PREFIX}m:1:{name}"
        for field, value in client.hgetall(key).items():
            at = int(place * (len(value) - 1))
            asked_for = field in IDS if name.startswith("d:") else (name, field) != ("ed", b"1")
            if not asked_for or (name == "gens" and at == 0):
                continue  # the flag of a generation, verified or not, is no part of what its digest covers
            client.hset(key, field, value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :])
            found = {name: answer for name, answer in answers(store).items() if answer != wanted[name]}
            assert found, (key, field)
            assert all(is_error(answer) or name in ("duplicates", "due") for name, answer in found.items())
            client.hset(key, field, value)
            edited += 1
    assert edited > 6
    assert answers(store) == wanted


def test_a_damaged_remembered_row_is_due_and_empty_and_does_not_delay_others(store: RedisStore, client: Any) -> None:
    whole, rotten = PendingPrediction(bytes([8] * 16), 7, b"whole"), PendingPrediction(bytes([9] * 16), 6, b"rotten")
    store.forget("m", [KEY])
    store.remember("m", [whole, rotten], 1000)
    stored = client.hget(PREFIX + "m:1:r", rotten.key)
    for at in range(len(stored)):
        client.hset(PREFIX + "m:1:r", rotten.key, stored[:at] + bytes([stored[at] ^ 1]) + stored[at + 1 :])
        assert store.due("m", 10, 10) == [PendingPrediction(rotten.key, 10, b""), whole]
        with pytest.raises(Corrupt):
            store.recall("m", [rotten.key])
    assert store.forget("m", [rotten.key]) == 1
    assert store.due("m", 10, 10) == [whole]
    assert store.remembered("m") == (1, 5)


def dedupe_buckets(client: Any) -> list[str]:
    keys = [key.decode().removeprefix(PREFIX + "m:1:") for key in client.keys(PREFIX + "m:1:d:*:*")]
    return sorted(keys)[:2]


def test_a_trim_by_another_client_is_a_gap(store: RedisStore, client: Any) -> None:
    after = store.head("m").first_seq - 1
    assert store.read("m", after)
    client.xtrim(PREFIX + "m:1:log", maxlen=2, approximate=False)
    with pytest.raises(LogGap):
        store.read("m", after)


def test_a_deleted_record_is_a_gap_wherever_it_was(store: RedisStore, client: Any) -> None:
    log = PREFIX + "m:1:log"
    kept = client.dump(log)
    after = store.head("m").first_seq - 1
    for entry, _ in client.xrange(log):
        client.xdel(log, entry)
        with pytest.raises((LogGap, LogFork)):
            store.read("m", after)
        client.delete(log)
        client.restore(log, 0, kept)
    assert store.read("m", after)


def test_an_edited_record_is_a_fork(store: RedisStore, client: Any) -> None:
    log = PREFIX + "m:1:log"
    entries = client.xrange(log)
    after = store.head("m").first_seq - 1
    for edited, (_, fields) in enumerate(entries):
        for name, value in fields.items():
            client.delete(log)
            for number, (entry, others) in enumerate(entries):
                changed = {**others, name: value[:-1] + bytes([value[-1] ^ 1])} if number == edited else others
                client.xadd(log, changed, id=entry)
            with pytest.raises((LogFork, LogGap)):
                store.read("m", after)


@pytest.mark.parametrize("entry", ["+1-0", "+1-7", "+9-0", "*"])
def test_an_entry_added_by_another_client_stops_reading_and_appending(store: RedisStore, client: Any, entry: str) -> None:
    head = store.head("m")
    log = PREFIX + "m:1:log"
    place = entry if entry == "*" else f"{head.seq + int(entry[1])}{entry[2:]}"
    client.xadd(log, {"kind": "observe"}, id=place)
    with pytest.raises(LogFork):
        store.append([observe("m", one_row(50))])
    with pytest.raises((LogFork, LogGap)):
        store.read("m", head.first_seq - 1)
    assert store.head("m") == head


def test_a_store_that_was_emptied_is_not_taken_for_an_empty_one(store: RedisStore, server: RedisServer, client: Any) -> None:
    owner = Owner(1, OWNER_NONCE)
    assert store.heartbeat(owner, 600_000)
    client.flushall()
    changing: Calls = {
        "append": lambda store: store.append([observe("m", one_row(50))]),
        "create": lambda store: store.create("x", LINEAGE),
        "stage": lambda store: store.stage(owner, "m", 9, 0, b"x"),
        "acquire": lambda store: store.acquire(OWNER_NONCE, 1, "here", 1, 1000),
        "idle": lambda store: store.idle(),
    }
    for ask in (*READING.values(), *changing.values()):
        with pytest.raises(LogFork, match="emptied"):
            ask(store)
    other = open_redis(server.url, SETTINGS)  # a process that has seen the old store does not follow a new one
    other.create("m", LINEAGE)
    for ask in (*READING.values(), *changing.values()):
        with pytest.raises(LogFork, match="emptied or replaced by another one"):
            ask(store)
    other.close()


@pytest.mark.parametrize(("one", "other"), [("m:1:c:5", "m:1:c:4"), ("m:1:c:5", "m:2:c:5"), ("m:1:e:2", "m:2:e:2")])
def test_chunks_that_change_places_are_noticed(store: RedisStore, client: Any, one: str, other: str) -> None:
    swap(client, PREFIX + one, PREFIX + other)
    raised = [attempt(lambda: store.open_generation("m", 5)), attempt(lambda: store.open_edition("m"))]
    assert [type(answer) for answer in raised if isinstance(answer, RiataError)] == [Corrupt]


def swap(client: Any, one: str, other: str) -> None:
    client.rename(one, "spare")
    client.rename(other, one)
    client.rename("spare", other)


def attempt(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except RiataError as error:
        return error


def test_a_key_of_another_type_is_damage(store: RedisStore, client: Any) -> None:
    for name in ("m:1:log", "m:1:meta", "m:1:gens", "own", "models"):
        kept = client.dump(PREFIX + name)
        client.set(PREFIX + name, "something else")
        found = [answer for answer in answers(store).values() if answer == ("Corrupt", "store_damaged")]
        assert found, name
        client.delete(PREFIX + name)
        client.restore(PREFIX + name, 0, kept)
