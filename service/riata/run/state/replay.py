"""Learn a stored log again, and compare with the stored states: does the log determine the bits?

A state that was learnt under another provenance than the present one (`provenance.py`) may differ although nothing is damaged.
Upgrade events carry such states, so from the last one on every bit has to be equal.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import numpy as np

from riata.base.errors import Corrupt, LogGap
from riata.run.candidates.learning import History, read_history
from riata.run.log.log_reading import Call, cut, joined, parts_without, read_again, read_log, runs
from riata.run.state.core import Core, Schedule
from riata.run.state.generations import thaw_generation
from riata.run.state.model_state import ModelState
from riata.run.state.provenance import Provenance, current, read_provenance
from riata.run.state.upgrades import Upgrade, carried_state
from riata.store import layout, records
from riata.store.control_events import forgotten_by
from riata.store.store import Generation, Head, Record, Store

T = TypeVar("T")
_NEVER = Schedule(2**31, 2**31, 2**31)


@dataclass(slots=True)
class Compared:
    """One stored state beside the one that the replay reached at the same event."""

    generation: int  # 0: an event carries it
    applied: int
    stored: str  # hex digest
    replayed: str
    problem: str = ""  # set if the checkpoint itself does not verify
    learnt_under: Provenance = field(default_factory=current)
    upgrade: int = 0  # number of the upgrade event, if one carries it
    forget: int = 0  # number of the event that forgets rows, if one carries it; the other state was learnt without these

    @property
    def equal(self) -> bool:
        return not self.problem and self.stored == self.replayed

    @property
    def comparable(self) -> bool:
        """False if the bits differ and were learnt under another version or with other arithmetic: this proves nothing."""
        return bool(self.problem) or self.equal or self.learnt_under == current()


@dataclass(frozen=True, slots=True)
class Span:
    """Events that were learnt under one provenance."""

    first: int
    last: int
    learnt_under: Provenance


@dataclass(slots=True)
class ReplayReport:
    """The result of a replay. `state` is the model after its last event."""

    model: str
    state: ModelState
    started_at: int  # 0: from the beginning; otherwise the event of the generation it had to start from
    events: int
    compared: list[Compared] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)  # oldest first; the last is the present one

    @property
    def equal(self) -> bool:
        """Whether every state compared holds the same bits. See `compared` for how many there were."""
        return all(one.equal for one in self.compared)

    @property
    def sound(self) -> bool:
        """Whether no comparable state differs, and everything stored verifies."""
        return all(one.equal or not one.comparable for one in self.compared)

    @property
    def digest(self) -> str:
        """Digest of the replayed state's content."""
        return self.state.freeze().digest().hex()


def replay(
    store: Store, model: str, to: int | None = None, on_progress: Callable[[int, int], None] = lambda _done, _of: None
) -> ReplayReport:
    """Learn the log of `model` up to event `to` (default: its end). Compares with every retained generation on the way, and with
    the state that each upgrade event carries; learning continues from that state.

    Forgotten rows are never learnt, so a generation that still contains some is not compared. The state that an event carries
    which forgets them is compared, unless an earlier event carried a state too, which had learnt them.

    Starts from an empty state if the log is complete, otherwise from the oldest retained generation. Raises `LogGap`, `LogFork`
    or `Corrupt` if the log itself is damaged; a generation that does not verify is reported, not raised.
    """
    head, call = store.head(model), in_this_thread(store)
    last = head.seq if to is None else min(to, head.seq)
    generations = [generation for generation in reversed(store.generations(model)) if generation.applied <= last]
    state, beside = _starting_state(store, model, head, generations)
    state.read_again = partial(read_again, call)
    report = ReplayReport(model, state, state.applied, 0)
    report.compared += [_compare(store, model, generation, state) for generation in beside]
    history = read_history(call, model)  # also checks the records that are kept but not replayed
    generations = [one for one in generations if not history.is_tainted(one.applied)]
    upgrades = {upgrade.at: upgrade for upgrade in history.upgrades if state.applied <= upgrade.at <= last}
    stops = upgrades.keys() | {generation.applied for generation in generations}
    core = Core(state.applied, state.chain, _NEVER, 0)
    is_pure = state.applied == 0  # whether every bit of the state was learnt here
    wanted = itertools.takewhile(lambda record: record.first <= last, read_log(call, model, state.applied))
    for run in itertools.chain([[]], runs(wanted, stops)):  # the first run is empty: an upgrade may be at the starting event
        if run:
            core.logged_all(run)
            core.advanced(run[-1])
            if is_pure and len(forgotten_by(run[0])):
                _forget(report, run[0], history)
            else:
                _apply(report, run, last, history)
                is_pure &= run[0].kind != "restore"
            passed = [generation for generation in generations if generation.applied == report.state.applied]
            report.compared += [_compare(store, model, generation, report.state) for generation in passed]
        if upgrade := upgrades.get(report.state.applied):
            _carry_over(call, report, upgrade)
            is_pure = False
        on_progress(report.state.applied, last)
    if to is None and report.state.applied < head.seq:
        raise LogGap(f"{model}: the log ends at event {report.state.applied}, but its head is at event {head.seq}")
    report.spans = list(_spans(report, list(upgrades.values())))
    return report


def _apply(report: ReplayReport, run: list[Record], last: int, history: History) -> None:
    run, batches = cut(run, last)
    rows, skips = history.forgotten_rows, frozenset(history.skips)
    low, high = np.searchsorted(rows, [run[0].first, run[-1].last + 1]).tolist()
    if run[0].kind == "observe" and high > low:
        first = run[0].first
        for batch in batches or joined(run, (), False):
            for start, kept in parts_without(first, batch, rows):
                report.state.learn(start, [kept], skips)
            first += batch.n
        report.state.applied, report.state.chain = run[-1].last, run[-1].chain
    else:
        report.state.apply_all(run, batches, skips)
    report.events += sum(record.count for record in run)


def _forget(report: ReplayReport, record: Record, history: History) -> None:
    """Go over an event that forgets rows, with a state that never learnt them. Compare it with the state that the event carries,
    unless that contains rows which were forgotten later."""
    state, digest = report.state, report.digest
    report.events += 1
    if history.is_tainted(record.first):
        state.restored, state.applied, state.chain = True, record.last, record.chain
        state.note_change(record.first)
        return
    state.apply(record)
    learnt_under = read_provenance(layout.checkpoint_header(records.decode_restore(record.payload)[1]))
    report.compared.append(Compared(0, record.first, report.digest, digest, "", learnt_under, forget=record.first))


def _carry_over(call: Call, report: ReplayReport, upgrade: Upgrade) -> None:
    """Compare with the state that `upgrade` carries, and continue from that state."""
    carried = carried_state(call, report.model, upgrade)
    digests = carried.freeze().digest().hex(), report.digest
    # The start that logged it learnt the events after its generation itself: so the other of the two may be the present one.
    learnt_under = upgrade.after if upgrade.before == current() else upgrade.before
    report.compared.append(Compared(0, upgrade.at, *digests, learnt_under=learnt_under, upgrade=upgrade.first))
    carried.read_again = report.state.read_again
    report.state = carried


def _spans(report: ReplayReport, upgrades: list[Upgrade]) -> Iterator[Span]:
    start = report.started_at + 1
    for upgrade in upgrades:
        yield Span(start, upgrade.at, upgrade.before)
        start = upgrade.at + 1
    stored = [one.learnt_under for one in report.compared if one.generation and one.applied >= start and not one.problem]
    newest = upgrades[-1].after if upgrades else (stored[-1] if stored else current())
    yield Span(start, report.state.applied, newest)


def _starting_state(store: Store, model: str, head: Head, generations: list[Generation]) -> tuple[ModelState, list[Generation]]:
    """Return the state to start from, and the other generations of the same event, which no record leads to."""
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
    raise LogGap(f"{model}: the log begins at event {head.first_seq}, and no retained snapshot reaches it")


def _compare(store: Store, model: str, generation: Generation, state: ModelState) -> Compared:
    compared = Compared(generation.gen, generation.applied, generation.state_digest.hex(), state.freeze().digest().hex())
    try:
        stored = thaw_generation(generation, store.open_generation(model, generation.gen))
        compared.stored = stored.freeze().digest().hex()  # as this version writes it, which may have newer settings
        compared.learnt_under = stored.learnt_under
    except Corrupt as error:
        compared.problem = error.detail
    return compared


def in_this_thread(store: Store) -> Call:
    """Return a `Call` that runs code written for the store's thread in this thread."""

    def call(work: Callable[[Store], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(work(store))
        except BaseException as error:
            future.set_exception(error)
        return future

    return call
