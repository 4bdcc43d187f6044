"""Checkpoints and ownership of the embedded store: SQL over an open connection, inside the caller's transaction."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import sqlite3
from collections.abc import Sequence
from typing import Any

from riata.base.errors import Conflict, Corrupt, NotFound
from riata.store.records import canonical_json, read_json
from riata.store.retention import TRIM_RECORDS_MAX, judge_commit, kept, oldest_of_newest, trim_bound
from riata.store.sqlite.log import chain_at, delete_events, find_model, no_model, promotions_in
from riata.store.store import Generation, Owner, Verdict, older_algorithm

_COLUMNS = (
    "gen, parent, applied, chain, lineage, epoch, algo_version, created_ms, chunks, bytes, digest, state_digest, verified, info"
)


def digest_of(part: bytes) -> bytes:
    """Return BLAKE2b-256 of a chunk or of a whole checkpoint."""
    return hashlib.blake2b(part, digest_size=32).digest()


def take_over(connection: sqlite3.Connection, nonce: bytes, algo_version: int, host: str, now_ms: int) -> Owner:
    """Take ownership by writing the next epoch. Raises `Conflict` (code `older_algorithm`)."""
    epoch, last_version = connection.execute("SELECT epoch, algo_version FROM owner").fetchone()
    if algo_version < last_version:
        raise older_algorithm(algo_version, last_version)
    values = (epoch + 1, nonce, algo_version, host, now_ms)
    connection.execute("UPDATE owner SET epoch = ?, nonce = ?, algo_version = ?, host = ?, acquired_ms = ?", values)
    return Owner(epoch + 1, nonce)


def owns(connection: sqlite3.Connection, owner: Owner) -> bool:
    """Return whether `owner` is the current owner: epoch and nonce are both equal."""
    epoch, nonce = connection.execute("SELECT epoch, nonce FROM owner").fetchone()
    return bool(nonce) and owner == Owner(epoch, nonce)


def require_owner(connection: sqlite3.Connection, owner: Owner) -> None:
    """Raise `Conflict` (code `fenced`) if `owner` is not the current owner."""
    if not owns(connection, owner):
        raise Conflict("another process owns the store", "fenced")


def read_mark(connection: sqlite3.Connection, model: str) -> tuple[int, int]:
    """Return (seq, deaths) of the poison mark; (0, 0) for none."""
    found = connection.execute("SELECT inflight_seq, inflight_deaths FROM models WHERE name = ?", (model,)).fetchone()
    if found is None:
        raise no_model(model)
    return int(found[0]), int(found[1])


def write_mark(connection: sqlite3.Connection, model: str, seq: int, deaths: int) -> None:
    """Write the poison mark; seq 0 clears it."""
    values = (seq, deaths if seq else 0, find_model(connection, model).id)
    connection.execute("UPDATE models SET inflight_seq = ?, inflight_deaths = ? WHERE id = ?", values)


def list_generations(connection: sqlite3.Connection, model: int) -> list[Generation]:
    """Return the retained generations, newest first."""
    rows = connection.execute(f"SELECT {_COLUMNS} FROM generations WHERE model = ? ORDER BY gen DESC", (model,))
    return [_generation(row) for row in rows]


def _generation(row: tuple[Any, ...]) -> Generation:
    values = (*row[:12], bool(row[12]), read_json(row[13].encode(), "generation"))
    return Generation(*values)


def find_generation(connection: sqlite3.Connection, model: int, name: str, gen: int) -> Generation:
    """Return one generation. Raises `NotFound`."""
    for generation in list_generations(connection, model):
        if generation.gen == gen:
            return generation
    raise NotFound(f"model {name!r} has no snapshot {gen}", "generation_not_found")


def put_chunk(connection: sqlite3.Connection, owner: Owner, model: str, gen: int, index: int, chunk: bytes) -> None:
    """Write one staged chunk. Raises `Conflict` (code `generation_exists`)."""
    row = find_model(connection, model)
    if connection.execute("SELECT 1 FROM generations WHERE model = ? AND gen = ?", (row.id, gen)).fetchone():
        raise Conflict(f"snapshot {gen} of {model!r} is already committed", "generation_exists")
    values = (row.id, gen, index, owner.epoch, digest_of(chunk), chunk)
    connection.execute("INSERT OR REPLACE INTO chunks VALUES (?, ?, ?, ?, ?, ?)", values)


def flip(connection: sqlite3.Connection, owner: Owner, model: str, base_gen: int, generation: Generation) -> Verdict:
    """Commit a staged checkpoint: check ownership, log and chunks, then make `generation` the newest."""
    row = find_model(connection, model)
    if not owns(connection, owner):
        return Verdict.FENCED
    retained = list_generations(connection, row.id)
    verdict = judge_commit(generation, base_gen, row.head, retained, chain_at(connection, row, generation.applied))
    if verdict is not Verdict.OK:
        return verdict
    there = connection.execute(
        "SELECT count(*), coalesce(sum(length(data)), 0) FROM chunks WHERE model = ? AND gen = ? AND epoch = ? AND idx < ?",
        (row.id, generation.gen, owner.epoch, generation.chunks),
    ).fetchone()
    if there != (generation.chunks, generation.bytes):
        return Verdict.MISSING
    at = (row.id, generation.gen)
    connection.execute("DELETE FROM chunks WHERE model = ? AND gen = ? AND idx >= ?", (*at, generation.chunks))
    committed = dataclasses.replace(generation, epoch=owner.epoch, verified=False)
    plain = [getattr(committed, field.name) for field in dataclasses.fields(committed)]
    values = (row.id, *plain[:12], 0, canonical_json(committed.info).decode())
    connection.execute(f"INSERT INTO generations (model, {_COLUMNS}) VALUES ({','.join('?' * 15)})", values)
    return Verdict.OK


def read_checkpoint(connection: sqlite3.Connection, model: str, number: int, gen: int) -> bytes:
    """Return the bytes of a generation, checked chunk by chunk and as a whole. Raises `Corrupt` or `NotFound`.

    number : of the model in the tables
    """
    generation = find_generation(connection, number, model, gen)
    rows = connection.execute("SELECT idx, digest, data FROM chunks WHERE model = ? AND gen = ? ORDER BY idx", (number, gen))
    content = io.BytesIO()  # returns its bytes without a copy: a join of large parts holds the GIL
    read = 0
    for index, digest, chunk in rows:
        if index != read or digest_of(chunk) != digest:
            raise Corrupt(f"snapshot {gen} of {model!r}: the digest of chunk {read} does not match", "ckpt_corrupt")
        content.write(chunk)
        read += 1
    whole = content.getvalue()
    if read != generation.chunks or len(whole) != generation.bytes or digest_of(whole) != generation.digest:
        raise Corrupt(f"snapshot {gen} of {model!r}: the digest of the whole does not match", "ckpt_corrupt")
    return whole


def forget(connection: sqlite3.Connection, model: str, keep: tuple[int, int], older_bytes: int, without: Sequence[int]) -> int:
    """Drop old generations and events. The bounds come from the stored state in this transaction. Return the number of events
    dropped. keep: generations and events."""
    row = find_model(connection, model)
    retained = list_generations(connection, row.id)
    first = oldest_of_newest(retained, keep[0])
    staying = kept(retained, first, older_bytes, without)
    numbers = {generation.gen for generation in staying}
    staged = connection.execute("SELECT DISTINCT gen FROM chunks WHERE model = ? AND gen < ?", (row.id, first)).fetchall()
    gone = ({generation.gen for generation in retained} | {gen for (gen,) in staged}) - numbers
    for table in ("generations", "chunks"):
        connection.executemany(f"DELETE FROM {table} WHERE model = ? AND gen = ?", [(row.id, gen) for gen in sorted(gone)])
    bound = trim_bound(row.head, staying, first, keep[1], promotions_in(connection, row))
    return delete_events(connection, row, bound, TRIM_RECORDS_MAX) if bound >= row.head.first_seq else 0


def drop_stale(connection: sqlite3.Connection, owner: Owner) -> int:
    """Delete chunks that no commit can use any more; return how many."""
    sql = """DELETE FROM chunks WHERE NOT EXISTS
                 (SELECT 1 FROM generations AS g WHERE g.model = chunks.model AND g.gen = chunks.gen)
             AND (epoch != ? OR gen <= (SELECT coalesce(max(gen), 0) FROM generations AS g WHERE g.model = chunks.model))"""
    return connection.execute(sql, (owner.epoch,)).rowcount


def drop_model(connection: sqlite3.Connection, model: str, seq_bits: int) -> None:
    """Delete everything of `model`."""
    row = find_model(connection, model)
    for table in ("dedupe", "generations", "chunks", "remembered", "remembered_size"):
        connection.execute(f"DELETE FROM {table} WHERE model = ?", (row.id,))
    for table in ("log", "fresh_ids", "names", "promotions"):
        connection.execute(f"DELETE FROM {table} WHERE key BETWEEN ? AND ?", (row.id << seq_bits, (row.id + 1 << seq_bits) - 1))
    connection.execute("DELETE FROM models WHERE id = ?", (row.id,))
