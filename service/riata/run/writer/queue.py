"""The writer's queue. Each model has a line of its own; the line whose next turn is expected to end first is taken.

A line that is taken is busy until it is given back: its items wait, and those of other models are taken meanwhile. So the items
of a model are processed one after the other and in order, and one model never waits for the turn of another that takes long.

No line starves: it is preferred by when it became ready plus PATIENCE times what its turn is expected to take, so a line waits at
most about that many times as long as its own turn takes, however many short turns there are.

A turn of one row costs as much as one of a hundred, and with a thousand models each row may be of another one. So turns of lines
with few records of few rows, which nobody waits for, share a twentieth of a processor while rows arrive: they gather more. One
whose first record has waited for `left_s` has its turn anyway, as rows are refused once others have waited too long.
"""

from __future__ import annotations

import heapq
import queue
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Final

from riata.run.log.log_reading import ROWS_TOGETHER
from riata.run.writer.cell import (
    AddModel,
    Cell,
    CopySketch,
    Drain,
    DrainOne,
    DropModel,
    Finished,
    Item,
    Line,
    Logged,
    PublishNow,
    SaveDue,
    SaveNow,
)  # fmt: skip
from riata.run.writer.due import Share
from riata.store.store import Record

__all__ = [
    "AddModel",
    "CopySketch",
    "DrainOne",
    "DropModel",
    "Finished",
    "Item",
    "Logged",
    "PublishNow",
    "SaveDue",
    "SaveNow",
    "WriterQueue",
]

SMALL_ROWS: Final = 64  # a record of fewer rows is left to gather
GATHERED_MAX: Final = 64  # this many records end the gathering
GATHER_S: Final = 0.02  # the longest wait of the first of them; far less than what is served may lag
PARTS: Final = 20  # of a processor's time, of which one is for turns of lines that are left to gather
SAVED_MS: Final = 1000  # so long an idle writer does not hold them back
LEFT_S: Final = 5.0
QUIET_MS: Final = 100  # nor does one for which no row has arrived for so long
PATIENCE: Final = 10  # how many times the length of its own turn a line waits at most for shorter turns of others


Heap = list[tuple[float, int, Line]]  # when its turn is, number of the entry, line


class WriterQueue:
    """Lines of items, by model, that any thread may put into. `take` is called by one thread at a time, everything else by any.

    To wake a thread costs more than to learn a row. So records of few rows are left to gather: they do not wake the consumer one
    by one while it waits in `gather`.
    """

    def __init__(self, left_s: float = LEFT_S) -> None:
        self._left_s = left_s
        self._lock = threading.Lock()
        self._lines: dict[str, Line] = {}
        self._ready: Heap = []  # of the lines that have items and are not busy
        self._small: Heap = []  # of those of them that are left to gather
        self._share = Share(PARTS, SAVED_MS)  # of the turns of the latter
        self._put_ms = 0  # when a record was put
        self._puts = 0  # makes the entries of the heap comparable
        self._waiting, self._pressing = 0, 0  # items of these lines; how many of them are not left to gather
        self._bell: queue.SimpleQueue[None] = queue.SimpleQueue()  # signalled after an item was put; carries no data
        self._gathering = False
        self._woken = False  # whether `wake` was called since the last `wait`
        self.ended = False  # whether nothing more will be put

    def put(self, item: Item) -> None:
        """Add an item to the line of its model."""
        self.put_all([item])

    def put_all(self, items: Sequence[Item]) -> None:
        """Add each item to the line of its model."""
        is_heard = False
        with self._lock:
            now_ms = _now_ms()
            for item in items:
                line = self._line(item.model)
                if isinstance(item, AddModel):
                    line.lineage = item.state.lineage
                elif isinstance(item, Logged):
                    self._put_ms = now_ms
                self._append(line, item)
                is_heard = is_heard or not line.busy
            is_heard = is_heard and (not self._gathering or self.presses())
        if is_heard:
            self._ring()

    def drain(self, model: str | None = None) -> Drain:
        """Add a request to be told when what was put so far is learnt and published, to every line or to that of one model."""
        drain = Drain()
        with self._lock:
            lines = [line for line in self._lines.values() if model is None or line.model == model]
            drain.left = len(lines)
            for line in lines:
                self._append(line, DrainOne(line.model, drain))
        if drain.left == 0:
            drain.future.set_result(None)
        self._ring()
        return drain

    def arrived(self, drain: Drain) -> None:
        """Note that one of the lines has reached a `Drain`."""
        with self._lock:
            drain.left -= 1
            is_last = drain.left == 0
        if is_last and drain.future.set_running_or_notify_cancel():
            drain.future.set_result(None)

    def end(self) -> None:
        """Note that nothing more will be put: once nothing waits, `wait` returns at once."""
        self.ended = True
        self._ring()

    def drop(self, model: str, lineage: bytes, but: bytes | None = None) -> Line | None:
        """Take the line of a model away, busy or not; its items are the caller's. None if the model is another one by now, or
        has the lineage `but`, or none yet.

        A model of the same name that is added later has a new line, so it does not wait for a turn of the old one."""
        with self._lock:
            line = self._lines.get(model)
            if line is None or (lineage and line.lineage != lineage) or (but is not None and line.lineage in (but, b"")):
                return None
            line.dropped, line.entry = True, 0
            del self._lines[model]
            if not line.busy:
                self._waiting -= len(line.items)
                self._pressing -= line.pressing
            drains = [item.drain for item in line.items if isinstance(item, DrainOne)]
            line.items = deque(item for item in line.items if not isinstance(item, DrainOne))
        for drain in drains:  # a turn under way may last for hours, and is of no model any more
            self.arrived(drain)
        return line

    def waiting_bytes(self, model: str) -> int:
        """Return the bytes of the payloads of the records of a model that wait."""
        line = self._lines.get(model)
        return 0 if line is None else line.bytes

    def cell_of(self, model: str) -> Cell | None:
        """Return a model of the writer; None if it was not added yet, or was dropped."""
        line = self._lines.get(model)
        return None if line is None else line.cell

    def lines(self) -> list[Line]:
        """Return the lines of all models."""
        with self._lock:
            return list(self._lines.values())

    def waits(self) -> bool:
        """Whether there is an item of a line that is not busy."""
        return self._waiting > 0

    def presses(self) -> bool:
        """Whether there is such an item that is not left to gather, or as many as are not left for longer."""
        return self._pressing > 0 or (self._waiting >= GATHERED_MAX and (bool(self._ready) or self._free_ms() <= _now_ms()))

    def waited_s(self) -> float:
        """Return for how long an item of a line that is not busy has waited, seconds; 0 if there is none."""
        with self._lock:
            ready = [line for heap in (self._ready, self._small) for _, entry, line in heap if line.entry == entry]
            since_s = min((line.since_s for line in ready), default=None)
        return 0.0 if since_s is None else time.monotonic() - since_s

    def take(self) -> Line | None:
        """Return the line whose turn it is, which is busy from now on; None if no line is ready, or is left to gather."""
        with self._lock:
            ready, small = _first(self._ready), _first(self._small)
            left = small is not None and (ready is None or small < ready) and self._free_ms() <= _now_ms()
            entry = small if left else ready
            if entry is None:
                return None
            line = entry[-1]
            line.busy, line.left, line.since_s, line.entry = True, left, time.monotonic(), 0
            self._waiting -= len(line.items)
            self._pressing -= line.pressing
            return line

    def spent(self, line: Line, took_ms: int) -> None:
        """Note how much processor time a turn of a line took."""
        if line.left:
            self._share.spend(_now_ms(), took_ms)

    def give_back(self, line: Line) -> None:
        """Note that a line is not busy any more."""
        with self._lock:
            line.busy = False
            if line.dropped:
                return
            if line.items:
                self._waiting += len(line.items)
                self._pressing += line.pressing
                self._push(line)
            elif line.cell is None:
                del self._lines[line.model]
        if line.items:
            self._ring()

    def next_of(self, line: Line) -> Item | None:
        """Take the next item of a line that the caller has made busy."""
        with self._lock:
            return self._pop(line) if line.items and not line.dropped else None

    def run_of(self, line: Line, first: Logged, rows_max: int = ROWS_TOGETHER) -> list[Logged]:
        """Take the records after `first` that may be learnt in one turn with it, up to `rows_max` rows in all; `first` alone if
        there are none, or if it has as many rows by itself."""
        run, rows = [first], first.record.count
        with self._lock:
            while first.record.kind == "observe" and rows < rows_max and line.items and not line.dropped:
                item = line.items[0]
                if not isinstance(item, Logged) or not _together(item.record, rows_max - rows):
                    break
                run.append(item)
                self._pop(line)
                rows += item.record.count
        return run

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait until a line is ready, everything has ended, or `wake` was called. Raises `queue.Empty` after `timeout_s`."""
        while not (self._waiting or self.ended or self._woken):
            self._bell.get(timeout=timeout_s)
        self._woken = False

    def wake(self) -> None:
        """End a `wait` under way, or the next one, although no line is ready."""
        self._woken = True
        self._ring()

    def gather(self, timeout_s: float = GATHER_S) -> None:
        """Let records of few rows gather until the first has waited for `timeout_s` and its line may have a turn, or `presses` is
        true."""
        with self._lock:
            first = _first(self._small)
        if first is not None:
            timeout_s = max(first[-1].since_s + timeout_s - time.monotonic(), (self._free_ms() - _now_ms()) / 1000)
        self._gathering = True
        try:
            while True:  # these signals are for items put before, which are seen below
                self._bell.get_nowait()
        except queue.Empty:
            pass
        try:
            if not self.presses() and not self.ended and timeout_s > 0:
                self._bell.get(timeout=timeout_s)
        except queue.Empty:
            pass
        self._gathering = False

    def _free_ms(self) -> int:
        """Return from when on lines that are left to gather may have turns."""
        late_ms = [int(1000 * (line.since_s + self._left_s)) for *_, line in self._small[:1]]
        return min(self._share.free_ms(), self._put_ms + QUIET_MS, *late_ms)

    def _line(self, model: str) -> Line:
        line = self._lines.get(model)
        if line is None:
            line = self._lines[model] = Line(model)
        return line

    def _append(self, line: Line, item: Item) -> None:
        line.items.append(item)
        is_pressing = not _is_small(item)
        line.pressing += is_pressing
        line.bytes += _bytes(item)
        if not line.busy:
            self._waiting += 1
            self._pressing += is_pressing
            if len(line.items) == 1:
                self._push(line)
            elif line.pressing == is_pressing == 1 or len(line.items) == GATHERED_MAX:  # it is left to gather no longer
                self._enter(line)

    def _push(self, line: Line) -> None:
        line.since_s = time.monotonic()
        self._enter(line)

    def _enter(self, line: Line) -> None:
        """Enter a line among those that are ready; an entry that it had before does not count any more."""
        self._puts += 1
        line.entry = self._puts
        heap = self._ready if line.pressing or len(line.items) >= GATHERED_MAX else self._small
        heapq.heappush(heap, (line.since_s + PATIENCE * line.turn_ms / 1000, line.entry, line))

    def _pop(self, line: Line) -> Item:
        item = line.items.popleft()
        line.pressing -= not _is_small(item)
        line.bytes -= _bytes(item)
        return item

    def _ring(self) -> None:
        if self._bell.empty():  # the consumer of the last signal finds this item too
            self._bell.put(None)


def _first(heap: Heap) -> tuple[float, int, Line] | None:
    """Return the first entry that counts."""
    while heap and heap[0][-1].entry != heap[0][1]:
        heapq.heappop(heap)
    return heap[0] if heap else None


def _now_ms() -> int:
    return int(1000 * time.monotonic())


def _is_small(item: Item) -> bool:
    return isinstance(item, Logged) and item.record.count < SMALL_ROWS and item.record.kind == "observe"


def _bytes(item: Item) -> int:
    return len(item.record.payload) if isinstance(item, Logged) else 0


def _together(record: Record, rows_left: int) -> bool:
    return record.kind == "observe" and record.count <= rows_left
