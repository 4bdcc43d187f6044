"""A turn of the writer: the next items of one model, and what is then due for it. It touches no other model.

So turns of several models may be under way at once, each in one thread.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final

from riata.base.clock import Clock
from riata.base.errors import Corrupt, NotFound, RiataError, Unavailable
from riata.base.process import BESIDE, lower_priority
from riata.run.cluster.lease import WriterPosition
from riata.run.log.log_reading import unreadable
from riata.run.state.core import Action, Core
from riata.run.state.damage import Damage, event_of, harms_one_model
from riata.run.state.model_state import Frozen, answer_payload, asks_for
from riata.run.writer.checkpointer import Checkpointer, Saved
from riata.run.writer.published import Curvature, generation_info, publish, schedule_of
from riata.run.writer.queue import (
    AddModel,
    Cell,
    CopySketch,
    DrainOne,
    Dues,
    Finished,
    Item,
    Line,
    Logged,
    PublishNow,
    SaveDue,
    SaveNow,
    Share,
    SketchCopy,
    WriterHooks,
    WriterQueue,
)  # fmt: skip
from riata.store.retention import CAUSE, NOTE, REQUEST, SAVED
from riata.store.store import Verdict

# Of a processor's time, of which one is for scheduled checkpoints; the store's thread takes half as much again.
PARTS: Final = 200
REST_MS_MAX: Final = 1500  # a large model delays those of others no longer
SLOW_MS: Final = 20  # of processor time: a turn that takes longer is likely to be followed by others


class ModelTurns:
    """Takes turns of models. Every method but `fail` and `due` is called by the thread that has made the line busy."""

    def __init__(
        self, inbox: WriterQueue, checkpointer: Checkpointer, clock: Clock, hooks: WriterHooks, yield_to_loop: Callable[[], None]
    ) -> None:
        self._inbox = inbox
        self._checkpointer = checkpointer
        self._clock = clock
        self._hooks = hooks
        self._yield_to_loop = yield_to_loop  # called between two steps of Python, each of at most some 50 µs
        self._dues = Dues()  # when something of a model is due, other than a checkpoint
        self._saves = Dues()  # when a scheduled checkpoint of a model is due
        self._saving = Share(PARTS, rest_ms_max=REST_MS_MAX)  # of the latter
        self.saver = Saver("riata-checkpoint")

    def take(self, line: Line) -> None:
        """Process the next items of a line, and publish and checkpoint what is due."""
        item = self._inbox.next_of(line)
        if item is None:
            return  # it was dropped in the meantime
        begun_ms = self._clock.thread_ms()
        if isinstance(item, Logged):
            run = self._inbox.run_of(line, item) if line.cell is None else self._inbox.run_of(line, item, line.cell.turn.rows_max)
            self._yield_to_loop()
            if line.cell is not None:  # otherwise it was dropped while its last events waited here
                self._learn(line, line.cell, run)
        else:
            self._do(line, item)
        took_ms = self._clock.thread_ms() - begun_ms
        self._inbox.spent(line, took_ms)
        line.took(took_ms, is_typical=isinstance(item, Logged))
        if took_ms >= SLOW_MS:
            line.slow_ms = self._clock.monotonic_ms()

    def _do(self, line: Line, item: Item) -> None:
        if isinstance(item, AddModel):
            self._adopt(line, item)
        elif isinstance(item, DrainOne):
            if line.cell is not None and line.cell.core.unpublished:
                self._publish(line, line.cell)
            self._inbox.arrived(item.drain)
        elif line.cell is None:
            self.fail(item, _gone(line.model))
        elif isinstance(item, SaveNow):
            self._save_now(line, line.cell, item)
        elif isinstance(item, SaveDue):
            self._look_after(line, line.cell, saves=True)
        elif isinstance(item, CopySketch):
            self._look(line.cell, item)
        elif isinstance(item, Finished):
            self._finished(line, line.cell, item.saved)
        else:
            self._look_after(line, line.cell)

    def fail(self, item: Item, error: RiataError) -> None:
        """Tell those who wait for an item that it will not be processed."""
        if isinstance(item, SaveNow | CopySketch):
            if item.future.set_running_or_notify_cancel():
                item.future.set_exception(error)
        elif isinstance(item, DrainOne):
            self._inbox.arrived(item.drain)

    def end(self, line: Line) -> None:
        """End a model whose line was dropped: tell those who wait."""
        error = line.why or _gone(line.model)
        self._end_cell(line, error)
        while line.items:
            self.fail(line.items.popleft(), error)
        line.pressing = 0

    def _end_cell(self, line: Line, error: RiataError) -> None:
        if (cell := line.cell) is not None:
            line.cell = None
            for asked in [*cell.waiting, *cell.being_saved]:
                asked.future.set_exception(error)

    def _learn(self, line: Line, cell: Cell, run: list[Logged]) -> None:
        records = [item.record for item in run]
        ahead = cell.core.unpublished
        cell.core.logged_all(records)
        self._yield_to_loop()
        begun_ms = self._clock.monotonic_ms()
        try:
            refused = cell.state.apply_all(records, [item.batch for item in run])
        except Corrupt as error:
            if not harms_one_model(error):
                raise
            damage = Damage(line.model, cell.state.lineage, event_of(error, unreadable(records) - 1), error.detail)
            self._end_cell(line, damage.error())  # what else waits finds no model
            self._hooks.damaged(damage)
            return
        self._yield_to_loop()
        now_ms = self._clock.monotonic_ms()
        cell.turn.took(records[-1].last - records[0].first + 1, now_ms - begun_ms)
        cell.core.advanced(records[-1])
        cell.position = WriterPosition(cell.state.lineage, cell.state.applied, cell.state.chain, cell.gen)
        if records[0].kind in ("config", "restore"):
            ahead = False  # the noted time may not hold any more
            cell.core.reschedule(schedule_of(cell.state))
            cell.curvature = Curvature()  # the learner may have been replaced
        if refused:
            self._hooks.refused(line.model, refused)
        self._answer_drift(line.model, cell)
        if not (ahead and self._is_noted(line.model, cell, now_ms)):
            self._look_after(line, cell)

    def _is_noted(self, name: str, cell: Cell, now_ms: int) -> bool:
        """Whether the next work for a model that was ahead of what is served is noted, and not due yet.

        So a busy model is serviced when something is due, and not at every turn: that is Python, which predictions wait for.
        """
        is_quiet = not cell.waiting and not cell.core.full and self._hooks.wanted(name) is None
        return is_quiet and now_ms < self._dues.get(name, now_ms)

    def _adopt(self, line: Line, item: AddModel) -> None:
        state = item.state
        schedule, now_ms = schedule_of(state), self._clock.monotonic_ms()
        core = Core(state.applied, state.chain, schedule, now_ms, item.saved)
        if item.overdue:
            core.checkpoint_is_overdue(now_ms)
        cell = Cell(item.state, core, item.gen, position=WriterPosition(state.lineage, state.applied, state.chain, item.gen))
        state.yield_to_loop, state.read_again = self._yield_to_loop, self._hooks.read_again
        line.cell = cell
        if item.served:
            cell.version = 1
            core.published(now_ms)
        else:
            self._publish(line, cell)
        self._look_after(line, cell)
        self._answer_drift(state.name, cell)

    def _answer_drift(self, model: str, cell: Cell) -> None:
        """Have an alarm of the drift detector answered by an event of the log, if one is open."""
        if (asked := asks_for(cell.state, cell.asked)) is not None:
            cell.asked = asked
            self._hooks.drifted(model, answer_payload(cell.state))

    def _save_now(self, line: Line, cell: Cell, item: SaveNow) -> None:
        if not item.future.set_running_or_notify_cancel():
            return  # the caller cancelled; after this check the call cannot be cancelled
        if item.if_ahead and not cell.core.unsaved:
            item.future.set_result(Saved(item.model, cell.state.lineage, Verdict.OK, None, 0))
        else:
            cell.waiting.append(item)
            self._look_after(line, cell)

    def _look(self, cell: Cell, item: CopySketch) -> None:
        if not item.future.set_running_or_notify_cancel():
            return
        learner, seq = cell.state.learner, cell.state.applied if cell.state.has_learnt else 0
        item.future.set_result(SketchCopy(cell.version, seq, learner.sketch(), learner.shadows()))

    def take_due(self) -> PublishNow | SaveDue | None:
        """Return the item that gives its turn to the model of which something has been due for longest; None if nothing may be
        done now. To be asked again until then."""
        now_ms = self._clock.monotonic_ms()
        if (name := self._dues.take(now_ms)) is not None:
            return PublishNow(name)
        if self._saving.free_ms() <= now_ms and not self.saver.is_busy() and (name := self._saves.take(now_ms)) is not None:
            self._saving.spend(now_ms, 1)  # so that another does not begin before this one
            return SaveDue(name)
        return None

    def next_due_ms(self) -> int | None:
        """Return when `take_due` will next return something if nothing else happens; None for never."""
        due_ms, save_ms = self._dues.first_ms(), self._saves.first_ms()
        moments = [] if due_ms is None else [due_ms]
        if save_ms is not None:
            moments.append(max(save_ms, self._clock.monotonic_ms() + SLOW_MS if self.saver.is_busy() else self._saving.free_ms()))
        return min(moments, default=None)

    def forget(self, model: str) -> None:
        """Nothing is due any more of a model that was dropped."""
        self._dues.set(model, None)
        self._saves.set(model, None)

    def _look_after(self, line: Line, cell: Cell, saves: bool = False) -> None:
        """Publish and checkpoint what is due of one model.

        saves : whether it is the turn of its scheduled checkpoint; one that is due by the number of events begins anyway
        """
        lowest = self._hooks.wanted(line.model)
        wanted = lowest is not None and lowest <= cell.core.applied
        now_ms = self._clock.monotonic_ms()
        actions = cell.core.due(now_ms, wanted)
        if Action.PUBLISH in actions or self._curvature_is_late(cell, now_ms):
            self._publish(line, cell)
        is_its_turn = Action.CHECKPOINT in actions and (saves or cell.core.full)
        if is_its_turn or (cell.waiting and not cell.being_saved and cell.core.may_save()):
            self._checkpoint(cell, Action.CHECKPOINT in actions)
        self._note_due(line, cell)

    def _note_due(self, line: Line, cell: Cell) -> None:
        """Record when there will next be something to do for a model if nothing else happens to it."""
        moments = [cell.core.publish_due_ms()]
        if not cell.core.unpublished:  # otherwise the next publication comes first
            moments.append(cell.curvature.due_ms(cell.core.applied))
        due_ms = min((moment for moment in moments if moment is not None), default=None)
        self._dues.set(line.model, None if line.dropped else due_ms)
        self._saves.set(line.model, None if line.dropped else cell.core.save_due_ms())

    def _curvature_is_late(self, cell: Cell, now_ms: int) -> bool:
        """Whether the last events of a stream are served with older standard errors although new ones may be computed."""
        due_ms = cell.curvature.due_ms(cell.core.applied)
        return due_ms is not None and now_ms >= due_ms and not cell.core.unpublished

    def _publish(self, line: Line, cell: Cell) -> None:
        begun_ms = self._clock.thread_ms()
        cell.version += 1
        cell.curvature.refresh(cell.state, self._clock)
        self._yield_to_loop()
        published = publish(cell.state, cell.gen, cell.version, self._clock, cell.curvature.covariance, cell.minute)
        if not line.dropped:
            self._hooks.published(published)
        cell.core.published(self._clock.monotonic_ms(), self._clock.thread_ms() - begun_ms)

    def _checkpoint(self, cell: Cell, due: bool) -> None:
        """Begin a checkpoint. One that somebody saves is beside the schedule, and for nobody else."""
        notes = [asked.note for asked in cell.waiting if asked.note is not None]
        requested = bool(notes) or not (due or not all(asked.requested for asked in cell.waiting))
        cell.core.checkpoint_started(self._clock.monotonic_ms(), requested)
        cell.being_saved = [asked for asked in cell.waiting if not notes or asked.note is not None]
        cell.waiting = [asked for asked in cell.waiting if notes and asked.note is None]
        frozen, created_ms = cell.state.freeze(), self._clock.unix_ms()
        info = generation_info(cell.state) | ({CAUSE: REQUEST} if requested else {})
        if notes:
            info |= {CAUSE: SAVED, NOTE: "; ".join(filter(None, notes))}
        size = sum([array.nbytes for array in frozen.arrays.values()])
        self.saver.submit(size, lambda: self._save(frozen, created_ms, info))

    def _save(self, frozen: Frozen, created_ms: int, info: dict[str, float | int | str]) -> None:
        """Called in the saver's thread."""
        begun_ms = self._clock.thread_ms()
        try:
            saved = self._checkpointer.save(frozen, created_ms, info)
            self._saving.spend(self._clock.monotonic_ms(), self._clock.thread_ms() - begun_ms)
            self._inbox.put(Finished(saved))
        except Exception as error:  # the saver's outer edge
            detail = error.detail if isinstance(error, RiataError) else repr(error)
            self._hooks.fatal(f"writing a snapshot failed: {detail}", error)
            lineage = bytes.fromhex(frozen.header["lineage"])
            self._inbox.put(Finished(Saved(str(frozen.header["model"]), lineage, None, None, 0, detail)))

    def _finished(self, line: Line, cell: Cell, saved: Saved) -> None:
        if cell.state.lineage != saved.lineage:
            return  # dropped meanwhile, and created again
        self._hooks.saved(saved)
        if saved.verdict is None:
            cell.core.abandoned()
        else:
            cell.core.committed(saved.verdict)
        if saved.verdict is Verdict.OK and saved.generation is not None:
            cell.gen = saved.generation.gen
            cell.position = WriterPosition(cell.state.lineage, cell.state.applied, cell.state.chain, cell.gen)
        while cell.being_saved:
            cell.being_saved.pop().future.set_result(saved)
        if saved.verdict not in (None, Verdict.OK):
            raise Corrupt(f"snapshot of {saved.model}: {saved.verdict.value}", "fenced")
        self._look_after(line, cell)


def _gone(model: str) -> RiataError:
    return NotFound(f"model {model} was dropped in the meantime", "model_not_found")


def stopped(detail: str) -> Unavailable:
    """Return the error for requests to a writer that does not learn any more."""
    return Unavailable(f"learning has stopped: {detail}", "writer_stopped")


# The thread that writes checkpoints: the smallest of those that wait first, so that a large model holds up no small one.


class Saver:
    """Does one thing after another, at a low priority. An unfinished one never keeps the process from ending."""

    def __init__(self, name: str) -> None:
        self._changed = threading.Condition()
        self._waiting: list[tuple[int, int, Callable[[], None], Future[None]]] = []
        self._puts = 0  # makes the entries comparable
        self._size = 0  # of what is under way
        self._closed = False
        self._name = name
        self._thread: threading.Thread | None = None  # started when it is needed

    def submit(self, size: int, work: Callable[[], None]) -> Future[None]:
        """Do `work`, which must not raise, after what waits and is smaller than `size`. The future is set afterwards."""
        future: Future[None] = Future()
        with self._changed:
            self._puts += 1
            heapq.heappush(self._waiting, (size, self._puts, work, future))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._changed.notify_all()
        return future

    def is_busy(self) -> bool:
        """Whether something waits or is under way."""
        return bool(self._waiting or self._size)

    def largest(self) -> int:
        """Return the size of the largest that waits or is under way; 0 if there is none."""
        with self._changed:
            return max(self._size, *(entry[0] for entry in self._waiting), 0)

    def close(self, wait_s: float | None = None) -> None:
        """Drop what has not begun, and wait for what has, at most `wait_s`."""
        with self._changed:
            self._closed = True
            dropped, self._waiting = self._waiting, []
            self._changed.notify_all()
        for *_, future in dropped:
            future.cancel()
        if self._thread is not None:
            self._thread.join(wait_s)

    def _run(self) -> None:
        lower_priority(BESIDE)
        while True:
            with self._changed:
                while not self._waiting and not self._closed:
                    self._changed.wait()
                if self._closed:
                    return
                self._size, _, work, future = heapq.heappop(self._waiting)
            if future.set_running_or_notify_cancel():
                work()
                future.set_result(None)
            self._size = 0
