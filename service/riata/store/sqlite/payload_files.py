"""Files beside the database, for payloads that are long.

Theory of operation
    A database with a write-ahead log writes what it is given twice: into that log, and later into its pages. Of a record of a
    thousand rows the payload is all but everything, so a long payload is appended to a file of its model instead, and its record
    in the table `log` says where it lies. An append is

        payloads written  ->  their files synced  ->  records committed, the database synced  ->  acknowledged

    so whoever finds a record finds its payload. All payloads of a group and a model go to their file in one write. What lies in
    a file and in no record is left of a crash or of a refusal: nobody looks at it, and what comes next is written over it.

    A file is named after its model and the first event it may hold, and ends before the first event of the model's next file.
    A process writes to none but those it has made: so it need not find out where an earlier one stopped. Files go, whole, once
    the last of their events is trimmed, and with their model.
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
FILE_BYTES_MAX: Final = 64 * 2**20  # a file that is longer takes no more: what is trimmed is given back in such pieces
OPEN_MAX: Final = 64  # files that are open for writing
PARTS_MAX: Final = 512  # payloads of one write; systems take 1024
_NAMED = re.compile(rf"{re.escape(NAME)}\.(\d+)\.(\d+)")


class Place(NamedTuple):
    """Where a payload lies: in which file of its model, by its first event, from which byte, and how many bytes. File 0: none."""

    file: int
    at: int
    length: int


NOWHERE: Final = Place(0, 0, 0)  # the payload is in the record itself


@dataclass(slots=True)
class _Open:
    """A file that is written. kept: bytes of committed records; end: with those put since; waiting: what of it is not written
    yet; fresh: its name is not synced yet."""

    first: int
    descriptor: int
    kept: int = 0
    end: int = 0
    waiting: list[bytes] = field(default_factory=list)
    fresh: bool = True


class PayloadFiles:
    """The payload files of one data directory, used by one thread at a time. All calls raise `OSError` as the system does."""

    def __init__(self, directory: Path, long_bytes: int) -> None:
        """Payloads of `long_bytes` or more are long."""
        self._directory = directory
        self._long_bytes = long_bytes
        self._open: dict[int, _Open] = {}  # by model, the one that was used last behind
        self._put: set[int] = set()  # models with payloads that are neither kept nor undone
        self._firsts: dict[int, list[int]] = {}  # of each model's files, rising
        for path in directory.glob(f"{NAME}.*"):
            if named := _NAMED.fullmatch(path.name):
                insort(self._firsts.setdefault(int(named[1]), []), int(named[2]))

    def put(self, model: int, first: int, payload: bytes) -> Place:
        """Find a place for the payload of the record that begins with event `first`, if it is long; then `write`, `sync`, and
        `keep` or `undo`."""
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
        """Write what was put."""
        for model in self._put:
            file = self._open[model]
            _write_all(file.descriptor, file.waiting, file.kept)
            file.waiting.clear()
            # Nothing is forgotten, since nothing is written out yet; but the disk begins with it while the records are listed.
            os.posix_fadvise(file.descriptor, file.kept, file.end - file.kept, os.POSIX_FADV_DONTNEED)

    def sync(self) -> None:
        """Make durable what was put, and the names of files that are new."""
        for model in self._put:
            os.fdatasync(self._open[model].descriptor)
        if any(self._open[model].fresh for model in self._put):
            sync_directory(self._directory)

    def keep(self) -> None:
        """The records of what was put are committed."""
        for model in self._put:
            file = self._open[model]
            file.kept, file.fresh = file.end, False
        self._put.clear()

    def undo(self) -> None:
        """The records of what was put are not committed, and will not be."""
        for model in self._put:
            file = self._open[model]
            file.end = file.kept
            file.waiting.clear()
            with contextlib.suppress(OSError):  # it is only room on the disk that is given back
                os.ftruncate(file.descriptor, file.kept)
        self._put.clear()

    def read(self, model: int, place: Place) -> bytes:
        """Return the payload at `place`. Raises `Corrupt` where it is not there; its record's digest says whether it is right."""
        path = self._path(model, place.file)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise Corrupt(f"{path} is missing: it is part of the log, copy a data directory as a whole") from None
        try:
            payload = os.pread(descriptor, place.length, place.at)
        finally:
            os.close(descriptor)
        if len(payload) != place.length:
            raise Corrupt(f"{path} ends before byte {place.at + place.length}, to which a record reaches")
        return payload

    def trim(self, model: int, first_seq: int) -> None:
        """Delete what holds no event from `first_seq` on. The newest file of a model stays: where it will end is not known."""
        firsts = self._firsts.get(model, [])
        needed = max(0, bisect_right(firsts, first_seq) - 1)
        for first in firsts[:needed]:
            self._delete(model, first)
        del firsts[:needed]

    def link(self, model: int, directory: Path) -> None:
        """Have all files of a model in `directory` as well, which is on the same filesystem."""
        for first in self._firsts.get(model, []):
            path = self._path(model, first)
            if path.exists():  # one may be what is damaged
                os.link(path, directory / path.name)

    def drop(self, model: int) -> None:
        """Delete all files of a model."""
        if model in self._open:
            os.close(self._open.pop(model).descriptor)
        for first in self._firsts.pop(model, []):
            self._delete(model, first)

    def sweep(self, logs: Mapping[int, tuple[int, int]]) -> None:
        """Delete what no record can lie in, after a start. logs: of each model the first and the last event."""
        for model in [model for model in self._firsts if model not in logs]:
            self.drop(model)
        for model, firsts in self._firsts.items():
            first_seq, last = logs[model]
            self.trim(model, first_seq)
            while firsts and firsts[-1] > last:
                self._delete(model, firsts.pop())

    def close(self) -> None:
        """Close what is open."""
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
        if first not in firsts:  # a file of this name may be left of what was not committed
            insort(firsts, first)
        return _Open(first, descriptor)

    def _path(self, model: int, first: int) -> Path:
        return self._directory / f"{NAME}.{model}.{first}"

    def _delete(self, model: int, first: int) -> None:
        with contextlib.suppress(OSError):  # what stays is swept at the next start
            self._path(model, first).unlink()


def _write_all(descriptor: int, parts: list[bytes], at: int) -> None:
    """Write parts one behind the other from byte `at`, however many calls it takes. Raises `OSError`."""
    for begin in range(0, len(parts), PARTS_MAX):
        left = [memoryview(part) for part in parts[begin : begin + PARTS_MAX]]
        while left:
            count = os.pwritev(descriptor, left, at)
            at += count
            while left and count >= len(left[0]):
                count -= len(left.pop(0))
            if left:
                left[0] = left[0][count:]
