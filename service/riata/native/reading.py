"""The structures of the readers, made of the arrays of `wire.rows`."""

from __future__ import annotations

import threading
from typing import Any, Final, SupportsInt

import numpy as np

from riata.native.library import address, core, struct

_PAD: Final = 8  # bytes that must be readable behind a number
_SINK_ARRAYS: Final = (
    *("hash", "value", "found_fingerprint", "found_value", "found_row", "found_kind", "found_span", "listed"),
    *("code", "place", "label", "weight", "count"),
)


class Records:
    """A `riata_records` of a `RecordScratch`."""

    def __init__(self, row: Any) -> None:
        self.row = row
        self.struct = struct(
            "riata_records",
            fingerprint=row.fingerprint,
            value=row.value,
            kind=row.kind,
            span=row.span,
            field=np.empty(len(row.value), np.uint64),
            order=row.order,
            bucket=row.bucket,
            capacity=len(row.value),
        )


class _Held(threading.local):
    records: Records | None = None  # of the last body; a thread reads body after body with the same scratch


_held = _Held()


def records_of(row: Any) -> Records:
    """Return the structure of a `RecordScratch`."""
    held = _held.records
    if held is None or held.row is not row:
        held = _held.records = Records(row)
    return held


def sink_struct(sink: Any) -> Any:
    """Return the `riata_sink` of a `BatchBuilder`."""
    names = (
        "hash",
        "value",
        "found_fingerprint",
        "found_value",
        "found_row",
        "found_kind",
        "found_span",
        "listed",
        "code",
        "place",
    )
    arrays = {name: getattr(sink, name) for name in (*names, "label", "weight", "count")}
    sizes = {"capacity": len(sink.hash), "found_capacity": len(sink.found_value), "row_capacity": len(sink.code)}
    return struct("riata_sink", **arrays, **sizes)


def rules_struct(rules: Any) -> Any:
    """Return the `riata_rules` of `Rules`."""
    return struct(
        "riata_rules",
        key=int(rules.key),
        labels=rules.labels,
        labelled=rules.labelled,
        l2=rules.l2,
        ngrams=rules.ngrams,
        words=rules.words,
        text=rules.text,
        texts=len(rules.text),
        seen=rules.seen,
        seen_size=len(rules.seen),
        fields=rules.fields,
        fields_size=len(rules.fields),
        crosses=rules.crosses,
        crosses_size=len(rules.crosses),
        cross_scale=rules.cross_scale,
    )


def read_json(text: Any, row: Any, sink: Any, rules: Any, by_line: bool) -> int:
    """Read examples; see `riata_read_json`.

    text : Text           the body; its buffer is written, and `ends[-1]` is set to the number of lines
    row : RecordScratch, sink : BatchBuilder, rules : Rules
    by_line : bool        one example on each line; otherwise a document

    Returns               OK, TOO_MANY_FEATURES or TOO_MANY_ROWS; of a document also SYNTAX or TOO_DEEP
    """
    given = struct("riata_text", source=text.at, data=text.data, size=text.size, room=len(text.data))
    code: int = core.read_json(given, records_of(row).struct, sink_struct(sink), rules_struct(rules), by_line)
    if by_line:
        text.ends[-1] = given.lines
    return code


def finish_row(row: Any, n: int, sink: Any, rules: Any, number: int) -> tuple[int, int]:
    """Turn the n records of `row` into features of row `number` of `sink`.

    Returns (OK, 0), or (why not, position of the record at fault).
    """
    at = np.zeros(1, np.int64)
    records = records_of(row)
    records.struct.sorted = 0
    code: int = core.finish_row(records.struct, n, sink_struct(sink), rules_struct(rules), number, address(at))
    return code, int(at[0])


def hash_of(text: bytes, key: int, tag: SupportsInt) -> int:
    """Hash one part of a name; see `maths.hashing`."""
    found: int = core.hash(text, len(text), int(key), int(tag))
    return found


def parse_number(text: bytes) -> tuple[float, int]:
    """Read all of `text` as a number in JSON: its value, and EXACT, NOT_A_NUMBER or HAND_OVER of `wire.scan.numbers`."""
    value = np.zeros(1)
    status: int = core.parse_number(text + bytes(_PAD), len(text), 1, address(value))
    return float(value[0]), status
