"""Both clients wait until a model has gone back, and send the request once."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from riata.base.errors import BadInput
from riata.client import ApiConflict, AsyncRiata, Riata, Unreachable
from tests.client.fake_http import Script, answer

RESULT = {"model": "m", "to": 3, "seq": 7}
FAILED = {"code": "not_reachable", "detail": "it can go back to event 5"}


def job(state: str, progress: float = 1.0, **more: Any) -> dict[str, Any]:
    """A job as the service shows it."""
    return {"id": "b1", "state": state, "progress": progress, "result": None, "error": None, **more}


def restore(script: Script, is_async: bool, **asked: Any) -> dict[str, Any]:
    if not is_async:
        with Riata("http://test", sleep=script.sleep, transport=httpx.MockTransport(script)) as riata:
            return riata.restore("m", **asked)

    async def ask() -> dict[str, Any]:
        async with AsyncRiata("http://test", sleep=script.sleep_async, transport=httpx.MockTransport(script)) as riata:
            return await riata.restore("m", **asked)

    return asyncio.run(ask())


@pytest.mark.parametrize("is_async", [False, True])
def test_restore_waits_for_its_job(is_async: bool) -> None:
    shown: list[float] = []
    script = Script(
        answer(202, job("running", 0.25)),
        answer(200, job("running", 0.5)),
        answer(200, job("done", result=RESULT)),
    )
    assert restore(script, is_async, to=3, on_progress=shown.append) == RESULT
    assert shown == [0.5]
    assert [request.method for request in script.requests] == ["POST", "GET", "GET"]
    with pytest.raises(ApiConflict) as failed:
        restore(Script(answer(202, job("running")), answer(200, job("failed", error=FAILED))), is_async, to=3)
    assert (failed.value.code, str(failed.value)) == ("not_reachable", "it can go back to event 5")
    with pytest.raises(Unreachable, match="was restarted before"):
        restore(Script(answer(202, job("running")), answer(404, {"code": "job_not_found"})), is_async, to=3)


@pytest.mark.parametrize("is_async", [False, True])
def test_moments_have_a_zone_and_a_generation_needs_no_job(is_async: bool) -> None:
    script = Script(answer(200, RESULT))
    assert restore(script, is_async, to=datetime(2026, 3, 1, 14, tzinfo=UTC), dry_run=True) == RESULT
    sent = json.loads(script.requests[0].content)
    assert (datetime.fromisoformat(sent["to"]), sent["dry_run"]) == (datetime(2026, 3, 1, 14, tzinfo=UTC), True)
    script = Script(answer(200, {"generation": 2, "seq": 7}))
    assert restore(script, is_async, generation=2)["seq"] == 7
    assert json.loads(script.requests[0].content) == {"generation": 2}
    wrong: list[dict[str, Any]] = [{}, {"generation": 1, "to": 1}, {"generation": 1, "dry_run": True}]
    for asked in wrong:
        with pytest.raises(BadInput, match="give either"):
            restore(Script(), is_async, **asked)
