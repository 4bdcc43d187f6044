"""A process for kill tests: it appends events, one group after the other, and prints which are acknowledged.

    python -m tests.store.appender DIRECTORY FIRST_KEY GROUPS [long]

With `long` every payload lies in a file of its own model. Each group is two requests of two events, whose ids count up from
FIRST_KEY. `ack K` means that all ids below K are durable; `gen G` that checkpoint G is. A refusal is printed as
`error CODE OUTCOME`, then the next group is tried, ten times.
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

from riata.base.errors import Unavailable
from riata.store.sqlite.store import SqliteSettings, SqliteStore, open_sqlite
from riata.store.store import Owner
from tests.settings import sqlite_settings
from tests.store.batches import LINEAGE, batch_of, observe, save

SETTINGS = sqlite_settings(ballast_bytes=2**16, wal_bytes_max=2**17)
LONG = dataclasses.replace(SETTINGS, long_bytes=1)
CHECKPOINT_EVERY = 10  # groups
EVENTS_PER_GROUP = 4
ERRORS_MAX = 10


def main(directory: Path, first_key: int, groups: int, settings: SqliteSettings) -> None:
    store = open_sqlite(directory, settings)
    if not store.models():
        store.create("m", LINEAGE)
    owner = store.acquire(first_key.to_bytes(16, "little"), 1, "here", 0)
    say("ready")
    errors = 0
    for i in range(groups):
        key = first_key + EVENTS_PER_GROUP * i
        try:
            append(store, key)
            if i % CHECKPOINT_EVERY == CHECKPOINT_EVERY - 1:
                checkpoint(store, owner, i)
        except Unavailable as error:
            say(f"error {error.code} {error.outcome}")
            errors += 1
            if errors == ERRORS_MAX:
                break
    store.close()


def append(store: SqliteStore, key: int) -> None:
    """Append ids key..key+3 in one group."""
    requests = []
    for first in (key, key + 2):
        ids = [k.to_bytes(16, "little") for k in (first, first + 1)]
        rows = [[(k % 1000, 1.0 + k)] for k in (first, first + 1)]
        requests.append(observe("m", batch_of(rows, [1, 1], ids)))
    store.append(requests)
    say(f"ack {key + EVENTS_PER_GROUP}")


def checkpoint(store: SqliteStore, owner: Owner, i: int) -> None:
    """Commit a checkpoint of a few chunks, trim, and do the housekeeping."""
    gen = save(store, owner, "m", store.head("m"), bytes([i % 256]) * 600_000)
    say(f"gen {gen}")
    store.trim(owner, "m", 3, 10_000)
    store.idle()


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), LONG if sys.argv[4:] == ["long"] else SETTINGS)
