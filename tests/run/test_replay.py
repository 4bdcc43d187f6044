from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from riata.base.errors import LogFork, LogGap
from riata.run.state.config import read_config
from riata.run.state.model_state import ModelState
from riata.run.state.recovery import Recovery
from riata.run.state.replay import replay
from riata.run.writer.checkpointer import Checkpointer
from riata.store import records
from riata.store.payload import decode_batch
from riata.store.store import Append, Owner
from riata.wire.batch import slice_rows
from tests.doubles.memory_store import MemoryStore
from tests.run.events import create_model, here, log_batch, random_batch
from tests.settings import retention

WILD = read_config(
    {
        "encoder": {"bits": 12},
        "labels": "real",
        "learner": {
            "kind": "truncated_gradient",
            "loss": "squared",
            "rate": "constant",
            "normalised": False,
            "step": "gradient",
            "eta": 1e6,
        },
    }
)


def save(store: MemoryStore, owner: Owner, state: ModelState) -> int:
    saved = Checkpointer(here(store), owner, retention()).save(state.freeze(), 0, {})
    assert saved.generation is not None
    return saved.generation.gen


def learn(store: MemoryStore, owner: Owner) -> ModelState:
    return Recovery(here(store), owner, lambda: 0).recover("m").state


def store_with_generations() -> tuple[MemoryStore, Owner]:
    store = MemoryStore()
    create_model(store)
    owner = store.acquire(bytes(16), 1, "test", 0)
    rng = np.random.default_rng(5)
    for _ in range(3):
        for _ in range(4):
            log_batch(store, random_batch(rng, 17))
        save(store, owner, learn(store, owner))
    return store, owner


def test_replay_from_the_beginning_meets_every_generation_with_equal_bits() -> None:
    store, _ = store_with_generations()
    report = replay(store, "m")
    assert (report.started_at, report.events) == (0, 1 + 3 * 4 * 17)
    assert [compared.generation for compared in report.compared] == [1, 2, 3]
    assert report.equal


@pytest.mark.parametrize("to", [0, 1, 2, 86, 100, 103, 205])
def test_replay_stops_after_the_given_event_even_inside_a_record(to: int) -> None:
    store, _ = store_with_generations()  # of records of 17 events each, after the first
    report = replay(store, "m", to=to)
    assert (report.state.applied, report.events) == (to, to)
    assert [compared.generation for compared in report.compared] == [1, 2, 3][: max(to - 1, 0) // 68]
    assert report.equal
    straight = MemoryStore()
    create_model(straight)
    for record in store.read("m", 2, 2**30):
        if record.first <= to:
            batch = decode_batch(record.payload)
            log_batch(straight, slice_rows(batch, 0, min(batch.n, to - record.first + 1)))
    if to:
        assert report.digest == replay(straight, "m").digest


def test_a_checkpoint_of_other_bits_is_found() -> None:
    store, _ = store_with_generations()
    model = store._kept.models["m"]
    model.generations = [replace(one, state_digest=bytes(32)) if one.gen == 2 else one for one in model.generations]
    report = replay(store, "m")
    assert not report.equal
    assert [compared.equal for compared in report.compared] == [True, False, True]


def test_an_edited_log_is_not_replayed() -> None:
    store, _ = store_with_generations()
    log = store._kept.models["m"].log
    log[5] = replace(log[5], payload=log[6].payload)
    with pytest.raises(LogFork):
        replay(store, "m")


def test_a_log_with_a_hole_is_not_replayed() -> None:
    store, _ = store_with_generations()
    del store._kept.models["m"].log[5]
    with pytest.raises(LogGap):
        replay(store, "m")


def test_a_trimmed_log_is_replayed_from_the_oldest_generation() -> None:
    store, owner = store_with_generations()
    whole = replay(store, "m").digest
    store.trim(owner, "m", 3, 0)
    assert store.head("m").first_seq > 1
    report = replay(store, "m")
    assert report.started_at == 1 + 4 * 17
    assert [compared.generation for compared in report.compared] == [2, 3]
    assert report.equal
    assert report.digest == whole


def test_an_edited_record_before_the_oldest_generation_is_found() -> None:
    store, owner = store_with_generations()
    store.trim(owner, "m", 3, 160)
    log = store._kept.models["m"].log
    assert 1 < log[0].first < log[0].last < replay(store, "m").started_at
    log[0] = replace(log[0], payload=log[1].payload)
    with pytest.raises(LogFork):
        replay(store, "m")


def test_generations_of_the_event_at_which_a_trimmed_log_ends_are_compared_with_each_other() -> None:
    store, owner = store_with_generations()
    for _ in range(2):
        save(store, owner, learn(store, owner))
    store.trim(owner, "m", 3, 0)
    assert store.head("m").first_seq == store.head("m").seq + 1  # nothing is left to be replayed
    report = replay(store, "m")
    assert (report.started_at, report.events) == (206 - 1, 0)
    assert [(compared.generation, compared.equal) for compared in report.compared] == [(4, True), (5, True)]
    model = store._kept.models["m"]
    model.generations = [replace(one, state_digest=bytes(32)) if one.gen == 5 else one for one in model.generations]
    assert [compared.equal for compared in replay(store, "m").compared] == [True, False]


def test_a_restore_replays_from_the_log_alone() -> None:
    store, owner = store_with_generations()
    first = store.open_generation("m", 1)
    store.append([Append("m", "restore", 0, payload=records.encode_restore({"generation": 1}, first))])
    log_batch(store, random_batch(np.random.default_rng(8), 9))
    save(store, owner, learn(store, owner))
    fresh = MemoryStore()
    create_model(fresh)
    for record in store.read("m", 1, 2**30):
        if record.first <= 1 + 4 * 17 or record.first > 1 + 3 * 4 * 17 + 1:
            log_batch(fresh, decode_batch(record.payload))
    report = replay(store, "m")
    assert report.equal
    learner = report.state.learner.freeze()
    straight = replay(fresh, "m").state.learner.freeze()
    assert {key: array.tobytes() for key, array in learner.items()} == {key: array.tobytes() for key, array in straight.items()}


def test_the_state_does_not_depend_on_how_events_were_cut_into_requests() -> None:
    whole, cut = MemoryStore(), MemoryStore()
    batch = random_batch(np.random.default_rng(1), 700)
    create_model(whole)
    log_batch(whole, batch)
    create_model(cut)
    for start, stop in ((0, 1), (1, 13), (13, 500), (500, 700)):
        log_batch(cut, slice_rows(batch, start, stop))
    assert replay(whole, "m").digest == replay(cut, "m").digest


def test_an_event_that_would_leave_the_finite_numbers_is_left_out_and_counted() -> None:
    store = MemoryStore()
    create_model(store, config=WILD)
    batch = random_batch(np.random.default_rng(1), 200)
    log_batch(store, batch)
    owner = store.acquire(bytes(16), 1, "test", 0)
    found = Recovery(here(store), owner, lambda: 0).recover("m")
    assert found.refused
    assert found.state.skipped == len(found.refused)
    assert np.isfinite(found.state.learner.weights().beta).all()
    for seq, reason in found.refused.items():
        assert "non-finite" in reason
        store.append([Append("m", "skip", 0, payload=records.encode_skip(seq, reason))])
    again = Recovery(here(store), owner, lambda: 0).recover("m")
    assert again.refused == {}
    assert again.state.freeze().digest() == found.state.freeze().digest()
