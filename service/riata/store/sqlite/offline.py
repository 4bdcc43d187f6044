"""What tools do to an embedded store while no service runs: repairs, and backups."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from riata.base.directories import sync_directory
from riata.base.errors import BadInput, NotFound
from riata.store.append_plan import Planned, pack, plan_group
from riata.store.sqlite.dedupe import forget_after
from riata.store.sqlite.directory import DirectoryLock, make_directory
from riata.store.sqlite.generations import require_owner
from riata.store.sqlite.log import ModelRow, chain_at, find_model, insert_planned
from riata.store.sqlite.online_backup import PART, WAL_NAME, copy_segments, require_new, sync_all
from riata.store.sqlite.payload_files import NAME as PAYLOADS
from riata.store.sqlite.schema import DATABASE_NAME, FILE_MODE, SEQ_BITS, connect
from riata.store.sqlite.store import OFFLINE, SqliteStore, read_sqlite
from riata.store.sqlite.witness import WITNESS_NAME
from riata.store.store import Append, Owner, Record

# The repairs of `riata repair` in the embedded store: cutting a log, and moving a model into a store of its own.

KEYED: Final = ("log", "fresh_ids", "names", "promotions")  # tables by model id * 2^44 + event
OF_MODELS: Final = ("dedupe", "remembered", "remembered_size", "generations", "chunks")


class RepairStore(SqliteStore):
    """The embedded store with the operations of a repair. Made by `open_for_repair`."""

    def cut(self, owner: Owner, request: Append, event: int) -> Record:
        """Cut the log of a model before `event` and append `request`, the event that records the cut, in one transaction. Return
        its record. The ids of the cut events are forgotten. Raises `BadInput` (code `bad_cut`)."""

        def write(c: sqlite3.Connection) -> list[Planned]:
            require_owner(c, owner)
            row = cut_rows(c, request.model, event)
            self._dedupe.forget_model(row.id)
            planned = plan_group([request], {request.model: row.head}, lambda *_: {}, self._dedupe_events)
            insert_planned(c, self._session.files, planned, {request.model: row}, self._dedupe)
            return planned

        record = self._session.write(write)[0].appended.record
        self.renew_witness()
        if record is None:
            raise BadInput("a cut is recorded in the log: expected a payload", "bad_payload")
        return record

    def set_aside(self, owner: Owner, model: str, directory: Path) -> None:
        """Move a model unchanged into a store of its own in `directory`, which is created."""
        make_directory(directory)
        number = self._session.read(lambda c: copy_model(c, model, directory / DATABASE_NAME))
        self._session.files.link(number, directory)
        sync_directory(directory)
        self.drop(owner, model)


def open_for_repair(directory: Path) -> RepairStore:
    """Open an existing store that no service uses. Raises as `open_sqlite` does."""
    return RepairStore.open(directory, OFFLINE)


def cut_rows(connection: sqlite3.Connection, model: str, event: int) -> ModelRow:
    """Delete the log of `model` from `event` on, its ids and names, and later generations. Return the model's new row.
    Raises `BadInput` (code `bad_cut`) if no record ends just before `event`."""
    row = find_model(connection, model)
    last = event - 1
    chain = chain_at(connection, row, last)
    if chain is None:
        raise BadInput(f"log of {model!r}: no record ends at event {last}", "bad_cut")
    for table in KEYED:
        bounds = (row.id << SEQ_BITS | event, (row.id + 1 << SEQ_BITS) - 1)
        connection.execute(f"DELETE FROM {table} WHERE key BETWEEN ? AND ?", bounds)
    forget_after(connection, row.id, last)
    beyond = "SELECT gen FROM generations WHERE model = ? AND applied > ?"
    connection.execute(f"DELETE FROM chunks WHERE model = ? AND gen IN ({beyond})", (row.id, row.id, last))
    connection.execute("DELETE FROM generations WHERE model = ? AND applied > ?", (row.id, last))
    floor = min(row.head.dedupe_floor, event)
    values = (last, chain, floor, pack(one for one in row.restores if one.event <= last), row.id)
    connection.execute("UPDATE models SET seq = ?, chain = ?, dedupe_floor = ?, restores = ? WHERE id = ?", values)
    return find_model(connection, model)


def copy_model(connection: sqlite3.Connection, model: str, database: Path) -> int:
    """Copy every row of `model` unchanged into a new database; return the number of the model, which is the same there."""
    number = find_model(connection, model).id
    keys = (number << SEQ_BITS, (number + 1 << SEQ_BITS) - 1)
    side = connect(database)
    try:
        side.execute("BEGIN IMMEDIATE")
        _copy(connection, side, "models", "id = ?", (number,))
        for table in KEYED:
            _copy(connection, side, table, "key BETWEEN ? AND ?", keys)
        for table in OF_MODELS:
            _copy(connection, side, table, "model = ?", (number,))
        side.execute("COMMIT")
    finally:
        side.close()
    return number


def _copy(source: sqlite3.Connection, target: sqlite3.Connection, table: str, where: str, values: tuple[Any, ...]) -> None:
    rows: Iterator[tuple[Any, ...]] = source.execute(f"SELECT * FROM {table} WHERE {where}", values)
    columns = len(source.execute(f"SELECT * FROM {table} LIMIT 0").description)
    target.executemany(f"INSERT INTO {table} VALUES ({','.join('?' * columns)})", rows)


# A copy of the directory of an embedded store whose service is not running, and the check of a copy.


def copy_stopped(directory: Path, to: Path) -> None:
    """Copy the directory of a service that is not running into the new directory `to`.

    Raises `NotFound` (code `no_store`), `Conflict` (`directory_locked` if a process uses it, `backup_exists`), `OSError`.
    """
    if not (directory / DATABASE_NAME).exists():
        raise NotFound(f"there is no store in {directory}", "no_store")
    require_new(to)
    lock = DirectoryLock(directory)
    try:
        part = to.with_name(to.name + PART)
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        beside = [directory / name for name in (WAL_NAME, WITNESS_NAME) if (directory / name).exists()]
        for path in [directory / DATABASE_NAME, *beside, *directory.glob(f"{PAYLOADS}.*")]:
            shutil.copyfile(path, part / path.name)
            (part / path.name).chmod(FILE_MODE)
        copy_segments(directory, part, lambda: None)
        sync_all(part)
        part.rename(to)
        sync_directory(to.parent)
    finally:
        lock.release()


def verify(directory: Path) -> dict[str, int]:
    """Read every record and every checkpoint of a stopped directory; return the last event of each model.

    Raises `Corrupt` if one is not what was written, `LogGap` (code `events_missing`) if acknowledged events are missing.
    """
    store = read_sqlite(directory)
    try:
        ends = {}
        for model in store.models():
            head = store.head(model)
            at = head.first_seq - 1
            while at < head.seq:
                at = store.read(model, at)[-1].last
            for generation in store.generations(model):
                store.open_generation(model, generation.gen)
            ends[model] = at
        return ends
    finally:
        store.close()
