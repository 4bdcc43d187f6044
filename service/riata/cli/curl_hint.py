"""The two `curl` lines a demonstration ends with: a prediction and an observation of a row that was really streamed."""

from __future__ import annotations

import json
import math
import shlex
from typing import Any, Final
from urllib.parse import quote

from riata.cli.labels import without_label
from riata.cli.source import CONTENT_TYPES, Format

JSON: Final = "application/json"
QUERY_BYTES: Final = 1500  # a line somebody wants to copy; longer rows are shown as a body


def predict_line(url: str, model: str, row: bytes, form: Format) -> str:
    """Write the `curl` line that predicts `row`: as a query where all of it can be said so, else as a body."""
    route = f"{url.rstrip('/')}/models/{model}/predict"
    query = _query(row, form)
    if query and len(query) <= QUERY_BYTES:
        return f"curl {shlex.quote(f'{route}?{query}')}"
    return _post(route, without_label(row, form), form)


def observe_line(url: str, model: str, row: bytes, form: Format) -> str:
    """Write the `curl` line that teaches `row` once more."""
    return _post(f"{url.rstrip('/')}/models/{model}/observe", row, form)


def _post(route: str, row: bytes, form: Format) -> str:
    kind = JSON if form == "ndjson" else CONTENT_TYPES[form]
    body = row.decode("utf-8", "replace")
    return f"curl {shlex.quote(route)} -H 'content-type: {kind}' --data-binary {shlex.quote(body)}"


def _query(row: bytes, form: Format) -> str:
    """Write a row as query parameters; empty where a query cannot say the same."""
    if form == "vw":
        return ""  # a query has no namespaces
    pairs = _svmlight_pairs(row) if form == "svmlight" else _json_pairs(row)
    if pairs is None or any(name.startswith("_") for name, _ in pairs):
        return ""
    return "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in pairs)


def _svmlight_pairs(row: bytes) -> list[tuple[str, str]]:
    words = without_label(row, "svmlight").decode("ascii", "replace").partition("#")[0].split()
    return [(name, value) for name, _, value in (word.partition(":") for word in words) if name != "qid"]


def _json_pairs(row: bytes) -> list[tuple[str, str]] | None:
    features = json.loads(row).get("features")
    pairs: list[tuple[str, str]] = []
    for name, value in features.items() if isinstance(features, dict) else ():
        values = value if isinstance(value, list) else [value]
        for one in values:
            said = _said(one)
            if said is None:
                return None
            pairs.append((name, said))
    return pairs


def _said(value: Any) -> str | None:
    """Write a value so that a query means the same by it; None where it would not: "41" is a category, 41 a number."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, int | float):
        return repr(value)
    return value if isinstance(value, str) and not _looks_numeric(value) else None


def _looks_numeric(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
