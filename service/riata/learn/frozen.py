"""Checks of arrays that say they are a frozen learner, and the same learner in a smaller table.

Each check raises `Corrupt`, naming the array and what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from riata.base.arrays import U32, Arrays
from riata.base.errors import Corrupt

_NO_LIMIT = float("-inf")
_SEARCHED_AT_ONCE = 2**14  # slots: less than a millisecond


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


def with_ranks(arrays: Arrays, names: Sequence[str], bits: int) -> tuple[Arrays, U32]:
    """Replace every slot by its rank among all of them, so that a table of one line for each takes the state.

    names : of the arrays that are lists of slots

    Returns the arrays, and the slot of each rank. Raises `Corrupt` where one of them is no list of slots below 2^bits.
    """
    for name in names:
        check_slots(name, arrays[name], bits)
    lists = {name: arrays[name].astype(np.uint32) for name in names}
    slots = max(lists.values(), key=len, default=np.zeros(0, np.uint32))  # as a rule it has those of the others
    ranks = {name: _ranks(listed, slots) for name, listed in lists.items()}
    if any(bool((slots[rank] != lists[name]).any()) for name, rank in ranks.items() if len(slots)):
        slots = np.unique(np.concatenate(list(lists.values())))
        ranks = {name: _ranks(listed, slots) for name, listed in lists.items()}
    return {**arrays, **ranks}, slots


def _ranks(listed: U32, slots: U32) -> U32:
    """The places in `slots` of what is listed, or of what comes next: a search holds the interpreter's lock, so in pieces."""
    if listed is slots:
        return np.arange(len(slots), dtype=np.uint32)
    places = np.zeros(len(listed), np.uint32)
    for start in range(0, len(listed), _SEARCHED_AT_ONCE):
        piece = listed[start : start + _SEARCHED_AT_ONCE]
        places[start : start + len(piece)] = np.minimum(np.searchsorted(slots, piece), len(slots) - 1)
    return places
