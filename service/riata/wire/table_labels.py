"""The labels of a table, before its first row is sent: which there are, and whether one of them means 1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from riata.base.limits import ROWS_PER_REQUEST_MAX
from riata.wire.given import DISTINCT_MAX, Given, given_value
from riata.wire.plain_values import plain
from riata.wire.tables import VALUES_MAX, Roles, label_of, name_of, table_of

_AT_ONCE: Final = 10_000


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
