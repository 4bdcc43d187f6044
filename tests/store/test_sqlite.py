from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from riata.base.errors import BadInput, Conflict, Corrupt, LogFork, LogGap, NotFound, RiataError, TooLarge, Unavailable
from riata.base.limits import CHUNK_BYTES_MAX
from riata.store.sqlite.schema import DATABASE_NAME, SEQ_BITS
from riata.store.sqlite.store import SqliteStore, open_sqlite, read_sqlite
from riata.store.sqlite.witness import WITNESS_NAME
from riata.store.store import Owner, PendingPrediction, names_in_log
from tests.refused import refused
from tests.settings import sqlite_settings
from tests.store.batches import LINEAGE, observe, one_row, random_batch, save

SMALL = sqlite_settings(ballast_bytes=2**16, reserve_bytes=2**10, wal_bytes_max=2**18)
NONCE = b"n" * 16


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    made = open_sqlite(tmp_path / "data", SMALL)
    made.create("m", LINEAGE)
    yield made
    made.close()


def edit(directory: Path, *statements: str) -> None:
    """Change a closed store in a way that no program of this project does."""
    connection = sqlite3.connect(directory / DATABASE_NAME, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def fill(directory: Path, records: int = 5) -> None:
    store = open_sqlite(directory, SMALL)
    store.create("m", LINEAGE)
    for i in range(records):
        store.append([observe("m", one_row(value=float(i + 1)))])
    store.close()


def test_a_second_process_is_kept_out(store: SqliteStore, tmp_path: Path) -> None:
    with refused(Conflict, "directory_locked", match=str(os.getpid())):
        open_sqlite(tmp_path / "data", SMALL)
    with pytest.raises(Conflict):
        read_sqlite(tmp_path / "data")
    assert store.head("m").seq == 0


def test_a_database_that_is_open_elsewhere_is_refused(tmp_path: Path) -> None:
    fill(tmp_path)
    other = sqlite3.connect(tmp_path / DATABASE_NAME, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with refused(Conflict, "directory_locked"):
        open_sqlite(tmp_path, SMALL)
    other.execute("ROLLBACK")
    other.close()
    open_sqlite(tmp_path, SMALL).close()


def test_reading_changes_nothing(tmp_path: Path) -> None:
    fill(tmp_path)
    store = read_sqlite(tmp_path)
    assert len(store.read("m", 0)) == 5
    owner = Owner(1, NONCE)
    writes: list[Callable[[], object]] = [
        lambda: store.append([observe("m", one_row())]), lambda: store.create("n", LINEAGE), lambda: store.drop(owner, "m"),
        lambda: store.acquire(NONCE, 1, "here", 0), lambda: store.stage(owner, "m", 1, 0, b""), store.idle,
        lambda: store.mark_inflight(owner, "m", 1, 1), lambda: store.trim(owner, "m", 3, 0),
    ]  # fmt: skip
    for write in writes:
        with refused(Conflict, "read_only"):
            write()
    store.close()
    open_sqlite(tmp_path, SMALL).close()


@pytest.mark.parametrize("below", ["", "data"])
def test_a_file_where_the_directory_should_be_is_named(tmp_path: Path, below: str) -> None:
    taken = tmp_path / "taken"
    taken.write_text("")
    with refused(BadInput, "not_a_directory", match=r"taken\S*: the store needs a directory"):
        open_sqlite(taken / below, SMALL)
    taken.unlink()
    open_sqlite(taken / below, SMALL).close()


def test_there_is_nothing_to_read_in_an_empty_directory(tmp_path: Path) -> None:
    with refused(NotFound, "no_store"):
        read_sqlite(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("UPDATE log SET payload = x'0102' WHERE key & 15 = 3", LogFork),
        ("UPDATE log SET accepted_ms = accepted_ms + 1 WHERE key & 15 = 3", LogFork),
        ("UPDATE log SET chain = zeroblob(20) WHERE key & 15 = 3", LogFork),
        ("UPDATE log SET kind = 99 WHERE key & 15 = 3", Corrupt),
        ("DELETE FROM log WHERE key & 15 = 3", LogGap),
        ("DELETE FROM log WHERE key & 15 <= 2", LogGap),
        ("DELETE FROM log WHERE key & 15 >= 4", LogGap),
        ("DELETE FROM log", LogGap),
        ("UPDATE log SET key = key + 8 WHERE key & 15 = 5", LogGap),
        ("UPDATE models SET seq = 6", LogGap),
        ("UPDATE models SET chain = zeroblob(20)", LogFork),
        ("UPDATE models SET lineage = zeroblob(16), trimmed_chain = zeroblob(20)", LogFork),
    ],
)
def test_a_foreign_edit_of_the_log_is_detected(tmp_path: Path, statement: str, error: type[RiataError]) -> None:
    fill(tmp_path)
    edit(tmp_path, statement)
    with pytest.raises((error, LogGap)), contextlib.closing(read_sqlite(tmp_path)) as store:
        store.read("m", 0)
    (tmp_path / WITNESS_NAME).unlink()  # the log itself is checked too
    store = read_sqlite(tmp_path)
    with pytest.raises(error):
        store.read("m", 0)
    store.close()


def test_a_log_shorter_than_the_applied_events_is_a_gap(store: SqliteStore) -> None:
    store.append([observe("m", one_row())])
    assert store.read("m", 1) == []
    with pytest.raises(LogGap, match="rolled back"):
        store.read("m", 2)


@pytest.mark.parametrize(
    ("statement", "whole"),
    [
        ("UPDATE chunks SET data = zeroblob(length(data)) WHERE idx = 1", False),
        ("DELETE FROM chunks WHERE idx = 1", False),
        ("DELETE FROM chunks WHERE idx = 2", False),
        ("UPDATE generations SET digest = zeroblob(32)", False),
        ("UPDATE chunks SET model = 13 - model; UPDATE chunks SET model = model - 10", False),
        ("UPDATE chunks SET epoch = epoch", True),
    ],
)
def test_a_changed_checkpoint_is_corrupt(tmp_path: Path, statement: str, whole: bool) -> None:
    data = np.random.default_rng(1).bytes(3 * CHUNK_BYTES_MAX - 5)
    store = open_sqlite(tmp_path, SMALL)
    owner = store.acquire(NONCE, 1, "here", 0)
    for model, content in (("m", data), ("n", data[::-1])):
        save(store, owner, model, store.create(model, LINEAGE), content)
    store.close()
    edit(tmp_path, *statement.split(";"))
    store = read_sqlite(tmp_path)
    if whole:
        assert store.open_generation("m", 1) == data
    else:
        with refused(Corrupt, "ckpt_corrupt"):
            store.open_generation("m", 1)
    store.close()


@pytest.mark.parametrize(
    ("statement", "whole"),
    [
        ("UPDATE names SET names = zeroblob(length(names))", False),
        ("UPDATE names SET names = substr(names, 1, length(names) - 1)", False),
        ("UPDATE names SET digest = zeroblob(16)", False),
        ("UPDATE names SET names = names", True),
    ],
)
def test_changed_names_are_corrupt(tmp_path: Path, statement: str, whole: bool) -> None:
    store = open_sqlite(tmp_path, SMALL)
    store.create("m", LINEAGE)
    store.append([dataclasses.replace(observe("m", one_row()), names=[(5, b"five"), (6, b"six")])])
    store.close()
    edit(tmp_path, statement)
    store = read_sqlite(tmp_path)
    if whole:
        assert names_in_log(store, "m") == [(5, b"five"), (6, b"six")]
    else:
        with pytest.raises(Corrupt, match="event 1"):
            store.names("m")
    store.close()


def test_the_log_is_folded_before_an_append_not_after_it(tmp_path: Path) -> None:
    store = open_sqlite(tmp_path, dataclasses.replace(SMALL, wal_bytes_max=2**16))
    store.create("m", LINEAGE)
    wal, database = tmp_path / (DATABASE_NAME + "-wal"), tmp_path / DATABASE_NAME
    before = database.stat().st_mtime_ns
    store.append([observe("m", random_batch(np.random.default_rng(2), 2000))])  # more than wal_bytes_max by itself
    assert wal.stat().st_size > 2**16
    assert database.stat().st_mtime_ns == before
    store.append([observe("m", one_row())])
    assert database.stat().st_mtime_ns > before
    store.close()


def test_a_pause_folds_the_log_before_the_next_append_would_have_to(tmp_path: Path) -> None:
    store = open_sqlite(tmp_path, dataclasses.replace(SMALL, wal_bytes_max=12 * 2**14))
    store.create("m", LINEAGE)
    database = tmp_path / DATABASE_NAME
    before = database.stat().st_mtime_ns
    store.append([observe("m", one_row())])
    store.maintain()  # so little may wait
    assert database.stat().st_mtime_ns == before
    store.append([observe("m", random_batch(np.random.default_rng(2), 2000))])
    assert database.stat().st_mtime_ns == before
    store.maintain()
    assert (folded := database.stat().st_mtime_ns) > before
    store.maintain()
    assert database.stat().st_mtime_ns == folded
    store.close()


def test_a_chunk_over_the_limit_is_refused(store: SqliteStore) -> None:
    owner = store.acquire(NONCE, 1, "here", 0)
    assert store.stage(owner, "m", 1, 0, bytes(CHUNK_BYTES_MAX))
    with pytest.raises(TooLarge):
        store.stage(owner, "m", 1, 0, bytes(CHUNK_BYTES_MAX + 1))


def test_dropping_a_model_leaves_nothing_of_it(store: SqliteStore, tmp_path: Path) -> None:
    owner = store.acquire(NONCE, 1, "here", 0)
    store.append([dataclasses.replace(observe("m", one_row(1)), names=[(5, b"five")])])
    save(store, owner, "m", store.head("m"), b"state")
    store.create("other", LINEAGE)
    store.drop(owner, "m")
    with pytest.raises(NotFound):
        store.head("m")
    store.close()
    connection = sqlite3.connect(tmp_path / "data" / DATABASE_NAME)
    for table in ("log", "fresh_ids", "dedupe", "names", "generations", "chunks"):
        assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,), table
    connection.close()


def test_every_commit_is_synced_after_a_mark_too(store: SqliteStore) -> None:
    store.mark_inflight(store.acquire(NONCE, 1, "here", 0), "m", 17, 2)
    assert store._session.usable().execute("PRAGMA synchronous").fetchone() == (2,)


def test_below_the_reserve_events_are_refused_and_checkpoints_are_not(tmp_path: Path) -> None:
    free = os.statvfs(tmp_path)
    settings = dataclasses.replace(SMALL, ballast_bytes=0, reserve_bytes=free.f_blocks * free.f_frsize * 2)
    store = open_sqlite(tmp_path, settings)
    head = store.create("m", LINEAGE)
    rows = [PendingPrediction(bytes(16), 5, b"x")]
    for ask in (store.refusals, lambda: store.append([observe("m", one_row())]), lambda: store.remember("m", rows, 100)):
        with pytest.raises(Unavailable) as caught:
            ask()
        assert (caught.value.code, caught.value.outcome) == ("disk_reserve", "not_accepted")
        said = caught.value.detail
        assert f"{settings.reserve_bytes} are needed" in said or f"{settings.reserve_bytes * 9 // 8} are needed" in said
        assert re.search(r"\d+ bytes are free", said)
        assert "disk_reserve_bytes (RIATA_DISK_RESERVE_BYTES)" in said
    assert store.remembered("m") == (0, 0)
    assert save(store, store.acquire(NONCE, 1, "here", 0), "m", head, b"state") == 1
    store.close()


def test_a_closed_store_refuses_everything(tmp_path: Path) -> None:
    store = open_sqlite(tmp_path, SMALL)
    store.close()
    store.close()
    for ask in (store.models, store.idle, lambda: store.append([])):
        with pytest.raises(Unavailable):
            ask()


def test_keys_of_the_log_have_room_for_all_models() -> None:
    assert (1000 << SEQ_BITS) < 2**63


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 6 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", disk], capture_output=True).returncode:
        pytest.skip("mounting a small disk needs to be root with the right to mount")
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)


def test_a_full_disk_refuses_events_lets_checkpoints_through_and_recovers(small_disk: Path) -> None:
    settings = sqlite_settings(ballast_bytes=2**20, reserve_bytes=2**19, wal_bytes_max=2**18)
    store = open_sqlite(small_disk, settings)
    store.create("m", LINEAGE)
    owner = store.acquire(NONCE, 1, "here", 0)
    rng = np.random.default_rng(5)
    acknowledged = fill_up(store, rng)
    state = rng.bytes(300_000)
    saved = [save(store, owner, "m", store.head("m"), state) for _ in range(3)]  # 900 kB: more than the reserve
    assert saved == [1, 2, 3]
    assert store.head("m").seq == acknowledged
    with pytest.raises(Unavailable, match="nearly full"):
        store.append([observe("m", one_row())])
    assert store.trim(owner, "m", 3, 0) == acknowledged
    for _ in range(5):
        store.idle()
    assert store.append([observe("m", one_row())])[0].seq == acknowledged + 1
    assert all(store.open_generation("m", gen) == state for gen in saved)
    store.close()


def fill_up(store: SqliteStore, rng: np.random.Generator) -> int:
    """Append until the store refuses; returns the last acknowledged event."""
    acknowledged = 0
    code = ""
    while not code:
        try:
            acknowledged = store.append([observe("m", random_batch(rng, 200))])[0].seq
        except Unavailable as error:
            code = f"{error.code} {error.outcome}"
    assert code == "disk_reserve not_accepted"
    return acknowledged


def test_a_disk_filled_by_others_loses_nothing(small_disk: Path) -> None:
    settings = sqlite_settings(ballast_bytes=2**16, wal_bytes_max=2**18)
    store = open_sqlite(small_disk, settings)
    store.create("m", LINEAGE)
    owner = store.acquire(NONCE, 1, "here", 0)
    rng = np.random.default_rng(6)
    acknowledged = store.append([observe("m", random_batch(rng, 50))])[0].seq
    with (small_disk / "other").open("wb") as other:
        other.write(bytes(os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize))
    with refused(Unavailable, "disk_full"):
        [store.stage(owner, "m", 1, index, rng.bytes(CHUNK_BYTES_MAX)) for index in range(20)]
    (small_disk / "other").unlink()
    store.idle()
    assert store.append([observe("m", one_row())])[0].seq == acknowledged + 1
    store.close()
    store = open_sqlite(small_disk, settings)
    assert store.read("m", 0)[-1].last == acknowledged + 1
    store.close()
