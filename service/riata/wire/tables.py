"""Tables become rows: DataFrames of pandas and polars, Arrow tables, columns in a dictionary, flat dictionaries.

The libraries are not imported: a table is known by its methods. A value becomes what a JSON row can say. NaN, None, NaT and NA
are absent, numpy scalars are numbers, and points in time are days since 1970.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from itertools import islice
from typing import Any, Final

from riata.base.errors import BadInput, nearest
from riata.base.frozen_dataclass import frozen_dataclass
from riata.base.limits import ROWS_PER_REQUEST_MAX
from riata.wire.given import ABSENT, DISTINCT_MAX, NO, YES, Given, given_value, plain_number

# Values of other programs as JSON has them: numbers, texts, lists. NaN, None, NaT and NA are absent, numpy scalars are numbers,
# and points in time are days since 1970.
#
# Whatever a value is, `plain` returns what JSON has or raises `ValueError` with a sentence. No library is imported: types are
# known by their names and methods.

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
        kind: type[float] = float if found[1] and str(column.type).startswith("duration") else Days if found[1] else Day
        return [None if day is None else kind(day // by / _PER_DAY[unit]) for day in days]
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


# The value of a label that means 1: compared by value, so that 1, 1.0, "1" and True are one, whatever a table stores.

_TRUTHS: Final = {"true": 1, "false": 0}
_SHOWN: Final = 4
_LABELS_AT_ONCE: Final = 1000
_DISTINCT_MAX: Final = 1000  # labels that are told apart, so that the memory is bounded


def value_of(given: Any) -> Any:
    """Return a label as what it is compared by: a number if it is or reads as one, otherwise its text.

    True and the word true are 1, False and false are 0. Other words are compared letter by letter.
    """
    if isinstance(given, bool):
        return int(given)
    if isinstance(given, int | float):
        return given
    text = str(given).strip()
    if (truth := _TRUTHS.get(text.lower())) is not None:
        return truth
    try:
        return int(text) if "_" not in text else text
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        return text
    return number if math.isfinite(number) and "_" not in text else text


class Positive:
    """Looks for the label that means 1 among those of a table."""

    def __init__(self, positive: str) -> None:
        """positive : as it was given"""
        self._given, self._wanted = positive, value_of(positive)
        self.is_seen = False
        self.labels: Counter[Any] = Counter()

    def add(self, label: Any, count: int = 1) -> None:
        """Note a label; None is absent."""
        if label is None or self.is_seen:
            return
        value = value_of(label)
        self.is_seen = value == self._wanted
        if value in self.labels or len(self.labels) < _DISTINCT_MAX:
            self.labels[value] += count

    def require_seen(self) -> None:
        """Raise `BadInput` (code `bad_option`) if no label was the one that means 1."""
        if self.is_seen or not self.labels:
            return
        words = [str(value) for value, _ in self.labels.most_common(_SHOWN)]
        more = " …" if len(self.labels) > _SHOWN else ""
        near = next((word for word in words if word.lower() == str(self._given).lower()), None)
        hint = f"; did you mean {near!r}?" if near is not None else ""
        told = f"--positive {self._given}: no label has this value; they are {', '.join(map(repr, words))}{more}{hint}"
        raise BadInput(told, "bad_option")


def require_positive(labels: Iterable[Any], positive: str) -> None:
    """Raise `BadInput` (code `bad_option`) if none of these labels means 1."""
    found = Positive(positive)
    for label in labels:
        found.add(label)
        if found.is_seen:
            return
    found.require_seen()


def looked_at(rows: Iterable[Any], label: Callable[[Any], Any], positive: str) -> Iterator[Any]:
    """Yield rows, after a look at the labels of all of them if they can be read twice.

    Rows that can be read once only are looked at as they come: two labels neither of which means 1 end them, and one label alone
    is judged at the end, because rows may be sorted. Raises `BadInput` (code `bad_option`).
    """
    if isinstance(rows, Sequence):
        require_positive(map(label, rows), positive)
        yield from rows
        return
    found, left = Positive(positive), iter(rows)
    while part := list(islice(left, _LABELS_AT_ONCE)):
        for row in part:
            found.add(label(row))
        if len(found.labels) > 1:
            found.require_seen()
        yield from part
    found.require_seen()


ID_BYTES: Final = 16  # of an event id
_SHOWN_MAX: Final = 64
VALUES_MAX: Final = 200_000  # of a request, so that wide tables and long curves stay below the size of a body
_ROWS_AT_ONCE: Final = 1000  # of a table, converted to objects of Python

_AT_ONCE: Final = 10_000


class NoLabel(ValueError):
    """A label that says that there is none."""


class BadRow(BadInput):
    """A row of a table that cannot be made an example. row : its number or line; column : None if it is none alone; reason : why,
    as a sentence."""

    def __init__(self, row: int, column: str | None, reason: str, code: str) -> None:
        place = f"row {row}" if column is None else f"row {row}, column {column!r}"
        super().__init__(f"{place}: {reason}", code)
        self.row = row
        self.column = column
        self.reason = reason


@frozen_dataclass(frozen=True, slots=True)
class Roles:
    """What the columns of a table are. Columns that are not named here are features.

    label    : the label; None if rows have none
    weight, event_id, subject : of the row
    drop     : left out
    ignored  : left out too, and may be missing
    kinds    : kinds of fields by column, as in `encoder.fields`
    named    : columns whose kind the user says; the model knows the others
    positive : the value of the label that means 1; every other value means 0
    classes  : whether labels are names of classes, which stay as they are
    """

    label: str | None = None
    weight: str | None = None
    event_id: str | None = None
    drop: frozenset[str] = frozenset()
    kinds: Mapping[str, str] = field(default_factory=dict)
    named: frozenset[str] = frozenset()
    positive: str | None = None
    ignored: frozenset[str] = frozenset()
    classes: bool = False
    subject: str | None = None

    def require(self, names: Sequence[str]) -> None:
        """Raise `BadInput` (code `no_column`) if a column that is named here is not in a table with these columns."""
        for name in (self.label, self.weight, self.event_id, self.subject, *sorted(self.drop), *sorted(self.named)):
            if name is not None and name not in names:
                raise BadInput(f"no column {name!r}; {nearest(name, names)}", "no_column")

    def with_known(self, kinds: Mapping[str, str]) -> Roles:
        """Return these roles with kinds that the model knows; those that the user says stay."""
        return replace(self, kinds={**kinds, **self.kinds}) if kinds else self


@frozen_dataclass(frozen=True, slots=True)
class Table:
    """A table in memory. `cells(start, stop)` returns a list for each column, with the values of these rows; `column(i)` all
    values of one."""

    names: list[str]
    rows: int
    cells: Callable[[int, int], list[Sequence[Any]]]
    column: Callable[[int], Sequence[Any]]

    def items(self) -> Iterator[tuple[int, Iterable[tuple[str, Any]]]]:
        """Yield the number of each row, from 0, and its values by column."""
        for start in range(0, self.rows, _ROWS_AT_ONCE):
            columns = self.cells(start, min(start + _ROWS_AT_ONCE, self.rows))
            for row, values in enumerate(zip(*columns, strict=True), start):
                yield row, zip(self.names, values, strict=True)


def table_of(value: object) -> Table | None:
    """Return a DataFrame, an Arrow table or a dictionary of columns as a table; None if it is none of these.

    Raises `BadInput` if the name of a column is not a string, or occurs twice, or if the columns differ in length.
    """
    found: Any = value
    if hasattr(found, "iloc") and hasattr(found, "columns"):  # pandas
        names = list(found.columns)
        return _table(
            (names, len(found)),
            lambda a, b: [found.iloc[a:b, i].tolist() for i in range(len(names))],
            lambda i: found.iloc[:, i].tolist(),
        )
    if hasattr(found, "iter_rows") and hasattr(found, "columns"):  # polars
        return _table(
            (found.columns, found.height),
            lambda a, b: [column.to_list() for column in found[a:b].get_columns()],
            lambda i: found.get_columns()[i].to_list(),
        )
    if hasattr(found, "column_names") and hasattr(found, "to_pylist"):  # Arrow
        return _table(
            (found.column_names, found.num_rows),
            lambda a, b: [arrow_cells(one) for one in found.slice(a, b - a).columns],
            lambda i: arrow_cells(found.column(i)),
        )
    if isinstance(found, Mapping) and found and all(is_column(column) for column in found.values()):
        columns = list(found.values())
        lengths = {str(name): len(column) for name, column in found.items()}
        if len(set(lengths.values())) > 1:
            raise BadInput(f"the columns have different lengths: {lengths}", "lengths_differ")
        return _table((list(found), len(columns[0])), lambda a, b: [column[a:b] for column in columns], lambda i: columns[i])
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
                kind = roles.kinds.get(name)
                features[name] = said if kind is None else as_kind(kind, value, said)
        except ValueError as error:
            raise BadRow(row, name, str(error), _code(error)) from None
        except Exception as error:  # a value of another program's type, whose methods may raise anything
            raise BadRow(row, name, f"the value cannot be read: {type(error).__name__}", "bad_value") from None
    return made


def examples_of(rows: Any, roles: Roles, most: int) -> Iterator[list[dict[str, Any]]]:
    """Yield rows as examples, at most `most` rows and `VALUES_MAX` values at a time: a table, a dictionary that is one row, or
    dictionaries.

    A dictionary with the key `features` or `prediction_id` is an example already; any other is a flat row of columns.
    Raises `BadRow`, which names the row and the column.
    """
    for part in numbered_examples(rows, roles, most):
        yield [made for _, made in part]


def lines_of(rows: Iterable[Any], numbers: Iterable[int]) -> bytes:
    """Return rows as NDJSON. Raises `BadInput` with the number of the row if a value is not one of JSON."""
    return b"\n".join(json_of(row, f"row {number}") for row, number in zip(rows, numbers, strict=False))


def json_of(value: Any, name: str) -> bytes:
    """Return JSON. Raises `BadInput` with a name for the value if that cannot be: `not_finite` for NaN and infinite numbers."""
    try:
        return json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, RecursionError, UnicodeError) as error:
        raise BadInput(f"{name}: cannot be written as JSON: {error}", "bad_value") from None
    except ValueError:
        raise BadInput(f"{name}: NaN and infinite numbers cannot be written as JSON", "not_finite") from None


def numbered_examples(
    rows: Any, roles: Roles, most: int, refuse: Callable[[BadRow], None] | None = None
) -> Iterator[list[tuple[int, dict[str, Any]]]]:
    """As `examples_of`, each with the number of its row, from 0. refuse : is given the bad rows, and the others go on."""
    table = table_of(rows)
    if table is not None:
        roles.require(table.names)
        if roles.positive is not None and roles.label is not None:
            require_positive(map(_said_label, table.column(table.names.index(roles.label))), roles.positive)
        made = (_made(partial(_of_table, items, roles, row), refuse, row) for row, items in table.items())
        yield from _parts(made, most, len(table.names))
        return
    many = [rows] if isinstance(rows, Mapping) else rows
    if roles.positive is not None:
        many = looked_at(many, lambda row: _flat_label(row, roles), roles.positive)
    made = (_made(partial(_example_of, row, roles, index), refuse, index) for index, row in enumerate(many))
    yield from _parts(made, most, 0)


def _flat_label(row: Any, roles: Roles) -> Any:
    """The label of a flat row; None if there is none, and of an example, whose label is sent as it is."""
    if not isinstance(row, Mapping) or "prediction_id" in row or isinstance(row.get("features"), Mapping):
        return None
    return _said_label(row.get(roles.label))


def _said_label(value: Any) -> Any:
    try:
        return plain(value)
    except Exception:  # the row says why it is refused
        return None


def _made(
    make: Callable[[], dict[str, Any]], refuse: Callable[[BadRow], None] | None, row: int
) -> tuple[int, dict[str, Any] | None]:
    try:
        return row, make()
    except BadRow as bad:
        if refuse is None:
            raise
        refuse(bad)
        return row, None


def _of_table(items: Iterable[tuple[str, Any]], roles: Roles, row: int) -> dict[str, Any]:
    return _labelled(example(items, roles, row), roles, row)


def _parts(
    examples: Iterable[tuple[int, dict[str, Any] | None]], most: int, columns: int
) -> Iterator[list[tuple[int, dict[str, Any]]]]:
    """Cut examples into parts. columns : values that each counts for, beside the points of its curves"""
    part: list[tuple[int, dict[str, Any]]] = []
    held = 0
    for row, one in examples:
        if one is None:
            continue
        features = one.get("features")
        lists = [value for value in features.values() if type(value) is list] if isinstance(features, dict) else []
        values = columns + sum(len(points) * (len(points[0]) if type(points[0]) is list else 1) for points in lists if points)
        if part and (len(part) == most or held + values > VALUES_MAX):
            yield part
            part, held = [], 0
        part.append((row, one))
        held += values
    if part:
        yield part


def _example_of(row: Any, roles: Roles, index: int) -> dict[str, Any]:
    if not isinstance(row, Mapping):
        raise BadRow(index, None, f"expected a dictionary, not {type(row).__name__}", "not_an_object")
    if "prediction_id" in row or isinstance(row.get("features"), Mapping):
        kinds = Roles(kinds=roles.kinds)
        return {
            key: example(_named(value, index), kinds, index)["features"] if key == "features" else _said(value, key, index)
            for key, value in _named(row, index)
        }
    return _labelled(example(_named(row, index), roles, index), roles, index)


def _labelled(made: dict[str, Any], roles: Roles, row: int) -> dict[str, Any]:
    if roles.label is not None and "label" not in made:
        raise BadRow(row, roles.label, "there is no label", "missing_label")
    return made


def _named(row: Any, index: int) -> Iterator[tuple[str, Any]]:
    """The items of a dictionary of unknown origin. Raises `BadRow` if its keys are no names."""
    if not isinstance(row, Mapping):
        raise BadRow(index, "features", f"expected a dictionary, not {type(row).__name__}", "not_an_object")
    for name, value in row.items():
        try:
            yield require_unicode(str(name)), value
        except ValueError as error:
            raise BadRow(index, None, f"a name of a column: {error}", "bad_name") from None


def _said(value: Any, key: str, index: int) -> Any:
    try:
        return plain(value)
    except ValueError as error:
        raise BadRow(index, key, str(error), _code(error)) from None
    except Exception as error:  # as in `example`
        raise BadRow(index, key, f"the value cannot be read: {type(error).__name__}", "bad_value") from None


def _code(error: ValueError) -> str:
    if isinstance(error, NoLabel):
        return "missing_label"
    return "not_finite" if isinstance(error, NotFinite) else "bad_value"


def _feature(value: Any) -> Any:
    """As `plain`; a mapping is a namespace of features, one level deep."""
    if type(value) is float and math.isfinite(value):  # the usual ones first
        return value
    if isinstance(value, Mapping):
        return {require_unicode(str(name)): said for name, item in value.items() if (said := plain(item)) is not None}
    return plain(value)


def as_kind(kind: str, value: Any, said: Any) -> Any:
    """Return a value of a table for a field of this kind: a text if the kind is one of words, a point in time as a text if the
    service reads numbers of the kind otherwise. said : what `_feature` returned for the value"""
    if isinstance(said, float | int) and kind in _TEXTS and is_moment(value):
        return moment_text(float(said), is_date=_is_date(value) or (kind in _WORDS and said == int(said)))
    if kind in _WORDS and isinstance(said, float | int):
        return str(said).lower() if isinstance(said, bool) else plain_number(said)
    if kind == "number" and isinstance(said, str):
        try:
            return number_in(said)
        except ValueError:
            return said
    return said


def number_in(text: str) -> float | None:
    """Return the number that a text writes with a decimal point, None if it says that there is none. Raises `ValueError`."""
    try:
        found = float(text)
    except ValueError:
        if text.strip().lower() in ABSENT:
            return None
        raise
    if "_" in text or math.isinf(found):
        raise ValueError
    return None if math.isnan(found) else found


_WORDS: Final = frozenset({"category", "list", "text"})
_TEXTS: Final = _WORDS | {"time", "unix_s", "unix_ms"}  # kinds in which points in time are sent as texts


class Days(float):
    """A point in time as days since 1970. is_date : whether it has no time of day"""

    is_date = False


class Day(Days):
    """A date."""

    is_date = True


def is_moment(value: Any) -> bool:
    """Whether a value is a point in time."""
    return isinstance(value, Days | date) or (hasattr(value, "dtype") and value.dtype.kind == "M")


def _is_date(value: Any) -> bool:
    return value.is_date if isinstance(value, Days) else isinstance(value, date) and not isinstance(value, datetime)


def has_moments(rows: Any) -> bool:
    """Whether the first rows of a table, or of a list of dictionaries, hold points in time."""
    table = table_of(rows)
    if table is not None:
        return any(is_moment(value) for column in table.cells(0, _ROWS_AT_ONCE) for value in column)
    many = [rows] if isinstance(rows, Mapping) else rows
    return isinstance(many, Sequence) and any(map(_is_moment_in, many[:_ROWS_AT_ONCE]))


def _is_moment_in(value: Any) -> bool:
    return any(map(_is_moment_in, value.values())) if isinstance(value, Mapping) else is_moment(value)


def moment_text(days: float, *, is_date: bool) -> str:
    """Return days since 1970 in the form of RFC 3339, to the microsecond; as a number if that has no year for it."""
    try:
        found = EPOCH + timedelta(microseconds=round(days * DAY_US))
    except OverflowError:
        return plain_number(days)
    return found.date().isoformat() if is_date else found.isoformat().replace("+00:00", "Z")


def label_of(value: float | int | str | list[Any], positive: str | None = None) -> float | int:
    """Return a label as a number: yes, true and 1 mean 1, no, false and 0 mean 0. Raises `ValueError` for other words."""
    if positive is not None:
        return int(value_of(value) == value_of(positive))
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int | float):
        return value
    word = str(value).strip().lower()
    if word in YES or word in NO:
        return int(word in YES)
    if word in ABSENT:
        raise NoLabel(f"there is no label: {str(value)[:_SHOWN_MAX]!r}")
    try:
        found = float(word)
    except ValueError:
        shown = str(value)[:_SHOWN_MAX]
        told = f"the label {shown!r} is neither a number nor yes or no"
        raise ValueError(f"{told}; say which value means 1: positive; or that labels are names of classes") from None
    if not math.isfinite(found):
        raise NotFinite(f"the label {str(value)[:_SHOWN_MAX]!r} is not a finite number")
    return found


def name_of(value: float | int | str | list[Any]) -> float | int | str:
    """Return a label that names a class: a text or a number. Raises `ValueError` for a list."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        raise ValueError("a label that names a class is a text or a number, not a list")
    return value


def _table(
    size: tuple[Iterable[Any], int],
    cells: Callable[[int, int], list[Sequence[Any]]],
    column: Callable[[int], Sequence[Any]],
) -> Table:
    found, rows = list(size[0]), size[1]
    for name in found:
        if not isinstance(name, str):
            raise BadInput(f"the name of a column is {name!r}; a feature's name is a string", "bad_name")
        try:
            require_unicode(name)
        except ValueError as error:
            raise BadInput(f"the name of a column: {error}", "bad_name") from None
        if found.count(name) > 1:
            raise BadInput(f"two columns are called {name!r}", "duplicate_key")
    return Table(found, rows, cells, column)


# The labels of a table, before its first row is sent: which there are, and whether one of them means 1.


def given_labels(values: Iterable[tuple[Any, int]], roles: Roles) -> Counter[Given]:
    """Count labels as rows with them are sent. values : those of a table, and in how many rows each is.

    A value that is no label is not counted: its rows are refused.
    """
    return _given(values, lambda said: name_of(said) if roles.classes else label_of(said, roles.positive))


def _given(values: Iterable[tuple[Any, int]], meant: Callable[[Any], Any]) -> Counter[Given]:
    found: Counter[Given] = Counter()
    for value, count in values:
        try:
            said = plain(value)
            given = None if said is None else given_value(meant(said))
        except Exception:
            continue
        if given is not None and (given in found or len(found) < DISTINCT_MAX):
            found[given] += count
    return found


def counted(values: Iterable[Any]) -> Iterator[tuple[Any, int]]:
    """Count values, in parts so that the memory stays small; those that cannot be counted are left out."""
    rest = iter(values)
    while part := list(islice(rest, _AT_ONCE)):
        try:
            yield from Counter(part).items()
        except TypeError:
            yield from ((value, 1) for value in part)


def labels_of(rows: Any, roles: Roles) -> Counter[Given] | None:
    """Count the labels of rows that take several requests; None if they fit into one, or can be looked at only once."""
    if roles.label is None:
        return None
    table = table_of(rows)
    if table is not None:
        if roles.label not in table.names or table.rows <= _one_request(len(table.names)):
            return None
        return given_labels(counted(table.column(table.names.index(roles.label))), roles)
    if not isinstance(rows, Sequence) or isinstance(rows, str | bytes) or len(rows) <= ROWS_PER_REQUEST_MAX:
        return None
    flat = counted(row.get(roles.label) for row in rows if isinstance(row, Mapping) and not _is_example(row))
    made = counted(row.get("label") for row in rows if isinstance(row, Mapping) and _is_example(row))
    return given_labels(flat, roles) + _given(made, lambda said: said)


def _one_request(columns: int) -> int:
    return min(ROWS_PER_REQUEST_MAX, VALUES_MAX // max(columns, 1))


def _is_example(row: Mapping[Any, Any]) -> bool:
    return "prediction_id" in row or isinstance(row.get("features"), Mapping)
