"""Checks of the arrays of a frozen learner, and the same learner in a smaller table.

Each check raises `Corrupt` with the array's name and the defect.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from riata.base.arrays import I64, U32, Arrays, distinct
from riata.base.errors import Corrupt

_NO_LIMIT = float("-inf")
_SEARCHED_AT_ONCE = 2**14  # slots: less than a millisecond


def check_names(arrays: Arrays, names: set[str]) -> None:
    """The arrays have these names and no others."""
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
        raise Corrupt(f"learner state: {name} is not increasing, or has a slot outside the table of 2^{bits} slots")


def check_numbers(name: str, array: NDArray[np.generic], length: int, least: float = _NO_LIMIT) -> None:
    """f64[length], finite, none below `least`."""
    if array.dtype != np.float64 or array.shape != (length,):
        raise Corrupt(f"learner state: {name} is not {length} numbers")
    if not bool(np.isfinite(array.astype(np.float64)).all()):
        raise Corrupt(f"learner state: {name} holds a number that is not finite")
    if bool((array.astype(np.float64) < least).any()):
        raise Corrupt(f"learner state: {name} holds a number below {'zero' if least == 0.0 else least}")


def with_ranks(arrays: Arrays, names: Sequence[str], bits: int) -> tuple[Arrays, U32]:
    """Replace every slot by its rank among all of them, so that a table of one line for each slot is enough for the state.

    names : the arrays of slots: lists u32[m], strictly increasing, or keys i64[m] in any order; a key below zero is no slot

    Returns the arrays, and the slot of each rank. Raises `Corrupt` if an array is neither, or has a slot of 2^bits or more.
    """
    listed: dict[str, NDArray[np.generic]] = {}
    for name in names:
        array = arrays[name]
        keys = array.dtype == np.int64 and array.ndim == 1
        listed[name] = np.sort(array.astype(np.int64)[array.astype(np.int64) >= 0]) if keys else array
        if not keys:
            check_slots(name, array, bits)
        elif len(listed[name]) and int(listed[name][-1]) >= 2**bits:
            raise Corrupt(f"learner state: {name} has a slot outside the table of 2^{bits} slots")
    slots = np.zeros(0, np.uint32)
    for one in sorted(listed.values(), key=len, reverse=True):  # usually the longest has nearly all of them
        slots = merged(slots, one.astype(np.uint32))
    return {**arrays, **{name: _ranks(arrays[name], slots) for name in names}}, slots


def without_ranks(arrays: Arrays, names: Sequence[str], slots: U32) -> Arrays:
    """Replace ranks by their slots."""
    found = {name: arrays[name].astype(np.int64) for name in names}
    back = {name: np.where(ranks >= 0, slots[ranks], ranks) if len(slots) else ranks for name, ranks in found.items()}
    return {**arrays, **{name: slot.astype(arrays[name].dtype) for name, slot in back.items()}}


def merged(slots: U32, more: U32) -> U32:
    """The union of `slots`, increasing, and `more`; it is increasing too. `np.union1d` would take ten times as long and hold the
    interpreter's lock all the time."""
    if not len(slots):
        return distinct(more) if bool((np.diff(more.astype(np.int64)) <= 0).any()) else more
    places = _places(more, slots)
    new = distinct(more[slots[np.minimum(places, len(slots) - 1)] != more])
    return np.insert(slots, _places(new, slots), new) if len(new) else slots


def _ranks(array: NDArray[np.generic], slots: U32) -> NDArray[np.generic]:
    wanted = array.astype(np.int64)
    ranks = np.where(wanted >= 0, _places(np.maximum(wanted, 0).astype(np.uint32), slots), wanted)
    return ranks.astype(array.dtype)


def _places(wanted: U32, slots: U32) -> I64:
    """The index in `slots` at which each would be inserted. A search holds the interpreter's lock, so it is done in parts."""
    places = np.zeros(len(wanted), np.int64)
    for start in range(0, len(wanted), _SEARCHED_AT_ONCE):
        piece = wanted[start : start + _SEARCHED_AT_ONCE]
        places[start : start + len(piece)] = np.searchsorted(slots, piece)
    return places
