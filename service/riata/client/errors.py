"""The exceptions that client calls raise, made from the service's problem documents (RFC 9457).

RiataError
├── Unreachable       no answer at that address, or none for longer than the client's `Patience`
└── ApiError          the service answered with a problem
    ├── ApiRefused    4xx: the request cannot be accepted
    │   ├── ApiNotFound    404
    │   └── ApiConflict    409
    ├── ApiBusy       429 or 503 for longer than the client's `Patience`
    └── ApiFailed     any other 5xx
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from riata.base.errors import RiataError


class Unreachable(RiataError):
    """No answer. Whether the request arrived is not known."""

    code = "unreachable"


@dataclass(frozen=True, slots=True)
class RowProblem:
    """One row that the service did not accept. `index` counts from 0 within the request."""

    index: int
    code: str
    detail: str


class ApiError(RiataError):
    """The service answered with a problem (RFC 9457). `problem` is the whole document, `errors` its rows (at most ten). The text
    of the exception shows the first row."""

    code = "api_error"

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        detail = str(problem.get("detail") or problem.get("title") or f"HTTP status {status}")
        super().__init__(detail, str(problem["code"]) if "code" in problem else None)
        self.status = status
        self.problem = dict(problem)
        self.outcome = problem.get("outcome")
        self.errors = read_row_problems(problem.get("errors"))

    def __str__(self) -> str:
        if not self.errors:
            return self.detail
        first = self.errors[0]
        return f"{self.detail}; row {first.index}: {first.detail} [{first.code}]"


class ApiRefused(ApiError):
    """The request cannot be accepted; the same request will be refused again."""

    code = "refused"


class ApiNotFound(ApiRefused):
    """No such model, generation or route."""

    code = "not_found"


class ApiConflict(ApiRefused):
    """The request is valid, but not in the current state."""

    code = "conflict"


class ApiBusy(ApiError):
    """The service was overloaded or unavailable for longer than the client's `Patience`."""

    code = "busy"


class ApiFailed(ApiError):
    """The service failed."""

    code = "failed"


def read_row_problems(found: object) -> list[RowProblem]:
    """Decode the `errors` of a response or a problem. Entries of another shape are skipped."""
    if not isinstance(found, list):
        return []
    rows = [row for row in found if isinstance(row, dict) and isinstance(row.get("index"), int)]
    return [RowProblem(row["index"], str(row.get("code", "")), str(row.get("detail", ""))) for row in rows]


def error_of(status: int, body: bytes) -> ApiError:
    """Return the exception for a response whose status is not a success."""
    try:
        document = json.loads(body)
    except ValueError:
        document = None
    problem = document if isinstance(document, dict) else {"detail": f"HTTP status {status} without a problem document"}
    return _kind(status)(status, problem)


def _kind(status: int) -> type[ApiError]:
    named: dict[int, type[ApiError]] = {404: ApiNotFound, 409: ApiConflict, 429: ApiBusy, 503: ApiBusy}
    return named.get(status, ApiRefused if status < 500 else ApiFailed)
