"""The single connection and its transactions: which errors are retried, which are refused, and which end the store.

An error with an unknown outcome, above all one at COMMIT, makes the session unusable: a second fsync may report success for
pages that the kernel has dropped. The caller ends the process. The next start determines what was committed.

To fold the write-ahead log is to run an SQLite checkpoint: its pages are copied into the database.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from riata.base.errors import Conflict, Corrupt, StoreFailed, Unavailable
from riata.store.sqlite.directory import Ballast
from riata.store.sqlite.payload_files import PayloadFiles

T = TypeVar("T")
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_FULL = (errno.ENOSPC, errno.EDQUOT)
_NEW_PART = 4  # a write first folds after 1 / 4 of wal_bytes_max in payloads: they are in no page twice
_SOON_PART = 12  # after 1 / 12 of wal_bytes_max in payloads the log is folded when no request waits
_VACUUM_PAGES = 12  # pages freed on a full disk by one transaction, which first needs as much space in the log
_VACUUM_SLICES = 40  # such transactions in one call of `give_back`


class DiskFull(Exception):
    """A write found no disk space and was rolled back."""


class Session:
    """The single connection of a store and its payload files, used by one thread at a time."""

    def __init__(
        self, connection: sqlite3.Connection, files: PayloadFiles, ballast: Ballast, wal_bytes_max: int, read_only: bool
    ) -> None:
        self.files = files
        self.ballast = ballast
        self.read_only = read_only
        self._connection = connection
        self._wal_bytes_max = wal_bytes_max
        self._wal_bytes = self._payload_bytes = 0
        self._changes_folded = 0
        self._failure = ""
        self._held = False  # whether a backup holds folds
        self._database = -1  # see `database_descriptor`
        self.writes = 0  # number of `write` calls that may have changed the rows of models
        if read_only:
            connection.execute("PRAGMA query_only = ON")
        else:
            self.fold_wal()

    def close(self) -> None:
        """Fold the write-ahead log into the database and close it and the payload files. After a failure, write nothing."""
        if not self._failure:
            self._failure = "the store is closed"
            self._connection.close()
            self.files.close()
            if self._database >= 0:
                os.close(self._database)

    def usable(self, to_write: bool = False) -> sqlite3.Connection:
        """Return the connection. Raises `Unavailable` after a failure, `Conflict` (code `read_only`)."""
        if self._failure:
            raise StoreFailed(f"{self._failure}; restart the process")
        if to_write and self.read_only:
            raise Conflict("the store was opened read-only", "read_only")
        return self._connection

    def _fail(self, error: sqlite3.Error | OSError) -> Unavailable:
        self._failure = f"the store failed ({error})"
        return StoreFailed(f"{self._failure}; restart the process")

    def read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """Run `query`. Raises `Corrupt` if the database is damaged."""
        try:
            return query(self.usable())
        except sqlite3.Error as error:
            if _code(error) in _DAMAGED:
                raise Corrupt(f"the database is damaged ({error})", "database_damaged") from error
            raise self._fail(error) from error
        except OSError as error:
            raise self._fail(error) from error

    def write(self, write: Callable[[sqlite3.Connection], T], of_models: bool = True) -> T:
        """Run `write` as one transaction. If the disk is full, delete the ballast and run it again.

        of_models: whether it may change what a `ModelRow` has
        """
        self.usable(to_write=True)
        self.writes += of_models
        try:
            return self.transaction(write, full_is_known=True)
        except DiskFull:
            self.ballast.release()
            self._held = False  # a backup under way is given up
            self.fold_wal()  # frames that are folded can be overwritten
        try:
            return self.transaction(write, full_is_known=True)
        except DiskFull:
            raise Unavailable("the disk is full, even after the reserve was used: free some space", "disk_full") from None

    def write_unsynced(self, write: Callable[[sqlite3.Connection], T]) -> T:
        """Run `write`, which changes nothing that a `ModelRow` has, as one transaction that is not synced: it survives the end of
        the process, and a power cut only if a later transaction was synced."""
        connection = self.usable(to_write=True)
        connection.execute("PRAGMA synchronous = NORMAL")
        try:
            return self.write(write, of_models=False)
        finally:
            connection.execute("PRAGMA synchronous = FULL")

    def transaction(self, write: Callable[[sqlite3.Connection], T], full_is_known: bool) -> T:
        """Run `write` between BEGIN IMMEDIATE and COMMIT. Before COMMIT, sync the payload files.

        full_is_known: a COMMIT that found no space counts as rolled back. True only for writes that may be done twice.
        """
        connection = self.usable(to_write=True)
        try:
            connection.execute("BEGIN IMMEDIATE")
            result = write(connection)
            self.files.sync()
        except (sqlite3.Error, OSError) as error:
            self._roll_back()
            if _is_full(error):
                raise DiskFull from error
            raise self._fail(error) from error
        except BaseException:
            self._roll_back()
            raise
        try:
            connection.commit()  # releases the interpreter's lock once; executing a COMMIT statement does so five times
        except sqlite3.Error as error:
            if full_is_known and _is_full(error):
                self._roll_back()
                raise DiskFull from error
            raise self._fail(error) from error
        self.files.keep()
        return result

    def _roll_back(self) -> None:
        self.files.undo()
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise self._fail(error) from error

    def give_back(self) -> None:
        """Return free pages of the database to the filesystem, as far as a full disk allows it."""
        try:
            for _ in range(_VACUUM_SLICES):
                # As a script: `execute` would stop after the first page.
                self.usable().executescript(f"PRAGMA incremental_vacuum({_VACUUM_PAGES})")
                self.fold_wal()
        except sqlite3.Error as error:
            if not _is_full(error):
                raise self._fail(error) from error

    def fold_changes(self) -> None:
        """Fold the write-ahead log if anything was written since the last fold."""
        if self._connection.total_changes != self._changes_folded:
            self.fold_wal()

    def count_wal(self, written: int, payload: int = 0) -> None:
        """Add the approximate number of bytes written to the write-ahead log. payload: how many of them are event payloads."""
        self._wal_bytes += written
        self._payload_bytes += payload

    def fold_long_wal(self) -> None:
        """Fold the write-ahead log if it is long. Called before a write, so that it delays no answer that could be given already.
        Usually `fold_changes` has folded it before."""
        if self._wal_bytes > self._wal_bytes_max or self._payload_bytes > self._wal_bytes_max // _NEW_PART:
            self.fold_wal()

    def fold_new_wal(self) -> None:
        """Fold the write-ahead log if its payloads will soon require it. Called when no request waits: clients that were answered
        may be sending the next rows meanwhile."""
        if self._payload_bytes > self._wal_bytes_max // _SOON_PART:
            self.fold_wal()

    def hold_folds(self) -> None:
        """Fold the write-ahead log completely, and from then on not at all: the database file does not change.

        Raises `Conflict` (code `backup_running`) if folds are held already, `Unavailable` (code `disk_full`) if the log cannot be
        folded.
        """
        if self._held:
            raise Conflict("a backup is being made; wait for it", "backup_running")
        self.fold_wal()
        _, frames, folded = self.usable().execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        if frames != folded:
            raise Unavailable("the disk is full, so that the log cannot be folded: free some space", "disk_full")
        self._held = True

    def release_folds(self) -> bool:
        """Let folds go on. Returns whether they were held until now: a full disk ends that."""
        held, self._held = self._held, False
        return held

    def database_descriptor(self, path: Path) -> int:
        """Return a descriptor for reading the database file. It is closed after the connection, and only then: closing any
        descriptor of the file would drop the locks of this process on it."""
        if self._database < 0:
            self._database = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        return self._database

    def fold_wal(self) -> None:
        """Copy the write-ahead log into the database. On a full disk this is left for later, and nothing is lost."""
        connection = self.usable()
        if self._held:
            return
        for attempt in ("with the ballast", "without"):
            try:
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
                break
            except sqlite3.Error as error:
                if not _is_full(error):
                    raise self._fail(error) from error
                if attempt == "without" or not self.ballast.release():
                    break
        self._wal_bytes = self._payload_bytes = 0
        self._changes_folded = self._connection.total_changes


def _is_full(error: sqlite3.Error | OSError) -> bool:
    return error.errno in _FULL if isinstance(error, OSError) else _code(error) == sqlite3.SQLITE_FULL


def _code(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF  # the low byte is the primary code


# The key of the digests of subjects, in a table of its own.
#
# The table is made when it is first needed, not by a new version of the schema: an older program still opens the database, and
# its digests are found by the key of the model.

_TABLE: Final = "CREATE TABLE IF NOT EXISTS subject_key (one INTEGER PRIMARY KEY CHECK (one = 1), key BLOB NOT NULL) STRICT"


def keep(connection: sqlite3.Connection, fresh: bytes) -> bytes:
    """Return the key; `fresh` if there was none."""
    connection.execute(_TABLE)
    connection.execute("INSERT OR IGNORE INTO subject_key VALUES (1, ?)", (fresh,))
    key: bytes = connection.execute("SELECT key FROM subject_key").fetchone()[0]
    return key


def known(connection: sqlite3.Connection) -> bytes:
    """Return the key; empty if the store has none yet."""
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'subject_key'").fetchone() is None:
        return b""
    row = connection.execute("SELECT key FROM subject_key").fetchone()
    return b"" if row is None else bytes(row[0])


def subject_key(session: Session, fresh: bytes) -> bytes:
    """Return the key; `fresh`, which is kept, if there is none. Empty if there is none and the store is read only."""
    return session.read(known) or (b"" if session.read_only else session.write(partial(keep, fresh=fresh)))
