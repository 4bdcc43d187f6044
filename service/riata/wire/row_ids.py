"""Event ids of the rows of a file or a table: a digest of the name of the source, the values of the row, and how often the same
row came before in this source.

Theory of operation
    An id depends on neither the place of a row nor the rows around it, except for equal rows. So a source that grew, was
    corrected or put into another order has the ids of before for all rows that it had before. Equal rows are numbered in their
    order: the third is the third one, wherever the three are.

    Of a row of a table the values are taken as people see them, so that CSV, Parquet and DataFrames agree: 1, 1.0 and the text 1
    are one value, so are true and True, and so are a point in time and its text in ISO 8601. The order of columns does not
    matter, and a value that is absent is as one whose column is missing. Of another line of text its bytes are taken.

    The digests have a personalisation of their own (BLAKE2), so none is that of an event id that a client chose.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from riata.base.arrays import I64, U32, U64
from riata.base.limits import DEDUPE_EVENTS
from riata.wire.tables import DAY, EPOCH, ID_BYTES

if TYPE_CHECKING:
    import msgspec

_PERSON: Final = b"riata row"
_ODD: Final = np.uint64(0x9E3779B97F4A7C15)
_TRUTH: Final = frozenset({"true", "True", "TRUE", "false", "False", "FALSE"})
_LAYOUTS_MAX: Final = 1000  # sets of columns whose order is kept
_SLOTS_AT_FIRST: Final = 2**12
_EXACT: Final = 2**53  # a whole number below it is the same as int and as float
_SHAPE: Final = bytes.maketrans(b"-123456789", b"0000000000")
_LONG: Final = b"0" * 16
_QUOTED: Final = b',"0'
_DATE: Final = re.compile(rb',"[0-9]{4}-')
_NUMBER: Final = re.compile(rb',"(-?[0-9]+(?:\.[0-9]+)?)"(?=,)')  # a text that is a number
_TRUTH_ENDS: Final = (b'rue"', b'RUE"', b'alse"', b'ALSE"')  # of the texts that are truth values
Told = tuple[Any, Sequence[Any]]  # the digest of the columns of a row, and its values


@cache
def _encoder() -> msgspec.json.Encoder:
    import msgspec  # takes 8 ms, and few files have rows without ids

    return msgspec.json.Encoder()


class RowIds:
    """The ids of the rows of one source, to be asked for in their order."""

    def __init__(self, source: str, window: int = DEDUPE_EVENTS) -> None:
        """window : equal rows are counted over at least this many different rows; the service knows ids over as many events."""
        self._start = hashlib.blake2b(source.encode("utf-8", "surrogateescape") + b"\n", digest_size=ID_BYTES, person=_PERSON)
        self._layouts: dict[tuple[str, ...], tuple[Any, Callable[[Mapping[str, Any]], Iterable[Any]]]] = {}
        self._names: tuple[str, ...] = ()
        self._now = self._layout(())
        self._seen = Repeats(window)

    def line_digest(self, line: bytes) -> bytes:
        """Return the digest of a line of text."""
        digest = self._start.copy()
        digest.update(line)
        return digest.digest()

    def told(self, example: Mapping[str, Any]) -> Told:
        """Return what the digest of an example is made from: its columns, and the values of its features, label, weight and
        subject."""
        features = example.get("features", example)
        names = tuple(features)
        if names != self._names:  # most rows have the columns of the row before
            self._names, self._now = names, self._layouts.get(names) or self._layout(names)
        start, values = self._now
        get = example.get
        return start, ["", *values(features), get("label", ""), get("weight", ""), get("subject", ""), ""]

    def digests(self, rows: Sequence[Told]) -> list[bytes]:
        """Return the digests of examples, which cost least if they are made of many at once."""
        found = []
        for (start, _), line in zip(rows, _lines([values for _, values in rows]), strict=True):
            digest = start.copy()
            digest.update(line)
            found.append(digest.digest())
        return found

    def ids(self, digests: Sequence[bytes]) -> bytes:
        """Return the ids of the next rows, 16 bytes each, from their digests."""
        words = np.frombuffer(b"".join(digests), np.uint64).reshape(-1, 2).copy()
        words[:, 1] += self._seen.before(words[:, 0]).view(np.uint64) * _ODD
        return words.tobytes()

    def _layout(self, names: tuple[str, ...]) -> tuple[Any, Callable[[Mapping[str, Any]], Iterable[Any]]]:
        if len(self._layouts) >= _LAYOUTS_MAX:
            self._layouts.clear()
        order = sorted(names)
        start = self._start.copy()
        start.update("".join(f"{len(name)} {name}" for name in order).encode("utf-8", "surrogatepass"))
        values: Callable[[Mapping[str, Any]], Iterable[Any]] = (
            itemgetter(*order) if len(order) > 1 else lambda features: features.values()
        )
        self._layouts[names] = start, values
        return start, values


def _lines(rows: Sequence[Sequence[Any]]) -> list[bytes]:
    """Return `_line` of each row. Rows without anything that has to be looked at are written together."""
    try:
        lines = _encoder().encode_lines(rows)
    except (ValueError, OverflowError, TypeError, UnicodeError):
        return [_line(row) for row in rows]
    shape = lines.translate(_SHAPE)
    has_parts = b"{" in shape or shape.count(b"[") > len(rows)  # values that are lists or maps
    if has_parts or _LONG in shape or _QUOTED in shape or any(end in lines for end in _TRUTH_ENDS):
        return [_line(row) for row in rows]
    return lines.replace(b".0,", b",").splitlines()


def _line(values: Sequence[Any]) -> bytes:
    """Return values as they count for the id of their row. The first and the last are empty."""
    try:
        line = _encoder().encode(values)
        is_usual = _TRUTH.isdisjoint(values)
    except (ValueError, OverflowError, TypeError, UnicodeError):  # lists cannot be looked up
        line, is_usual = b"", False
    shape = line.translate(_SHAPE)
    has_quoted = _QUOTED in shape
    if not is_usual or (_LONG in shape and _has_large(shape)) or (has_quoted and _DATE.search(line)):
        line = _encoder().encode([_said(value) for value in values])
        has_quoted = True
    if has_quoted:
        line = _NUMBER.sub(rb",\1", line)
    return line.replace(b".0,", b",")


def _has_large(shape: bytes) -> bool:
    """Whether a row may have a number that ints and floats write differently."""
    return any(before + _LONG in shape for before in (b",", b',"'))


def _said(value: Any) -> Any:
    """Return a value as it counts for the id of its row, for JSON."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value if abs(value) < _EXACT else _float(value)
    if isinstance(value, float):
        return int(value) if abs(value) < _EXACT and value.is_integer() else value
    if isinstance(value, Mapping):
        return [(str(name), _said(value[name])) for name in sorted(value)]
    if isinstance(value, list | tuple):
        return list(map(_said, value))
    return value if value is None or isinstance(value, bool) else str(value)


def _text(text: str) -> Any:
    """A text that may be a truth value, or a point in time, which is a number of days."""
    if text in _TRUTH:
        return text.lower() == "true"
    if text[4:5] == "-":
        with suppress(ValueError):
            when = datetime.fromisoformat(text)
            return ((when if when.tzinfo else when.replace(tzinfo=EPOCH.tzinfo)) - EPOCH) / DAY
    return text.encode("utf-8", "backslashreplace").decode()


def _float(value: int) -> float | str:
    try:
        return float(value)
    except OverflowError:
        return hex(value)


class Repeats:
    """Counts how often each fingerprint came before: a table with open addressing, at most half full, of 12 bytes a slot.

    After `window` different ones it begins anew, and knows only those of the table before: no more are needed, as a service has
    forgotten the ids of older rows. So the memory is bounded.
    """

    def __init__(self, window: int) -> None:
        self._window = max(window, 1)
        self._old: tuple[U64, U32] | None = None
        self._begin(_SLOTS_AT_FIRST)

    def before(self, fingerprints: U64) -> I64:
        """Return how often each came before, and count it."""
        keys = np.where(fingerprints == 0, _ODD, fingerprints)
        order = np.argsort(keys, kind="stable")
        ranked = keys[order]
        first = np.flatnonzero(np.concatenate(([True], ranked[1:] != ranked[:-1]))) if len(keys) else np.zeros(0, np.int64)
        count = np.diff(np.append(first, len(keys)))
        came = self._add(ranked[first], count)
        found = np.empty(len(keys), np.int64)
        found[order] = np.arange(len(keys)) - np.repeat(first, count) + np.repeat(came, count)
        return found

    def _add(self, keys: U64, count: I64) -> I64:
        """Add to the counts of different keys; return those of before."""
        if self._used >= self._window:
            self._old = self._key, self._count
            self._begin(_SLOTS_AT_FIRST)
        while 2 * (self._used + len(keys)) > len(self._key):
            held = self._key != 0
            kept, counts = self._key[held], self._count[held]
            self._begin(2 * len(self._key))
            self._put(kept, counts.astype(np.int64))
        came = self._put(keys, count)
        fresh = came == 0
        if self._old is not None and fresh.any():
            older = _look_up(*self._old, keys[fresh])
            came[fresh] = older
            self._put(keys[fresh], older)
        return came

    def _begin(self, slots: int) -> None:
        self._key, self._count, self._used = np.zeros(slots, np.uint64), np.zeros(slots, np.uint32), 0

    def _put(self, keys: U64, count: I64) -> I64:
        """Add to the counts of different keys, for which there is room; return those of before, 0 for a new one."""
        came = np.zeros(len(keys), np.int64)
        todo, at, mask = np.arange(len(keys)), keys & np.uint64(len(self._key) - 1), np.uint64(len(self._key) - 1)
        while len(todo):
            key, place = keys[todo], at[todo]
            is_free = self._key[place] == 0
            self._key[place[is_free]] = key[is_free]  # of several that want one place the last gets it, the others go on
            mine = self._key[place] == key
            got = place[mine]
            came[todo[mine]] = self._count[got]
            self._count[got] += count[todo[mine]].astype(np.uint32)
            todo = todo[~mine]
            at[todo] = at[todo] + np.uint64(1) & mask
        self._used += int(np.count_nonzero(came == 0))
        return came


def _look_up(table: U64, counts: U32, keys: U64) -> I64:
    """Return the counts of keys in a table, 0 for those that it lacks."""
    found = np.zeros(len(keys), np.int64)
    todo, mask = np.arange(len(keys)), np.uint64(len(table) - 1)
    at = keys & mask
    while len(todo):
        held = table[at[todo]]
        mine = held == keys[todo]
        found[todo[mine]] = counts[at[todo[mine]]]
        todo = todo[~mine & (held != 0)]
        at[todo] = at[todo] + np.uint64(1) & mask
    return found
