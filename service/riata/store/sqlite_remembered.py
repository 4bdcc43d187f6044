"""Predictions that wait for their label, in the embedded store: SQL over an open connection, inside the caller's transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from riata.store.store import Remembered


def put(connection: sqlite3.Connection, model: int, rows: Sequence[Remembered], bytes_max: int) -> bool:
    """Keep `rows`; false, and nothing is kept, where there would be more than `bytes_max` bytes."""
    kept = connection.execute("SELECT coalesce(sum(length(row)), 0) FROM remembered WHERE model = ?", (model,)).fetchone()[0]
    fresh = {row.key: row for row in rows}
    replaced = sum(len(row.row) for row in find(connection, model, list(fresh)).values())
    if kept - replaced + sum(len(row.row) for row in fresh.values()) > bytes_max:
        return False
    values = [(model, row.key, row.due_ms, row.row) for row in fresh.values()]
    connection.executemany("INSERT OR REPLACE INTO remembered VALUES (?, ?, ?, ?)", values)
    return True


def find(connection: sqlite3.Connection, model: int, keys: Sequence[bytes]) -> dict[bytes, Remembered]:
    """Return those of `keys` that are kept."""
    sql = "SELECT due_ms, row FROM remembered WHERE model = ? AND key = ?"
    found = {key: connection.execute(sql, (model, key)).fetchone() for key in keys}
    return {key: Remembered(key, *values) for key, values in found.items() if values}


def due(connection: sqlite3.Connection, model: int, now_ms: int, rows_max: int) -> list[Remembered]:
    """Return the rows whose time is over, the earliest first."""
    sql = "SELECT key, due_ms, row FROM remembered WHERE model = ? AND due_ms <= ? ORDER BY due_ms, key LIMIT ?"
    return [Remembered(*values) for values in connection.execute(sql, (model, now_ms, rows_max))]


def delete(connection: sqlite3.Connection, model: int, keys: Sequence[bytes]) -> int:
    """Keep these no longer; return how many were kept."""
    sql = "DELETE FROM remembered WHERE model = ? AND key = ?"
    return sum(connection.execute(sql, (model, key)).rowcount for key in keys)
