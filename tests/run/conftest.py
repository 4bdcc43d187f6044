"""A service on a store in memory for each test that asks for it; a module or a test may have other documents and settings."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.doubles.memory_store import MemoryStore
from tests.run.node import SMALL, Node, serving


@pytest.fixture
def document() -> dict[str, Any]:
    """The configuration of the model m."""
    return SMALL


@pytest.fixture
def settings() -> dict[str, Any]:
    """What the engine has instead of its defaults."""
    return {}


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
async def node(store: MemoryStore, document: dict[str, Any], settings: dict[str, Any]) -> AsyncIterator[Node]:
    async with serving(store, document, **settings) as running:
        yield running
