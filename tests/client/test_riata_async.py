from __future__ import annotations

import asyncio
import inspect

import httpx
import pytest

from riata.client import ApiNotFound, AsyncRiata, Riata, Unreachable
from tests.client.fake_http import OBSERVED, Script, answer, problem

ROW = {"features": {"age": 41.5}, "label": 1}


def client(script: Script) -> AsyncRiata:
    return AsyncRiata("http://test", sleep=script.sleep_async, transport=httpx.MockTransport(script))


def public(kind: type) -> dict[str, str]:
    return {name: str(inspect.signature(member)) for name, member in vars(kind).items() if not name.startswith("_")}


def test_both_clients_have_the_same_methods_with_the_same_arguments() -> None:
    assert public(Riata) == public(AsyncRiata)
    methods = [member for name, member in vars(AsyncRiata).items() if not name.startswith("_")]
    assert all(inspect.iscoroutinefunction(member) for member in methods)


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
