"""The key of the digests of subjects, in a table of its own.

The table is made when it is first needed, not by a new version of the schema: an older program still opens the database, and its
digests are found by the key of the model.
"""

from __future__ import annotations

import sqlite3
from functools import partial
from typing import Final

from riata.store.sqlite.session import Session

_TABLE: Final = "CREATE TABLE IF NOT EXISTS subject_key (one INTEGER PRIMARY KEY CHECK (one = 1), key BLOB NOT NULL) STRICT"


def keep(connection: sqlite3.Connection, fresh: bytes) -> bytes:
    """Return the key; `fresh` if there was none."""
    connection.execute(_TABLE)
    connection.execute("INSERT OR IGNORE INTO subject_key VALUES (1, ?)", (fresh,))
    key: bytes = connection.execute("SELECT key FROM subject_key").fetchone()[0]
    return key


def known(connection: sqlite3.Connection) -> bytes:
    """Return the key; empty if the store has none yet."""
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'subject_key'").fetchone() is None:
        return b""
    row = connection.execute("SELECT key FROM subject_key").fetchone()
    return b"" if row is None else bytes(row[0])


def subject_key(session: Session, fresh: bytes) -> bytes:
    """Return the key; `fresh`, which is kept, if there is none. Empty if there is none and the store is read only."""
    return session.read(known) or (b"" if session.read_only else session.write(partial(keep, fresh=fresh)))
