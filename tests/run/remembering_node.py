"""A service with a clock that tests can move, and helpers for delayed labels."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any
from unittest.mock import patch

import pytest

from riata.base.clock import SystemClock
from riata.run.admin import Admin
from riata.run.engine_alone import AloneEngine
from riata.run.labels import expiry
from riata.run.labels.pending_rows import encode_waiting
from riata.run.labels.remembering import RememberedTally
from riata.run.outcome import Observed, RowsRefused
from riata.run.service import Service
from riata.store.payload import decode_batch
from riata.store.store import Store
from riata.wire.batch import Batch
from riata.wire.parse import parse_examples
from tests.doubles.memory_store import MemoryStore
from tests.run.node import SMALL, Node, replayed
from tests.settings import engine_settings

WAIT_S = 900.0


class MovedClock(SystemClock):
    """The machine's clock plus an offset."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def unix_ms(self) -> int:
        return super().unix_ms() + self.ahead_ms


class RememberingNode(Node):
    """A service that remembers predictions."""

    __slots__ = ()

    @property
    def clock(self) -> MovedClock:
        assert isinstance(self.engine.clock, MovedClock)
        return self.engine.clock

    async def remember(self, rows: list[dict[str, Any]], model: str = "m") -> list[str]:
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

    async def until(self, reached: Callable[[], bool]) -> None:
        """Wait for a condition that a background thread will meet."""
        deadline = time.monotonic() + WAIT_S
        while not reached():
            assert time.monotonic() < deadline, self.service.remembered()
            await asyncio.sleep(0.01)


def build(store: MemoryStore, **settings: Any) -> RememberingNode:
    fatal: list[str] = []
    numbers = itertools.count(1)
    engine = AloneEngine(
        lambda: store,
        engine_settings(**settings),
        MovedClock(),
        lambda size: next(numbers).to_bytes(size, "big"),
        fatal.append,
    )
    return RememberingNode(engine, Service(engine), Admin(engine), store, fatal)


def run_node(
    store: MemoryStore,
    work: Callable[[RememberingNode], Awaitable[None]],
    document: dict[str, Any] | None = None,
    sweeps_every_s: float = 0.05,
    **settings: Any,
) -> None:
    """Start a service on `store` with a model m from SMALL and `document`, and stop it after `work`. The store can be read
    afterwards.
    """

    async def whole() -> None:
        node = build(store, **settings)
        await node.service.start()
        await replayed(node.engine)
        try:
            if "m" not in node.engine.served_models:
                await node.admin.put_model("m", {**SMALL, **(document or {})})
            await work(node)
        finally:
            await node.service.stop()
            store._closed = False  # it was closed; now the test looks at what it holds
            assert node.fatal == []

    with patch.object(expiry, "EVERY_S", sweeps_every_s):
        asyncio.run(whole())


def logged(store: Store, model: str = "m") -> list[Batch]:
    """The observe records of a log."""
    return [decode_batch(record.payload) for record in store.read(model, 0, 2**30) if record.kind == "observe"]


def labels(store: Store, model: str = "m") -> list[float]:
    """The labels of all events in a log, in the order of the log."""
    return [label for batch in logged(store, model) for label in batch.label.tolist()]
