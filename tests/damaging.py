"""Flips bits in the files of an embedded store, without using the code of the store."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

SEQ_BITS = 44


def _rows(directory: Path, sql: str, *values: object) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(directory / "riata.db")
    try:
        found = connection.execute(sql, values).fetchall()
        connection.commit()
        return found
    finally:
        connection.close()


def number_of(directory: Path, model: str) -> int:
    found = _rows(directory, "SELECT id FROM models WHERE name = ?", model)[0][0]
    assert isinstance(found, int)
    return found


def firsts(directory: Path, model: str) -> list[int]:
    """The first event of every record."""
    base = number_of(directory, model) << SEQ_BITS
    sql = "SELECT key - ? FROM log WHERE key >= ? AND key < ? ORDER BY key"
    return [int(str(row[0])) for row in _rows(directory, sql, base, base, base + (1 << SEQ_BITS))]


def flip_in_file(path: Path, at: int) -> None:
    """Flip one bit of one byte."""
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 4]))


def place_of(directory: Path, model: str, event: int) -> tuple[Path, list[int], int]:
    """The file, first bytes and length of the payload of the record that begins with `event`. A database may have unused pages
    with the same payload.
    """
    number = number_of(directory, model)
    sql = "SELECT payload, file, at, length FROM log WHERE key = ?"
    payload, file, at, length = _rows(directory, sql, number << SEQ_BITS | event)[0]
    if file:
        return directory / f"riata.payloads.{number}.{file}", [int(str(at))], int(str(length))
    assert isinstance(payload, bytes)
    whole = (directory / "riata.db").read_bytes()
    places = [found.start() for found in re.finditer(re.escape(payload), whole)]
    assert places  # in one page, and not in the write-ahead log: the service was stopped
    return directory / "riata.db", places, len(payload)


def flip_payload(directory: Path, model: str, event: int) -> Path:
    """Flip a bit in the middle of the payload of the record that begins with `event`, in any file; returns the file."""
    path, places, length = place_of(directory, model, event)
    for at in places:
        flip_in_file(path, at + length // 2)
    return path


def flip_generations(directory: Path, model: str, of: str = "gen > 0") -> list[int]:
    """Flip a bit in the first chunk of the generations of a model; return their numbers."""
    number = number_of(directory, model)
    found = []
    for gen, data in _rows(directory, f"SELECT gen, data FROM chunks WHERE model = ? AND idx = 0 AND {of}", number):
        assert isinstance(gen, int)
        assert isinstance(data, bytes)
        at = len(data) // 2
        spoilt = data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]
        _rows(directory, "UPDATE chunks SET data = ? WHERE model = ? AND gen = ? AND idx = 0", spoilt, number, gen)
        found.append(gen)
    return found


def change(directory: Path, sql: str, *values: object) -> None:
    """Run one statement on the database."""
    _rows(directory, sql, *values)


def fold(directory: Path) -> None:
    """Fold the write-ahead log of a service that was killed into the database, as a start would."""
    change(directory, "PRAGMA wal_checkpoint(TRUNCATE)")
