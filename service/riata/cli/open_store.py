"""Opens the store of a service for the commands that read it: a data directory, or a store that several processes share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from riata.base.errors import BadInput

if TYPE_CHECKING:
    from riata.store.store import Store

DATA_HELP = "Data directory of a service that is not running."
STORE_HELP = "URL of a Redis store, as for `riata serve --store`, instead of a directory. Services may be running."


@contextmanager
def kept(data: Path | None, store: str | None) -> Iterator[tuple[str, Store]]:
    """Open the given store for reading; yields its name, without secrets, and the store.

    User, password file and namespace of a shared store come from the environment, as for `riata serve`. Raises `BadInput`
    (code `bad_option`) unless exactly one is given, `NotFound` (code `no_store`) if there is no store.
    """
    if (data is None) == (store is None):
        raise BadInput("give either --data with a directory, or --store with the URL of a Redis", "bad_option")
    name, opened = _directory(data) if data is not None else _shared(str(store))
    try:
        yield name, opened
    finally:
        opened.close()


def _directory(data: Path) -> tuple[str, Store]:
    from riata.store.sqlite.store import read_sqlite

    return str(data), read_sqlite(data)


def _shared(url: str) -> tuple[str, Store]:
    from riata import wiring
    from riata.base.read_settings import load_settings

    settings = load_settings({"store": url})
    if not settings.store_scheme.shared:
        raise BadInput(f"--store: {url!r} is not a Redis; give the data directory of the service with --data", "bad_option")
    return wiring.where(settings), wiring.open_store(settings)
