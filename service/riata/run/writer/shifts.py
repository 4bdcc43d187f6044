"""Turns are taken in one thread at a time, and one that takes long is finished aside, while others go on.

A turn of one model has no bound: a solve may take hours. So a watch looks at the turn under way. When it has lasted ASIDE_S and
others wait, the loop of turns passes to another thread. The thread that had it finishes its turn aside, and nothing else. Work
that is known to take long goes aside from the beginning. Nothing is cut: the operating system runs the threads beside each other.

Priorities. A thread that learns at full speed makes a prediction wait for a processor, not for the interpreter. On Linux a thread
may lower its own priority and that of others, and raise none without a privilege. So there are two threads for the loop, one of
lower and one of normal priority. The one of normal priority has it while work starves (`StarvationGauge`), and while anything is
aside: then short turns are not to wait for long ones. The lower one is BESIDE: a turn that has begun keeps its thread, so this
bounds how long it takes beside busy processes.

What goes aside from the beginning runs at ASIDE_NICENESS: after everything of normal priority, but with a tenth of a processor
that is busy otherwise, so it ends. A turn that is caught in the thread of normal priority continues at ASIDE_NICENESS, and
another thread takes the place of that one. On systems other than Linux all priorities are the same.

Slices. Of what is aside, as many computations run as there are processors but one, for SLICE_S; the others wait (`halt.py`). With
more of them, a thread that holds the lock of the interpreter would wait for a processor, and the event loop for the lock.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from riata.base.halt import Halt
from riata.base.process import BESIDE, cores, lower_priority, lower_priority_of

ASIDE_S: Final = 0.05  # a turn that takes longer does not hold up others
LOOK_S: Final = 0.005  # the least time between two looks at a turn
IDLE_LOOK_S: Final = 0.02  # while nobody waits for a turn that has lasted long
ASIDE_NICENESS: Final = 10
SLICE_S: Final = 0.1
RUNNING_MAX: Final = max(1, cores() - 1)  # one processor is left to what is short
IDLE_MAX: Final = 4  # threads that are kept for the next work
ASIDE_MAX: Final = 512  # turns that are caught in the loop and finished aside; with more, something else is wrong
NORMAL: Final = 0

Work = Callable[[], None]

WINDOW_S: Final = 0.5  # whether processors are short is measured over such a stretch of uninterrupted work
SHARE_MIN: Final = 0.5  # of a processor's time over a window: with less, learning starves


@dataclass(eq=False, slots=True)
class _Worker:
    """A thread. niceness : by which its priority is lowered; halt : of its turn; native_id : of the system, once it runs"""

    niceness: int
    work: Work | None = None  # to do aside
    halt: Halt = field(default_factory=Halt)
    native_id: int = 0


class Shifts:
    """Calls `turn` repeatedly until it returns false; then `end`, in the same thread.

    waiting : returns whether there is more to do already, besides the turn under way
    turn    : waits for something to do, calls `begin`, and does it; in between it may call `aside`
    """

    def __init__(self, name: str, turn: Callable[[], bool], waiting: Callable[[], bool], end: Work) -> None:
        self._name, self._turn, self._waiting, self._end = name, turn, waiting, end
        self._gauge = StarvationGauge()
        lock = threading.RLock()
        self._changed = threading.Condition(lock)  # for the threads that take turns
        self._begun = threading.Condition(lock)  # for the watch
        self._low, self._normal = _Worker(BESIDE), _Worker(NORMAL)
        self._holder = self._low
        self._begun_s: float | None = None  # since when the holder has been busy with its turn
        self._parked = False  # the watch waits until something begins
        self._idle: list[_Worker] = []  # threads for what goes aside
        self._left: deque[tuple[Work, Halt]] = deque()  # to go aside, in threads that are not there yet
        self._aside = 0  # works under way or left
        self._slices: deque[Halt] = deque()  # of works under way; the first RUNNING_MAX are not paused
        self._sliced_s = 0.0  # when others had their turn
        self._ended = False
        self._watching = threading.Thread(target=self._watch, name=name + "-watch", daemon=True)

    @property
    def starving(self) -> bool:
        """Whether the thread of normal priority has the loop."""
        return self._holder is not self._low

    def has_loop(self) -> bool:
        """Whether the calling thread has the loop; otherwise what it does is aside."""
        return self._holder.native_id == threading.get_native_id()

    def held_s(self) -> float:
        """For how long the turn of the loop has lasted, seconds; 0 if there is none."""
        begun_s = self._begun_s
        return 0.0 if begun_s is None else time.monotonic() - begun_s

    def start(self) -> None:
        """Start the threads, with the priority of the caller."""
        self._start(self._low, "")
        self._start(self._normal, "-starving")
        self._watching.start()

    def join(self, wait_s: float | None = None) -> None:
        """Wait until `turn` has returned false, at most `wait_s`. What is aside may still be under way."""
        with self._changed:
            if self._changed.wait_for(lambda: self._ended, wait_s):
                self._changed.notify_all()
        self._watching.join(wait_s)

    def begin(self, halt: Halt) -> None:
        """Note, in `turn`, that there is something to do; what it computes can be made to wait with `halt`."""
        with self._changed:
            self._holder.halt = halt
            self._begun_s = time.monotonic()
            if self._parked:
                self._parked = False
                self._begun.notify()

    def aside(self, work: Work, halt: Halt) -> None:
        """Do something in another thread; what it computes can be made to wait with `halt`."""
        with self._changed:
            self._aside += 1
            self._parked = False
            self._slices.append(halt)
            self._share()
            if self._idle:
                worker = self._idle.pop()
                worker.work, worker.halt = work, halt
            else:
                self._left.append((work, halt))  # the watch starts a thread, which then has its priority and not that of this one
            self._changed.notify_all()
            self._begun.notify()

    def _start(self, worker: _Worker, suffix: str) -> None:
        thread = threading.Thread(target=self._run, args=(worker,), name=self._name + suffix, daemon=True)
        thread.start()

    # -- the threads -----------------------------------------------------------------------------------------------

    def _run(self, me: _Worker) -> None:
        me.native_id = threading.get_native_id()
        if me.niceness:
            lower_priority(me.niceness)
        while True:
            with self._changed:
                while self._holder is not me and me.work is None and not self._ended:
                    self._changed.wait()
                if (work := me.work) is None and self._ended:
                    return
            if work is None:
                self._hold(me)
            else:
                work()
                with self._changed:
                    self._came_back(me)
            with self._changed:
                if me.work is None and me not in (self._low, self._normal, *self._idle):
                    return  # there are enough threads; one that has got work since it came back is not idle and does it

    def _hold(self, me: _Worker) -> None:
        """Take turns until another thread has to continue, or all work has ended."""
        while True:
            going_on = self._turn()
            with self._changed:
                if self._holder is not me:  # the watch has passed the loop on during this turn
                    self._came_back(me)
                    return
                self._begun_s = None
                if going_on:
                    self._holder = self._next(me, self._waiting())
                    if self._holder is me:
                        continue
                    self._changed.notify_all()
                    return
            self._end()
            with self._changed:
                self._ended = True
                self._changed.notify_all()
                self._begun.notify()
            return

    def _next(self, me: _Worker, waits: bool) -> _Worker:
        """Return whose turn is next."""
        starves = self._gauge.note(time.monotonic(), time.thread_time, waits)
        if me is self._low:
            return self._normal if starves or self._aside else me
        return self._low if not waits and not self._aside else me

    def _came_back(self, me: _Worker) -> None:
        """Note that a thread has ended what it did aside."""
        self._aside -= 1
        me.work = None
        self._slices.remove(me.halt)
        me.halt.pause(False)
        self._share()
        if me is not self._low and len(self._idle) < IDLE_MAX:
            self._idle.append(me)
        self._changed.notify_all()
        self._begun.notify()

    # -- the watch -------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        while not self._ended or self._left:
            with self._changed:
                if self._begun_s is None and not self._left and not self._ended and len(self._slices) <= RUNNING_MAX:
                    self._parked = True
                    self._begun.wait()
                    self._parked = False
                elif not self._left:
                    left_s = self._bound_s() - self.held_s()
                    self._begun.wait(max(LOOK_S, left_s) if left_s > 0 else IDLE_LOOK_S)
                works = [self._left.popleft() for _ in range(len(self._left))]
                self._rotate()
                if self.held_s() >= self._bound_s() and self._waiting() and not self._ended and self._aside < ASIDE_MAX:
                    self._pass_on()
            for work, halt in works:
                self._start(_Worker(ASIDE_NICENESS, work, halt), "-aside")

    def _share(self) -> None:
        """Let the first of the computations that are aside run, and the others wait."""
        for place, halt in enumerate(self._slices):
            halt.pause(place >= RUNNING_MAX)

    def _rotate(self) -> None:
        """Let others run if the present ones have had their time."""
        if len(self._slices) <= RUNNING_MAX or time.monotonic() - self._sliced_s < SLICE_S:
            return
        self._sliced_s = time.monotonic()
        self._slices.rotate(-RUNNING_MAX)
        self._share()

    def _bound_s(self) -> float:
        """Return how long a turn may hold up others. A dozen that begin to take long together are noticed faster and faster."""
        return max(ASIDE_S / (1 + self._aside), LOOK_S)

    def _pass_on(self) -> None:
        """Give the loop to another thread; the one that has it finishes its turn aside."""
        stuck = self._holder
        self._aside += 1
        self._slices.append(stuck.halt)
        self._share()
        self._begun_s = None
        self._gauge = StarvationGauge()  # it measures one thread
        if stuck is self._normal:
            lower_priority_of(stuck.native_id, ASIDE_NICENESS)
            self._normal = _Worker(NORMAL)
            self._start(self._normal, "-starving")
        self._holder = self._normal
        self._changed.notify_all()


# Whether learning starves: it gets the processor time that predictions leave over, and that may be too little.


class StarvationGauge:
    """Reports whether work starves: there was work through a whole window, and it got less than SHARE_MIN of a processor."""

    def __init__(self) -> None:
        self.starving = False
        self._since_s: float | None = None
        self._used_s = 0.0

    def note(self, now_s: float, used_s: Callable[[], float], waiting: bool) -> bool:
        """Return whether normal priority is needed.

        now_s : of a monotonic clock; used_s : processor time of the working thread; waiting : there is more to do
        """
        if not waiting:
            self.starving = False
            self._since_s = None
        elif self._since_s is None:
            self._since_s, self._used_s = now_s, used_s()
        elif not self.starving and now_s - self._since_s >= WINDOW_S:
            used = used_s()
            self.starving = used - self._used_s < SHARE_MIN * (now_s - self._since_s)
            self._since_s, self._used_s = now_s, used
        return self.starving
