"""Both clients wait for a job, however long it takes: rows are forgotten, a model goes back."""

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
FAILED = {"code": "changed_meanwhile", "detail": "try again"}
UNKNOWN = {"code": "job_not_found"}
BOTH = pytest.mark.parametrize("is_async", [False, True])


def job(state: str, progress: float = 1.0, **more: Any) -> dict[str, Any]:
    """A job as the service shows it."""
    return {"id": "j1", "state": state, "progress": progress, "result": None, "error": None, **more}


def call(script: Script, is_async: bool, name: str, *words: Any, **asked: Any) -> dict[str, Any]:
    """The answer of a call of this name."""
    transport = httpx.MockTransport(script)
    if not is_async:
        with Riata("http://test", sleep=script.sleep, transport=transport) as riata:
            return getattr(riata, name)(*words, **asked)  # type: ignore[no-any-return]

    async def ask() -> dict[str, Any]:
        async with AsyncRiata("http://test", sleep=script.sleep_async, transport=transport) as riata:
            return await getattr(riata, name)(*words, **asked)  # type: ignore[no-any-return]

    return asyncio.run(ask())


@BOTH
@pytest.mark.parametrize(("name", "asked"), [("forget", {"model": "m"}), ("restore", {"to": 3})])
def test_the_result_is_waited_for_and_a_failure_raised(name: str, asked: dict[str, Any], is_async: bool) -> None:
    shown: list[float] = []
    words = ["ann" if name == "forget" else "m"]
    running = (answer(202, job("running", 0.25)), answer(200, job("running", 0.5)))
    script = Script(*running, answer(200, job("done", result=RESULT)))
    assert call(script, is_async, name, *words, **asked, on_progress=shown.append) == RESULT
    assert shown == [0.5]
    assert [request.method for request in script.requests] == ["POST", "GET", "GET"]
    assert script.requests[1].url.path == "/jobs/j1"
    assert call(Script(answer(200, RESULT)), is_async, name, *words, **asked) == RESULT
    script = Script(answer(202, job("running")), answer(200, job("failed", 0.4, error=FAILED)))
    with pytest.raises(ApiConflict) as failed:
        call(script, is_async, name, *words, **asked)
    assert (failed.value.code, str(failed.value)) == ("changed_meanwhile", "try again")


@BOTH
def test_forget_is_asked_again_if_the_service_does_not_know_of_it_and_restore_is_not(is_async: bool) -> None:
    lost = [answer(202, job("running", 0.25)), answer(404, UNKNOWN)]
    script = Script(*lost, answer(202, job("running", 0.1)), answer(200, job("done", result=RESULT)))
    assert call(script, is_async, "forget", "ann", model="m") == RESULT
    assert [request.method for request in script.requests] == ["POST", "GET", "POST", "GET"]
    with pytest.raises(Unreachable, match="was restarted before"):
        call(Script(*lost), is_async, "restore", "m", to=3)


@BOTH
def test_moments_have_a_zone_and_a_generation_needs_no_job(is_async: bool) -> None:
    script = Script(answer(200, RESULT))
    assert call(script, is_async, "restore", "m", to=datetime(2026, 3, 1, 14, tzinfo=UTC), dry_run=True) == RESULT
    sent = json.loads(script.requests[0].content)
    assert (datetime.fromisoformat(sent["to"]), sent["dry_run"]) == (datetime(2026, 3, 1, 14, tzinfo=UTC), True)
    script = Script(answer(200, {"generation": 2, "seq": 7}))
    assert call(script, is_async, "restore", "m", generation=2)["seq"] == 7
    assert json.loads(script.requests[0].content) == {"generation": 2}
    wrong: list[dict[str, Any]] = [{}, {"generation": 1, "to": 1}, {"generation": 1, "dry_run": True}]
    for asked in wrong:
        with pytest.raises(BadInput, match="give either"):
            call(Script(), is_async, "restore", "m", **asked)
