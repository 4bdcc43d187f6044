"""A service that answers from a script, for the clients' tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import httpx


class Script:
    """Returns one answer after another; an exception among them is raised. Records the requests and the waits between them."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []
        self.waits: list[float] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    async def sleep_async(self, seconds: float) -> None:
        self.waits.append(seconds)


def answer(status: int, document: object, headers: Mapping[str, str] | None = None) -> httpx.Response:
    """An answer with a JSON body."""
    kind = "application/json" if status < 400 else "application/problem+json"
    return httpx.Response(status, content=json.dumps(document).encode(), headers={"content-type": kind, **(headers or {})})


def problem(status: int, code: str, retry_after: str | None = None, **more: Any) -> httpx.Response:
    """A problem document."""
    document = {"title": code, "status": status, "code": code, "detail": f"about {code}", **more}
    return answer(status, document, {"retry-after": retry_after} if retry_after else None)


OBSERVED = {"accepted": 1, "duplicate": 0, "rejected": 1, "seq": 7, "outcome": "accepted", "durability": "fsync",
            "errors": [{"index": 1, "code": "bad_label", "detail": "label: 2"}]}  # fmt: skip
