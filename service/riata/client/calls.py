"""Every request the clients can make, as values: what to send and how to read the answer. No I/O here."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from riata.base.errors import BadInput
from riata.client.errors import RowProblem, Unreachable, read_row_problems

NDJSON: Final = "application/x-ndjson"
JSON: Final = "application/json"
COMPILING_AGAIN_S: Final = 2.0
COMPILING_S_MAX: Final = 1800.0  # a busy machine may be many times slower than an idle one, where it takes a minute
BINARY: Final = "application/octet-stream"
Rows = Iterable[Mapping[str, Any]] | Mapping[str, Any] | bytes  # examples, one alone, or a body


@dataclass(frozen=True, slots=True)
class Call:
    """One request. `repeatable`: sending it twice does no more than sending it once."""

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes = b""
    repeatable: bool = True


@dataclass(frozen=True, slots=True)
class Observed:
    """What became of the rows of one request. `seq` is the log position of the last accepted row."""

    accepted: int
    duplicate: int
    rejected: int
    seq: int
    durability: str
    errors: list[RowProblem]


def observe(rows: Rows, model: str, content_type: str, key: str, wait_applied: bool, atomic: bool) -> Call:
    """Send examples. `key` gives each row an id of its own, which is what makes the call repeatable."""
    params = ({"wait": "applied"} if wait_applied else {}) | ({"atomic": "true"} if atomic else {})
    content, content_type = body_of(rows, content_type)
    headers = {"content-type": content_type, "idempotency-key": key}
    return Call("POST", _model(model, "/observe"), params, headers, content)


def predict(rows: Rows, model: str, content_type: str, explain: bool, min_seq: int | None, remember: bool) -> Call:
    """Ask for predictions, one a row; they come back one a line. Not repeated where they are to be remembered: what was kept
    before an answer got lost would wait for a label that nobody can send."""
    params = {name: "true" for name, wanted in (("explain", explain), ("remember", remember)) if wanted}
    params |= {} if min_seq is None else {"min_seq": str(min_seq)}
    content, content_type = body_of(rows, content_type)
    headers = {"content-type": content_type, "accept": "*/*" if content_type == JSON else NDJSON}
    return Call("POST", _model(model, "/predict"), params, headers, content, repeatable=not remember)


def label_row(prediction_id: str, label: float, weight: float | None) -> dict[str, Any]:
    """The row that labels a prediction."""
    return {"prediction_id": prediction_id, "label": label} | ({} if weight is None else {"weight": weight})


def models() -> Call:
    """List the models."""
    return Call("GET", "/models")


def create_model(model: str, document: Mapping[str, Any]) -> Call:
    """Create or change a model from its configuration document."""
    return Call("PUT", _model(model), {}, {"content-type": JSON}, _json(document, "the document"))


def is_compiling(answer: Mapping[str, Any], waited_s: float) -> bool:
    """Whether a model is not there yet because its kernels are being compiled, and the call that creates it is to be sent again
    after COMPILING_AGAIN_S. Raises `Unreachable` after COMPILING_S_MAX."""
    if answer.get("state") != "compiling":
        return False
    if waited_s >= COMPILING_S_MAX:
        raise Unreachable(f"model {answer.get('name')} is not there after {waited_s:.0f} s: its kernels are still being compiled")
    return True


def change_model(model: str, changes: Mapping[str, Any]) -> Call:
    """Change settings of a model while it learns. Repeatable: what is the same already is no change."""
    return Call("PATCH", _model(model), {}, {"content-type": JSON}, _json(changes, "the settings"))


def get_path(model: str, gammas: int, top: float | None, bottom: float | None) -> Call:
    """Ask what other penalties would choose."""
    ends = {name: repr(float(end)) for name, end in (("from", top), ("to", bottom)) if end is not None}
    return Call("GET", _model(model, "/path"), {"gammas": str(gammas), **ends})


def get_model(model: str, part: str = "", **params: str) -> Call:
    """Read a model, or the part of it that `part` names, as /metrics or /weights."""
    return Call("GET", _model(model, part), params)


def drop_model(model: str) -> Call:
    """Drop a model. Not repeated by itself: a second answer would be 404 although the first did it."""
    return Call("DELETE", _model(model), {"confirm": model}, repeatable=False)


def snapshot_now(model: str) -> Call:
    """Write a checkpoint now."""
    return Call("POST", _model(model, "/snapshots"), repeatable=False)


def restore(model: str, generation: int) -> Call:
    """Put the content of a generation back. An event of the log, so never repeated by itself."""
    content = json.dumps({"generation": generation}).encode()
    return Call("POST", _model(model, "/restore"), {}, {"content-type": JSON}, content, repeatable=False)


def import_model(model: str, content: bytes) -> Call:
    """Send an exported model back in."""
    return Call("POST", _model(model, "/import"), {}, {"content-type": BINARY}, content, repeatable=False)


def read_json(body: bytes) -> Any:
    """Read a JSON answer. Raises `Unreachable` where it is not JSON: then something else answers at that address."""
    try:
        return json.loads(body) if body else None
    except ValueError:
        raise Unreachable("what answers there is not this service: its answer is not JSON") from None


def read_observed(body: bytes) -> Observed:
    """Read the answer to `observe`."""
    answer = read_json(body)
    if not isinstance(answer, dict):
        raise Unreachable("what answers there is not this service: it did not count the rows")
    counts = {name: int(answer.get(name, 0)) for name in ("accepted", "duplicate", "rejected", "seq")}
    return Observed(**counts, durability=str(answer.get("durability", "")), errors=read_row_problems(answer.get("errors")))


def read_predictions(body: bytes) -> list[dict[str, Any]]:
    """Read the answer to `predict`: one object a line, or an array where JSON was sent."""
    found = [read_json(line) for line in body.split(b"\n") if line.strip()]
    return found[0] if len(found) == 1 and isinstance(found[0], list) else found


def body_of(rows: Rows, content_type: str) -> tuple[bytes, str]:
    """Write rows as NDJSON, and one alone as a JSON object, which the service answers soonest. Bytes are sent as they are.

    Raises `BadInput` (code `not_finite`) where a row holds a number that JSON has not.
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
    except ValueError:
        raise BadInput(f"{said}: NaN and infinite numbers cannot be written as JSON", "not_finite") from None


def _model(model: str, rest: str = "") -> str:
    return f"/models/{quote(model, safe='')}{rest}"
