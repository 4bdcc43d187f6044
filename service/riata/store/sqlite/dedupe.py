"""The dedupe index of the embedded store: recent event ids in memory, all older ids in one large B-tree.

Theory of operation
    Ids are digests, so each of the 1000 ids of a request falls on a different page of a tree of millions. Inserting them at
    once would write as many pages. So ids are first written to `fresh_ids`, one row of bytes for a record, and held in
    memory. When more than FRESH_IDS_MAX are held, they move to the tree `dedupe` slice by slice.

         fresh_ids  key: the key of the record   born: slices merged when the row was written
        ┌──────────────────┬──────────────────┬──────────────────────────────────┐
        │ id 16 bytes      │ content 16 bytes │ u32: position within the record  │  for each id
        └──────────────────┴──────────────────┴──────────────────────────────────┘

    A slice is 1 / SLICES of all possible ids, by their first byte. Slices are merged in turn, and `models.merged` counts the
    merges. A row is deleted after SLICES merges since it was written: all its ids are then in the tree. An id in both places
    is the same id, so a crash at any moment does no harm. The ids in memory are those of the rows of `fresh_ids`. The bytes
    written for one id decrease with the number of ids that a slice adds to each page.

    Ids below a model's floor are expired, wherever they are found. They are deleted from the tree in idle time, one slice at
    a time, when the floor has risen by a part of the window. There is no second tree ordered by position.

    An id whose event a restore undid may get another event. Then its entry has all of them (`store/append_plan.py`), and what is
    in memory and in the tree is united: while a model has restores, both are read. Otherwise an id has one event, in either.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from riata.base.errors import Corrupt
from riata.store.append_plan import CONTENT_BYTES, Restores, Seen, united, unpack, up_to
from riata.store.sqlite.schema import PAGE_BYTES, SEQ_BITS
from riata.store.store import Head

FRESH_IDS_MAX: Final = 100_000  # ids held in memory over all models, some 300 bytes each
SLICES: Final = 64
SWEEPS_PER_WINDOW: Final = 16  # expired ids are deleted when the floor has risen by this part of the window

_SHIFT = 2  # 256 first bytes over 64 slices
_TREE_BYTES = 64  # one entry of the tree, with its share of free space
_IDS_AT_ONCE = 200
_ENTRY = struct.Struct("<16s16sI")
_ABOVE_ALL = b"\xff" * 17


@dataclass(slots=True)
class _Held:
    """The fresh ids of one model, by slice. floor: ids below it are expired; events: an upper bound on the number of ids in the
    tree."""

    merged: int
    floor: int
    events: int = 0
    count: int = 0
    slices: list[dict[bytes, Seen]] = field(default_factory=lambda: [{} for _ in range(SLICES)])

    def add(self, entries: Sequence[tuple[bytes, int, bytes]], floor: int) -> None:
        for key, seq, content in entries:
            held = self.slices[key[0] >> _SHIFT]
            before = held.get(key)
            self.count += before is None
            held[key] = (seq, content) if before is None or before[0] < floor else united([(seq, content), before])


class DedupeIndex:
    """Event ids of all models. Calls run inside the caller's transaction. If it fails, the caller has to call `forget`."""

    def __init__(self, window: int) -> None:
        """Remember ids over `window` events."""
        self._window = window
        self._held: dict[int, _Held] = {}
        self._sweeps: dict[int, tuple[int, int, int]] = {}  # model: floor swept, floor of the sweep under way, next slice

    def forget(self) -> None:
        """Discard what is in memory. It is read again when it is needed."""
        self._held.clear()
        self._sweeps.clear()

    def forget_model(self, model: int) -> None:
        """Discard the ids of one model in memory. Reading the ids of all other models again would delay every request."""
        self._held.pop(model, None)
        self._sweeps.pop(model, None)

    def look_up(
        self, connection: sqlite3.Connection, model: int, ids: Sequence[bytes], floor: int, restores: Restores = ()
    ) -> dict[bytes, Seen]:
        """Return the entries of `ids` whose newest position is >= floor; with all positions if the model has `restores`."""
        slices = self._of(connection, model).slices
        known: dict[bytes, Seen] = {}
        others = []
        for key in ids:
            found = slices[key[0] >> _SHIFT].get(key)
            if found is None:
                others.append(key)
            elif found[0] >= floor:
                known[key] = found
        if restores:
            others += known
        for key, seq, content in _in_tree(connection, model, others):
            if seq >= floor:
                known[key] = united([(seq, content), known[key]]) if key in known else (seq, content)
        return known

    def put(self, connection: sqlite3.Connection, record_key: int, ids: Sequence[tuple[bytes, int, bytes]], head: Head) -> int:
        """Write the (id, position, content) of one record. head: of the model now. Return the approximate number of bytes
        written."""
        model, first = record_key >> SEQ_BITS, record_key & ((1 << SEQ_BITS) - 1)
        held = self._of(connection, model)
        entries = b"".join([_ENTRY.pack(key, content, seq - first) for key, seq, content in ids])
        connection.execute("INSERT INTO fresh_ids VALUES (?, ?, ?)", (record_key, held.merged, entries))
        held.add(ids, head.dedupe_floor)
        held.floor, held.events = head.dedupe_floor, head.seq - head.dedupe_floor + 1
        written = len(entries) + PAGE_BYTES
        while sum(each.count for each in self._held.values()) > FRESH_IDS_MAX:
            written += self._merge_slice(connection, max(self._held, key=lambda key: self._held[key].count))
        return written

    def expire(self, connection: sqlite3.Connection) -> int:
        """Delete the expired ids of one slice of the tree, if a sweep is due; return how many."""
        for model, floor in connection.execute("SELECT id, dedupe_floor FROM models WHERE dedupe_floor > 1").fetchall():
            swept, aim, number = self._sweeps.get(model, (1, floor, 0))
            if number == 0:
                aim = floor
                if floor - swept < max(1, self._window // SWEEPS_PER_WINDOW):
                    continue
            low, high = _bounds(number)
            sql = "DELETE FROM dedupe WHERE model = ? AND id >= ? AND id < ? AND seq < ?"
            deleted = connection.execute(sql, (model, low, high, floor)).rowcount
            done = number + 1 == SLICES
            self._sweeps[model] = (aim if done else swept, aim, 0 if done else number + 1)
            return deleted
        return 0

    def _of(self, connection: sqlite3.Connection, model: int) -> _Held:
        if model not in self._held:
            self._held[model] = _read_fresh(connection, model)
        return self._held[model]

    def _merge_slice(self, connection: sqlite3.Connection, model: int) -> int:
        """Move one slice to the tree; return the approximate number of bytes written."""
        held = self._held[model]
        number = held.merged % SLICES
        moved = held.slices[number]
        (stored,) = connection.execute("SELECT restores FROM models WHERE id = ?", (model,)).fetchone()
        if stored and unpack(stored):
            for key, seq, content in _in_tree(connection, model, list(moved)):
                if seq >= held.floor:
                    moved[key] = united([(seq, content), moved[key]])
        entries = [(model, key, seq, content) for key, (seq, content) in moved.items()]
        entries.sort()  # neighbours share a page
        connection.executemany("INSERT OR REPLACE INTO dedupe VALUES (?, ?, ?, ?)", entries)
        held.slices[number] = {}
        held.count -= len(entries)
        held.merged += 1
        # With the floor: what is expired may not be in the tree, also if the window is longer after a restart.
        connection.execute("UPDATE models SET merged = ?, dedupe_floor = ? WHERE id = ?", (held.merged, held.floor, model))
        base = model << SEQ_BITS
        sql = "DELETE FROM fresh_ids WHERE key BETWEEN ? AND ? AND born <= ?"
        connection.execute(sql, (base, base + (1 << SEQ_BITS) - 1, held.merged - SLICES))
        return min(len(entries) * PAGE_BYTES, held.events * _TREE_BYTES // SLICES + PAGE_BYTES)


def _in_tree(connection: sqlite3.Connection, model: int, ids: list[bytes]) -> Iterator[tuple[bytes, int, bytes]]:
    """Yield (id, newest position, content) of those `ids` that are in the tree. Sorts `ids`."""
    ids.sort()  # neighbours share a page
    for start in range(0, len(ids), _IDS_AT_ONCE):
        some = ids[start : start + _IDS_AT_ONCE]
        places = ",".join("?" * len(some))
        yield from connection.execute(f"SELECT id, seq, content FROM dedupe WHERE model = ? AND id IN ({places})", (model, *some))


def forget_after(connection: sqlite3.Connection, model: int, last: int) -> None:
    """Delete the events after `last` from the tree; ids that restores had freed keep their earlier ones."""
    sql = "SELECT id, seq, content FROM dedupe WHERE model = ? AND seq > ? AND length(content) > ?"
    several = connection.execute(sql, (model, last, CONTENT_BYTES)).fetchall()
    connection.execute("DELETE FROM dedupe WHERE model = ? AND seq > ?", (model, last))
    left = [(key, up_to((seq, content), last)) for key, seq, content in several]
    connection.executemany("INSERT INTO dedupe VALUES (?, ?, ?, ?)", [(model, key, *seen) for key, seen in left if seen])


def _bounds(number: int) -> tuple[bytes, bytes]:
    """Return the lowest id of a slice, and the lowest id above the slice."""
    above = bytes([number + 1 << _SHIFT]) if number + 1 < SLICES else _ABOVE_ALL
    return bytes([number << _SHIFT]), above


def _read_fresh(connection: sqlite3.Connection, model: int) -> _Held:
    """Read the fresh ids of a model. They include ids that are already in the tree; those are moved again."""
    merged, seq, floor = connection.execute("SELECT merged, seq, dedupe_floor FROM models WHERE id = ?", (model,)).fetchone()
    held = _Held(merged, floor, seq - floor + 1)
    base = model << SEQ_BITS
    sql = "SELECT key, entries FROM fresh_ids WHERE key BETWEEN ? AND ? ORDER BY key"
    for record_key, entries in connection.execute(sql, (base, base + (1 << SEQ_BITS) - 1)):
        if len(entries) % _ENTRY.size:
            raise Corrupt(f"fresh ids of the record {record_key}: {len(entries)} bytes are not a whole number of entries")
        first = record_key - base
        held.add([(key, first + offset, content) for key, content, offset in _ENTRY.iter_unpack(entries)], floor)
    return held
