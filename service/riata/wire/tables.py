"""Tables become rows: DataFrames of pandas and polars, Arrow tables, columns in a dictionary, flat dictionaries.

The libraries are not imported: a table is known by its methods. A value becomes what a JSON row can say. NaN, None, NaT and NA
are absent, numpy scalars are numbers, and points in time are days since 1970.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from riata.base.errors import BadInput, nearest

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
DAY: Final = timedelta(days=1)
YES: Final = frozenset({"1", "true", "yes", "y", "t"})
NO: Final = frozenset({"0", "false", "no", "n", "f"})
_MISSING_TYPES: Final = frozenset({"NAType", "NaTType"})  # of pandas; comparing NA with itself is not a bool
_SHOWN_MAX: Final = 64
VALUES_MAX: Final = 200_000  # of a request, so that wide tables and long curves stay below the size of a body
_ROWS_AT_ONCE: Final = 1000  # of a table, converted to objects of Python


class _NotFinite(ValueError):
    """A number that JSON does not have, or a point of a curve that is missing."""


@dataclass(frozen=True, slots=True)
class Roles:
    """What the columns of a table are. Columns that are not named here are features.

    label    : the label; None if rows have none
    weight, event_id, subject : of the row
    drop     : left out
    ignored  : left out too, and may be missing
    category : numbers that are names, such as postal codes
    positive : the value of the label that means 1; every other value means 0
    classes  : whether labels are names of classes, which stay as they are
    """

    label: str | None = None
    weight: str | None = None
    event_id: str | None = None
    drop: frozenset[str] = frozenset()
    category: frozenset[str] = frozenset()
    positive: str | None = None
    ignored: frozenset[str] = frozenset()
    classes: bool = False
    subject: str | None = None

    def require(self, names: Sequence[str]) -> None:
        """Raise `BadInput` (code `no_column`) if a column that is named here is not in a table with these columns."""
        for name in (self.label, self.weight, self.event_id, self.subject, *sorted(self.drop), *sorted(self.category)):
            if name is not None and name not in names:
                raise BadInput(f"no column {name!r}; {nearest(name, names)}", "no_column")


@dataclass(frozen=True, slots=True)
class Table:
    """A table in memory. `cells(start, stop)` returns a list for each column, with the values of these rows."""

    names: list[str]
    rows: int
    cells: Callable[[int, int], list[Sequence[Any]]]

    def examples(self, roles: Roles, start: int = 0, stop: int | None = None) -> Iterator[dict[str, Any]]:
        """Yield rows `start` to `stop` as examples. Raises `BadInput`, which names the row and the column."""
        columns = self.cells(start, self.rows if stop is None else min(stop, self.rows))
        for row, values in enumerate(zip(*columns, strict=True), start):
            made = example(zip(self.names, values, strict=True), roles, row)
            if roles.label is not None and "label" not in made:
                raise BadInput(f"row {row}, column {roles.label!r}: there is no label", "missing_label")
            yield made


def table_of(value: object) -> Table | None:
    """Return a DataFrame, an Arrow table or a dictionary of columns as a table; None if it is none of these.

    Raises `BadInput` if the name of a column is not a string, or occurs twice, or if the columns differ in length.
    """
    found: Any = value
    if hasattr(found, "iloc") and hasattr(found, "columns"):  # pandas
        names = list(found.columns)
        return _table(names, len(found), lambda a, b: [found.iloc[a:b, i].tolist() for i in range(len(names))])
    if hasattr(found, "iter_rows") and hasattr(found, "columns"):  # polars
        return _table(found.columns, found.height, lambda a, b: [column.to_list() for column in found[a:b].get_columns()])
    if hasattr(found, "column_names") and hasattr(found, "to_pylist"):  # Arrow
        return _table(found.column_names, found.num_rows, lambda a, b: [one.to_pylist() for one in found.slice(a, b - a).columns])
    if isinstance(found, Mapping) and found and all(_is_column(column) for column in found.values()):
        columns = list(found.values())
        lengths = {str(name): len(column) for name, column in found.items()}
        if len(set(lengths.values())) > 1:
            raise BadInput(f"the columns have different lengths: {lengths}", "lengths_differ")
        return _table(list(found), len(columns[0]), lambda a, b: [column[a:b] for column in columns])
    return None


def example(items: Iterable[tuple[str, Any]], roles: Roles, row: int) -> dict[str, Any]:
    """Return a flat row, its values by column, as an example: features, label, weight, event_id, subject. Absent values
    are left out.

    Raises `BadInput`, which names the row and the column.
    """
    features: dict[str, Any] = {}
    made: dict[str, Any] = {"features": features}
    for name, value in items:
        if name in roles.drop or name in roles.ignored:
            continue
        try:
            said = _feature(value)
            if said is None:
                continue
            if name == roles.label:
                made["label"] = name_of(said) if roles.classes else label_of(said, roles.positive)
            elif name == roles.weight:
                made["weight"] = said
            elif name == roles.event_id:
                made["event_id"] = str(said)
            elif name == roles.subject:
                made["subject"] = str(said)
            else:
                features[name] = str(said) if name in roles.category else said
        except ValueError as error:
            raise BadInput(f"row {row}, column {name!r}: {error}", _code(error)) from None
    return made


def examples_of(rows: Any, roles: Roles, most: int) -> Iterator[list[dict[str, Any]]]:
    """Yield rows as examples, at most `most` rows and `VALUES_MAX` values at a time: a table, a dictionary that is one row, or
    dictionaries.

    A dictionary with the key `features` or `prediction_id` is an example already; any other is a flat row of columns.
    Raises `BadInput`, which names the row and the column.
    """
    table = table_of(rows)
    if table is not None:
        roles.require(table.names)
        starts = range(0, table.rows, _ROWS_AT_ONCE)
        examples = (one for start in starts for one in table.examples(roles, start, start + _ROWS_AT_ONCE))
        yield from _parts(examples, most, len(table.names))
        return
    many = [rows] if isinstance(rows, Mapping) else rows
    yield from _parts((_example_of(row, roles, index) for index, row in enumerate(many)), most, 0)


def _parts(examples: Iterable[dict[str, Any]], most: int, columns: int) -> Iterator[list[dict[str, Any]]]:
    """Cut examples into parts. columns : values that each counts for, beside the points of its curves"""
    part: list[dict[str, Any]] = []
    held = 0
    for one in examples:
        lists = [value for value in one.get("features", {}).values() if type(value) is list]
        values = columns + sum(len(points) * (len(points[0]) if type(points[0]) is list else 1) for points in lists if points)
        if part and (len(part) == most or held + values > VALUES_MAX):
            yield part
            part, held = [], 0
        part.append(one)
        held += values
    if part:
        yield part


def _example_of(row: Any, roles: Roles, index: int) -> dict[str, Any]:
    if not isinstance(row, Mapping):
        raise BadInput(f"row {index}: expected a dictionary, not {type(row).__name__}", "not_an_object")
    if "prediction_id" in row:
        return dict(row)
    if isinstance(row.get("features"), Mapping):
        features = example(row["features"].items(), Roles(), index)["features"]
        return {key: features if key == "features" else _said(value, key, index) for key, value in row.items()}
    made = example(row.items(), roles, index)
    if roles.label is not None and "label" not in made:
        raise BadInput(f"row {index}, column {roles.label!r}: there is no label", "missing_label")
    return made


def _said(value: Any, key: str, index: int) -> Any:
    try:
        return plain(value)
    except ValueError as error:
        raise BadInput(f"row {index}, {key}: {error}", _code(error)) from None


def _code(error: ValueError) -> str:
    return "not_finite" if isinstance(error, _NotFinite) else "bad_value"


def _feature(value: Any) -> Any:
    """As `plain`; a mapping is a namespace of features, one level deep."""
    if isinstance(value, Mapping):
        return {str(name): said for name, item in value.items() if (said := plain(item)) is not None}
    return plain(value)


def plain(value: Any) -> float | int | str | list[Any] | None:
    """Return a value as JSON has it, None if it is absent. Raises `ValueError` with a sentence if JSON has nothing like it."""
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, int | float | Decimal):
        number = value if isinstance(value, int) else float(value)
        if math.isinf(number):
            raise _NotFinite(f"{number} is not a finite number; leave it out, or clip it")
        return None if math.isnan(number) else number
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
        return plain(value.astype(f"{kind}8[us]").item() if kind in "mM" else value.item())
    if _is_column(value):
        return _plain_list(value)
    kind = type(value).__name__
    raise ValueError(f"a value of type {kind} is not a number, a string or a list of strings; convert it, or drop the column")


def _plain_list(value: Any) -> list[Any]:
    """Return a list as JSON has it. Of strings, absent ones are left out. Raises `ValueError` if a number is absent: without one
    of its points a curve would be another curve."""
    items = value.tolist() if hasattr(value, "dtype") and value.dtype.kind in "fiu" else list(value)
    if set(map(type, items)) == {float} and all(map(math.isfinite, items)):
        return items
    said = [plain(item) for item in items]
    if not any(type(one) in (int, float, list) for one in said):
        return [one for one in said if one is not None]
    if None in said:
        raise _NotFinite(f"number {said.index(None)} of the list is absent; fill it, or leave the whole list out")
    return said


def label_of(value: float | int | str | list[Any], positive: str | None = None) -> float | int:
    """Return a label as a number: yes, true and 1 mean 1, no, false and 0 mean 0. Raises `ValueError` for other words."""
    if positive is not None:
        return int(str(value) == positive)
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int | float):
        return value
    word = str(value).strip().lower()
    if word in YES or word in NO:
        return int(word in YES)
    try:
        return float(word)
    except ValueError:
        shown = str(value)[:_SHOWN_MAX]
        told = f"the label {shown!r} is neither a number nor yes or no"
        raise ValueError(f"{told}; say which value means 1: positive; or that labels are names of classes") from None


def name_of(value: float | int | str | list[Any]) -> float | int | str:
    """Return a label that names a class: a text or a number. Raises `ValueError` for a list."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        raise ValueError("a label that names a class is a text or a number, not a list")
    return value


def _table(names: Iterable[Any], rows: int, cells: Callable[[int, int], list[Sequence[Any]]]) -> Table:
    found = list(names)
    for name in found:
        if not isinstance(name, str):
            raise BadInput(f"the name of a column is {name!r}; a feature's name is a string", "bad_name")
        if found.count(name) > 1:
            raise BadInput(f"two columns are called {name!r}", "duplicate_key")
    return Table(found, rows, cells)


def _is_column(value: object) -> bool:
    """Whether this is a list, or anything with items in an order that is not a text: an array, a Series."""
    return isinstance(value, list | tuple) or (hasattr(value, "__len__") and hasattr(value, "dtype"))
