"""The log, the dedupe index and the names of the embedded store: SQL over an open connection, inside the caller's transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from riata.base.errors import Corrupt, NotFound
from riata.store.append_plan import Planned, Seen
from riata.store.records import KIND_CODES, KINDS, check_read
from riata.store.sqlite_schema import SEQ_BITS
from riata.store.store import Head, Record

EXPIRED_IDS_MAX: Final = 20_000  # ids deleted by one call of `expire_ids`: bounds the transaction
_IDS_AT_ONCE = 200


class ModelRow(NamedTuple):
    """A model as stored. trimmed_chain is the chain at first_seq - 1."""

    id: int
    head: Head
    trimmed_chain: bytes


def find_model(connection: sqlite3.Connection, model: str) -> ModelRow:
    """Return the row of `model`. Raises `NotFound`."""
    row = connection.execute(
        "SELECT id, lineage, seq, chain, first_seq, dedupe_floor, trimmed_chain FROM models WHERE name = ?", (model,)
    ).fetchone()
    if row is None:
        raise NotFound(f"no model {model!r}", "model_not_found")
    return ModelRow(row[0], Head(*row[1:6]), row[6])


def find_models(connection: sqlite3.Connection, models: Iterable[str]) -> dict[str, ModelRow]:
    """Return the rows of those of `models` that exist."""
    found = {}
    for model in models:
        try:
            found[model] = find_model(connection, model)
        except NotFound:
            continue  # the plan of the append says so to that request alone
    return found


def look_up_ids(connection: sqlite3.Connection, model: int, ids: Sequence[bytes], floor: int) -> dict[bytes, Seen]:
    """Return those of `ids` that are known at positions >= floor."""
    known: dict[bytes, Seen] = {}
    for start in range(0, len(ids), _IDS_AT_ONCE):
        some = ids[start : start + _IDS_AT_ONCE]
        places = ",".join("?" * len(some))
        # The floor is applied here: in SQL it would tempt the planner to walk the index by position.
        rows = connection.execute(f"SELECT id, seq, content FROM dedupe WHERE model = ? AND id IN ({places})", (model, *some))
        known.update({key: (seq, content) for key, seq, content in rows if seq >= floor})
    return known


def insert_planned(connection: sqlite3.Connection, planned: Sequence[Planned], rows: Mapping[str, ModelRow]) -> int:
    """Write what was planned; return about how many bytes that was."""
    heads: dict[int, Head] = {}
    written = 0
    for plan in planned:
        record = plan.appended.record
        if record is None or plan.head is None:
            continue
        model = rows[record.model].id
        heads[model] = plan.head
        key = model << SEQ_BITS | record.first
        values = (key, record.count, KIND_CODES[record.kind], record.accepted_ms, record.digest, record.chain, record.payload)
        connection.execute("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?, ?)", values)
        if plan.ids:
            entries = [(model, *entry) for entry in sorted(plan.ids)]  # sorted: neighbours share a page
            connection.executemany("INSERT OR REPLACE INTO dedupe VALUES (?, ?, ?, ?)", entries)
        if plan.request.names:
            names = [(model, fingerprint.to_bytes(8, "big"), name) for fingerprint, name in plan.request.names]
            connection.executemany("INSERT OR IGNORE INTO names VALUES (?, ?, ?)", names)
        written += len(record.payload) + 4096 * (1 + len(plan.ids))  # an id dirties a page, nearly always its own
    for model, head in heads.items():
        stood = (head.seq, head.chain, head.dedupe_floor, model)
        connection.execute("UPDATE models SET seq = ?, chain = ?, dedupe_floor = ? WHERE id = ?", stood)
    return written


def read_records(connection: sqlite3.Connection, model: str, after_seq: int, bytes_max: int) -> list[Record]:
    """Return the records that end after `after_seq`, at least one, about `bytes_max`, chain checked."""
    row = find_model(connection, model)
    base = row.id << SEQ_BITS
    start = (row.head.first_seq - 1, row.trimmed_chain)
    before = connection.execute(
        "SELECT key, count, chain FROM log WHERE key BETWEEN ? AND ? ORDER BY key DESC LIMIT 1", (base, base + after_seq)
    ).fetchone()
    if before and before[0] - base + before[1] - 1 > after_seq:  # the record holds `after_seq` and goes on
        before = connection.execute(
            "SELECT key, count, chain FROM log WHERE key BETWEEN ? AND ? ORDER BY key DESC LIMIT 1", (base, before[0] - 1)
        ).fetchone()
    if before:
        start = (before[0] - base + before[1] - 1, before[2])
    cursor = connection.execute(
        "SELECT key, count, kind, accepted_ms, payload, digest, chain FROM log WHERE key BETWEEN ? AND ? ORDER BY key",
        (before[0] + 1 if before else base, base + (1 << SEQ_BITS) - 1),
    )
    records: list[Record] = []
    size = 0
    complete = True
    for key, count, kind, accepted_ms, payload, digest, chain in cursor:
        if records and size + len(payload) > bytes_max:
            complete = False
            break
        if kind not in KINDS:
            raise Corrupt(f"log of {model!r}: kind {kind} at event {key - base} is not known", "newer_format")
        records.append(Record(model, KINDS[kind], key - base, count, accepted_ms, payload, digest, chain))
        size += len(payload)
    cursor.close()
    check_read(row.head, start, after_seq, records, complete)
    return records


def chain_at(connection: sqlite3.Connection, row: ModelRow, seq: int) -> bytes | None:
    """Return the chain of the record that ends at event `seq`; None where none does."""
    if seq == row.head.first_seq - 1:
        return row.trimmed_chain
    base = row.id << SEQ_BITS
    found = connection.execute(
        "SELECT key, count, chain FROM log WHERE key BETWEEN ? AND ? ORDER BY key DESC LIMIT 1", (base, base + seq)
    ).fetchone()
    if found is None or found[0] - base + found[1] - 1 != seq:
        return None
    chain: bytes = found[2]
    return chain


def delete_events(connection: sqlite3.Connection, row: ModelRow, bound: int, records_max: int) -> int:
    """Delete records that end at or before `bound`, the oldest `records_max` at the most; return how many events."""
    base = row.id << SEQ_BITS
    oldest = connection.execute(
        "SELECT key, count, chain FROM log WHERE key BETWEEN ? AND ? ORDER BY key LIMIT ?", (base, base + bound, records_max)
    ).fetchall()
    gone = [(key, count, chain) for key, count, chain in oldest if key - base + count - 1 <= bound]
    if not gone:
        return 0
    last_key, last_count, chain = gone[-1]
    connection.execute("DELETE FROM log WHERE key BETWEEN ? AND ?", (base, last_key))
    first_seq = last_key - base + last_count
    connection.execute("UPDATE models SET first_seq = ?, trimmed_chain = ? WHERE id = ?", (first_seq, chain, row.id))
    return sum(count for _, count, _ in gone)


def expire_ids(connection: sqlite3.Connection) -> int:
    """Delete ids below the floor of their model, EXPIRED_IDS_MAX at the most; return how many."""
    deleted = 0
    for model, floor in connection.execute("SELECT id, dedupe_floor FROM models WHERE dedupe_floor > 1").fetchall():
        oldest = connection.execute("SELECT min(seq) FROM dedupe WHERE model = ?", (model,)).fetchone()[0]
        if oldest is None or oldest >= floor:
            continue
        bound = min(floor, oldest + EXPIRED_IDS_MAX - deleted)
        deleted += connection.execute("DELETE FROM dedupe WHERE model = ? AND seq < ?", (model, bound)).rowcount
        if deleted >= EXPIRED_IDS_MAX:
            break
    return deleted


def read_names(connection: sqlite3.Connection, model: int) -> list[tuple[int, bytes]]:
    """Return (fingerprint, name) by rising fingerprint."""
    rows = connection.execute("SELECT fingerprint, name FROM names WHERE model = ? ORDER BY fingerprint", (model,))
    return [(int.from_bytes(fingerprint, "big"), name) for fingerprint, name in rows]
