"""Append-only files beside the database that hold long payloads, so that these are written once instead of twice.

Theory of operation
    A database with a write-ahead log writes all data twice: into that log, and later into its pages. The payload is nearly all
    of a record of a thousand rows. So a long payload is appended to a file of its model instead. Its record in the table `log`
    holds the file, offset and length. An append is

        payloads written  ->  their files synced  ->  records committed, the database synced  ->  acknowledged

    so every record that can be read has its payload. All payloads of one group and one model go to their file in one write.
    Bytes of a file that belong to no record are left by a crash or a refusal. They are never read, and later payloads
    overwrite them.

    A file is named after its model and the first event it may hold. It ends before the first event of the model's next file.
    A process writes only to files that it created, so it need not find out where an earlier process stopped. A whole file is
    deleted after the last of its events is trimmed, or with its model.
"""

from __future__ import annotations

import contextlib
import os
import re
from bisect import bisect_right, insort
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from riata.base.directories import sync_directory
from riata.base.errors import Corrupt
from riata.store.sqlite.schema import FILE_MODE

NAME: Final = "riata.payloads"
FILE_BYTES_MAX: Final = 64 * 2**20  # a longer file takes no more payloads; trimming frees disk space in such pieces
OPEN_MAX: Final = 64  # files that are open for writing
PARTS_MAX: Final = 512  # payloads of one write; the limit of systems (IOV_MAX) is 1024
_NAMED = re.compile(rf"{re.escape(NAME)}\.(\d+)\.(\d+)")


class Place(NamedTuple):
    """The location of a payload. file: first event of a file of its model, 0 for none; at: first byte; length: bytes."""

    file: int
    at: int
    length: int


NOWHERE: Final = Place(0, 0, 0)  # the payload is in the record itself


@dataclass(slots=True)
class _Open:
    """A file open for writing. kept: bytes of committed records; end: kept plus the bytes put since; waiting: payloads put
    but not written yet; fresh: the directory entry is not synced yet."""

    first: int
    descriptor: int
    kept: int = 0
    end: int = 0
    waiting: list[bytes] = field(default_factory=list)
    fresh: bool = True


class PayloadFiles:
    """The payload files of one data directory, used by one thread at a time. All calls raise the system's `OSError`."""

    def __init__(self, directory: Path, long_bytes: int) -> None:
        """Find the files of `directory`. Payloads of `long_bytes` or more are long."""
        self._directory = directory
        self._long_bytes = long_bytes
        self._open: dict[int, _Open] = {}  # by model, least recently used first
        self._put: set[int] = set()  # models with payloads that are neither kept nor undone
        self._firsts: dict[int, list[int]] = {}  # first events of each model's files, ascending
        for path in directory.glob(f"{NAME}.*"):
            if named := _NAMED.fullmatch(path.name):
                insort(self._firsts.setdefault(int(named[1]), []), int(named[2]))

    def put(self, model: int, first: int, payload: bytes) -> Place:
        """Assign a place to the payload of the record that begins with event `first`, if the payload is long. The caller then
        calls `write`, `sync`, and `keep` or `undo`."""
        if len(payload) < self._long_bytes:
            return NOWHERE
        file = self._open.pop(model, None)
        if file is not None and file.kept >= FILE_BYTES_MAX:
            os.close(file.descriptor)
            file = None
        if file is None:
            file = self._begin(model, first)
        self._open[model] = file
        self._put.add(model)
        at = file.end
        file.waiting.append(payload)
        file.end += len(payload)
        return Place(file.first, at, len(payload))

    def write(self) -> None:
        """Write the payloads that were put."""
        for model in self._put:
            file = self._open[model]
            _write_all(file.descriptor, file.waiting, file.kept)
            file.waiting.clear()
            # Drops no page, since none is written back yet. But it starts the write-back while the records are inserted.
            os.posix_fadvise(file.descriptor, file.kept, file.end - file.kept, os.POSIX_FADV_DONTNEED)

    def sync(self) -> None:
        """Make durable the payloads that were put, and the directory entries of new files."""
        for model in self._put:
            os.fdatasync(self._open[model].descriptor)
        if any(self._open[model].fresh for model in self._put):
            sync_directory(self._directory)

    def keep(self) -> None:
        """Keep the payloads that were put: their records are committed."""
        for model in self._put:
            file = self._open[model]
            file.kept, file.fresh = file.end, False
        self._put.clear()

    def undo(self) -> None:
        """Discard the payloads that were put: their records will not be committed."""
        for model in self._put:
            file = self._open[model]
            file.end = file.kept
            file.waiting.clear()
            with contextlib.suppress(OSError):  # this only frees disk space
                os.ftruncate(file.descriptor, file.kept)
        self._put.clear()

    def read(self, model: int, place: Place) -> bytes:
        """Return the payload at `place`. Raises `Corrupt` if it is missing. The record's digest shows whether it is right."""
        path = self._path(model, place.file)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise Corrupt(f"{path} is missing: it is part of the log; always copy a data directory as a whole") from None
        try:
            payload = os.pread(descriptor, place.length, place.at)
        finally:
            os.close(descriptor)
        if len(payload) != place.length:
            raise Corrupt(f"{path} ends before byte {place.at + place.length}, the end of a record")
        return payload

    def trim(self, model: int, first_seq: int) -> None:
        """Delete the files that hold only events before `first_seq`. The newest file of a model stays: its end is not known."""
        firsts = self._firsts.get(model, [])
        needed = max(0, bisect_right(firsts, first_seq) - 1)
        for first in firsts[:needed]:
            self._delete(model, first)
        del firsts[:needed]

    def link(self, model: int, directory: Path) -> None:
        """Hard-link all files of a model into `directory`, which is on the same filesystem."""
        for first in self._firsts.get(model, []):
            path = self._path(model, first)
            if path.exists():  # a missing file may be the damage
                os.link(path, directory / path.name)

    def drop(self, model: int) -> None:
        """Delete all files of a model."""
        if model in self._open:
            os.close(self._open.pop(model).descriptor)
        for first in self._firsts.pop(model, []):
            self._delete(model, first)

    def sweep(self, logs: Mapping[int, tuple[int, int]]) -> None:
        """Delete the files that no record refers to, after a start. logs: first and last event of each model."""
        for model in [model for model in self._firsts if model not in logs]:
            self.drop(model)
        for model, firsts in self._firsts.items():
            first_seq, last = logs[model]
            self.trim(model, first_seq)
            while firsts and firsts[-1] > last:
                self._delete(model, firsts.pop())

    def close(self) -> None:
        """Close the open files."""
        for file in self._open.values():
            os.close(file.descriptor)
        self._open.clear()

    def _begin(self, model: int, first: int) -> _Open:
        idle = [other for other in self._open if other not in self._put]
        if len(self._open) >= OPEN_MAX and idle:
            os.close(self._open.pop(idle[0]).descriptor)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        descriptor = os.open(self._path(model, first), flags, FILE_MODE)
        firsts = self._firsts.setdefault(model, [])
        if first not in firsts:  # a file of this name may be left by an uncommitted append
            insort(firsts, first)
        return _Open(first, descriptor)

    def _path(self, model: int, first: int) -> Path:
        return self._directory / f"{NAME}.{model}.{first}"

    def _delete(self, model: int, first: int) -> None:
        with contextlib.suppress(OSError):  # a remaining file is deleted at the next start
            self._path(model, first).unlink()


def _write_all(descriptor: int, parts: list[bytes], at: int) -> None:
    """Write parts one after the other from byte `at`, in as many calls as it takes. Raises `OSError`."""
    for begin in range(0, len(parts), PARTS_MAX):
        left = [memoryview(part) for part in parts[begin : begin + PARTS_MAX]]
        while left:
            count = os.pwritev(descriptor, left, at)
            at += count
            while left and count >= len(left[0]):
                count -= len(left.pop(0))
            if left:
                left[0] = left[0][count:]
