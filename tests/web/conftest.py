"""Fixtures of this package: the whole service on a store in memory, and an application of it."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest

from riata.base.settings import Settings
from riata.store.sqlite.store import open_in_memory
from riata.store.store import Store
from riata.wiring import OPENERS
from tests.web.asking import Client, asking
from tests.web.serving import Whole

BODY_BYTES_MAX = 256 * 1024  # small, so that tests of the bound are fast; above the bound for parsing in a thread
BOUNDS: dict[str, Any] = {"body_bytes_max": BODY_BYTES_MAX, "import_bytes_max": BODY_BYTES_MAX, "body_deadline_s": 0.2}


@pytest.fixture
def service() -> Whole:
    return Whole()


@pytest.fixture
def opening(monkeypatch: pytest.MonkeyPatch) -> Event:
    """Stores are opened once this is set."""
    may_open = Event()

    def opened(settings: Settings) -> Store:
        may_open.wait()
        return open_in_memory(settings.dedupe_events)

    monkeypatch.setitem(OPENERS, "memory", opened)
    return may_open


@pytest.fixture
def client(service: Whole) -> Iterator[Client]:
    with asking(service.app(**BOUNDS)) as found:
        yield found


@pytest.fixture(scope="module")
def standing() -> Iterator[Client]:
    """A client of one service for all tests of a module, whose models are what the tests before left."""
    with asking(Whole().app(**BOUNDS)) as found:
        yield found
