"""The effective log: which events of a model count as examples, and how many there are.

Theory of operation
    An example counts unless a skip event removes it, or a restore undid it. A restore at event R puts the state after event C in
    place, so exactly what counted after C counts after R, and C + 1 .. R - 1 do not. C may lie before an earlier restore, or
    after it: a restore of a state from before another restore brings back what that one undid. So what counts after event n
    is R + 1 .. n for the last restore R up to n, and what counted after the event that R returned to:

        events     1 ...... 50 51 ... 99  R=100  101 ... 149  R=150          151 ... 200
                                          (to 50)             (to 99)
        count      1 ...... 50 51 ... 99                                     151 ... 200

    A state of another log that is put in place undoes all events before it. A promotion undoes none: what its state has not
    learnt is learnt again. Configurations, upgrades and repairs change nothing about which examples count. An event
    that was trimmed and is in no segment cannot be counted: every answer therefore states its window.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from riata.run.log.log_reading import READ_BYTES, Call, read_log
from riata.store.control_events import ControlEvents, ControlEventsSeen, Counted, joined
from riata.store.segment import Segment
from riata.store.store import Head, Record, Store


@dataclass(frozen=True, slots=True)
class Window:
    """The part of a log that an answer is about.

    first, last       : its events
    events            : examples in it that count
    of                : events that the log ever had
    skipped           : examples in it that skip events removed, of those that no restore undid
    undone_by_restore : examples in it that restores undid
    """

    first: int
    last: int
    events: int
    of: int
    skipped: int
    undone_by_restore: int

    def document(self) -> dict[str, int]:
        """Return the window as every answer states it."""
        return {
            "from": self.first,
            "to": self.last,
            "events": self.events,
            "of": self.of,
            "skipped": self.skipped,
            "undone_by_restore": self.undone_by_restore,
        }


@dataclass(frozen=True, slots=True)
class EffectiveLog:
    """What is known of a log about its events first..last, where `last` is its end.

    first : the oldest event that can still be read, from a segment or the log
    """

    first: int
    last: int
    control: ControlEvents

    def at(self, to: int) -> EffectiveLog:
        """Return the log as it was after event `to`."""
        restored = self.control.restored
        return EffectiveLog(self.first, to, self.control._replace(restored=restored[restored[:, 0] <= to]))

    def standing(self) -> list[tuple[int, int]]:
        """Return the restores that no later one undid, newest first, each with the last event before the next one or of what it
        returned to. If events from before all of these count, the last pair has 0 in place of a restore."""
        found, end = [], self.last
        while end >= self.first:
            at = int(np.searchsorted(self.control.restored[:, 0], end, "right")) - 1
            restore, returned_to = self.control.restored[at].tolist() if at >= 0 else (0, 0)
            found.append((restore, end))
            end = returned_to
        return found

    def counted(self, first: int = 1, last: int | None = None) -> Counted:
        """Return which of the events first..last count in the state at the end of the log."""
        low, high = max(first, self.first), self.last if last is None else min(last, self.last)
        spans = [(max(restore + 1, low), min(end, high)) for restore, end in reversed(self.standing())]
        inside = np.array([span for span in spans if span[0] <= span[1]], np.int64).reshape(-1, 2)
        return Counted(inside, self.control.skipped)

    def window(self, first: int = 1, last: int | None = None) -> Window:
        """Return the window of `counted`."""
        low, high = max(first, self.first), self.last if last is None else min(last, self.last)
        examples = max(high - low + 1, 0) - self.control.between(low, max(high, low - 1))
        counted = self.counted(low, high)
        spans: list[list[int]] = counted.spans.tolist()
        standing = sum(stop - start + 1 - self.control.between(start, stop) for start, stop in spans)
        # Of an event that is not an example a skip removes nothing.
        removed = counted.skipped[~np.isin(counted.skipped, self.control.seq)]
        skipped = sum(int(((removed >= start) & (removed <= stop)).sum()) for start, stop in spans)
        return Window(low, high, standing - skipped, self.last, skipped, examples - standing)


def read_effective_log(
    call: Call,
    name: str,
    segments: Sequence[Segment] = (),
    bytes_max: int = READ_BYTES,
    on_record: Callable[[Record], None] = lambda _record: None,
) -> EffectiveLog:
    """Read which events of a model count. What `segments` cover is not read from the log again; they are consecutive, and
    `segments_of` has bound them to the log. Raises what reading a log raises.

    on_record : called with each record that is read
    """
    head: Head = call(lambda s: s.head(name)).result()
    first = segments[0].first if segments else head.first_seq
    after = segments[-1].last if segments else head.first_seq - 1
    seen = ControlEventsSeen(head.lineage, lambda event: chain_at(call, name, event))
    for record in read_log(call, name, after, bytes_max):
        seen.note(record)
        on_record(record)
        after = record.last
    return EffectiveLog(first, after, joined([*(segment.control for segment in segments), seen.collected()]))


def chain_at(call: Call, name: str, event: int) -> bytes | None:
    """Return the chain of a log after the record with an event, empty if there is none; None if the log no longer has it."""

    def read(store: Store) -> bytes | None:
        head = store.head(name)
        if not head.first_seq <= event:
            return None
        found: list[Record] = store.read(name, event - 1, 1) if event <= head.seq else []
        return found[0].chain if found else b""

    known: bytes | None = call(read).result()
    return known
