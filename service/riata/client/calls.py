"""Every request of the clients as a value: how to build it and how to decode the response. Does no I/O."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final
from urllib.parse import quote

from riata.base.errors import BadInput
from riata.base.limits import ROWS_PER_REQUEST_MAX
from riata.client.errors import ApiConflict, ApiError, ApiNotFound, RowProblem, Unreachable, error_of, read_row_problems
from riata.wire.tables import ID_BYTES, Roles, examples_of

NDJSON: Final = "application/x-ndjson"
JSON: Final = "application/json"
TIMEOUT_S: Final = 60.0  # for one attempt; longer than the service itself waits for its log
ASKED_EVERY_S: Final = 0.5  # how often to ask whether a job has ended
BACKUP_S_MAX: Final = 86_400.0
BINARY: Final = "application/octet-stream"
Rows = Any  # examples, one alone, flat dictionaries, a table of `riata.wire.tables`, or a body in bytes


@dataclass(frozen=True, slots=True)
class Call:
    """One request. `repeatable`: it is idempotent, so sending it twice has the effect of sending it once.
    `timeout_s`: longest silence of the service while it works on the answer."""

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes = b""
    repeatable: bool = True
    timeout_s: float = TIMEOUT_S


# What takes several requests: yields each call, to be sent its answer, and the seconds to wait in between; returns the result.
Steps = Generator[Call | float, Any, dict[str, Any]]


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
    params = ({"wait": "applied"} if sent.wait_applied else {}) | ({"atomic": "true"} if sent.atomic else {})
    params |= {"labels": "by_row"} if sent.by_row else {}
    content, content_type = body_of(rows, sent.content_type)
    if sent.ids is None:
        headers = {"content-type": content_type, "idempotency-key": sent.key}
    else:
        params["ids"] = str(len(sent.ids) // ID_BYTES)
        content, headers = content + sent.ids, {"content-type": content_type}
    return Call("POST", _model(sent.model, "/observe"), params, headers, content)


def predict(
    rows: Rows,
    model: str,
    content_type: str,
    explain: bool,
    min_seq: int | None,
    remember: bool,
    level: float | None,
    from_refit: bool = False,
) -> Call:
    """Ask for predictions, one a row. The response has one a line. Not repeatable with `remember`: if a response were lost, its
    stored predictions would wait for labels that the client cannot send."""
    params = {name: "true" for name, wanted in (("explain", explain), ("remember", remember)) if wanted}
    params |= {"from": "refit"} if from_refit else {}
    params |= {} if min_seq is None else {"min_seq": str(min_seq)}
    params |= {} if level is None else {"level": str(level)}
    content, content_type = body_of(rows, content_type)
    headers = {"content-type": content_type, "accept": "*/*" if content_type == JSON else NDJSON}
    return Call("POST", _model(model, "/predict"), params, headers, content, repeatable=not remember)


def bodies_of(rows: Rows, roles: Roles) -> Iterator[list[dict[str, Any]]]:
    """Cut rows into those of one request each. Raises `BadInput`, which names the row and the column."""
    return examples_of(rows, roles, ROWS_PER_REQUEST_MAX)


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


def label_row(prediction_id: str, label: float, weight: float | None) -> dict[str, Any]:
    """The row that labels a prediction."""
    return {"prediction_id": prediction_id, "label": label} | ({} if weight is None else {"weight": weight})


def models() -> Call:
    """List the models."""
    return Call("GET", "/models")


def create_model(model: str, document: Mapping[str, Any]) -> Call:
    """Create or change a model from its configuration document."""
    return Call("PUT", _model(model), {}, {"content-type": JSON}, _json(document, "the document"))


def creating(model: str, document: Mapping[str, Any]) -> Steps:
    """Create a model, and wait while it learns the log of the model that it is to follow, however long that takes."""
    call = create_model(model, document)
    answer: dict[str, Any] = yield call
    while answer.get("state") == "backfilling":
        with contextlib.suppress(ApiNotFound):  # the service was restarted: it begins again
            yield from ended(answer["job"], None)
        answer = {**(yield call), "created": True}  # by the first request
    return answer


def change_model(model: str, changes: Mapping[str, Any]) -> Call:
    """Change settings of a model while it learns. Repeatable: setting the same value again changes nothing."""
    return Call("PATCH", _model(model), {}, {"content-type": JSON}, _json(changes, "the settings"))


def get_path(model: str, gammas: int, top: float | None, bottom: float | None) -> Call:
    """Ask how many weights other penalties would leave."""
    ends = {name: repr(float(end)) for name, end in (("from", top), ("to", bottom)) if end is not None}
    return Call("GET", _model(model, "/path"), {"gammas": str(gammas), **ends})


def get_model(model: str, part: str = "", **params: str) -> Call:
    """Read a model, or a part of it. part: for example /metrics or /weights."""
    return Call("GET", _model(model, part), params)


def drop_model(model: str) -> Call:
    """Drop a model. Not repeatable: the second response would be 404 although the first request succeeded."""
    return Call("DELETE", _model(model), {"confirm": model}, repeatable=False)


def snapshot_now(model: str, note: str) -> Call:
    """Save a snapshot."""
    content = json.dumps({"note": note}).encode()
    return Call("POST", _model(model, "/snapshots"), {}, {"content-type": JSON}, content, repeatable=False)


def delete_snapshot(model: str, generation: int) -> Call:
    """Delete a saved snapshot. Not repeatable: the second response would be 404 although the first request succeeded."""
    return Call("DELETE", _model(model, f"/snapshots/{generation}"), repeatable=False)


def back_up() -> Call:
    """Copy the store of the service. Not repeatable: each makes another copy."""
    return Call("POST", "/backup", repeatable=False, timeout_s=BACKUP_S_MAX)


def restore(model: str, generation: int) -> Call:
    """Restore the content of a generation. It is an event of the log, so the call is not repeatable."""
    content = json.dumps({"generation": generation}).encode()
    return Call("POST", _model(model, "/restore"), {}, {"content-type": JSON}, content, repeatable=False)


def forget(subjects: str | Iterable[str], model: str, drop_trimmed: bool) -> Call:
    """Forget the rows of subjects. Repeatable: what is forgotten is not found again. The answer may be a job that runs."""
    named = subjects if isinstance(subjects, str) else list(subjects)
    document = {"subject": named, **({"drop_trimmed": True} if drop_trimmed else {})}
    headers = {"content-type": JSON}
    return Call("POST", _model(model, "/forget"), {}, headers, _json(document, "the request"))


def forgetting(
    subjects: str | Iterable[str], model: str, drop_trimmed: bool, on_progress: Callable[[float], None] | None
) -> Steps:
    """Forget the rows of subjects, and wait until that is done. Raises `ApiConflict` if the job fails."""
    asked = forget(subjects, model, drop_trimmed)
    while True:
        answer: dict[str, Any] = yield asked
        if "state" not in answer:
            return answer
        with contextlib.suppress(ApiNotFound):  # another process learns now; what was forgotten is not found again
            return (yield from ended(answer["id"], on_progress))


def jobs() -> Call:
    """List the jobs."""
    return Call("GET", "/jobs")


def job(number: str) -> Call:
    """Read one job."""
    return Call("GET", f"/jobs/{quote(number, safe='')}")


def cancel_job(number: str) -> Call:
    """Ask a job to end. Not repeatable: the second response would be a refusal although the first request succeeded."""
    return Call("DELETE", f"/jobs/{quote(number, safe='')}", repeatable=False)


def ended(number: str, on_progress: Callable[[float], None] | None) -> Steps:
    """Wait for a job and return its result. Raises `ApiConflict` with its error, `ApiNotFound` for an unknown job."""
    while True:
        found: dict[str, Any] = yield job(number)
        if found["result"] is not None:
            return dict(found["result"])
        if found["error"] is not None:
            raise ApiConflict(409, found["error"])
        if on_progress is not None:
            on_progress(found["progress"])
        yield ASKED_EVERY_S


def begin_refit(model: str, request: Mapping[str, Any]) -> Call:
    """Start a refit. Not repeatable: a second one would be refused while the first runs."""
    return Call("POST", _model(model, "/refits"), {}, {"content-type": JSON}, _json(request, "the request"), repeatable=False)


def cancel_refit(model: str, refit: str) -> Call:
    """End a refit with its best weights so far."""
    return Call("DELETE", _model(model, f"/refits/{quote(refit, safe='')}"), repeatable=False)


def promote_refit(model: str, refit: str, force: bool) -> Call:
    """Have a model go on from a refit. It is an event of the log, so the call is not repeatable."""
    content = json.dumps({"force": force}).encode()
    path = _model(model, f"/refits/{quote(refit, safe='')}/promote")
    return Call("POST", path, {}, {"content-type": JSON}, content, repeatable=False)


def promote(model: str, challenger: str, force: bool) -> Call:
    """Have a model go on as one of its challengers. It is an event of the log, so the call is not repeatable."""
    content = json.dumps({"challenger": challenger, "force": force}).encode()
    return Call("POST", _model(model, "/promote"), {}, {"content-type": JSON}, content, repeatable=False)


def import_model(model: str, content: bytes) -> Call:
    """Import an exported model."""
    return Call("POST", _model(model, "/import"), {}, {"content-type": BINARY}, content, repeatable=False)


def read_json(body: bytes) -> Any:
    """Decode a JSON response. Raises `Unreachable` if it is not JSON: then another program answers at that address."""
    try:
        return json.loads(body) if body else None
    except ValueError:
        raise Unreachable("the server at this URL is not this service: its answer is not JSON") from None


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
    rows = [rows] if isinstance(rows, Mapping) else rows
    lines = [_json(row, f"row {index}") for index, row in enumerate(rows)]
    if len(lines) == 1 and content_type == NDJSON:
        return lines[0], JSON
    return b"".join(line + b"\n" for line in lines), content_type


def _json(value: Mapping[str, Any], said: str) -> bytes:
    try:
        return json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, RecursionError, UnicodeError) as error:
        raise BadInput(f"{said}: cannot be written as JSON: {error}", "bad_value") from None
    except ValueError:
        raise BadInput(f"{said}: NaN and infinite numbers cannot be written as JSON", "not_finite") from None


def _model(model: str, rest: str = "") -> str:
    return f"/models/{quote(model, safe='')}{rest}"


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
