from __future__ import annotations

from contextlib import closing

import pytest

from riata.base.errors import RiataError, Unavailable
from riata.store.sqlite.store import open_in_memory
from tests.doubles.memory_store import Faults, MemoryStore
from tests.doubles.shared_memory_store import SharedMemoryStore
from tests.refused import refused
from tests.store.batches import LINEAGE, observe, one_row


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
    with refused(Unavailable, "disk_full"):
        store.stage(owner, "m", 1, 0, b"")
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


def test_a_store_that_is_gone_reports_it_until_it_is_back() -> None:
    store = SharedMemoryStore()
    store.create("m", LINEAGE)
    store.gone = "the server does not answer"
    with refused(Unavailable, "store_unreachable", "not_accepted"):
        store.standings()
    store.gone = ""
    assert list(store.standings()) == ["m"]
