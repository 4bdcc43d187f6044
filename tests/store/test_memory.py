from __future__ import annotations

import dataclasses
import hashlib
import threading
from contextlib import closing

import pytest

from riata.base.errors import Conflict, Corrupt, RiataError, Unavailable
from riata.store.records import first_chain
from riata.store.sqlite.store import open_in_memory
from riata.store.store import Edition, Owner, Verdict
from tests.doubles.manual_clock import ManualClock
from tests.doubles.memory_store import Faults, MemoryStore
from tests.doubles.shared_memory_store import SharedMemoryStore
from tests.store.batches import LINEAGE, observe, one_row, save


def store_with(faults: Faults) -> MemoryStore:
    store = MemoryStore(faults=faults)
    store.create("m", LINEAGE)
    store.sync()
    return store


def code_of(store: MemoryStore) -> tuple[str, str]:
    with pytest.raises(Unavailable) as caught:
        store.append([observe("m", one_row())])
    return caught.value.code, caught.value.outcome


def test_a_refused_append_leaves_the_store_alive() -> None:
    store = store_with(Faults(appends_refused=1))
    assert code_of(store) == ("disk_reserve", "not_accepted")
    assert store.append([observe("m", one_row())])[0].seq == 1


@pytest.mark.parametrize(("faults", "seq"), [(Faults(appends_lost=1), 0), (Faults(appends_written=1), 1)])
def test_an_append_of_unknown_outcome_kills_the_store(faults: Faults, seq: int) -> None:
    store = store_with(faults)
    assert code_of(store) == ("store_failed", "unknown")
    assert code_of(store) == ("store_failed", "unknown")
    assert store.crash().head("m").seq == seq


def test_a_refused_stage_says_the_disk_is_full() -> None:
    store = store_with(Faults(stages_refused=1))
    owner = store.acquire(b"n" * 16, 1, "here", 0)
    with pytest.raises(Unavailable) as caught:
        store.stage(owner, "m", 1, 0, b"")
    assert caught.value.code == "disk_full"
    assert store.stage(owner, "m", 1, 0, b"")


def test_a_crash_keeps_durable_data() -> None:
    store = store_with(Faults())
    store.append([observe("m", one_row())])
    reborn = store.crash()
    assert reborn.head("m").seq == 1
    with pytest.raises(RiataError):
        store.head("m")


def test_a_crash_of_a_lossy_store_drops_unsynced_data() -> None:
    store = store_with(Faults(lossy=True))
    store.append([observe("m", one_row())])
    store.sync()
    store.append([observe("m", one_row())])
    assert store.crash().head("m").seq == 1


def test_the_store_says_that_nothing_survives() -> None:
    with closing(open_in_memory(dedupe_events=60)) as store:
        assert "memory" in store.warnings()[0]


# Leases, editions and followers in plain memory; the contract walk compares the same calls with a real Redis.


TTL_MS = 1000


def store_at(clock: ManualClock) -> SharedMemoryStore:
    store = SharedMemoryStore(clock=clock)
    store.create("m", LINEAGE)
    return store


def lease(store: SharedMemoryStore, letter: bytes) -> Owner:
    return store.acquire(letter * 16, 1, letter.decode(), 0, TTL_MS)


def edition(store: SharedMemoryStore, content: bytes) -> Edition:
    head = store.head("m")
    return Edition(
        0, head.seq, head.chain, head.lineage, 0, 0, 5, len(content), hashlib.blake2b(content, digest_size=32).digest()
    )


def test_a_lease_is_not_taken_before_it_lapsed() -> None:
    clock = ManualClock()
    store = store_at(clock)
    first = lease(store, b"a")
    with pytest.raises(Conflict) as caught:
        lease(store.another(), b"b")
    assert caught.value.code == "owned"
    clock.now_ms += TTL_MS
    assert lease(store.another(), b"b") == Owner(first.epoch + 1, b"b" * 16)


def test_a_heartbeat_renews_and_reports_a_fenced_process() -> None:
    clock = ManualClock()
    store = store_at(clock)
    first = lease(store, b"a")
    clock.now_ms += TTL_MS - 1
    assert store.heartbeat(first, TTL_MS) is not None
    clock.now_ms += TTL_MS - 1
    assert lease(store, b"a") == first  # who holds it may ask again
    clock.now_ms += TTL_MS
    assert store.heartbeat(first, TTL_MS) is None
    second = lease(store, b"b")
    assert store.heartbeat(first, TTL_MS) is None
    assert store.publish(first, "m", edition(store, b"x"), b"x") is Verdict.FENCED
    assert store.publish(second, "m", edition(store, b"x"), b"x") is Verdict.OK


def test_a_released_lease_is_free_at_once() -> None:
    store = store_at(ManualClock())
    store.release(lease(store, b"a"))
    assert store.holder() is None
    lease(store, b"b")
    holder = store.holder()
    assert holder is not None
    assert (holder.epoch, holder.host, holder.remaining_ms) == (2, "b", TTL_MS)


def test_without_a_time_to_live_the_store_is_taken_over() -> None:
    store = store_at(ManualClock())
    first = lease(store, b"a")
    assert store.acquire(b"c" * 16, 1, "c", 0).epoch == first.epoch + 1
    assert store.heartbeat(first, TTL_MS) is None


def test_editions_are_numbered_and_never_go_back() -> None:
    store = store_at(ManualClock())
    owner = lease(store, b"a")
    assert store.open_edition("m") is None
    old = edition(store, b"prior")
    store.append([observe("m", one_row())])
    new = edition(store, b"one event")
    assert store.publish(owner, "m", new, b"one event") is Verdict.OK
    assert store.publish(owner, "m", old, b"prior") is Verdict.BEHIND
    assert store.publish(owner, "m", new, b"one event") is Verdict.OK
    opened = store.another().open_edition("m")
    assert opened is not None
    assert (opened[0].number, opened[0].applied, opened[0].epoch, opened[1]) == (2, 1, owner.epoch, b"one event")
    standing = store.standings()["m"]
    assert (standing.edition, standing.edition_applied, standing.head.seq) == (2, 1, 1)


def test_an_edition_of_another_history_is_a_fork() -> None:
    store = store_at(ManualClock())
    owner = lease(store, b"a")
    good = edition(store, b"")
    other_chain = dataclasses.replace(good, chain=bytes(20))
    other_lineage = dataclasses.replace(good, lineage=bytes(16), chain=first_chain(bytes(16)))
    ahead = dataclasses.replace(good, applied=5)
    assert [store.publish(owner, "m", it, b"") for it in (other_chain, other_lineage, ahead)] == [Verdict.FORK] * 3
    assert store.publish(owner, "m", good, b"") is Verdict.OK


def test_an_altered_edition_is_refused() -> None:
    store = store_at(ManualClock())
    owner = lease(store, b"a")
    store.publish(owner, "m", edition(store, b"right"), b"wrong")
    with pytest.raises(Corrupt) as caught:
        store.open_edition("m")
    assert caught.value.code == "edition_corrupt"


def test_standings_name_the_newest_generation() -> None:
    store = store_at(ManualClock())
    owner = lease(store, b"a")
    store.append([observe("m", one_row())])
    save(store, owner, "m", store.head("m"), b"state")
    standing = store.standings()["m"]
    assert (standing.gen, standing.gen_applied) == (1, 1)


def test_a_request_that_waits_for_the_log_is_woken_by_another() -> None:
    store = SharedMemoryStore()
    store.create("m", LINEAGE)
    assert not store.await_log({"m": 0}, 1)
    appending = threading.Thread(target=lambda: store.another().append([observe("m", one_row())]))
    appending.start()
    assert store.await_log({"m": 0, "nobody": 0}, 10_000)
    appending.join()


def test_a_store_that_is_gone_reports_it_until_it_is_back() -> None:
    store = store_at(ManualClock())
    store.gone = "the server does not answer"
    with pytest.raises(Unavailable) as caught:
        store.standings()
    assert (caught.value.code, caught.value.outcome) == ("store_unreachable", "not_accepted")
    store.gone = ""
    assert list(store.standings()) == ["m"]
