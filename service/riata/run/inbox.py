"""What the writer is told, and the queue it waits in: the records of one model that wait together come out together."""

from __future__ import annotations

import queue
from concurrent.futures import Future
from dataclasses import dataclass, field

from riata.run.checkpointer import Saved
from riata.run.looking import Looked
from riata.run.model_state import ModelState
from riata.run.together import ROWS_TOGETHER
from riata.store.store import Record
from riata.wire.batch import Batch


@dataclass(frozen=True, slots=True)
class Logged:
    """A record that is durable and has to be learnt."""

    record: Record
    batch: Batch | None


@dataclass(frozen=True, slots=True)
class Adopt:
    """A model to look after from now on."""

    state: ModelState
    gen: int = 0  # newest durable generation
    saved: int = 0  # the event it was taken after


@dataclass(frozen=True, slots=True)
class Forget:
    """A model that was dropped; not one of the same name and another lineage."""

    model: str
    lineage: bytes = b""


@dataclass(frozen=True, slots=True)
class SaveNow:
    """A checkpoint that somebody waits for; with `if_ahead` only where the newest one is not of this very state."""

    model: str
    if_ahead: bool = False
    future: Future[Saved] = field(default_factory=Future)


@dataclass(frozen=True, slots=True)
class Nudge:
    """Somebody waits for a model's present state to be served."""

    model: str


@dataclass(frozen=True, slots=True)
class Look:
    """Somebody wants to read a model's curvature; the answer is a copy that learning goes on beside."""

    model: str
    future: Future[Looked] = field(default_factory=Future)


@dataclass(frozen=True, slots=True)
class Finished:
    """A checkpoint that ended, in whatever way."""

    saved: Saved


@dataclass(frozen=True, slots=True)
class Settle:
    """Set the future once everything before it was learnt and published."""

    future: Future[None] = field(default_factory=Future)


class Sweep:
    """Time has passed."""


Item = Logged | Adopt | Forget | SaveNow | Nudge | Look | Finished | Settle | Sweep


class Inbox:
    """A queue that anybody may put into, and one thread at a time takes from. None is the end of all work."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Item | None] = queue.SimpleQueue()
        self._next: list[Item | None] = []  # at most one, which was taken from the queue and could not be dealt with at once

    def put(self, item: Item | None) -> None:
        """Add something to do."""
        self._queue.put(item)

    def waits(self) -> bool:
        """Whether there is something to do."""
        return bool(self._next) or not self._queue.empty()

    def get(self, timeout_s: float | None = None) -> Item | None:
        """Wait for the next thing to do. Raises `queue.Empty` after `timeout_s`."""
        return self._next.pop() if self._next else self._queue.get(timeout=timeout_s)

    def run_of(self, first: Logged) -> list[Logged]:
        """Take what waits behind `first` and may be learnt together with it; `first` alone where that is nothing."""
        run, rows = [first], first.record.count
        while first.record.kind == "observe" and rows < ROWS_TOGETHER and self.waits():
            item = self.get()
            if not isinstance(item, Logged) or not _together(first.record, item.record, rows):
                self._next.append(item)
                break
            run.append(item)
            rows += item.record.count
        return run


def _together(first: Record, record: Record, rows: int) -> bool:
    return record.kind == "observe" and record.model == first.model and rows + record.count <= ROWS_TOGETHER
