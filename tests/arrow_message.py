"""The two messages of an Arrow stream, read by hand: a schema, and one record batch; the inverse of `wire.arrow_writer`.

Theory of operation
    A stream is a sequence of messages. Each is 0xFFFFFFFF, the length of its metadata as i32, the metadata, and a body whose
    length is in the metadata. Metadata is a FlatBuffer: tables, each with a vtable that says where its fields are, and vectors
    that begin with their length. Every read below names its position and is checked against the bytes that are there. So no
    claim of a stream is trusted, and no claimed length is allocated.

    A client sends the same schema with every body, so parsed schemas are cached by their bytes.

    Refused: big-endian streams, dictionaries, compressed buffers (a few bytes of one can claim any length), more than one
    record batch, and anything after the stream.

Source: Apache Arrow columnar format 1.5, "Serialization and interprocess communication"; FlatBuffers internals.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from riata.base.errors import Malformed, TooLarge
from riata.base.limits import BODY_BYTES_MAX

SLUG: Final = "bad_arrow"
_MARK: Final = b"\xff\xff\xff\xff"
_END: Final = _MARK + bytes(4)
_SCHEMA, _DICTIONARY, _BATCH = 1, 2, 3
_INT: Final = 2  # the only type whose second field is read: whether it is signed
_COLUMNS_MAX: Final = 16
_HEAD_BYTES: Final = 8
_BUFFER: Final = struct.Struct("<qq")  # a Buffer, and a FieldNode
_SCHEMAS_KEPT: Final = 64
_KEPT_BYTES_MAX: Final = 4096  # of the metadata of a schema that is kept


def bad(why: str) -> Malformed:
    """The error of a stream that cannot be read."""
    return Malformed(f"not an Arrow stream that is read here: {why}", SLUG)


class Field(NamedTuple):
    """A column, or the items of one: its name, the number of its type in the format, the detail of the type, its children."""

    name: str
    kind: int
    detail: tuple[int, int]  # Int: bits and whether signed; FloatingPoint: precision (1 single, 2 double)
    children: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Frame:
    """A record batch: its rows; (length, nulls) of every array, depth first; (start, bytes) of every buffer in the stream."""

    rows: int
    nodes: list[tuple[int, int]]
    buffers: list[tuple[int, int]]


class _Metadata:
    """Checked reads from one message's metadata."""

    def __init__(self, held: bytes) -> None:
        self.held = held

    def read(self, form: str, at: int) -> int:
        """Read one number. Raises `Malformed` if it is outside the metadata."""
        if not 0 <= at <= len(self.held) - struct.calcsize(form):
            raise bad("metadata points outside itself")
        return int(struct.unpack_from(form, self.held, at)[0])

    def jump(self, at: int) -> int:
        """The position that the offset at `at` points to."""
        return at + self.read("<I", at)

    def place(self, table: int, field: int) -> int:
        """The position of a field of a table; 0 if it is absent."""
        vtable = table - self.read("<i", table)
        entry = 4 + 2 * field
        if entry + 2 > self.read("<H", vtable):
            return 0
        offset = self.read("<H", vtable + entry)
        return table + offset if offset else 0

    def number(self, table: int, field: int, form: str, otherwise: int = 0) -> int:
        """A number in a table; `otherwise` if it is absent."""
        at = self.place(table, field)
        return self.read(form, at) if at else otherwise

    def table(self, table: int, field: int) -> int:
        """A table in a table; 0 if it is absent."""
        at = self.place(table, field)
        return self.jump(at) if at else 0

    def vector(self, table: int, field: int, item_bytes: int) -> tuple[int, int]:
        """Where the items of a vector begin, and how many there are."""
        at = self.place(table, field)
        if not at:
            return 0, 0
        at = self.jump(at)
        count = self.read("<I", at)
        if count * item_bytes > len(self.held) - at - 4:
            raise bad("a vector is longer than its metadata")
        return at + 4, count

    def pairs(self, table: int, field: int) -> list[tuple[int, int]]:
        """A vector of structs of two i64; at most as many as the columns can have buffers."""
        at, count = self.vector(table, field, _BUFFER.size)
        if count > 4 * _COLUMNS_MAX:
            raise bad("more buffers than its columns have")
        return list(_BUFFER.iter_unpack(self.held[at : at + count * _BUFFER.size]))

    def text(self, table: int, field: int) -> str:
        """A string; bytes that are not UTF-8 are replaced."""
        at, count = self.vector(table, field, 1)
        return self.held[at : at + count].decode("utf-8", "replace")


def read_stream(body: bytes | memoryview) -> tuple[tuple[Field, ...], Frame]:
    """Read a stream of one record batch. Raises `Malformed`."""
    told, start = _metadata(body, 0, "a schema")
    fields, size = _schema(told) if len(told) <= _KEPT_BYTES_MAX else _schema.__wrapped__(told)
    batch_at = _end(body, start, size, "a schema")
    told, start = _metadata(body, batch_at, "a record batch")
    metadata, batch, size = _header(told, batch_at, _BATCH, "a record batch")
    at = _end(body, start, size, "a record batch")
    frame = _batch(metadata, batch, start, size)
    rest = bytes(body[at : at + len(_END) + 1])
    if rest[: len(_END)] == _END and len(rest) > len(_END):
        raise bad("there are bytes behind its end")
    if rest and rest[: len(_END)] != _END:
        raise bad("more than one record batch, or bytes behind it; send one batch a request")
    return fields, frame


def looks_like_a_stream(head: bytes) -> bool:
    """Whether a file that begins with these bytes may be a stream."""
    return head.startswith(_MARK)


def bodies_of(read: Callable[[int], bytes]) -> Iterator[bytes]:
    """Cut a stream of any number of record batches into streams of one each. Raises `Malformed`.

    read : returns so many bytes of the file, or what is left of it
    """
    schema, _ = _message(read, "a schema")
    while (batch := _message(read, "a record batch"))[1]:
        yield schema + batch[0] + _END


def _message(read: Callable[[int], bytes], called: str) -> tuple[bytes, bool]:
    """Read one message; returns it, and whether there is one: a stream ends with an empty one, or with the file."""
    head = read(_HEAD_BYTES)
    if head in (b"", _END):
        return head, False
    size = int.from_bytes(head[4:], "little", signed=True)
    if len(head) < _HEAD_BYTES or head[:4] != _MARK or not 0 < size <= BODY_BYTES_MAX:
        raise bad(f"expected {called} after the message before")
    told = read(size)
    if len(told) < size:
        raise bad(f"the stream ends inside {called}")
    metadata = _Metadata(told)
    length = metadata.number(metadata.jump(0), 3, "<q")
    if not 0 <= length <= BODY_BYTES_MAX:
        raise TooLarge(f"{called} of the file has {length} bytes; at most {BODY_BYTES_MAX} are read", "body_too_large")
    body = read(length)
    if len(body) < length:
        raise bad(f"the stream ends inside {called}")
    return head + told + body, True


def _metadata(body: bytes | memoryview, at: int, called: str) -> tuple[bytes, int]:
    """The metadata of the message at `at`, and where its body begins."""
    head = bytes(body[at : at + _HEAD_BYTES])
    if len(head) < _HEAD_BYTES or head[:4] != _MARK:
        raise bad(f"expected {called} at byte {at}")
    size = int.from_bytes(head[4:], "little", signed=True)
    start = at + _HEAD_BYTES
    if size <= 0 or size > len(body) - start:
        raise bad(f"the stream ends inside {called}" if size > 0 else f"expected {called} at byte {at}")
    return bytes(body[start : start + size]), start + size


def _header(told: bytes, at: int, wanted: int, called: str) -> tuple[_Metadata, int, int]:
    """The metadata, its header table, and the length that the body of the message at `at` claims."""
    metadata = _Metadata(told)
    message = metadata.jump(0)
    kind, size = metadata.number(message, 1, "<B"), metadata.number(message, 3, "<q")
    if kind == _DICTIONARY:
        raise bad("dictionaries are not read; cast the column to its values")
    header = metadata.table(message, 2)
    if kind != wanted or not header:
        raise bad(f"expected {called} at byte {at}")
    return metadata, header, size


def _end(body: bytes | memoryview, start: int, size: int, called: str) -> int:
    """Where the body of a message that begins at `start` ends."""
    if not 0 <= size <= len(body) - start:
        raise bad(f"the stream ends inside {called}")
    return start + size


@lru_cache(_SCHEMAS_KEPT)
def _schema(told: bytes) -> tuple[tuple[Field, ...], int]:
    """The columns that this metadata lists, and the length that the body of its message claims."""
    metadata, schema, size = _header(told, 0, _SCHEMA, "a schema")
    if metadata.number(schema, 0, "<h") != 0:
        raise bad("big-endian")
    return tuple(_field(metadata, at, 0) for at in _tables(metadata, schema, 1)), size


def _tables(metadata: _Metadata, table: int, field: int) -> list[int]:
    at, count = metadata.vector(table, field, 4)
    if count > _COLUMNS_MAX:
        raise bad(f"more than {_COLUMNS_MAX} columns")
    return [metadata.jump(at + 4 * i) for i in range(count)]


def _field(metadata: _Metadata, field: int, depth: int) -> Field:
    name = metadata.text(field, 0)
    if metadata.table(field, 4):
        raise bad(f"column {name[:64]!r} is a dictionary; cast it to its values")
    kind, about = metadata.number(field, 2, "<B"), metadata.table(field, 3)
    detail = (0, 0)
    if about:
        detail = (metadata.number(about, 0, "<h"), metadata.number(about, 1, "<B") if kind == _INT else 0)
    children = tuple(_field(metadata, at, depth + 1) for at in _tables(metadata, field, 5)) if depth < 1 else ()
    return Field(name, kind, detail, children)


def _batch(metadata: _Metadata, batch: int, start: int, size: int) -> Frame:
    if metadata.table(batch, 3):
        raise bad("its buffers are compressed; send them as they are")
    spans = metadata.pairs(batch, 2)
    for offset, length in spans:
        if offset < 0 or length < 0 or offset + length > size:
            raise bad("a buffer lies outside its message")
    return Frame(
        rows=metadata.number(batch, 0, "<q"),
        nodes=metadata.pairs(batch, 1),
        buffers=[(start + offset, length) for offset, length in spans],
    )
