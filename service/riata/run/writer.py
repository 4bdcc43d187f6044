"""The single writer: it alone owns every learner, takes records in log order, and publishes what it has learnt.

It works in one thread at a time, at the lowest priority unless it starves (`priority.py`). Records of one model that wait
together are learnt in one step (`turn_size.py`); small ones are gathered first (`writer_queue.py`).
"""

from __future__ import annotations

import queue
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from riata.base.clock import Clock
from riata.base.errors import Corrupt, NotFound, RiataError, Unavailable
from riata.base.priority import lower_priority
from riata.run.checkpointer import Checkpointer, Saved
from riata.run.cluster.lease import WriterPosition
from riata.run.core import Action, Core
from riata.run.drift_answer import answer_payload, asks_for
from riata.run.loop_yield import no_yield
from riata.run.model_state import Frozen
from riata.run.priority import TwoPriorityThread
from riata.run.publishing import Curvature, generation_info, publish, schedule_of
from riata.run.sketch_copy import SketchCopy
from riata.run.writer_cell import Cell, WriterHooks
from riata.run.writer_queue import (
    AddModel,
    CopySketch,
    Drain,
    DropModel,
    Finished,
    Item,
    Logged,
    PublishNow,
    SaveNow,
    Tick,
    WriterQueue,
)  # fmt: skip
from riata.store.retention import CAUSE, NOTE, REQUEST, SAVED
from riata.store.store import Verdict

SWEEP_EVERY_MS = 20  # well below the shortest useful publishing interval


class Writer:
    """Owner of the learners."""

    def __init__(
        self, checkpointer: Checkpointer, clock: Clock, hooks: WriterHooks, yield_to_loop: Callable[[], None] = no_yield
    ) -> None:
        self._checkpointer = checkpointer
        self._clock = clock
        self._hooks = hooks
        self._yield_to_loop = yield_to_loop  # called between two steps of Python, each of at most some 50 µs
        self._inbox = WriterQueue()
        self._cells: dict[str, Cell] = {}
        self._due_ms: dict[str, int] = {}  # when something of a model is due; a model that is not in it costs nothing
        self._swept_ms, self._learning = 0, True
        self._busy_since_ms: int | None = None  # since when one item is being processed; None while it waits for one
        self.taken_bytes = 0  # of the payloads of records that were processed
        self._saver = ThreadPoolExecutor(1, thread_name_prefix="riata-checkpoint", initializer=lower_priority)
        self._shifts = TwoPriorityThread("riata-writer", self._guarded_turn, self._inbox.presses, self._ended)

    def start(self) -> None:
        self._shifts.start()

    def put(self, item: Item) -> None:
        """Add an item to the queue. Records of one model must come in log order."""
        self._inbox.put(item)

    def settle(self) -> Future[None]:
        """Return a future that is set when everything put so far was learnt and is served."""
        self._inbox.put(drain := Drain())
        return drain.future

    def alive(self) -> bool:
        """False once learning has ended."""
        return self._learning

    def busy_ms(self) -> int:
        """Return how long the thread has been processing its item; 0 while it waits for one."""
        since_ms = self._busy_since_ms
        return 0 if since_ms is None else self._clock.monotonic_ms() - since_ms

    def positions(self) -> dict[str, WriterPosition]:
        """Return the position of every model, for the renewal of the lease. Any thread may call it."""
        return {name: cell.position for name, cell in list(self._cells.items()) if cell.position is not None}

    def close(self) -> None:
        """Learn what waits, then end the thread, after the checkpoint under way."""
        self._inbox.put(None)
        self._shifts.join()
        self._saver.shutdown(wait=True, cancel_futures=True)

    def _guarded_turn(self) -> bool:
        try:
            return self._turn()
        except Exception as error:  # the thread's outer edge: prediction continues, learning ends, a restart has to recover
            self._learning = False
            detail = error.detail if isinstance(error, RiataError) else repr(error)
            self._hooks.fatal(f"the writer stopped: {detail}", error)
            self._refuse_the_rest(Unavailable(f"learning has stopped: {detail}", "writer_stopped"))
            return False

    def _ended(self) -> None:
        self._learning = False

    def _refuse_the_rest(self, error: Unavailable) -> None:
        """Fail every request that still arrives, until `close`: none may wait for a thread that has ended."""
        for cell in self._cells.values():
            for asked in [*cell.waiting, *cell.being_saved]:
                asked.future.set_exception(error)
        while (item := self._inbox.get()) is not None:
            if isinstance(item, SaveNow | CopySketch | Drain) and item.future.set_running_or_notify_cancel():
                item.future.set_exception(error)

    def _turn(self) -> bool:
        item = self._await_item()
        self._busy_since_ms = self._clock.monotonic_ms()
        if item is None:
            return False
        self._take(item)
        self._yield_to_loop()
        self._sweep()
        self._yield_to_loop()
        return True

    def _await_item(self) -> Item | None:
        """Return the next item; a `Tick` if something is due by time before one comes."""
        if self._inbox.presses():  # a busy writer need not compute how long it could wait
            return self._inbox.get()
        wait_s = self._wait_s()
        self._busy_since_ms = None
        try:
            self._inbox.wait(wait_s)
        except queue.Empty:
            return Tick()
        self._inbox.gather()
        return self._inbox.get()

    def _take(self, item: Item) -> None:
        if isinstance(item, Logged):
            cell = self._cells.get(item.record.model)
            run = self._inbox.run_of(item) if cell is None else self._inbox.run_of(item, cell.turn.rows_max)
            self._yield_to_loop()
            self._learn(run)
            self.taken_bytes += sum([len(logged.record.payload) for logged in run])
        elif isinstance(item, AddModel):
            self._adopt(item)
        elif isinstance(item, SaveNow):
            self._save_now(item)
        elif isinstance(item, PublishNow):
            if item.model in self._cells:
                self._look_after(item.model)
        elif isinstance(item, CopySketch):
            self._look(item)
        elif isinstance(item, Finished):
            self._finished(item.saved)
        elif isinstance(item, Drain):
            for cell in [cell for cell in self._cells.values() if cell.core.unpublished]:
                self._publish(cell)
            if item.future.set_running_or_notify_cancel():
                item.future.set_result(None)
        elif isinstance(item, DropModel):
            self._forget(item)  # after a `Tick` there is nothing to do except what follows every item

    def _learn(self, run: list[Logged]) -> None:
        model = run[0].record.model
        cell = self._cells.get(model)
        if cell is None:
            return  # dropped while its last events waited here
        records = [item.record for item in run]
        ahead = cell.core.unpublished
        cell.core.logged_all(records)
        self._yield_to_loop()
        begun_ms = self._clock.monotonic_ms()
        refused = cell.state.apply_all(records, [item.batch for item in run])
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
            self._hooks.refused(model, refused)
        self._answer_drift(model, cell)
        if not (ahead and self._is_noted(model, cell, now_ms)):
            self._look_after(model)

    def _is_noted(self, name: str, cell: Cell, now_ms: int) -> bool:
        """Whether the next work for a model that was ahead of what is served is noted in `_due_ms`, and not due yet.

        So a busy model is serviced when something is due, and not at every turn: that is Python, which predictions wait for.
        """
        is_quiet = not cell.waiting and not cell.core.full and self._hooks.wanted(name) is None
        return is_quiet and now_ms < self._due_ms.get(name, now_ms)

    def _adopt(self, item: AddModel) -> None:
        state = item.state
        core = Core(state.applied, state.chain, schedule_of(state), self._clock.monotonic_ms(), item.saved)
        cell = Cell(item.state, core, item.gen, position=WriterPosition(state.lineage, state.applied, state.chain, item.gen))
        state.yield_to_loop, state.read_again = self._yield_to_loop, self._hooks.read_again
        self._cells[state.name] = cell
        self._publish(cell)
        self._look_after(state.name)
        self._answer_drift(state.name, cell)

    def _answer_drift(self, model: str, cell: Cell) -> None:
        """Have an alarm of the drift detector answered by an event of the log, if one is open."""
        if cell.state.drift is not None and (asked := asks_for(cell.state, cell.asked)) is not None:
            cell.asked = asked
            self._hooks.drifted(model, answer_payload(cell.state))

    def _forget(self, item: DropModel) -> None:
        cell = self._cells.get(item.model)
        if cell is None or (item.lineage and cell.state.lineage != item.lineage):
            return
        del self._cells[item.model]
        self._due_ms.pop(item.model, None)
        for asked in [*cell.waiting, *cell.being_saved]:
            asked.future.set_exception(Corrupt(f"model {item.model} was dropped in the meantime", "model_dropped"))

    def _save_now(self, item: SaveNow) -> None:
        cell = self._cells.get(item.model)
        if not item.future.set_running_or_notify_cancel():
            return  # the caller cancelled; after this check the call cannot be cancelled
        if cell is None:
            item.future.set_exception(Corrupt(f"model {item.model} was dropped in the meantime", "model_dropped"))
        elif item.if_ahead and not cell.core.unsaved:
            item.future.set_result(Saved(item.model, cell.state.lineage, Verdict.OK, None, 0))
        else:
            cell.waiting.append(item)
            self._look_after(item.model)

    def _look(self, item: CopySketch) -> None:
        cell = self._cells.get(item.model)
        if not item.future.set_running_or_notify_cancel():
            return
        if cell is None:
            item.future.set_exception(NotFound(f"model {item.model} was dropped in the meantime", "model_not_found"))
            return
        learner, seq = cell.state.learner, cell.state.applied if cell.state.has_learnt else 0
        item.future.set_result(SketchCopy(cell.version, seq, learner.sketch(), learner.shadows()))

    def _sweep(self) -> None:
        """Service models with something due; not at every turn, and not idle ones: there may be a thousand."""
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._swept_ms >= SWEEP_EVERY_MS or not self._inbox.presses():
            self._swept_ms = now_ms
            for name in [name for name, due_ms in self._due_ms.items() if due_ms <= now_ms]:
                self._look_after(name)

    def _look_after(self, name: str) -> None:
        """Publish and checkpoint what is due of one model."""
        cell = self._cells[name]
        lowest = self._hooks.wanted(name)
        wanted = lowest is not None and lowest <= cell.core.applied
        now_ms = self._clock.monotonic_ms()
        actions = cell.core.due(now_ms, wanted)
        if Action.PUBLISH in actions or self._curvature_is_late(cell, now_ms):
            self._publish(cell)
        if Action.CHECKPOINT in actions or (cell.waiting and not cell.being_saved and cell.core.may_save()):
            self._checkpoint(cell, Action.CHECKPOINT in actions)
        self._note_due(name, cell)

    def _note_due(self, name: str, cell: Cell) -> None:
        """Record when there will next be something to do for a model if nothing else happens to it."""
        moments = [cell.core.next_due_ms()]
        if not cell.core.unpublished:  # otherwise the next publication comes first
            moments.append(cell.curvature.due_ms(cell.core.applied))
        due_ms = min((moment for moment in moments if moment is not None), default=None)
        if due_ms is None:
            self._due_ms.pop(name, None)
        else:
            self._due_ms[name] = due_ms

    def _curvature_is_late(self, cell: Cell, now_ms: int) -> bool:
        """Whether the last events of a stream are served with older standard errors although new ones may be computed."""
        due_ms = cell.curvature.due_ms(cell.core.applied)
        return due_ms is not None and now_ms >= due_ms and not cell.core.unpublished

    def _publish(self, cell: Cell) -> None:
        cell.version += 1
        cell.curvature.refresh(cell.state, self._clock)
        self._yield_to_loop()
        covariance = cell.curvature.covariance
        self._hooks.published(publish(cell.state, cell.gen, cell.version, self._clock, covariance, cell.minute))
        cell.core.published(self._clock.monotonic_ms())

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
        self._saver.submit(lambda: self._save(frozen, created_ms, info))

    def _save(self, frozen: Frozen, created_ms: int, info: dict[str, float | int | str]) -> None:
        try:
            self.put(Finished(self._checkpointer.save(frozen, created_ms, info)))
        except Exception as error:  # the saver's outer edge
            detail = error.detail if isinstance(error, RiataError) else repr(error)
            self._hooks.fatal(f"writing a checkpoint failed: {detail}", error)
            lineage = bytes.fromhex(frozen.header["lineage"])
            self.put(Finished(Saved(str(frozen.header["model"]), lineage, None, None, 0, detail)))

    def _finished(self, saved: Saved) -> None:
        cell = self._cells.get(saved.model)
        if cell is None or cell.state.lineage != saved.lineage:
            return  # dropped meanwhile, and perhaps created again
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
            raise Corrupt(f"checkpoint of {saved.model}: {saved.verdict.value}", "fenced")
        self._look_after(saved.model)

    def _wait_s(self) -> float | None:
        if not self._due_ms:
            return None
        return max(0.0, (min(self._due_ms.values()) - self._clock.monotonic_ms()) / 1000)
