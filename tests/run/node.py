"""A whole service on a store in memory, for the tests of this package."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from riata.base.clock import SystemClock
from riata.run.admin import Admin
from riata.run.engine import Engine
from riata.run.engine_alone import AloneEngine
from riata.run.service import Service
from riata.wire.parse import parse_for_store
from riata.wire.parsed import Parsed
from tests.doubles.memory_store import MemoryStore
from tests.settings import engine_settings

SMALL: dict[str, Any] = {"encoder": {"bits": 12}, "publish_every_ms": 1}


@dataclass(frozen=True, slots=True)
class Node:
    """A service on a store in memory."""

    engine: Engine
    service: Service
    admin: Admin
    store: MemoryStore
    fatal: list[str]

    def parse(self, rows: list[dict[str, Any]], model: str = "m") -> Parsed:
        body = "\n".join(json.dumps(row) for row in rows).encode()
        return parse_for_store(body, "application/x-ndjson", self.service.context(model, True), labelled=True)

    async def forget(self, model: str, subjects: list[str], drop_trimmed: bool) -> Any:
        """Forget the rows of subjects, however long it takes."""
        self.service.jobs.patience_s = None
        return (await self.service.forgetting.forget(model, subjects, drop_trimmed)).found

    async def observe(self, rows: list[dict[str, Any]], model: str = "m", **how: bool) -> Any:
        return await self.service.observe(model, self.parse(rows, model), **{"wait_applied": True, **how})


def build(store: MemoryStore, **settings: Any) -> Node:
    fatal: list[str] = []
    numbers = itertools.count(1)
    engine = AloneEngine(
        lambda: store,
        engine_settings(**settings),
        SystemClock(),
        lambda size: next(numbers).to_bytes(size, "big"),
        fatal.append,
    )
    return Node(engine, Service(engine), Admin(engine), store, fatal)


async def replayed(engine: Engine) -> None:
    """Wait until everything that was logged before the start is learnt and served."""
    while engine.context.catalogue.coming or any(served.replay_to for served in engine.served_models.values()):
        assert engine.fatal is None, engine.fatal
        await asyncio.sleep(0.002)


def run_with(
    store: MemoryStore, work: Callable[[Node], Awaitable[None]], document: dict[str, Any] = SMALL, **settings: Any
) -> None:
    """Start a service on `store`, create model m from `document` if it does not exist, and stop the service after `work`."""

    async def whole() -> None:
        node = build(store, **settings)
        await node.service.start()
        try:
            await replayed(node.engine)
            if "m" not in node.engine.served_models:
                await node.admin.put_model("m", document)
            await work(node)
        finally:
            await node.service.stop()

    asyncio.run(whole())


def events(n: int, seed: int = 0, first_id: int | None = None) -> list[dict[str, Any]]:
    """Rows whose label depends on the feature `red`."""
    rng = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    for i in range(n):
        colour = str(rng.choice(["red", "green", "blue"]))
        row: dict[str, Any] = {"features": {"colour": colour, "size": float(rng.integers(1, 9))}, "label": int(colour == "red")}
        if first_id is not None:
            row["event_id"] = f"e{first_id + i}"
        rows.append(row)
    return rows
