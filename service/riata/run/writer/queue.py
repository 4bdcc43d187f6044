"""The writer's queue, its items, and what the writer keeps of each model.

Each model has a line of its own. The line whose next turn is expected to end first is taken.

A line that is taken is busy until it is given back: its items wait, and those of other models are taken meanwhile. So the items
of a model are processed one after the other and in order, and one model never waits for the turn of another that takes long.

No line starves: it is preferred by when it became ready plus PATIENCE times what its turn is expected to take, so a line waits
at most about that many times as long as its own turn takes, however many short turns there are.

A turn of one row costs as much as one of a hundred, and with a thousand models each row may be of another one. So turns of
lines with few records of few rows, which nobody waits for, share a twentieth of a processor while rows arrive: they gather
more. They have them anyway as soon as the last of them would otherwise wait for longer than `left_s`: rows are refused once
others have waited too long.
"""

from __future__ import annotations

import contextlib
import heapq
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from riata.base.errors import Conflict, RiataError
from riata.base.frozen_dataclass import frozen_dataclass
from riata.base.halt import Halt
from riata.learn.learner import Shadow, Sketch
from riata.learn.registry import SPECS
from riata.predict.uncertainty import regularisation_path
from riata.run.cluster.lease import WriterPosition
from riata.run.log.log_reading import ROWS_TOGETHER, ReadAgain, Turn
from riata.run.state.config_changes import other_penalty
from riata.run.state.core import Core
from riata.run.state.damage import Damage
from riata.run.state.model_state import AnswerAsked, ModelState
from riata.run.writer.checkpointer import Saved
from riata.run.writer.published import Curvature, Published
from riata.store.store import Record
from riata.watch.progressive import Minute
from riata.wire.batch import Batch


class Dues:
    """A moment for each model of which something will be due. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._at: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []  # an entry counts if it is in `_at`; others are removed when they are first

    def get(self, name: str, otherwise: int) -> int:
        """Return when something of a model is due."""
        return self._at.get(name, otherwise)

    def set(self, name: str, at_ms: int | None) -> None:
        """Set when something of a model is due; None for never."""
        with self._lock:
            if at_ms is None:
                self._at.pop(name, None)
            elif self._at.get(name) != at_ms:
                self._at[name] = at_ms
                heapq.heappush(self._heap, (at_ms, name))

    def first_ms(self) -> int | None:
        """Return when something is due next; None for never."""
        with self._lock:
            return self._first_ms()

    def take(self, now_ms: int) -> str | None:
        """Take the model of which something has been due for longest; None if nothing is due."""
        with self._lock:
            first_ms = self._first_ms()
            if first_ms is None or first_ms > now_ms:
                return None
            name = heapq.heappop(self._heap)[1]
            del self._at[name]
            return name

    def _first_ms(self) -> int | None:
        while self._heap and self._at.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None


class Share:
    """Work that may take one part in `parts` of the time. What it does not take is saved, up to `saved_ms` of time. Any thread
    may use it; of two at once one may not count.

    rest_ms_max : the longest rest after one piece of it
    """

    def __init__(self, parts: int, saved_ms: int = 0, rest_ms_max: int = 2**31) -> None:
        self._parts, self._saved_ms, self._rest_ms_max = parts, saved_ms, rest_ms_max
        self._full_ms = 0  # when as much as possible will have been saved

    def free_ms(self) -> int:
        """Return from when on it may go on."""
        return self._full_ms - self._saved_ms

    def spend(self, now_ms: int, took_ms: int) -> None:
        """Count processor time that a piece of it has taken."""
        self._full_ms = max(self._full_ms, now_ms) + min(self._parts * took_ms, self._rest_ms_max)


@frozen_dataclass(frozen=True, slots=True)
class Logged:
    """A record that is durable and has to be learnt. waited_s : for how long its oldest row has been durable"""

    record: Record
    batch: Batch | None
    waited_s: float = 0.0

    @property
    def model(self) -> str:
        return self.record.model


@dataclass(frozen=True, slots=True)
class AddModel:
    """A model to learn from now on. served : whether it is served already, as its first version"""

    state: ModelState
    gen: int = 0  # newest durable generation
    saved: int = 0  # the event it was taken after
    overdue: bool = False  # whether a scheduled checkpoint is due as soon as there is something to save
    served: bool = False

    @property
    def model(self) -> str:
        return self.state.name


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
class SaveDue:
    """The turn of a model's scheduled checkpoint among those of all models."""

    model: str


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

    @property
    def model(self) -> str:
        return self.saved.model


@dataclass(eq=False, slots=True)
class Drain:
    """A request to be told when everything put before it was learnt and published: `left` counts the lines that are not there
    yet."""

    future: Future[None] = field(default_factory=Future)
    left: int = 0


@dataclass(frozen=True, slots=True)
class DrainOne:
    """The place of a `Drain` in the line of one model."""

    model: str
    drain: Drain


Item = Logged | AddModel | DropModel | SaveNow | SaveDue | PublishNow | CopySketch | Finished | DrainOne


@dataclass(slots=True)
class Cell:
    """One model of the writer."""

    state: ModelState
    core: Core
    gen: int  # newest durable generation
    version: int = 0
    position: WriterPosition | None = None  # replaced after every record: another thread reads it
    curvature: Curvature = field(default_factory=Curvature)
    turn: Turn = field(default_factory=Turn)
    minute: Minute = field(default_factory=Minute)
    asked: AnswerAsked | None = None  # the last answer to drift that was asked for
    waiting: list[SaveNow] = field(default_factory=list)  # requests for the next checkpoint
    being_saved: list[SaveNow] = field(default_factory=list)  # requests for the checkpoint under way


@dataclass(eq=False, slots=True)
class Line:
    """The items of one model that wait, and the model, once it was added.

    busy     : a thread processes its items, and owns `cell`
    dropped  : the model was dropped: nothing of this line counts any more
    entry    : number of its entry among the lines that are ready; 0 if it has none
    left     : it had been left to gather when its turn began
    turn_ms  : the processor time that its next turn is expected to take
    slow_ms  : when a turn of it took long, of the writer's clock; None: never
    halt     : ends what it computes
    why      : what those who wait are told once it was dropped; None: that the model was dropped
    """

    model: str
    cell: Cell | None = None
    lineage: bytes = b""  # of the model that was added last
    items: deque[Item] = field(default_factory=deque)
    pressing: int = 0  # how many of the items are not left to gather
    entry: int = 0
    left: bool = False
    bytes: int = 0  # of the payloads of their records
    busy: bool = False
    dropped: bool = False
    turn_ms: float = 0.0
    slow_ms: int | None = None
    since_s: float = 0.0  # when its first item was durable or put, or what it is busy with began
    halt: Halt = field(default_factory=Halt)
    why: RiataError | None = None

    def took(self, turn_ms: float, is_typical: bool) -> None:
        """Expect turns to be as long as this one, or if it was short and typical, half as long as before."""
        self.turn_ms = max(turn_ms, self.turn_ms / 2 if is_typical else self.turn_ms)


@dataclass(frozen=True, slots=True)
class WriterHooks:
    """The writer's callbacks. They are called in the thread that takes a turn of the model, several at once for several models,
    and must not block, except the last."""

    published: Callable[[Published], None]
    refused: Callable[[str, dict[int, str]], None]  # events that the learner refused by itself, and why: logged as skipped
    drifted: Callable[[str, bytes], None]  # the payload of the event that answers an alarm of the model's drift detector
    saved: Callable[[Saved], None]
    wanted: Callable[[str], int | None]  # the lowest log position of this model that a request waits for
    fatal: Callable[[str, BaseException], None]
    read_again: ReadAgain  # for promotions only; waits for the store's thread
    damaged: Callable[[Damage], object]  # a model with a record that cannot be learnt as it was written


# A copy of a learner's curvature, taken in the thread that learns, and the regularisation path computed from it.


@dataclass(frozen=True, slots=True)
class SketchCopy:
    """Copies, taken between two events.

    version : of the model served at that moment, which may be older than `seq`
    """

    version: int
    seq: int
    sketch: Sketch | None
    shadows: list[Shadow]


@dataclass(frozen=True, slots=True)
class PathQuestion:
    """How many penalties, from which (the largest) to which; None if the sketch decides."""

    gammas: int = 20
    top: float | None = None
    bottom: float | None = None


def path_answer(model: str, looked: SketchCopy, question: PathQuestion, published: Published) -> dict[str, Any]:
    """Solve the path of a sketch. Raises `Conflict` (code `no_sketch`) if the learner keeps none, with the setting that it has.

    published : what is served of the model, with the figures of its own progressive validation
    """
    sketch, figures = looked.sketch, published.figures
    if sketch is None:
        others = " or ".join(kind for kind, spec in SPECS.items() if spec.keeps_curvature)
        raise Conflict(
            f"the learner of model {model} keeps no curvature, so it has no regularisation path; a model with the learner "
            f"{others} does; {other_penalty(published.config, model)}",
            "no_sketch",
        )
    tried = {shadow.gamma: shadow for shadow in looked.shadows}
    points = regularisation_path(sketch, question.gammas, question.top, question.bottom, also=tried)
    return {
        "model": {"name": model, "version": looked.version, "seq": looked.seq},
        "gamma": sketch.penalty,
        "log_loss": figures["cumulative"].get("log_loss"),
        "faded_log_loss": figures["faded"].get("log_loss"),
        "points": [
            {
                **asdict(point),
                "in_force": point.gamma == sketch.penalty,
                "log_loss": _loss(tried.get(point.gamma), "log_loss"),
                "faded_log_loss": _loss(tried.get(point.gamma), "faded_log_loss"),
            }
            for point in points
        ],
        "shadows": [asdict(shadow) for shadow in looked.shadows],
    }


def _loss(shadow: Shadow | None, name: str) -> float | None:
    """Return a loss of a penalty that is tried; None if it is not tried, or no event has tested it yet."""
    return None if shadow is None or shadow.weight == 0.0 else float(getattr(shadow, name))


SMALL_ROWS: Final = 64  # a record of fewer rows is left to gather
GATHERED_MAX: Final = 256  # this many records end the gathering
GATHER_S: Final = 0.02  # the wait of the first of them; far less than what is served may lag
ALONE_S: Final = 0.2  # the longest wait for a moment at which what is learnt may be served
PARTS: Final = 20  # of a processor's time, of which one is for turns of lines that are left to gather
SAVED_MS: Final = 1000  # so long an idle writer does not hold them back
QUIET_MS: Final = 100  # nor does one for which no row has arrived for so long
AVERAGED: Final = 16  # turns
PATIENCE: Final = 10  # how many times the length of its own turn a line waits at most for shorter turns of others


Heap = list[tuple[float, int, Line]]  # when its turn is, number of the entry, line


class WriterQueue:
    """Lines of items, by model, that any thread may put into. `take` is called by one thread at a time, everything else by any.

    To wake a thread costs more than to learn a row. So records of few rows are left to gather: they do not wake the consumer one
    by one while it waits in `gather`.
    """

    def __init__(self, left_s: float) -> None:
        """left_s : how long a record may be left to gather"""
        self._left_s = left_s
        self._lock = threading.Lock()
        self._lines: dict[str, Line] = {}
        self._ready: Heap = []  # of the lines that have items and are not busy
        self._small: Heap = []  # of those of them that are left to gather
        self._share = Share(PARTS, SAVED_MS)  # of the turns of the latter
        self._turn_s = 0.0  # how long one of them takes, on a moving average
        self._put_ms = 0  # when a record was put
        self._puts = 0  # makes the entries of the heap comparable
        self._waiting, self._pressing = 0, 0  # items of these lines; how many of them are not left to gather
        self._bell: queue.SimpleQueue[None] = queue.SimpleQueue()  # signalled after an item was put; carries no data
        self._gathering = False
        self._alone = False  # whether only the records of one line gather
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
            is_heard = is_heard and (not self._gathering or self.presses() or (self._alone and len(self._small) > 1))
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
            self._turn_s += (time.monotonic() - line.since_s - self._turn_s) / AVERAGED

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

    def gather(self, timeout_s: float = GATHER_S, due_s: float | None = None) -> None:
        """Let records of few rows gather until the first has waited for `timeout_s` and its line may have a turn, or `presses` is
        true. While no other line has any, they gather until they have to be learnt to be served soonest, at most for `due_s`."""
        begun_s = time.monotonic()
        self._gathering = True
        try:
            while True:  # these signals are for items put before, which are seen below
                self._bell.get_nowait()
        except queue.Empty:
            pass
        due_s = begun_s + (ALONE_S if due_s is None else due_s)
        with contextlib.suppress(queue.Empty):
            while not (self.presses() or self.ended or self._woken):
                if (left_s := self._gathered_s(begun_s, timeout_s, due_s) - time.monotonic()) <= 0:
                    break
                self._bell.get(timeout=left_s)
        self._gathering = self._alone = False

    def _gathered_s(self, begun_s: float, timeout_s: float, due_s: float) -> float:
        """Return when the first of the records that gather has waited for long enough."""
        with self._lock:
            first = _first(self._small)
            self._alone = first is not None and len(self._small) == 1
        if first is None:
            return begun_s + timeout_s
        line = first[-1]
        until_s = line.since_s + timeout_s
        if self._alone and line.cell is not None:
            served_s = (line.cell.core.publish_from_ms() - line.turn_ms) / 1000
            until_s = max(until_s, min(served_s, due_s, line.since_s + min(ALONE_S, self._left_s)))
        return max(until_s, time.monotonic() + (self._free_ms() - _now_ms()) / 1000)

    def _free_ms(self) -> int:
        """Return from when on lines that are left to gather may have turns."""
        all_s = len(self._small) * self._turn_s
        late_ms = [int(1000 * (line.since_s + self._left_s - all_s)) for *_, line in self._small[:1]]
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
        first = line.items[0]
        line.since_s = time.monotonic() - (first.waited_s if isinstance(first, Logged) else 0.0)
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
