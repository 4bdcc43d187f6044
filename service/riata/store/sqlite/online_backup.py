"""A copy of the directory of an embedded store, made while events are written to it.

Theory of operation
    All writes of SQLite go to the write-ahead log until it is folded into the database. So while nothing folds it, the database
    file does not change, and it is copied by another thread, at the speed of the disk. What arrives meanwhile is in the
    write-ahead log. Between two transactions the store's thread then copies the end of that log and the witness, and links the
    payload files, which only grow. That takes milliseconds:

        begin (store's thread)   fold the log, hold later folds
        copy                     the database, and most of a long write-ahead log
        finish (store's thread)  the rest of the log, the witness, links of the payload files; folds go on
        complete                 payload files copied, everything synced, renamed to its name

    The copy is what a crash at the moment of `finish` would have left, so a start on it is a recovery like any other: it has
    every event that was acknowledged before `finish`, its ids, the checkpoints and the remembered predictions. A copy that is
    not complete has the name PART and is deleted by the next one.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from riata.base.directories import sync_directory
from riata.base.errors import Conflict, Unavailable
from riata.store.segment import FOLDER as SEGMENTS
from riata.store.sqlite.payload_files import NAME as PAYLOADS
from riata.store.sqlite.schema import DATABASE_NAME, FILE_MODE
from riata.store.sqlite.session import Session
from riata.store.sqlite.witness import WITNESS_NAME

FOLDER: Final = "backups"
PART: Final = ".part"
WAL_NAME: Final = f"{DATABASE_NAME}-wal"
PIECE_BYTES: Final = 2**20
WAL_LEFT_MAX: Final = 64 * 2**20  # bytes of the write-ahead log that `finish` copies: 30 ms
GoOn = Callable[[], None]


class OnlineBackup:
    """One backup under way. `copy`, `copy_wal` and `complete` may be called in any thread, the others in the store's."""

    def __init__(self, directory: Path, session: Session, reserve_bytes: int) -> None:
        """Begin: fold the log and hold later folds. Raises `Conflict` (code `backup_running`), `Unavailable`, `OSError`."""
        self._directory, self._session = directory, session
        self.part = directory / FOLDER / PART
        session.hold_folds()
        try:
            self._database = session.database_descriptor(directory / DATABASE_NAME)
            self._size = os.fstat(self._database).st_size
            self._wal_begin = _size(directory / WAL_NAME)
            self._wal_copied = 0
            self._require_room(reserve_bytes)
            shutil.rmtree(self.part, ignore_errors=True)
            self.part.mkdir(parents=True)
        except BaseException:
            session.release_folds()
            raise

    def copy(self, go_on: GoOn) -> None:
        """Copy the database file. `go_on` raises to abandon the copy."""
        with _new(self.part / DATABASE_NAME) as to:
            _copy(self._database, to, 0, self._size, go_on)

    def wal_grown(self) -> int:
        """Return up to which byte the write-ahead log has grown beyond what it was, and can be copied; 0 if that is little."""
        size = _size(self._directory / WAL_NAME)
        return size if size > self._wal_begin and size - self._wal_copied > WAL_LEFT_MAX else 0

    def copy_wal(self, until: int, go_on: GoOn) -> None:
        """Copy the write-ahead log up to a result of `wal_grown`. Nothing before it changes while folds are held."""
        self._copy_wal(until, go_on)

    def finish(self) -> None:
        """Copy what is left of the write-ahead log and the witness, link the payload files, let folds go on.

        Raises `Unavailable` (code `disk_full`) if the disk was full meanwhile, so that the log had to be folded; `OSError`.
        """
        try:
            self._copy_wal(_size(self._directory / WAL_NAME), lambda: None)
            if (self._directory / WITNESS_NAME).exists():
                shutil.copyfile(self._directory / WITNESS_NAME, self.part / WITNESS_NAME)
            for path in self._directory.glob(f"{PAYLOADS}.*"):
                os.link(path, self.part / f"{path.name}{PART}")
        finally:
            held = self._session.release_folds()
        if not held:
            raise Unavailable("the disk was full while the backup was made; free some space and try again", "disk_full")

    def give_up(self) -> None:
        """Let folds go on. What was copied is deleted by the next backup."""
        self._session.release_folds()

    def complete(self, name: str, go_on: GoOn) -> Path:
        """Copy the payload files and the segments, sync everything, and give the copy its name. Raises `OSError`."""
        for path in self.part.glob(f"*{PART}"):
            with path.open("rb") as file, _new(path.with_name(path.name.removesuffix(PART))) as to:
                _copy(file.fileno(), to, 0, os.fstat(file.fileno()).st_size, go_on)
            path.unlink()
        copy_segments(self._directory, self.part, go_on)
        sync_all(self.part)
        done = self.part.with_name(name)
        self.part.rename(done)
        sync_directory(done.parent)
        return done

    def _copy_wal(self, until: int, go_on: GoOn) -> None:
        wal = self._directory / WAL_NAME
        if not wal.exists():
            return
        with wal.open("rb") as file, _new(self.part / WAL_NAME) as to:
            _copy(file.fileno(), to, self._wal_copied, until, go_on)
        self._wal_copied = until

    def _require_room(self, reserve_bytes: int) -> None:
        files = [path.stat().st_size for path in self._directory.glob(f"{PAYLOADS}.*")]
        segments = [path.stat().st_size for path in (self._directory / SEGMENTS).rglob("*") if path.is_file()]
        need = self._size + sum(files) + sum(segments) + reserve_bytes
        space = os.statvfs(self._directory)
        if (free := space.f_bavail * space.f_frsize) < need:
            raise Unavailable(
                f"a backup of {self._directory} needs {need} bytes on its disk, the reserve included, and {free} are free; move "
                "earlier backups away, or free some space",
                "disk_reserve",
            )


def require_new(to: Path) -> None:
    """Raise `Conflict` (code `backup_exists`) if something has this path."""
    if to.exists():
        raise Conflict(f"{to} exists; name a path that does not, so that no backup is overwritten", "backup_exists")


def copy_segments(directory: Path, to: Path, go_on: GoOn) -> None:
    """Copy the segments, which are written once. One that is deleted meanwhile is left out: the log, or another one, has its
    events."""
    for path in (directory / SEGMENTS).rglob("*"):
        go_on()
        with contextlib.suppress(FileNotFoundError):
            if path.is_file():
                there = to / path.relative_to(directory)
                there.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, there)


def sync_all(directory: Path) -> None:
    """Make every file and directory below `directory` durable. Raises `OSError`."""
    for path in directory.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
    for path in [directory, *(path for path in directory.rglob("*") if path.is_dir())]:
        sync_directory(path)


@contextlib.contextmanager
def _new(path: Path) -> Iterator[int]:
    """Open a file for writing at places, with the mode of files that hold events; created if it does not exist."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _copy(source: int, to: int, start: int, stop: int, go_on: GoOn) -> None:
    """Copy the bytes start:stop of a file to the same place of another. Raises `OSError` if the file is shorter."""
    at = start
    while at < stop:
        go_on()
        piece = os.pread(source, min(PIECE_BYTES, stop - at), at)
        if not piece:
            raise OSError(f"a file ended at byte {at} while it was copied, and had {stop}")
        at += os.pwrite(to, piece, at)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
