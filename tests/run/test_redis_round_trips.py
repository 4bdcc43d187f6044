"""Calls to a real Redis that syncs every write, and bytes, of each row that a process appends and learns."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from riata.base.clock import SystemClock
from riata.run.admin import Admin
from riata.run.cluster.contender import OWN_S
from riata.run.engine_shared import SharedEngine
from riata.run.service import Service
from riata.store.redis.link import Link, Reply
from riata.store.redis.store import open_redis
from riata.store.store import Append
from riata.wire.parse import parse_for_store
from tests.redis_server import RedisServer, redis_version
from tests.run.node import SMALL
from tests.run.roles import until
from tests.settings import engine_settings, redis_settings

pytestmark = pytest.mark.skipif(redis_version() < (7,), reason="needs a Redis server of version 7 or newer")
ROWS = 300
FEATURES = 75
FOLLOW_EVERY_MS = 500


class Counted:
    """Calls of this process to Redis, and the bytes of their arguments and answers without framing, by kind."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls, self.sent, self.received = Counter[str](), Counter[str](), Counter[str]()
        script, command = Link.script, Link.command

        def run_script(link: Link, name: str, keys: Sequence[bytes], arguments: Sequence[bytes], timeout_ms: int) -> Reply:
            return self._note(name, [*keys, *arguments], script(link, name, keys, arguments, timeout_ms))

        def run_command(link: Link, parts: Sequence[bytes], timeout_ms: int) -> Reply:
            return self._note(parts[0].decode(), parts, command(link, parts, timeout_ms))

        monkeypatch.setattr(Link, "script", run_script)
        monkeypatch.setattr(Link, "command", run_command)

    def _note(self, kind: str, parts: Sequence[bytes], reply: Reply) -> Reply:
        self.calls[kind] += 1
        self.sent[kind] += sum(map(len, parts))
        self.received[kind] += size_of(reply)
        return reply

    def clear(self) -> None:
        for each in (self.calls, self.sent, self.received):
            each.clear()


def size_of(reply: Reply) -> int:
    if isinstance(reply, list):
        return sum(map(size_of, reply))
    return len(reply) if isinstance(reply, bytes) else 8


@asynccontextmanager
async def leader(redis: RedisServer) -> AsyncIterator[tuple[SharedEngine, Service]]:
    """A process of the role `all` that leads and serves a model m."""
    draws = itertools.count(1)
    engine = SharedEngine(
        lambda: open_redis(redis.url, redis_settings()),
        engine_settings(host="one", role="all", shared=True, copies=None, follow_every_ms=FOLLOW_EVERY_MS),
        SystemClock(),
        lambda size: next(draws).to_bytes(size, "big"),
        pytest.fail,
        pytest.fail,
    )
    service = Service(engine)
    await service.start()
    try:
        await until(lambda: engine.learning is not None and engine.started)
        await Admin(engine).put_model("m", SMALL)
        await until(lambda: service.published("m") is not None)
        yield engine, service
    finally:
        await service.stop()


def row(at: int) -> bytes:
    return json.dumps({"features": {f"f{at % 7 + j}": 0.01 * (at + j) for j in range(FEATURES)}, "label": at % 2}).encode()


def beside_rows(passed_s: float) -> float:
    """The most calls that do not depend on the number of rows."""
    return passed_s * (1 / OWN_S + 10_000 / FOLLOW_EVERY_MS) + 20


def test_a_row_of_the_process_that_learns_is_one_call_and_does_not_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The calls beside the appends depend on the time that passes, not on the rows: once in OWN_S one that reads the ends of the
    logs, once in FOLLOW_EVERY_MS those of an edition."""
    counted = Counted(monkeypatch)

    async def work() -> None:
        async with leader(redis) as (engine, service):
            await service.observe_small("m", row(0), "application/json", None)
            await until(lambda: engine.served_models["m"].served == engine.served_models["m"].logged)
            counted.clear()
            start_s = time.monotonic()
            for at in range(ROWS):
                observed = await service.observe_small("m", row(at), "application/json", None)
                assert observed is not None
                assert observed.accepted == 1
            passed_s = time.monotonic() - start_s
            calls, sent, received = counted.calls.copy(), counted.sent.copy(), counted.received.copy()
            await until(lambda: engine.served_models["m"].served == engine.served_models["m"].logged)
        assert calls["append"] == ROWS
        assert calls.total() - ROWS <= beside_rows(passed_s), calls
        row_bytes = sent["append"] / ROWS
        assert row_bytes > FEATURES * 8
        assert received["XREAD"] + received["read"] < 0.1 * ROWS * row_bytes, received

    with RedisServer(tmp_path / "redis") as redis:
        asyncio.run(work())


def test_a_row_of_another_process_is_one_call_of_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that learns gets the record by the call that waits for it."""
    counted = Counted(monkeypatch)

    async def work() -> None:
        async with leader(redis) as (engine, service):
            another, context = open_redis(redis.url, redis_settings()), service.context("m", True)

            def append(at: int) -> None:
                parsed = parse_for_store(row(at), "application/json", context, labelled=True)
                another.append([Append("m", "observe", at, parsed.batch, names=parsed.names)])

            append(0)
            await until(lambda: engine.served_models["m"].served == 2)
            counted.clear()
            start_s = time.monotonic()
            for at in range(ROWS):
                await asyncio.to_thread(append, at)
            await until(lambda: engine.served_models["m"].served == ROWS + 2)
            passed_s, calls = time.monotonic() - start_s, counted.calls.copy()
            another.close()
        assert calls["append"] == ROWS
        assert calls["XREAD"] <= ROWS + beside_rows(passed_s)
        assert calls.total() - calls["append"] - calls["XREAD"] <= beside_rows(passed_s) + passed_s / OWN_S, calls

    with RedisServer(tmp_path / "redis") as redis:
        asyncio.run(work())
