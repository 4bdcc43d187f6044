"""Detection of the label convention of a file from its first rows, and removal of labels from rows."""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import TYPE_CHECKING, Final, Literal

from riata.base.errors import Malformed
from riata.wire.given import (
    ABSENT,
    FORMS,
    NUMBER,
    OWN,
    SEVERAL,
    TAG,
    TEXT,
    TRUTH,
    Given,
    LabelTally,
    OtherLabels,
    listed,
    plain_number,
    tag_sentence,
)
from riata.wire.readers import reader_named

if TYPE_CHECKING:
    from riata.client import Riata

Labels = Literal["0/1", "-1/+1", "real"]
TWO: Final = 2
HEAD_ROWS: Final = 1000  # of stdin, which cannot be read twice


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


# Looks at the labels of a file before its first row is sent: one of another setting would teach a model half of what it says.


def setting_of(riata: Riata, model: str, labels: str | None) -> str | None:
    """Return the setting `labels` of a model; of one that does not exist what it will be created with. None if neither is known,
    as without the right to read the model."""
    from riata.client import ApiNotFound, ApiRefused

    try:
        config = riata.model(model).get("config")
    except ApiNotFound:
        return labels if labels in OWN else None
    except ApiRefused:
        return None
    found = config.get("labels") if isinstance(config, dict) else None
    return found if found in OWN else None


def require_own_labels(labels: Iterable[tuple[Given | None, int]], setting: str, *, is_table: bool) -> None:
    """Raise `OtherLabels` if all of these labels are those of another setting."""
    tally = LabelTally(setting)
    for given, count in labels:
        tally.add(given, count)
    try:
        tally.require_own_form()
    except OtherLabels as error:
        hint = "; --positive says which value means 1" if is_table and setting in FORMS else ""
        raise OtherLabels(f"{error.detail}{hint}. Nothing was sent", error.rows) from None
