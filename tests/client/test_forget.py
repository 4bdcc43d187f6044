"""Both clients wait until rows are forgotten, however long that takes."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from riata.client import ApiConflict, AsyncRiata, Riata
from tests.client.fake_http import Script, answer

RESULT = {"model": "m", "seq": 7}
FAILED = {"code": "changed_meanwhile", "detail": "try again"}


def job(state: str, progress: float = 1.0, **more: Any) -> dict[str, Any]:
    """A job as the service shows it."""
    return {"id": "f1", "state": state, "progress": progress, "result": None, "error": None, **more}


def forget(script: Script, shown: list[float], is_async: bool) -> dict[str, Any]:
    if not is_async:
        with Riata("http://test", sleep=script.sleep, transport=httpx.MockTransport(script)) as riata:
            return riata.forget("ann", model="m", on_progress=shown.append)

    async def ask() -> dict[str, Any]:
        async with AsyncRiata("http://test", sleep=script.sleep_async, transport=httpx.MockTransport(script)) as riata:
            return await riata.forget("ann", model="m", on_progress=shown.append)

    return asyncio.run(ask())


@pytest.mark.parametrize("is_async", [False, True])
def test_forget_waits_and_asks_again_if_the_service_does_not_know_of_it(is_async: bool) -> None:
    shown: list[float] = []
    script = Script(
        answer(202, job("running", 0.25)),
        answer(200, job("running", 0.5)),
        answer(404, {"code": "job_not_found"}),
        answer(202, job("running", 0.1)),
        answer(200, job("done", result=RESULT)),
    )
    assert forget(script, shown, is_async) == RESULT
    assert shown == [0.5]
    assert [request.method for request in script.requests] == ["POST", "GET", "GET", "POST", "GET"]
    assert script.requests[1].url.path == "/jobs/f1"
    assert forget(Script(answer(200, RESULT)), shown, is_async) == RESULT
    script = Script(answer(202, job("running", 0.0)), answer(200, job("failed", 0.4, error=FAILED)))
    with pytest.raises(ApiConflict) as failed:
        forget(script, shown, is_async)
    assert (failed.value.code, str(failed.value)) == ("changed_meanwhile", "try again")
