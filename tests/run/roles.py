"""Services of several processes on one shared store in memory, each with its own store objects and threads."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from riata.base.clock import SystemClock
from riata.run.admin import Admin
from riata.run.engine_settings import Role
from riata.run.engine_shared import SharedEngine
from riata.run.service import Service
from riata.wire.parse import parse_examples
from riata.wire.parsed import Parsed
from tests.doubles.shared_memory_store import SharedMemoryStore
from tests.run.node import SMALL
from tests.settings import engine_settings

WAIT_S = 300.0
_nonces = itertools.count(1)


@dataclass
class Process:
    """One role. `gone` disconnects all its store objects; an empty sentence connects them again."""

    engine: SharedEngine
    service: Service
    admin: Admin
    objects: list[SharedMemoryStore]
    fatal: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    def cut_off(self, why: str) -> None:
        for store in self.objects:
            store.gone = why

    def parse(self, rows: list[dict[str, Any]], model: str = "m") -> Parsed:
        body = "\n".join(json.dumps(row) for row in rows).encode()
        return parse_examples(body, "application/x-ndjson", self.service.context(model, True), labelled=True)

    async def observe(self, rows: list[dict[str, Any]], model: str = "m", **how: bool) -> Any:
        return await self.service.observe(model, self.parse(rows, model), **{"wait_applied": True, **how})

    def applied(self, model: str = "m") -> int:
        served_model = self.engine.served_models.get(model)
        return served_model.published.applied if served_model is not None and served_model.published is not None else 0

    def has(self, model: str = "m") -> bool:
        served_model = self.engine.served_models.get(model)
        return served_model is not None and served_model.published is not None


async def until(what: Callable[[], object], wait_s: float = WAIT_S) -> None:
    """Wait until `what` is true."""
    deadline = time.monotonic() + wait_s
    while not what():
        assert time.monotonic() < deadline, "it did not become true in time"
        await asyncio.sleep(0.01)


def build(store: SharedMemoryStore, role: Role, copies: Path | None = None, **settings: Any) -> Process:
    """A process that is not started yet."""
    objects: list[SharedMemoryStore] = []
    number = next(_nonces)
    draws = itertools.count(1)

    def open_store() -> SharedMemoryStore:
        another = store.another()
        another.gone = objects[0].gone if objects else store.gone
        objects.append(another)
        return another

    fatal: list[str] = []
    lost: list[str] = []
    engine = SharedEngine(
        open_store,
        engine_settings(
            host=f"host-{number}",
            role=role,
            shared=True,
            copies=copies,
            **{"lease_ttl_ms": 1500, "follow_every_ms": 20, "min_seq_wait_ms": 20_000, **settings},
        ),
        SystemClock(),
        lambda size: (number << 32 | next(draws)).to_bytes(size, "big"),
        fatal.append,
        lost.append,
    )
    return Process(engine, Service(engine), Admin(engine), objects, fatal, lost)


@asynccontextmanager
async def running(store: SharedMemoryStore, role: Role, copies: Path | None = None, **settings: Any) -> AsyncIterator[Process]:
    """A started process. It is stopped normally at the end, unless it lost the store."""
    process = build(store, role, copies, **settings)
    await process.service.start()
    try:
        yield process
    finally:
        await process.service.stop()


async def with_model(process: Process, document: dict[str, Any] = SMALL) -> None:
    """Create the model m."""
    await until(lambda: process.engine.started)
    await process.admin.put_model("m", document)
