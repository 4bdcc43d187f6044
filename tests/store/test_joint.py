"""Rows of several models in one record: once acknowledged they are in the logs of their models, whatever happens in between."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from riata.base.errors import Corrupt, LogGap, NotFound, Unavailable
from riata.native.declarations import STRUCTS
from riata.run.state.repair import accept
from riata.store.payload import decode_batch, encode_batch
from riata.store.sqlite import directory
from riata.store.sqlite.joint import JointLog, decode_joint, encode_joint, left_in
from riata.store.sqlite.offline import verify
from riata.store.sqlite.schema import DATABASE_NAME, JOINT
from riata.store.sqlite.session import DiskFull
from riata.store.sqlite.store import JOINT_RECORDS_MAX, SqliteStore, open_sqlite, read_sqlite
from riata.store.store import Append, Appended, Head, JointRows, Record, joint
from riata.wire.batch import Batch, join_batches, slice_rows
from riata.wire.names import Names
from tests.doubles.memory_store import MemoryStore
from tests.refused import refused
from tests.store.batches import LINEAGE, observe, one_row, random_batch, same
from tests.store.killed import SETTINGS, WAL, ImageAtCommit, image, live_store

GOLDEN = Path(__file__).parents[1] / "golden"
MODELS = ("a", "b", "c", "d", "e")
Rows = dict[str, list[float]]  # of each model, the value of each row


def rows_of(values: Mapping[str, Sequence[float]], accepted_ms: int = 7) -> JointRows:
    """Rows with one feature each, which is named after the value."""
    batch = join_batches([one_row(value=x) for each in values.values() for x in each])
    names = [Names.of([(int(x), f"n{int(x)}".encode()) for x in each]) for each in values.values()]
    return JointRows(tuple(values), np.cumsum([len(each) for each in values.values()]).tolist(), batch, names, accepted_ms)


def drawn(rng: np.random.Generator, at: int) -> dict[str, list[float]]:
    chosen = [model for model in MODELS if rng.random() < 0.6] or ["a"]
    return {model: [float(100 * at + k) for k in range(int(rng.integers(1, 4)))] for model in chosen}


def values(store: SqliteStore, model: str) -> list[float]:
    """Of the rows in the log of a model, whose chain is checked."""
    return [x for record in store.read(model, 0) for x in decode_batch(record.payload).value.tolist()]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with closing(live_store(tmp_path / "live", MODELS)) as made:
        yield made


def test_rows_are_in_the_logs_of_their_models_for_every_call(store: SqliteStore) -> None:
    assert store.append_joint(rows_of({"a": [1.0], "b": [2.0, 3.0]})) == [1, 2]
    assert store.append_joint(rows_of({"b": [4.0], "c": [5.0], "a": [6.0]})) == [3, 1, 2]
    assert {*store.left} == {"a", "b", "c"}
    assert store.head("a").seq == 2
    assert {*store.left} == {"b", "c"}
    assert [x for _, names in store.names("b") for x in names] == [(2, b"n2"), (3, b"n3"), (4, b"n4")]
    assert {*store.left} == {"c"}
    assert store.append([observe("c", one_row(value=7.0))])[0].seq == 2
    assert not store.left
    assert [values(store, model) for model in MODELS] == [[1.0, 6.0], [2.0, 3.0, 4.0], [5.0, 7.0], [], []]
    assert store.models() == [*MODELS]


def test_a_model_gets_one_record_of_the_rows_that_were_left_of_it(store: SqliteStore) -> None:
    batches = [random_batch(np.random.default_rng(k), 3) for k in range(3)]
    for at, batch in enumerate(batches):
        whole = join_batches([one_row(value=float(at + 1)), batch])
        store.append_joint(JointRows(("a", "b"), [1, 4], whole, [Names.of([]), Names.of([])], 10 + at))
    [record] = store.read("b", 0)
    assert (record.count, record.accepted_ms) == (9, 10)
    assert same(decode_batch(record.payload), join_batches(batches))


def test_what_was_distributed_is_told(store: SqliteStore) -> None:
    told: list[tuple[Append, Appended]] = []
    store.on_distributed = told.extend
    store.append_joint(rows_of({"a": [1.0], "b": [2.0]}))
    store.append_joint(rows_of({"a": [3.0], "c": [4.0]}))
    assert told == []
    store.distribute([*store.left][:2])
    assert [(append.model, one.record and one.record.last) for append, one in told] == [("a", 2), ("b", 1)]
    store.distribute([*store.left][:2])
    assert [append.model for append, _ in told] == ["a", "b", "c"]
    assert store.left_features() == 0


@pytest.mark.parametrize("seed", range(4))
def test_at_every_commit_a_crash_loses_nothing_and_keeps_nothing_twice(tmp_path: Path, seed: int) -> None:
    """The history is of joint records, records of one model, distribution, trims and dropped models."""
    rng = np.random.default_rng(seed)
    store = live_store(tmp_path / "live", MODELS)
    images = store._session._connection = ImageAtCommit(store._session._connection, tmp_path / "live", tmp_path)  # type: ignore[assignment]
    logged: Rows = {model: [] for model in MODELS}
    stages: list[tuple[int, Rows]] = []  # how many commits there were, and what was acknowledged by then
    for at in range(1, 15):
        match int(rng.integers(0, 6)):
            case 0:
                model = str(rng.choice(MODELS))
                store.append([observe(model, one_row(value=float(100 * at)))])
                logged[model].append(float(100 * at))
            case 1:
                store.distribute([*store.left][: int(rng.integers(1, 4))])
            case 2:
                store._trim_joint() if store._joint_records else store.idle()
            case _:
                rows = drawn(rng, at)
                last = store.append_joint(rows_of(rows))
                for model, each in rows.items():
                    logged[model] += each
                assert last == [len(logged[model]) for model in rows]
        stages.append((len(images.committed), {model: [*each] for model, each in logged.items()}))
    store.close()
    for number, folder in enumerate(images.committed, 1):
        before: Rows = next((rows for commits, rows in reversed(stages) if commits < number), {model: [] for model in MODELS})
        after = next((rows for commits, rows in stages if commits >= number), logged)
        reader, writer = image(folder, tmp_path / "reader"), image(folder, tmp_path / "writer")
        ends = verify(reader)
        for _ in range(2):  # a second start finds the same
            with closing(open_sqlite(writer, SETTINGS)) as opened:
                for model in MODELS:
                    found = values(opened, model)
                    assert before[model] == found[: len(before[model])]
                    assert found == after[model][: len(found)]
                    assert ends[model] == len(found)
                assert not opened.left


def test_after_a_clean_end_nothing_of_the_joint_log_is_stored(tmp_path: Path) -> None:
    with closing(live_store(tmp_path / "data", MODELS)) as store:
        store.append_joint(rows_of({"a": [1.0], "b": [2.0]}))
    connection = sqlite3.connect(tmp_path / "data" / DATABASE_NAME)
    assert [row[0] for row in connection.execute("SELECT name FROM models ORDER BY name")] == [*MODELS]
    assert connection.execute("SELECT count(*) FROM log").fetchone()[0] == 2
    connection.close()
    assert verify(tmp_path / "data") == {"a": 1, "b": 1, "c": 0, "d": 0, "e": 0}


def test_joint_records_are_trimmed_once_their_rows_are_distributed(store: SqliteStore) -> None:
    for at in range(JOINT_RECORDS_MAX):
        store.append_joint(rows_of({"a": [float(at)], "b": [float(at)]}))
        if at == 0:
            store.head("a")
    store.maintain()
    first = store.head(JOINT).first_seq
    assert first == 1  # a row of b is left
    store.distribute([*store.left][:9])
    for at in range(JOINT_RECORDS_MAX):
        store.append_joint(rows_of({"c": [float(at)], "d": [float(at)]}))
    store.maintain()
    assert store.head(JOINT).first_seq == JOINT_RECORDS_MAX + 1
    assert len(store.read(JOINT, JOINT_RECORDS_MAX)) == JOINT_RECORDS_MAX


def test_a_long_joint_record_has_a_file_which_is_removed_with_it(store: SqliteStore, tmp_path: Path) -> None:
    long = random_batch(np.random.default_rng(1), 20_000)
    store.append_joint(JointRows(("a", "b"), [1, 20_000], long, [Names.of([])] * 2, 7))
    number = store._row(store._session._connection, JOINT).id
    assert [*(tmp_path / "live").glob(f"riata.payloads.{number}.*")]
    store.close()
    assert not [*(tmp_path / "live").glob(f"riata.payloads.{number}.*")]
    assert verify(tmp_path / "live") == {"a": 1, "b": 19_999, "c": 0, "d": 0, "e": 0}


def test_rows_of_a_dropped_model_are_gone_and_a_new_one_does_not_get_them(tmp_path: Path) -> None:
    store = live_store(tmp_path / "live", MODELS)
    owner = store.acquire(b"n" * 16, 1, "h", 1)
    store.append_joint(rows_of({"a": [1.0], "e": [2.0]}))
    store.drop(owner, "e")
    store.create("e", b"other lineage 16")
    copy = image(tmp_path / "live", tmp_path / "copy")
    assert (store.head("e").seq, values(store, "a")) == (0, [1.0])
    store.close()
    assert verify(copy) == {"a": 1, "b": 0, "c": 0, "d": 0, "e": 0}


def test_an_unknown_model_refuses_all_and_logs_nothing(store: SqliteStore) -> None:
    with refused(NotFound, "model_not_found"):
        store.append_joint(rows_of({"a": [1.0], "zz": [2.0]}))
    assert not store.left
    assert store.append_joint(rows_of({"a": [1.0], "b": [2.0]})) == [1, 1]


def test_on_a_full_disk_rows_are_left_until_there_is_room(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.append_joint(rows_of({"a": [1.0], "b": [2.0]}))

    def full(*_: Any, **__: Any) -> None:
        raise DiskFull

    with monkeypatch.context() as patched:
        patched.setattr(directory, "FULL_S", 0.0)
        patched.setattr(store._session, "transaction", full)
        with refused(Unavailable, "disk_full"):
            store.distribute([*store.left][:9])
        with refused(Unavailable, "disk_reserve"):
            store.append_joint(rows_of({"a": [3.0], "b": [4.0]}))
    assert {*store.left} == {"a", "b"}
    assert store.append_joint(rows_of({"a": [5.0], "b": [6.0]})) == [2, 2]
    assert (values(store, "a"), values(store, "b")) == ([1.0, 5.0], [2.0, 6.0])


def test_acknowledged_rows_get_into_the_logs_with_the_reserve_of_a_full_disk(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.append_joint(rows_of({"a": [1.0], "b": [2.0]}))
    monkeypatch.setattr(store._session.ballast, "shortage", lambda: "the disk is nearly full")
    with refused(Unavailable, "disk_reserve"):
        store.append_joint(rows_of({"a": [3.0], "b": [4.0]}))
    assert (values(store, "a"), values(store, "b")) == ([1.0], [2.0])


@pytest.mark.parametrize("lost", ["an older copy", "no write-ahead log"])
def test_acknowledged_rows_that_are_missing_are_found_and_their_loss_can_be_accepted(tmp_path: Path, lost: str) -> None:
    store = live_store(tmp_path / "live", MODELS)
    store.append_joint(rows_of({"a": [1.0], "b": [2.0]}))
    store.distribute([*store.left][:9])
    store.idle()
    older = image(tmp_path / "live", tmp_path / "older")
    store.append_joint(rows_of({"c": [3.0], "d": [4.0]}))
    copy = image(tmp_path / "live", tmp_path / "copy")
    store.close()
    if lost == "an older copy":
        for name in (DATABASE_NAME, WAL):
            (copy / name).write_bytes((older / name).read_bytes())
    else:
        (copy / WAL).unlink()
    with refused(LogGap, "events_missing", match="events of several models that were acknowledged last are missing"):
        open_sqlite(copy, SETTINGS)
    with refused(LogGap, "events_missing"):
        read_sqlite(copy)
    assert [one.model for one in accept(copy, 9, SETTINGS)] == ["a", "b"]  # those that have events
    with closing(open_sqlite(copy, SETTINGS)) as opened:
        assert [opened.head(model).seq for model in MODELS] == [2, 2, 0, 0, 0]
        assert opened.append_joint(rows_of({"c": [5.0], "d": [6.0]})) == [1, 1]


def known_record(damage: Callable[[bytes], bytes] = bytes) -> Record:
    payload = encode_joint(rows_of({"a": [1.0], "b": [2.0, 3.0]}), [LINEAGE, b"b" * 16], [4, 1])
    return Record(JOINT, "joint", 9, 1, 7, damage(payload), b"", b"")


KNOWN = {LINEAGE: "a", b"b" * 16: "b"}


def test_a_joint_record_is_read_as_it_was_written() -> None:
    rows, firsts = decode_joint(known_record(), KNOWN)
    assert (rows.models, rows.stop, firsts, rows.accepted_ms) == (("a", "b"), [1, 3], [4, 1], 7)
    assert rows.batch.value.tolist() == [1.0, 2.0, 3.0]
    assert [[*names] for names in rows.names] == [[(1, b"n1")], [(2, b"n2"), (3, b"n3")]]
    assert decode_joint(known_record(), {LINEAGE: "a"})[0].models == ("a", JOINT)


def test_the_bytes_of_a_joint_record_stay_what_they_are() -> None:
    assert known_record().payload == bytes.fromhex((GOLDEN / "joint_v1.hex").read_text())


@pytest.mark.parametrize("size", range(8))
def test_a_joint_record_that_is_cut_is_refused(size: int) -> None:
    with pytest.raises(Corrupt):
        decode_joint(known_record(lambda payload: payload[: len(payload) * size // 8]), KNOWN)


def test_a_joint_record_of_a_newer_version_is_refused_as_such() -> None:
    with refused(Corrupt, "newer_format"):
        decode_joint(known_record(lambda payload: b"\x02" + payload[1:]), KNOWN)


def heads(a: int, b: int) -> dict[str, Head]:
    return {name: Head(lineage, seq, b"", 1, 1) for (lineage, name), seq in zip(KNOWN.items(), (a, b), strict=True)}


@pytest.mark.parametrize(("a", "b", "left"), [(3, 0, ["a", "b"]), (4, 0, ["b"]), (9, 2, [])])
def test_rows_whose_events_a_log_has_are_not_left(a: int, b: int, left: list[str]) -> None:
    found = JointLog()
    left_in(known_record(), KNOWN, heads(a, b), found)
    assert [*found.left] == left
    assert found.features == sum({"a": 1, "b": 2}[model] for model in left)


@pytest.mark.parametrize(("a", "b"), [(2, 0), (3, 1)])
def test_rows_that_do_not_continue_a_log_are_refused(a: int, b: int) -> None:
    with pytest.raises(Corrupt, match="the joint log has events from"):
        left_in(known_record(), KNOWN, heads(a, b), JointLog())


def test_only_the_embedded_store_has_joint_records(store: SqliteStore) -> None:
    assert joint(store) is not None
    assert joint(MemoryStore()) is None


def test_parts_of_one_batch_stay_whole() -> None:
    batch = random_batch(np.random.default_rng(3), 7)
    rows = JointRows(("a", "b", "c"), [2, 3, 7], batch, [Names.of([])] * 3, 1)
    found = JointLog()
    found.add(rows, 1)
    parts = [append.batch for append in found.appends(["a", "b", "c", "d"])]
    assert all(isinstance(part, Batch) for part in parts)
    assert same(join_batches([part for part in parts if part is not None]), batch)


@pytest.mark.parametrize("seed", range(8))
def test_the_rows_and_names_of_a_model_are_those_of_its_parts_in_order(seed: int) -> None:
    rng, found = np.random.default_rng(seed), JointLog()
    batches: dict[str, list[Batch]] = {}
    names: dict[str, dict[tuple[int, bytes], None]] = {}
    for at in range(12):
        models = [model for model in MODELS if rng.random() < 0.6] or ["a"]
        stop = rng.integers(1, 4, len(models)).cumsum().tolist()
        batch = random_batch(rng, stop[-1])
        if at % 3 == 0:
            batch = replace(batch, subject=rng.integers(0, 3, (batch.n, 16)).astype(np.uint8))
        if at % 4 == 0:
            batch = replace(batch, time=rng.integers(0, 9, batch.n), weight=rng.random(batch.n) + 0.5)
        told = [[(int(k), b"n%d" % k) for k in rng.integers(0, 40, rng.integers(0, 9))] for _ in models]
        rows = JointRows(tuple(models), stop, batch, [Names.of(pairs) for pairs in told], at)
        found.add(rows, at + 1)
        for model, pairs, (start, end) in zip(models, told, rows.spans(), strict=True):
            batches.setdefault(model, []).append(slice_rows(batch, start, end))
            names.setdefault(model, {}).update(dict.fromkeys(pairs))
    chosen = [*found.left][: seed % 5 + 1]
    for append in found.appends(chosen):
        assert append.batch is not None
        assert append.encoded is not None
        assert append.encoded.payload == encode_batch(join_batches(batches[append.model]))
        assert same(decode_batch(append.encoded.payload), append.batch)
        assert [*append.names] == [*names[append.model]]
    assert [append.model for append in found.appends([*chosen, "unknown"])] == chosen
    assert found.features == sum(part.nnz for parts in batches.values() for part in parts)
    found.forget(MODELS)
    assert (found.features, found.first_event()) == (0, None)


def test_no_name_is_lost_if_many_were_chosen_to_collide() -> None:
    hostile = [(k << 40, b"n%d" % k) for k in range(1, 300)]
    found = JointLog()
    for event in (1, 2):
        found.add(JointRows(("a",), [1], one_row(), [Names.of(hostile)], 7), event)
    [append] = found.appends(["a"])
    assert {*append.names} == {*hostile}


def test_the_structure_of_a_part_has_the_fields_that_are_written_as_numbers() -> None:
    assert [name for name, _ in STRUCTS["riata_part"]] == ["events", "names", "start", "stop"]
