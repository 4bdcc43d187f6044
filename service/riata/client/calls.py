"""Requests of the clients as values, how answers are decoded, and when a request is sent again. Does no I/O."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from importlib import import_module
from typing import Any, Final, TypeVar
from urllib.parse import quote

from riata.base.clock import said
from riata.base.errors import BadInput
from riata.client.errors import ApiConflict, ApiError, ApiNotFound, RowProblem, Unreachable, error_of, read_row_problems
from riata.wire.tables import ID_BYTES, json_of, lines_of

NDJSON: Final = "application/x-ndjson"
JSON: Final = "application/json"
TIMEOUT_S: Final = 60.0  # for one attempt; longer than the service itself waits for its log
ASKED_EVERY_S: Final = 0.5  # how often to ask whether a job has ended
BINARY: Final = "application/octet-stream"
Rows = Any  # examples, one alone, flat dictionaries, a table of `riata.wire.tables`, or a body in bytes
To = int | str | datetime  # an event, or a moment
Result = TypeVar("Result")

# What takes a request or several: yields the arguments of each request, to be sent its answer, or seconds to wait.
Steps = Generator[dict[str, Any] | float, Any, Result]


@dataclass(frozen=True, slots=True)
class Call:
    """One request.

    params     : of the query; None and false are left out
    document   : sent as JSON, in place of `content`
    repeatable : it is idempotent, so sending it twice has the effect of sending it once
    timeout_s  : longest silence of the service while it works on the answer
    """

    method: str
    path: str
    params: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes = b""
    document: Mapping[str, Any] | None = None
    repeatable: bool = True
    timeout_s: float = TIMEOUT_S

    def request(self) -> dict[str, Any]:
        """Return the arguments of a request of httpx. Raises `BadInput` if the document cannot be written as JSON."""
        is_json = self.document is not None
        return {
            "method": self.method,
            "url": self.path,
            "params": {name: _param(value) for name, value in self.params.items() if not (value is None or value is False)}
            or None,
            "headers": {**self.headers, "content-type": JSON} if is_json else self.headers,
            "content": (json_of(self.document, "the request") if is_json else self.content) or None,
            "timeout": self.timeout_s,
        }


def _param(value: Any) -> str:
    return "true" if value is True else str(value)


Send = Callable[[Call], Steps[bytes]]  # gives the body of the answer. Raises `ApiError`, `Unreachable`


def at(model: str, rest: str = "") -> str:
    """Return the path of a model, or of a part of it, such as /metrics."""
    return f"/models/{quote(model, safe='')}{rest}"


@dataclass(frozen=True, slots=True)
class Observed:
    """The result of one `observe` request. `seq` is the log position of the last accepted row, `codes` how many rows were
    rejected by code, `errors` the first of them."""

    accepted: int
    duplicate: int
    rejected: int
    seq: int
    durability: str
    errors: list[RowProblem]
    codes: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sent:
    """How rows are observed. key: gives each row an id of its own, which makes the call repeatable; ids: of the rows, 16 bytes
    each, in place of that; wait_applied: until they are applied; atomic: all or none; by_row: rows are refused one by one, even
    if the labels of all are those of another setting."""

    model: str
    content_type: str = NDJSON
    key: str = ""
    wait_applied: bool = False
    atomic: bool = False
    ids: bytes | None = None
    by_row: bool = False


def observe(rows: Rows, sent: Sent) -> Call:
    """Send examples."""
    params = {
        "wait": "applied" if sent.wait_applied else None,
        "atomic": sent.atomic,
        "labels": "by_row" if sent.by_row else None,
        "ids": None if sent.ids is None else len(sent.ids) // ID_BYTES,
    }
    content, content_type = body_of(rows, sent.content_type)
    headers = {"content-type": content_type} | ({"idempotency-key": sent.key} if sent.ids is None else {})
    return Call("POST", at(sent.model, "/observe"), params, headers, content + (sent.ids or b""))


@dataclass(frozen=True, slots=True)
class Asked:
    """What predictions are asked for, beside the rows."""

    model: str
    content_type: str
    explain: bool
    min_seq: int | None
    remember: bool
    level: float | None
    from_refit: bool

    @property
    def is_plain(self) -> bool:
        """Whether a number a row answers it."""
        return not any((self.explain, self.remember, self.level, self.from_refit))


def predict(rows: Rows, asked: Asked) -> Call:
    """Ask for predictions, one a row. The response has one a line. Not repeatable with `remember`: if a response were lost, its
    stored predictions would wait for labels that the client cannot send."""
    params = {
        "explain": asked.explain,
        "remember": asked.remember,
        "from": "refit" if asked.from_refit else None,
        "min_seq": asked.min_seq,
        "level": asked.level,
    }
    content, content_type = body_of(rows, asked.content_type)
    headers = {"content-type": content_type, "accept": "*/*" if content_type == JSON else NDJSON}
    return Call("POST", at(asked.model, "/predict"), params, headers, content, repeatable=not asked.remember)


def shifted(error: ApiError, first: int) -> ApiError:
    """Return a refusal of a request whose first row has the number `first`, with the numbers of all rows."""
    moved = [{"index": first + row.index, "code": row.code, "detail": row.detail} for row in error.errors]
    return type(error)(error.status, {**error.problem, "errors": moved})


def column_of(rows: Rows, answers: Sequence[Mapping[str, Any]]) -> Any:
    """Return the answers to a DataFrame as a column of it: the probability, or the margin where there is none. The answers to
    anything else are returned as they are."""
    name = "margin" if answers and answers[0].get("probability") is None else "probability"
    module = type(rows).__module__.partition(".")[0]
    if module not in ("pandas", "polars") or not hasattr(rows, "columns"):
        return answers
    series = import_module(module).Series
    values = [row.get(name) for row in answers]
    return series(values, index=rows.index, name=name, dtype="float64") if module == "pandas" else series(name, values)


def is_body(rows: Rows, content_type: str) -> bool:
    """Whether the rows are a request body already, sent as it is."""
    return isinstance(rows, bytes) or content_type != NDJSON


# What takes several requests.


def creating(model: str, document: Mapping[str, Any], send: Send) -> Steps[dict[str, Any]]:
    """Create a model, and wait while it learns the log of the model that it is to follow, however long that takes."""
    call = Call("PUT", at(model), document=document)
    answer = read_object((yield from send(call)))
    while answer.get("state") == "backfilling":
        with contextlib.suppress(ApiNotFound):  # the service was restarted: it begins again
            yield from ended(answer["job"], None, send)
        answer = {**read_object((yield from send(call))), "created": True}  # by the first request
    return answer


def forgetting(
    subjects: str | Iterable[str], model: str, drop_trimmed: bool, on_progress: Callable[[float], None] | None, send: Send
) -> Steps[dict[str, Any]]:
    """Forget the rows of subjects, and wait until that is done. Repeatable: what is forgotten is not found again. Raises
    `ApiConflict` if the job fails."""
    named = subjects if isinstance(subjects, str) else list(subjects)
    document = {"subject": named, **({"drop_trimmed": True} if drop_trimmed else {})}
    while True:
        answer = read_object((yield from send(Call("POST", at(model, "/forget"), document=document))))
        if "state" not in answer:
            return answer
        with contextlib.suppress(ApiNotFound):  # another process learns now; what was forgotten is not found again
            return (yield from ended(answer["id"], on_progress, send))


def restoring(
    model: str, generation: int | None, to: To | None, dry_run: bool, on_progress: Callable[[float], None] | None, send: Send
) -> Steps[dict[str, Any]]:
    """Go back, and wait until that is done. It is an event of the log, so the call is not repeatable. Raises `BadInput` unless
    one of generation and to is given, `ApiConflict` if the job fails, `Unreachable` if the service was restarted meanwhile."""
    if (generation is None) == (to is None) or (dry_run and to is None):
        raise BadInput(
            "restore: give either a snapshot, or `to` with an event or a moment; `dry_run` goes with `to`", "bad_option"
        )
    moment = said(to.astimezone()) if isinstance(to, datetime) else to
    document = {"generation": generation} if to is None else {"to": moment, **({"dry_run": True} if dry_run else {})}
    answer = read_object((yield from send(Call("POST", at(model, "/restore"), document=document, repeatable=dry_run))))
    if "state" not in answer:
        return answer
    try:
        return (yield from ended(answer["id"], on_progress, send))
    except ApiNotFound:
        raise Unreachable(
            f"the service was restarted before model {model} had gone back; GET /models/{model}/changes says whether it did"
        ) from None


def job_at(number: str) -> str:
    """Return the path of a job."""
    return f"/jobs/{quote(number, safe='')}"


def ended(number: str, on_progress: Callable[[float], None] | None, send: Send) -> Steps[dict[str, Any]]:
    """Wait for a job and return its result. Raises `ApiConflict` with its error, `ApiNotFound` for an unknown job."""
    while True:
        found = read_object((yield from send(Call("GET", job_at(number)))))
        if found["result"] is not None:
            return dict(found["result"])
        if found["error"] is not None:
            raise ApiConflict(409, found["error"])
        if on_progress is not None:
            on_progress(found["progress"])
        yield ASKED_EVERY_S


def read_json(body: bytes) -> Any:
    """Decode a JSON response. Raises `Unreachable` if it is not JSON: then another program answers at that address."""
    try:
        return json.loads(body) if body else None
    except ValueError:
        raise Unreachable("the server at this URL is not this service: its answer is not JSON") from None


def read_object(body: bytes) -> dict[str, Any]:
    """Decode a JSON response; empty if it is no object."""
    answer = read_json(body)
    return answer if isinstance(answer, dict) else {}


def read_observed(body: bytes) -> Observed:
    """Decode the response to `observe`."""
    answer = read_json(body)
    if not isinstance(answer, dict):
        raise Unreachable("the server at this URL is not this service: its answer has no counts of rows")
    counts = {name: int(answer.get(name, 0)) for name in ("accepted", "duplicate", "rejected", "seq")}
    errors = read_row_problems(answer.get("errors"))
    return Observed(**counts, durability=str(answer.get("durability", "")), errors=errors, codes=codes_of(answer))


def kinds_in(answer: Mapping[str, Any]) -> dict[str, str]:
    """Return the kinds of fields by name, from the answer about the fields of a model."""
    return {str(one["name"]): str(one["kind"]) for one in answer.get("fields", ())}


def codes_of(answer: Mapping[str, Any]) -> dict[str, int]:
    """Return how many rows an answer says were rejected, by code."""
    found = answer.get("rejected_codes")
    return {str(code): int(count) for code, count in found.items()} if isinstance(found, dict) else {}


def read_predictions(body: bytes) -> list[dict[str, Any]]:
    """Decode the response to `predict`: one object a line, or an array if JSON was sent."""
    found = [read_json(line) for line in body.split(b"\n") if line.strip()]
    return found[0] if len(found) == 1 and isinstance(found[0], list) else found


def body_of(rows: Rows, content_type: str) -> tuple[bytes, str]:
    """Encode rows as NDJSON, and a single row as a JSON object, which the service answers fastest. Bytes are sent unchanged.

    Raises `BadInput` (code `not_finite`) if a row holds NaN or an infinite number, which JSON does not have.
    """
    if isinstance(rows, bytes):
        return rows, content_type
    rows = [rows] if isinstance(rows, Mapping) else list(rows)
    lines = lines_of(rows, range(len(rows)))
    if len(rows) == 1 and content_type == NDJSON:
        return lines, JSON
    return lines + b"\n" if rows else b"", content_type


def bearer(api_key: str | None) -> dict[str, str]:
    """Return the authorization header of an API key. Raises `BadInput` (bad_key) if no key can look like that."""
    if api_key is None:
        return {}
    if not (api_key.isascii() and api_key.isprintable() and " " not in api_key):
        raise BadInput("the API key has characters that are not valid in a key", "bad_key")
    return {"authorization": f"Bearer {api_key}"}


# The retry policy of both clients: whether to send a request again, and after which backoff. Does no I/O.


BUSY: Final = frozenset({429, 503})
FIRST_WAIT_S: Final = 0.1
LONGEST_WAIT_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a call may wait between its attempts.

    total_s : s   sum of the waits between attempts; after it the last answer or failure is raised
    """

    total_s: float = 30.0

    def wait_after_status(self, status: int, headers: Mapping[str, str], attempt: int, waited_s: float) -> float | None:
        """Return the seconds to wait before attempt + 1, or None if the answer is final.

        429 and 503 mean that nothing was accepted or that a retry is safe. Only those are repeated.
        """
        if status not in BUSY:
            return None
        return self._within(_retry_after_s(headers) or _backoff_s(attempt), waited_s)

    def wait_after_silence(self, attempt: int, waited_s: float) -> float | None:
        """Return the seconds to wait after an attempt without an answer, or None if `total_s` is used up."""
        return self._within(_backoff_s(attempt), waited_s)

    def _within(self, wait_s: float, waited_s: float) -> float | None:
        return wait_s if waited_s + wait_s <= self.total_s else None


class Attempts:
    """The attempts at one call: counts them, sums the waits, decides whether there is another.

    known : whether the service has answered this client before. If it never did, there is no retry after silence: a wrong
            address is more likely than a service that is down.
    """

    def __init__(self, call: Call, patience: Patience, known: bool) -> None:
        self._call = call
        self._patience = patience
        self._known = known
        self._made = 0
        self._waited_s = 0.0

    def after_answer(self, status: int, headers: Mapping[str, str], body: bytes) -> float:
        """Return the seconds to wait before the next attempt. Raises the `ApiError` of a final answer."""
        wait_s = self._patience.wait_after_status(status, headers, self._made, self._waited_s)
        if wait_s is None or not self._call.repeatable:
            raise error_of(status, body)
        return self._next(wait_s)

    def after_silence(self, url: str, error: Exception) -> float:
        """Return the seconds to wait before the next attempt. Raises `Unreachable` if there is none."""
        wait_s = self._patience.wait_after_silence(self._made, self._waited_s)
        if wait_s is None or not self._known or not self._call.repeatable:
            raise Unreachable(f"{url} does not answer: {error or type(error).__name__}") from None
        return self._next(wait_s)

    def _next(self, wait_s: float) -> float:
        self._made += 1
        self._waited_s += wait_s
        return wait_s


def _backoff_s(attempt: int) -> float:
    return min(FIRST_WAIT_S * 2.0 ** min(attempt, 16), LONGEST_WAIT_S)


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Read Retry-After in seconds; the service never sends the date form."""
    text = headers.get("retry-after", "").strip()
    return float(text) if text.replace(".", "", 1).isascii() and text.replace(".", "", 1).isdigit() else None
