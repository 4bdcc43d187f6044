from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pytest

from riata.base.errors import LogGap
from riata.run import recovery
from riata.run.checkpointer import Checkpointer, Retention
from riata.run.model_state import ModelState
from riata.run.recovery import DEATHS_MAX, Recovered, Recovery
from riata.store import records
from riata.store.payload import decode_batch
from riata.store.store import Append, Owner, Record, Store, Verdict
from riata.wire.batch import Batch
from tests.doubles.memory_store import MemoryStore
from tests.run.events import create_model, here, log_batch, random_batch


def acquire(store: Store, epoch_hint: int = 1) -> Owner:
    return store.acquire(bytes([epoch_hint]) * 16, 1, "test", 0)


def recover(store: Store, owner: Owner | None = None) -> Recovered:
    return Recovery(here(store), owner or acquire(store), lambda: 0).recover("m")


def save(store: Store, owner: Owner, state: ModelState) -> Verdict | None:
    checkpointer = Checkpointer(here(store), owner, Retention(3, 10**6))
    return checkpointer.save(state.freeze(), 0, {}).verdict


def rot(store: MemoryStore, gen: int) -> None:
    """Change one byte of a stored chunk without the store's knowledge."""
    chunks = store._kept.models["m"].chunks
    epoch, digest, content = chunks[gen, 0]
    chunks[gen, 0] = (epoch, digest, content[:-1] + bytes([content[-1] ^ 1]))


def logged_store(batches: int = 5, seed: int = 3) -> MemoryStore:
    store = MemoryStore()
    create_model(store)
    rng = np.random.default_rng(seed)
    for _ in range(batches):
        log_batch(store, random_batch(rng, 30))
    return store


def test_a_model_without_generations_is_replayed_from_the_beginning() -> None:
    found = recover(logged_store())
    assert (found.generation, found.replayed, found.state.applied) == (0, 151, 151)


def test_a_start_from_a_generation_ends_in_the_same_bits_as_one_from_the_beginning() -> None:
    store = logged_store()
    owner = acquire(store)
    assert save(store, owner, recover(store, owner).state) is Verdict.OK
    rng = np.random.default_rng(9)
    for _ in range(3):
        log_batch(store, random_batch(rng, 11))
    found = recover(store)
    assert (found.generation, found.replayed) == (1, 33)
    fresh = MemoryStore()
    create_model(fresh)
    for record in store.read("m", 1, 2**30):
        log_batch(fresh, decode_batch(record.payload))
    assert found.state.freeze().digest() == recover(fresh).state.freeze().digest()


def test_a_damaged_generation_is_passed_over() -> None:
    store = logged_store()
    owner = acquire(store)
    state = recover(store, owner).state
    assert save(store, owner, state) is Verdict.OK
    log_batch(store, random_batch(np.random.default_rng(4), 5))
    state = recover(store, owner).state
    assert save(store, owner, state) is Verdict.OK
    rot(store, 2)
    found = recover(store)
    assert (found.generation, found.corrupt) == (1, [2])
    assert found.state.freeze().digest() == state.freeze().digest()


def test_a_trimmed_log_without_a_verified_generation_is_an_error() -> None:
    store = logged_store()
    owner = acquire(store)
    for _ in range(3):
        log_batch(store, random_batch(np.random.default_rng(4), 5))
        assert save(store, owner, recover(store, owner).state) is Verdict.OK
    store.trim(owner, "m", 3, 0)
    assert store.head("m").first_seq > 1
    assert recover(store).generation == 3
    for gen in (1, 2, 3):
        rot(store, gen)
    with pytest.raises(LogGap, match="every retained snapshot failed verification"):
        recover(store)


class Died(BaseException):
    """The process ended; no code in it can catch this."""


@contextmanager
def deadly(monkeypatch: pytest.MonkeyPatch, poison: int) -> Iterator[None]:
    """Every start that applies event `poison` dies at it."""
    apply, apply_all = ModelState.apply, ModelState.apply_all

    def dying_all(
        self: ModelState, run: Sequence[Record], batches: Sequence[Batch | None] = (), skips: frozenset[int] = frozenset()
    ) -> dict[int, str]:
        if any(record.first <= poison <= record.last and poison not in skips and record.kind == "observe" for record in run):
            raise Died
        return apply_all(self, run, batches, skips)

    def dying(
        self: ModelState, record: Record, batch: Batch | None = None, skips: frozenset[int] = frozenset()
    ) -> dict[int, str]:
        if record.first <= poison <= record.last and poison not in skips and record.kind == "observe":
            raise Died
        return apply(self, record, batch, skips)

    with monkeypatch.context() as patch:
        patch.setattr(ModelState, "apply", dying)
        patch.setattr(ModelState, "apply_all", dying_all)
        yield


def test_an_event_that_kills_every_start_is_skipped_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    create_model(store)
    rng = np.random.default_rng(3)
    for _ in range(5):
        log_batch(store, random_batch(rng, 30))
    store.sync()
    poison = 77
    with deadly(monkeypatch, poison):
        starts = 0
        found = None
        while found is None:
            starts += 1
            try:
                found = recover(store, acquire(store, starts))
            except Died:
                store = store.crash()
            assert starts < 12
    assert found.skipped == [poison]
    assert found.state.skipped == 1
    # one start to notice, one to find the record, DEATHS_MAX under the event itself, and the one that lives
    assert starts == DEATHS_MAX + 3
    skip = store.read("m", 151, 2**20)
    assert [records.decode_skip(record.payload)[0] for record in skip] == [poison]


def test_a_start_after_a_skip_leaves_the_same_event_out(monkeypatch: pytest.MonkeyPatch) -> None:
    store = logged_store()
    store.sync()
    with deadly(monkeypatch, 77):
        for start in range(1, 12):
            try:
                first = recover(store, acquire(store, start))
                break
            except Died:
                store = store.crash()
    again = recover(store)
    assert again.skipped == []
    assert again.state.freeze().digest() == first.state.freeze().digest()


def test_a_start_that_was_killed_by_chance_skips_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    store = logged_store()
    store.sync()
    with deadly(monkeypatch, 40), pytest.raises(Died):
        recover(store)
    found = recover(store.crash())
    assert found.skipped == []
    assert found.state.freeze().digest() == recover(logged_store()).state.freeze().digest()


@pytest.mark.parametrize("held", [0, 3000, 2**20])
def test_a_log_that_is_held_in_part_is_learnt_as_one_that_is_read_twice(monkeypatch: pytest.MonkeyPatch, held: int) -> None:
    store = MemoryStore()
    create_model(store)
    rng = np.random.default_rng(9)
    for i in range(12):
        log_batch(store, random_batch(rng, 1 + i % 3))
        if i == 7:
            store.append([Append("m", "skip", 0, payload=records.encode_skip(4, "refused"))])
    monkeypatch.setattr(recovery, "HELD_BYTES_MAX", held)
    found = recover(store)
    assert found.state.applied == store.head("m").seq
    assert found.state.skipped == 1
    state = ModelState("m", store.head("m").lineage)
    for record in store.read("m", 0):
        state.apply(record, None, frozenset({4}))
    assert found.state.freeze().encode() == state.freeze().encode()
