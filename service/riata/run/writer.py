"""The single writer: one thread owns every learner, takes records in log order, and publishes what it has learnt."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from riata.base.clock import Clock
from riata.base.errors import Corrupt, NotFound, RiataError, Unavailable
from riata.run.checkpointer import Checkpointer, Saved
from riata.run.core import Action, Core
from riata.run.looking import Looked
from riata.run.model_state import Frozen, ModelState
from riata.run.published import Published
from riata.run.publishing import Curvature, generation_info, publish, schedule_of
from riata.run.sharing.lead import Belief
from riata.store.store import Record, Verdict
from riata.wire.batch import Batch

SWEEP_EVERY_MS = 20  # well below the shortest useful publishing interval


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
class _Finished:
    """A checkpoint that ended, in whatever way."""

    saved: Saved


@dataclass(frozen=True, slots=True)
class _Settle:
    """Set the future once everything before it was learnt and published."""

    future: Future[None] = field(default_factory=Future)


class _Sweep:
    """Time has passed."""


Item = Logged | Adopt | Forget | SaveNow | Nudge | Look | _Finished | _Settle | _Sweep


@dataclass(slots=True)
class _Cell:
    """One model in the writer's care."""

    state: ModelState
    core: Core
    gen: int  # newest durable generation
    version: int = 0
    belief: Belief | None = None  # replaced after every record: another thread reads it
    curvature: Curvature = field(default_factory=Curvature)
    waiting: list[Future[Saved]] = field(default_factory=list)  # who waits for the next checkpoint
    being_saved: list[Future[Saved]] = field(default_factory=list)  # who waits for the one under way


@dataclass(frozen=True, slots=True)
class WriterHooks:
    """What the writer tells the outside; all are called in the writer's thread and must not block."""

    published: Callable[[Published], None]
    refused: Callable[[str, dict[int, str]], None]  # events that the learner refused by itself, and why: logged as skipped
    saved: Callable[[Saved], None]
    wanted: Callable[[str], int | None]  # the lowest log position of this model that somebody waits to see served
    fatal: Callable[[str, BaseException], None]


class Writer:
    """Owner of the learners."""

    def __init__(self, checkpointer: Checkpointer, clock: Clock, hooks: WriterHooks) -> None:
        self._checkpointer = checkpointer
        self._clock = clock
        self._hooks = hooks
        self._inbox: queue.SimpleQueue[Item | None] = queue.SimpleQueue()
        self._cells: dict[str, _Cell] = {}
        self._swept_ms = 0
        self._learning = True
        self._busy_since_ms: int | None = None  # since when one item has been dealt with; None while it waits for one
        self.taken_bytes = 0  # of the payloads of records that were dealt with
        self._saver = ThreadPoolExecutor(1, thread_name_prefix="riata-checkpoint")
        self._thread = threading.Thread(target=self._run, name="riata-writer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, item: Item) -> None:
        """Hand over something to do. Records of one model must come in log order."""
        self._inbox.put(item)

    def settle(self) -> Future[None]:
        """A future that is set when everything handed over so far was learnt and is served."""
        settle = _Settle()
        self._inbox.put(settle)
        return settle.future

    def alive(self) -> bool:
        """False once learning has ended."""
        return self._learning

    def busy_ms(self) -> int:
        """How long the thread has been at what it is doing; 0 while it waits for something to do."""
        since_ms = self._busy_since_ms
        return 0 if since_ms is None else self._clock.monotonic_ms() - since_ms

    def beliefs(self) -> dict[str, Belief]:
        """Where every model stands, for the renewal of the lease. Any thread may ask."""
        return {name: cell.belief for name, cell in list(self._cells.items()) if cell.belief is not None}

    def close(self) -> None:
        """Learn what waits, then end the thread. A checkpoint under way is waited for."""
        self._inbox.put(None)
        self._thread.join()
        self._saver.shutdown(wait=True, cancel_futures=True)

    def _run(self) -> None:
        try:
            while self._turn():
                pass
            self._learning = False
        except Exception as error:  # the thread's outer edge: prediction goes on, learning ends, a new start decides
            self._learning = False
            detail = error.detail if isinstance(error, RiataError) else repr(error)
            self._hooks.fatal(f"the writer stopped: {detail}", error)
            self._refuse_the_rest(Unavailable(f"learning has stopped: {detail}", "writer_stopped"))

    def _refuse_the_rest(self, error: Unavailable) -> None:
        """Nobody may wait for a thread that has ended: answer every request that still comes, until told to end."""
        for cell in self._cells.values():
            for future in [*cell.waiting, *cell.being_saved]:
                future.set_exception(error)
        while (item := self._inbox.get()) is not None:
            if isinstance(item, SaveNow | Look | _Settle) and item.future.set_running_or_notify_cancel():
                item.future.set_exception(error)

    def _turn(self) -> bool:
        wait_s = self._wait_s()
        self._busy_since_ms = None
        try:
            item = self._inbox.get(timeout=wait_s)
        except queue.Empty:
            item = _Sweep()
        self._busy_since_ms = self._clock.monotonic_ms()
        if item is None:
            return False
        self._take(item)
        self._sweep()
        return True

    def _take(self, item: Item) -> None:
        if isinstance(item, Logged):
            self._learn(item)
            self.taken_bytes += len(item.record.payload)
        elif isinstance(item, Adopt):
            self._adopt(item)
        elif isinstance(item, SaveNow):
            self._save_now(item)
        elif isinstance(item, Nudge):
            if item.model in self._cells:
                self._look_after(item.model)
        elif isinstance(item, Look):
            self._look(item)
        elif isinstance(item, _Finished):
            self._finished(item.saved)
        elif isinstance(item, _Settle):
            for cell in [cell for cell in self._cells.values() if cell.core.unpublished]:
                self._publish(cell)
            if item.future.set_running_or_notify_cancel():
                item.future.set_result(None)
        elif isinstance(item, Forget):
            self._forget(item)  # and after a `_Sweep` there is nothing to do but what follows every item

    def _learn(self, item: Logged) -> None:
        cell = self._cells.get(item.record.model)
        if cell is None:
            return  # dropped while its last events waited here
        cell.core.logged(item.record)
        refused = cell.state.apply(item.record, item.batch)
        cell.core.advanced(item.record)
        cell.belief = Belief(cell.state.lineage, cell.state.applied, cell.state.chain, cell.gen)
        if item.record.kind in ("config", "restore"):
            cell.core.reschedule(schedule_of(cell.state))
            cell.curvature = Curvature()  # what it was made of may be another learner now
        if refused:
            self._hooks.refused(item.record.model, refused)
        self._look_after(item.record.model)

    def _adopt(self, item: Adopt) -> None:
        state = item.state
        core = Core(state.applied, state.chain, schedule_of(state), self._clock.monotonic_ms(), item.saved)
        cell = _Cell(item.state, core, item.gen, belief=Belief(state.lineage, state.applied, state.chain, item.gen))
        self._cells[state.name] = cell
        self._publish(cell)

    def _forget(self, item: Forget) -> None:
        cell = self._cells.get(item.model)
        if cell is None or (item.lineage and cell.state.lineage != item.lineage):
            return
        del self._cells[item.model]
        for future in [*cell.waiting, *cell.being_saved]:
            future.set_exception(Corrupt(f"model {item.model} was dropped meanwhile", "model_dropped"))

    def _save_now(self, item: SaveNow) -> None:
        cell = self._cells.get(item.model)
        if not item.future.set_running_or_notify_cancel():
            return  # whoever asked has gone; from here on nobody can take the question back
        if cell is None:
            item.future.set_exception(Corrupt(f"model {item.model} was dropped meanwhile", "model_dropped"))
        elif item.if_ahead and not cell.core.unsaved:
            item.future.set_result(Saved(item.model, cell.state.lineage, Verdict.OK, None, 0))
        else:
            cell.waiting.append(item.future)

    def _look(self, item: Look) -> None:
        cell = self._cells.get(item.model)
        if not item.future.set_running_or_notify_cancel():
            return
        if cell is None:
            item.future.set_exception(NotFound(f"model {item.model} was dropped meanwhile", "model_not_found"))
            return
        learner = cell.state.learner
        seq = cell.state.applied if cell.state.has_learnt else 0
        item.future.set_result(Looked(cell.version, seq, learner.sketch(), learner.shadows()))

    def _sweep(self) -> None:
        """Look after every model, but not at every turn: a busy model must not pay for a thousand idle ones."""
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._swept_ms >= SWEEP_EVERY_MS or self._inbox.empty():
            self._swept_ms = now_ms
            for name in self._cells:
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
            self._checkpoint(cell)

    def _curvature_is_late(self, cell: _Cell, now_ms: int) -> bool:
        """True where the last events of a stream are served with standard errors of an earlier moment, and need not be."""
        due_ms = cell.curvature.due_ms(cell.core.applied)
        return due_ms is not None and now_ms >= due_ms and not cell.core.unpublished

    def _publish(self, cell: _Cell) -> None:
        cell.version += 1
        cell.curvature.refresh(cell.state, self._clock)
        self._hooks.published(publish(cell.state, cell.gen, cell.version, self._clock, cell.curvature.covariance))
        cell.core.published(self._clock.monotonic_ms())

    def _checkpoint(self, cell: _Cell) -> None:
        cell.core.checkpoint_started(self._clock.monotonic_ms())
        cell.being_saved, cell.waiting = cell.waiting, []
        frozen = cell.state.freeze()
        info = generation_info(cell.state)
        created_ms = self._clock.unix_ms()
        self._saver.submit(lambda: self._save(frozen, created_ms, info))

    def _save(self, frozen: Frozen, created_ms: int, info: dict[str, float | int | str]) -> None:
        try:
            self.put(_Finished(self._checkpointer.save(frozen, created_ms, info)))
        except Exception as error:  # the saver's outer edge
            detail = error.detail if isinstance(error, RiataError) else repr(error)
            self._hooks.fatal(f"a checkpoint failed: {detail}", error)
            lineage = bytes.fromhex(frozen.header["lineage"])
            self.put(_Finished(Saved(str(frozen.header["model"]), lineage, None, None, 0, detail)))

    def _finished(self, saved: Saved) -> None:
        cell = self._cells.get(saved.model)
        if cell is None or cell.state.lineage != saved.lineage:
            return  # dropped meanwhile, and perhaps made again
        self._hooks.saved(saved)
        if saved.verdict is None:
            cell.core.abandoned()
        else:
            cell.core.committed(saved.verdict)
        if saved.verdict is Verdict.OK and saved.generation is not None:
            cell.gen = saved.generation.gen
            cell.belief = Belief(cell.state.lineage, cell.state.applied, cell.state.chain, cell.gen)
        while cell.being_saved:
            cell.being_saved.pop().set_result(saved)
        if saved.verdict not in (None, Verdict.OK):
            raise Corrupt(f"checkpoint of {saved.model}: {saved.verdict.value}", "fenced")

    def _wait_s(self) -> float | None:
        cells = self._cells.values()
        moments = [moment for cell in cells if (moment := cell.core.next_due_ms()) is not None]
        quiet = [cell for cell in cells if not cell.core.unpublished]  # the others' next publication comes first
        moments += [moment for cell in quiet if (moment := cell.curvature.due_ms(cell.core.applied)) is not None]
        if not moments:
            return None
        return max(0.0, (min(moments) - self._clock.monotonic_ms()) / 1000)
