"""The SQL schema of the embedded store, and how its single connection is opened, configured and checked."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from riata.base.errors import Conflict, Corrupt, RiataError, StoreFailed, Unavailable

DATABASE_NAME: Final = "riata.db"
APPLICATION_ID: Final = 0x52494154  # "RIAT"
SCHEMA_VERSION: Final = 5
UNSETTLED_VERSION: Final = 6  # while rows of models may be behind their logs (`log.settle`): older programs do not expect that
SQLITE_OLDEST: Final = (3, 37, 0)  # STRICT tables
QUICK_CHECK_BYTES_MAX: Final = 256 * 2**20  # of larger files only the small tables are checked, to bound the start-up time
FILE_MODE: Final = 0o640  # of every file that holds events
PAGE_BYTES: Final = 4 * 2**10  # of a new database: a commit writes whole pages, at least one for each model
CACHE_BYTES: Final = 32 * 2**20  # 8 MiB: 8 times the reads and 10 % more time a row with half a million ids
WAL_BYTES_KEPT: Final = 64 * 2**20  # size of the log file that is reused: overwriting is faster than growing
JOINT: Final = ""  # the name of the model whose log is the joint log, see `joint.py`
SEQ_BITS: Final = 44  # a log key is model id * 2^44 + first event: one tree, the events of a model are adjacent

_MAGIC = b"SQLite format 3\0"
_DAMAGED = "restore the directory from a backup, or move the file away to start empty"
_WAIT_S = 0.2  # wait for another connection: there should be none, but a backup or an inspection may be closing
_SMALL_TABLES = ("owner", "models", "generations", "names")

SCHEMA: Final = (
    """CREATE TABLE owner (
        one INTEGER PRIMARY KEY CHECK (one = 1), epoch INTEGER NOT NULL, nonce BLOB NOT NULL,
        algo_version INTEGER NOT NULL, host TEXT NOT NULL, acquired_ms INTEGER NOT NULL) STRICT""",
    "INSERT INTO owner VALUES (1, 0, x'', 0, '', 0)",
    """CREATE TABLE models (
        id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, lineage BLOB NOT NULL,
        seq INTEGER NOT NULL, chain BLOB NOT NULL, first_seq INTEGER NOT NULL, trimmed_chain BLOB NOT NULL,
        dedupe_floor INTEGER NOT NULL, merged INTEGER NOT NULL DEFAULT 0, inflight_seq INTEGER NOT NULL DEFAULT 0,
        inflight_deaths INTEGER NOT NULL DEFAULT 0, restores BLOB) STRICT""",
    """CREATE TABLE log (
        key INTEGER PRIMARY KEY, count INTEGER NOT NULL, kind INTEGER NOT NULL, accepted_ms INTEGER NOT NULL,
        digest BLOB NOT NULL, chain BLOB NOT NULL, payload BLOB NOT NULL, file INTEGER NOT NULL DEFAULT 0,
        at INTEGER NOT NULL DEFAULT 0, length INTEGER NOT NULL DEFAULT 0) STRICT""",
    """CREATE TABLE dedupe (
        model INTEGER NOT NULL, id BLOB NOT NULL, seq INTEGER NOT NULL, content BLOB NOT NULL,
        PRIMARY KEY (model, id)) STRICT, WITHOUT ROWID""",
    "CREATE TABLE fresh_ids (key INTEGER PRIMARY KEY, born INTEGER NOT NULL, entries BLOB NOT NULL) STRICT",
    """CREATE TABLE remembered (
        model INTEGER NOT NULL, key BLOB NOT NULL, due_ms INTEGER NOT NULL, row BLOB NOT NULL,
        PRIMARY KEY (model, key)) STRICT, WITHOUT ROWID""",
    "CREATE INDEX remembered_due ON remembered (model, due_ms, key)",
    "CREATE TABLE remembered_size (model INTEGER PRIMARY KEY, rows INTEGER NOT NULL, bytes INTEGER NOT NULL) STRICT",
    "CREATE TABLE names (key INTEGER PRIMARY KEY, digest BLOB NOT NULL, names BLOB NOT NULL) STRICT",
    "CREATE TABLE promotions (key INTEGER PRIMARY KEY, through INTEGER NOT NULL) STRICT",
    """CREATE TABLE generations (
        model INTEGER NOT NULL, gen INTEGER NOT NULL, parent INTEGER NOT NULL, applied INTEGER NOT NULL, chain BLOB NOT NULL,
        lineage BLOB NOT NULL, epoch INTEGER NOT NULL, algo_version INTEGER NOT NULL, created_ms INTEGER NOT NULL,
        chunks INTEGER NOT NULL, bytes INTEGER NOT NULL, digest BLOB NOT NULL, state_digest BLOB NOT NULL,
        verified INTEGER NOT NULL, info TEXT NOT NULL, PRIMARY KEY (model, gen)) STRICT, WITHOUT ROWID""",
    """CREATE TABLE chunks (
        model INTEGER NOT NULL, gen INTEGER NOT NULL, idx INTEGER NOT NULL, epoch INTEGER NOT NULL,
        digest BLOB NOT NULL, data BLOB NOT NULL, PRIMARY KEY (model, gen, idx)) STRICT""",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)


def connect(path: Path) -> sqlite3.Connection:
    """Open, configure and check the database at `path`. Create it if there is none. The caller holds the directory's lock.

    Raises `Corrupt` if it is not a sound database of this program (code `newer_format` if a newer program made it),
    `Conflict` if another connection is open.
    """
    if sqlite3.sqlite_version_info < SQLITE_OLDEST:
        raise Unavailable(f"SQLite {sqlite3.sqlite_version} is too old: expected at least {_dotted(SQLITE_OLDEST)}")
    is_new = _look_at_file(path)
    if is_new:
        path.touch(FILE_MODE)  # events are not world-readable; SQLite copies the mode to its other files
    connection = sqlite3.connect(path, timeout=_WAIT_S, isolation_level=None, check_same_thread=False)
    try:
        _configure(connection, is_new)
        _check(connection, path)
    except sqlite3.Error as error:
        connection.close()
        raise _translated(error, path) from error
    except RiataError:
        connection.close()
        raise
    return connection


def connect_in_memory() -> sqlite3.Connection:
    """Return a connection to a new database in memory. It is gone when the connection is closed."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    _run(connection, SCHEMA)
    return connection


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _look_at_file(path: Path) -> bool:
    """Return whether the database has to be created. Called before connecting: closing a file drops the process's locks on it."""
    wal = path.with_name(path.name + "-wal")
    if not path.exists() or path.stat().st_size == 0:
        if wal.exists() and wal.stat().st_size:
            raise Corrupt(f"{path} is missing or empty but {wal.name} is not; {_DAMAGED}")
        return True
    with path.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise Corrupt(f"{path} is not a database; {_DAMAGED}")
    return False


def _configure(connection: sqlite3.Connection, is_new: bool) -> None:
    pragmas = [
        f"page_size = {PAGE_BYTES}",  # takes effect in a new file only
        "locking_mode = EXCLUSIVE",  # before the first look at the WAL: no shared memory, no second connection
        "trusted_schema = OFF",
        "cell_size_check = ON",
        "mmap_size = 0",  # an I/O error must be an error code, not a signal
        "auto_vacuum = INCREMENTAL",  # takes effect in a new file only; lets a trimmed log free disk space
        f"cache_size = -{CACHE_BYTES // 1024}",  # negative: in KiB
        "journal_mode = WAL",
        "synchronous = FULL",
        "foreign_keys = ON",
        f"journal_size_limit = {WAL_BYTES_KEPT}",
        "wal_autocheckpoint = 0",  # errors of automatic checkpoints are not reported; the store does its own
        "secure_delete = OFF",  # otherwise trimming writes every page it frees, worst on a full disk
        "temp_store = MEMORY",
    ]
    for pragma in pragmas:
        connection.execute(f"PRAGMA {pragma}").fetchall()
    _run(connection, SCHEMA if is_new or _is_blank(connection) else ())


def _run(connection: sqlite3.Connection, statements: Sequence[str]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    for statement in statements:
        connection.execute(statement)
    connection.execute("COMMIT")


def _is_blank(connection: sqlite3.Connection) -> bool:
    """Return whether a process died between creating the file and creating its tables."""
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    return bool(tables == 0 and _pragma(connection, "application_id") == 0 and _pragma(connection, "user_version") == 0)


def _check(connection: sqlite3.Connection, path: Path) -> None:
    if _pragma(connection, "application_id") != APPLICATION_ID:
        raise Corrupt(f"{path} is a database of another program; choose another directory")
    version = _pragma(connection, "user_version")
    if version not in (SCHEMA_VERSION, UNSETTLED_VERSION):
        is_newer = int(version) > UNSETTLED_VERSION
        advice = "use a newer program" if is_newer else "use the program that made it"
        raise Corrupt(
            f"{path} has format {version}, this program reads {SCHEMA_VERSION} and {UNSETTLED_VERSION}: {advice}",
            "newer_format" if is_newer else None,
        )
    if _pragma(connection, "journal_mode") != "wal" or _pragma(connection, "synchronous") != 2:  # 2 is FULL
        raise Unavailable(f"{path}: this filesystem does not support a write-ahead log; choose a local disk")
    small = path.stat().st_size <= QUICK_CHECK_BYTES_MAX
    checks = ["quick_check(1)"] if small else [f"quick_check({table})" for table in _SMALL_TABLES]
    for check in checks:
        answer = _pragma(connection, check)
        if answer != "ok":
            raise Corrupt(f"{path} is damaged ({answer}); {_DAMAGED}")


def _pragma(connection: sqlite3.Connection, name: str) -> int | str:
    row = connection.execute(f"PRAGMA {name}").fetchone()
    value: int | str = row[0]
    return value


def _translated(error: sqlite3.Error, path: Path) -> RiataError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the low byte is the primary code
    if code == sqlite3.SQLITE_BUSY:
        return Conflict(f"{path} is open in another program; close that program", "directory_locked")
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return Corrupt(f"{path} is damaged ({error}); {_DAMAGED}")
    return StoreFailed(f"{path}: {error}", "not_accepted")
