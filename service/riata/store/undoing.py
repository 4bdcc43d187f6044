"""Which events of a log restores undid, so that the ids of these are free again.

Theory of operation
    An id is known if one of its events counts in the state at the end of the log (`run/log/effective_log.py`). A restore takes
    events out of that state, and a later one may bring them back. So a store keeps of each model its restores, and of each id
    all events that had it. An event gets an id that is known to no event that counts, so of the events of an id at most one
    counts in any state.

    In the index the entry of an id is its newest event: (position, content digest). Those before it are appended to the digest:

        position  u64 │ content 16 bytes │ [ u64 position │ content 16 bytes ] ...     newest first

    Restores below the dedupe floor say nothing about ids above it, so they are not kept.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from riata.base.errors import Corrupt
from riata.store import layout, records
from riata.store.store import Head

CONTENT_BYTES: Final = 16
Seen = tuple[int, bytes]  # (position of an event, digest of its content); as an entry of the index, all events of an id
_BEFORE: Final = struct.Struct("<Q16s")
_PAIR: Final = struct.Struct("<QQ")


class Restored(NamedTuple):
    """A restore: its event, and the event after which the state was that it put in place; 0 for a state of another log."""

    event: int
    returned_to: int


Restores = tuple[Restored, ...]  # of one model, oldest first


def positions(entry: Seen) -> Iterator[Seen]:
    """Yield the events of an entry of the index, newest first."""
    seq, content = entry
    yield seq, content[:CONTENT_BYTES]
    yield from _BEFORE.iter_unpack(content[CONTENT_BYTES:])


def united(entries: Iterable[Seen]) -> Seen:
    """Return one entry of all events of these entries of an id."""
    found = sorted({seen for entry in entries for seen in positions(entry)}, reverse=True)
    return found[0][0], found[0][1] + b"".join(_BEFORE.pack(*seen) for seen in found[1:])


def up_to(entry: Seen, last: int) -> Seen | None:
    """Return an entry without its events after `last`; None if none is left."""
    left = [seen for seen in positions(entry) if seen[0] <= last]
    return united(left) if left else None


def counted(restores: Sequence[Restored], last: int) -> list[tuple[int, int]]:
    """Return the spans of events that count in the state after event `last`, newest first."""
    spans: list[tuple[int, int]] = []
    for event, returned_to in reversed(restores):
        if event <= last:
            spans.append((event + 1, last))
            last = returned_to
    return [*spans, (1, last)]


def counting(entry: Seen, spans: Sequence[tuple[int, int]], floor: int) -> Seen | None:
    """Return the event of an entry that counts, at `floor` or above; None if none does."""
    for seq, content in positions(entry):
        if seq >= floor and any(first <= seq <= last for first, last in spans):
            return seq, content
    return None


def claimed(payload: bytes, head: Head) -> tuple[int, bytes] | None:
    """Return the event and the chain after which the state in a restore says that it is, for a log that ends at `head`.

    The event is 0 for a state of another log. None for what undoes no event: a promotion, and a state that is ahead of the log,
    which puts events back that the log has lost.
    """
    try:
        if records.decode_through(payload) is not None:
            return None
        header = layout.checkpoint_header(records.decode_restore(payload)[1])
        applied, chain = int(header["applied"]), bytes.fromhex(header["chain"])
    except (Corrupt, KeyError, TypeError, ValueError):
        return 0, b""  # it will be refused when it is applied; until then nothing before it counts
    if header.get("lineage") != head.lineage.hex() or applied < 0:
        return 0, b""
    return None if applied > head.seq else (applied, chain)


def restored(payload: bytes, head: Head, chain_of: Callable[[int], bytes | None]) -> Restored | None:
    """Return the restore that follows `head`; None for what undoes no event.

    chain_of : returns the chain after the record with an event; None if the log no longer has it
    """
    found = claimed(payload, head)
    if found is None:
        return None
    applied, chain = found
    known = chain_of(applied) if applied else None  # after a rollback of a shared store, the same number is another event
    return Restored(head.seq + 1, applied if known is None or known == chain else 0)


def pack(restores: Iterable[Restored]) -> bytes:
    """Return restores in stored form."""
    return b"".join(_PAIR.pack(*one) for one in restores)


def unpack(stored: bytes) -> Restores:
    """Read what `pack` wrote. Raises `Corrupt`."""
    if len(stored) % _PAIR.size:
        raise Corrupt(f"the list of restores has {len(stored)} bytes, not a whole number of entries")
    return tuple(Restored(*pair) for pair in _PAIR.iter_unpack(stored))


def and_then(restores: Restores, one: Restored, floor: int) -> Restores:
    """Return `restores` and another one, without those that say nothing about ids at `floor` or above."""
    return (*(before for before in restores if before.event >= floor), one)
