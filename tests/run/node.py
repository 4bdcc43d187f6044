"""A whole service on a store in memory, for the tests of this package."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from riata.base.clock import SystemClock
from riata.run.admin import Admin
from riata.run.engine import Engine
from riata.run.engine_alone import AloneEngine
from riata.run.labels.pending_rows import encode_waiting
from riata.run.labels.remembering import RememberedTally
from riata.run.outcome import Observed, RowsRefused
from riata.run.service import Service
from riata.wire.parse import parse_examples, parse_for_store
from riata.wire.parsed import Parsed
from tests.doubles.memory_store import MemoryStore
from tests.settings import engine_settings

WAIT_S = 300.0
SMALL: dict[str, Any] = {"encoder": {"bits": 12}, "publish_every_ms": 1}


class MovedClock(SystemClock):
    """The machine's clock plus an offset."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def unix_ms(self) -> int:
        return super().unix_ms() + self.ahead_ms


@dataclass(frozen=True, slots=True)
class Node:
    """A service on a store in memory."""

    engine: Engine
    service: Service
    admin: Admin
    store: MemoryStore
    fatal: list[str]

    @property
    def clock(self) -> MovedClock:
        assert isinstance(self.engine.clock, MovedClock)
        return self.engine.clock

    def parse(self, rows: list[dict[str, Any]], model: str = "m") -> Parsed:
        body = "\n".join(json.dumps(row) for row in rows).encode()
        return parse_for_store(body, "application/x-ndjson", self.service.context(model, True), labelled=True)

    async def forget(self, model: str, subjects: list[str], drop_trimmed: bool) -> Any:
        """Forget the rows of subjects, however long it takes."""
        self.service.jobs.patience_s = None
        return (await self.service.forgetting.forget(model, subjects, drop_trimmed)).found

    async def observe(self, rows: list[dict[str, Any]], model: str = "m", **how: bool) -> Any:
        return await self.service.observe(model, self.parse(rows, model), **{"wait_applied": True, **how})

    async def remember(self, rows: list[dict[str, Any]], model: str = "m") -> list[str]:
        """Keep predictions of rows until their labels come; returns their ids."""
        body = "\n".join(json.dumps({"features": row}) for row in rows).encode()
        parsed = parse_examples(body, "application/x-ndjson", self.service.context(model, True), labelled=False)
        return await self.service.remember(model, encode_waiting(parsed.batch, parsed.names))

    async def label(self, prediction_id: str, label: float, model: str = "m", **more: Any) -> Observed:
        told: Observed = await self.observe([{"prediction_id": prediction_id, "label": label, **more}], model)
        return told

    async def refusal(self, prediction_id: str, label: float, model: str = "m", **more: Any) -> str:
        """The error code of the single row, which must be refused."""
        with pytest.raises(RowsRefused) as refused:
            await self.label(prediction_id, label, model, **more)
        [error] = refused.value.observed.errors
        return error.code

    def tally(self, model: str = "m") -> RememberedTally:
        return self.service.remembered()[model]

    async def until(self, reached: Callable[[], object]) -> None:
        """Wait for a condition that a background thread will meet."""
        deadline = time.monotonic() + WAIT_S
        while not reached():
            assert time.monotonic() < deadline, self.service.remembered()
            await asyncio.sleep(0.005)


def build(store: MemoryStore, **settings: Any) -> Node:
    fatal: list[str] = []
    numbers = itertools.count(1)
    engine = AloneEngine(
        lambda: store,
        engine_settings(**settings),
        MovedClock(),
        lambda size: next(numbers).to_bytes(size, "big"),
        fatal.append,
    )
    return Node(engine, Service(engine), Admin(engine), store, fatal)


async def replayed(engine: Engine) -> None:
    """Wait until everything that was logged before the start is learnt and served."""
    while engine.context.catalogue.coming or any(served.replay_to for served in engine.served_models.values()):
        assert engine.fatal is None, engine.fatal
        await asyncio.sleep(0.002)


@asynccontextmanager
async def started(node: Node) -> AsyncIterator[Node]:
    """Start a service, and stop it, which nothing may have ended before."""
    await node.service.start()
    try:
        await replayed(node.engine)
        yield node
    finally:
        await node.service.stop()
    assert node.fatal == []


@asynccontextmanager
async def serving(store: MemoryStore, document: dict[str, Any] = SMALL, **settings: Any) -> AsyncIterator[Node]:
    """A service on `store` with the model m, made from `document` if it does not exist."""
    async with started(build(store, **settings)) as node:
        if "m" not in node.engine.served_models:
            await node.admin.put_model("m", document)
        yield node


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
