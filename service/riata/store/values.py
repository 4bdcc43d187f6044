"""The values of a payload in the fewest bytes that give every one of them back, to the last bit.

Theory of operation
    People write numbers with few decimals. The float64 nearest to k / 10^d is what the division k / 10^d gives, as IEEE 754
    rounds it, whenever k < 2^53 and d <= 22, for then both are exact. So a value of two decimals is the whole number k =
    round(100 x), and the division finds it again; whether it does is checked, bit by bit, for every value.

    If d decimals are enough, more are: hence nine tell at once whether any number up to nine will do, and the least number of
    decimals and the narrowest whole number that holds every k are the one form that a writer may choose. -0.0 is no whole
    number; values that have it, or need more digits, are float32 where that is exact for all, else float64.

    Finding that out and writing it down is compiled, not for the few operations that it is: numpy would let go of the
    interpreter's lock at each of forty, and every time wait for the threads that have taken it meanwhile.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from riata.base.arrays import F64, I64, U8
from riata.jit.kernel import kernel

FORMS: Final = ("<f8", "<f4", "", "u1", "i1", "<u2", "<i2", "<i4")
"""Types of the stored values, by the number that a payload says. The third stores nothing: every value is 1. Those behind it
are whole numbers, to be divided by 10^digits."""
_F64, _F32, _ONES, _I32 = 0, 1, 2, 7
WHOLE: Final = range(3, 8)  # narrowest first, without a sign before with
POWERS: Final = (1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9)  # with the largest value, 10^6, still below 2^53
_WHOLE_MAX: Final = float(2**31 - 1)
_BLOCK: Final = 256  # values looked at before it is asked whether one was missed
_DIGITS, _LOW, _HIGH = range(3)  # places of what `decimals` finds
_SIGN = np.int64(2**63 - 1)  # every bit but the sign
_MINUS_ZERO = np.int64(-(2**63))
_HOLDS: Final = {form: (float(np.iinfo(FORMS[form]).min), float(np.iinfo(FORMS[form]).max)) for form in WHOLE}
_SAMPLE: Final = 256

Stored = NDArray[Any]


def choose(value: F64, found: I64) -> tuple[int, int, Stored]:
    """Return (form, digits, stored) of `value`: f64[nnz], finite, at most 10^6 in size, of which `decimals` found `found`.

    Whole numbers are not written yet: then `stored` is u8[bytes of all], for `put_whole`. Equal values give equal forms.
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
    """Return the f64[count] that were stored."""
    if form == _ONES:
        return np.ones(count)
    value: F64 = stored.astype(np.float64)
    if digits:
        value /= POWERS[digits]
    return value


def known_form(form: int, digits: int) -> bool:
    """Tell whether a payload may say this."""
    return form < len(FORMS) and digits < (len(POWERS) if form in WHOLE else 1)


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


@kernel
def decimals(value: F64, powers: F64, found: I64) -> None:
    """Find the least number of decimals that every value has at the most, and how large they are as whole numbers of the last.

    Parameters
    ----------
    value : f64[nnz]     at least one, finite, at most 10^6 in size; read only
    powers : f64[p]      10^0, 10^1, ..., as many numbers of decimals are tried; read only
    found : i64[3]       overwritten: number of decimals, least and greatest whole number; -1, 0, 0 where it takes more decimals
                         or some whole number would have more than 31 bits

    Returns              nothing
    Cost                 one division for each value and each number of decimals up to the least
    Source               this module's theory of operation
    """
    n = len(value)
    bits = value.view(np.int64)
    found[_DIGITS], found[_LOW], found[_HIGH] = -1, 0, 0
    digits, at = 0, 0
    while at < n:
        stop = min(at + _BLOCK, n)
        power = powers[digits]
        missed = 0
        for k in range(at, stop):
            again = np.rint(value[k] * power) / power
            missed += (again != value[k]) | (bits[k] == _MINUS_ZERO)
        at = stop
        if missed:
            digits, at = digits + 1, 0  # from the beginning: so each value is tried with what is chosen in the end
            if digits == len(powers):
                return
    # The order of numbers is that of their bits, of negative ones the other way round; and rounding keeps the order.
    least, most = bits[0] ^ ((bits[0] >> 63) & _SIGN), bits[0] ^ ((bits[0] >> 63) & _SIGN)
    for k in range(n):
        key = bits[k] ^ ((bits[k] >> 63) & _SIGN)
        least = min(least, key)
        most = max(most, key)
    ends = np.empty(2, np.int64)
    ends[0], ends[1] = least ^ ((least >> 63) & _SIGN), most ^ ((most >> 63) & _SIGN)
    low, high = np.rint(ends.view(np.float64) * powers[digits])
    if max(-low, high) <= _WHOLE_MAX:
        found[_DIGITS], found[_LOW], found[_HIGH] = digits, int(low), int(high)


@kernel
def put_whole(value: F64, power: float, stored: U8) -> None:
    """Write values as whole numbers of 1, 2 or 4 bytes, the lowest byte first.

    Parameters
    ----------
    value : f64[nnz]         at least one; times `power` they are near whole numbers that so many bytes hold; read only
    power : float
    stored : u8[w * nnz]     overwritten; w is 1, 2 or 4

    Returns                  nothing
    Cost                     one multiplication for each value
    Source                   this module's theory of operation
    """
    width = len(stored) // len(value)
    if width == 1:
        for k in range(len(value)):
            stored[k] = np.uint8(np.int32(np.rint(value[k] * power)))
    elif width == 2:
        for k in range(len(value)):
            whole = np.int32(np.rint(value[k] * power))
            stored[2 * k] = np.uint8(whole)
            stored[2 * k + 1] = np.uint8(whole >> 8)
    else:
        for k in range(len(value)):
            whole = np.int32(np.rint(value[k] * power))
            for byte in range(4):
                stored[4 * k + byte] = np.uint8(whole >> (8 * byte))
