"""Rows of features from tensors, as the open inference protocol has them: a tensor of n values is a column of n rows, one of
n rows and k > 1 columns the features `name_0` to `name_{k-1}`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec

from riata.base.errors import BadInput, RiataError
from riata.base.limits import ROWS_PER_REQUEST_MAX

Datatype = Literal[
    "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64", "BYTES"
]
Scalar = float | int | bool | str | None


class Tensor(msgspec.Struct):
    """A tensor of a request; `data` is flat in row order, or nested once."""

    name: Annotated[str, msgspec.Meta(min_length=1)]
    shape: Annotated[list[Annotated[int, msgspec.Meta(ge=0)]], msgspec.Meta(min_length=1, max_length=2)]
    datatype: Datatype
    data: list[Scalar | list[Scalar]]
    parameters: dict[str, Any] = {}


def rows_of(inputs: Sequence[Tensor]) -> list[dict[str, Scalar]]:
    """The features of each row; null is an absent value. Raises `BadInput` (bad_inference)."""
    rows = inputs[0].shape[0]
    if not 0 < rows <= ROWS_PER_REQUEST_MAX:
        raise bad(inputs[0], f"shape: expected 1 to {ROWS_PER_REQUEST_MAX:,} rows, got {rows:,}")
    made: list[dict[str, Scalar]] = [{} for _ in range(rows)]
    named: set[str] = set()
    for one in inputs:
        columns = one.shape[1] if len(one.shape) == 2 else 1
        if one.shape[0] != rows:
            raise bad(one, f"shape: {one.shape[0]:,} rows, but the input '{inputs[0].name[:64]}' has {rows:,}")
        flat = [value for each in one.data for value in (each if isinstance(each, list) else (each,))]
        if len(flat) != rows * columns:
            raise bad(one, f"data: {len(flat):,} values, but the shape {one.shape} has {rows * columns:,}")
        if any(isinstance(value, str) != (one.datatype == "BYTES") for value in flat if value is not None):
            raise bad(one, "data: strings are values of the datatype BYTES, and only of it")
        names = [one.name] if columns == 1 else [f"{one.name}_{column}" for column in range(columns)]
        if not named.isdisjoint(names):
            raise bad(one, "two inputs give the same feature")
        named.update(names)
        for at, row in enumerate(made):
            values = zip(names, flat[at * columns : (at + 1) * columns], strict=True)
            row.update((name, value) for name, value in values if value is not None)
    return made


def bad(tensor: Tensor, why: str) -> RiataError:
    """The refusal of one input."""
    return BadInput(f"input '{tensor.name[:64]}': {why}", "bad_inference")
