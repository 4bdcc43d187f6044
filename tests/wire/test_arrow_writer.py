"""Arrow streams that are written: the same bytes as the tests' own writer leaves, and what was put in comes out."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from riata.wire.arrow_writer import (
    END,
    Column,
    floats,
    integers,
    lists,
    small_integers,
    texts,
    write_batch,
    write_schema,
    write_stream,
)
from tests import arrow_stream as twin

HOLES = np.array([0.5, np.nan, -1e300, np.nan, 5e-324, 0.0, 1.0, 2.0, 3.0, np.nan])
WHOLE = np.array([1.0, -0.0, 2.5])
COUNTS = np.array([0, -1, 2**62], np.int64)
SMALL = np.array([0, 7, 2**32 - 1], np.uint32)


def _twin_of(column: Column) -> twin.Column:
    """The same column by the tests' writer."""
    made = {
        "holes": twin.numbers("holes", [None if np.isnan(value) else value for value in HOLES.tolist()]),
        "whole": twin.numbers("whole", WHOLE),
        "counts": twin.numbers("counts", COUNTS),
        "ids": twin.strings("ids", ["a", "", "ü" * 30]),
        "small": twin.numbers("small", SMALL),
        "of counts": twin.lists("of counts", [0, 2, 2, 3], twin.numbers("item", COUNTS)),
        "of holes": twin.lists("of holes", [0, 1, 4, 10], twin.numbers("item", [None if np.isnan(v) else v for v in HOLES])),
    }
    return made[column.name]


@pytest.mark.parametrize(
    "columns",
    [
        [floats("holes", HOLES)],
        [floats("whole", WHOLE), integers("counts", COUNTS), texts("ids", ["a", "", "ü" * 30])],
        [integers("counts", COUNTS)],
        [small_integers("small", SMALL)],
        [
            lists("of counts", np.array([0, 2, 2, 3]), integers("item", COUNTS)),
            floats("whole", WHOLE),
            lists("of holes", np.array([0, 1, 4, 10]), floats("item", HOLES)),
        ],
    ],
)
def test_a_stream_equals_that_of_the_slow_writer(columns: list[Column]) -> None:
    assert write_stream(columns) == twin.stream([_twin_of(column) for column in columns], columns[0].length)


def test_a_column_without_rows_is_a_stream_too() -> None:
    assert pa.ipc.open_stream(write_stream([floats("a", np.zeros(0)), texts("b", [])])).read_all().to_pydict() == {
        "a": [],
        "b": [],
    }


@pytest.mark.parametrize("about", [{}, {"model": {"name": "m", "seq": 3}}, {"a": 1, "bb": [None], "ü": "x" * 70}])
def test_metadata_of_columns_changes_nothing_else(about: dict[str, object]) -> None:
    columns = [floats("holes", HOLES), integers("n", np.arange(10))]
    body = write_stream(columns, about)
    found = pa.ipc.open_stream(body).read_all()
    found.validate(full=True)
    assert [(field.name, field.type) for field in found.schema] == [("holes", pa.float64()), ("n", pa.int64())]
    holes = [None if np.isnan(value) else value for value in HOLES.tolist()]
    assert found.to_pydict() == {"holes": holes, "n": list(range(10))}
    assert all(key.encode() in body and json.dumps(value).encode() in body for key, value in about.items())


def test_every_number_stands_where_its_size_asks() -> None:
    body = write_stream([floats("holes", HOLES), texts("t", ["abc"] * 10)], {"k": "v"})
    assert len(body) % 8 == 0
    held = pa.py_buffer(body)
    columns = pa.ipc.open_stream(held).read_next_batch().columns
    starts = [buffer.address - held.address for column in columns for buffer in column.buffers() if buffer is not None]
    assert [start % 8 for start in starts] == [0] * 4  # of the nulls, the numbers, the ends and the text


def test_a_stream_of_several_record_batches_has_one_schema() -> None:
    columns = [small_integers("small", SMALL), lists("l", np.array([0, 0, 1, 3]), floats("item", WHOLE))]
    assert write_schema(columns) + write_batch(columns) + END == write_stream(columns)
    whole = write_schema(columns) + write_batch(columns) * 3 + END
    assert len(whole) == len(write_stream(columns)) + 2 * len(write_batch(columns))
