"""The same random commands to every store; equal answers and equal contents are wanted."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from riata.base.errors import RiataError
from riata.store.layout import split_chunks
from riata.store.memory import MemoryStore
from riata.store.records import encode_document, encode_skip
from riata.store.sqlite import SqliteSettings, open_sqlite
from riata.store.store import Append, Appended, Generation, Owner, Record, Store
from riata.wire.batch import Batch
from riata.wire.names import Names
from tests.store.batches import generation, observe, one_row, random_batch

SMALL = SqliteSettings(ballast_bytes=2**16, reserve_bytes=2**10, dedupe_events=60, wal_bytes_max=2**18)
MODELS = ["a", "b", "nobody"]


class Pair:
    """Two stores that are told the same."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.stores: list[Store] = [MemoryStore(dedupe_events=60), open_sqlite(directory, SMALL)]

    def both(self, ask: Callable[[Store], Any]) -> Any:
        """Return the answer of both, which must be one."""
        answers = [answer_of(ask, store) for store in self.stores]
        assert plain(answers[0]) == plain(answers[1])
        return answers[0]

    def restart(self) -> None:
        memory, sqlite = self.stores
        assert isinstance(memory, MemoryStore)
        sqlite.close()
        self.stores = [memory.crash(), open_sqlite(self.directory, SMALL)]

    def dump(self) -> None:
        """Compare all that can be read."""
        for model in self.both(lambda store: store.models()):
            self.dump_model(model)

    def dump_model(self, model: str) -> None:
        head = self.both(lambda store: store.head(model))
        self.both(lambda store: store.read(model, head.first_seq - 1, 2**30))
        self.both(lambda store: list(store.names(model)))
        self.both(lambda store: store.inflight(model))
        for kept in self.both(lambda store: store.generations(model)):
            self.both(partial(open_it, model=model, gen=kept.gen))


def named(store: Store, batch: Batch, *pairs: tuple[int, bytes]) -> None:
    store.append([dataclasses.replace(observe("a", batch), names=Names.of(pairs))])


def test_names_come_back_in_the_order_of_the_log_repeats_and_all(pair: Pair) -> None:
    pair.both(lambda store: store.create("a", bytes(16)))
    pair.both(lambda store: store.create("b", bytes(16)))
    first, second = one_row(1), one_row(2)
    pair.both(lambda store: named(store, first, (2**64 - 1, b""), (7, "grün".encode())))
    pair.both(lambda store: named(store, first, (8, b"with a duplicate row")))  # nothing is written, so no name is either
    pair.both(lambda store: named(store, second, (7, b"once more")))
    pair.restart()
    wanted = [(2**64 - 1, b""), (7, "grün".encode()), (7, b"once more")]
    assert pair.both(lambda store: list(store.names("a"))) == wanted
    assert pair.both(lambda store: list(store.names("b"))) == []


def open_it(store: Store, model: str, gen: int) -> bytes:
    return store.open_generation(model, gen)


def answer_of(ask: Callable[[Store], Any], store: Store) -> Any:
    try:
        return ask(store)
    except RiataError as error:
        return error


def plain(answer: Any) -> Any:
    """Make an answer comparable."""
    if isinstance(answer, RiataError):
        return type(answer).__name__, answer.code
    if isinstance(answer, list):
        return [plain(item) for item in answer]
    if isinstance(answer, Appended):
        masks = [mask.tolist() for mask in (answer.accepted, answer.duplicate, answer.reused)]
        return answer.record, answer.batch is None, masks, answer.seq, plain(answer.refused)
    return answer


class Walk:
    """Draws commands from a seed and gives them to both stores."""

    def __init__(self, pair: Pair, seed: int) -> None:
        self.pair = pair
        self.rng = np.random.default_rng(seed)
        self.owners: list[Owner] = []
        nonce = self.rng.bytes(16)
        version = 2  # of the first owner: from now on 1 is refused, now and then
        self.owners.append(self.pair.both(lambda store: store.acquire(nonce, version, "here", 1)))

    def step(self) -> None:
        commands = [self.append] * 6 + [self.checkpoint] * 3 + [self.trim, self.read, self.mark, self.acquire, self.release]
        commands += [self.create, self.drop, self.loose_stage, self.verify, self.idle, self.pair.restart, self.pair.dump]
        commands[int(self.rng.integers(0, len(commands)))]()

    def model(self) -> str:
        return MODELS[int(self.rng.choice(3, p=[0.6, 0.35, 0.05]))]

    def owner(self) -> Owner:
        """Nearly always the last one, else one that was fenced off."""
        return self.owners[-1] if self.rng.random() < 0.9 else self.owners[int(self.rng.integers(0, len(self.owners)))]

    def acquire(self) -> None:
        nonce, version = self.rng.bytes(16), int(self.rng.choice([1, 2, 2]))
        owner = self.pair.both(lambda store: store.acquire(nonce, version, "here", 1))
        if isinstance(owner, Owner):
            self.owners.append(owner)

    def release(self) -> None:
        owner = self.owner()
        self.pair.both(lambda store: store.release(owner))

    def create(self) -> None:
        model, lineage = self.model(), self.rng.bytes(16)
        if model != "nobody":
            self.pair.both(lambda store: store.create(model, lineage))

    def drop(self) -> None:
        if self.rng.random() < 0.1:
            owner, model = self.owner(), self.model()
            self.pair.both(lambda store: store.drop(owner, model))

    def append(self) -> None:
        group = [self.one_append() for _ in range(int(self.rng.integers(1, 5)))]
        for appended in self.pair.both(lambda store: store.append(group)):
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
        batch = random_batch(self.rng, int(self.rng.integers(1, 9)), 30)
        if kind < 0.25:
            batch = dataclasses.replace(batch, weight=np.zeros(batch.n))  # breaks the contract
        pairs = [(int(self.rng.integers(0, 2**64, dtype=np.uint64)), b"name"), (2**63 + int(self.rng.integers(0, 5)), b"again")]
        names = [(), pairs, Names.of(pairs)][int(self.rng.integers(0, 3))]
        return dataclasses.replace(observe(model, batch, bool(self.rng.random() < 0.3)), names=names)

    def checkpoint(self) -> None:
        model, owner = self.model(), self.owner()
        kept = self.pair.both(lambda store: store.generations(model))
        head = self.pair.both(lambda store: store.head(model))
        if isinstance(kept, RiataError):
            return
        base = kept[0].gen if kept else 0
        data = self.rng.bytes(int(self.rng.integers(0, 3000)))
        self.stage(owner, model, base + 1, list(split_chunks(data, 1000)))
        made = dataclasses.replace(generation(base + 1, head.seq, head.chain, data, head.lineage), chunks=-(-len(data) // 1000))
        made = self.spoilt(made, kept)
        wrong_base = base - 1 if self.rng.random() < 0.05 else base
        self.pair.both(lambda store: store.commit(owner, model, wrong_base, made))
        if self.rng.random() < 0.8:
            self.pair.both(lambda store: store.mark_verified(owner, model, made.gen))

    def spoilt(self, made: Generation, kept: list[Generation]) -> Generation:
        """Make something wrong with one generation in four."""
        older = kept[-1] if kept else made
        wrong: list[dict[str, Any]] = [
            {"lineage": bytes(16)}, {"chain": bytes(20)}, {"applied": made.applied + 1}, {"applied": max(made.applied - 1, 0)},
            {"applied": older.applied, "chain": older.chain}, {"chunks": made.chunks + 1}, {"bytes": made.bytes + 1},
            {"gen": made.gen + 1}, {"parent": 7}, {"digest": bytes(32)},
        ]  # fmt: skip
        return dataclasses.replace(made, **wrong[int(self.rng.integers(0, len(wrong)))]) if self.rng.random() < 0.25 else made

    def stage(self, owner: Owner, model: str, gen: int, chunks: list[bytes]) -> None:
        for index, chunk in enumerate(chunks):
            self.pair.both(lambda store: store.stage(owner, model, gen, index, chunk))  # noqa: B023

    def loose_stage(self) -> None:
        owner, model, gen = self.owner(), self.model(), int(self.rng.integers(1, 12))
        self.stage(owner, model, gen, [b"loose"] * int(self.rng.integers(1, 5)))
        if self.rng.random() < 0.5:
            self.pair.both(lambda store: store.drop_stale_stages(owner))

    def verify(self) -> None:
        owner, model, gen = self.owner(), self.model(), int(self.rng.integers(0, 12))
        self.pair.both(lambda store: store.mark_verified(owner, model, gen))
        self.pair.both(lambda store: store.open_generation(model, gen))

    def trim(self) -> None:
        owner, model = self.owner(), self.model()
        keep_generations, keep_events = int(self.rng.integers(0, 5)), int(self.rng.integers(0, 20))
        self.pair.both(lambda store: store.trim(owner, model, keep_generations, keep_events))

    def read(self) -> None:
        model, after, size = self.model(), int(self.rng.integers(0, 200)), int(self.rng.integers(0, 2000))
        self.pair.both(lambda store: store.read(model, after, size))

    def mark(self) -> None:
        owner, model, seq = self.owner(), self.model(), int(self.rng.integers(-1, 3))
        self.pair.both(lambda store: store.mark_inflight(owner, model, seq, 2))
        self.pair.both(lambda store: store.inflight(model))

    def idle(self) -> None:
        self.pair.both(lambda store: store.idle())


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    yield made
    for store in made.stores:
        store.close()


@pytest.mark.parametrize("seed", range(8))
def test_stores_agree_on_random_commands(pair: Pair, seed: int) -> None:
    walk = Walk(pair, seed)
    for _ in range(150):
        walk.step()
    pair.dump()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1300))
def test_stores_agree_on_many_random_commands(pair: Pair, seed: int) -> None:
    walk = Walk(pair, seed)
    for _ in range(400):
        walk.step()
    pair.dump()


def test_the_walk_reaches_every_answer(pair: Pair) -> None:
    """The comparison above would prove little if commands were always refused, or never."""
    seen: set[str] = set()
    both = pair.both

    def watched(ask: Callable[[Store], Any]) -> Any:
        answer = both(ask)
        for item in answer if isinstance(answer, list) else [answer]:
            seen.add(kind_of(item))
        return answer

    pair.both = watched  # type: ignore[method-assign]
    for seed in range(100, 108):
        walk = Walk(pair, seed)
        for _ in range(150):
            walk.step()
    wanted = {"Verdict.OK", "Verdict.FENCED", "Verdict.CONFLICT", "Verdict.BEHIND", "Verdict.FORK", "Verdict.MISSING"}
    wanted |= {"accepted", "duplicate", "reused", "bad_batch", "model_not_found", "model_exists", "fenced", "log_gap", "trimmed"}
    wanted |= {"older_algorithm", "generation_exists", "generation_not_found", "ckpt_corrupt"}
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
