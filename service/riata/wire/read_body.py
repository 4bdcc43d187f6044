"""Reads the bytes of a body with the reader of its format; `wire.parse` makes of them what callers want.

`read_body` lets the reader in the native core read the whole body. The rows that it hands over go to the reference reader.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final, NamedTuple, cast

import numpy as np

from riata.base.arrays import U8
from riata.base.errors import Malformed, TooLarge, Unsupported
from riata.base.limits import BODY_BYTES_MAX, ERRORS_SHOWN_MAX, FEATURES_PER_REQUEST_MAX, ROWS_PER_REQUEST_MAX, VALUE_ABS_MAX
from riata.native.library import address
from riata.native.reading import finish_row, leave_lines
from riata.wire.codes import (
    BAD_LABEL,
    HANDOVER,
    INVALID_UTF8,
    OK,
    OUT_OF_RANGE,
    SLUGS,
    SYNTAX,
    TOO_DEEP,
    TOO_MANY_FEATURES,
    TOO_MANY_IN_ROW,
    TOO_MANY_ROWS,
    UNKNOWN_KEY,
)
from riata.wire.encoder import NO_CURVES, Curves
from riata.wire.given import printable, received
from riata.wire.parsed import Reading, RowError
from riata.wire.reader import Functions, Reader, Split
from riata.wire.readers import READERS
from riata.wire.rows import (
    AT,
    FEATURES,
    FIELD_START,
    FIELD_STOP,
    FOUND,
    IN_FEATURES,
    KEY,
    RECORDS_PER_ROW_MAX,
    ROW_START,
    ROWS,
    RecordScratch,
    Refusal,
    Rules,
    SlowRow,
    growth_of,
    make_row,
)
from riata.wire.scan import ClassLabel, label_hint, setting_of
from riata.wire.workspace import FRONT, NEWLINE, PaddedBuffer, Text, Workspace, room_of, workspace

# Why rows were refused, in sentences: what was expected, what was received, what to do.

_ESCAPE_BYTES: Final = 6  # of an escaped character in JSON
_NO_NUMBER: Final = re.compile(rb"[+-]?(nan|inf)", re.IGNORECASE)
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_ID: Final = rb'"?[ \t]*:[ \t]*-?[1-9][0-9]{15,19}(?![0-9.eE])'  # after a name: more digits than a double holds
_FIELD_SHOWN_MAX: Final = 64  # characters of a name that a sentence repeats
KNOWN_KEYS: Final = ("features", "label", "weight", "event_id", "ts", "prediction_id", "subject")


def what_stands(data: U8, at: int) -> str:
    """Describe the syntax error at byte `at` of a body, if it is one of the common mistakes in generated JSON."""
    text = data[at : at + _ESCAPE_BYTES].tobytes()
    if _NO_NUMBER.match(text):
        return ": NaN and Infinity are not numbers here"
    return ": half of a surrogate pair" if _SURROGATE.match(text) else ""


def row_errors(reading: Reading) -> list[RowError]:
    """A slug and a sentence for every row that was not accepted."""
    refused = np.flatnonzero(reading.sink.code[: reading.rows] != OK)
    return [_row_error(reading, int(number), rank < ERRORS_SHOWN_MAX) for rank, number in enumerate(refused)]


def _row_error(reading: Reading, number: int, is_shown: bool) -> RowError:
    code = int(reading.sink.code[number])
    slug, sentence = SLUGS[code]
    place = reading.sink.place[number]
    name = reading.fields.get(number)
    if name is None:
        name = reading.data[place[FIELD_START] : place[FIELD_STOP]].tobytes().decode("utf-8", "replace")
        name = f"features.{name}" if name and place[IN_FEATURES] else name
    if code == BAD_LABEL:
        sentence = label_sentence(reading, number, is_shown)
    if is_shown and (reason := reading.reason(number, slug, name)) is not None:
        name, sentence = reason[0], reason[1] or sentence
    if code in (SYNTAX, TOO_DEEP) and not name:
        found = what_stands(reading.data, int(place[AT]))
        return RowError(number, slug, f"{sentence}, at byte {int(place[AT] - place[ROW_START])} of the row{found}")
    if code == UNKNOWN_KEY and is_shown:  # a search among words: only if the error is shown
        sentence = f"{sentence}; {_key_hint(name[:_FIELD_SHOWN_MAX])}"
    if code == OUT_OF_RANGE and is_shown:
        sentence = id_sentence(reading, number, name) or sentence
    shown = name[:_FIELD_SHOWN_MAX]
    return RowError(number, slug, printable(f"{shown}: {sentence}" if shown else sentence))


def label_sentence(reading: Reading, number: int, is_shown: bool) -> str:
    """Say what labels the model takes, and, if the error is shown, what the label of the row is."""
    expected = label_hint(reading.rules)
    given = reading.given(number) if is_shown else None
    return expected if given is None else f"{expected}; {received(setting_of(reading.rules), given)}"


def id_sentence(reading: Reading, number: int, name: str) -> str | None:
    """Say how to send an id, if the value of a feature is a whole number of as many digits as ids have."""
    last = name.rpartition(".")[2]
    if re.search(re.escape(last.encode()) + _ID, reading.text(number)) is None:
        return None
    return f"beyond {VALUE_ABS_MAX:g} numbers are not exact; send ids as strings (of a table: --category {last})"


def _key_hint(name: str) -> str:
    """What may have been meant by a key of an event that is none of its keys: a misspelt one, or a feature."""
    if close := difflib.get_close_matches(name, KNOWN_KEYS, n=1, cutoff=0.7):
        return f"did you mean {close[0]!r}?"
    return f'known: {", ".join(sorted(KNOWN_KEYS))}; features belong in "features": {{"features": {{"age": 41}}, "label": 1}}'


_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


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


def format_of(content_type: str) -> Format:
    """Find the reader of a Content-Type header. Raises `Unsupported`."""
    kind, *parameters = (part.strip() for part in content_type.split(";"))
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset" and value.strip().strip('"').lower() not in ("utf-8", "utf8"):
            raise Unsupported("only charset=utf-8 is read")
    if kind.lower() not in FORMATS:
        raise Unsupported(f"expected a Content-Type of {', '.join(FORMATS)}")
    return FORMATS[kind.lower()]


class SeveralKinds(Exception):
    """A row is left to the reference reader, which has the kinds of one model only, and the body is of several."""


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
    functions, is_curved = form.functions, bool(curves)
    if is_curved:
        require_curves(form.reader.title, functions is not None and functions.curved is not None)
    if functions is None:
        if not header:
            check_mark(body)
            header, _, body = bytes(body).partition(b"\n")
        functions = form.reader.load(header.removesuffix(b"\r"))
    columns = None
    if functions.columns is not None:
        columns = functions.columns(memoryview(cast(Any, body.bytes if isinstance(body, PaddedBuffer) else body)))
        body, scratch = columns.lines, None
    if is_curved and functions.curved is not None:
        functions = replace(functions, reference=functions.curved(curves))
    reading, row, slow = _read_text(body, ("lines" if columns else form.split, functions), rules, scratch, form.reader.title)
    reading.joins = functions.joins
    if (rows := form.reader.file) is not None:
        reading.label_in, reading.reason_in = rows.label, rows.reason
    if is_curved:  # every row is left to the reference reader; what the native reader made of them is dropped
        reading.sink.code[: reading.rows] = HANDOVER
        reading.sink.count[FEATURES] = reading.sink.count[FOUND] = 0
    for number in reading.left():
        if rules.kinds_of is not None:
            raise SeveralKinds
        row = take_slow(reading, row, number, slow(number))
    if columns is not None:
        columns.finish(reading)
    return reading


def require_curves(title: str, possible: bool = True) -> None:
    """Raise `Unsupported` for a format that has no curves."""
    if not possible:
        raise Unsupported(f"the model has fields that are curves, and rows in {title} have none; send JSON", "curves_need_json")


def _read_text(
    body: bytes | PaddedBuffer | U8, how: tuple[Split, Functions], rules: Rules, scratch: Workspace | None, title: str
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
    text, sink = Text(address(given), len(body), data), work.emptied()
    if not by_line:
        data[: len(body)], data[len(body)] = given, NEWLINE
    code = read(text, row, sink, rules)
    reading = Reading(data, sink, rules, sink.count.item(ROWS), text.lines, is_passing=scratch is None)
    if code != OK:
        raise_for(code, reading)
    if reading.rows == 0:
        raise Malformed("the body holds no rows", "empty_body")

    def slow(number: int) -> SlowRow | Refusal:
        return reference(reading.text(number), rules._replace(source=title))

    return reading, row, slow


def take_slow(reading: Reading, row: RecordScratch, number: int, result: SlowRow | Refusal) -> RecordScratch:
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
    if result.subject:
        reading.subjects[number] = result.subject
    if result.time is not None:
        reading.times[number] = result.time
    return row


# Raises the errors that end the reading of a body: a limit exceeded, or bytes that are malformed.


def raise_for(code: int, reading: Reading) -> None:
    """Raise the `TooLarge` or `Malformed` that belongs to the code with which a reader stopped."""
    if code == TOO_MANY_FEATURES:
        raise TooLarge(f"a request has at most {FEATURES_PER_REQUEST_MAX} features", "too_many_features")
    if code == TOO_MANY_ROWS:
        raise TooLarge(f"a request has at most {ROWS_PER_REQUEST_MAX} rows", "too_many_rows")
    if code in (SYNTAX, TOO_DEEP):
        at = int(reading.sink.place[reading.rows, AT])
        if not reading.data[: at + 1].tobytes().strip(b" \t\r\n"):  # the newline added after the body counts as space
            raise Malformed("the body holds no rows", "empty_body")
        slug, sentence = SLUGS[code]
        stands = what_stands(reading.data, at)
        raise Malformed(f"{sentence}, at byte {at} of the body{stands}; it is JSON of one example or an array of them", slug)


def check_utf8(body: bytes) -> None:
    """Raise `Malformed` unless a body is UTF-8."""
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise Malformed(f"not valid UTF-8 at byte {error.start}", SLUGS[INVALID_UTF8][0]) from None


def check_mark(body: bytes | PaddedBuffer | U8) -> None:
    """Raise `Malformed` (code `byte_order_mark`) if a body begins with a byte order mark."""
    given = body.bytes if isinstance(body, PaddedBuffer) else body
    if bytes(given[: len(_BYTE_ORDER_MARK)]) == _BYTE_ORDER_MARK:
        raise Malformed("the body begins with a byte order mark; send UTF-8 without one", "byte_order_mark")
