from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from riata.jit.kernel import kernel
from riata.jit.raw.address import held_by


@kernel
def _held(array_id: int) -> tuple[int, int, int]:
    return held_by(array_id)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(5),
        np.arange(7, dtype=np.uint32)[2:5],
        np.zeros((4, 3))[:, 1],
        np.arange(9.0)[::-2],
        np.frombuffer(bytes(24), np.float64),
        np.empty(0, np.float64),
    ],
    ids=["whole", "part", "column", "backwards", "not its own", "empty"],
)
def test_an_array_is_found_where_numpy_says_it_is(array: np.ndarray[Any, Any]) -> None:
    assert _held(id(array)) == (array.ctypes.data, len(array), array.strides[0])
