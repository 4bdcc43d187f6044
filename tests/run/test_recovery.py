from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from riata.base.errors import LogFork, LogGap
from riata.run.state.config import Change
from riata.run.state.crash_note import Crash, CrashNote
from riata.run.state.model_state import ModelState
from riata.run.state.recovery import DEATHS_MAX, Recovered, Recovery
from riata.run.writer.checkpointer import Checkpointer
from riata.store import records
from riata.store.payload import decode_batch
from riata.store.store import Append, Owner, Store, Verdict
from riata.wire.batch import Batch
from tests.doubles.memory_store import MemoryStore
from tests.run.events import CONFIG, create_model, here, log_batch, random_batch
from tests.settings import retention

LINEAGE = bytes(range(16))
STARTS_MAX = 12


def acquire(store: Store, epoch_hint: int = 1) -> Owner:
    return store.acquire(bytes([epoch_hint]) * 16, 1, "test", 0)


def recover(store: Store, owner: Owner | None = None) -> Recovered:
    return Recovery(here(store), owner or acquire(store), lambda: 0).recover("m")


def save(store: Store, owner: Owner, state: ModelState) -> Verdict | None:
    checkpointer = Checkpointer(here(store), owner, retention())
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


class Noted(CrashNote):
    """A note in memory. died : what the process before this one was learning when it died by itself"""

    def __init__(self, died: Crash | None = None) -> None:
        super().__init__(None)
        self.now: Crash | None = None
        if died is not None:
            self.crashes[died.lineage] = died

    @contextmanager
    def stepping(self, model: str, lineage: bytes, first: int, last: int) -> Iterator[None]:
        self.now = Crash(model, lineage, first, last)
        yield
        self.now = None


class Died(BaseException):
    """The process ended; no code in it can catch this."""


@contextmanager
def deadly(monkeypatch: pytest.MonkeyPatch, poison: int) -> Iterator[None]:
    """Every start that learns event `poison` dies at it."""
    learn = ModelState.learn

    def dying(self: ModelState, first: int, batches: Sequence[Batch], skips: frozenset[int]) -> dict[int, str]:
        if first <= poison < first + sum(batch.n for batch in batches) and poison not in skips:
            raise Died
        return learn(self, first, batches, skips)

    with monkeypatch.context() as patch:
        patch.setattr(ModelState, "learn", dying)
        yield


def start(store: MemoryStore, number: int, note: CrashNote) -> Recovered:
    return Recovery(here(store), acquire(store, number), lambda: 0, crashes=note).recover("m")


def starts_until_it_lives(store: MemoryStore, by_itself: bool = True) -> tuple[MemoryStore, Recovered | None, int]:
    """Start until a start lives; each one before it died, by itself or because it was killed."""
    note = Noted()
    for number in range(1, STARTS_MAX + 1):
        try:
            return store, start(store, number, note), number
        except Died:
            store, note = store.crash(), Noted(note.now if by_itself else None)
    return store, None, STARTS_MAX


def test_an_event_that_crashes_every_start_is_skipped_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    store = logged_store()
    store.sync()
    with deadly(monkeypatch, 77):
        store, found, starts = starts_until_it_lives(store)
    assert found is not None
    assert found.skipped == [77]
    assert found.state.skipped == 1
    # one crash of several records, one of the record, DEATHS_MAX of the event itself, and the start that lives
    assert starts == DEATHS_MAX + 3
    skip = store.read("m", 151, 2**20)
    assert [records.decode_skip(record.payload)[0] for record in skip] == [77]
    assert store.inflight("m") == (0, 0)


def test_a_start_after_a_skip_leaves_the_same_event_out(monkeypatch: pytest.MonkeyPatch) -> None:
    store = logged_store()
    store.sync()
    with deadly(monkeypatch, 77):
        store, first, _ = starts_until_it_lives(store)
    assert first is not None
    again = recover(store)
    assert again.skipped == []
    assert again.state.freeze().digest() == first.state.freeze().digest()


def test_starts_that_are_killed_in_the_same_step_skip_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    store = logged_store()
    store.sync()
    with deadly(monkeypatch, 40):
        store, found, starts = starts_until_it_lives(store, by_itself=False)
    assert (found, starts) == (None, 12)
    again = recover(store.crash())
    assert again.skipped == []
    assert again.state.freeze().digest() == recover(logged_store()).state.freeze().digest()


def test_crashes_count_only_in_a_row() -> None:
    store = logged_store()
    crashed = Crash("m", LINEAGE, 77, 77)
    for number in range(1, DEATHS_MAX + 2):
        assert start(store, number, Noted(crashed)).skipped == []  # it crashed once, and the start after it learns the event
        assert store.inflight("m") == (0, 0)
    store.mark_inflight(acquire(store), "m", 77, DEATHS_MAX - 1)
    assert start(store, 9, Noted(Crash("m", LINEAGE, 78, 78))).skipped == []  # another event
    store.mark_inflight(acquire(store), "m", 77, DEATHS_MAX - 1)
    assert start(store, 9, Noted(crashed)).skipped == [77]


def test_a_crash_of_another_model_of_the_same_name_counts_against_nobody() -> None:
    store = logged_store()
    store.mark_inflight(acquire(store), "m", 77, DEATHS_MAX - 1)
    assert start(store, 9, Noted(Crash("m", bytes(16), 77, 77))).skipped == []


def test_a_crash_before_the_newest_checkpoint_is_forgotten() -> None:
    store = logged_store()
    owner = acquire(store)
    assert save(store, owner, recover(store, owner).state) is Verdict.OK
    store.mark_inflight(owner, "m", 77, DEATHS_MAX - 1)
    found = start(store, 9, Noted(Crash("m", LINEAGE, 77, 77)))
    assert (found.skipped, store.inflight("m")) == ([], (0, 0))


def test_a_state_is_ready_to_be_served_after_the_last_event_that_it_needs() -> None:
    """The rest of the log is read and checked, and not learnt."""
    store = logged_store()
    owner = acquire(store)
    assert save(store, owner, recover(store, owner).state) is Verdict.OK
    rng = np.random.default_rng(9)
    for _ in range(3):
        log_batch(store, random_batch(rng, 11))
    found = Recovery(here(store), owner, lambda: 0).prepare("m")
    assert (found.is_ready, found.state.applied, found.serve_from, found.end) == (True, 151, 0, 184)
    store.append([Append("m", "config", 0, payload=Change(CONFIG).payload())])
    log_batch(store, random_batch(rng, 11))
    recovery = Recovery(here(store), owner, lambda: 0)
    found = recovery.prepare("m")
    assert (found.is_ready, found.state.applied, found.serve_from, found.end) == (False, 151, 185, 196)
    recovery.learn(found)
    assert (found.is_ready, found.state.applied) == (True, 185)


def test_a_model_without_a_checkpoint_is_served_from_the_end_of_its_log_on() -> None:
    found = Recovery(here(logged_store()), acquire(logged_store()), lambda: 0).prepare("m")
    assert (found.generation, found.stop, found.serve_from, found.end) == (0, 1, 151, 151)


def test_a_log_that_does_not_continue_the_checkpoint_is_found_before_anything_is_served() -> None:
    store = logged_store()
    owner = acquire(store)
    assert save(store, owner, recover(store, owner).state) is Verdict.OK
    log_batch(store, random_batch(np.random.default_rng(9), 11))
    kept = store._kept.models["m"]
    kept.log[-1] = replace(kept.log[-1], chain=bytes(20))
    with pytest.raises(LogFork):
        Recovery(here(store), owner, lambda: 0).prepare("m")


def test_skips_of_the_rest_of_the_log_hold_for_whoever_learns_it() -> None:
    store = MemoryStore()
    create_model(store)
    rng = np.random.default_rng(9)
    for i in range(12):
        log_batch(store, random_batch(rng, 1 + i % 3))
        if i == 7:
            store.append([Append("m", "skip", 0, payload=records.encode_skip(4, "refused"))])
    found = Recovery(here(store), acquire(store), lambda: 0).prepare("m")
    for record in store.read("m", 0):
        found.state.apply(record)
    assert found.state.skipped == 1
    state = ModelState("m", store.head("m").lineage)
    for record in store.read("m", 0):
        state.apply(record, None, frozenset({4}))
    assert found.state.freeze().encode() == state.freeze().encode()
