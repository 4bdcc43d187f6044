"""Parquet files, read by pyarrow: an optional dependency, `riata[parquet]`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

from riata.base.errors import BadInput, Malformed
from riata.cli.csv_file import Row, lines_of
from riata.cli.tables import Column, Layout, Rows, found_roles, size_of
from riata.wire.tables import Roles, arrow_cells, counted, given_labels, require_positive

ROWS_AT_ONCE: Final = 1000


def parquet_rows(source: IO[bytes], name: str, layout: Layout) -> Rows:
    """Return the columns of a Parquet file, and its rows. Raises `BadInput`, `Malformed`."""
    pyarrow = library(name)
    from pyarrow import parquet

    if layout.header is not None:
        raise BadInput(f"{name}: --header is for CSV; a Parquet file names its columns itself", "bad_option")
    try:
        file = parquet.ParquetFile(source)
    except (pyarrow.ArrowException, OSError) as error:
        raise Malformed(f"{name}: not a Parquet file: {error}") from None
    schema = file.schema_arrow
    names = [str(one) for one in schema.names]
    index = frozenset(one for one in names if one.startswith("__index_level_"))  # of a pandas DataFrame
    for one in names:
        if names.count(one) > 1:
            raise Malformed(f"{name}: two columns are called {one!r}; rename one", "bad_header")
    roles = found_roles(layout, names, index)
    if roles.label is not None:
        _look_at_labels(file, roles, layout)
    columns = [Column(one, _kind(one, schema.field(i).type, roles, pyarrow.types), "") for i, one in enumerate(names)]
    about = size_of(file.metadata.num_rows, len(names))
    if layout.watcher is not None:
        layout.watcher.begins(file.metadata.num_rows)
    return Rows(columns, roles, about, lines_of(_rows(file, name, names), roles, layout, name, "row"))


def _look_at_labels(file: Any, roles: Roles, layout: Layout) -> None:
    """Read the column of the label. Raises `BadInput` (code `bad_option`) if none of its values means 1."""

    def values() -> Iterator[Any]:
        for batch in file.iter_batches(batch_size=ROWS_AT_ONCE, columns=[roles.label]):
            yield from arrow_cells(batch.columns[0])

    if roles.positive is not None:
        require_positive(values(), roles.positive)
    if layout.watcher is not None:
        layout.watcher.labels(given_labels(counted(values()), roles))


def library(name: str) -> Any:
    """Return pyarrow. Raises `BadInput` (code `no_pyarrow`) if it is not installed."""
    try:
        import pyarrow
    except ImportError:
        raise BadInput(f"{name}: Parquet needs pyarrow; install it with `pip install 'riata[parquet]'`", "no_pyarrow") from None
    return pyarrow


def _rows(file: Any, name: str, names: list[str]) -> Iterator[Row]:
    row = 0
    batches = file.iter_batches(batch_size=ROWS_AT_ONCE)
    while True:
        try:
            batch = next(batches, None)
        except (library(name).ArrowException, OSError) as error:
            raise Malformed(f"{name}: damaged after row {row}: {error}") from None
        if batch is None:
            return
        for values in zip(*map(arrow_cells, batch.columns), strict=True):
            row += 1
            yield row, zip(names, values, strict=True)


def _kind(name: str, type_: Any, roles: Roles, types: Any) -> str:
    """The kind of a column by its type. Raises `BadInput` (code `bad_column`) if no feature can have it."""
    if types.is_dictionary(type_):
        type_ = type_.value_type
    if (known := roles.kinds.get(name)) is not None:
        return known
    if types.is_string(type_) or types.is_large_string(type_):
        return "category"
    if types.is_boolean(type_):
        return "boolean"
    if types.is_integer(type_) or types.is_floating(type_) or types.is_decimal(type_) or types.is_null(type_):
        return "number"
    if types.is_temporal(type_) and not types.is_time(type_):
        return "time"
    if types.is_list(type_) or types.is_large_list(type_) or types.is_fixed_size_list(type_):
        return "list" if types.is_string(type_.value_type) or types.is_large_string(type_.value_type) else "curve"
    if name in roles.drop or "string_view" in str(type_):
        return "category"
    raise BadInput(f"column {name!r} is of type {type_}, which no feature has; leave it out with --drop {name}", "bad_column")


class Writer(AbstractContextManager["Writer"]):
    """Writes columns of doubles, and those of `texts` as texts.

    Raises `BadInput` (code `no_pyarrow`), with the name of the file, if pyarrow is missing.
    """

    def __init__(self, path: Path, name: str, columns: Sequence[str], texts: Sequence[str] = ()) -> None:
        self._arrow = library(name)
        from pyarrow import parquet

        double, text = self._arrow.float64(), self._arrow.string()
        self._schema = self._arrow.schema([(column, text if column in texts else double) for column in columns])
        self._file = parquet.ParquetWriter(str(path), self._schema)

    def write(self, rows: Sequence[dict[str, Any]]) -> None:
        """Write rows; other keys than the columns are left out, and a key that is missing is null."""
        kept = [{name: row.get(name) for name in self._schema.names} for row in rows]
        self._file.write_table(self._arrow.Table.from_pylist(kept, self._schema))

    def close(self) -> None:
        """End the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
