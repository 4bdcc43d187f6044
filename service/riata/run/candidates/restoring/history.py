"""What a log says about going back to one of its events: what that undoes, and from where it can be reached.

Theory of operation
    One pass over the log collects the events that are no examples, and what they forget. A state after event T is reached

    from a generation     of an event up to T, by learning the log after it, if the log still has that
    from the beginning    if the log is complete
    without learning      if a generation is of exactly this event

    Rows that were forgotten after T are in every state of T that was stored, so such a T is reached only from the beginning of
    a complete log, without these rows (`relearning.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal, get_args

import numpy as np

from riata.base.arrays import I64
from riata.base.clock import rfc3339
from riata.run.log.effective_log import EffectiveLog, chain_at
from riata.run.log.event_times import record_of
from riata.run.log.log_reading import PACED_BYTES, Call, read_log
from riata.run.state.upgrades import Upgrade, UpgradesSeen
from riata.store import records
from riata.store.control_events import ControlEvents, ControlEventsSeen, forgotten_by
from riata.store.store import Generation, Head, Record

Kind = Literal["configurations", "restores", "promotions", "forgets"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
BEGINNING: Final = 0  # as a generation


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

    before   : the last event that was accepted before the moment asked for; 0 if there is none
    kinds    : the events of each kind that are no examples
    forgets  : each event that forgot rows, and these, i64[k], increasing
    upgrades : those in force
    """

    name: str
    head: Head
    last: int
    control: ControlEvents
    before: int = 0
    kinds: dict[Kind, list[int]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    forgets: list[tuple[int, I64]] = field(default_factory=list)
    upgrades: list[Upgrade] = field(default_factory=list)
    skips: frozenset[int] = frozenset()

    def is_tainted(self, event: int) -> bool:
        """Whether rows up to an event were forgotten after it."""
        return _is_tainted(event, self.forgets)

    def undone(self, to: int) -> dict[str, Any]:
        """Return what going back to event `to` undoes, as JSON, without times: events and how many of each kind."""
        now, then = self._effective(self.last), self._effective(to)
        lost, back = _without(now, then), _without(then, now)
        counts: dict[str, int] = {kind: len([event for event in found if event > to]) for kind, found in self.kinds.items()}
        return {
            "events": self._examples(lost),
            "from": int(lost[0, 0]) if len(lost) else None,
            "to": int(lost[-1, 1]) if len(lost) else None,
            "brought_back": self._examples(back),
            **counts,
        }

    def _effective(self, to: int) -> I64:
        """Return the spans of events that no restore undid after event `to`: i64[m, 2]."""
        restored = self.control.restored[self.control.restored[:, 0] <= to]
        log = EffectiveLog(self.head.first_seq, to, self.control._replace(restored=restored))
        return log.counted().spans

    def _examples(self, spans: I64) -> int:
        removed = np.setdiff1d(self.control.skipped, self.control.seq)
        count = 0
        for first, last in spans.tolist():
            low, high = np.searchsorted(removed, [first, last + 1]).tolist()
            count += last - first + 1 - self.control.between(first, last) - (high - low)
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


def read_history(call: Call, name: str, moment_ms: int | None, advance: Callable[[int], None]) -> History:
    """Read a log once, in parts that let appends pass.

    moment_ms : the moment whose last event before is wanted; None if an event was named
    advance   : called with the last event that was read
    """
    head: Head = call(lambda s: s.head(name)).result()
    seen, upgrades = ControlEventsSeen(head.lineage, partial(chain_at, call, name)), UpgradesSeen(call, head.first_seq - 1)
    found = History(name, head, head.first_seq - 1, seen.collected())
    skips: set[int] = set()
    for record in read_log(call, name, found.last, PACED_BYTES):
        seen.note(record)
        upgrades.note(record)
        found.last = record.last
        if moment_ms is not None and record.accepted_ms < moment_ms:
            found.before = record.last
        if record.kind == "skip":
            skips.add(records.decode_skip(record.payload)[0])
        elif record.kind == "config":
            found.kinds["configurations"].append(record.first)
        elif record.kind == "restore":
            _note_restore(found, record)
        advance(record.last)
    found.control, found.upgrades, found.skips = seen.collected(), upgrades.found, frozenset(skips)
    return found


def _note_restore(found: History, record: Record) -> None:
    if records.decode_through(record.payload) is None:
        found.kinds["restores"].append(record.first)
    elif len(rows := forgotten_by(record)):
        found.kinds["forgets"].append(record.first)
        found.forgets.append((record.first, rows))
    else:
        found.kinds["promotions"].append(record.first)


def with_times(call: Call, name: str, undone: dict[str, Any]) -> dict[str, Any]:
    """Return what is undone, with when its first and last event were accepted."""

    def time_of(event: int | None) -> str | None:
        record = None if event is None else call(partial(record_of, model=name, seq=event)).result()
        return None if record is None else rfc3339(record.accepted_ms)

    return {**undone, "from_time": time_of(undone["from"]), "to_time": time_of(undone["to"])}
