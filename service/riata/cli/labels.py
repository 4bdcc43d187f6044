"""Detection of the label convention of a file from its first rows, and removal of labels from rows."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from riata.base.errors import Malformed
from riata.cli.source import Format

NO_FEATURES: Final = b"1:0"  # an svmlight row without features; a blank line would not count as a row
Labels = Literal["0/1", "-1/+1", "real"]


def sniff_labels(lines: Iterable[bytes], form: Format) -> Labels:
    """Return the `labels` setting that accepts every label of `lines`.

    Raises `Malformed` if no line has a label, or if the labels are not two classes. A mix of -1 and 0 matches neither
    convention. Other numbers mean a regression, which the caller has to request.
    """
    found = {label for line in lines if (label := label_of(line, form)) is not None}
    if not found:
        shape = ' as in {"features": {"age": 41.5}, "label": 1}' if form == "ndjson" else ""
        raise Malformed(f"the first rows have no labels (0/1 or -1/+1); learning needs them{shape}")
    if found <= {0.0, 1.0}:
        return "0/1"
    if found <= {-1.0, 1.0}:
        return "-1/+1"
    shown = ", ".join(f"{label:g}" for label in sorted(found)[:5])
    raise Malformed(f'labels {shown} are neither 0/1 nor -1/+1; a regression needs a model with "real" labels')


def label_of(line: bytes, form: Format) -> float | None:
    """Return the label of a row, or None if it has no readable label."""
    if form == "ndjson":
        return _json_label(line)
    words = (line.partition(b"|")[0] if form == "vw" else line).split()
    try:
        return float(words[0]) if words else None
    except ValueError:
        return None


def without_label(line: bytes, form: Format) -> bytes:
    """Return the row for a prediction request, without its label, weight and id.

    The features are unchanged, byte for byte; the service validates them. Unreadable rows are returned unchanged.
    """
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
