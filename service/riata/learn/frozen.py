"""Checks of arrays that say they are a frozen learner. Each raises `Corrupt`, naming the array and what is wrong with it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from riata.base.arrays import Arrays
from riata.base.errors import Corrupt

_NO_LIMIT = float("-inf")


def check_names(arrays: Arrays, names: set[str]) -> None:
    """The arrays are these and no others."""
    if set(arrays) != names:
        raise Corrupt(f"learner state: expected arrays {sorted(names)}, got {sorted(arrays)}")


def check_counts(name: str, array: NDArray[np.generic], length: int = 1) -> None:
    """i64[length], none below zero."""
    if array.dtype != np.int64 or array.shape != (length,) or bool((array.astype(np.int64) < 0).any()):
        raise Corrupt(f"learner state: {name} is not {'one number' if length == 1 else f'{length} numbers'} >= 0")


def check_slots(name: str, array: NDArray[np.generic], bits: int) -> None:
    """u32[m], strictly increasing, below 2^bits."""
    if array.dtype != np.uint32 or array.ndim != 1:
        raise Corrupt(f"learner state: {name} is not a list of slots")
    slot = array.astype(np.int64)
    if len(slot) and (int(slot[-1]) >= 2**bits or bool((np.diff(slot) <= 0).any())):
        raise Corrupt(f"learner state: {name} does not increase, or leaves the table of 2^{bits} slots")


def check_numbers(name: str, array: NDArray[np.generic], length: int, least: float = _NO_LIMIT) -> None:
    """f64[length], finite, none below `least`."""
    if array.dtype != np.float64 or array.shape != (length,):
        raise Corrupt(f"learner state: {name} is not {length} numbers")
    if not bool(np.isfinite(array.astype(np.float64)).all()):
        raise Corrupt(f"learner state: {name} holds a number that is not finite")
    if bool((array.astype(np.float64) < least).any()):
        raise Corrupt(f"learner state: {name} holds a number below {'zero' if least == 0.0 else least}")
