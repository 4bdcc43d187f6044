"""A writer of small Arrow streams, byte by byte, so that tests can write wrong ones and benches need no other package."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

ARROW: Final = "application/vnd.apache.arrow.stream"
MARK: Final = b"\xff\xff\xff\xff"
END: Final = MARK + bytes(4)
INT, FLOAT, TEXT, BOOL, LIST, LARGE_TEXT, LARGE_LIST = 2, 3, 5, 6, 12, 20, 21
_VERSION = 4  # V5
Slot = tuple[str, int] | Callable[[bytearray], int] | None


@dataclass(slots=True)
class Column:
    """One array: its type, its nodes and buffers as they go into the batch, and the arrays inside it."""

    name: str
    kind: int
    detail: list[Slot]
    length: int
    buffers: list[bytes]
    nulls: int = 0
    children: list[Column] = field(default_factory=list)
    dictionary: bool = False


def _pad(out: bytearray, to: int, ahead: int = 0) -> None:
    out.extend(bytes(-(len(out) + ahead) % to))


def table(slots: Sequence[Slot]) -> Callable[[bytearray], int]:
    """A FlatBuffers table; slots are numbers, or functions that write what the slot points to."""

    def write(out: bytearray) -> int:
        vtable_bytes, at, offsets = 4 + 2 * len(slots), 4, []
        for slot in slots:
            size = 4 if callable(slot) else struct.calcsize(slot[0]) if slot else 1
            at += -at % size
            offsets.append(at if slot else 0)
            at += size if slot else 0
        _pad(out, 8, vtable_bytes)
        out.extend(struct.pack(f"<HH{len(slots)}H", vtable_bytes, at, *offsets))
        start = len(out)
        out.extend(bytes(at))
        struct.pack_into("<i", out, start, vtable_bytes)
        for slot, offset in zip(slots, offsets, strict=True):
            if callable(slot):
                struct.pack_into("<I", out, start + offset, slot(out) - start - offset)
            elif slot:
                struct.pack_into(slot[0], out, start + offset, slot[1])
        return start

    return write


def vector(items: Sequence[Callable[[bytearray], int]]) -> Callable[[bytearray], int]:
    """A vector of tables."""

    def write(out: bytearray) -> int:
        _pad(out, 4)
        start = len(out)
        out.extend(struct.pack("<I", len(items)) + bytes(4 * len(items)))
        for i, item in enumerate(items):
            at = start + 4 + 4 * i
            struct.pack_into("<I", out, at, item(out) - at)
        return start

    return write


def pairs(items: Sequence[tuple[int, int]]) -> Callable[[bytearray], int]:
    """A vector of structs of two i64."""

    def write(out: bytearray) -> int:
        _pad(out, 8, 4)
        start = len(out)
        out.extend(struct.pack("<I", len(items)) + b"".join(struct.pack("<qq", *item) for item in items))
        return start

    return write


def text(value: str) -> Callable[[bytearray], int]:
    """A string."""

    def write(out: bytearray) -> int:
        _pad(out, 4)
        start, held = len(out), value.encode()
        out.extend(struct.pack("<I", len(held)) + held + b"\0")
        return start

    return write


def message(kind: int, header: Callable[[bytearray], int], body: bytes = b"") -> bytes:
    """One message of a stream."""
    out = bytearray(4)
    struct.pack_into("<I", out, 0, table([("<h", _VERSION), ("<B", kind), header, ("<q", len(body))])(out))
    _pad(out, 8)
    return MARK + struct.pack("<i", len(out)) + bytes(out) + body


def schema_field(column: Column) -> Callable[[bytearray], int]:
    """A column's entry in the schema."""
    dictionary = table([("<q", 0)]) if column.dictionary else None
    children = vector([schema_field(child) for child in column.children])
    return table([text(column.name), ("<B", 1), ("<B", column.kind), table(column.detail), dictionary, children])


def schema(columns: Sequence[Column], endianness: int = 0) -> bytes:
    """The message that names the columns."""
    return message(1, table([("<h", endianness), vector([schema_field(column) for column in columns])]))


def batch(columns: Sequence[Column], rows: int, compressed: bool = False) -> bytes:
    """The message that holds the columns."""
    nodes: list[tuple[int, int]] = []
    spans: list[tuple[int, int]] = []
    body = bytearray()

    def add(column: Column) -> None:
        nodes.append((column.length, column.nulls))
        for held in column.buffers:
            spans.append((len(body), len(held)))
            body.extend(held)
            _pad(body, 8)
        for child in column.children:
            add(child)

    for column in columns:
        add(column)
    compression = table([("<b", 1)]) if compressed else None
    return message(3, table([("<q", rows), pairs(nodes), pairs(spans), compression]), bytes(body))


def stream(columns: Sequence[Column], rows: int) -> bytes:
    """A whole stream of one batch."""
    return schema(columns) + batch(columns, rows) + END


def _validity(given: Sequence[bool]) -> tuple[bytes, int]:
    nulls = len(given) - sum(given)
    return (np.packbits(np.array(given, bool), bitorder="little").tobytes() if nulls else b""), nulls


def numbers(name: str, values: Any) -> Column:
    """A column of numbers by the type of a numpy array; or of doubles, from a list where None is null."""
    if isinstance(values, np.ndarray):
        if values.dtype == bool:
            return Column(name, BOOL, [], len(values), [b"", np.packbits(values, bitorder="little").tobytes()])
        float_detail: list[Slot] = [("<h", {2: 0, 4: 1, 8: 2}.get(values.dtype.itemsize, 0))]
        int_detail: list[Slot] = [("<i", 8 * values.dtype.itemsize), ("<B", int(values.dtype.kind == "i"))]
        is_float = values.dtype.kind == "f"
        detail = float_detail if is_float else int_detail
        return Column(name, FLOAT if is_float else INT, detail, len(values), [b"", values.tobytes()])
    bits, nulls = _validity([value is not None for value in values])
    held = np.array([0.0 if value is None else value for value in values], np.float64)
    return Column(name, FLOAT, [("<h", 2)], len(held), [bits, held.tobytes()], nulls)


def strings(name: str, values: Sequence[str | bytes | None], large: bool = False) -> Column:
    """A column of strings; None is null."""
    held = [b"" if value is None else value.encode() if isinstance(value, str) else value for value in values]
    bits, nulls = _validity([value is not None for value in values])
    offsets = np.cumsum([0, *map(len, held)]).astype(np.int64 if large else np.int32)
    return Column(name, LARGE_TEXT if large else TEXT, [], len(held), [bits, offsets.tobytes(), b"".join(held)], nulls)


def lists(name: str, offsets: Any, items: Column, large: bool = False) -> Column:
    """A column of lists of `items`."""
    ends = np.asarray(offsets).astype(np.int64 if large else np.int32)
    items.name = "item"
    return Column(name, LARGE_LIST if large else LIST, [], len(ends) - 1, [b"", ends.tobytes()], children=[items])


def examples(names: Sequence[Sequence[str]] | Any, values: Sequence[Sequence[float]], label: Any = None) -> list[Column]:
    """Columns of rows with names, or where those are integers with indices, values, and labels if any."""
    ends = np.cumsum([0, *map(len, names)])
    flat = [name for row in names for name in row]
    if flat and not isinstance(flat[0], str):
        first = lists("indices", ends, numbers("", np.array(flat, np.uint64)))
    else:
        first = lists("names", ends, strings("", flat))
    held = numbers("", np.array([value for row in values for value in row], np.float64))
    columns = [first, lists("values", np.cumsum([0, *map(len, values)]), held)]
    return columns if label is None else [*columns, numbers("label", label)]
