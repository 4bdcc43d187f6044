"""The columns of examples in an Arrow stream: their names, their types, and their values as numpy arrays.

    names    list<string>                 or   indices   list<uint32 | uint64>       exactly one of the two
    values   list<float | double>
    label    any number or bool           required if rows are to be learnt; null is absent
    weight   any number                   optional; null is absent
    event_id string                       optional; null is absent
    subject  string                       optional; null is absent

Lists and strings may have 64-bit offsets. Lists hold no nulls. Offsets must increase and stay inside the buffer that they index.
That is checked here, except for the offsets of names: there are as many of those as features, and their reader checks them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from riata.base.arrays import BOOL, F64, I64, U64, read_only
from riata.base.errors import Malformed, TooLarge, nearest
from riata.base.limits import ROWS_PER_REQUEST_MAX
from riata.jit.kernel import inline_kernel, quick_kernel
from riata.wire.readers.arrow.message import Field, Frame, bad, read_stream

COLUMNS: Final = ("names", "indices", "values", "label", "weight", "event_id", "subject")
_SLUG: Final = "arrow_columns"
_INT, _FLOAT, _TEXT, _BOOL, _LIST, _LARGE_TEXT, _LARGE_LIST = 2, 3, 5, 6, 12, 20, 21
_FLOATS: Final = {1: "<f4", 2: "<f8"}
_SHOWN_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class Texts:
    """Strings: string i is body[ends[i]:ends[i + 1]], ends being i64[n + 1]; null if not given."""

    ends: I64
    given: BOOL


class NamesAt(NamedTuple):
    """Names of features in the body: name i is body[at + ends[i]:at + ends[i + 1]], provided that `do_rise` holds for `ends`."""

    ends: Offsets
    at: int
    size: int  # bytes of all names: the largest valid offset


class Numbers(NamedTuple):
    """Numbers of rows, as they are in the body: values f64[n], and which rows have one, bool[n]; the latter is empty if all have.

    Both arrays are empty if there is no such column.
    """

    values: F64
    given: BOOL


Offsets = NDArray[np.int32] | I64  # read only
_ALL: Final = np.zeros(0, np.bool_)
NOTHING: Final = Numbers(read_only(np.zeros(0)), _ALL)


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns of n rows.

    name_list, value_list : i64[n + 1]   row i has the items list[i]:list[i + 1]
    names   : NamesAt of k or None
    indices : u64[k] or None             in place of names
    values  : f64[m]                     read only; a view of the body if it holds doubles
    label, weight : Numbers
    event_id, subject : Texts or None
    """

    rows: int
    name_list: I64
    value_list: I64
    names: NamesAt | None
    indices: U64 | None
    values: F64
    label: Numbers
    weight: Numbers
    event_id: Texts | None
    subject: Texts | None


@inline_kernel
def number_of(numbers: Numbers, i: int) -> float:
    """The number of row i: NaN if it is absent, and infinite, which no bound admits, if it is NaN in the body.

    Source: the columns of this module.
    """
    if len(numbers.values) == 0 or (len(numbers.given) > 0 and not numbers.given[i]):
        return np.nan
    found = numbers.values[i]
    return found if found == found else np.inf


@inline_kernel
def do_rise(offsets: Offsets, most: int) -> bool:
    """Return whether offsets, at least one, increase from 0 or more to `most` or less.

    Source: Apache Arrow columnar format 1.5, "Variable-size list layout"
    """
    falls = 0
    for i in range(1, len(offsets)):
        falls += offsets[i] < offsets[i - 1]
    return bool(falls == 0 and offsets[0] >= 0 and offsets[-1] <= most)


@quick_kernel
def place_offsets(offsets: Offsets, by: int, most: int, ends: I64) -> bool:
    """Add the start of the target to the offsets of a column of rows.

    Parameters
    ----------
    offsets : i32[n] or i64[n]   read only; n > 0, and at most one more than a request has rows
    by : int                     where the target begins
    most : int                   length of the target
    ends : i64[n]                overwritten: each offset plus `by`

    Returns                      `do_rise`
    Cost                         one comparison and one addition for each offset
    Source                       Apache Arrow columnar format 1.5, "Variable-size list layout"
    """
    for i in range(len(offsets)):
        ends[i] = np.int64(offsets[i]) + by
    return do_rise(offsets, most)


def read_columns(body: memoryview) -> Columns:
    """Read a stream's columns. Nothing may write to the memory meanwhile. Raises `Malformed` and `TooLarge`."""
    body = body.toreadonly()  # kernels are compiled for read-only arrays
    fields, frame = read_stream(body)
    names = [field.name for field in fields]
    for name in names:
        if name not in COLUMNS:
            raise _wrong(name, f"unknown column; {nearest(name[:_SHOWN_MAX], COLUMNS)}")
        if names.count(name) > 1:
            raise _wrong(name, "this column comes twice")
    if ("names" in names) == ("indices" in names) or "values" not in names:
        raise Malformed("expected the columns names or indices, and values", _SLUG)
    if frame.rows > ROWS_PER_REQUEST_MAX:
        raise TooLarge(f"a request has at most {ROWS_PER_REQUEST_MAX} rows", "too_many_rows")
    reader = _Reader(body, frame)
    read = {field.name: reader.column(field) for field in fields}
    reader.end()
    first, items = read["names" if "names" in names else "indices"]
    value_list, values = read["values"]
    return Columns(
        rows=frame.rows,
        name_list=first,
        value_list=value_list,
        names=items if "names" in names else None,
        indices=items if "indices" in names else None,
        values=values,
        label=read.get("label", NOTHING),
        weight=read.get("weight", NOTHING),
        event_id=read.get("event_id"),
        subject=read.get("subject"),
    )


def bad_offsets(name: str) -> Malformed:
    """The error of a column whose offsets are wrong."""
    return bad(f"the offsets of {name} do not increase, or point outside")


def _placed(field: Field, held: np.ndarray[Any, Any], by: int, most: int) -> I64:
    """The offsets of a column, each plus `by`. Raises `Malformed`."""
    ends = np.empty(len(held), np.int64)
    if not place_offsets(held, by, most, ends):
        raise bad_offsets(field.name)
    return ends


def warm_up_columns() -> None:
    """Compile, or load from the cache, the kernel of this module."""
    for item in ("<i4", "<i8"):
        place_offsets(read_only(np.zeros(1, item)), 0, 0, np.empty(1, np.int64))


def _wrong(name: str, why: str) -> Malformed:
    shown = "".join(c if c.isprintable() else "\ufffd" for c in name[:_SHOWN_MAX])
    return Malformed(f"{shown}: {why}", _SLUG)


class _Reader:
    """Takes nodes and buffers from a frame, in the order in which the format lists them."""

    def __init__(self, body: memoryview, frame: Frame) -> None:
        self._body = body
        self._frame = frame
        self._node = 0
        self._buffer = 0

    def end(self) -> None:
        if self._node != len(self._frame.nodes) or self._buffer != len(self._frame.buffers):
            raise bad("more arrays than its schema has columns")

    def column(self, field: Field) -> Any:
        """The values of a column: lists as (offsets, items), strings as `Texts`, numbers as `Numbers`."""
        if field.name in ("names", "indices", "values"):
            return self._list(field)
        length, nulls = self._take_node(field.name, self._frame.rows)
        given = self._validity(field.name, length, nulls)
        if field.name in ("event_id", "subject"):
            if field.kind not in (_TEXT, _LARGE_TEXT):
                raise _wrong(field.name, "expected strings")
            ends, at, size = self._strings(field, length)
            return Texts(_placed(field, ends, at, size), given if len(given) else np.ones(length, np.bool_))
        return Numbers(read_only(self._numbers(field, length).astype(np.float64, copy=False)), given)

    def _list(self, field: Field) -> tuple[I64, Any]:
        if field.kind not in (_LIST, _LARGE_LIST) or len(field.children) != 1:
            raise _wrong(field.name, "expected lists")
        length, nulls = self._take_node(field.name, self._frame.rows)
        self._take(field.name, "u1", 0)  # the validity bitmap; no list is null, as is checked below
        held = self._offsets(field, length)
        item = field.children[0]
        count, item_nulls = self._take_node(field.name, None)
        if nulls or item_nulls:
            raise _wrong(field.name, "its lists hold no nulls; leave the feature out")
        self._take(field.name, "u1", 0)
        offsets = _placed(field, held, 0, count)
        if field.name == "names":
            if item.kind not in (_TEXT, _LARGE_TEXT):
                raise _wrong(field.name, "expected lists of strings")
            return offsets, self._strings(item._replace(name="names"), count)
        if field.name == "values":
            if item.kind != _FLOAT:
                raise _wrong(field.name, "expected lists of float or double")
            return offsets, read_only(self._numbers(item._replace(name="values"), count).astype(np.float64, copy=False))
        if item.kind != _INT or item.detail not in ((32, 0), (64, 0)):
            raise _wrong(field.name, "expected lists of uint32 or uint64")
        return offsets, self._numbers(item._replace(name="indices"), count).astype(np.uint64)

    def _take_node(self, name: str, rows: int | None) -> tuple[int, int]:
        if self._node == len(self._frame.nodes):
            raise bad("fewer arrays than its schema has columns")
        length, nulls = self._frame.nodes[self._node]
        self._node += 1
        if length < 0 or not 0 <= nulls <= length or (rows is not None and length != rows):
            raise bad(f"the length of {name} does not fit")
        return length, nulls

    def _take(self, name: str, item: str, count: int) -> np.ndarray[Any, Any]:
        """`count` items of the next buffer, which may be longer; it is checked to be inside the body."""
        if self._buffer == len(self._frame.buffers):
            raise bad("fewer buffers than its columns have")
        start, size = self._frame.buffers[self._buffer]
        self._buffer += 1
        if count * np.dtype(item).itemsize > size:
            raise bad(f"a buffer of {name} is too short")
        held = np.frombuffer(self._body, item, count, start)
        return held if held.flags.aligned else np.frombuffer(held.tobytes(), item)  # kernels are compiled for aligned arrays

    def _validity(self, name: str, length: int, nulls: int) -> BOOL:
        """Which items are not null; empty if none is null."""
        bits = self._take(name, "u1", (length + 7) // 8 if nulls else 0)
        if not nulls:
            return _ALL
        given = np.unpackbits(bits, count=length, bitorder="little").astype(bool)
        if int(given.sum()) != length - nulls:
            raise bad(f"the nulls of {name} are not as many as it says")
        return given

    def _offsets(self, field: Field, length: int) -> np.ndarray[Any, Any]:
        """i32 or i64[length + 1], unchanged; a column without rows may have no offsets at all."""
        item = "<i8" if field.kind in (_LARGE_LIST, _LARGE_TEXT) else "<i4"
        if length == 0:
            self._take(field.name, item, 0)
            return read_only(np.zeros(1, item))
        return self._take(field.name, item, length + 1)

    def _strings(self, field: Field, length: int) -> NamesAt:
        """Strings, whose offsets are not checked yet."""
        held = self._offsets(field, length)
        self._take(field.name, "u1", 0)
        return NamesAt(held, *self._frame.buffers[self._buffer - 1])

    def _numbers(self, field: Field, count: int) -> np.ndarray[Any, Any]:
        if field.kind == _BOOL and field.name == "label":
            bits = self._take(field.name, "u1", (count + 7) // 8)
            return np.unpackbits(bits, count=count, bitorder="little")
        if field.kind == _FLOAT and field.detail[0] in _FLOATS:
            return self._take(field.name, _FLOATS[field.detail[0]], count)
        if field.kind == _INT and field.detail[0] in (8, 16, 32, 64):
            return self._take(field.name, f"<{'i' if field.detail[1] else 'u'}{field.detail[0] // 8}", count)
        raise _wrong(field.name, "expected numbers: int, float or double")
