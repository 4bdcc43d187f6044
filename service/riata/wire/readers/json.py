"""The reader of JSON: one example a line (NDJSON), one example, or an array of them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from riata.base.errors import Malformed
from riata.base.limits import VALUE_ABS_MAX
from riata.wire.given import json_label
from riata.wire.reader import FileRows, Functions, MediaType, Reader

_SPACE: Final = b" \t\r\n"
_SPACES: Final = re.compile(rb"[ \t\r\n]*")


def is_single(body: bytes) -> bool:
    """Tell whether a document is one example, not an array."""
    found = _SPACES.match(body)
    return body.startswith(b"{", found.end() if found else 0)


def as_line(body: bytes) -> bytes | None:
    """Return one example as a line of NDJSON; None if it has line ends inside, or is not UTF-8."""
    text = body.strip(_SPACE)
    if not text.startswith(b"{") or b"\n" in text or not (text.isascii() or _is_utf8(text)):
        return None
    return text


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


TEXT_CHARACTERS: Final = 100  # a longer string is text to be split into words, not the name of a category


def looks_like_json(line: bytes) -> bool:
    """Tell whether a line is a JSON object. Raises `Malformed` if it begins an array, which is not split into rows."""
    if line.startswith(b"["):
        raise Malformed("contains a JSON array; write one object per line")
    return line.startswith(b"{")


def reason_of(row: bytes, slug: str, field: str) -> tuple[str, str] | None:
    """Return the whole path of a feature in an object, and what is wrong with it there."""
    name = field.removeprefix("features.")
    try:
        features = json.loads(row).get("features")
    except (ValueError, AttributeError, RecursionError):
        return None
    if name == field or not isinstance(features, dict):
        return None
    if slug == "out_of_range" and isinstance(space := features.get(name), dict):
        large = [key for key, value in space.items() if isinstance(value, int | float) and not abs(value) <= VALUE_ABS_MAX]
        return (f"features.{name}.{large[0]}", "") if large else None
    if slug != "bad_feature":
        spaces = [space for space, inner in features.items() if isinstance(inner, dict) and name in inner]
        return (f"features.{spaces[0]}.{name}", "") if len(spaces) == 1 and name not in features else None
    for space, inner in features.items():
        for key, value in inner.items() if isinstance(inner, dict) else ():
            if isinstance(value, dict):
                told = "an object in an object; objects of features are one level deep"
                return f"features.{space}.{key}", f'{told}: write "{space}.{key}": {{…}} beside "{space}"'
            if isinstance(value, list) and not all(isinstance(item, str) for item in value):
                return f"features.{space}.{key}", "expected a number, a string, true, false, null or a list of strings"
    return None


def without_label(line: bytes, _header: bytes) -> bytes:
    """Return the row with nothing but its features, byte for byte."""
    import msgspec  # not needed by `riata --help`

    try:
        row = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return line
    return b'{"features":' + bytes(row["features"]) + b"}" if "features" in row else line


def query_of(line: bytes, _header: bytes) -> list[tuple[str, str]] | None:
    """Return the features as parameters of a query."""
    features = json.loads(line).get("features")
    pairs: list[tuple[str, str]] = []
    for name, value in features.items() if isinstance(features, dict) else ():
        for item in value if isinstance(value, list) else [value]:
            text = _parameter(item)
            if text is None:
                return None
            pairs.append((name, text))
    return pairs


def _parameter(value: Any) -> str | None:
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


def text_fields(lines: Iterable[bytes]) -> list[str]:
    """Return the names of the features that are text (longer than `TEXT_CHARACTERS`) in any of these rows."""
    found: set[str] = set()
    for line in lines:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        features = row.get("features") if isinstance(row, dict) else None
        if isinstance(features, dict):
            found |= {name for name, value in features.items() if isinstance(value, str) and len(value) > TEXT_CHARACTERS}
    return sorted(found)


_EXAMPLE: Final = b'{"features":{"a":1.5,"b":"c","t":"two words","d":[true]},"label":1,"ts":"2026-11-20T11:14:00Z"}'
_FULL: Final = (
    b'{"features":{"a":1.5,"b":"c","t":"two words","d":["x"],"e":true},"label":1,"weight":2,"event_id":"i",'
    b'"ts":"2026-11-20T11:14:00Z","subject":"s"}'
)


def _load(_header: bytes) -> Functions:
    from riata.native.reading import read_json_document, read_json_lines
    from riata.wire.readers.json_reference import read_joins, reference_json

    return Functions(
        reference=reference_json,
        lines=read_json_lines,
        document=read_json_document,
        curved=lambda curves: partial(reference_json, curves=curves),
        joins=read_joins,
        is_single=is_single,
        as_line=as_line,
    )


READER: Final = Reader(
    name="ndjson",
    title="NDJSON",
    shape="JSON objects",
    media_types=(
        MediaType("application/json", "document"),  # described in OpenAPI by its schema
        MediaType("application/x-ndjson", "lines", "One object per line."),
        MediaType("application/ndjson", "lines"),
        MediaType("application/jsonl", "lines"),
    ),
    suffixes=(".ndjson", ".jsonl", ".json"),
    load=_load,
    file=FileRows(
        sniff=looks_like_json,
        label=json_label,
        without_label=without_label,
        query=query_of,
        texts=text_fields,
        hint='{"features": {"age": 41.5}, "label": 1}',
        reason=reason_of,
    ),
    examples={
        "application/json": (_EXAMPLE, _FULL, b"[" + _FULL + b', {"features":{},"label":0}]'),
        "application/x-ndjson": (
            _EXAMPLE + b'\n{"features":{"a":1,"s":"x","t":"a b"},"label":0}',
            _FULL + b'\n{"features":{"a":-1e-3},"label":0}\n',
            b'{"features":{"\\u0061":1},"label":1}',
        ),
    },
)
