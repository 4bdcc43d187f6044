"""Detection of the label convention of a file from its first rows, and removal of labels from rows."""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Literal

from riata.base.errors import Malformed
from riata.wire.readers import reader_named

Labels = Literal["0/1", "-1/+1", "real"]


def sniff_labels(lines: Iterable[bytes], form: str, header: bytes = b"") -> Labels:
    """Return the `labels` setting that accepts every label of `lines`. Raises `Malformed` as `convention` does."""
    return convention(
        {label for line in lines if (label := label_of(line, form, header)) is not None}, reader_named(form)[1].hint
    )


def convention(found: Set[float], hint: str = "") -> Labels:
    """Return the `labels` setting that accepts these labels.

    Raises `Malformed` if there are none, or if the labels are not two classes. A mix of -1 and 0 matches neither convention.
    Other numbers mean a regression, which the caller has to request. `hint` shows a row with a label.
    """
    if not found:
        shape = f" as in {hint}" if hint else ""
        raise Malformed(f"the first rows have no labels (0/1 or -1/+1); learning needs them{shape}")
    if found <= {0.0, 1.0}:
        return "0/1"
    if found <= {-1.0, 1.0}:
        return "-1/+1"
    shown = ", ".join(f"{label:g}" for label in sorted(found)[:5])
    raise Malformed(f'labels {shown} are neither 0/1 nor -1/+1; a regression needs a model with "real" labels')


def label_of(line: bytes, form: str, header: bytes = b"") -> float | None:
    """Return the label of a row, or None if it has no readable label."""
    return reader_named(form)[1].label(line, header)


def without_label(line: bytes, form: str, header: bytes = b"") -> bytes:
    """Return the row for a prediction request, without its label, weight and id.

    The features are unchanged, byte for byte; the service validates them. Unreadable rows are returned unchanged.
    """
    return reader_named(form)[1].without_label(line, header)
