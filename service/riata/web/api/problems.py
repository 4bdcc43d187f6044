"""The mapping of errors to HTTP: RFC 9457 problem documents, with the same members on every route."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from riata.base.errors import BadInput, Busy, Conflict, Malformed, NotFound, RiataError, TooLarge, Unavailable, Unsupported
from riata.base.limits import ERRORS_SHOWN_MAX
from riata.run.outcome import Observed, RowsRefused, refused_whole
from riata.web.api import schemas as documents
from riata.web.server.answers import Answer
from riata.wire.given import BY_ROW, OtherLabels
from riata.wire.parsed import Parsed, RowError

PROBLEM_JSON: Final = b"application/problem+json"
DETAIL_CHARS_MAX: Final = 600  # answers stay small whatever was sent

# The first class in the method resolution order of an error that is listed here decides.
STATUS: Final[dict[type[RiataError], int]] = {
    Malformed: 400,
    Unsupported: 415,
    TooLarge: 413,
    NotFound: 404,
    Conflict: 409,
    BadInput: 422,
    Busy: 503,
    Unavailable: 503,
    RiataError: 500,
}
# Codes with a status of their own.
STATUS_OF_CODE: Final = {
    "too_many_requests": 429,
    "quota_used_up": 429,
    "unauthenticated": 401,
    "bad_key": 401,
    "key_expired": 401,
    "wrong_scope": 403,
    "models_quota": 403,
    "disk_reserve": 507,
    "memory_full": 507,
    "saved_full": 507,
    "query_too_long": 414,
    "query_too_large": 414,
    "body_too_slow": 408,
}


class RowsNotPredicted(BadInput):
    """Rows of the request cannot be predicted, so none was; `errors` lists them."""

    code = "rows_refused"

    def __init__(self, detail: str, errors: Sequence[RowError]) -> None:
        super().__init__(detail)
        self.errors = errors


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem document. `errors` may be long: the first ERRORS_SHOWN_MAX are shown."""

    status: int
    code: str
    detail: str
    outcome: str = "not_accepted"
    retryable: bool = False
    errors: Sequence[RowError] = ()
    more: dict[str, Any] | None = None

    def document(self) -> documents.Problem:
        """Return the problem document."""
        return documents.Problem(
            f"urn:riata:problem:{self.code}",
            self.code.replace("_", " ").capitalize(),
            self.status,
            shorten(self.detail, DETAIL_CHARS_MAX),
            self.code,
            self.outcome,
            self.retryable,
            shown(self.errors),
            **(self.more or {}),
        )

    def answer(self, headers: Sequence[tuple[bytes, bytes]] = ()) -> Answer:
        """Return the problem as an HTTP answer."""
        return Answer(self.status, msgspec.json.encode(self.document()), PROBLEM_JSON, tuple(headers))


def shown(errors: Iterable[RowError]) -> list[documents.RowError]:
    """Return the first row errors in the form of the answer."""
    first = [error for _, error in zip(range(ERRORS_SHOWN_MAX), errors, strict=False)]
    return [documents.RowError(e.index, e.code, shorten(e.detail, DETAIL_CHARS_MAX)) for e in first]


def shorten(text: str, chars_max: int) -> str:
    """Truncate `text` to at most `chars_max` characters and make it encodable in UTF-8."""
    clean = text.encode("utf-8", "replace").decode("utf-8")
    return clean if len(clean) <= chars_max else f"{clean[: chars_max - 1]}…"


def problem_of(error: RiataError) -> Problem:
    """Map an error to its problem document. Details of internal errors are not shown."""
    status = STATUS_OF_CODE.get(error.code) or next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
    if status == 500:
        return internal(error.code)
    return Problem(
        status=status,
        code=error.code,
        detail=error.detail + BY_ROW if isinstance(error, OtherLabels) else error.detail,
        outcome=error.outcome if isinstance(error, Unavailable) else "not_accepted",
        retryable=isinstance(error, Busy | Unavailable),
        errors=row_errors(error),
        more=_counts_of(error),
    )


def _counts_of(error: RiataError) -> dict[str, int] | None:
    observed = refused_whole(error) if isinstance(error, OtherLabels) else getattr(error, "observed", None)
    return None if observed is None else counts(observed)


def row_errors(error: RiataError) -> Sequence[RowError]:
    """Return the row errors of an error."""
    if isinstance(error, RowsRefused):
        return error.observed.errors
    return error.errors if isinstance(error, RowsNotPredicted) else ()


def counts(observed: Observed) -> dict[str, Any]:
    """Return the numbers of accepted, duplicate and rejected rows, the latter by code too if there are any."""
    numbers: dict[str, Any] = {
        "accepted": observed.accepted,
        "duplicate": observed.duplicate,
        "rejected": observed.rejected,
    }
    if observed.errors:
        numbers["rejected_codes"] = dict(Counter(error.code for error in observed.errors))
    return numbers


def internal(code: str = "internal") -> Problem:
    """Return the problem for an internal error."""
    detail = "the service failed; whether the request took effect is unknown; the log output of the service has the cause"
    return Problem(500, code, detail, outcome="unknown", retryable=True)


def answer_error(error: RiataError, more: Sequence[tuple[bytes, bytes]] = ()) -> Answer:
    """Return the HTTP answer to an error, with the headers that its status requires, and `more`."""
    problem = problem_of(error)
    headers = list(more)
    if isinstance(error, Busy):
        headers.append((b"retry-after", str(max(1, math.ceil(error.retry_after_s))).encode()))
    elif isinstance(error, Unavailable):
        headers.append((b"retry-after", b"5"))
    if problem.status in (408, 413):
        headers.append((b"connection", b"close"))  # the rest of the body is not read
    return problem.answer(headers)


def refuse_errors(parsed: Parsed) -> None:
    """Refuse the request if any row is bad: a client could misalign a list of predictions with gaps."""
    refuse_rows(parsed.errors, parsed.rows)


def refuse_rows(errors: Sequence[RowError], rows: int) -> None:
    """Refuse a request of so many rows if there are errors."""
    if errors:
        raise RowsNotPredicted(f"{len(errors)} of {rows} rows cannot be predicted; no row was", errors)
