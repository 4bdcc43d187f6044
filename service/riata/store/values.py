"""Lossless compression of the values of a payload: decimal fixed point, float32 or float64.

Theory of operation
    Most input numbers have few decimals. The division k / 10^d, as IEEE 754 rounds it, gives the float64 nearest to k / 10^d
    if k < 2^53 and d <= 22, since then both operands are exact. So a value of two decimals is stored as the whole number k =
    round(100 x), and the division restores it. This is checked, bit by bit, for every value.

    The only valid form is the least number of decimals (up to nine) that is exact for all values, with the narrowest integer
    type that holds every k. -0.0 cannot be stored as a whole number. Values that contain it, or that need more digits, are
    float32 if that is exact for all, otherwise float64.

    Choosing and writing the form is in `service/native/payload.c` because of the interpreter's lock, not because of the amount of
    arithmetic: numpy would release the lock at each of forty operations and then wait for the threads that took it meanwhile.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from riata.base.arrays import F64, I64

FORMS: Final = ("<f8", "<f4", "", "u1", "i1", "<u2", "<i2", "<i4")
"""Types of the stored values, by the number that a payload says. The third stores nothing: every value is 1. Those after it
are whole numbers, to be divided by 10^digits."""
_F64, _F32, _ONES, _I32 = 0, 1, 2, 7
WHOLE: Final = range(3, 8)  # narrowest first, unsigned before signed
POWERS: Final = (1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9)  # of at most 31 bits, so k / 10^d is exact
_HOLDS: Final = {form: (float(np.iinfo(FORMS[form]).min), float(np.iinfo(FORMS[form]).max)) for form in WHOLE}
_SAMPLE: Final = 256

Stored = NDArray[Any]


def choose(value: F64, found: I64) -> tuple[int, int, Stored]:
    """Return (form, digits, stored) of `value`: f64[nnz], finite, within VALUE_ABS_MAX; `found` is the result of
    `riata_decimals`.

    Whole numbers are not written here: `stored` is then an empty u8 buffer of the right length for `riata_put_whole`. Equal
    values give equal forms.
    """
    digits, low, high = found.tolist()
    if not value.size or (low == high == 1 and digits == 0):
        return _ONES, 0, np.empty(0, np.uint8)
    form = next((form for form, (least, most) in _HOLDS.items() if least <= low and high <= most), _F64) if digits >= 0 else _F64
    if form in (_F64, _I32):
        narrow = narrowed(value)
        if narrow is not None:
            return _F32, 0, narrow
        if form == _F64:
            return _F64, 0, np.ascontiguousarray(value, "<f8")
    return form, digits, np.empty(stored_bytes(form) * len(value), np.uint8)


def unpack_values(form: int, digits: int, stored: Stored, count: int) -> F64:
    """Return the stored values as f64[count]."""
    if form == _ONES:
        return np.ones(count)
    value: F64 = stored.astype(np.float64)
    if digits:
        value /= POWERS[digits]
    return value


def is_form(form: int, digits: int) -> bool:
    """Return whether (form, digits) is valid in a payload."""
    return form < len(FORMS) and digits < (len(POWERS) if form in WHOLE else 1)


def stored_bytes(form: int) -> int:
    """Bytes of one stored value."""
    return np.dtype(FORMS[form]).itemsize if FORMS[form] else 0


def narrowed(value: F64) -> NDArray[np.float32] | None:
    """Return `value` as float32, little endian; None if that is not exact for all. The first _SAMPLE values are
    checked first: they nearly always decide."""
    some = value[:_SAMPLE]
    if bool((some.astype(np.float32) != some).any()):
        return None
    narrow = value.astype("<f4")
    return None if bool((narrow != value).any()) else narrow
