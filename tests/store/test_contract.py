"""The same random commands to every store must give equal answers and equal contents."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from riata.base.errors import NotFound, RiataError
from riata.store.layout import encode_checkpoint, split_chunks
from riata.store.records import Through, encode_document, encode_restore, encode_skip
from riata.store.redis.store import open_redis
from riata.store.retention import CAUSE, REQUEST, SAVED
from riata.store.sqlite.store import open_in_memory, open_sqlite
from riata.store.store import Append, Appended, Generation, Owner, PendingPrediction, Record, Store, names_in_log
from riata.wire.batch import Batch
from riata.wire.names import Names
from tests.doubles.memory_store import MemoryStore
from tests.redis_server import RedisServer
from tests.settings import redis_settings, sqlite_settings
from tests.store.batches import generation, observe, one_row, random_batch

WINDOW = 60  # events for which ids are known
REDIS = redis_settings(dedupe_events=WINDOW)
SMALL = sqlite_settings(ballast_bytes=2**16, reserve_bytes=2**10, dedupe_events=WINDOW, wal_bytes_max=2**18)
MODELS = ["a", "b", "nobody"]


class Stores:
    """Stores that get the same commands: in plain Python, in memory, on disk, with all payloads beside the database, in Redis."""

    def __init__(self, directory: Path, server: RedisServer) -> None:
        self.directory = directory
        self.server = server
        self.in_memory = open_in_memory(dedupe_events=WINDOW)
        self.stores: list[Store] = [MemoryStore(dedupe_events=WINDOW), self.in_memory, *self.opened()]

    def opened(self) -> list[Store]:
        beside = dataclasses.replace(SMALL, long_bytes=1)
        return [
            open_sqlite(self.directory / "within", SMALL),
            open_sqlite(self.directory / "beside", beside),
            open_redis(self.server.url, REDIS),
        ]

    def all(self, ask: Callable[[Store], Any]) -> Any:
        """The answer of all stores, which must be the same."""
        answers = [answer_of(ask, store) for store in self.stores]
        for other in answers[1:]:
            assert plain(answers[0]) == plain(other)
        return answers[0]

    def restart(self, kill: bool = False) -> None:
        """Continue with the state that a new process finds; with `kill` Redis is a new process too."""
        memory, _in_memory, *others = self.stores
        assert isinstance(memory, MemoryStore)
        for store in others:
            store.close()
        if kill:
            self.server.kill()
            self.server.start()
        self.stores = [memory.crash(), self.in_memory, *self.opened()]  # one that is kept in memory has no other process

    def dump(self) -> None:
        """Compare all that can be read."""
        for model in self.all(lambda store: store.models()):
            self.dump_model(model)

    def dump_model(self, model: str) -> None:
        head = self.all(lambda store: store.head(model))
        self.all(lambda store: store.read(model, head.first_seq - 1, 2**30))
        self.all(lambda store: names_in_log(store, model))
        self.all(lambda store: store.inflight(model))
        rows = self.all(lambda store: store.due(model, 2**40, 1000))
        assert self.all(lambda store: store.remembered(model)) == (len(rows), sum(len(row.row) for row in rows))
        for kept in self.all(lambda store: store.generations(model)):
            self.all(partial(open_it, model=model, gen=kept.gen))


def named(store: Store, batch: Batch, *pairs: tuple[int, bytes]) -> None:
    store.append([dataclasses.replace(observe("a", batch), names=Names.of(pairs))])


def test_names_come_back_in_the_order_of_the_log_repeats_and_all(stores: Stores) -> None:
    stores.all(lambda store: store.create("a", bytes(16)))
    stores.all(lambda store: store.create("b", bytes(16)))
    first, second = one_row(1), one_row(2)
    stores.all(lambda store: named(store, first, (2**64 - 1, b""), (7, "grün".encode())))
    stores.all(lambda store: named(store, first, (8, b"with a duplicate row")))  # nothing is written, so no name is either
    stores.all(lambda store: named(store, second, (7, b"once more")))
    stores.restart()
    wanted = [(1, [(2**64 - 1, b""), (7, "grün".encode())]), (2, [(7, b"once more")])]
    assert stores.all(lambda store: list(store.names("a"))) == wanted
    assert stores.all(lambda store: list(store.names("b"))) == []


def open_it(store: Store, model: str, gen: int) -> bytes:
    return store.open_generation(model, gen)


def answer_of(ask: Callable[[Store], Any], store: Store) -> Any:
    try:
        return ask(store)
    except RiataError as error:
        return error


def plain(answer: Any) -> Any:
    """Convert an answer to a comparable form."""
    if isinstance(answer, RiataError):
        return type(answer).__name__, answer.code
    if isinstance(answer, list):
        return [plain(item) for item in answer]
    if isinstance(answer, Appended):
        masks = [mask.tolist() for mask in (answer.accepted, answer.duplicate, answer.reused)]
        return answer.record, answer.batch is None, masks, answer.seq, plain(answer.refused)
    return answer


def test_the_first_key_of_subjects_stays_that_of_the_store(stores: Stores) -> None:
    assert stores.all(lambda store: store.subject_key(b"a" * 32)) == b"a" * 32
    for kill in (False, True):
        stores.restart(kill)
        assert stores.all(lambda store: store.subject_key(b"b" * 32)) == b"a" * 32


class Walk:
    """Draws commands from a seed and passes them to all stores."""

    def __init__(self, stores: Stores, seed: int) -> None:
        self.stores = stores
        self.rng = np.random.default_rng(seed)
        self.now_ms = 10**6
        self.owners: list[Owner] = []
        self.answers: list[Any] = []  # about pending predictions
        nonce = self.rng.bytes(16)
        version = 2  # of the first owner: from now on 1 is refused, now and then
        self.owners.append(self.stores.all(lambda store: store.acquire(nonce, version, "here", 1)))

    def step(self) -> None:
        commands = [self.append] * 6 + [self.checkpoint] * 3 + [self.trim, self.read, self.mark, self.acquire, self.release]
        commands += [self.create, self.drop, self.loose_stage, self.verify, self.idle, self.restart, self.stores.dump]
        commands += [self.remember, self.recall]
        commands[int(self.rng.integers(0, len(commands)))]()

    def model(self) -> str:
        return MODELS[int(self.rng.choice(3, p=[0.6, 0.35, 0.05]))]

    def owner(self) -> Owner:
        """Usually the last owner, sometimes one that was fenced off."""
        return self.owners[-1] if self.rng.random() < 0.9 else self.owners[int(self.rng.integers(0, len(self.owners)))]

    def acquire(self) -> None:
        nonce, version = self.rng.bytes(16), int(self.rng.choice([1, 2, 2]))
        owner = self.stores.all(lambda store: store.acquire(nonce, version, "here", 1))
        if isinstance(owner, Owner):
            self.owners.append(owner)

    def release(self) -> None:
        owner = self.owner()
        self.stores.all(lambda store: store.release(owner))

    def create(self) -> None:
        model, lineage = self.model(), self.rng.bytes(16)
        if model != "nobody":
            self.stores.all(lambda store: store.create(model, lineage))

    def drop(self) -> None:
        if self.rng.random() < 0.1:
            owner, model = self.owner(), self.model()
            self.stores.all(lambda store: store.drop(owner, model))

    def append(self) -> None:
        group = [self.one_append() for _ in range(int(self.rng.integers(1, 5)))]
        for appended in self.stores.all(lambda store: store.append(group)):
            accepted, duplicate, reused = appended.accepted, appended.duplicate, appended.reused
            assert not (accepted & duplicate).any()
            assert not (duplicate & reused).any()
            assert not (accepted & reused).any()
            assert (appended.record is None) or appended.seq == appended.record.last

    def one_append(self) -> Append:
        kind = self.rng.random()
        model = self.model()
        if kind < 0.1:
            return Append(model, "config", 3, payload=encode_document({"eta": float(self.rng.random())}))
        if kind < 0.2:
            return Append(model, "skip", 3, payload=encode_skip(4, "poison"))
        if kind < 0.23:
            return self.promotion(model)
        if kind < 0.29:
            return self.restore(model)
        batch = random_batch(self.rng, int(self.rng.integers(1, 9)), 30)
        if kind < 0.31:
            batch = dataclasses.replace(batch, weight=np.zeros(batch.n))  # breaks the contract
        pairs = [(int(self.rng.integers(0, 2**64, dtype=np.uint64)), b"name"), (2**63 + int(self.rng.integers(0, 5)), b"again")]
        names = [(), pairs, Names.of(pairs)][int(self.rng.integers(0, 3))]
        asked = observe(model, batch, bool(self.rng.random() < 0.3))
        return dataclasses.replace(asked, names=names, only_if_all_new=batch.n in (1, 4))

    def promotion(self, model: str) -> Append:
        """A state of some earlier event, which may be trimmed."""
        head = self.stores.all(lambda store: store.head(model))
        seq = 0 if isinstance(head, RiataError) else int(self.rng.integers(max(head.first_seq - 3, 0), head.seq + 1))
        return Append(model, "restore", 3, payload=encode_restore({}, b"state", Through(seq, bytes(20))))

    def restore(self, model: str) -> Append:
        """A state of some event of this log; now and then one ahead of it, of a fork or of another log, or nothing at all."""
        head = self.stores.all(lambda store: store.head(model))
        if isinstance(head, RiataError) or self.rng.random() < 0.05:
            return Append(model, "restore", 3, payload=encode_restore({}, b"no state"))
        applied = int(self.rng.integers(0, head.seq + 2))
        log = [record for record in self.stores.stores[0].read(model, head.first_seq - 1, 2**30) if record.last >= applied]
        chain = log[0].chain if log and self.rng.random() < 0.9 else bytes(20)
        lineage = head.lineage if self.rng.random() < 0.9 else bytes(16)
        header = {"applied": applied, "chain": chain.hex(), "lineage": lineage.hex()}
        return Append(model, "restore", 3, payload=encode_restore({}, encode_checkpoint(header, {})))

    def checkpoint(self) -> None:
        model, owner = self.model(), self.owner()
        kept = self.stores.all(lambda store: store.generations(model))
        head = self.stores.all(lambda store: store.head(model))
        if isinstance(kept, RiataError):
            return
        base = kept[0].gen if kept else 0
        data = self.rng.bytes(int(self.rng.integers(0, 3000)))
        self.stage(owner, model, base + 1, list(split_chunks([data], 1000)))
        made = dataclasses.replace(generation(base + 1, head.seq, head.chain, data, head.lineage), chunks=-(-len(data) // 1000))
        if self.rng.random() < 0.4:
            made = dataclasses.replace(made, info={**made.info, CAUSE: str(self.rng.choice([SAVED, REQUEST]))})
        self.now_ms += int(self.rng.integers(-50, 1000))
        made = dataclasses.replace(self.spoilt(made, kept), created_ms=self.now_ms)
        wrong_base = base - 1 if self.rng.random() < 0.05 else base
        self.stores.all(lambda store: store.commit(owner, model, wrong_base, made))
        if self.rng.random() < 0.8:
            self.stores.all(lambda store: store.mark_verified(owner, model, made.gen))

    def spoilt(self, made: Generation, kept: list[Generation]) -> Generation:
        """Damage two generations in five."""
        older = kept[-1] if kept else made
        wrong: list[dict[str, Any]] = [
            {"lineage": bytes(16)}, {"chain": bytes(20)}, {"applied": made.applied + 1}, {"applied": max(made.applied - 1, 0)},
            {"applied": older.applied, "chain": older.chain}, {"chunks": made.chunks + 1}, {"bytes": made.bytes + 1},
            {"gen": made.gen + 1}, {"parent": 7}, {"digest": bytes(32)},
        ]  # fmt: skip
        return dataclasses.replace(made, **wrong[int(self.rng.integers(0, len(wrong)))]) if self.rng.random() < 0.4 else made

    def stage(self, owner: Owner, model: str, gen: int, chunks: list[bytes]) -> None:
        for index, chunk in enumerate(chunks):
            self.stores.all(lambda store: store.stage(owner, model, gen, index, chunk))  # noqa: B023

    def loose_stage(self) -> None:
        owner, model, gen = self.owner(), self.model(), int(self.rng.integers(1, 12))
        self.stage(owner, model, gen, [b"loose"] * int(self.rng.integers(1, 5)))
        if self.rng.random() < 0.5:
            self.stores.all(lambda store: store.drop_stale_stages(owner))

    def verify(self) -> None:
        owner, model, gen = self.owner(), self.model(), int(self.rng.integers(0, 12))
        sound = bool(self.rng.random() < 0.7)
        self.stores.all(lambda store: store.mark_verified(owner, model, gen, sound))
        self.stores.all(lambda store: store.open_generation(model, gen))

    def trim(self) -> None:
        owner, model = self.owner(), self.model()
        keep_generations, keep_events = int(self.rng.integers(0, 5)), int(self.rng.integers(0, 20))
        older_bytes = int(self.rng.choice([0, 2000, 10**6]))
        without = [int(gen) for gen in self.rng.integers(1, 30, int(self.rng.choice([0, 0, 2])))]
        self.stores.all(lambda store: store.trim(owner, model, keep_generations, keep_events, older_bytes, without))

    def read(self) -> None:
        model, after, size = self.model(), int(self.rng.integers(0, 200)), int(self.rng.integers(0, 2000))
        self.stores.all(lambda store: store.read(model, after, size))

    def mark(self) -> None:
        owner, model, seq = self.owner(), self.model(), int(self.rng.integers(-1, 3))
        self.stores.all(lambda store: store.mark_inflight(owner, model, seq, 2))
        self.stores.all(lambda store: store.inflight(model))

    def idle(self) -> None:
        self.stores.all(lambda store: store.idle())

    def restart(self) -> None:
        self.stores.restart(kill=bool(self.rng.random() < 0.1))

    def remember(self) -> None:
        model, bytes_max = self.model(), int(self.rng.choice([0, 40, 400, 2**28], p=[0.05, 0.1, 0.65, 0.2]))
        rows = [
            PendingPrediction(
                self.key(), int(self.rng.integers(0, 50)), self.rng.bytes(int(self.rng.choice([0, 1, 17, 60, 200])))
            )
            for _ in range(int(self.rng.integers(0, 5)))
        ]
        self.answers.append(self.stores.all(lambda store: store.remember(model, rows, bytes_max)))
        self.stores.all(lambda store: store.remembered(model))

    def recall(self) -> None:
        model, keys = self.model(), [self.key() for _ in range(int(self.rng.integers(0, 6)))]
        now_ms, rows_max = int(self.rng.integers(0, 60)), int(self.rng.integers(0, 8))
        self.answers.append(self.stores.all(lambda store: store.recall(model, keys)))
        self.answers.append(self.stores.all(lambda store: store.due(model, now_ms, rows_max)))
        if self.rng.random() < 0.5:
            self.answers.append(self.stores.all(lambda store: store.forget(model, keys)))

    def key(self) -> bytes:
        return int(self.rng.integers(0, 12)).to_bytes(16, "little")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A server without a sync per write. Syncs are tested with power cuts; only the answers matter here."""
    with RedisServer(tmp_path_factory.mktemp("redis"), "--appendfsync", "no") as running:
        yield running


@pytest.fixture
def stores(tmp_path: Path, server: RedisServer) -> Iterator[Stores]:
    server.cli("FLUSHALL")
    made = Stores(tmp_path, server)
    yield made
    for store in made.stores:
        store.close()


@pytest.mark.parametrize("seed", range(8))
def test_stores_agree_on_random_commands(stores: Stores, seed: int) -> None:
    walk = Walk(stores, seed)
    for _ in range(150):
        walk.step()
    stores.dump()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1300))
def test_stores_agree_on_many_random_commands(stores: Stores, seed: int) -> None:
    walk = Walk(stores, seed)
    for _ in range(400):
        walk.step()
    stores.dump()


@pytest.mark.parametrize("seed", range(4))
def test_stores_agree_on_what_is_remembered(stores: Stores, seed: int) -> None:
    walk = Walk(stores, seed)
    for model in MODELS[:2]:
        stores.all(lambda store: store.create(model, bytes(16)))  # noqa: B023
    for number in range(200):
        (walk.remember if walk.rng.random() < 0.5 else walk.recall)()
        if number % 50 == 49:
            stores.restart()
            stores.dump()
    assert {answer for answer in walk.answers if isinstance(answer, bool)} == {True, False}
    assert {type(answer) for answer in walk.answers if answer} >= {bool, dict, list, int}


def test_a_dropped_model_remembers_nothing_when_it_is_made_again(stores: Stores) -> None:
    owner, rows = stores.all(lambda store: store.acquire(bytes(16), 1, "here", 1)), [PendingPrediction(b"k" * 16, 5, b"12345")]
    for _ in range(2):
        stores.all(lambda store: store.create("a", bytes(16)))
        assert stores.all(lambda store: store.remembered("a")) == (0, 0)
        assert stores.all(lambda store: store.recall("a", [rows[0].key])) == {}
        assert stores.all(lambda store: store.remember("a", rows, 5))
        stores.all(lambda store: store.drop(owner, "a"))
        assert isinstance(stores.all(lambda store: store.remembered("a")), NotFound)


def test_the_walk_reaches_every_answer(stores: Stores) -> None:
    """If commands were always refused, or never, the comparison above would prove little."""
    seen: set[str] = set()
    ask_all = stores.all

    def watched(ask: Callable[[Store], Any]) -> Any:
        answer = ask_all(ask)
        for item in answer if isinstance(answer, list) else [answer]:
            seen.add(kind_of(item))
        return answer

    stores.all = watched  # type: ignore[method-assign]
    wanted = {"Verdict.OK", "Verdict.FENCED", "Verdict.CONFLICT", "Verdict.BEHIND", "Verdict.FORK", "Verdict.MISSING"}
    wanted |= {"accepted", "duplicate", "reused", "bad_batch", "model_not_found", "model_exists", "fenced", "log_gap", "trimmed"}
    wanted |= {"older_algorithm", "generation_exists", "generation_not_found", "ckpt_corrupt"}
    for seed in range(310, 330):
        walk = Walk(stores, seed)
        for _ in range(150):
            walk.step()
        if wanted <= seen:
            break
    assert wanted - seen == set()


def kind_of(answer: Any) -> str:
    if isinstance(answer, RiataError):
        return answer.code
    if isinstance(answer, Appended):
        if answer.refused:
            return answer.refused.code
        return "reused" if answer.reused.any() else "duplicate" if answer.duplicate.any() else "accepted"
    if isinstance(answer, Record):
        return "trimmed" if answer.first > 1 else "record"
    return str(answer)
