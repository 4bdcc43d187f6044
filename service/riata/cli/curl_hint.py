"""The two `curl` commands printed at the end of `riata demo`: predict and observe a row that was streamed."""

from __future__ import annotations

import json
import math
import shlex
from typing import Any, Final
from urllib.parse import quote

from riata.cli.labels import without_label
from riata.cli.source import CONTENT_TYPES, Format

JSON: Final = "application/json"
QUERY_BYTES: Final = 1500  # short enough to copy; longer rows are shown as a body


def predict_line(url: str, model: str, row: bytes, form: Format) -> str:
    """Return the `curl` command that predicts `row`: as a query if a query can express it, otherwise as a body."""
    route = f"{url.rstrip('/')}/models/{model}/predict"
    query = _query(row, form)
    if query and len(query) <= QUERY_BYTES:
        return f"curl {shlex.quote(f'{route}?{query}')}"
    return _post(route, without_label(row, form), form)


def observe_line(url: str, model: str, row: bytes, form: Format) -> str:
    """Return the `curl` command that observes `row` again."""
    return _post(f"{url.rstrip('/')}/models/{model}/observe", row, form)


def _post(route: str, row: bytes, form: Format) -> str:
    kind = JSON if form == "ndjson" else CONTENT_TYPES[form]
    body = row.decode("utf-8", "replace")
    return f"curl {shlex.quote(route)} -H 'content-type: {kind}' --data-binary {shlex.quote(body)}"


def _query(row: bytes, form: Format) -> str:
    """Encode a row as query parameters; empty if a query cannot express it."""
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
            text = _query_text(one)
            if text is None:
                return None
            pairs.append((name, text))
    return pairs


def _query_text(value: Any) -> str | None:
    """Encode a value for a query; None if a query would change its meaning: "41" is a category, 41 a number."""
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
