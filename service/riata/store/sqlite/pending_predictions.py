"""Predictions that wait for their label, in the embedded store. SQL on an open connection, inside the caller's transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

from riata.store.sqlite.schema import PAGE_BYTES
from riata.store.store import PendingPrediction


def put(connection: sqlite3.Connection, model: int, rows: Sequence[PendingPrediction], bytes_max: int) -> bool:
    """Store `rows` and return true. Store nothing and return false if the model would have more than `bytes_max` bytes."""
    count, total = size(connection, model)
    fresh = {row.key: row for row in rows}
    replaced = _lengths(connection, model, fresh)
    total += sum(len(row.row) for row in fresh.values()) - sum(replaced)
    if total > bytes_max:
        return False
    values = [(model, row.key, row.due_ms, row.row) for row in fresh.values()]
    connection.executemany("INSERT OR REPLACE INTO remembered VALUES (?, ?, ?, ?)", values)
    _resize(connection, model, count + len(fresh) - len(replaced), total)
    return True


def size(connection: sqlite3.Connection, model: int) -> tuple[int, int]:
    """Return how many rows are stored, and their bytes. Both are kept as counters, since summing would read all rows."""
    found = connection.execute("SELECT rows, bytes FROM remembered_size WHERE model = ?", (model,)).fetchone()
    return (found[0], found[1]) if found else (0, 0)


def written_bytes(rows: Sequence[PendingPrediction]) -> int:
    """Return about how many bytes `put` writes to the write-ahead log: whole pages of the table, its index and the counters."""
    return 3 * PAGE_BYTES + 2 * sum(len(row.row) for row in rows)


def find(connection: sqlite3.Connection, model: int, keys: Sequence[bytes]) -> dict[bytes, PendingPrediction]:
    """Return the stored predictions among `keys`."""
    sql = "SELECT due_ms, row FROM remembered WHERE model = ? AND key = ?"
    found = {key: connection.execute(sql, (model, key)).fetchone() for key in keys}
    return {key: PendingPrediction(key, *values) for key, values in found.items() if values}


def due(connection: sqlite3.Connection, model: int, now_ms: int, rows_max: int) -> list[PendingPrediction]:
    """Return the rows that are due at `now_ms`, the earliest first, at most `rows_max`."""
    sql = "SELECT key, due_ms, row FROM remembered WHERE model = ? AND due_ms <= ? ORDER BY due_ms, key LIMIT ?"
    return [PendingPrediction(*values) for values in connection.execute(sql, (model, now_ms, rows_max))]


def delete(connection: sqlite3.Connection, model: int, keys: Sequence[bytes]) -> int:
    """Delete these rows; return how many there were."""
    count, total = size(connection, model)
    gone = _lengths(connection, model, dict.fromkeys(keys))
    connection.executemany("DELETE FROM remembered WHERE model = ? AND key = ?", [(model, key) for key in keys])
    if gone:
        _resize(connection, model, count - len(gone), total - sum(gone))
    return len(gone)


def _lengths(connection: sqlite3.Connection, model: int, keys: Iterable[bytes]) -> list[int]:
    """Return the lengths of the rows stored under `keys`, which are distinct."""
    sql = "SELECT length(row) FROM remembered WHERE model = ? AND key = ?"
    found = (connection.execute(sql, (model, key)).fetchone() for key in keys)
    return [row[0] for row in found if row]


def _resize(connection: sqlite3.Connection, model: int, count: int, total: int) -> None:
    connection.execute("INSERT OR REPLACE INTO remembered_size VALUES (?, ?, ?)", (model, count, total))
