"""A copy of the directory of an embedded store whose service is not running, and the check of a copy."""

from __future__ import annotations

import shutil
from pathlib import Path

from riata.base.directories import sync_directory
from riata.base.errors import Conflict, NotFound
from riata.store.sqlite.directory import DirectoryLock
from riata.store.sqlite.online_backup import PART, WAL_NAME, copy_segments, sync_all
from riata.store.sqlite.payload_files import NAME as PAYLOADS
from riata.store.sqlite.schema import DATABASE_NAME, FILE_MODE
from riata.store.sqlite.store import read_sqlite
from riata.store.sqlite.witness import WITNESS_NAME


def copy_stopped(directory: Path, to: Path) -> None:
    """Copy the directory of a service that is not running into the new directory `to`.

    Raises `NotFound` (code `no_store`), `Conflict` (`directory_locked` if a process uses it, `backup_exists`), `OSError`.
    """
    if not (directory / DATABASE_NAME).exists():
        raise NotFound(f"there is no store in {directory}", "no_store")
    require_new(to)
    lock = DirectoryLock(directory)
    try:
        part = to.with_name(to.name + PART)
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        beside = [directory / name for name in (WAL_NAME, WITNESS_NAME) if (directory / name).exists()]
        for path in [directory / DATABASE_NAME, *beside, *directory.glob(f"{PAYLOADS}.*")]:
            shutil.copyfile(path, part / path.name)
            (part / path.name).chmod(FILE_MODE)
        copy_segments(directory, part, lambda: None)
        sync_all(part)
        part.rename(to)
        sync_directory(to.parent)
    finally:
        lock.release()


def require_new(to: Path) -> None:
    """Raise `Conflict` (code `backup_exists`) if something has this path."""
    if to.exists():
        raise Conflict(f"{to} exists; name a path that does not, so that no backup is overwritten", "backup_exists")


def verify(directory: Path) -> dict[str, int]:
    """Read every record and every checkpoint of a stopped directory; return the last event of each model.

    Raises `Corrupt` if one is not what was written, `LogGap` (code `events_missing`) if acknowledged events are missing.
    """
    store = read_sqlite(directory)
    try:
        ends = {}
        for model in store.models():
            head = store.head(model)
            at = head.first_seq - 1
            while at < head.seq:
                at = store.read(model, at)[-1].last
            for generation in store.generations(model):
                store.open_generation(model, generation.gen)
            ends[model] = at
        return ends
    finally:
        store.close()
