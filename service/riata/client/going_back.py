"""Going back to an event or a moment: the requests of both clients. Does no I/O."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from riata.base.errors import BadInput
from riata.base.moments import said
from riata.client.calls import JSON, Call, Steps, get_model, restore
from riata.client.errors import ApiConflict, Unreachable

ASKED_EVERY_S: Final = 0.5
To = int | str | datetime


def restore_to(model: str, to: To, dry_run: bool) -> Call:
    """Go back to an event or a moment. It is an event of the log, so the call is not repeatable."""
    if isinstance(to, datetime):
        to = said(to.astimezone())
    content = json.dumps({"to": to, **({"dry_run": True} if dry_run else {})}).encode()
    path = restore(model, 1).path
    return Call("POST", path, {}, {"content-type": JSON}, content, repeatable=dry_run)


def restoring(
    model: str, generation: int | None, to: To | None, dry_run: bool, on_progress: Callable[[float], None] | None
) -> Steps:
    """Go back, and wait until that is done. Raises `BadInput` unless one of generation and to is given, `ApiConflict` if the job
    fails, `Unreachable` if the service was restarted meanwhile."""
    if (generation is None) == (to is None) or (dry_run and to is None):
        raise BadInput(
            "restore: give either a snapshot, or `to` with an event or a moment; `dry_run` goes with `to`", "bad_option"
        )
    if to is None:
        answer: dict[str, Any] = yield restore(model, generation or 0)
        return answer
    job: dict[str, Any] = yield restore_to(model, to, dry_run)
    while "state" in job:
        if job["error"] is not None:
            raise ApiConflict(409, job["error"])
        if job["state"] == "done":
            return dict(job["result"])
        if on_progress is not None:
            on_progress(job["progress"])
        yield ASKED_EVERY_S
        jobs, begun = (yield get_model(model, "/restore"))["restore"], job["id"]
        job = next((one for one in jobs if one["id"] == begun), {"lost": True})
    if "lost" in job:
        raise Unreachable(
            f"the service was restarted before model {model} had gone back; GET /models/{model}/changes says whether it did"
        )
    return job
