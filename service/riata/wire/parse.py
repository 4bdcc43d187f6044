"""Parses the bytes of a request into a checked `Batch`: the entry point of this package.

`parse_examples` picks the reader by content type, lets its kernel read the whole body, gives the rows that the kernel handed
over to the reference reader, and collects the results. `parse_query` does the same for the parameters of a query. The
`explain_…` functions read again and keep every name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal, NamedTuple, cast

import numpy as np

from riata.base.arrays import U8
from riata.base.errors import Busy, Malformed, TooLarge, Unsupported
from riata.base.limits import BODY_BYTES_MAX, QUERY_BYTES_MAX, ROWS_PER_REQUEST_MAX
from riata.maths.hashing import NUMBER
from riata.wire.classes import NO_CLASSES, ClassesConfig, number_classes
from riata.wire.codes import HANDOVER, OK, TOO_MANY_FEATURES, TOO_MANY_IN_ROW
from riata.wire.curves import NO_CURVES, Curves
from riata.wire.encoder import EncoderConfig
from riata.wire.names import EVERY_NAME, NO_NAMES, NamesSeen
from riata.wire.padded_buffer import PaddedBuffer
from riata.wire.parsed import NO_JOINS, Parsed, Reading, RowError, accepted, make_batch, new_names, row_errors, shown_name
from riata.wire.reader import Functions, Reader, Split
from riata.wire.readers import READERS
from riata.wire.refusals import check_mark, check_utf8, raise_for
from riata.wire.row_times import read_times
from riata.wire.rows import (  # fmt: skip
    FEATURES,
    FOUND,
    KEY,
    NO_CROSSES,
    PART,
    PARTS_MAX,
    RECORDS_PER_ROW_MAX,
    ROWS,
    RecordScratch,
    Refusal,
    Rules,
    SlowRow,
    growth_of,
    make_row,
    make_sink,
    row_capacity,
)
from riata.wire.scan.assemble import finish_row
from riata.wire.scan.delimiters import FRONT, NEWLINE, Text, room_of
from riata.wire.scan.left_lines import leave_lines
from riata.wire.scan.query_reference import query_records
from riata.wire.scan.reference import ClassLabel, Refused, hash_of
from riata.wire.workspace import Workspace, workspace

Labels = Literal["0/1", "-1/+1", "real", "classes"]
_LABELS: Final[tuple[Labels, ...]] = ("0/1", "-1/+1", "real", "classes")
_COMPILING_S: Final = 5.0  # after how long to send a body again whose reader is being compiled
CURVES: Final = "curves"  # in PUT_OFF, for the kernels that compare curves
PUT_OFF: Final[set[str]] = set()  # names of readers that are compiled only after the start; any thread may change it


@dataclass(frozen=True, slots=True)
class Context:
    """What the readers need to know about a model. `names` is None if no names are to be collected."""

    encoder: EncoderConfig
    labels: Labels = "0/1"
    names: NamesSeen | None = None
    classes: ClassesConfig = NO_CLASSES


class Format(NamedTuple):
    """One media type: its reader, and how a body splits into rows. `functions` is None if they depend on the body's header."""

    reader: Reader
    split: Split
    functions: Functions | None


def _formats() -> Iterator[tuple[str, Format]]:
    for reader in READERS:
        functions = None if reader.has_header else reader.load(b"")
        yield from ((media.name, Format(reader, media.split, functions)) for media in reader.media_types)


FORMATS: Final[dict[str, Format]] = dict(_formats())


def make_rules(context: Context, labelled: bool, seen: np.ndarray[Any, np.dtype[np.uint64]] = NO_NAMES) -> Rules:
    """Convert `context` to the scalars and arrays that kernels take; `seen` is the table of names for lookups."""
    encoder = context.encoder
    fields = list(dict.fromkeys(name for cross in encoder.crosses for name in cross))
    crosses = [[*map(fields.index, cross), *[-1] * (PARTS_MAX - len(cross))] for cross in encoder.crosses]
    return Rules(
        key=np.uint64(encoder.hash_key),
        labels=_LABELS.index(context.labels),
        labelled=int(labelled),
        l2=int(encoder.normalise == "l2"),
        ngrams=encoder.ngrams,
        words=encoder.words,
        text=np.array([hash_of(name.encode(), encoder.hash_key, NUMBER) for name in encoder.text], np.uint64),
        seen=seen,
        fields=np.array([hash_of(name.encode(), encoder.hash_key, NUMBER) for name in fields], np.uint64),
        crosses=np.array(crosses, np.int64) if crosses else NO_CROSSES,
    )


def format_of(content_type: str) -> Format:
    """Find the reader of a Content-Type header. Raises `Unsupported`, and `Busy` (code `not_ready`) if the reader is put off."""
    kind, *parameters = (part.strip() for part in content_type.split(";"))
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset" and value.strip().strip('"').lower() not in ("utf-8", "utf8"):
            raise Unsupported("only charset=utf-8 is read")
    if kind.lower() not in FORMATS:
        raise Unsupported(f"expected a Content-Type of {', '.join(FORMATS)}")
    form = FORMATS[kind.lower()]
    if form.reader.name in PUT_OFF:
        said = f"the kernels that read {form.reader.title} are being compiled after the first start; try again"
        raise Busy(said, "not_ready", _COMPILING_S)
    return form


def parse_examples(
    body: bytes | PaddedBuffer | U8,
    content_type: str,
    context: Context,
    labelled: bool,
    scratch: Workspace | None = None,
    header: bytes = b"",
) -> Parsed:
    """Read a body of examples. Rows at fault become row errors, the others a `Batch`.

    body    : the bytes received; or, for formats read by lines, `scratch.room`, written
    scratch : with room for the body; the batch may use its memory, and is then valid until the scratch is used again
    header  : of a format that has one, if the body does not begin with it, as a block of a file
    Raises `Unsupported` for an unknown content type, `Busy` while its reader is put off, `TooLarge` beyond a limit of the
    request, and `Malformed` if there is no row at all, if a document is not well-formed, or if a header is not one.
    """
    return _parse(body, format_of(content_type), context, labelled, scratch, header)


def _parse(
    body: bytes | PaddedBuffer | U8, form: Format, context: Context, labelled: bool, scratch: Workspace | None, header: bytes
) -> Parsed:
    seen = NO_NAMES if context.names is None else context.names.table()
    reading = read_body(body, form, make_rules(context, labelled, seen), scratch, header, context.encoder.curves)
    parsed = _parsed(reading, form.functions is not None and form.split == "document" and form.functions.is_single(bytes(body)))
    return number_classes(parsed, reading, context.classes) if context.labels == "classes" and labelled else parsed


def explain_rows(body: bytes, content_type: str, context: Context) -> list[list[tuple[int, float, str]]]:
    """For every row that `parse_examples` would accept for prediction: (feature hash, value, name) of all its features.

    Values are those of the batch. If several names share a hash, each is listed with its own share. Raises the same.
    """
    reading = read_body(body, format_of(content_type), make_rules(context, False, EVERY_NAME), curves=context.encoder.curves)
    return _explained(reading)


def parse_query(pairs: list[tuple[str, str]], context: Context) -> Parsed:
    """Read the features of a query as one row to predict; a key that comes twice is a list of indicators.

    A value that is a JSON number is numeric. Any other is an indicator, or a text if the encoder says so. Raises `TooLarge`.
    """
    seen = NO_NAMES if context.names is None else context.names.table()
    return _parsed(_read_query(pairs, make_rules(context, False, seen), context.encoder.curves), True)


def explain_query(pairs: list[tuple[str, str]], context: Context) -> list[list[tuple[int, float, str]]]:
    """`explain_rows` for the features of a query."""
    return _explained(_read_query(pairs, make_rules(context, False, EVERY_NAME), context.encoder.curves))


def _warm_up(reader: Reader, split: Split) -> None:
    """Compile what reading bodies split like this calls, or load it from the cache: read the examples with every option of the
    readers in use."""
    functions = None if reader.has_header else reader.load(b"")
    if functions is not None and functions.warm_up is not None:
        functions.warm_up(make_rules(Context(EncoderConfig()), labelled=True, seen=EVERY_NAME))
    names = NamesSeen(1)
    context = Context(EncoderConfig(text=("t",), ngrams=2, normalise="l2"), names=names)
    for content_type, bodies in reader.examples.items():
        for body in bodies if FORMATS[content_type].split == split else ():
            _parse(body, FORMATS[content_type], context, True, None, b"")
            names.add([1])


# By the name of the reader and how bodies are split. Readers share few kernels; together they cover all that reading can call.
WARM_UPS: Final[dict[tuple[str, Split], Callable[[], None]]] = {
    (reader.name, media.split): partial(_warm_up, reader, media.split) for reader in READERS for media in reader.media_types
}


def read_body(
    body: bytes | PaddedBuffer | U8,
    form: Format,
    rules: Rules,
    scratch: Workspace | None = None,
    header: bytes = b"",
    curves: Curves = NO_CURVES,
) -> Reading:
    """Read the whole body with the readers of `form`; every row then has its code. Raises as `parse_examples` does."""
    if len(body) > BODY_BYTES_MAX:
        raise TooLarge(f"a body has at most {BODY_BYTES_MAX} bytes, this one has {len(body)}", "body_too_large")
    if len(rules.crosses) and not form.reader.has_fields:
        told = f"the model crosses fields, and features in {form.reader.title} have none; send JSON or VW text"
        raise Unsupported(told, "crosses_need_fields")
    functions = form.functions
    if curves:
        _require_curves(form.reader.title, functions is not None and functions.curved is not None)
    if functions is None:
        if not header:
            check_mark(body)
            header, _, body = bytes(body).partition(b"\n")
        functions = form.reader.load(header.removesuffix(b"\r"))
    if functions.columns is not None:
        columns = memoryview(cast(Any, body.bytes if isinstance(body, PaddedBuffer) else body))
        return functions.columns(columns, rules)
    if curves and functions.curved is not None:
        functions = replace(functions, reference=functions.curved(curves))
    reading, row, slow = _read_text(body, (form.split, functions), rules, scratch)
    reading.joins = functions.joins
    if curves:  # every row is left to the reference reader; what the compiled reader made of them is dropped
        reading.sink.code[: reading.rows] = HANDOVER
        reading.sink.count[FEATURES] = reading.sink.count[FOUND] = 0
    if (subject_of := functions.subject) is not None:
        reading.leave_subjects()
    for number in (left := [*reading.left()]):
        row = _take_slow(reading, row, number, slow(number))
        if subject_of is not None and reading.sink.code[number] == OK and (said := subject_of(reading.text(number))):
            reading.subjects[number] = said
    if functions.time is not None and rules.labelled:
        read_times(reading, left, functions.time)
    return reading


def _require_curves(title: str, possible: bool = True) -> None:
    """Raise `Busy` while the kernels that compare curves are put off, `Unsupported` for a format that has no curves."""
    if not possible:
        raise Unsupported(f"the model has fields that are curves, and rows in {title} have none; send JSON", "curves_need_json")
    if CURVES in PUT_OFF:
        raise Busy("the kernels that compare curves are being compiled; try again", "not_ready", _COMPILING_S)


def _read_text(
    body: bytes | PaddedBuffer | U8, how: tuple[Split, Functions], rules: Rules, scratch: Workspace | None
) -> tuple[Reading, RecordScratch, Callable[[int], SlowRow | Refusal]]:
    by_line, functions = how[0] == "lines", how[1]
    read, reference = (functions.lines or leave_lines) if by_line else functions.document, functions.reference
    if read is None or reference is None:
        raise Unsupported(f"a body of {how[0]} has no reader")
    check_mark(body)
    given = body.bytes if isinstance(body, PaddedBuffer) else np.frombuffer(cast(Any, body), np.uint8)
    if not by_line and not (whole := bytes(body)).isascii():
        check_utf8(whole)
    work = scratch or workspace(len(body), growth_of(rules))
    data, row = work.data[FRONT : FRONT + room_of(len(body))], work.row
    if isinstance(body, PaddedBuffer) and by_line and scratch is None:
        data = body.room
    text = Text(given.ctypes.data, len(body), data, work.ends)
    if by_line:
        sink = work.emptied()
    else:
        data[: len(body)], data[len(body)] = given, NEWLINE
        sink = work.cleared(min(len(body) // 2 + 1, ROWS_PER_REQUEST_MAX))
    reading = Reading(data, sink, rules, is_passing=scratch is None)
    raise_for(read(text, row, sink, rules), reading)
    reading.lines = work.ends.item(-1) if by_line else 0
    if reading.rows == 0:
        raise Malformed("the body holds no rows", "empty_body")

    def slow(number: int) -> SlowRow | Refusal:
        return reference(reading.text(number), rules)

    return reading, row, slow


def _take_slow(reading: Reading, row: RecordScratch, number: int, result: SlowRow | Refusal) -> RecordScratch:
    """Finish a row that a reference reader has read. Returns the scratch, or a larger one if the row needed that."""
    sink = reading.sink
    if isinstance(result, Refusal):
        sink.code[number], reading.fields[number] = result.code, result.field
        return row
    records = result.records
    if len(records) > RECORDS_PER_ROW_MAX:
        sink.code[number] = TOO_MANY_IN_ROW
        return row
    if len(records) > len(row.value):
        row = make_row(RECORDS_PER_ROW_MAX if len(reading.rules.crosses) else len(records))
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
    if isinstance(result.label, ClassLabel):
        reading.class_names[number] = result.label.name
    if result.event_id:
        reading.identities[number] = result.event_id
    return row


def _parsed(reading: Reading, single: bool) -> Parsed:
    batch, rows = make_batch(reading)
    errors: list[RowError] = row_errors(reading) if len(rows) < reading.rows else []
    joins, errors = reading.joins(reading, errors) if errors and reading.joins is not None else (NO_JOINS, errors)
    return Parsed(batch, rows, errors, reading.rows, new_names(reading), single, joins, reading.lines)


def _explained(reading: Reading) -> list[list[tuple[int, float, str]]]:
    sink, count = reading.sink, int(reading.sink.count[FOUND])
    if count >= len(sink.found_value) - PARTS_MAX:
        raise TooLarge("too many features to explain at once", "too_many_features")
    by_row: dict[int, dict[bytes, tuple[int, float]]] = {int(number): {} for number in accepted(reading)}
    for k in range(count):
        if sink.found_kind[k] & PART:
            continue
        name = shown_name(reading, k)
        shares = by_row[int(sink.found_row[k])]
        feature = int(sink.found_fingerprint[k]) >> 32
        shares[name] = (feature, shares[name][1] + float(sink.found_value[k]) if name in shares else float(sink.found_value[k]))
    return [sorted((feature, value, name.decode()) for name, (feature, value) in shares.items()) for shares in by_row.values()]


def _read_query(pairs: list[tuple[str, str]], rules: Rules, curves: Curves) -> Reading:
    if sum(len(name) + len(value) for name, value in pairs) > QUERY_BYTES_MAX:
        raise TooLarge(f"a query has at most {QUERY_BYTES_MAX} bytes", "query_too_large")
    if curves:
        _require_curves("a query")
    size = sum(len(name) + len(value) + 2 for name, value in pairs) * 4  # a character is at most four bytes
    reading = Reading(np.zeros(0, np.uint8), make_sink(size, 1, growth_of(rules)), rules)
    reading.sink.count[ROWS] = 1
    try:
        result: SlowRow | Refusal = SlowRow(query_records(pairs, rules, curves))
    except Refused as refused:
        result = refused.refusal
    _take_slow(reading, make_row(row_capacity(size, growth_of(rules))), 0, result)
    return reading
