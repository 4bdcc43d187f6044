"""The data directory of the embedded store, its lock file against other processes, and the ballast file for a full disk."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import time
from pathlib import Path
from typing import Final

from riata.base.directories import sync_directory
from riata.base.errors import BadInput, Conflict

LOCK_NAME: Final = "riata.lock"
BALLAST_NAME: Final = "riata.ballast"
ROOM_S: Final = 0.005  # how long a free-space check holds: no disk fills a useful reserve in this time
FULL_S: Final = 5.0  # after a write that found no space, before another one is tried
MARGIN_PART: Final = 8  # 1 / 8 of the reserve has to be free in addition before events are accepted again
SETTING: Final = "disk_reserve_bytes"
_NOTE_BYTES_MAX = 256


def make_directory(directory: Path) -> None:
    """Create a data directory durably if there is none. Raises `BadInput` (code `not_a_directory`), `OSError`."""
    if directory.is_dir():
        return
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise BadInput(
            f"{directory}: the store needs a directory, but this path or a part of it is a file", "not_a_directory"
        ) from None
    sync_directory(directory.parent)


def require_free(directory: Path) -> None:
    """Raise `Conflict` (code `directory_locked`) if another process has the lock of this directory, which need not exist."""
    if (directory / LOCK_NAME).exists():
        DirectoryLock(directory).release()


class DirectoryLock:
    """An exclusive lock on a directory, held until `release` or the end of the process, including a crash.

    The lock file is never deleted: after a deletion two processes could lock two files of the same name. It names the holder.
    """

    def __init__(self, directory: Path) -> None:
        """Take the lock. Raises `Conflict` (code `directory_locked`), naming the holder."""
        self._file = os.open(directory / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(self._file, _NOTE_BYTES_MAX, 0).decode("ascii", "replace").strip()
            os.close(self._file)
            raise Conflict(
                f"{directory} is in use by another process ({holder or 'unknown'}): stop that process, or choose another "
                "directory",
                "directory_locked",
            ) from None
        note = f"pid {os.getpid()} on {socket.gethostname()}\n".encode("ascii", "replace")[:_NOTE_BYTES_MAX]
        # The note is only information for people, the lock alone decides. A full disk must not prevent a start.
        with contextlib.suppress(OSError):
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, note, 0)

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class Ballast:
    """A file of allocated blocks. It is deleted when the disk is full, so that a checkpoint can be written and events trimmed."""

    def __init__(self, directory: Path, size_bytes: int, reserve_bytes: int) -> None:
        self._path = directory / BALLAST_NAME
        self._directory = directory
        self._size_bytes = size_bytes
        self._reserve_bytes = reserve_bytes
        self._there = self._is_whole()
        self._room_until_s = 0.0  # monotonic clock: free space is not checked again before this time
        self._full_until_s = 0.0  # monotonic clock: after a write that found no space, none is tried before this time
        self._refuses = False  # whether events were refused at the last check

    def free_bytes(self) -> int:
        """Return the free disk space available to this process. The ballast is not part of it."""
        space = os.statvfs(self._directory)
        return space.f_bavail * space.f_frsize

    def wanted_bytes(self) -> int:
        """Return how much space has to be free for events to be accepted. It is more while events are refused (hysteresis), so
        that a disk at the limit does not alternate between accepting and refusing."""
        wanted = self._reserve_bytes + (self._reserve_bytes // MARGIN_PART if self._refuses else 0)
        return wanted if self._there else wanted + self._size_bytes

    def allows_events(self) -> bool:
        """Return whether events may be accepted: the ballast exists, and the reserve is free or was free a moment ago."""
        now_s = time.monotonic()
        if now_s >= self._room_until_s and now_s >= self._full_until_s and self.free_bytes() >= self.wanted_bytes():
            self._room_until_s = now_s + ROOM_S
        allows = now_s < self._room_until_s and self._there
        self._refuses = not allows
        return allows

    def shortage(self) -> str:
        """Return why no event may be accepted now, with the free and wanted bytes; empty if events may be. Makes the ballast
        if it can."""
        if self.allows_events() or (self.restore() and self.allows_events()):
            return ""
        free, wanted = self.free_bytes(), self.wanted_bytes()
        found = f"{free} bytes are free and {wanted} are needed"
        if free >= wanted:
            found = f"a write failed for lack of space although {free} bytes are free (a quota?)"
        return (
            f"the disk of {self._directory} is nearly full: {found}; free some space, or lower the setting {SETTING} "
            f"(RIATA_{SETTING.upper()}), now {self._reserve_bytes}, and start again"
        )

    def found_full(self) -> None:
        """Note that a write of events found no space, even if the filesystem reports free space."""
        self._full_until_s = time.monotonic() + FULL_S
        self._room_until_s = 0.0

    def release(self) -> bool:
        """Delete the ballast; return whether there was one."""
        was_there = self._there
        self._path.unlink(missing_ok=True)
        self._there = False
        return was_there

    def restore(self) -> bool:
        """Make the ballast if it is missing and the disk has room for it and the reserve; return whether it exists."""
        if self._there or self.free_bytes() < self.wanted_bytes():
            return self._there
        try:
            with self._path.open("wb") as file:
                if self._size_bytes:
                    os.posix_fallocate(file.fileno(), 0, self._size_bytes)
                os.fsync(file.fileno())
            self._there = True
        except OSError:
            self._path.unlink(missing_ok=True)
        return self._there

    def _is_whole(self) -> bool:
        with contextlib.suppress(OSError):
            status = self._path.stat()
            return status.st_size == self._size_bytes and status.st_blocks * 512 >= self._size_bytes  # st_blocks are of 512 bytes
        return False


class NoBallast(Ballast):
    """That of a store in memory: there is no disk that could be full."""

    def __init__(self) -> None:
        pass

    def allows_events(self) -> bool:
        return True

    def shortage(self) -> str:
        return ""

    def found_full(self) -> None:
        pass

    def release(self) -> bool:
        return False

    def restore(self) -> bool:
        return True
