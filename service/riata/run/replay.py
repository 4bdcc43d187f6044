"""Learn a stored log again, beside whatever was stored of it, and compare: does the log determine the bits?"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from riata.base.errors import Corrupt, LogGap
from riata.run.core import Core, Schedule
from riata.run.generations import thaw_generation
from riata.run.model_state import ModelState
from riata.run.recovery import read_log
from riata.run.together import runs
from riata.store import records
from riata.store.payload import decode_batch
from riata.store.store import Generation, Head, Record, Store
from riata.wire.batch import Batch, slice_rows

T = TypeVar("T")
_NEVER = Schedule(2**31, 2**31, 2**31)


@dataclass(slots=True)
class Compared:
    """One stored checkpoint beside the state that replay reached at the same event."""

    generation: int
    applied: int
    stored: str  # hex digest
    replayed: str
    problem: str = ""  # where the checkpoint itself does not verify

    @property
    def equal(self) -> bool:
        return not self.problem and self.stored == self.replayed


@dataclass(slots=True)
class ReplayReport:
    """What a replay found. `state` is the model after its last event."""

    model: str
    state: ModelState
    started_at: int  # 0: from the beginning; else the event of the generation it had to start from
    events: int
    compared: list[Compared] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        """True where every checkpoint passed on the way holds the same bits. See `compared` for how many there were."""
        return all(one.equal for one in self.compared)

    @property
    def digest(self) -> str:
        """Digest of the replayed state's content."""
        return self.state.freeze().digest().hex()


def replay(
    store: Store, model: str, to: int | None = None, on_progress: Callable[[int, int], None] = lambda _done, _of: None
) -> ReplayReport:
    """Learn the log of `model` up to event `to` (default: its end), comparing with every retained generation passed.

    Starts from nothing where the log is whole, else from the oldest retained generation. Raises `LogGap`, `LogFork` or
    `Corrupt` where the log itself is damaged; a generation that does not verify is reported, not raised.
    """
    head = store.head(model)
    last = head.seq if to is None else min(to, head.seq)
    generations = [generation for generation in reversed(store.generations(model)) if generation.applied <= last]
    state, beside = _starting_state(store, model, head, generations)
    report = ReplayReport(model, state, state.applied, 0)
    report.compared += [_compare(store, model, generation, state) for generation in beside]
    call = in_this_thread(store)
    skips = frozenset(
        records.decode_skip(record.payload)[0] for record in read_log(call, model, state.applied) if record.kind == "skip"
    )
    core = Core(state.applied, state.chain, _NEVER, 0)
    wanted = itertools.takewhile(lambda record: record.first <= last, read_log(call, model, state.applied))
    for run in runs(wanted, {generation.applied for generation in generations}):
        core.logged_all(run)
        core.advanced(run[-1])
        batches: list[Batch] = []
        if run[-1].last > last:  # the record was checked whole; of it, only what comes first is learnt
            run, batches = _cut(run, last)
        state.apply_all(run, batches, skips)
        report.events += sum(record.count for record in run)
        passed = [generation for generation in generations if generation.applied == state.applied]
        report.compared += [_compare(store, model, generation, state) for generation in passed]
        on_progress(state.applied, last)
    if to is None and state.applied < head.seq:
        raise LogGap(f"{model}: the log ends at event {state.applied}, its head says {head.seq}")
    return report


def _cut(run: list[Record], last: int) -> tuple[list[Record], list[Batch]]:
    """Return observe records up to event `last`, inside the last of them, and their rows."""
    end = run[-1]
    short = [*run[:-1], replace(end, count=last - end.first + 1)]
    return short, [slice_rows(decode_batch(record.payload), 0, record.count) for record in short]


def _starting_state(store: Store, model: str, head: Head, generations: list[Generation]) -> tuple[ModelState, list[Generation]]:
    """Return the state to start from, and the other generations that no record leads to: those of the same event."""
    if head.first_seq == 1:
        return ModelState(model, head.lineage), []
    for generation in generations:
        if generation.applied < head.first_seq - 1:
            continue
        try:
            state = thaw_generation(generation, store.open_generation(model, generation.gen))
        except Corrupt:
            continue
        return state, [one for one in generations if one.applied == state.applied and one is not generation]
    raise LogGap(f"{model}: the log begins at event {head.first_seq} and no retained generation leads into it")


def _compare(store: Store, model: str, generation: Generation, state: ModelState) -> Compared:
    compared = Compared(generation.gen, generation.applied, generation.state_digest.hex(), state.freeze().digest().hex())
    try:
        stored = thaw_generation(generation, store.open_generation(model, generation.gen))
        compared.stored = stored.freeze().digest().hex()  # as this version writes it, which may know settings that came later
    except Corrupt as error:
        compared.problem = error.detail
    return compared


def in_this_thread(store: Store) -> Callable[[Callable[[Store], Any]], Future[Any]]:
    """Let code written for the store's thread run in this one."""

    def call(work: Callable[[Store], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(work(store))
        except BaseException as error:
            future.set_exception(error)
        return future

    return call
