"""The writer's queue and its items: records of one model that wait together are taken out together."""

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

SMALL_ROWS: Final = 64  # a record of fewer rows is left to gather
GATHERED_MAX: Final = 64  # this many records end the gathering
GATHER_S: Final = 0.02  # the longest wait of the first of them; far less than what is served may lag


@dataclass(frozen=True, slots=True)
class Logged:
    """A record that is durable and has to be learnt."""

    record: Record
    batch: Batch | None


@dataclass(frozen=True, slots=True)
class AddModel:
    """A model to learn from now on."""

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
    """A checkpoint that a caller waits for; with `if_ahead` only if the newest one is not of the present state. `requested`: by a
    client, not by the service itself. `note`: of one that is kept until it is deleted; None for others."""

    model: str
    if_ahead: bool = False
    requested: bool = False
    note: str | None = None
    future: Future[Saved] = field(default_factory=Future)


@dataclass(frozen=True, slots=True)
class PublishNow:
    """A caller waits until a model's present state is served."""

    model: str


@dataclass(frozen=True, slots=True)
class CopySketch:
    """A caller reads a model's curvature; the reply is a copy, so that learning continues."""

    model: str
    future: Future[SketchCopy] = field(default_factory=Future)


@dataclass(frozen=True, slots=True)
class Finished:
    """A checkpoint that ended, successfully or not."""

    saved: Saved


@dataclass(frozen=True, slots=True)
class Drain:
    """Set the future when everything before it was learnt and published."""

    future: Future[None] = field(default_factory=Future)


class Tick:
    """Wakes the writer for work that is due by time."""


Item = Logged | AddModel | DropModel | SaveNow | PublishNow | CopySketch | Finished | Drain | Tick


class WriterQueue:
    """A queue that any thread may put into, and one thread at a time takes from. None is the end of all work.

    To wake a thread costs more than to learn a row. So records of few rows are left to gather: they do not wake the consumer one
    by one while it waits in `gather`.
    """

    def __init__(self) -> None:
        self._items: deque[Item | None] = deque()
        self._bell: queue.SimpleQueue[None] = queue.SimpleQueue()  # signalled after an item was put; carries no data
        self._gathering = False

    def put(self, item: Item | None) -> None:
        """Add an item."""
        self._items.append(item)
        is_heard = not self._gathering or len(self._items) >= GATHERED_MAX or not _is_small(item)
        if is_heard and self._bell.empty():  # the consumer of the last signal finds this item too
            self._bell.put(None)

    def waits(self) -> bool:
        """Whether the queue has an item."""
        return bool(self._items)

    def presses(self) -> bool:
        """Whether there is an item that is not left to gather."""
        if self._items and not _is_small(self._items[0]):  # only the consumer calls this
            return True
        items = self._items.copy()  # in one step: other threads add to it
        return len(items) >= GATHERED_MAX or not all(map(_is_small, items))

    def get(self, timeout_s: float | None = None) -> Item | None:
        """Wait for the next item. Raises `queue.Empty` after `timeout_s`."""
        self.wait(timeout_s)
        return self._items.popleft()

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait until there is an item. Raises `queue.Empty` after `timeout_s`."""
        while not self._items:
            self._bell.get(timeout=timeout_s)

    def gather(self, timeout_s: float = GATHER_S) -> None:
        """Let records of few rows gather for `timeout_s`, or until `presses` is true."""
        self._gathering = True
        try:
            while True:  # these signals are for items put before, which are seen below
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
        """Take the records after `first` that may be learnt in one turn with it, up to `rows_max` rows in all; `first` alone if
        there are none, or if it has as many rows by itself."""
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
