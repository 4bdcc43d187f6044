"""Array type aliases that packages share, and helpers for aligned and read-only views."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

U8 = NDArray[np.uint8]
U32 = NDArray[np.uint32]
U64 = NDArray[np.uint64]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
F64 = NDArray[np.float64]
BOOL = NDArray[np.bool_]
Arrays = dict[str, NDArray[np.generic]]


T = TypeVar("T", bound=np.generic)


def aligned(held: NDArray[T], count: int, to_bytes: int) -> NDArray[T]:
    """Return a view of `count` elements of a flat array that starts at an address that is a multiple of `to_bytes`.

    `held` must be longer than `count` by up to `to_bytes` bytes.
    """
    start = -held.ctypes.data % to_bytes // held.itemsize
    return held[start : start + count]


def read_only(array: NDArray[T]) -> NDArray[T]:
    """Return a view of `array` that cannot be written through."""
    view = array.view()
    view.flags.writeable = False
    return view


def distinct(values: NDArray[T]) -> NDArray[T]:
    """Return the different values of an array, increasing. None may be a NaN.

    `np.unique` hashes integers, which takes ten times as long, and its first call imports masked arrays: 40 ms.
    """
    ordered = np.sort(values, axis=None)
    is_first = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return ordered[is_first]


def sizes_of(stop: I64) -> I64:
    """Return the sizes of parts, i64[parts], of which the first begins at 0 and each where the one before ends.

    `np.diff` with `prepend` takes ten times as long.
    """
    sizes = stop.copy()
    sizes[1:] -= stop[:-1]
    return sizes
