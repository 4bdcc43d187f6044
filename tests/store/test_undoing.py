"""Ids of events that restores undid are free again: every store against a model that keeps the set of ids of every state."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from riata.store import append_plan
from riata.store.append_plan import Restored
from riata.store.layout import encode_checkpoint
from riata.store.records import Through, encode_restore
from riata.store.redis.store import open_redis
from riata.store.sqlite import dedupe
from riata.store.sqlite.store import open_sqlite
from riata.store.store import Append, Head, Store
from tests.doubles.memory_store import MemoryStore
from tests.redis_server import RedisServer, redis_version
from tests.settings import redis_settings, sqlite_settings
from tests.store.batches import LINEAGE, batch_of, observe

WINDOW = 150
KINDS = ("memory", "sqlite", "redis")
Row = tuple[int, float]  # number of the id, value of the one feature


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer | None]:
    if redis_version() < (7,):
        yield None
        return
    with RedisServer(tmp_path_factory.mktemp("redis"), "--appendfsync", "no") as running:
        yield running


@pytest.fixture(params=KINDS)
def opens(request: pytest.FixtureRequest, tmp_path: Path, server: RedisServer | None) -> Callable[[], Store]:
    """Opens the same store again and again."""
    memory = MemoryStore(dedupe_events=WINDOW)
    settings = sqlite_settings(ballast_bytes=2**16, reserve_bytes=2**10, dedupe_events=WINDOW)
    if request.param == "redis":
        if server is None:
            pytest.skip("needs a Redis server of version 7 or newer")
        server.cli("FLUSHALL")
        url = server.url
        return lambda: open_redis(url, redis_settings(dedupe_events=WINDOW))
    if request.param == "memory":
        return lambda: memory
    return lambda: open_sqlite(tmp_path / "data", settings)


def rows_of(rows: list[Row], only_if_all_new: bool = False) -> Append:
    batch = batch_of([[(5, value)] for _, value in rows], [1.0] * len(rows), [key.to_bytes(16, "big") for key, _ in rows])
    return Append("m", "observe", 7, batch=batch, only_if_all_new=only_if_all_new)


def restore_to(head: Head, applied: int, chain: bytes, lineage: bytes | None = None) -> Append:
    header = {"applied": applied, "chain": chain.hex(), "lineage": (lineage or head.lineage).hex()}
    return Append("m", "restore", 3, payload=encode_restore({}, encode_checkpoint(header, {})))


@dataclass
class Model:
    """The ids and contents of every state of a log, with positions."""

    states: list[dict[int, tuple[int, float]]] = field(default_factory=lambda: [{}])
    floor: int = 1
    chains: list[bytes] = field(default_factory=lambda: [b""])

    def observe(self, rows: list[Row]) -> tuple[list[bool], list[bool], list[bool]]:
        floor = max(self.floor, len(self.states) - 1 - WINDOW + 1)
        accepted, duplicate, reused = [], [], []
        here: dict[int, float] = {}
        known = {key: value for key, (at, value) in self.states[-1].items() if at >= floor}
        for key, value in rows:
            before = known.get(key, here.get(key))
            accepted.append(before is None)
            duplicate.append(before == value)
            reused.append(before is not None and before != value)
            if before is None:
                here[key] = value
                self.states.append({**self.states[-1], key: (len(self.states), value)})
        if any(accepted):
            self.floor = floor
        return accepted, duplicate, reused

    def restore(self, to: int) -> None:
        self.states.append(self.states[to])


@pytest.mark.parametrize("seed", range(4))
def test_an_id_is_known_if_and_only_if_the_state_has_it(
    opens: Callable[[], Store], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dedupe, "FRESH_IDS_MAX", 30)  # so that ids move from memory to the tree all the time
    rng = np.random.default_rng(seed)
    store, model = opens(), Model()
    store.create("m", LINEAGE)
    counts = [0, 0, 0]
    for _ in range(160):
        if rng.random() < 0.05 and not isinstance(store, MemoryStore):
            store.close()
            store = opens()
        group, expected = [], []
        for _ in range(int(rng.integers(1, 3))):
            drawn = rng.integers(0, 60, int(rng.integers(1, 8))).tolist()
            rows = [(key, float(key + 100 * int(rng.random() < 0.1))) for key in drawn]
            group.append(rows_of(rows))
            expected.append(model.observe(rows))
            if rng.random() < 0.25:  # in the same group
                head, end = store.head("m"), len(model.states) - 1
                to = int(rng.integers(max(0, head.seq - 60), head.seq + 1))
                group.append(restore_to(head, to, model.chains[to]))
                expected.append(([], [], []))
                model.restore(to)
                assert len(model.states) == end + 2
        for appended, told in zip(store.append(group), expected, strict=True):
            assert [appended.accepted.tolist(), appended.duplicate.tolist(), appended.reused.tolist()] == list(map(list, told))
            for kind, some in enumerate(told):
                counts[kind] += sum(some)
            if appended.record is not None:
                model.chains += [appended.record.chain] * appended.record.count
        store.maintain()
        store.idle()
        assert store.head("m").seq == len(model.states) - 1
    store.close()
    assert min(counts) > 10


def learnt(store: Store, rows: list[Row]) -> tuple[int, int, int]:
    appended = store.append([rows_of(rows)])[0]
    return int(appended.accepted.sum()), int(appended.duplicate.sum()), int(appended.reused.sum())


FIRST: list[Row] = [(1, 1.0), (2, 2.0), (3, 3.0)]


def test_undone_events_are_learnt_once_corrected_or_not_and_known_again_after_a_restore_back(opens: Callable[[], Store]) -> None:
    store = opens()
    store.create("m", LINEAGE)
    assert learnt(store, FIRST[:1]) == (1, 0, 0)
    before = store.head("m")
    assert learnt(store, FIRST[1:]) == (2, 0, 0)
    behind = store.head("m")
    store.append([restore_to(before, before.seq, before.chain)])
    corrected = [FIRST[0], FIRST[1], (3, 33.0)]
    assert learnt(store, corrected) == (2, 1, 0)
    assert learnt(store, corrected) == (0, 3, 0)
    assert learnt(store, FIRST) == (0, 2, 1)  # now the first content is another one
    assert store.append([rows_of(FIRST[:2])])[0].seq == 5  # where it counts
    store.append([restore_to(behind, behind.seq, behind.chain)])
    assert learnt(store, FIRST) == (0, 3, 0)
    assert learnt(store, corrected) == (0, 2, 1)
    assert store.append([rows_of(FIRST)])[0].seq == 3
    store.close()


def test_a_request_that_wants_only_new_rows_gets_undone_ones(opens: Callable[[], Store]) -> None:
    store = opens()
    store.create("m", LINEAGE)
    start = store.head("m")
    learnt(store, FIRST)
    assert store.append([rows_of(FIRST, only_if_all_new=True)])[0].duplicate.all()
    store.append([restore_to(start, 0, start.chain)])
    assert store.append([rows_of(FIRST, only_if_all_new=True)])[0].accepted.all()
    assert store.append([rows_of(FIRST, only_if_all_new=True)])[0].duplicate.all()
    store.close()


def test_a_promotion_undoes_nothing_and_a_state_of_another_log_everything(opens: Callable[[], Store]) -> None:
    store = opens()
    store.create("m", LINEAGE)
    learnt(store, FIRST)
    head = store.head("m")
    store.append([Append("m", "restore", 3, payload=encode_restore({}, b"state", Through(0, bytes(20))))])
    assert learnt(store, FIRST) == (0, 3, 0)
    ahead = store.head("m").seq + 9  # of a log that lost events: they are in the state
    store.append([restore_to(head, ahead, bytes(20))])
    assert learnt(store, FIRST) == (0, 3, 0)
    store.append([restore_to(head, head.seq, head.chain, bytes(16))])
    assert learnt(store, FIRST) == (3, 0, 0)
    store.append([restore_to(head, 3, bytes(20))])  # of a fork: the same number is another event
    assert learnt(store, FIRST) == (3, 0, 0)
    assert learnt(store, FIRST) == (0, 3, 0)
    store.append([Append("m", "restore", 3, payload=encode_restore({}, b"no state"))])
    assert learnt(store, FIRST) == (3, 0, 0)
    store.close()


def test_a_state_inside_a_record_ends_there(opens: Callable[[], Store]) -> None:
    store = opens()
    store.create("m", LINEAGE)
    learnt(store, FIRST)
    head = store.head("m")
    store.append([restore_to(head, 2, head.chain)])
    assert learnt(store, FIRST) == (1, 2, 0)
    store.close()


def test_spans_are_those_of_the_effective_log() -> None:
    assert append_plan.counted((), 9) == [(1, 9)]
    assert append_plan.counted((Restored(100, 50), Restored(150, 99)), 200) == [(151, 200), (1, 99)]
    assert append_plan.counted((Restored(100, 50), Restored(150, 99)), 149) == [(101, 149), (1, 50)]
    assert append_plan.counted((Restored(100, 50), Restored(150, 120)), 151) == [(151, 151), (101, 120), (1, 50)]
    assert append_plan.counted((Restored(100, 0),), 100) == [(101, 100), (1, 0)]


def test_entries_keep_every_event_of_an_id_and_are_cut() -> None:
    entry = append_plan.united([(5, b"a" * 16), (9, b"b" * 16)])
    entry = append_plan.united([entry, (7, b"c" * 16), (9, b"b" * 16)])
    assert list(append_plan.positions(entry)) == [(9, b"b" * 16), (7, b"c" * 16), (5, b"a" * 16)]
    assert list(append_plan.positions(append_plan.up_to(entry, 8) or (0, b""))) == [(7, b"c" * 16), (5, b"a" * 16)]
    assert append_plan.up_to(entry, 4) is None
    assert append_plan.counting(entry, [(8, 8), (1, 7)], 6) == (7, b"c" * 16)
    assert append_plan.counting(entry, [(8, 8), (1, 6)], 6) is None


def test_restores_are_read_as_they_were_packed_and_dropped_below_the_floor() -> None:
    restores = append_plan.and_then((Restored(5, 1), Restored(9, 4)), Restored(12, 9), 6)
    assert restores == (Restored(9, 4), Restored(12, 9))
    assert append_plan.unpack(append_plan.pack(restores)) == restores
    with pytest.raises(Exception, match="not a whole number"):
        append_plan.unpack(b"123")


def test_a_window_forgets_ids_whatever_restores_say(opens: Callable[[], Store]) -> None:
    store = opens()
    store.create("m", LINEAGE)
    start = store.head("m")
    learnt(store, FIRST)
    store.append([restore_to(start, 0, start.chain)])
    learnt(store, FIRST)
    for first in range(0, WINDOW + 20, 10):
        learnt(store, [(1000 + first + i, 1.0) for i in range(10)])
    assert learnt(store, FIRST) == (3, 0, 0)
    assert learnt(store, FIRST) == (0, 3, 0)
    store.close()


def test_groups_are_cut_after_each_restore() -> None:
    from riata.store.append_plan import parts

    batch = batch_of([[(5, 1.0)]], [1.0], [None])
    group = [observe("m", batch), Append("m", "restore", 1), Append("m", "restore", 2), observe("m", batch)]
    assert [len(part) for part in parts(group)] == [2, 1, 1]
    assert list(itertools.chain(*parts(group))) == group
    assert list(parts([])) == []
