"""A file that says, after a process has died by itself, which step of which model it was computing.

Theory of operation
    The file begins with a table in shared memory. Before a step, its thread writes there what it is about to learn, and clears
    the entry after it. At a fatal signal (SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL) the handler of `faulthandler` appends the
    stacks of all threads, and with them the identity of the thread that the signal was raised in. The entry of this thread is the
    step that has crashed. A process that is killed from outside, by SIGKILL, SIGTERM, the memory killer of the system or a power
    cut, appends nothing, so what its threads were computing counts against no model. A step that ends in an exception that
    nobody expects is marked in its entry.

    The file is read and cleared when it is opened. If the process is killed between that and the counting, a crash is not
    counted; none is ever counted twice.
"""

from __future__ import annotations

import faulthandler
import fcntl
import logging
import mmap
import os
import re
import struct
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import Final

from riata.base.errors import RiataError
from riata.base.frozen_dataclass import frozen_dataclass
from riata.base.halt import Halted

log = logging.getLogger("riata.run")

NAME: Final = "crash.note"
MODE: Final = 0o640
STEPS_MAX: Final = 64  # at the same time; further ones are not noted
_ENTRY: Final = struct.Struct("<QQqq16s64s")  # thread, whether an exception ended it, first event, last event, lineage, model
_TABLE: Final = STEPS_MAX * _ENTRY.size
_SHOWN: Final = 4000  # characters of the stacks
_DIED_IN: Final = re.compile(rb"Current thread 0x([0-9a-f]+)")

Stepping = Callable[[str, bytes, int, int], AbstractContextManager[None]]


@frozen_dataclass(frozen=True, slots=True)
class Crash:
    """A step that has ended its process: the events first..last of a model were being learnt."""

    model: str
    lineage: bytes
    first: int
    last: int


def not_noted(_model: str, _lineage: bytes, _first: int, _last: int) -> AbstractContextManager[None]:
    """A `Stepping` that notes nothing."""
    return nullcontext()


class CrashNote:
    """The file of one process. Without a path it notes nothing. Any thread may call `stepping`."""

    def __init__(self, path: Path | None) -> None:
        self.crashes: dict[bytes, Crash] = {}  # by lineage, of the process before this one; `take` removes them
        self._path = path
        self._file = -1
        self._table: mmap.mmap | None = None
        self._free = list(range(STEPS_MAX))
        self._handled_before = False

    def open(self) -> None:
        """Read what the process before this one has left, and begin to note. If that is not possible it is logged: crashes of
        this process are then counted against no event."""
        if self._path is None or self._table is not None:
            return
        try:
            self._path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_APPEND, MODE)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._read(os.pread(file, os.fstat(file).st_size, 0))
                os.ftruncate(file, 0)
                os.posix_fallocate(file, 0, _TABLE)  # a page that finds no room when it is written to would end the process
                self._table = mmap.mmap(file, _TABLE)
            except BaseException:
                os.close(file)
                raise
        except OSError as error:
            log.warning("%s cannot be used (%s): a crash of this process will count against no event", self._path, error)
            return
        self._file = file
        self._handled_before = faulthandler.is_enabled()
        faulthandler.enable(file, all_threads=True)

    def close(self) -> None:
        """End noting. Steps under way are not noted any more."""
        table, self._table = self._table, None
        if table is None:
            return
        faulthandler.disable()
        if self._handled_before and sys.__stderr__ is not None:
            faulthandler.enable(sys.__stderr__)
        os.close(self._file)  # the memory goes when the last step that holds it has ended

    def take(self, lineage: bytes) -> Crash | None:
        """Return the crash of the process before this one in a step of the model with this lineage, once."""
        return self.crashes.pop(lineage, None)

    def stepping(self, model: str, lineage: bytes, first: int, last: int) -> AbstractContextManager[None]:
        """Return what a step is made in that learns the events first..last of a model."""
        table = self._table
        if table is None or not self._free:
            return nullcontext()
        return _Step(table, self._free, (first, last, lineage, model.encode()))

    def _read(self, content: bytes) -> None:
        stacks = content[_TABLE:]
        if not stacks and len(content) < _TABLE:
            return
        died_in = _DIED_IN.search(stacks)
        thread = int(died_in[1], 16) if died_in else 0
        for at in range(0, _TABLE, _ENTRY.size):
            ident, raised, first, last, lineage, model = _ENTRY.unpack_from(content, at)
            if ident and (raised or ident == thread):
                crash = Crash(model.rstrip(b"\0").decode(errors="replace"), lineage, first, last)
                self.crashes[lineage] = crash
                log.error(
                    "the process before this one ended while it learnt events %d to %d of model %s", first, last, crash.model
                )
        if stacks:
            log.error("the process before this one died of a fatal signal:\n%s", stacks[:_SHOWN].decode(errors="replace"))


class _Step:
    """The time in which a step is in the table."""

    __slots__ = ("_free", "_slot", "_table", "_what")

    def __init__(self, table: mmap.mmap, free: list[int], what: tuple[int, int, bytes, bytes]) -> None:
        self._table, self._free, self._what = table, free, what
        self._slot = -1

    def __enter__(self) -> None:
        try:
            self._slot = self._free.pop()
        except IndexError:  # another thread took the last one
            return
        _ENTRY.pack_into(self._table, self._slot * _ENTRY.size, threading.get_ident(), 0, *self._what)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._slot < 0:
            return
        if kind is not None and issubclass(kind, Exception) and not issubclass(kind, RiataError | Halted):
            _ENTRY.pack_into(self._table, self._slot * _ENTRY.size, threading.get_ident(), 1, *self._what)
            return
        _ENTRY.pack_into(self._table, self._slot * _ENTRY.size, 0, 0, 0, 0, b"", b"")
        self._free.append(self._slot)
