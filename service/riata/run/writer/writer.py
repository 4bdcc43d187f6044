"""The writer: it alone owns every learner, takes records in log order, and publishes what it has learnt.

It takes turns of models (`model_turn.py`), the one that is expected to end first before others (`writer_queue.py`), in one thread
at a time, at a lower priority unless it starves. A turn that takes long is finished aside, while others go on (`shifts.py`).
Records of one model that wait together are learnt in one step (`turn_size.py`); small ones are gathered first.
"""

from __future__ import annotations

import contextlib
import queue
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Final

from riata.base.clock import Clock
from riata.base.errors import Busy, RiataError
from riata.base.halt import Halted, halting
from riata.run.cluster.lease import WriterPosition
from riata.run.writer.checkpointer import Checkpointer
from riata.run.writer.loop_yield import no_yield
from riata.run.writer.model_turn import ModelTurns, stopped
from riata.run.writer.queue import AddModel, DropModel, Item, Line, Logged, WriterHooks, WriterQueue
from riata.run.writer.shifts import Shifts

SWEEP_EVERY_MS = 20  # well below the shortest useful publishing interval
SLOW_FOR_MS: Final = 60_000  # a model goes aside from the beginning for so long after a slow turn
LONG_MS: Final = 500  # a turn that has lasted so long may last for hours
LARGE_BYTES: Final = 2**24  # of a checkpoint: to write and read it back takes about half a second, and one may be under way
OTHERS_MS: Final = 10_000  # if no other model had a turn for so long, nobody is held up


@dataclass(frozen=True, slots=True)
class TurnOf:
    """A model with a turn under way, or that waits for one.

    busy_s    : for how long the turn has lasted, 0 if it waits
    waiting_s : for how long the model's first item has waited for the end of its turn
    """

    model: str
    busy_s: float
    waiting_s: float


class Writer:
    """Owner of the learners."""

    def __init__(
        self,
        checkpointer: Checkpointer,
        clock: Clock,
        hooks: WriterHooks,
        left_s: float,
        yield_to_loop: Callable[[], None] = no_yield,
    ) -> None:
        """left_s : how long a record may be left to gather, see `WriterQueue`"""
        self._clock = clock
        self._hooks = hooks
        self._yield_to_loop = yield_to_loop  # called between two steps of Python, each of at most some 50 µs
        self._inbox = WriterQueue(left_s)
        self._turns = ModelTurns(self._inbox, checkpointer, clock, hooks, yield_to_loop)
        self._swept_ms, self._learning = 0, True
        self._failed: RiataError | None = None  # why it does not learn any more
        self.given_up: set[str] = set()  # models of which `give_up_unfinished` has ended a turn
        self._latest: tuple[Line | None, int] = (
            None,
            clock.monotonic_ms(),
        )  # the line that had the last turn of the loop, and when
        self._another_ms = -OTHERS_MS  # when another line had its last one before
        self._shifts = Shifts("riata-writer", self._guarded_turn, self._inbox.waits, self._ended)

    def start(self) -> None:
        self._shifts.start()

    def put(self, item: Item | DropModel) -> None:
        """Add an item to the queue. Records of one model must come in log order. A model that is dropped, or replaced by another
        of its name, ends at once, with what waits for it; a computation under way is halted."""
        if isinstance(item, DropModel):
            self._drop(item.model, item.lineage)
        elif self._failed is not None:
            self._turns.fail(item, self._failed)
        else:
            if isinstance(item, AddModel):
                self._drop(item.model, b"", but=item.state.lineage)
            self._inbox.put(item)

    def put_logged(self, records: Sequence[Logged]) -> None:
        """As `put` for several records."""
        if self._failed is None:
            self._inbox.put_all(records)

    def settle(self, model: str | None = None) -> Future[None]:
        """Return a future that is set when everything put so far, or all of one model, was learnt and is served."""
        if self._failed is None:
            return self._inbox.drain(model).future
        failed: Future[None] = Future()
        failed.set_exception(self._failed)
        return failed

    def alive(self) -> bool:
        """False once learning has ended."""
        return self._learning

    def waiting_bytes(self, model: str) -> int:
        """Return the bytes of the payloads of records of a model that were put and not learnt yet."""
        return self._inbox.waiting_bytes(model)

    def learnt(self, model: str) -> int:
        """Return the last event that a model has learnt; 0 if it was not added yet. Any thread may call it."""
        cell = self._inbox.cell_of(model)
        return 0 if cell is None or cell.position is None else cell.position.applied

    def held_ms(self) -> int:
        """Return for how long something has waited while no turn of any model began; 0 if nothing waits. Any thread may call it.

        One model that takes long holds up no other, so this is long only if something is wrong with the threads."""
        return min(self._clock.monotonic_ms() - self._latest[1], round(1000 * self._inbox.waited_s()))

    def turns(self) -> list[TurnOf]:
        """Return the models with a turn under way, or that wait for one; the longest turn first. Any thread may call it."""
        now_s = time.monotonic()
        found = [
            TurnOf(line.model, now_s - line.since_s if line.busy else 0.0, now_s - line.since_s)
            for line in self._inbox.lines()
            if line.busy or line.items
        ]
        return sorted(found, key=lambda one: -one.busy_s)

    def busy(self) -> list[TurnOf]:
        """Return only those with a turn under way."""
        return [one for one in self.turns() if one.busy_s > 0.0]

    def positions(self) -> dict[str, WriterPosition]:
        """Return the position of every model, for the renewal of the lease. Any thread may call it."""
        cells = [(line.model, line.cell) for line in self._inbox.lines()]
        return {name: cell.position for name, cell in cells if cell is not None and cell.position is not None}

    def is_slow(self) -> bool:
        """Whether a turn has lasted long, or one that waits is likely to. Any thread may call it."""
        lines = self._inbox.lines()
        return any(1000 * one.busy_s >= LONG_MS for one in self.busy()) or any(
            self._is_slow(line) and line.items for line in lines
        )

    def saves_long(self) -> bool:
        """Whether a checkpoint that waits or is being written is large. Any thread may call it."""
        return self._turns.saver.largest() >= LARGE_BYTES

    def give_up_unfinished(self, slow_only: bool = False) -> list[str]:
        """End the models that still have something to learn, or those of them that take long, and halt what they compute. Returns
        their names. For the end of the process: the log has it, and the next one learns it."""
        found = [line.model for line in self._inbox.lines() if line.busy or line.items]
        if slow_only:
            long = {one.model for one in self.busy() if 1000 * one.busy_s >= LONG_MS}
            found = [name for name in found if name in long]
        self.given_up.update(found)
        for model in found:
            self._drop(model, b"", why=Busy("the service is stopping", "stopping", retry_after_s=5))
        return found

    def close(self, wait_s: float | None = None) -> None:
        """Learn what waits, then end the threads, after the checkpoint under way. What takes longer than `wait_s` is halted and
        not waited for: its thread ends when it can, and never keeps the process from ending."""
        with contextlib.suppress(TimeoutError, RiataError):
            self.settle().result(wait_s)
        self.give_up_unfinished()
        self._inbox.end()
        self._shifts.join(wait_s)
        self._turns.saver.close(wait_s)

    def _drop(self, model: str, lineage: bytes, but: bytes | None = None, why: RiataError | None = None) -> None:
        line = self._inbox.drop(model, lineage, but)
        if line is not None:
            self._turns.forget(model)
            line.why = why
            line.halt.set()
            if not line.busy:  # otherwise the thread that is busy with it ends it
                self._turns.end(line)

    def _guarded_turn(self) -> bool:
        try:
            return self._turn()
        except Exception as error:  # the threads' outer edge: prediction continues, learning ends, a restart has to recover
            self._fail(error)
            return not self._inbox.ended

    def _ended(self) -> None:
        self._learning = False

    def _fail(self, error: Exception) -> None:
        """End learning, and fail every request that waits or still arrives: none may wait for a thread that has ended."""
        if self._failed is not None:
            return
        detail = error.detail if isinstance(error, RiataError) else repr(error)
        self._failed = stopped(detail)
        self._hooks.fatal(f"the writer stopped: {detail}", error)  # before it is seen to have ended
        self._learning = False
        for line in self._inbox.lines():
            self._drop(line.model, b"", why=self._failed)

    def _turn(self) -> bool:
        line = self._await_line()
        if line is None:
            self._sweep()
            return not self._inbox.ended
        self._shifts.begin(line.halt)
        if self._goes_aside(line):
            self._shifts.aside(partial(self._serve, line), line.halt)
        else:
            self._serve(line)
        self._yield_to_loop()
        self._sweep()
        self._yield_to_loop()
        return True

    def _await_line(self) -> Line | None:
        """Return the line whose turn it is; None if something is due by time before one is ready, or at the end of all work."""
        if not self._inbox.presses():  # a busy writer need not compute how long it could wait
            try:
                self._inbox.wait(self._wait_s())
            except queue.Empty:
                return None
            if not self._inbox.waits():
                return None
            self._inbox.gather(due_s=self._wait_s())
        return self._inbox.take()

    def _goes_aside(self, line: Line) -> bool:
        """Whether a turn of this line is likely to be long, and other models learn too; one that was dropped does not."""
        now_ms = self._clock.monotonic_ms()
        latest, latest_ms = self._latest
        if latest is not None and latest is not line and latest.cell is not None:
            self._another_ms = latest_ms
        self._latest = line, now_ms
        return self._is_slow(line) and now_ms - self._another_ms < OTHERS_MS

    def _is_slow(self, line: Line) -> bool:
        return line.slow_ms is not None and self._clock.monotonic_ms() - line.slow_ms < SLOW_FOR_MS

    def _serve(self, line: Line) -> None:
        """Take a turn of a line, in any thread."""
        try:
            with halting(line.halt):
                self._turns.take(line)
        except Halted:  # only what was dropped is halted
            pass
        except Exception as error:  # as in `_guarded_turn`, for a turn that is finished aside
            self._fail(error)
        finally:
            if line.dropped:
                self._turns.end(line)
            self._inbox.give_back(line)
            if not self._shifts.has_loop():
                self._inbox.wake()  # the loop may wait for longer than until what is due now

    def _sweep(self) -> None:
        """Take turns of models with something due; not at every turn, and not of idle ones: there may be a thousand."""
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._swept_ms >= SWEEP_EVERY_MS or not self._inbox.presses():
            self._swept_ms = now_ms
            while (item := self._turns.take_due()) is not None:
                self._inbox.put(item)

    def _wait_s(self) -> float | None:
        due_ms = self._turns.next_due_ms()
        return None if due_ms is None else max(0.0, (due_ms - self._clock.monotonic_ms()) / 1000)
