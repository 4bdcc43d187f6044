from __future__ import annotations

import asyncio
import inspect

import httpx
import pytest

from riata.client import ApiNotFound, AsyncRiata, Unreachable
from tests.client.fake_http import OBSERVED, Script, answer, problem
from tests.client.test_routes import CALLS

ROW = {"features": {"age": 41.5}, "label": 1}


def client(script: Script) -> AsyncRiata:
    return AsyncRiata("http://test", sleep=script.sleep_async, transport=httpx.MockTransport(script))


def test_every_method_returns_a_coroutine() -> None:
    script = Script()

    async def run() -> None:
        async with client(script) as riata:
            for name, call in CALLS.items():
                script.answers = [answer(200, {**OBSERVED, "result": {}})]
                made = call(riata)  # type: ignore[arg-type]
                assert inspect.iscoroutine(made), name
                assert not script.requests, name
                await made
                assert script.requests.pop(), name

    asyncio.run(run())


def test_observe_waits_and_sends_again() -> None:
    script = Script(problem(503, "lag", "2"), answer(202, OBSERVED), httpx.ReadError("reset"), answer(202, OBSERVED))

    async def run() -> int:
        async with client(script) as riata:
            first = await riata.observe([ROW])
            second = await riata.observe([ROW])
        return first.accepted + second.accepted

    assert asyncio.run(run()) == 2
    assert script.waits == [2.0, 0.1]


def test_failures_are_the_same_exceptions() -> None:
    async def run(script: Script) -> None:
        async with client(script) as riata:
            await riata.metrics("m")

    with pytest.raises(ApiNotFound):
        asyncio.run(run(Script(problem(404, "model_not_found"))))
    with pytest.raises(Unreachable):
        asyncio.run(run(Script(httpx.ConnectError("refused"))))
