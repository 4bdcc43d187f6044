"""Detection of the label convention of a file from its first rows, and removal of labels from rows."""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Final, Literal

from riata.base.errors import Malformed
from riata.wire.given import ABSENT, FORMS, NUMBER, SEVERAL, TAG, TEXT, TRUTH, Given, listed, plain_number, tag_sentence
from riata.wire.readers import reader_named

Labels = Literal["0/1", "-1/+1", "real"]
TWO: Final = 2


def sniff_labels(lines: Iterable[bytes], form: str, header: bytes = b"") -> Labels:
    """Return the `labels` setting that accepts every label of `lines`. Raises `Malformed` as `convention` does."""
    found = {given for line in lines if (given := label_of(line, form, header)) is not None}
    return convention(found, reader_named(form)[1].hint)


def convention(found: Set[Given], hint: str = "") -> Labels:
    """Return the `labels` setting that accepts these labels. Words and lists among numbers are left to the rows' own refusals.

    Raises `Malformed` if there are none, or if the labels are not two classes. A mix of -1 and 0 matches neither convention.
    Other numbers mean a regression or two other names, which the caller has to request. `hint` shows a row with a label.
    """
    numbers = {float(given.value) for given in found if given.kind in (NUMBER, TRUTH)}
    if several := [given for given in found if given.kind == SEVERAL]:
        raise Malformed(
            f"the label {several[0].value}: several labels in a line are not supported; write a file for each label, of 0 and 1"
        )
    if not numbers:
        raise Malformed(_without_numbers(found, hint))
    for form in ("0/1", "-1/+1"):
        if numbers <= FORMS[form]:
            return form
    shown = listed([plain_number(number) for number in sorted(numbers)])
    told = f"the labels {shown} are neither 0/1 nor -1/+1"
    if len(numbers) == TWO:
        larger = plain_number(max(numbers))
        told = f"{told}; if {larger} means 1: --positive {larger}, for CSV and Parquet"
    raise Malformed(f"{told}; names of classes need --labels classes; a regression needs --labels real")


def _without_numbers(found: Set[Given], hint: str) -> str:
    """Say what is wrong with rows none of which has a number as its label."""
    if tags := [given for given in found if given.kind == TAG]:
        return f"the first rows have no labels: {tag_sentence(tags[0])}"
    words = sorted(given.shown() for given in found if given.kind == TEXT and str(given.value).strip().lower() not in ABSENT)
    if words:
        return f"the labels {listed(words)} are no numbers; names of classes need --labels classes, two classes 0 and 1"
    shape = f" as in {hint}" if hint else ""
    return f"the first rows have no labels (0/1 or -1/+1); learning needs them{shape}"


def label_of(line: bytes, form: str, header: bytes = b"") -> Given | None:
    """Return the label of a row as it was given, or None if none can be found."""
    return reader_named(form)[1].label(line, header)


def without_label(line: bytes, form: str, header: bytes = b"") -> bytes:
    """Return the row for a prediction request, without its label, weight and id.

    The features are unchanged, byte for byte; the service validates them. Unreadable rows are returned unchanged.
    """
    return reader_named(form)[1].without_label(line, header)
