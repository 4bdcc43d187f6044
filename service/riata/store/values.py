"""The values of a payload in the fewest bytes that give every one of them back, to the last bit.

Theory of operation
    People write numbers with few decimals. The float64 nearest to k / 10^d is what the division k / 10^d gives, as IEEE 754
    rounds it, whenever k < 2^53 and d <= 22, for then both are exact. So a value of two decimals is the whole number k =
    round(100 x), and the division finds it again; whether it does is checked, bit by bit, for every value.

    If d decimals are enough, more are: hence nine tell at once whether any number up to nine will do, and the least number of
    decimals and the narrowest whole number that holds every k are the one form that a writer may choose. -0.0 is no whole
    number; values that have it, or need more digits, are float32 where that is exact for all, else float64.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from riata.base.arrays import F64

FORMS: Final = ("<f8", "<f4", "", "u1", "i1", "<u2", "<i2", "<i4")
"""Types of the stored values, by the number that a payload says. The third stores nothing: every value is 1. Those behind it
are whole numbers, to be divided by 10^digits."""
_F64, _F32, _ONES, _I32 = 0, 1, 2, 7
_WHOLE: Final = range(3, 8)  # narrowest first, without a sign before with
POWERS: Final = (1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9)  # with the largest value, 10^6, still below 2^53
_WHOLE_MAX: Final = float(2**31 - 1)
_HOLDS: Final = {form: (float(np.iinfo(FORMS[form]).min), float(np.iinfo(FORMS[form]).max)) for form in _WHOLE}
_SAMPLE: Final = 256

Stored = NDArray[Any]


def pack_values(value: F64) -> tuple[int, int, Stored]:
    """Return (form, digits, stored) of `value`: f64[nnz], finite, at most 10^6 in size. Equal values give equal forms."""
    if not value.size:
        return _ONES, 0, np.empty(0, np.uint8)
    found = _decimals(value)
    form = _I32
    if found is not None:
        digits, whole = found
        low, high = float(whole.min()), float(whole.max())
        if low == high == 1.0 and digits == 0:
            return _ONES, 0, np.empty(0, np.uint8)
        form = next(form for form, (least, most) in _HOLDS.items() if least <= low and high <= most)
        if form != _I32:
            return form, digits, whole.astype(FORMS[form])
    narrow = narrowed(value)
    if narrow is not None:
        return _F32, 0, narrow
    if found is not None:
        return form, digits, whole.astype(FORMS[form])
    return _F64, 0, np.ascontiguousarray(value, "<f8")


def unpack_values(form: int, digits: int, stored: Stored, count: int) -> F64:
    """Return the f64[count] that `pack_values` was given."""
    if form == _ONES:
        return np.ones(count)
    value: F64 = stored.astype(np.float64)
    if digits:
        value /= POWERS[digits]
    return value


def known_form(form: int, digits: int) -> bool:
    """Tell whether a payload may say this."""
    return form < len(FORMS) and digits < (len(POWERS) if form in _WHOLE else 1)


def stored_bytes(form: int) -> int:
    """Bytes of one stored value."""
    return np.dtype(FORMS[form]).itemsize if FORMS[form] else 0


def narrowed(value: F64) -> NDArray[np.float32] | None:
    """Return `value` as float32, little endian; None where that is not exact for some. The first few nearly always tell."""
    some = value[:_SAMPLE]
    if bool((some.astype(np.float32) != some).any()):
        return None
    narrow = value.astype("<f4")
    return None if bool((narrow != value).any()) else narrow


def _decimals(value: F64) -> tuple[int, F64] | None:
    """Return the least number of decimals that every value has at the most, and the values as whole numbers of the last one;
    None where that many are not enough, or the whole numbers would be too large."""
    some = value[:_SAMPLE]
    digits = 0
    while not _missed(some, _whole(some, len(POWERS) - 1), len(POWERS) - 1).any():
        while digits < len(POWERS) - 1 and _missed(some, _whole(some, digits), digits).any():
            digits += 1
        whole = _whole(value, digits)
        missed = _missed(value, whole, digits)
        if not missed.any():
            return None if max(-float(whole.min()), float(whole.max())) > _WHOLE_MAX else (digits, whole)
        some = value[missed][:_SAMPLE]  # those that need more: they say how many
    return None


def _whole(value: F64, digits: int) -> F64:
    whole = value * POWERS[digits]
    np.rint(whole, out=whole)
    whole += 0.0  # -0.0 is no whole number: it becomes 0.0 here and is missed
    return whole


def _missed(value: F64, whole: F64, digits: int) -> NDArray[np.bool_]:
    """Say which values the division does not give back."""
    again = whole / POWERS[digits] if digits else whole
    missed: NDArray[np.bool_] = again.view(np.uint64) != value.view(np.uint64)
    return missed
