"""The readers of bodies, and what they share, on the arrays of `wire.rows`; `service/native/riata.h` documents each function."""

from __future__ import annotations

import threading
from typing import Any, Final, SupportsInt

import numpy as np

from riata.native.library import address, core, for_bytes, struct

EXACT: Final = 0  # of `parse_number`
NOT_A_NUMBER: Final = 1
HAND_OVER: Final = 2  # more than 19 digits too close to a tie
_PAD: Final = 8  # bytes that must be readable behind a number and a name
_ROW: Final = ("fingerprint", "value", "kind", "span", "field", "order", "bucket")
_SINK: Final = (
    *("hash", "value", "found_fingerprint", "found_value", "found_row", "found_kind", "found_span", "listed"),
    *("code", "place", "label", "weight", "count"),
)


class _Held(threading.local):
    def __init__(self) -> None:
        self.text = struct("riata_text")  # filled for each body


_held = _Held()


def records_struct(row: Any) -> Any:
    """Make the `riata_records` of a `RecordScratch`."""
    return struct("riata_records", **{name: getattr(row, name) for name in _ROW}, capacity=len(row.value))


def sink_struct(sink: Any) -> Any:
    """Make the `riata_sink` of a `BatchBuilder`. It keeps the arrays."""
    sizes = {"capacity": len(sink.hash), "found_capacity": len(sink.found_value), "row_capacity": len(sink.code)}
    return struct("riata_sink", **{name: getattr(sink, name) for name in _SINK}, **sizes)


def rules_struct(rules: Any) -> Any:
    """Make the `riata_rules` of `Rules`."""
    sizes = {"texts": len(rules.text), "seen_size": len(rules.seen), "fields_size": len(rules.fields)}
    kinds = None if rules.kinds is None else rules.kinds.native
    given = rules._asdict() | {"key": int(rules.key), "crosses_size": len(rules.crosses), "kinds": kinds}
    del given["source"], given["native"]  # of rows that the reference readers read; what is made here
    return struct("riata_rules", **given, **sizes)


def _read(function: str, text: Any, row: Any, sink: Any, rules: Any, *more: int) -> int:
    given, read = _text_of(text), getattr(for_bytes(text.size), function)
    code: int = read(given, row.native, sink.native, rules.native, *more)
    text.lines = given.lines
    return code


def _text_of(text: Any) -> Any:
    """Return the `riata_text` of a `Text`, until this thread reads another."""
    given = _held.text
    given._source, given._data, given.size, given.room = text.at, address(text.data), text.size, len(text.data)
    return given


def read_json_lines(text: Any, row: Any, sink: Any, rules: Any) -> int:
    """Read examples in JSON, one on each line.

    text : Text           the body; its buffer is written, and `lines` is set
    row : RecordScratch, sink : BatchBuilder, rules : Rules

    Returns               OK, TOO_MANY_FEATURES or TOO_MANY_ROWS
    """
    return _read("read_json", text, row, sink, rules, 1)


def read_json_document(text: Any, row: Any, sink: Any, rules: Any) -> int:
    """Read a document of JSON, which must be complete in memory, as `read_json_lines`. Returns also SYNTAX or TOO_DEEP."""
    return _read("read_json", text, row, sink, rules, 0)


def read_vw(text: Any, row: Any, sink: Any, rules: Any) -> int:
    """Read lines of VW text, as `read_json_lines`."""
    return _read("read_vw", text, row, sink, rules)


def read_svmlight(text: Any, row: Any, sink: Any, rules: Any) -> int:
    """Read lines of svmlight, as `read_json_lines`."""
    return _read("read_svmlight", text, row, sink, rules)


def leave_lines(text: Any, _row: Any, sink: Any, _rules: Any) -> int:
    """Leave every line that is not blank to the reference reader. Returns OK or TOO_MANY_ROWS."""
    given = _text_of(text)
    code: int = core.leave_lines(given, sink.native)
    text.lines = given.lines
    return code


def finish_row(row: Any, n: int, sink: Any, rules: Any, number: int) -> tuple[int, int]:
    """Turn the n records of `row` into features of row `number` of `sink`.

    Returns (OK, 0), or (why not, position of the record at fault).
    """
    at = np.zeros(1, np.int64)
    row.native.sorted = 0
    code: int = core.finish_row(row.native, n, sink.native, rules.native, number, address(at))
    return code, int(at[0])


def list_rows(sink: Any, rows: Any, indptr: Any, label: Any, weight: Any, has_id: Any) -> tuple[int, int, int, int, int]:
    """List the accepted rows of a sink in the other arrays, each as long as there are rows, `indptr` longer by one.

    Returns how many; how many of them carry an id, a subject, a time; and where the features of the first begin if those of all
    lie one after another, otherwise -1.
    """
    counts = np.zeros(4, np.int64)
    n: int = core.list_rows(sink.native, *map(address, (rows, indptr, label, weight, has_id, counts)))
    ids, subjects, times, first = counts.tolist()
    return n, ids, subjects, times, first


def normalise_l2(indptr: Any, hashes: Any, value: Any) -> Any:
    """Divide rows by their 2-norms in place. Returns bool[nnz]: what was dropped of each row, at its end."""
    dropped = np.zeros(len(value), np.uint8)
    core.normalise_l2(indptr, len(indptr) - 1, hashes, value, dropped)
    return dropped.view(np.bool_)


def hash_of(text: bytes, key: int, tag: SupportsInt) -> int:
    """Hash one part of a name; see `maths.hashing`."""
    found: int = core.hash(text, len(text), int(key), int(tag))
    return found


def name_code(text: bytes) -> int:
    """Check a part of a name: OK, INVALID_UTF8, BAD_NAME, NAME_TOO_LONG or NOT_NFC of `wire.codes`."""
    code: int = core.name_code(text + bytes(_PAD), len(text))
    return code


def parse_number(text: bytes, json: bool = True) -> tuple[float, int]:
    """Read all of `text` as a number: its value, and EXACT, NOT_A_NUMBER or HAND_OVER.

    json : by the grammar of RFC 8259; otherwise also with a leading +, leading zeros, `.5` and `1.`
    """
    value = np.zeros(1)
    status: int = core.parse_number(text + bytes(_PAD), len(text), json, address(value))
    return float(value[0]), status
