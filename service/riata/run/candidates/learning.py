"""Learning a log aside: what it says of its past, the state after one of its events, and the state without some rows.

Theory of operation
    One pass (`read_history`) collects the events that are no examples, and what they forget. A state after event T is then
    reached (`state_at`)

    from a generation     of an event up to T, by learning the log after it, if the log still has that
    from the beginning    if the log is complete
    without learning      if a generation is of exactly this event

    Rows that were forgotten after T are in every state of T that was stored, so such a T is reached only from the beginning of
    a complete log, without these rows. `Relearning` does that, for some subjects or for what was forgotten before.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Literal, get_args

import numpy as np

from riata.base.arrays import BOOL, I64, distinct
from riata.base.clock import rfc3339
from riata.base.errors import Busy, Conflict, Corrupt, LogGap, NotFound
from riata.run.log.effective_log import EffectiveLog, read_effective_log
from riata.run.log.event_times import record_of
from riata.run.log.log_reading import PACED_BYTES, Again, Call, cut, joined, parts_without, read_again, read_log, runs
from riata.run.state.config import ModelConfig, change_from_payload
from riata.run.state.config_changes import config_in
from riata.run.state.generations import thaw_generation
from riata.run.state.model_state import ModelState, begun
from riata.run.state.upgrades import Upgrade, UpgradesSeen, carried_state
from riata.store import records
from riata.store.control_events import NOT_OF_THIS_LOG, Counted, forgotten_by
from riata.store.store import Generation, Head, Record, Store
from riata.wire.batch import Batch

Kind = Literal["configurations", "restores", "promotions", "forgets"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
BEGINNING: Final = 0  # as a generation
CHANGED: Final = "changed_meanwhile"


@dataclass(frozen=True, slots=True)
class Reach:
    """Which events a model can go back to.

    since   : every event from this one on; None if there is none
    exactly : besides, these events alone, each with its generation: the log after them is trimmed
    """

    since: int | None
    exactly: dict[int, int]

    def sentence(self) -> str:
        """Return it for people."""
        points = [f"exactly event {event} (snapshot {gen})" for event, gen in sorted(self.exactly.items())]
        points += [] if self.since is None else [f"any event from {self.since} on"]
        return "; ".join(points) or "no event"

    def document(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "since": self.since,
            "exactly": [{"seq": event, "generation": gen} for event, gen in sorted(self.exactly.items())],
        }


def reach(head: Head, generations: Sequence[Generation], forgets: Sequence[tuple[int, I64]] = ()) -> Reach:
    """Return which events can be reached.

    forgets : each event that forgot rows, and these, as far as known
    """
    verified = {one.applied: one.gen for one in reversed(generations) if one.verified and not _is_tainted(one.applied, forgets)}
    if head.first_seq == 1:
        return Reach(min(1, head.seq) or None, {})
    after = [event for event in verified if event >= head.first_seq - 1]
    since = min(after, default=None)
    if since is not None:
        since = max(since, *(event for event, rows in forgets if int(rows[0]) < event), since)
    return Reach(since, {event: gen for event, gen in verified.items() if since is None or event < since})


def _is_tainted(event: int, forgets: Sequence[tuple[int, I64]]) -> bool:
    return any(int(rows[0]) <= event < at for at, rows in forgets)


@dataclass(slots=True)
class History:
    """What one pass over a log found.

    log      : which of its events count, now and after each of them
    before   : the last event that was accepted before the moment asked for; 0 if there is none
    kinds    : the events of each kind that are no examples
    forgets  : each event that forgot rows, and these, i64[k], increasing
    forgotten_rows : all of them, increasing
    skips    : the events that skip events remove
    upgrades : those in force
    """

    name: str
    head: Head
    log: EffectiveLog = field(init=False)
    before: int = 0
    kinds: dict[Kind, list[int]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    forgets: list[tuple[int, I64]] = field(default_factory=list)
    forgotten_rows: I64 = field(init=False)
    skips: set[int] = field(default_factory=set)
    upgrades: list[Upgrade] = field(default_factory=list)

    @property
    def last(self) -> int:
        """The end of the log."""
        return self.log.last

    def is_tainted(self, event: int) -> bool:
        """Whether rows up to an event were forgotten after it."""
        return _is_tainted(event, self.forgets)

    def undone(self, to: int) -> dict[str, Any]:
        """Return what going back to event `to` undoes, as JSON, without times: events and how many of each kind."""
        now, then = self.log.counted().spans, self.log.at(to).counted().spans
        lost, back = _without(now, then), _without(then, now)
        counts: dict[str, int] = {kind: len([event for event in found if event > to]) for kind, found in self.kinds.items()}
        return {
            "events": self._examples(lost),
            "from": int(lost[0, 0]) if len(lost) else None,
            "to": int(lost[-1, 1]) if len(lost) else None,
            "brought_back": self._examples(back),
            **counts,
        }

    def note(self, record: Record) -> None:
        """Note what a record says, but for what is in `log`."""
        if record.kind == "skip":
            self.skips.add(records.decode_skip(record.payload)[0])
        elif record.kind == "config":
            self.kinds["configurations"].append(record.first)
        elif record.kind == "restore" and records.decode_through(record.payload) is None:
            self.kinds["restores"].append(record.first)
        elif record.kind == "restore" and len(rows := forgotten_by(record)):
            self.kinds["forgets"].append(record.first)
            self.forgets.append((record.first, rows))
        elif record.kind == "restore":
            self.kinds["promotions"].append(record.first)

    def _examples(self, spans: I64) -> int:
        control = self.log.control
        removed = np.setdiff1d(control.skipped, control.seq)
        count = 0
        for first, last in spans.tolist():
            low, high = np.searchsorted(removed, [first, last + 1]).tolist()
            count += last - first + 1 - control.between(first, last) - (high - low)
        return count


def _without(spans: I64, others: I64) -> I64:
    """Return the parts of spans that are in none of `others`; both increase."""
    left: list[tuple[int, int]] = []
    for start, stop in spans.tolist():
        first = start
        for low, high in others.tolist():
            if high < first or low > stop:
                continue
            if low > first:
                left.append((first, low - 1))
            first = high + 1
        if first <= stop:
            left.append((first, stop))
    return np.array(left, np.int64).reshape(-1, 2)


def read_history(
    call: Call, name: str, moment_ms: int | None = None, advance: Callable[[int], None] = lambda _event: None
) -> History:
    """Read a log once, in parts that let appends pass.

    moment_ms : the moment whose last event before is wanted; None if an event was named
    advance   : called with the last event that was read
    """
    found = History(name, call(lambda s: s.head(name)).result())
    upgrades = UpgradesSeen(call, found.head.first_seq - 1)

    def note(record: Record) -> None:
        found.note(record)
        upgrades.note(record)
        if moment_ms is not None and record.accepted_ms < moment_ms:
            found.before = record.last
        advance(record.last)

    found.log, found.upgrades = read_effective_log(call, name, (), PACED_BYTES, note), upgrades.found
    found.forgotten_rows = distinct(np.concatenate([np.zeros(0, np.int64), *(rows for _, rows in found.forgets)]))
    return found


def with_times(call: Call, name: str, undone: dict[str, Any]) -> dict[str, Any]:
    """Return what is undone, with when its first and last event were accepted."""

    def time_of(event: int | None) -> str | None:
        record = None if event is None else call(partial(record_of, model=name, seq=event)).result()
        return None if record is None else rfc3339(record.accepted_ms)

    return {**undone, "from_time": time_of(undone["from"]), "to_time": time_of(undone["to"])}


# The state of a model after one of its events, from the nearest stored state and the log.


@dataclass(frozen=True, slots=True)
class Reached:
    """A state, and where it was learnt from.

    generation : BEGINNING if it was learnt from the first event on
    relearnt   : whether it was learnt again without rows that were forgotten since
    undone     : promotions that were made with such rows and are left out
    """

    state: ModelState
    generation: int
    relearnt: bool = False
    undone: tuple[int, ...] = ()


def state_at(call: Call, history: History, to: int, in_force: ModelConfig, advance: Callable[[float], None]) -> Reached:
    """Return the state of a model after event `to`, as if it had stopped there, without the rows that were forgotten since.

    history  : of its log, as of now
    in_force : its present configuration
    advance  : called with the share of the work that is done

    Raises `Conflict` (code `not_reachable`) with what can be reached, and what reading the log raises.
    """
    name = history.name
    generations: list[Generation] = call(lambda s: s.generations(name)).result()
    if to < 1 or to > history.last:
        raise unreachable(history, generations, f"event {to}", f"the log ends at event {history.last}")
    if history.is_tainted(to):
        if history.head.first_seq > 1:
            why = "rows were forgotten since, and the log no longer has all events to learn it again without them"
            raise unreachable(history, generations, f"event {to}", why)
        found = Relearning(call, history, ((), 0), in_force, advance, to).catch_up()
        return Reached(found.state, BEGINNING, True, tuple(found.undone))
    nearest, gen = _nearest(call, history, generations, to)
    return Reached(_learn(call, history, nearest, to, advance), gen)


def _nearest(call: Call, history: History, generations: list[Generation], to: int) -> tuple[ModelState, int]:
    """Return the stored state nearest to event `to`, not after it, and its generation."""
    first, name = history.head.first_seq, history.name
    for one in sorted(generations, key=lambda one: (one.applied, one.gen), reverse=True):
        if one.applied > to or not one.verified or (one.applied < first - 1 and one.applied != to):
            continue
        try:
            return thaw_generation(one, call(partial(_content, name=name, gen=one.gen)).result()), one.gen
        except (Corrupt, NotFound):
            continue  # it is damaged, or was deleted meanwhile: the one before leads to the same state
    if first > 1:
        raise unreachable(history, generations, f"event {to}", f"the log begins at event {first}")
    return ModelState(name, history.head.lineage), BEGINNING


def _content(store: Store, name: str, gen: int) -> bytes:
    return store.open_generation(name, gen)


def _learn(call: Call, history: History, state: ModelState, to: int, advance: Callable[[float], None]) -> ModelState:
    """Learn the log after a state, up to event `to`, which may be inside a record. Returns the state reached: another one if an
    upgrade of the log carries it."""
    name, begun, skips = state.name, state.applied, frozenset(history.skips)
    upgrades = {upgrade.at: upgrade for upgrade in history.upgrades if begun <= upgrade.at <= to}
    read = read_log(call, name, begun, PACED_BYTES) if begun < to else ()
    wanted = itertools.takewhile(lambda record: record.first <= to, read)
    for run in itertools.chain([[]], runs(wanted, upgrades)):  # the first is empty: an upgrade may be of the event begun at
        if run:
            state.read_again = partial(_read_again, call, history)
            kept, batches = cut(run, to)
            state.apply_all(kept, batches, skips)
        if state.applied in upgrades:
            state = carried_state(call, name, upgrades[state.applied])
        advance((state.applied - begun) / max(1, to - begun))
    if state.applied != to:
        raise LogGap(f"{name}: the log ends at event {state.applied}, before event {to}")
    return state


def _read_again(call: Call, history: History, promotion: Record, through: records.Through) -> Again | None:
    """Read what a promoted state learns again. What is trimmed now need not have been when it was promoted."""
    if through.seq < history.head.first_seq - 1:
        raise LogGap(f"{promotion.model}: the log no longer has the events that were learnt again at event {promotion.first}")
    return read_again(call, promotion, through)


def unreachable(history: History, generations: Sequence[Generation], what: str, why: str) -> Conflict:
    """The error for an event or a moment that cannot be reached. It says what can be."""
    can = reach(history.head, generations, history.forgets).sentence()
    return Conflict(f"model {history.name} cannot go back to {what}: {why}; it can go back to {can}", "not_reachable")


# The state that a model would have if rows of some subjects had never been in its log.
#
# Theory of operation
#     It learns from an empty state what counts (`History`), without the rows of the subjects: not as rows that are skipped, which
#     are counted, but as if they had never been sent. Only their numbers remain, as numbers of events are those of the log.
#
#     States that the log carries were learnt with those rows, so they are learnt again too:
#
#     a restore to an earlier event   what counted then counts; nothing else has to be done
#     an upgrade                      is left out: the present version learns everything
#     a promotion by `forget`         is left out: what it forgot is left out again
#     a promotion of a refit          is taken if none of the rows was in its data, otherwise left out, and reported
#     a promotion of a challenger     likewise; if it is left out, the log is learnt from its start under the settings in force
#     an import                       is taken: nobody can tell whose rows were in it. It undoes what was before it
#
#     A log that was trimmed is learnt from its oldest event on, under the settings in force, as former ones may have been
#     trimmed, and without promotions. What was trimmed is then no longer in the model, whomever it belonged to.


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


class _OtherSettings(Exception):
    """A promotion that has to be left out changed the settings of the learner."""


class Relearning:
    """Learns a log again without the rows of some subjects. For one thread."""

    def __init__(
        self,
        call: Call,
        history: History,
        rows: tuple[Sequence[bytes], int],
        in_force: ModelConfig,
        advance: Callable[[float], None],
        to: int | None = None,
    ) -> None:
        """history: of the log. rows: subjects, 16 bytes each, as `wire.parse.digests_of` makes them, and the last event
        that may be forgotten. in_force: the present configuration. advance: called with the share of the work that is done.
        to: the event whose state is wanted, None for the end of the log. What forgets or skips rows after it holds all the
        same."""
        self._call, self._history, self._advance, self._to = call, history, advance, to
        self._subjects, self._last = np.frombuffer(b"".join(rows[0]), "V16"), rows[1]
        self._skips, self._known = frozenset(history.skips), history.forgotten_rows
        log = history.log if to is None else history.log.at(to)
        self._end, self._spans = log.last, log.counted().spans
        self._restored: dict[int, int] = dict(log.control.restored.tolist())
        self._standing = {restore for restore, _ in log.standing()}
        self._in_force = in_force if to is None else self._config_at(to) or in_force
        self._restarted = False
        self._begin(one_configuration=log.first > 1)

    def _config_at(self, to: int) -> ModelConfig | None:
        """Return the configuration that the log set last up to event `to`; None if it has none."""
        control = self._history.log.control.seq
        for event in reversed(control[control <= to].tolist()):
            if self._counts(event) or event in self._standing:
                record = self._call(partial(record_of, model=self._history.name, seq=event)).result()
                if record is not None and (config := config_in(record)) is not None:
                    return config
        return None

    def _counts(self, event: int) -> bool:
        """Whether no restore undid an event. Those after the history was read were undone by nothing."""
        at = int(np.searchsorted(self._spans[:, 0], event, "right")) - 1
        return (self._to is None and event > self._end) or (at >= 0 and event <= int(self._spans[at, 1]))

    def _undone(self, first: int, count: int) -> I64:
        """Return which of the events first, first + 1, ... do not count, increasing."""
        events = np.arange(first, first + count)
        counted = Counted(self._spans, self._known[:0]).mask(events)
        return events[~counted & (events <= self._end)] if self._to is None else events[~counted]

    def _begin(self, one_configuration: bool) -> None:
        """Begin with an empty state. one_configuration: under the present one; those that the log sets are left out."""
        name, head = self._history.name, self._history.head
        self._classes: tuple[str, ...] = ()
        self._one_configuration = one_configuration
        state = begun(self._in_force, name, head.lineage) if one_configuration else ModelState(name, head.lineage)
        if one_configuration:
            state.changes, state.applied = (), head.first_seq - 1
        state.read_again = partial(read_again, self._call)
        self.found = Relearnt(state, head.first_seq, earlier=max((event for event, _ in self._history.forgets), default=0))

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

    def _read(self) -> None:
        read: Iterable[Record] = read_log(self._call, self._history.name, self.found.state.applied, PACED_BYTES)
        if (to := self._to) is not None:
            read = itertools.takewhile(lambda record: record.first <= to, read)
        for run in runs(read):
            if run[0].kind == "observe":
                self._learn(run)
            else:
                self._control(run[0])
            self._advance(min(1.0, run[-1].last / max(1, self._end)))

    def _learn(self, run: list[Record]) -> None:
        found, state, first = self.found, self.found.state, run[0].first
        for batch in joined(run, (), False):
            low, high = np.searchsorted(self._known, [first, first + batch.n]).tolist()
            known, undone = self._known[low:high], self._undone(first, batch.n)
            theirs = np.setdiff1d(first + np.flatnonzero(self._of_subjects(batch)), known)
            theirs = theirs[theirs <= self._last]
            found.forgotten += theirs.tolist()
            found.unlearnt += len(np.setdiff1d(theirs, undone))
            found.examples += batch.n - len(np.union1d(known, undone))
            for start, rows in parts_without(first, batch, distinct(np.concatenate([theirs, known, undone]))):
                state.learn(start, [rows], self._skips)
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
            elif self._counts(first) or state.applied == 0:
                state.apply(record)
        elif record.kind == "restore":
            self._restore(record)
        state.applied, state.chain = record.last, record.chain

    def _restore(self, record: Record) -> None:
        state, event = self.found.state, record.first
        through = records.decode_through(record.payload)
        if through is None:
            if event > self._end:
                raise Busy(f"event {event} put another state in place while the log was learnt again; try again", CHANGED)
            if event not in self._standing:
                return
            if self._restored[event] == NOT_OF_THIS_LOG:
                state.apply(record)
                self._one_configuration = False  # that of the import, and what changed since
                return
            known = state.config.classes.names
            if self._classes[: len(known)] == known:  # numbers of classes are for ever
                state.know_classes(replace(state.config.classes, names=self._classes))
            state.restored = True
            state.note_change(event)
        elif self._counts(event) and not (state.changes and state.changes[-1] > through.seq):
            forgot = len(forgotten_by(record)) > 0
            if not (forgot or self._one_configuration or self._is_tainted(event)):
                state.apply(record, skips=self._skips)
                return
            promoted = config_in(record)
            if promoted is not None and promoted.learner != state.config.learner and not self._restarted:
                raise _OtherSettings
            self.found.undone += [] if forgot else [event]
            state.restored = True
            state.note_change(event)

    def _is_tainted(self, event: int) -> bool:
        """Whether a promotion was made with rows that are forgotten now, or were forgotten after it."""
        later = [rows for at, rows in self._history.forgets if at > event]
        return bool(self.found.forgotten) or any(int(rows[0]) <= event for rows in later)
