from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from riata.base.errors import Conflict, LogFork, LogGap, NotFound, Unavailable
from riata.run.cluster.lease import Lease, WriterPosition, require_same
from riata.run.cluster.tail import Tail
from riata.store.records import first_chain
from riata.store.store import Record, SharedStore
from tests.doubles.manual_clock import ManualClock
from tests.doubles.shared_memory_store import SharedMemoryStore
from tests.run.events import create_model, log_batch, random_batch
from tests.upgrades.another import VERSION, being

TTL_MS = 1000
OTHER = WriterPosition(bytes(range(16)), 1, bytes(20), 0)


def leadership(store: SharedMemoryStore, clock: ManualClock, nonce: int) -> Lease:
    def call(work: Callable[[SharedStore], Any]) -> Any:
        return work(store)

    return Lease(call, bytes([nonce]) * 16, f"host-{nonce}", TTL_MS, clock)


def pair() -> tuple[ManualClock, SharedMemoryStore, Lease, Lease]:
    clock = ManualClock()
    store = SharedMemoryStore(clock=clock)
    return clock, store, leadership(store, clock, 1), leadership(store.another(), clock, 2)


def position(store: SharedMemoryStore, name: str = "m") -> WriterPosition:
    head = store.head(name)
    return WriterPosition(head.lineage, head.seq, head.chain, 0)


def test_one_leads_and_the_other_takes_over_when_the_lease_expires() -> None:
    clock, _store, first, second = pair()
    owner = first.try_acquire()
    assert owner is not None
    assert second.try_acquire() is None
    assert second.holder is not None
    assert (second.holder.host, second.holder.remaining_ms) == ("host-1", TTL_MS)
    clock.now_ms += TTL_MS - 1
    assert second.try_acquire() is None
    first.renew(dict)
    clock.now_ms += TTL_MS - 1
    assert second.try_acquire() is None
    clock.now_ms += 1
    taken = second.try_acquire()
    assert taken is not None
    assert taken.epoch == owner.epoch + 1
    with pytest.raises(Conflict, match="another process owns") as fenced:
        first.renew(dict)
    assert fenced.value.code == "fenced"


def test_a_standby_of_another_version_says_what_a_take_over_would_mean(caplog: pytest.LogCaptureFixture) -> None:
    clock, store, first, second = pair()
    first.try_acquire()
    third = leadership(store.another(), clock, 3)
    assert third.try_acquire() is None
    assert third.another_version() == ""
    with being(VERSION + 1):
        for _ in range(2):
            assert second.try_acquire() is None
        assert f"host-1 owns the store with algorithm version {VERSION}: if this process takes over" in second.another_version()
        assert f"an upgrade event to version {VERSION + 1}" in second.another_version()
        assert caplog.messages == [f"standing by: {second.another_version()}"]
        clock.now_ms += TTL_MS
        assert second.try_acquire() is not None
        assert second.another_version() == ""
    assert first.try_acquire() is None
    assert f"this program has version {VERSION}: it cannot take over" in first.another_version()
    clock.now_ms += TTL_MS
    with pytest.raises(Conflict, match=f"this program has algorithm version {VERSION}, and the store was last owned") as older:
        first.try_acquire()
    assert older.value.code == "older_algorithm"


def test_a_lease_that_is_released_can_be_taken_at_once() -> None:
    _clock, _store, first, second = pair()
    first.try_acquire()
    first.release()
    assert second.try_acquire() is not None
    with pytest.raises(Conflict, match="never acquired"):
        first.renew(dict)


def test_an_expired_lease_is_renewed_if_no_process_took_it() -> None:
    clock, store, first, second = pair()
    first.try_acquire()
    clock.now_ms += TTL_MS
    assert (first.unrenewed_ms(), store.holder()) == (TTL_MS, None)
    first.renew(dict)
    assert first.unrenewed_ms() == 0
    assert second.try_acquire() is None


def test_a_store_that_does_not_answer_is_tried_again() -> None:
    clock, store, first, _second = pair()
    first.try_acquire()
    clock.now_ms += 10
    store.gone = "cut"
    with pytest.raises(Unavailable):
        first.renew(dict)
    assert first.unrenewed_ms() == 10
    store.gone = ""
    first.renew(dict)
    assert first.unrenewed_ms() == 0


def test_a_growing_log_is_fine_and_a_truncated_one_is_noticed_at_the_renewal() -> None:
    _clock, store, first, _second = pair()
    first.try_acquire()
    create_model(store)
    known = position(store)
    rng = np.random.default_rng(0)
    log_batch(store, random_batch(rng, 3))
    assert first.renew(lambda: {"m": known})["m"].head.seq == 4
    later = position(store)
    entry = store._kept.models["m"]
    entry.head, entry.log = replace(entry.head, seq=1, chain=known.chain), entry.log[:1]
    with pytest.raises(LogFork, match="ends at event 1, but event 4 was learnt"):
        first.renew(lambda: {"m": later})


def test_another_event_in_the_place_of_the_last_one_learnt_is_noticed() -> None:
    _clock, store, first, _second = pair()
    first.try_acquire()
    create_model(store)
    with pytest.raises(LogFork, match="event 1 in the log of m differs"):
        first.renew(lambda: {"m": replace(position(store), chain=bytes(20))})


def test_another_lineage_an_older_generation_and_no_model_at_all_are_noticed() -> None:
    _clock, store, first, _second = pair()
    first.try_acquire()
    create_model(store)
    known = position(store)
    standing = store.standings()["m"]
    for wrong, sentence in (
        (replace(known, lineage=bytes(16)), "created again"),
        (replace(known, gen=1), "newest snapshot of m is 0, but 1 was committed"),
    ):
        with pytest.raises(LogFork, match=sentence):
            require_same("m", wrong, standing)
    require_same("m", known, standing)
    with pytest.raises(LogFork, match="emptied"):
        first.renew(lambda: {"gone": known})


def test_a_model_that_is_dropped_while_the_renewal_is_under_way_proves_nothing() -> None:
    _clock, _store, first, _second = pair()
    first.try_acquire()
    answers = [{"dropped": OTHER}, {}]
    assert first.renew(lambda: answers.pop(0)) == {}


def test_an_emptied_store_is_distinguished_from_one_that_another_process_owns() -> None:
    _clock, store, first, _second = pair()
    first.try_acquire()
    create_model(store)
    known = position(store)
    store._kept.models.clear()
    store._kept.nonce = b""
    with pytest.raises(LogFork, match="emptied"):
        first.renew(lambda: {"m": known})


def tail_of(store: SharedMemoryStore, put: list[Record]) -> Tail:
    """A tail of model m from its present end on."""
    tail = Tail(lambda record, _batch: put.append(record))
    head = store.head("m")
    tail.follow("m", head.lineage, head.seq, head.chain)
    return tail


def test_a_tail_yields_every_record_once_in_order() -> None:
    store, put = SharedMemoryStore(), list[Record]()
    create_model(store)
    tail = tail_of(store, put)
    assert tail.read(store, "m") == []
    rng = np.random.default_rng(0)
    for _ in range(3):
        log_batch(store, random_batch(rng, 4))
    assert tail.behind(store.standings()) == ["m"]
    for _ in range(3):
        assert tail.hand_over("m", tail.read(store, "m", 1))
    assert [(record.first, record.last) for record in put] == [(2, 5), (6, 9), (10, 13)]
    assert tail.read(store, "m") == []
    assert tail.behind(store.standings()) == []
    assert tail.places() == {"m": 13}
    tail.forget("m")
    with pytest.raises(NotFound):
        tail.read(store, "m")


@pytest.mark.parametrize("seed", range(40))
def test_own_records_and_those_read_are_put_once_in_the_order_of_the_log(seed: int) -> None:
    """Some appends are of this process: their records are handed over at once, late, or never; reads are handed over late too."""
    store, put = SharedMemoryStore(), list[Record]()
    create_model(store)
    tail, rng = tail_of(store, put), np.random.default_rng(seed)
    late: list[list[Record]] = []
    for _ in range(60):
        match int(rng.integers(4)):
            case 0 | 1:
                log_batch(store, random_batch(rng, int(rng.integers(1, 4))))
                own = store.read("m", 0)[-1:]
                late += [own] * int(rng.integers(2))
                if rng.random() < 0.5:
                    follows = tail.places()["m"] == own[0].first - 1
                    assert tail.hand_over("m", own) == follows
            case 2:
                late.append(tail.read(store, "m", int(rng.integers(1, 2000))))
            case _ if late:
                tail.hand_over("m", late.pop(int(rng.integers(len(late)))))
    assert tail.hand_over("m", tail.read(store, "m"))
    assert put == store.read("m", 1)


def test_a_tail_puts_no_record_of_another_history_and_not_the_first_of_a_model() -> None:
    store, put = SharedMemoryStore(), list[Record]()
    create_model(store)
    tail = tail_of(store, put)
    log_batch(store, random_batch(np.random.default_rng(0), 4))
    record = store.read("m", 1)[0]
    assert not tail.hand_over("m", [replace(record, chain=bytes(20))])
    assert not tail.hand_over("m", [replace(record, first=record.first + 1)])
    assert not tail.hand_over("another", [record])
    assert tail.hand_over("m", [record])
    assert not tail.hand_over("m", [replace(record, chain=bytes(20))])
    tail.follow("m", bytes(16), 0, first_chain(bytes(16)))
    assert not tail.hand_over("m", store.read("m", 0)[:1])
    assert put == [record]


def test_a_tail_stops_at_a_fork_and_at_a_gap_and_moves_nowhere() -> None:
    store = SharedMemoryStore()
    create_model(store)
    rng = np.random.default_rng(0)
    log_batch(store, random_batch(rng, 4))
    log_batch(store, random_batch(rng, 4))
    tail = Tail(lambda _record, _batch: None)
    tail.follow("m", bytes(16), 1, bytes(20))
    with pytest.raises(LogFork, match="breaks at events 2 to 5"):
        tail.read(store, "m")
    assert tail.places() == {"m": 1}
    first = store.read("m", 0)[0]
    tail.follow("m", bytes(16), 3, first.chain)  # no record begins after event 3
    with pytest.raises(LogGap, match="expected event 4, the log has 2"):
        tail.read(store, "m")
