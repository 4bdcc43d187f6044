"""Control events: the events of a log that are not examples, and what they say about other events.

Three facts about a range of a log decide which of its events count as examples: which events are not examples at all
(configurations, skips, restores, upgrades, repairs), which events skip events remove, and which state each restore put in place.
They are few, so they are kept beside the examples, so that no log has to be read twice to know them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from riata.base.arrays import BOOL, I64, distinct
from riata.base.errors import Corrupt
from riata.store import layout, records
from riata.store.store import Record

ChainAt = Callable[[int], bytes | None]
FORGET: Final = "forget"  # key of the source of a `restore` record that forgets events
NOT_OF_THIS_LOG: Final = 0  # as the event that a restore returned to: no earlier event of this log is in the state


class ControlEvents(NamedTuple):
    """The control events of a range of a log.

    seq      : i64[k]     their numbers, increasing
    skipped  : i64[s]     events that skip events of the range remove, and those that it forgets, increasing; they may lie before
                          the range
    restored : i64[r, 2]  restore event, and the event after which the state was that it put in place; NOT_OF_THIS_LOG for a
                          state of another log
    """

    seq: I64
    skipped: I64
    restored: I64

    def between(self, first: int, last: int) -> int:
        """Return how many control events there are among the events first..last."""
        low, high = np.searchsorted(self.seq, [first, last + 1]).tolist()
        return int(high - low)


class Counted(NamedTuple):
    """Which events count.

    spans   : i64[m, 2]  first and last event of each span, increasing and disjoint; an event outside does not count
    skipped : i64[s]     events that do not count although they are in a span, increasing
    """

    spans: I64
    skipped: I64

    def mask(self, seq: I64) -> BOOL:
        """Return for each of these events whether it counts: bool[n]."""
        at = np.searchsorted(self.spans[:, 0], seq, "right") - 1
        counts: BOOL = (at >= 0) & ~_among(self.skipped, seq)
        if len(self.spans):
            counts &= seq <= self.spans[np.maximum(at, 0), 1]
        return counts


def _among(wanted: I64, seq: I64) -> BOOL:
    """Return for each event whether it is one of `wanted`, which increases."""
    if not len(wanted):
        return np.zeros(len(seq), np.bool_)
    at = np.minimum(np.searchsorted(wanted, seq), len(wanted) - 1)
    found: BOOL = wanted[at] == seq
    return found


def forget_source(events: Sequence[int]) -> dict[str, Any]:
    """Return what the `restore` record that forgets these events says of them: their numbers as spans."""
    spans: list[list[int]] = []
    for event in events:
        if spans and event == spans[-1][1] + 1:
            spans[-1][1] = event
        else:
            spans.append([event, event])
    return {FORGET: {"rows": len(events), "events": spans}}


def forgotten_by(record: Record) -> I64:
    """Return the events that a `restore` record forgets, i64[k], increasing: it carries a state that was learnt without them.
    Empty for any other record. Raises `Corrupt`."""
    if record.kind != "restore" or records.decode_through(record.payload) is None:
        return np.zeros(0, np.int64)
    forget = records.decode_source(record.payload).get(FORGET)
    if forget is None:
        return np.zeros(0, np.int64)
    try:
        spans = [(first, last) for first, last in forget["events"]]
    except (KeyError, TypeError, ValueError):
        spans = [(0, 0)]
    ends = [end for span in spans for end in span]
    if not all(type(end) is int and 0 < end < record.first for end in ends) or ends != sorted(ends):
        raise Corrupt(f"event {record.first} forgets events that it does not name")
    return np.concatenate([np.zeros(0, np.int64), *(np.arange(first, last + 1) for first, last in spans)])


class ControlEventsSeen:
    """Collects the control events of a log from its records, in order.

    chain_at : returns the chain of the log after the record with an event; None if the log no longer has that event
    """

    def __init__(self, lineage: bytes, chain_at: ChainAt) -> None:
        self._lineage = lineage
        self._chain_at = chain_at
        self._seq: list[int] = []
        self._skipped: set[int] = set()
        self._restored: list[tuple[int, int]] = []

    def note(self, record: Record) -> None:
        """Read the next record. Raises `Corrupt` if it is of a kind that this program does not know."""
        if record.kind == "observe":
            return
        if record.kind not in records.KIND_CODES:
            raise Corrupt(f"event {record.first} is of kind {record.kind!r}, which this version does not know")
        self._seq += range(record.first, record.last + 1)
        if record.kind == "skip":
            self._skipped.add(records.decode_skip(record.payload)[0])
        elif record.kind == "restore" and records.decode_through(record.payload) is None:  # a promotion undoes no event
            self._restored.append((record.first, self._returned_to(record)))
        elif record.kind == "restore":
            self._skipped.update(forgotten_by(record).tolist())

    def add(self, more: ControlEvents) -> None:
        """Add what was collected of the events that follow."""
        self._seq += more.seq.tolist()
        self._skipped.update(more.skipped.tolist())
        self._restored += [(event, returned_to) for event, returned_to in more.restored.tolist()]

    def collected(self) -> ControlEvents:
        """Return what was noted so far."""
        skipped = np.array(sorted(self._skipped), np.int64)
        return ControlEvents(np.array(self._seq, np.int64), skipped, np.array(self._restored, np.int64).reshape(-1, 2))

    def _returned_to(self, record: Record) -> int:
        """Return the event after which the state was that a restore put in place."""
        header, _ = layout.view_checkpoint(records.decode_restore(record.payload)[1])
        applied, chain, lineage = (header.get(key) for key in ("applied", "chain", "lineage"))
        if type(applied) is not int or not isinstance(chain, str):
            raise Corrupt(f"event {record.first} restores a state that does not say of which event it is")
        if lineage != self._lineage.hex() or not 0 <= applied < record.first:
            return NOT_OF_THIS_LOG
        known = self._chain_at(applied)  # after a rollback of a shared store, the same number is another event
        return applied if known is None or known.hex() == chain else NOT_OF_THIS_LOG


NO_CONTROL_EVENTS: Final = ControlEventsSeen(b"", lambda _event: None).collected()


def joined(parts: Sequence[ControlEvents]) -> ControlEvents:
    """Return the control events of consecutive ranges of a log as those of one range."""
    columns: list[Any] = [np.concatenate(column) for column in zip(*parts, strict=True)] if parts else [*NO_CONTROL_EVENTS]
    return ControlEvents(columns[0], distinct(columns[1]), columns[2])
