"""What the writer is told, and the queue it waits in: the records of one model that wait together come out together."""

from __future__ import annotations

import queue
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Final

from riata.run.checkpointer import Saved
from riata.run.model_state import ModelState
from riata.run.sketch_copy import SketchCopy
from riata.run.turn_size import ROWS_TOGETHER
from riata.store.store import Record
from riata.wire.batch import Batch

SMALL_ROWS: Final = 64  # a record of fewer is left to gather
GATHERED_MAX: Final = 64  # so many of them are not
GATHER_S: Final = 0.02  # how long the first of them waits at the most; far less than what is served may be behind


@dataclass(frozen=True, slots=True)
class Logged:
    """A record that is durable and has to be learnt."""

    record: Record
    batch: Batch | None


@dataclass(frozen=True, slots=True)
class AddModel:
    """A model to look after from now on."""

    state: ModelState
    gen: int = 0  # newest durable generation
    saved: int = 0  # the event it was taken after


@dataclass(frozen=True, slots=True)
class DropModel:
    """A model that was dropped; not one of the same name and another lineage."""

    model: str
    lineage: bytes = b""


@dataclass(frozen=True, slots=True)
class SaveNow:
    """A checkpoint that somebody waits for; with `if_ahead` only where the newest one is not of this very state. `requested`: by
    a caller, and not by the service for itself."""

    model: str
    if_ahead: bool = False
    requested: bool = False
    future: Future[Saved] = field(default_factory=Future)


@dataclass(frozen=True, slots=True)
class PublishNow:
    """Somebody waits for a model's present state to be served."""

    model: str


@dataclass(frozen=True, slots=True)
class CopySketch:
    """Somebody wants to read a model's curvature; the answer is a copy that learning goes on beside."""

    model: str
    future: Future[SketchCopy] = field(default_factory=Future)


@dataclass(frozen=True, slots=True)
class Finished:
    """A checkpoint that ended, in whatever way."""

    saved: Saved


@dataclass(frozen=True, slots=True)
class Drain:
    """Set the future once everything before it was learnt and published."""

    future: Future[None] = field(default_factory=Future)


class Tick:
    """Time has passed."""


Item = Logged | AddModel | DropModel | SaveNow | PublishNow | CopySketch | Finished | Drain | Tick


class WriterQueue:
    """A queue that anybody may put into, and one thread at a time takes from. None is the end of all work.

    To wake a thread costs more than to learn a row. So records of few rows are left to gather: nobody is woken for each of them
    while the one who takes waits in `gather`.
    """

    def __init__(self) -> None:
        self._items: deque[Item | None] = deque()
        self._bell: queue.SimpleQueue[None] = queue.SimpleQueue()  # rung after an item was put; that is all it says
        self._gathering = False

    def put(self, item: Item | None) -> None:
        """Add something to do."""
        self._items.append(item)
        is_heard = not self._gathering or len(self._items) >= GATHERED_MAX or not _is_small(item)
        if is_heard and self._bell.empty():  # who hears the last ring finds this item too
            self._bell.put(None)

    def waits(self) -> bool:
        """Whether there is something to do."""
        return bool(self._items)

    def presses(self) -> bool:
        """Whether there is something to do that is not left to gather."""
        if self._items and not _is_small(self._items[0]):  # who asks is the one who takes
            return True
        items = self._items.copy()  # in one step: others add to it
        return len(items) >= GATHERED_MAX or not all(map(_is_small, items))

    def get(self, timeout_s: float | None = None) -> Item | None:
        """Wait for the next thing to do. Raises `queue.Empty` after `timeout_s`."""
        self.wait(timeout_s)
        return self._items.popleft()

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait until there is something to do. Raises `queue.Empty` after `timeout_s`."""
        while not self._items:
            self._bell.get(timeout=timeout_s)

    def gather(self, timeout_s: float = GATHER_S) -> None:
        """Let records of few rows gather for `timeout_s`, or until there is something that presses."""
        self._gathering = True
        try:
            while True:  # what it was rung for before was put before, and is seen below
                self._bell.get_nowait()
        except queue.Empty:
            pass
        try:
            if not self.presses():
                self._bell.get(timeout=timeout_s)
        except queue.Empty:
            pass
        self._gathering = False

    def run_of(self, first: Logged, rows_max: int = ROWS_TOGETHER) -> list[Logged]:
        """Take what waits behind `first` and may be learnt in one turn with it, up to `rows_max` rows in all; `first` alone where
        that is nothing, or it is as large by itself."""
        run, rows = [first], first.record.count
        while first.record.kind == "observe" and rows < rows_max and self._items:
            item = self._items[0]
            if not isinstance(item, Logged) or not _together(first.record, item.record, rows_max - rows):
                break
            run.append(item)
            self._items.popleft()
            rows += item.record.count
        return run


def _is_small(item: Item | None) -> bool:
    return isinstance(item, Logged) and item.record.count < SMALL_ROWS and item.record.kind == "observe"


def _together(first: Record, record: Record, rows_left: int) -> bool:
    return record.kind == "observe" and record.model == first.model and record.count <= rows_left
