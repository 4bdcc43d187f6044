"""The state that a model would have if rows of some subjects had never been in its log.

Theory of operation
    Two passes over the log. The first finds out which events count (`effective_log.py`) and what was forgotten before. The second
    learns from an empty state what counts, without the rows of the subjects: not as rows that are skipped, which are counted, but
    as if they had never been sent. Only their numbers remain, as numbers of events are those of the log.

    States that the log carries were learnt with those rows, so they are learnt again too:

    a restore to an earlier event   what counted then counts; nothing else has to be done
    an upgrade                      is left out: the present version learns everything
    a promotion by `forget`         is left out: what it forgot is left out again
    a promotion of a refit          is taken if none of the rows was in its data, otherwise left out, and reported
    a promotion of a challenger     likewise; if it is left out, the log is learnt from its beginning under the settings in force
    an import                       is taken: nobody can tell whose rows were in it. It undoes what was before it

    A log that was trimmed is learnt from its oldest event on, under the settings in force, as former ones may have been trimmed,
    and without promotions. What was trimmed is then no longer in the model, whomever it belonged to.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import numpy as np

from riata.base.arrays import BOOL, I64
from riata.base.errors import Busy
from riata.run.files.fit import unlogged
from riata.run.log.effective_log import EffectiveLog, chain_at
from riata.run.log.log_reading import PACED_BYTES, Call, read_again, read_log
from riata.run.log.row_groups import joined, parts_without
from riata.run.state.config import ModelConfig, change_from_payload, config_payload
from riata.run.state.config_changes import config_in
from riata.run.state.model_state import ModelState
from riata.run.writer.turn_size import runs
from riata.store import records
from riata.store.control_events import NOT_OF_THIS_LOG, ControlEventsSeen, Counted, forgotten_by
from riata.store.store import Head, Record
from riata.wire.batch import Batch

CHANGED: Final = "changed_meanwhile"


@dataclass(slots=True)
class Relearnt:
    """A state, and what was left out of it.

    forgotten : numbers of the events of the subjects that were not forgotten before, increasing
    unlearnt  : how many of these counted before
    examples  : how many events counted before
    undone    : promotions of refits that were left out
    first     : the oldest event that the log still has
    earlier   : the last event that forgot rows before; 0 if there is none
    """

    state: ModelState
    first: int
    forgotten: list[int] = field(default_factory=list)
    unlearnt: int = 0
    examples: int = 0
    undone: list[int] = field(default_factory=list)
    earlier: int = 0


class _Log:
    """What the first pass found."""

    def __init__(self, call: Call, name: str, to: int | None, advance: Callable[[int], None]) -> None:
        """to: the event whose state is wanted; what forgets or skips rows after it holds all the same"""
        self.head: Head = call(lambda s: s.head(name)).result()
        seen = ControlEventsSeen(self.head.lineage, partial(chain_at, call, name))
        skips: set[int] = set()
        configs: list[tuple[int, ModelConfig]] = []
        self.forgets: list[tuple[int, I64]] = []  # event, and the rows that it forgot
        last = self.head.first_seq - 1
        for record in read_log(call, name, last, PACED_BYTES):
            if to is None or record.first <= to:
                seen.note(record)
                last = record.last if to is None else min(record.last, to)
                advance(last)
                if to is not None and (config := config_in(record)) is not None:
                    configs.append((record.first, config))
            if record.kind == "skip":
                skips.add(records.decode_skip(record.payload)[0])
            elif record.kind == "restore" and len(rows := forgotten_by(record)):
                self.forgets.append((record.first, rows))
        control = seen.collected()
        self.skips = frozenset(skips)
        self.last, self.is_open = last, to is None
        self.spans = EffectiveLog(self.head.first_seq, last, control).counted().spans
        self.restored = dict(control.restored.tolist())
        self.in_force = set(_in_force(control.restored, last))
        counting = [config for event, config in configs if self.counts(event) or event in self.in_force]
        self.in_force_then = counting[-1] if counting else None  # at the event `to`
        self.known: I64 = np.unique(np.concatenate([np.zeros(0, np.int64), *(rows for _, rows in self.forgets)]))

    def counts(self, event: int) -> bool:
        """Whether no restore undid an event. Those after the first pass were undone by nothing."""
        at = int(np.searchsorted(self.spans[:, 0], event, "right")) - 1
        return (self.is_open and event > self.last) or (at >= 0 and event <= int(self.spans[at, 1]))

    def undone(self, first: int, count: int) -> I64:
        """Return which of the events first, first + 1, ... do not count, increasing."""
        events = np.arange(first, first + count)
        counted: BOOL = Counted(self.spans, self.known[:0]).mask(events)
        return events[~counted & (events <= self.last)] if self.is_open else events[~counted]


def _in_force(restored: I64, last: int) -> list[int]:
    """Return the restores that no later one undid."""
    found, end = [], last
    while end > 0 and (at := int(np.searchsorted(restored[:, 0], end, "right")) - 1) >= 0:
        found.append(int(restored[at, 0]))
        end = int(restored[at, 1])
    return found


class _OtherSettings(Exception):
    """A promotion that has to be left out changed the settings of the learner."""


class Relearning:
    """Learns a log again without the rows of some subjects. For one thread."""

    def __init__(
        self,
        call: Call,
        name: str,
        rows: tuple[Sequence[bytes], int],
        in_force: ModelConfig,
        advance: Callable[[float], None] = lambda _share: None,
        to: int | None = None,
    ) -> None:
        """rows: subjects, 16 bytes each, as `wire.store_context.digests_of` makes them, and the last event that may be forgotten.
        in_force: the present configuration. advance: called with the share of the work that is done. to: the event whose state is
        wanted, None for the end of the log."""
        self._call, self._name, self._advance = call, name, advance
        self._to = to
        self._subjects, self._last = np.frombuffer(b"".join(rows[0]), "V16"), rows[1]
        self._log = _Log(call, name, to, partial(self._passed, 0))
        self._in_force = self._log.in_force_then or in_force
        self._restarted = False
        self._begin(one_configuration=self._log.head.first_seq > 1)

    def _begin(self, one_configuration: bool) -> None:
        """Begin with an empty state. one_configuration: under the present one; those that the log sets are left out."""
        head = self._log.head
        self._classes: tuple[str, ...] = ()
        self._one_configuration = one_configuration
        self.found = Relearnt(ModelState(self._name, head.lineage), head.first_seq)
        self.found.earlier = max((event for event, _ in self._log.forgets), default=0)
        state = self.found.state
        state.read_again = partial(read_again, self._call)
        if one_configuration:
            state.apply(unlogged(state, "config", 1, config_payload(self._in_force, after=0)))
            state.changes, state.applied = (), head.first_seq - 1

    def catch_up(self) -> Relearnt:
        """Learn up to the present end of the log. Raises `Busy` (code `changed_meanwhile`) if the state was replaced after the
        first pass, and what reading the log raises."""
        try:
            self._read()
        except _OtherSettings:
            self._restarted = True
            self._begin(one_configuration=True)
            self._read()
        return self.found

    def _passed(self, whole: int, event: int) -> None:
        """Report that the log was read `whole` times, and up to an event. It is read twice."""
        self._advance(min(1.0, (whole + event / max(1, self._last if self._to is None else self._to)) / 2))

    def _read(self) -> None:
        read: Iterable[Record] = read_log(self._call, self._name, self.found.state.applied, PACED_BYTES)
        if (to := self._to) is not None:
            read = itertools.takewhile(lambda record: record.first <= to, read)
        for run in runs(read):
            if run[0].kind == "observe":
                self._learn(run)
            else:
                self._control(run[0])
            self._passed(1, run[-1].last)

    def _learn(self, run: list[Record]) -> None:
        found, state, first = self.found, self.found.state, run[0].first
        for batch in joined(run, (), False):
            low, high = np.searchsorted(self._log.known, [first, first + batch.n]).tolist()
            known, undone = self._log.known[low:high], self._log.undone(first, batch.n)
            theirs = np.setdiff1d(first + np.flatnonzero(self._of_subjects(batch)), known)
            theirs = theirs[theirs <= self._last]
            found.forgotten += theirs.tolist()
            found.unlearnt += len(np.setdiff1d(theirs, undone))
            found.examples += batch.n - len(np.union1d(known, undone))
            for start, rows in parts_without(first, batch, np.unique(np.concatenate([theirs, known, undone]))):
                state.learn(start, [rows], self._log.skips)
            first += batch.n
        last = run[-1].last
        state.applied, state.chain = last if self._to is None else min(last, self._to), run[-1].chain

    def _of_subjects(self, batch: Batch) -> BOOL:
        if batch.subject is None:
            return np.zeros(batch.n, np.bool_)
        found: BOOL = np.isin(np.ascontiguousarray(batch.subject).view("V16")[:, 0], self._subjects)
        return found

    def _control(self, record: Record) -> None:
        state, first = self.found.state, record.first
        if record.kind == "config":
            change = change_from_payload(record.payload)
            self._classes = max(self._classes, change.config.classes.names, key=len)
            if self._one_configuration:
                state.note_change(first)
            elif self._log.counts(first) or state.applied == 0:
                state.apply(record)
        elif record.kind == "restore":
            self._restore(record)
        state.applied, state.chain = record.last, record.chain

    def _restore(self, record: Record) -> None:
        state, event = self.found.state, record.first
        through = records.decode_through(record.payload)
        if through is None:
            if event > self._log.last:
                raise Busy(f"event {event} put another state in place while the log was learnt again; try again", CHANGED)
            if event not in self._log.in_force:
                return
            if self._log.restored[event] == NOT_OF_THIS_LOG:
                state.apply(record)
                self._one_configuration = False  # that of the import, and what changed since
                return
            known = state.config.classes.names
            if self._classes[: len(known)] == known:  # numbers of classes are for ever
                state.know_classes(replace(state.config.classes, names=self._classes))
            state.restored = True
            state.note_change(event)
        elif self._log.counts(event) and not (state.changes and state.changes[-1] > through.seq):
            forgot = len(forgotten_by(record)) > 0
            if not (forgot or self._one_configuration or self._is_tainted(event)):
                state.apply(record, skips=self._log.skips)
                return
            promoted = config_in(record)
            if promoted is not None and promoted.learner != state.config.learner and not self._restarted:
                raise _OtherSettings
            self.found.undone += [] if forgot else [event]
            state.restored = True
            state.note_change(event)

    def _is_tainted(self, event: int) -> bool:
        """Whether a promotion was made with rows that are forgotten now, or were forgotten after it."""
        later = [rows for at, rows in self._log.forgets if at > event]
        return bool(self.found.forgotten) or any(int(rows[0]) <= event for rows in later)
