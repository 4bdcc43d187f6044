"""Arrow streams of examples, read by pyarrow, as lines of NDJSON, so that the same row is the same in every format.

    names    list<string>                 or   indices   list<uint32 | uint64>       exactly one of the two
    values   list<float | double>
    label    any number or bool           required if rows are to be learnt; null is absent
    weight   any number                   optional; null is absent
    event_id string                       optional; null is absent
    subject  string                       optional; null is absent

Lists and strings may have 64-bit offsets. Lists hold no nulls. An index is the feature that svmlight names so: its name is its
decimal digits. What a line cannot say is said once it is read: a row whose lists differ in length, an index that is too large or
comes twice.

Compressed buffers are refused before they are read: a few bytes of one can claim any length.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from json.encoder import encode_basestring
from typing import Any, Final

import numpy as np

from riata.base.arrays import F64
from riata.base.errors import Malformed, TooLarge, Unsupported, nearest
from riata.base.limits import BODY_BYTES_MAX, FEATURES_PER_REQUEST_MAX, ROWS_PER_REQUEST_MAX
from riata.wire.codes import BAD_INDEX, DUPLICATE_INDEX, DUPLICATE_KEY, LENGTHS_DIFFER, OK
from riata.wire.parsed import Reading
from riata.wire.reader import ColumnLines

SLUG: Final = "bad_arrow"
_LISTS, _NUMBERS, _TEXTS = ("names", "indices", "values"), ("label", "weight"), ("event_id", "subject")
_COLUMNS: Final = (*_LISTS, *_NUMBERS, *_TEXTS)
_INDEX_MAX: Final = 2**63 - 1
_SHOWN_MAX: Final = 64
_ROWS_AT_ONCE: Final = 500  # whose names are objects of Python
_OUT_OF_RANGE: Final = "1e999"  # what infinity and NaN are in a line: no bound admits either


def _library() -> Any:
    try:
        import pyarrow
        import pyarrow.ipc
    except ImportError:
        raise Unsupported("Arrow streams need pyarrow; install it with `pip install 'riata[parquet]'`", "no_pyarrow") from None
    return pyarrow


def _bad(why: str) -> Malformed:
    return Malformed(f"not an Arrow stream that is read here: {why}", SLUG)


def _wrong(name: str, why: str) -> Malformed:
    shown = "".join(c if c.isprintable() else "\ufffd" for c in name[:_SHOWN_MAX])
    return Malformed(f"{shown}: {why}", "arrow_columns")


def bodies_of(read: Callable[[int], bytes]) -> Iterator[bytes]:
    """Cut a stream of any number of record batches into streams of one each. Raises `Malformed`, `TooLarge` and `Unsupported`.

    read : returns so many bytes of the file, or what is left of it
    """
    pyarrow = _library()
    try:
        source = pyarrow.ipc.open_stream(pyarrow.PythonFile(_Readable(read), "r"))
        for batch in source:
            if batch.nbytes > BODY_BYTES_MAX:
                told = f"a record batch of the file has {batch.nbytes} bytes; at most {BODY_BYTES_MAX} are read"
                raise TooLarge(told, "body_too_large")
            made = pyarrow.BufferOutputStream()
            with pyarrow.ipc.new_stream(made, source.schema) as stream:
                stream.write_batch(batch)
            yield made.getvalue().to_pybytes()
    except (pyarrow.ArrowException, OSError, EOFError) as error:
        raise _bad(str(error)) from None


class _Readable:
    """A file as pyarrow reads it."""

    closed = False

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self.read = read

    def close(self) -> None:
        self.closed = True


def lines_of(body: memoryview) -> ColumnLines:
    """Return a line of NDJSON for each row of a stream of one record batch. Raises `Malformed`, `TooLarge` and `Unsupported`."""
    pyarrow = _library()
    try:
        batch = _batch(pyarrow, body)
        return _lines(_columns(pyarrow, batch), batch.num_rows)
    except (pyarrow.ArrowException, OSError, EOFError, OverflowError, UnicodeDecodeError) as error:
        raise _bad(str(error)) from None


def _batch(pyarrow: Any, body: memoryview) -> Any:
    """The record batch of a stream, its columns checked by name and type, its strings as binary."""
    source = pyarrow.BufferReader(pyarrow.py_buffer(body))
    messages = pyarrow.ipc.MessageReader.open_stream(source)
    first = _message(messages, "schema", "a schema")
    schema = pyarrow.ipc.read_schema(first)
    _require_columns(pyarrow, schema)
    told = _message(messages, "record batch", "a record batch")
    if _is_compressed(told.metadata.to_pybytes()):
        raise _bad("its buffers are compressed; send them as they are")
    batch = pyarrow.ipc.read_record_batch(told, schema)
    if batch.num_rows > ROWS_PER_REQUEST_MAX:
        raise TooLarge(f"a request has at most {ROWS_PER_REQUEST_MAX} rows", "too_many_rows")
    if next(iter(messages), None) is not None:
        raise _bad("more than one record batch, or bytes behind it; send one batch a request")
    if source.tell() < len(body):
        raise _bad("there are bytes behind its end")
    return batch


def _message(messages: Any, kind: str, called: str) -> Any:
    found = next(iter(messages), None)
    if found is not None and found.type == "dictionary":
        raise _bad("dictionaries are not read; cast the column to its values")
    if found is None or found.type != kind:
        raise _bad(f"expected {called}")
    return found


def _is_compressed(metadata: bytes) -> bool:
    """Whether the metadata of a record batch, which pyarrow has verified, has a `compression`. Source: FlatBuffers internals."""

    def field(table: int, number: int) -> int:
        vtable = table - struct.unpack_from("<i", metadata, table)[0]
        entry = 4 + 2 * number
        offset = (
            struct.unpack_from("<H", metadata, vtable + entry)[0] if entry < struct.unpack_from("<H", metadata, vtable)[0] else 0
        )
        return table + offset if offset else 0

    message = struct.unpack_from("<I", metadata)[0]
    header = field(message, 2)
    return bool(field(header + struct.unpack_from("<I", metadata, header)[0], 3))


def _require_columns(pyarrow: Any, schema: Any) -> None:
    """Raise `Malformed` unless the columns of a schema are those above."""
    types = pyarrow.types
    for name in schema.names:
        if name not in _COLUMNS:
            raise _wrong(name, f"unknown column; {nearest(name[:_SHOWN_MAX], _COLUMNS)}")
        if schema.names.count(name) > 1:
            raise _wrong(name, "this column comes twice")
    if ("names" in schema.names) == ("indices" in schema.names) or "values" not in schema.names:
        raise Malformed("expected the columns names or indices, and values", "arrow_columns")
    items: dict[str, tuple[Callable[[Any], bool], str]] = {
        "names": (lambda kind: types.is_string(kind) or types.is_large_string(kind), "strings"),
        "indices": (lambda kind: types.is_uint32(kind) or types.is_uint64(kind), "uint32 or uint64"),
        "values": (lambda kind: types.is_float32(kind) or types.is_float64(kind), "float or double"),
    }
    for name, kind in zip(schema.names, schema.types, strict=True):
        if types.is_dictionary(kind):
            raise _bad(f"column {name!r} is a dictionary; cast it to its values")
        if name in items:
            is_item, said = items[name]
            if not (types.is_list(kind) or types.is_large_list(kind)):
                raise _wrong(name, "expected lists")
            if not is_item(kind.value_type):
                raise _wrong(name, f"expected lists of {said}")
        elif name in _TEXTS and not items["names"][0](kind):
            raise _wrong(name, "expected strings")
        elif name in _NUMBERS and not (
            types.is_integer(kind) or items["values"][0](kind) or (name == "label" and types.is_boolean(kind))
        ):
            raise _wrong(name, "expected numbers: int, float or double")


def _as_bytes(pyarrow: Any, column: Any) -> Any:
    """The same column, its strings as binary: a row whose text is not UTF-8 is refused alone."""
    types, kind = pyarrow.types, column.type
    binary = {pyarrow.string(): pyarrow.binary(), pyarrow.large_string(): pyarrow.large_binary()}
    if types.is_list(kind) or types.is_large_list(kind):
        make = pyarrow.list_ if types.is_list(kind) else pyarrow.large_list
        return column.view(make(binary[kind.value_type])) if kind.value_type in binary else column
    return column.view(binary[kind]) if kind in binary else column


def _columns(pyarrow: Any, batch: Any) -> dict[str, Any]:
    """The columns of a record batch by name, checked. Raises `Malformed`, `TooLarge`, and what pyarrow raises."""
    held = {name: _as_bytes(pyarrow, batch.column(i)) for i, name in enumerate(batch.schema.names)}
    for name, column in held.items():
        if len(column) != batch.num_rows:
            raise _bad(f"the length of {name} does not fit")
        column.validate(full=True)
        if name in _LISTS and (column.null_count or column.values.null_count):
            raise _wrong(name, "its lists hold no nulls; leave the feature out")
        if name in _LISTS[:2] and len(column.values) > FEATURES_PER_REQUEST_MAX:
            raise TooLarge(f"a request has at most {FEATURES_PER_REQUEST_MAX} features", "too_many_features")
    return held


def _lines(held: dict[str, Any], rows: int) -> ColumnLines:
    """Return a line for each row, and what is to be said of them afterwards."""
    is_indexed = "indices" in held
    wrong: dict[int, int] = {}
    made: list[str] = []
    for start in range(0, rows, _ROWS_AT_ONCE):
        part = {name: column.slice(start, _ROWS_AT_ONCE) for name, column in held.items()}
        keys, values = part["indices" if is_indexed else "names"], part["values"]
        named = keys.flatten().to_pylist()
        quoted = [f'"{index}"' for index in named] if is_indexed else [*map(_quoted, named)]
        said = _said(_floats(values.flatten()))
        a = b = 0
        counts = zip(keys.value_lengths().to_pylist(), values.value_lengths().to_pylist(), strict=True)
        for row, (front, (n, m)) in enumerate(zip(_fronts(part), counts, strict=True), start):
            if is_indexed and max(named[a : a + n], default=0) > _INDEX_MAX:
                wrong[row] = BAD_INDEX
            elif n != m:
                wrong[row] = LENGTHS_DIFFER
            pairs = [] if row in wrong else zip(quoted[a : a + n], said[b : b + m], strict=True)
            features = ",".join([f"{name}:{value}" for name, value in pairs])
            made.append(f'{{{front}"features":{{{features}}}}}')
            a, b = a + n, b + m
    given = _floats(held["label"]) if "label" in held else None

    def finish(reading: Reading) -> None:
        reading.lines, reading.given_labels = 0, given
        code = reading.sink.code[: reading.rows]
        if is_indexed:
            code[code == DUPLICATE_KEY] = DUPLICATE_INDEX
        for row, why in wrong.items():
            if code[row] == OK:
                code[row] = why

    return ColumnLines("\n".join(made).encode("utf-8", "surrogateescape"), finish)


def _fronts(part: dict[str, Any]) -> list[str]:
    """What a line says before the features, in the order in which a row is refused for it."""
    fronts = [""] * len(part["values"])
    for name in (*_NUMBERS, *_TEXTS):
        if name in part:
            held, given = part[name], part[name].is_valid().to_pylist()
            texts = _said(_floats(held)) if name in _NUMBERS else ["" if b is None else _text(b) for b in held.to_pylist()]
            fronts = [f'{a}"{name}":{b},' if there else a for a, b, there in zip(fronts, texts, given, strict=True)]
    return fronts


def _floats(column: Any) -> F64:
    """The numbers of a column; an absent one is 0."""
    numbers: F64 = column.fill_null(False if str(column.type) == "bool" else 0).to_numpy(zero_copy_only=False).astype(np.float64)
    return numbers


def _said(values: F64) -> list[str]:
    """Numbers as JSON writes them."""
    if bool(np.isfinite(values).all()):
        return [*map(repr, values.tolist())]
    return [repr(value) if abs(value) < np.inf else _OUT_OF_RANGE for value in values.tolist()]


def _quoted(text: bytes) -> str:
    """Text as JSON writes it; bytes that are not UTF-8 stay what they are."""
    return encode_basestring(text.decode("utf-8", "surrogateescape"))


def _text(text: bytes) -> str:
    """The text of a row; an empty one, which is refused, if it is not UTF-8."""
    try:
        return encode_basestring(text.decode())
    except UnicodeDecodeError:
        return '""'
