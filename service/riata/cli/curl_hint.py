"""The two `curl` commands printed at the end of `riata demo`: predict and observe a row that was streamed."""

from __future__ import annotations

import shlex
from typing import Final
from urllib.parse import quote

from riata.cli.labels import without_label
from riata.cli.source import body_of
from riata.wire.readers import reader_named

QUERY_BYTES: Final = 1500  # short enough to copy; longer rows are shown as a body


def predict_line(url: str, model: str, row: bytes, form: str, header: bytes = b"") -> str:
    """Return the `curl` command that predicts `row`: as a query if a query can express it, otherwise as a body."""
    route = f"{url.rstrip('/')}/models/{model}/predict"
    query = _query(row, form, header)
    if query and len(query) <= QUERY_BYTES:
        return f"curl {shlex.quote(f'{route}?{query}')}"
    return _post(route, without_label(row, form, header), form, header)


def observe_line(url: str, model: str, row: bytes, form: str, header: bytes = b"") -> str:
    """Return the `curl` command that observes `row` again."""
    return _post(f"{url.rstrip('/')}/models/{model}/observe", row, form, header)


def _post(route: str, row: bytes, form: str, header: bytes) -> str:
    body = body_of(row, header).decode("utf-8", "replace")
    kind = reader_named(form)[0].row_type
    return f"curl {shlex.quote(route)} -H 'content-type: {kind}' --data-binary {shlex.quote(body)}"


def _query(row: bytes, form: str, header: bytes) -> str:
    """Encode a row as query parameters; empty if a query cannot express it."""
    pairs = reader_named(form)[1].query(row, header)
    if pairs is None or any(name.startswith("_") for name, _ in pairs):
        return ""
    return "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in pairs)
