"""Long payloads in files outside the database: writing, reading and trimming."""

from __future__ import annotations

import dataclasses
import errno
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from riata.base.errors import Conflict, Corrupt, LogFork, RiataError, StoreFailed, Unavailable
from riata.store.sqlite import directory, payload_files
from riata.store.sqlite.directory import BALLAST_NAME, LOCK_NAME, Ballast, DirectoryLock
from riata.store.sqlite.payload_files import NOWHERE, PayloadFiles
from riata.store.sqlite.schema import DATABASE_NAME
from riata.store.sqlite.store import SqliteStore, open_sqlite, read_sqlite
from riata.store.store import Owner, Record
from tests.refused import refused
from tests.settings import sqlite_settings
from tests.store.batches import LINEAGE, observe, one_row, random_batch, save
from tests.store.test_sqlite import NONCE, edit

LONG = sqlite_settings(long_bytes=1000)
Fault = Callable[..., object]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    made = open_sqlite(tmp_path, LONG)
    made.create("m", LINEAGE)
    yield made
    made.close()


def long(store: SqliteStore, model: str = "m", seed: int = 1) -> Record:
    """Append some kilobytes in one record."""
    record = store.append([observe(model, random_batch(np.random.default_rng(seed), 100))])[0].record
    assert record is not None
    assert len(record.payload) > LONG.long_bytes
    return record


def short(store: SqliteStore, model: str = "m") -> Record:
    record = store.append([observe(model, one_row())])[0].record
    assert record is not None
    return record


def names(directory: Path) -> list[str]:
    """Payload files as model.first."""
    found = [path.name.removeprefix("riata.payloads.") for path in directory.glob("riata.payloads.*")]
    return sorted(found, key=lambda name: [int(part) for part in name.split(".")])


def bytes_of(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.glob("riata.payloads.*"))


def restarted(store: SqliteStore, directory: Path) -> SqliteStore:
    store.close()
    return open_sqlite(directory, LONG)


def test_a_long_payload_is_written_beside_the_database_and_a_short_one_in_it(store: SqliteStore, tmp_path: Path) -> None:
    records = [short(store), long(store), short(store), long(store, seed=2)]
    assert store.read("m", 0) == records
    assert names(tmp_path) == ["1.2"]
    assert (tmp_path / "riata.payloads.1.2").read_bytes() == records[1].payload + records[3].payload
    store.close()
    connection = sqlite3.connect(tmp_path / DATABASE_NAME)
    kept = connection.execute("SELECT length(payload), file, at, length FROM log ORDER BY key").fetchall()
    connection.close()
    first, second = len(records[1].payload), len(records[3].payload)
    assert kept == [
        (len(records[0].payload), 0, 0, 0),
        (0, 2, 0, first),
        (len(records[2].payload), 0, 0, 0),
        (0, 2, first, second),
    ]


def test_other_users_may_not_read_events(store: SqliteStore, tmp_path: Path) -> None:
    long(store)
    holding = [path for path in tmp_path.iterdir() if path.name.startswith((DATABASE_NAME, payload_files.NAME))]
    assert len(holding) == 3  # the database, its write-ahead log, a payload file
    assert {path.stat().st_mode & 0o007 for path in holding} == {0}


@pytest.mark.parametrize(("length", "place"), [(999, NOWHERE), (1000, (5, 0, 1000))])
def test_a_payload_is_long_from_so_many_bytes_on(tmp_path: Path, length: int, place: tuple[int, int, int]) -> None:
    files = PayloadFiles(tmp_path, 1000)
    assert files.put(3, 5, bytes(length)) == place
    files.close()


def test_a_group_of_several_models_is_read_back_after_a_restart(store: SqliteStore, tmp_path: Path) -> None:
    store.create("n", LINEAGE[::-1])
    rng = np.random.default_rng(3)
    group = [observe(model, random_batch(rng, 100)) for model in ("m", "n", "m", "n")]
    appended = [answer.record for answer in store.append(group)]
    assert names(tmp_path) == ["1.1", "2.1"]
    store = restarted(store, tmp_path)
    assert store.read("m", 0) == appended[::2]
    assert store.read("n", 0) == appended[1::2]
    store.close()


def test_reading_in_pieces_counts_payload_files(store: SqliteStore) -> None:
    records = [long(store, seed=seed) for seed in range(4)]
    two = len(records[0].payload) + len(records[1].payload)
    assert store.read("m", 0, two) == records[:2]
    assert store.read("m", 0, two - 1) == records[:1]


def test_a_process_writes_to_files_of_its_own_only(store: SqliteStore, tmp_path: Path) -> None:
    records = [long(store)]
    store = restarted(store, tmp_path)
    records.append(long(store, seed=2))
    assert names(tmp_path) == ["1.1", "1.101"]
    assert store.read("m", 0) == records
    store.close()


def test_a_full_file_is_followed_by_another(store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payload_files, "FILE_BYTES_MAX", 1)
    records = [long(store, seed=seed) for seed in range(3)]
    assert names(tmp_path) == ["1.1", "1.101", "1.201"]
    assert store.read("m", 0) == records


def test_more_models_than_files_may_be_open(store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payload_files, "OPEN_MAX", 2)
    models = ["m", "b", "c"]
    for model in models[1:]:
        store.create(model, LINEAGE)
    records = {model: [long(store, model, seed=seed) for seed in range(2)] for model in models}
    for model in models:
        records[model].append(long(store, model, seed=7))
    assert {model: store.read(model, 0) for model in models} == records
    assert names(tmp_path) == ["1.1", "1.201", "2.1", "2.201", "3.1", "3.201"]


def failing(number: int) -> Fault:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def test_a_refused_request_leaves_nothing_in_the_store(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory, "FULL_S", 0.0)  # the next write is tried at once
    records = [long(store)]
    for call in ("pwritev", "fdatasync"):
        with monkeypatch.context() as patch:
            patch.setattr(os, call, failing(errno.ENOSPC))
            with pytest.raises(Unavailable) as caught:
                long(store, seed=2)
        assert (caught.value.code, caught.value.outcome) == ("disk_reserve", "not_accepted")
        assert bytes_of(tmp_path) == len(records[0].payload)
        assert store.read("m", 0) == records
    records += [short(store), long(store, seed=3)]
    assert store.read("m", 0) == records
    assert names(tmp_path) == ["1.1"]


@pytest.mark.parametrize("call", ["pwritev", "fdatasync", "fsync"])
def test_after_a_failed_call_nothing_is_acknowledged_any_more(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    records = [short(store)]
    with monkeypatch.context() as patch:
        patch.setattr(os, call, failing(errno.EIO))
        with pytest.raises(StoreFailed):
            long(store)
    with pytest.raises(StoreFailed):
        long(store)
    shutil.copytree(tmp_path, copy := tmp_path / "copy")  # the process would have to end
    again = open_sqlite(copy, LONG)
    assert again.read("m", 0) == records
    assert names(copy) == []
    again.close()
    store._session._connection.close()


@pytest.mark.parametrize("most", [700, 5000, 10**9])
def test_a_write_in_pieces_equals_a_single_one(store: SqliteStore, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    taken: list[int] = []

    def some(file: int, parts: list[memoryview], at: int) -> int:
        taken.append(len(parts))
        return os.pwrite(file, b"".join(parts)[:most], at)

    monkeypatch.setattr(os, "pwritev", some)
    monkeypatch.setattr(payload_files, "PARTS_MAX", 2)
    rng = np.random.default_rng(4)
    answers = store.append([observe("m", random_batch(rng, 100)) for _ in range(3)])
    assert store.read("m", 0) == [answer.record for answer in answers]
    assert max(taken) == 2
    assert (len(taken) == 2) == (most == 10**9)


def test_files_whose_events_are_trimmed_go_and_others_stay(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(payload_files, "FILE_BYTES_MAX", 1)
    store.create("other", LINEAGE)
    long(store, "other")
    owner = Owner(*dataclasses.astuple(store.acquire(NONCE, 1, "here", 0)))
    for seed in range(5):
        long(store, seed=seed)
        save(store, owner, "m", store.head("m"), b"state")
    assert names(tmp_path) == ["1.1", "1.101", "1.201", "1.301", "1.401", "2.1"]
    store.trim(owner, "m", 3, 0)
    assert store.head("m").first_seq == 301
    assert names(tmp_path) == ["1.301", "1.401", "2.1"]
    assert [record.first for record in store.read("m", 300)] == [301, 401]
    assert len(store.read("other", 0)) == 1


def test_a_dropped_model_takes_its_files_along_and_its_number_starts_again(store: SqliteStore, tmp_path: Path) -> None:
    owner = store.acquire(NONCE, 1, "here", 0)
    long(store)
    store.drop(owner, "m")
    assert names(tmp_path) == []
    store.create("again", LINEAGE)
    record = long(store, "again", seed=9)
    assert names(tmp_path) == ["1.1"]
    assert store.read("again", 0) == [record]


def test_a_start_deletes_files_without_records_and_nothing_else(store: SqliteStore, tmp_path: Path) -> None:
    record = long(store)
    left = ["riata.payloads.1.101", "riata.payloads.2.1"]  # of an append that was never committed, of a model that is no more
    others = ["riata.payloads.old", "riata.payloads.1.x", "notes"]
    for name in left + others:
        (tmp_path / name).write_bytes(b"left")
    store.close()
    read_sqlite(tmp_path).close()
    assert all((tmp_path / name).exists() for name in left)
    store = open_sqlite(tmp_path, LONG)
    assert not any((tmp_path / name).exists() for name in left)
    assert all((tmp_path / name).exists() for name in others)
    records = [record, long(store, seed=2)]
    assert store.read("m", 0) == records
    store.close()


def cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size - 1)


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(bytes(content))


@pytest.mark.parametrize(
    ("damage", "error", "words"),
    [(Path.unlink, Corrupt, "missing"), (cut, Corrupt, "ends before"), (flip, LogFork, "changed after it was written")],
)
def test_a_damaged_file_is_detected(
    store: SqliteStore, tmp_path: Path, damage: Callable[[Path], None], error: type[RiataError], words: str
) -> None:
    record = long(store)
    assert store.read("m", 0) == [record]
    damage(tmp_path / "riata.payloads.1.1")
    with pytest.raises(error, match=words):
        store.read("m", 0)


def test_a_disk_that_cannot_be_read_ends_the_store(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    long(store)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pread", failing(errno.EIO))
        with pytest.raises(StoreFailed):
            store.read("m", 0)
    with pytest.raises(StoreFailed):
        store.head("m")
    store._session._connection.close()  # which a store that failed leaves to the end of its process


def test_a_database_of_an_older_format_is_refused(store: SqliteStore, tmp_path: Path) -> None:
    store.close()
    edit(tmp_path, "ALTER TABLE models DROP COLUMN restores", "PRAGMA user_version = 4")
    with pytest.raises(Corrupt, match="has format 4, this program reads 5 and 6: use the program that made it"):
        open_sqlite(tmp_path, LONG)


# Directory.


HUGE = 2**62  # more than any disk has


def test_the_second_lock_is_refused_and_names_the_holder(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path)
    with refused(Conflict, "directory_locked", match=f"pid {os.getpid()} on "):
        DirectoryLock(tmp_path)
    lock.release()


def test_a_released_lock_can_be_taken_again_and_its_file_stays(tmp_path: Path) -> None:
    DirectoryLock(tmp_path).release()
    assert (tmp_path / LOCK_NAME).exists()
    lock = DirectoryLock(tmp_path)
    lock.release()
    lock.release()


def test_the_ballast_is_of_real_blocks(tmp_path: Path) -> None:
    ballast = Ballast(tmp_path, 2**20, 0)
    assert not ballast.allows_events()
    assert ballast.restore()
    status = (tmp_path / BALLAST_NAME).stat()
    assert (status.st_size, status.st_blocks * 512 >= 2**20) == (2**20, True)
    assert ballast.allows_events()


def test_without_the_ballast_no_event_is_allowed(tmp_path: Path) -> None:
    ballast = Ballast(tmp_path, 2**20, 0)
    ballast.restore()
    assert ballast.release()
    assert not ballast.allows_events()
    assert not ballast.release()
    assert ballast.restore()
    assert ballast.allows_events()


def test_below_the_reserve_no_event_is_allowed_and_no_ballast_made(tmp_path: Path) -> None:
    ballast = Ballast(tmp_path, 2**12, HUGE)
    assert not ballast.restore()
    assert not ballast.allows_events()
    assert not (tmp_path / BALLAST_NAME).exists()


def test_a_disk_that_fills_is_seen_a_moment_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ballast = Ballast(tmp_path, 0, 2**20)
    assert ballast.restore()
    assert ballast.allows_events()
    looks: list[int] = []

    def none_left(_ballast: Ballast) -> int:
        looks.append(1)
        return 2**20 - 1

    monkeypatch.setattr(Ballast, "free_bytes", none_left)
    deadline = time.monotonic() + 900.0
    while ballast.allows_events():
        assert time.monotonic() < deadline
    assert len(looks) == 1  # it was not looked at before
    assert not ballast.allows_events()
    monkeypatch.undo()
    assert ballast.allows_events()


def test_a_ballast_that_another_process_made_is_found(tmp_path: Path) -> None:
    Ballast(tmp_path, 2**20, 0).restore()
    assert Ballast(tmp_path, 2**20, 0).allows_events()
    assert not Ballast(tmp_path, 2**21, 0).allows_events()
    assert Ballast(tmp_path, 2**21, 0).restore()


def test_a_sparse_file_is_no_ballast(tmp_path: Path) -> None:
    with (tmp_path / BALLAST_NAME).open("wb") as file:
        file.truncate(2**20)
    assert not Ballast(tmp_path, 2**20, 0).allows_events()
