"""One connection and its transactions: what is retried, what is refused, and what ends the store for good.

An error whose outcome cannot be known, above all one at COMMIT, makes the session unusable: a second sync may report
success for pages the kernel has thrown away. The caller ends the process, and the start-up path finds the truth.
"""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Callable
from typing import TypeVar

from riata.base.errors import Conflict, Corrupt, StoreFailed, Unavailable
from riata.store.sqlite.directory import Ballast
from riata.store.sqlite.payload_files import PayloadFiles

T = TypeVar("T")
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_FULL = (errno.ENOSPC, errno.EDQUOT)
_NEW_PART = 4  # of wal_bytes_max: after so much less that is in no page twice, a fold is short enough to be waited for
_SOON_PART = 12  # of wal_bytes_max: after so much of it, it is folded where nobody waits
_VACUUM_PAGES = 12  # pages given back to a full disk by one transaction, which needs as much space in the log first
_VACUUM_SLICES = 40  # such transactions in one call of `give_back`


class DiskFull(Exception):
    """A write found no space and was rolled back."""


class Session:
    """The one connection of a store and the files beside it, used by one thread at a time."""

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
        self.writes = 0  # transactions that were begun by `write`
        if read_only:
            connection.execute("PRAGMA query_only = ON")
        else:
            self.fold_wal()

    def close(self) -> None:
        """Fold the write-ahead log into the database; after a failure nothing is written any more."""
        if not self._failure:
            self._failure = "the store is closed"
            self._connection.close()
            self.files.close()

    def usable(self, to_write: bool = False) -> sqlite3.Connection:
        """Return the connection. Raises `Unavailable` after a failure, `Conflict` (code `read_only`)."""
        if self._failure:
            raise StoreFailed(f"{self._failure}; end this process and start again")
        if to_write and self.read_only:
            raise Conflict("the store was opened for reading", "read_only")
        return self._connection

    def _fail(self, error: sqlite3.Error | OSError) -> Unavailable:
        self._failure = f"the store failed ({error})"
        return StoreFailed(f"{self._failure}; end this process and start again")

    def read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """Run `query`. Raises `Corrupt` where the database is damaged."""
        try:
            return query(self.usable())
        except sqlite3.Error as error:
            if _code(error) in _DAMAGED:
                raise Corrupt(f"the database is damaged ({error})", "database_damaged") from error
            raise self._fail(error) from error
        except OSError as error:
            raise self._fail(error) from error

    def write(self, write: Callable[[sqlite3.Connection], T]) -> T:
        """Run `write` as one transaction; where the disk is full, once more without the ballast."""
        self.usable(to_write=True)
        self.writes += 1
        try:
            return self.transaction(write, full_is_known=True)
        except DiskFull:
            self.ballast.release()
            self.fold_wal()  # what is folded can be written over
        try:
            return self.transaction(write, full_is_known=True)
        except DiskFull:
            raise Unavailable("the disk is full, even without the ballast: free some space", "disk_full") from None

    def transaction(self, write: Callable[[sqlite3.Connection], T], full_is_known: bool) -> T:
        """Run `write` between BEGIN IMMEDIATE and COMMIT, and sync before the latter what it has put into files.

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
            connection.commit()  # which lets go of the interpreter's lock once, and a statement does five times
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
        """Give free pages of the database back to the disk, as far as that is possible on a full one."""
        try:
            for _ in range(_VACUUM_SLICES):
                # As a script: `execute` would stop after the first page.
                self.usable().executescript(f"PRAGMA incremental_vacuum({_VACUUM_PAGES})")
                self.fold_wal()
        except sqlite3.Error as error:
            if not _is_full(error):
                raise self._fail(error) from error

    def fold_changes(self) -> None:
        """Fold the write-ahead log where anything was written since the last time."""
        if self._connection.total_changes != self._changes_folded:
            self.fold_wal()

    def count_wal(self, written: int, payload: int = 0) -> None:
        """Note about how many bytes were written to the write-ahead log, and how many of them are payload of events."""
        self._wal_bytes += written
        self._payload_bytes += payload

    def fold_long_wal(self) -> None:
        """Fold the write-ahead log where it has become long. Called before a write, so that nobody's answer waits for it who
        could have it already; mostly `fold_changes` was there first."""
        if self._wal_bytes > self._wal_bytes_max or self._payload_bytes > self._wal_bytes_max // _NEW_PART:
            self.fold_wal()

    def fold_new_wal(self) -> None:
        """Fold the write-ahead log where it will have to be done soon, for its payloads. Called where nobody waits: whoever was
        answered may be sending the next rows meanwhile."""
        if self._payload_bytes > self._wal_bytes_max // _SOON_PART:
            self.fold_wal()

    def fold_wal(self) -> None:
        """Copy the write-ahead log into the database. A full disk leaves it for later: nothing is lost by that."""
        connection = self.usable()
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
