"""The files that a killed process leaves, without killing one: copies of a directory whose store is open."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from typing import Any

from riata.store.sqlite.schema import DATABASE_NAME
from riata.store.sqlite.store import SqliteStore, open_sqlite
from tests.settings import sqlite_settings
from tests.store.batches import LINEAGE, observe, one_row

SETTINGS = sqlite_settings(ballast_bytes=2**16)
WAL = DATABASE_NAME + "-wal"


class ImageAtCommit:
    """A connection that copies the directory at every COMMIT, before and after it."""

    def __init__(self, connection: sqlite3.Connection, directory: Path, target: Path) -> None:
        self._connection = connection
        self._directory = directory
        self._target = target
        self.images: list[Path] = []
        self.committed: list[Path] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def commit(self) -> None:
        self.images.append(image(self._directory, self._target / f"commit{len(self.images)}"))
        self._connection.commit()
        self.committed.append(image(self._directory, self._target / f"committed{len(self.committed)}"))


def image(directory: Path, target: Path) -> Path:
    """Copy the current state of `directory`."""
    shutil.rmtree(target, ignore_errors=True)
    return Path(shutil.copytree(directory, target))


def live_store(directory: Path, models: tuple[str, ...] = ("m",)) -> SqliteStore:
    """A store with empty models, each with its own lineage."""
    store = open_sqlite(directory, SETTINGS)
    for number, model in enumerate(models):
        store.create(model, bytes([number]) + LINEAGE[1:])
    return store


def add(store: SqliteStore, events: int, model: str = "m") -> int:
    """Acknowledge this many events, each in its own transaction; returns the number of the last."""
    for _ in range(events):
        store.append([observe(model, one_row())])
    return store.head(model).seq


def flip(path: Path, at: int, bit: int = 0) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1 << bit
    path.write_bytes(content)


def cut(path: Path, size: int) -> None:
    """Keep the first `size` bytes."""
    path.write_bytes(path.read_bytes()[:size])


def remove(path: Path) -> None:
    path.unlink()
