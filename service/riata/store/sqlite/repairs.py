"""What `riata repair` does to the embedded store: SQL over an open connection, inside the caller's transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from riata.base.errors import BadInput
from riata.store.sqlite.log import ModelRow, chain_at, find_model
from riata.store.sqlite.schema import SEQ_BITS, connect

KEYED: Final = ("log", "fresh_ids", "names")  # tables by model id * 2^44 + event
OF_MODELS: Final = ("dedupe", "remembered", "remembered_size", "generations", "chunks")


def cut(connection: sqlite3.Connection, model: str, event: int) -> ModelRow:
    """Delete the log of `model` from `event` on, with the ids and names that came with it, and generations beyond it; return the
    model as it is then. Raises `BadInput` (code `bad_cut`) where no record ends before `event`."""
    row = find_model(connection, model)
    last = event - 1
    chain = chain_at(connection, row, last)
    if chain is None:
        raise BadInput(f"log of {model!r}: no record ends at event {last}", "bad_cut")
    for table in KEYED:
        bounds = (row.id << SEQ_BITS | event, (row.id + 1 << SEQ_BITS) - 1)
        connection.execute(f"DELETE FROM {table} WHERE key BETWEEN ? AND ?", bounds)
    connection.execute("DELETE FROM dedupe WHERE model = ? AND seq > ?", (row.id, last))
    beyond = "SELECT gen FROM generations WHERE model = ? AND applied > ?"
    connection.execute(f"DELETE FROM chunks WHERE model = ? AND gen IN ({beyond})", (row.id, row.id, last))
    connection.execute("DELETE FROM generations WHERE model = ? AND applied > ?", (row.id, last))
    floor = min(row.head.dedupe_floor, event)
    values = (last, chain, floor, row.id)
    connection.execute("UPDATE models SET seq = ?, chain = ?, dedupe_floor = ? WHERE id = ?", values)
    return find_model(connection, model)


def copy_model(connection: sqlite3.Connection, model: str, database: Path) -> int:
    """Copy every row of `model`, as it is, into a new database; return the number of the model, which is the same there."""
    number = find_model(connection, model).id
    keys = (number << SEQ_BITS, (number + 1 << SEQ_BITS) - 1)
    side = connect(database)
    try:
        side.execute("BEGIN IMMEDIATE")
        _copy(connection, side, "models", "id = ?", (number,))
        for table in KEYED:
            _copy(connection, side, table, "key BETWEEN ? AND ?", keys)
        for table in OF_MODELS:
            _copy(connection, side, table, "model = ?", (number,))
        side.execute("COMMIT")
    finally:
        side.close()
    return number


def _copy(source: sqlite3.Connection, target: sqlite3.Connection, table: str, where: str, values: tuple[Any, ...]) -> None:
    rows: Iterator[tuple[Any, ...]] = source.execute(f"SELECT * FROM {table} WHERE {where}", values)
    columns = len(source.execute(f"SELECT * FROM {table} LIMIT 0").description)
    target.executemany(f"INSERT INTO {table} VALUES ({','.join('?' * columns)})", rows)
