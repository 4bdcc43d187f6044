"""Writes columns as an Arrow stream: a schema, record batches, the end marker. Plain Python: answers and exports need no library.

Theory of operation
    Metadata is a FlatBuffer, written front to back: a table, then what its fields point to, so that every offset is positive, as
    the format requires. Each table follows its own vtable. Numbers are aligned to multiples of their size.

    A NaN is written as null, so that a reader sees a missing value and not a number.

Source: Apache Arrow columnar format 1.5, "Serialization and interprocess communication"; FlatBuffers internals.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from riata.base.arrays import F64, I64, U32

_MARK: Final = b"\xff\xff\xff\xff"
END: Final = _MARK + bytes(4)
_VERSION: Final = 4  # V5 of the format
_SCHEMA, _BATCH = 1, 3
_INT, _FLOAT, _TEXT, _LIST = 2, 3, 5, 12
_ALIGNED: Final = 8
Part = Callable[[bytearray], int]  # appends itself, and returns its position
Slot = tuple[str, int] | Part | None  # a number in a form of `struct`, a part to point to, nothing


@dataclass(frozen=True, slots=True)
class Column:
    """One column: the number of its type in the format, the detail of the type, its buffers, its number of nulls, and the columns
    inside it."""

    name: str
    kind: int
    detail: tuple[Slot, ...]
    length: int
    buffers: tuple[bytes, ...]
    nulls: int = 0
    children: tuple[Column, ...] = ()


def floats(name: str, values: F64) -> Column:
    """A column of doubles, null if NaN."""
    missing = np.isnan(values)
    nulls = int(missing.sum())
    given = np.packbits(~missing, bitorder="little").tobytes() if nulls else b""
    return Column(name, _FLOAT, (("<h", 2),), len(values), (given, np.where(missing, 0.0, values).tobytes()), nulls)


def integers(name: str, values: I64, missing: int | None = None) -> Column:
    """A column of signed 64-bit integers, null where they are `missing`."""
    given = values != missing if missing is not None else np.ones(len(values), np.bool_)
    nulls = len(values) - int(given.sum())
    mask = np.packbits(given, bitorder="little").tobytes() if nulls else b""
    return Column(name, _INT, (("<i", 64), ("<B", 1)), len(values), (mask, np.where(given, values, 0).tobytes()), nulls)


def small_integers(name: str, values: U32) -> Column:
    """A column of unsigned 32-bit integers."""
    return Column(name, _INT, (("<i", 32), ("<B", 0)), len(values), (b"", np.ascontiguousarray(values).tobytes()))


def lists(name: str, indptr: I64, items: Column) -> Column:
    """A column of lists: the i-th one has the items indptr[i]:indptr[i + 1]."""
    return Column(name, _LIST, (), len(indptr) - 1, (b"", indptr.astype(np.int32).tobytes()), children=(items,))


def texts(name: str, values: Sequence[str]) -> Column:
    """A column of strings."""
    held = [value.encode() for value in values]
    ends = np.cumsum([0, *map(len, held)]).astype(np.int32)
    return Column(name, _TEXT, (), len(held), (b"", ends.tobytes(), b"".join(held)))


def write_stream(columns: Sequence[Column], about: Mapping[str, Any] | None = None) -> bytes:
    """Write columns of equal length as a whole stream of one record batch. `about` as in `write_schema`."""
    return write_schema(columns, about) + write_batch(columns) + END


def write_schema(columns: Sequence[Column], about: Mapping[str, Any] | None = None) -> bytes:
    """Write the beginning of a stream whose record batches have columns like these. `about` becomes metadata of the schema, each
    value as JSON."""
    said = [_table((_text(key), _text(json.dumps(value)))) for key, value in (about or {}).items()]
    fields = _vector([_field(column) for column in columns])
    return _message(_SCHEMA, _table((("<h", 0), fields, _vector(said)) if said else (("<h", 0), fields)), b"")


def write_batch(columns: Sequence[Column]) -> bytes:
    """Write columns of equal length as a record batch. A stream ends with END after the last one."""
    every = [*_with_children(columns)]
    spans: list[tuple[int, int]] = []
    body = bytearray()
    for buffer in (buffer for column in every for buffer in column.buffers):
        spans.append((len(body), len(buffer)))
        body += buffer
        _pad(body, _ALIGNED)
    rows = columns[0].length if columns else 0
    nodes = [(column.length, column.nulls) for column in every]
    uncompressed = None
    return _message(_BATCH, _table((("<q", rows), _pairs(nodes), _pairs(spans), uncompressed)), bytes(body))


def _with_children(columns: Sequence[Column]) -> Iterator[Column]:
    """Yield columns and those inside them, each before its own."""
    for column in columns:
        yield column
        yield from _with_children(column.children)


def _message(kind: int, header: Part, body: bytes) -> bytes:
    out = bytearray(4)
    struct.pack_into("<I", out, 0, _table((("<h", _VERSION), ("<B", kind), header, ("<q", len(body))))(out))
    _pad(out, _ALIGNED)
    return _MARK + struct.pack("<i", len(out)) + bytes(out) + body


def _field(column: Column) -> Part:
    """An entry of the schema: name, nullable or not, type, no dictionary, children."""
    children = _vector([_field(child) for child in column.children])
    return _table((_text(column.name), ("<B", 1), ("<B", column.kind), _table(column.detail), None, children))


def _pad(out: bytearray, to: int, ahead: int = 0) -> None:
    out += bytes(-(len(out) + ahead) % to)


def _table(slots: Sequence[Slot]) -> Part:
    """A table of a FlatBuffer after its vtable."""

    def write(out: bytearray) -> int:
        vtable_bytes, at, offsets = 4 + 2 * len(slots), 4, []
        for slot in slots:
            size = 4 if callable(slot) else struct.calcsize(slot[0]) if slot else 1
            at += -at % size
            offsets.append(at if slot else 0)
            at += size if slot else 0
        _pad(out, _ALIGNED, vtable_bytes)
        out += struct.pack(f"<HH{len(slots)}H", vtable_bytes, at, *offsets)
        start = len(out)
        out += bytes(at)
        struct.pack_into("<i", out, start, vtable_bytes)
        for slot, offset in zip(slots, offsets, strict=True):
            if callable(slot):
                struct.pack_into("<I", out, start + offset, slot(out) - start - offset)
            elif slot:
                struct.pack_into(slot[0], out, start + offset, slot[1])
        return start

    return write


def _vector(items: Sequence[Part]) -> Part:
    """A vector of tables."""

    def write(out: bytearray) -> int:
        _pad(out, 4)
        start = len(out)
        out += struct.pack("<I", len(items)) + bytes(4 * len(items))
        for i, item in enumerate(items):
            at = start + 4 + 4 * i
            struct.pack_into("<I", out, at, item(out) - at)
        return start

    return write


def _pairs(items: Sequence[tuple[int, int]]) -> Part:
    """A vector of structs of two i64."""

    def write(out: bytearray) -> int:
        _pad(out, _ALIGNED, 4)
        start = len(out)
        out += struct.pack("<I", len(items)) + b"".join(struct.pack("<qq", *item) for item in items)
        return start

    return write


def _text(value: str) -> Part:
    """A string of a FlatBuffer."""

    def write(out: bytearray) -> int:
        _pad(out, 4)
        start, held = len(out), value.encode()
        out += struct.pack("<I", len(held)) + held + b"\0"
        return start

    return write
