"""Names for the array types that cross rooms, and the checks done where arrays enter."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

U8 = NDArray[np.uint8]
U32 = NDArray[np.uint32]
U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
F64 = NDArray[np.float64]
BOOL = NDArray[np.bool_]
Arrays = dict[str, NDArray[np.generic]]


T = TypeVar("T", bound=np.generic)


def aligned(held: NDArray[T], count: int, to_bytes: int) -> NDArray[T]:
    """Return `count` elements of a flat array, from the first at a multiple of `to_bytes` on; it has so much more room."""
    start = -held.ctypes.data % to_bytes // held.itemsize
    return held[start : start + count]


def read_only(array: NDArray[T]) -> NDArray[T]:
    """Return a view of `array` that cannot be written through."""
    view = array.view()
    view.flags.writeable = False
    return view
