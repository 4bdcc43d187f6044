"""JSON rows as lines of a file, for the command line. There is no header."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any, Final

from riata.base.errors import Malformed
from riata.base.limits import VALUE_ABS_MAX
from riata.wire.given import Given, given_value

TEXT_CHARACTERS: Final = 100  # a longer string is text to be split into words, not the name of a category


def looks_like_json(line: bytes) -> bool:
    """Tell whether a line is a JSON object. Raises `Malformed` if it begins an array, which is not split into rows."""
    if line.startswith(b"["):
        raise Malformed("contains a JSON array; write one object per line")
    return line.startswith(b"{")


def label_of(line: bytes, _header: bytes) -> Given | None:
    """Return the label of a row."""
    if b'"label"' not in line and b"\\" not in line:
        return None
    import msgspec  # not needed by `riata --help`

    try:
        row = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
        return given_value(json.loads(bytes(row["label"]), parse_int=float)) if "label" in row else None
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


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
