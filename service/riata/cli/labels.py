"""What the labels of a file look like, told from its first rows."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from riata.base.errors import Malformed
from riata.cli.source import Format

NO_FEATURES: Final = b"1:0"  # a svmlight row without features; a blank line would be no row at all
Labels = Literal["0/1", "-1/+1", "real"]


def sniff_labels(lines: Iterable[bytes], form: Format) -> Labels:
    """Return the `labels` setting that takes every label of `lines`.

    Raises `Malformed` where no line carries a label, or where the labels are not of two classes: -1 beside 0 is neither
    convention, and other numbers are a regression, which the caller has to ask for.
    """
    found = {label for line in lines if (label := label_of(line, form)) is not None}
    if not found:
        shape = ' as in {"features": {"age": 41.5}, "label": 1}' if form == "ndjson" else ""
        raise Malformed(f"no labels of two classes (0/1 or -1/+1) in the first rows; learning needs them{shape}")
    if found <= {0.0, 1.0}:
        return "0/1"
    if found <= {-1.0, 1.0}:
        return "-1/+1"
    shown = ", ".join(f"{label:g}" for label in sorted(found)[:5])
    raise Malformed(f'labels {shown} are neither 0/1 nor -1/+1; a regression needs a model made for "real" labels')


def label_of(line: bytes, form: Format) -> float | None:
    """Return the label of a row, None where it has none that can be read."""
    if form == "ndjson":
        return _json_label(line)
    words = (line.partition(b"|")[0] if form == "vw" else line).split()
    try:
        return float(words[0]) if words else None
    except ValueError:
        return None


def without_label(line: bytes, form: Format) -> bytes:
    """Return the row as one to predict: its label, weight and id taken away, its features byte for byte as they were, for the
    service to judge. Unreadable rows are returned as they are."""
    if form == "ndjson":
        try:
            row = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return line
        return b'{"features":' + bytes(row["features"]) + b"}" if "features" in row else line
    if form == "vw":
        return b"|" + line.partition(b"|")[2]
    words = line.split(maxsplit=1)
    if words and b":" not in words[0]:
        line = b"".join(words[1:])
    return line if line.partition(b"#")[0].strip() else NO_FEATURES


def _json_label(line: bytes) -> float | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    label = row.get("label") if isinstance(row, dict) else None
    return float(label) if isinstance(label, int | float) else None
