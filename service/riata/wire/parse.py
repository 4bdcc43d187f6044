"""Parses the bytes of a request into a checked `Batch`: the entry point of this package.

`parse_examples` picks the reader by content type, lets its kernel read the whole body, gives the rows that the kernel handed
over to the reference reader, and collects the results. `parse_query` does the same for the parameters of a query. The
`explain_…` functions read again and keep every name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, NamedTuple, cast

import numpy as np

from riata.base.arrays import U8
from riata.base.errors import Malformed, TooLarge, Unsupported
from riata.base.limits import BODY_BYTES_MAX, QUERY_BYTES_MAX, ROWS_PER_REQUEST_MAX
from riata.maths.hashing import NUMBER
from riata.wire.arrow_rows import read_arrow, warm_up_arrow
from riata.wire.assemble import finish_row
from riata.wire.codes import (
    DUPLICATE_KEY,
    INVALID_UTF8,
    OK,
    TOO_MANY_FEATURES,
    TOO_MANY_IN_ROW,
)  # fmt: skip
from riata.wire.delimiters import FRONT, NEWLINE, PADDING, Text
from riata.wire.encoder import EncoderConfig
from riata.wire.joins import read_joins
from riata.wire.json_text import read_json, read_ndjson
from riata.wire.names import EVERY_NAME, NO_NAMES, NamesSeen
from riata.wire.numbers import NOT_A_NUMBER, parse_number
from riata.wire.padded_buffer import PaddedBuffer
from riata.wire.parsed import NO_JOINS, Parsed, Reading, RowError, accepted, make_batch, new_names, row_errors, shown_name
from riata.wire.reference_json import Record, Refused, feature_records, hash_of, reference_json
from riata.wire.refusals import check_utf8, raise_for
from riata.wire.rows import (  # fmt: skip
    FOUND,
    KEY,
    RECORDS_PER_ROW_MAX,
    ROW_START,
    ROW_STOP,
    ROWS,
    BatchBuilder,
    RecordScratch,
    Refusal,
    Rules,
    SlowRow,
    make_row,
    make_sink,
    row_capacity,
)
from riata.wire.svmlight import read_svmlight, reference_svmlight
from riata.wire.vw_text import read_vw, reference_vw
from riata.wire.workspace import Workspace, workspace

Labels = Literal["0/1", "-1/+1", "real"]
_LABELS: Final[tuple[Labels, ...]] = ("0/1", "-1/+1", "real")
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_JSON_SPACE: Final = re.compile(rb"[ \t\r\n]*")


@dataclass(frozen=True, slots=True)
class Context:
    """What the readers need to know about a model. `names` is None if no names are to be collected."""

    encoder: EncoderConfig
    labels: Labels = "0/1"
    names: NamesSeen | None = None


class Format(NamedTuple):
    """One content type: a kernel for the body, a reference reader for single rows, and whether newlines separate the rows."""

    read: Callable[[Text, RecordScratch, BatchBuilder, Rules], int]
    slow: Callable[[bytes, Rules], SlowRow | Refusal]
    by_line: bool


def _read_document(text: Text, row: RecordScratch, sink: BatchBuilder, rules: Rules) -> int:
    """Read JSON, which must be complete in memory."""
    text.ends[0], text.ends[1] = 0, text.size + 1
    return read_json(text.data, text.ends, row, sink, rules)


ARROW: Final = "application/vnd.apache.arrow.stream"
_JSON: Final = Format(_read_document, reference_json, by_line=False)
NDJSON: Final = Format(read_ndjson, reference_json, by_line=True)
_VW: Final = Format(read_vw, reference_vw, by_line=True)
_SVMLIGHT: Final = Format(read_svmlight, reference_svmlight, by_line=True)
FORMATS: Final[dict[str, Format | None]] = {  # None: Arrow, whose rows are columns
    "application/json": _JSON,
    "application/x-ndjson": NDJSON,
    "application/ndjson": NDJSON,
    "application/jsonl": NDJSON,
    "text/x-vw": _VW,
    "text/x-svmlight": _SVMLIGHT,
    "text/x-libsvm": _SVMLIGHT,
    ARROW: None,
}


def make_rules(context: Context, labelled: bool, seen: np.ndarray[Any, np.dtype[np.uint64]] = NO_NAMES) -> Rules:
    """Convert `context` to the scalars and arrays that kernels take; `seen` is the table of names for lookups."""
    encoder = context.encoder
    return Rules(
        key=np.uint64(encoder.hash_key),
        labels=_LABELS.index(context.labels),
        labelled=int(labelled),
        l2=int(encoder.normalise == "l2"),
        ngrams=encoder.ngrams,
        text=np.array([hash_of(name.encode(), encoder.hash_key, NUMBER) for name in encoder.text], np.uint64),
        seen=seen,
    )


def format_of(content_type: str) -> Format | None:
    """Find the reader of a Content-Type header. Raises `Unsupported`."""
    kind, *parameters = (part.strip() for part in content_type.split(";"))
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset" and value.strip().strip('"').lower() not in ("utf-8", "utf8"):
            raise Unsupported("only charset=utf-8 is read")
    if kind.lower() not in FORMATS:
        raise Unsupported(f"expected a Content-Type of {', '.join(FORMATS)}")
    return FORMATS[kind.lower()]


def parse_examples(
    body: bytes | PaddedBuffer | U8, content_type: str, context: Context, labelled: bool, scratch: Workspace | None = None
) -> Parsed:
    """Read a body of examples. Rows at fault become row errors, the others a `Batch`.

    body    : the bytes received; or, for formats read by lines, `scratch.room`, written
    scratch : with room for the body; the batch may use its memory, and is then valid until the scratch is used again
    Raises `Unsupported` for an unknown content type, `TooLarge` beyond a limit of the request, and `Malformed` if there is
    no row at all or, in JSON, if the body is not a document.
    """
    seen = NO_NAMES if context.names is None else context.names.table()
    form = format_of(content_type)
    reading = read_body(body, form, make_rules(context, labelled, seen), scratch)
    return _parsed(reading, form is _JSON and bytes(body)[_space_end(bytes(body)) :].startswith(b"{"))


def explain_rows(body: bytes, content_type: str, context: Context) -> list[list[tuple[int, float, str]]]:
    """For every row that `parse_examples` would accept for prediction: (feature hash, value, name) of all its features.

    Values are those of the batch. If several names share a hash, each is listed with its own share. Raises the same.
    """
    reading = read_body(body, format_of(content_type), make_rules(context, False, EVERY_NAME))
    return _explained(reading)


def parse_query(pairs: list[tuple[str, str]], context: Context) -> Parsed:
    """Read the features of a query as one row to predict; a key that comes twice is a list of indicators.

    A value that is a JSON number is numeric. Any other is an indicator, or a text if the encoder says so. Raises `TooLarge`.
    """
    seen = NO_NAMES if context.names is None else context.names.table()
    return _parsed(_read_query(pairs, make_rules(context, False, seen)), True)


def explain_query(pairs: list[tuple[str, str]], context: Context) -> list[list[tuple[int, float, str]]]:
    """`explain_rows` for the features of a query."""
    return _explained(_read_query(pairs, make_rules(context, False, EVERY_NAME)))


def _warm_up(*bodies: tuple[str, bytes]) -> None:
    """Read bodies of these content types, with every option of the readers in use."""
    context = Context(EncoderConfig(text=("t",), ngrams=2, normalise="l2"), names=NamesSeen(1))
    for content_type, body in bodies:
        parse_examples(body, content_type, context, labelled=True)
    if context.names is not None:
        context.names.add([1])


_EXAMPLE: Final = b'{"features":{"a":1.5,"b":"c","t":"two words","d":[true]},"label":1,"ts":"2026-11-20T11:14:00Z"}'
_LINES: Final = _EXAMPLE + b'\n{"features":{"a":1,"s":"x","t":"a b"},"label":0}'
# Each compiles kernels, or loads them from the cache. They share few kernels; together they cover all that reading can call.
WARM_UPS: Final[dict[str, Callable[[], None]]] = {
    "JSON": partial(_warm_up, ("application/json", _EXAMPLE), ("application/x-ndjson", _LINES)),
    "VW text, svmlight": partial(_warm_up, ("text/x-vw", b"1 1.0 'tag|n:2 a:1.5 b\n"), ("text/x-svmlight", b"1 1:1.5 2:2\n")),
    "Arrow": lambda: warm_up_arrow(make_rules(Context(EncoderConfig()), labelled=True, seen=EVERY_NAME)),
}


def _space_end(body: bytes) -> int:
    found = _JSON_SPACE.match(body)
    return found.end() if found else 0


def read_body(body: bytes | PaddedBuffer | U8, form: Format | None, rules: Rules, scratch: Workspace | None = None) -> Reading:
    """Read the whole body with the readers of `form`; every row then has its code. Raises as `parse_examples` does."""
    if form is None:
        reading, row, slow = read_arrow(memoryview(cast(Any, body.bytes if isinstance(body, PaddedBuffer) else body)), rules)
    else:
        reading, row, slow = _read_text(body, form, rules, scratch)
    for number in reading.left():
        row = _take_slow(reading, row, number, slow(number))
    return reading


def _read_text(
    body: bytes | PaddedBuffer | U8, form: Format, rules: Rules, scratch: Workspace | None
) -> tuple[Reading, RecordScratch, Callable[[int], SlowRow | Refusal]]:
    if len(body) > BODY_BYTES_MAX:
        raise TooLarge(f"a body has at most {BODY_BYTES_MAX} bytes, this one has {len(body)}", "body_too_large")
    given = body.bytes if isinstance(body, PaddedBuffer) else np.frombuffer(cast(Any, body), np.uint8)
    if given[: len(_BYTE_ORDER_MARK)].tobytes() == _BYTE_ORDER_MARK:
        raise Malformed("the body begins with a byte order mark; send UTF-8 without one", "byte_order_mark")
    if form is _JSON and not (whole := bytes(body)).isascii():
        check_utf8(whole)
    work = scratch or workspace(len(body), rules.ngrams)
    # The side area receives the lower-case words of texts; they are never longer than their source.
    side = len(body) + 1 if len(rules.text) else 0
    data, row = work.data[FRONT : FRONT + len(body) + 1 + side + PADDING], work.row
    if isinstance(body, PaddedBuffer) and form.by_line and scratch is None and not side:
        data = body.room
    text = Text(given.ctypes.data, len(body), data, work.ends)
    if form.by_line:
        sink = work.emptied()
    else:
        data[: len(body)], data[len(body)] = given, NEWLINE
        sink = work.cleared(min(len(body) // 2 + 1, ROWS_PER_REQUEST_MAX))
    reading = Reading(data, sink, rules, is_passing=scratch is None)
    raise_for(form.read(text, row, sink, rules), reading)
    reading.lines = work.ends.item(-1) if form.by_line else 0
    if reading.rows == 0:
        raise Malformed("the body holds no rows", "empty_body")

    def slow(number: int) -> SlowRow | Refusal:
        start, stop = reading.sink.place[number, ROW_START], reading.sink.place[number, ROW_STOP]
        return form.slow(data[start:stop].tobytes(), rules)

    return reading, row, slow


def _take_slow(reading: Reading, row: RecordScratch, number: int, result: SlowRow | Refusal) -> RecordScratch:
    """Finish a row that a reference reader has read. Returns the scratch, or a larger one if the row needed that."""
    sink = reading.sink
    if isinstance(result, Refusal):
        sink.code[number] = result.code
        reading.fields[number] = result.field
        return row
    records = result.records
    if len(records) > RECORDS_PER_ROW_MAX:
        sink.code[number] = TOO_MANY_IN_ROW
        return row
    if len(records) > len(row.value):
        row = make_row(len(records))
    first = len(reading.slow_names)
    for k, (fingerprint, value, kind, _) in enumerate(records):
        row.fingerprint[k], row.value[k], row.kind[k] = fingerprint, value, kind
        row.span[k] = (-1, first + k, 0, 0)
    code, blame = finish_row(row, len(records), sink, reading.rules, number)
    if code == TOO_MANY_FEATURES:
        raise_for(code, reading)
    sink.code[number] = code
    if code != OK:
        name = records[blame][3].decode("utf-8", "replace")
        reading.fields[number] = f"features.{name}" if records[blame][2] & KEY else name
        return row
    if len(reading.rules.seen):
        reading.slow_names.extend(name for _, _, _, name in records)
    sink.label[number], sink.weight[number] = result.label, result.weight
    if result.event_id:
        reading.identities[number] = result.event_id
    return row


def _parsed(reading: Reading, single: bool) -> Parsed:
    batch, rows = make_batch(reading)
    errors: list[RowError] = row_errors(reading) if len(rows) < reading.rows else []
    joins, errors = read_joins(reading, errors) if errors else (NO_JOINS, errors)
    return Parsed(batch, rows, errors, reading.rows, new_names(reading), single, joins, reading.lines)


def _explained(reading: Reading) -> list[list[tuple[int, float, str]]]:
    sink = reading.sink
    count = int(sink.count[FOUND])
    if count == len(sink.found_value):
        raise TooLarge("too many features to explain at once", "too_many_features")
    by_row: dict[int, dict[bytes, tuple[int, float]]] = {int(number): {} for number in accepted(reading)}
    for k in range(count):
        name = shown_name(reading, k)
        shares = by_row[int(sink.found_row[k])]
        feature = int(sink.found_fingerprint[k]) >> 32
        shares[name] = (feature, shares[name][1] + float(sink.found_value[k]) if name in shares else float(sink.found_value[k]))
    return [sorted((feature, value, name.decode()) for name, (feature, value) in shares.items()) for shares in by_row.values()]


def _read_query(pairs: list[tuple[str, str]], rules: Rules) -> Reading:
    if sum(len(name) + len(value) for name, value in pairs) > QUERY_BYTES_MAX:
        raise TooLarge(f"a query has at most {QUERY_BYTES_MAX} bytes", "query_too_large")
    size = sum(len(name) + len(value) + 2 for name, value in pairs) * 4  # a character is at most four bytes
    reading = Reading(np.zeros(0, np.uint8), make_sink(size, 1, rules.ngrams), rules)
    reading.sink.count[ROWS] = 1
    try:
        result: SlowRow | Refusal = SlowRow(_query_records(pairs, rules))
    except Refused as refused:
        result = refused.refusal
    _take_slow(reading, make_row(row_capacity(size, rules.ngrams)), 0, result)
    return reading


def _query_records(pairs: list[tuple[str, str]], rules: Rules) -> list[Record]:
    values: dict[str, list[float | str]] = {}
    for name, text in pairs:
        try:
            encoded = np.frombuffer(text.encode(), np.uint8)
            name.encode()
        except UnicodeEncodeError:  # percent-encoded bytes that were not UTF-8
            raise Refused(INVALID_UTF8) from None
        status = parse_number(encoded, 0, len(encoded), True)[1]
        values.setdefault(name, []).append(text if status == NOT_A_NUMBER else float(text))
    records: list[Record] = []
    for name, given in values.items():
        if len(given) > 1 and any(isinstance(value, float) for value in given):
            raise Refused(DUPLICATE_KEY, f"features.{name}")
        records.extend(feature_records(name, given if len(given) > 1 else given[0], rules))
    return records
