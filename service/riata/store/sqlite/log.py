"""The log and the names of the embedded store: SQL over an open connection, inside the caller's transaction."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from riata.base.errors import Conflict, Corrupt, LogFork, NotFound
from riata.base.limits import MODELS_MAX
from riata.store.append_plan import Planned, Restores, pack, unpack
from riata.store.records import KIND_CODES, KINDS, RECORD_DAMAGED, check_read, coded_digest, decode_through, names_digest
from riata.store.sqlite.dedupe import DedupeIndex
from riata.store.sqlite.payload_files import PayloadFiles, Place
from riata.store.sqlite.schema import JOINT, PAGE_BYTES, SCHEMA_VERSION, SEQ_BITS, UNSETTLED_VERSION
from riata.store.store import Head, Record
from riata.wire.names import Names

_FIND = "SELECT * FROM models WHERE name = ?"  # of any format: those before 5 have no restores, and a number in their place
_SMALL_PAGES = 2  # pages that every record dirties: its leaf, the parent of the leaf


class ModelRow(NamedTuple):
    """A model as stored. trimmed_chain is the chain at first_seq - 1; restores are those that undid events."""

    id: int
    head: Head
    trimmed_chain: bytes
    restores: Restores = ()


def no_model(model: str) -> NotFound:
    """Return the error for a model that does not exist."""
    return NotFound(f"no model {model!r}", "model_not_found")


def find_model(connection: sqlite3.Connection, model: str) -> ModelRow:
    """Return the row of `model`, with the head that its log has. Raises `NotFound`."""
    row = connection.execute(_FIND, (model,)).fetchone()
    if row is None:
        raise no_model(model)
    number, _, lineage, seq, chain, first_seq, trimmed_chain, floor, *_, restores = row
    known = unpack(restores) if isinstance(restores, bytes) else ()
    seq, chain = _end(connection, number, seq, chain)
    return ModelRow(number, Head(lineage, seq, chain, first_seq, floor), trimmed_chain, known)


def _end(connection: sqlite3.Connection, number: int, seq: int, chain: bytes) -> tuple[int, bytes]:
    """Return the last event of a log, and the chain after it. seq, chain : those in the row of the model, see `settle`"""
    base = number << SEQ_BITS
    last = connection.execute(
        "SELECT key, count, chain FROM log WHERE key BETWEEN ? AND ? ORDER BY key DESC LIMIT 1",
        (base + seq + 1, base + (1 << SEQ_BITS) - 1),
    ).fetchone()
    return (last[0] - base + last[1] - 1, last[2]) if last else (seq, chain)


def settle(connection: sqlite3.Connection, rows: Iterable[ModelRow]) -> None:
    """Write into the rows of models where their logs end. An append does not, as that takes a fifth of the time of one row: until
    this is called, the row is behind and `find_model` looks at the log."""
    ends = [(row.head.seq, row.head.chain, row.head.dedupe_floor, row.id) for row in rows]
    connection.executemany("UPDATE models SET seq = ?, chain = ?, dedupe_floor = ? WHERE id = ?", ends)


def all_models(connection: sqlite3.Connection) -> list[ModelRow]:
    """Return the rows of all models, also that of the joint log."""
    return [find_model(connection, name) for (name,) in connection.execute("SELECT name FROM models").fetchall()]


def begin_unsettled(connection: sqlite3.Connection) -> None:
    """Allow rows of models to be behind their logs. Settles what a crash has left."""
    if connection.execute("PRAGMA user_version").fetchone()[0] == UNSETTLED_VERSION:
        settle(connection, all_models(connection))
    connection.execute(f"PRAGMA user_version = {UNSETTLED_VERSION}")


def end_unsettled(connection: sqlite3.Connection, rows: Iterable[ModelRow]) -> None:
    """Settle the rows that are still behind, so that older programs can read the database."""
    settle(connection, rows)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def logs(connection: sqlite3.Connection) -> dict[int, tuple[int, int]]:
    """Return the first and the last event of every model's log, by model number."""
    return {row.id: (row.head.first_seq, row.head.seq) for row in all_models(connection)}


def has_joint(connection: sqlite3.Connection) -> bool:
    """Return whether there is a joint log."""
    return connection.execute("SELECT 1 FROM models WHERE name = ?", (JOINT,)).fetchone() is not None


def has_joint_records(connection: sqlite3.Connection) -> bool:
    """Return whether the joint log has records that are not trimmed."""
    return has_joint(connection) and (head := find_model(connection, JOINT).head).seq >= head.first_seq


def insert_model(connection: sqlite3.Connection, model: str, head: Head) -> None:
    """Create a model whose log is empty. Raises `Conflict` (codes `model_exists`, `too_many_models`)."""
    if connection.execute("SELECT 1 FROM models WHERE name = ?", (model,)).fetchone():
        raise Conflict(f"model {model!r} already exists", "model_exists")
    if model != JOINT and connection.execute("SELECT count(*) FROM models WHERE name != ?", (JOINT,)).fetchone()[0] >= MODELS_MAX:
        raise Conflict(f"the store already has {MODELS_MAX} models, the maximum", "too_many_models")
    sql = """INSERT INTO models (name, lineage, seq, chain, first_seq, trimmed_chain, dedupe_floor, restores)
             VALUES (?, ?, ?, ?, ?, ?, ?, x'')"""
    connection.execute(sql, (model, head.lineage, head.seq, head.chain, head.first_seq, head.chain, head.dedupe_floor))


def find_models(
    connection: sqlite3.Connection, models: Collection[str], known: dict[str, ModelRow], floors: Mapping[str, int]
) -> dict[str, ModelRow]:
    """Return the rows of those `models` that exist.

    known  : rows found before; those found now are added
    floors : of models whose row may be behind, as the log does not say it
    """
    for model in models:
        if model not in known:
            with contextlib.suppress(NotFound):  # planning the append reports it, for that request alone
                row = find_model(connection, model)
                floor = max(row.head.dedupe_floor, floors.get(model, 0))
                known[model] = row._replace(head=replace(row.head, dedupe_floor=floor))
    return {model: known[model] for model in models if model in known}


def insert_planned(
    connection: sqlite3.Connection,
    files: PayloadFiles,
    planned: Sequence[Planned],
    rows: Mapping[str, ModelRow],
    dedupe: DedupeIndex,
) -> tuple[int, int]:
    """Write the planned records; return the approximate number of bytes written to the database, and how many of them are
    payloads."""
    entries: list[tuple[int | bytes, ...]] = []
    brought: list[tuple[int, bytes, bytes]] = []
    promotions: list[tuple[int, int]] = []
    written = paid = 0
    for plan in planned:
        record = plan.appended.record
        if record is None or plan.head is None:
            continue
        model = rows[record.model].id
        key = model << SEQ_BITS | record.first
        kind = KIND_CODES[record.kind]
        place = files.put(model, record.first, record.payload)
        payload = b"" if place.file else record.payload
        entries.append((key, record.count, kind, record.accepted_ms, record.digest, record.chain, payload, *place))
        paid += len(payload)
        written += len(payload) + _SMALL_PAGES * PAGE_BYTES
        if plan.ids:
            written += dedupe.put(connection, key, plan.ids, plan.head)
        if plan.request.names:
            names = Names.of(plan.request.names).content
            brought.append((key, names_digest(names), names))
            written += len(names) + PAGE_BYTES
        if record.kind == "restore" and (through := decode_through(record.payload)) is not None:
            promotions.append((key, through.seq))
        if plan.restores is not None:
            connection.execute("UPDATE models SET restores = ? WHERE id = ?", (pack(plan.restores), model))
    files.write()
    # In one call: each execution of a statement takes the interpreter's lock five times, each row of `executemany` twice.
    connection.executemany("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", entries)
    if brought:
        connection.executemany("INSERT INTO names VALUES (?, ?, ?)", brought)
    if promotions:
        connection.executemany("INSERT INTO promotions VALUES (?, ?)", promotions)
    return written, paid


def read_records(
    connection: sqlite3.Connection, files: PayloadFiles, model: str, row: ModelRow, after_seq: int, bytes_max: int
) -> list[Record]:
    """Return the records of `model` that end after `after_seq`: at least one, about `bytes_max` bytes. Checks the chain."""
    base = row.id << SEQ_BITS
    start = (row.head.first_seq - 1, row.trimmed_chain)
    before = connection.execute(
        "SELECT key, count, chain FROM log WHERE key BETWEEN ? AND ? ORDER BY key DESC LIMIT 1", (base, base + after_seq)
    ).fetchone()
    if before and before[0] - base + before[1] - 1 > after_seq:  # the record contains `after_seq` and later events
        before = connection.execute(
            "SELECT key, count, chain FROM log WHERE key BETWEEN ? AND ? ORDER BY key DESC LIMIT 1", (base, before[0] - 1)
        ).fetchone()
    if before:
        start = (before[0] - base + before[1] - 1, before[2])
    cursor = connection.execute(
        """SELECT key, count, kind, accepted_ms, payload, digest, chain, file, at, length FROM log
           WHERE key BETWEEN ? AND ? ORDER BY key""",
        (before[0] + 1 if before else base, base + (1 << SEQ_BITS) - 1),
    )
    with contextlib.closing(cursor):  # also if a record is refused: a stored exception would keep the database open
        records, complete = _take(cursor, files, (model, row.id), bytes_max)
    check_read(row.head, start, after_seq, records, complete)
    return records


def _take(
    rows: Iterable[tuple[Any, ...]], files: PayloadFiles, model: tuple[str, int], bytes_max: int
) -> tuple[list[Record], bool]:
    """Decode rows to records, at least one, about `bytes_max` bytes; also return whether these are all. model: name, number."""
    name, number = model
    base = number << SEQ_BITS
    records: list[Record] = []
    size = 0
    for key, count, kind, accepted_ms, payload, digest, chain, *place in rows:
        where = Place(*place)
        length = where.length if where.file else len(payload)
        if records and size + length > bytes_max:
            return records, False
        content = _content(files, number, where, key - base) if where.file else payload
        if kind not in KINDS:
            as_written = 0 < kind < 256 and count > 0 and coded_digest(kind, count, accepted_ms, content) == digest
            raise _unknown_kind(name, key - base, kind, as_written)
        records.append(Record(name, KINDS[kind], key - base, count, accepted_ms, content, digest, chain))
        size += length
    return records, True


def _content(files: PayloadFiles, model: int, where: Place, event: int) -> bytes:
    """Return a long payload. Raises `Corrupt`, which names the event."""
    try:
        return files.read(model, where)
    except Corrupt as error:
        raise Corrupt(error.detail, error.code, event) from None


def _unknown_kind(model: str, event: int, kind: int, as_written: bool) -> Corrupt:
    """Return the error for an unknown record kind: a newer program wrote it, or the record was changed after it was written."""
    if as_written:
        return Corrupt(f"log of {model!r}: kind {kind} at event {event} is not known", "newer_format", event)
    return LogFork(f"log of {model!r}: the record at event {event} was changed after it was written", RECORD_DAMAGED, event)


def chain_at(connection: sqlite3.Connection, row: ModelRow, seq: int) -> bytes | None:
    """Return the chain of the record that ends at event `seq`; None if no record ends there."""
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


def chain_of(connection: sqlite3.Connection, rows: Mapping[str, ModelRow], model: str, seq: int) -> bytes | None:
    """Return the chain after the record with event `seq`; None if the log no longer has it, or has not yet."""
    row = rows[model]
    base = row.id << SEQ_BITS
    found = connection.execute(
        "SELECT chain FROM log WHERE key BETWEEN ? AND ? ORDER BY key DESC LIMIT 1", (base, base + seq)
    ).fetchone()
    return found[0] if found and row.head.first_seq <= seq <= row.head.seq else None


def promotions_in(connection: sqlite3.Connection, row: ModelRow) -> list[tuple[int, int]]:
    """Return the event of each promotion in the log, and the event through which its state has learnt."""
    base = row.id << SEQ_BITS
    found = connection.execute(
        "SELECT key, through FROM promotions WHERE key BETWEEN ? AND ?", (base, base + (1 << SEQ_BITS) - 1)
    )
    return [(key - base, through) for key, through in found]


def delete_events(connection: sqlite3.Connection, row: ModelRow, bound: int, records_max: int) -> int:
    """Delete the oldest records that end at or before `bound`, at most `records_max`; return how many events."""
    base = row.id << SEQ_BITS
    oldest = connection.execute(
        "SELECT key, count, chain FROM log WHERE key BETWEEN ? AND ? ORDER BY key LIMIT ?", (base, base + bound, records_max)
    ).fetchall()
    gone = [(key, count, chain) for key, count, chain in oldest if key - base + count - 1 <= bound]
    if not gone:
        return 0
    last_key, last_count, chain = gone[-1]
    for table in ("log", "promotions"):
        connection.execute(f"DELETE FROM {table} WHERE key BETWEEN ? AND ?", (base, last_key))
    first_seq = last_key - base + last_count
    settle(connection, [row])  # no record may be left that says where the log ends
    connection.execute("UPDATE models SET first_seq = ?, trimmed_chain = ? WHERE id = ?", (first_seq, chain, row.id))
    return sum(count for _, count, _ in gone)


def read_names(connection: sqlite3.Connection, model: int, after_seq: int) -> Iterator[tuple[int, Names]]:
    """Yield the names that came with requests after event `after_seq`, in order, as `Store.names`. Raises `Corrupt`."""
    base = model << SEQ_BITS
    sql = "SELECT key, digest, names FROM names WHERE key BETWEEN ? AND ? ORDER BY key"
    blobs = []
    for key, digest, blob in connection.execute(sql, (base + after_seq + 1, base + (1 << SEQ_BITS) - 1)):
        if names_digest(blob) != digest:
            raise Corrupt(f"the digest of the names of event {key - base} does not match")
        blobs.append((key - base, blob))
    return ((last, Names.from_bytes(blob)) for last, blob in blobs)
