"""The structures of the readers, made of the arrays of `wire.rows`."""

from __future__ import annotations

import ctypes
import threading
from typing import Any, Final, SupportsInt

import numpy as np

from riata.native.library import LIBRARY, QUICK, RecordsStruct, RulesStruct, SinkStruct, TextStruct, address

_PAD: Final = 8  # bytes that must be readable behind a number


class Records:
    """A `RecordsStruct` of a `RecordScratch`."""

    def __init__(self, row: Any) -> None:
        self.row = row
        self.field = np.empty(len(row.value), np.uint64)
        arrays = (row.fingerprint, row.value, row.kind, row.span, self.field, row.order, row.bucket)
        self.struct = RecordsStruct(*map(address, arrays), len(row.value), 0)


class _Held(threading.local):
    records: Records | None = None  # of the last body; a thread reads body after body with the same scratch


_held = _Held()


def records_of(row: Any) -> Records:
    """Return the structure of a `RecordScratch`."""
    held = _held.records
    if held is None or held.row is not row:
        held = _held.records = Records(row)
    return held


def sink_struct(sink: Any) -> SinkStruct:
    """Return the structure of a `BatchBuilder`."""
    found = (sink.found_fingerprint, sink.found_value, sink.found_row, sink.found_kind, sink.found_span)
    rows = (sink.listed, sink.code, sink.place, sink.label, sink.weight)
    features = (address(sink.hash), address(sink.value), len(sink.hash))
    count = (len(sink.code), address(sink.count))
    return SinkStruct(*features, *map(address, found), len(sink.found_value), *map(address, rows), *count)


def rules_struct(rules: Any) -> RulesStruct:
    """Return the structure of `Rules`."""
    arrays = (rules.text, rules.seen, rules.fields, rules.crosses)
    scalars = (int(rules.key), rules.labels, rules.labelled, rules.l2, rules.ngrams, rules.words)
    return RulesStruct(*scalars, *(number for array in arrays for number in (address(array), len(array))), rules.cross_scale)


def read_json(text: Any, row: Any, sink: Any, rules: Any, by_line: bool) -> int:
    """Read examples; see `riata_read_json`.

    text : Text           the body; its buffer is written, and `ends[-1]` is set to the number of lines
    row : RecordScratch, sink : BatchBuilder, rules : Rules
    by_line : bool        one example on each line; otherwise a document

    Returns               OK, TOO_MANY_FEATURES or TOO_MANY_ROWS; of a document also SYNTAX or TOO_DEEP
    """
    given = TextStruct(text.at, address(text.data), text.size, len(text.data), 0)
    structs = (given, records_of(row).struct, sink_struct(sink), rules_struct(rules))
    code: int = LIBRARY.riata_read_json(*map(ctypes.byref, structs), int(by_line))
    if by_line:
        text.ends[-1] = given.lines
    return code


def finish_row(row: Any, n: int, sink: Any, rules: Any, number: int) -> tuple[int, int]:
    """Turn the n records of `row` into features of row `number` of `sink`.

    Returns (OK, 0), or (why not, position of the record at fault).
    """
    at = ctypes.c_int64()
    records = records_of(row)
    records.struct.sorted = 0
    structs = (ctypes.byref(sink_struct(sink)), ctypes.byref(rules_struct(rules)))
    code: int = QUICK.riata_finish_row(ctypes.byref(records.struct), n, *structs, number, ctypes.byref(at))
    return code, at.value


def hash_of(text: bytes, key: int, tag: SupportsInt) -> int:
    """Hash one part of a name; see `maths.hashing`."""
    found: int = QUICK.riata_hash(text, len(text), int(key), int(tag))
    return found


def parse_number(text: bytes) -> tuple[float, int]:
    """Read all of `text` as a number in JSON: its value, and EXACT, NOT_A_NUMBER or HAND_OVER of `wire.scan.numbers`."""
    value = ctypes.c_double()
    status: int = QUICK.riata_parse_number(text + bytes(_PAD), len(text), 1, ctypes.byref(value))
    return value.value, status
