"""Values of other programs as JSON has them: numbers, texts, lists. NaN, None, NaT and NA are absent, numpy scalars are numbers,
and points in time are days since 1970.

Whatever a value is, `plain` returns what JSON has or raises `ValueError` with a sentence. No library is imported: types are known
by their names and methods.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
DAY: Final = timedelta(days=1)
DAY_US: Final = 86_400_000_000
_MISSING_TYPES: Final = frozenset({"NAType", "NaTType"})  # of pandas; comparing NA with itself is not a bool
_WHOLE_MAX: Final = 2**63  # a larger whole number is written as a float
_TIMES: Final = re.compile(r"(?:timestamp|duration)\[(s|ms|us|ns)|date(32|64)\[")  # Arrow types
_PER_DAY: Final = {"s": 86_400, "ms": 86_400_000, "us": DAY_US, "ns": DAY_US, "32": 1, "64": 86_400_000}


class NotFinite(ValueError):
    """A number that JSON does not have, or a point of a curve that is missing."""


class Unreadable:
    """In place of a value that its library cannot give. reason : what it says."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


def require_unicode(text: str) -> str:
    """Return a text. Raises `ValueError` if UTF-8 has nothing like it."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError("the text has half of a surrogate pair, which is no character") from None
    return text


def plain(value: Any) -> float | int | str | list[Any] | None:
    """Return a value as JSON has it, None if it is absent. Raises `ValueError` with a sentence if JSON has nothing like it."""
    if isinstance(value, str):
        return require_unicode(str(value))
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value) if -_WHOLE_MAX <= value < _WHOLE_MAX else _large(value)
    if isinstance(value, float | Decimal):
        return _number(float(value))
    if isinstance(value, Unreadable):
        raise ValueError(value.reason)
    if type(value).__name__ in _MISSING_TYPES:
        return None
    if isinstance(value, datetime):
        return ((value if value.tzinfo else value.replace(tzinfo=EPOCH.tzinfo)) - EPOCH) / DAY
    if isinstance(value, date):
        return (value - EPOCH.date()) / DAY
    if isinstance(value, timedelta):
        return value / DAY
    if hasattr(value, "dtype") and getattr(value, "shape", None) == ():  # a scalar of numpy
        kind = value.dtype.kind
        if kind in "mM":
            return None if value != value else int(value.astype(f"{kind}8[us]").astype("i8")) / DAY_US
        return plain(value.item())
    if is_column(value):
        return _plain_list(value)
    kind = type(value).__name__
    raise ValueError(f"a value of type {kind} is not a number, a string or a list of strings; convert it, or drop the column")


def _number(number: float) -> float | None:
    if math.isinf(number):
        raise NotFinite(f"{number} is not a finite number; leave it out, or clip it")
    return None if math.isnan(number) else number


def _large(value: int) -> float | None:
    try:
        return _number(float(value))
    except OverflowError:
        raise NotFinite("the number is larger than any that is computed with; leave it out, or clip it") from None


def _plain_list(value: Any) -> list[Any]:
    """Return a list as JSON has it. Of strings, absent ones are left out. Raises `ValueError` if a number is absent: without one
    of its points a curve would be another curve."""
    items = value.tolist() if hasattr(value, "dtype") and value.dtype.kind in "fiu" else list(value)
    if set(map(type, items)) == {float} and all(map(math.isfinite, items)):
        return items
    try:
        said = [plain(item) for item in items]
    except RecursionError:
        raise ValueError("the list has lists inside lists, deeper than any curve") from None
    if not any(type(one) in (int, float, list) for one in said):
        return [one for one in said if one is not None]
    if None in said:
        raise NotFinite(f"number {said.index(None)} of the list is absent; fill it, or leave the whole list out")
    return said


def is_column(value: object) -> bool:
    """Whether this is a list, or anything with items in an order that is not a text: an array, a Series."""
    return isinstance(value, list | tuple) or (hasattr(value, "__len__") and hasattr(value, "dtype"))


def arrow_cells(column: Any) -> list[Any]:
    """Return the values of an Arrow column; points in time as days since 1970, to the microsecond, which needs no pandas. What
    the library cannot give is `Unreadable`."""
    found = _TIMES.match(str(column.type))
    if found:
        unit = found[1] or found[2]
        days = column.cast("int32" if unit == "32" else "int64").to_pylist()
        by = 1000 if unit == "ns" else 1
        return [None if day is None else day // by / _PER_DAY[unit] for day in days]
    try:
        cells: list[Any] = column.to_pylist()
    except Exception:  # one bad value among them, such as text that is not UTF-8
        return [_cell(column, i) for i in range(len(column))]
    return cells


def _cell(column: Any, row: int) -> Any:
    try:
        return column[row].as_py()
    except Exception as error:
        return Unreadable(f"the value cannot be read: {str(error).splitlines()[0] if str(error) else type(error).__name__}")
