"""Going back to an event or a moment: the requests of both clients. Does no I/O."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

from riata.base.clock import said
from riata.base.errors import BadInput
from riata.client.calls import JSON, Call, Steps, ended, restore
from riata.client.errors import ApiNotFound, Unreachable

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
    answer: dict[str, Any]
    if to is None:
        answer = yield restore(model, generation or 0)
        return answer
    answer = yield restore_to(model, to, dry_run)
    if "state" not in answer:
        return answer
    try:
        return (yield from ended(answer["id"], on_progress))
    except ApiNotFound:
        raise Unreachable(
            f"the service was restarted before model {model} had gone back; GET /models/{model}/changes says whether it did"
        ) from None
