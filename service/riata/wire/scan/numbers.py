"""Decimal text to the nearest double, exactly, in compiled code.

A number is scanned to `digits * 10^exponent`. At most 19 digits are kept, and whether a dropped digit was not zero is recorded.
If both factors are exact doubles, one multiplication or division rounds correctly. Otherwise the product of the digits and a
128-bit approximation of the power of ten decides all 53 bits and the rounding (Lemire 2021). The few inputs that it cannot decide
are handed to the caller, which uses Python's float.

A number too large is infinite and one too small is zero, as in Python. The caller checks bounds.
"""

from __future__ import annotations

import math

import numpy as np

from riata.base.arrays import U8, U64
from riata.jit.kernel import inline_kernel, kernel
from riata.jit.raw.unowned import borrow
from riata.jit.simd.bytes8 import leading_digits, load_word

EXACT = 0
NOT_A_NUMBER = 1
HAND_OVER = 2

_DIGITS_KEPT = 19  # 10^19 - 1 < 2^64
_EXACT_INTEGER = np.uint64(2**53)  # every integer up to here is a double
_EXACT_POWER = 22  # 10^22 is the largest power of ten that is a double
_EXPONENT_CLAMP = 10**9  # beyond any exponent that the digits of a body could bring back into range
_POWER_MIN = -342  # below, even 2^64 - 1 rounds to zero
_POWER_MAX = 308  # above, even 1 is infinite
_TIE_MIN, _TIE_MAX = -4, 23  # only with these exponents can 64-bit digits be exactly half way between two doubles
_ROUNDED_UP_MIN = -27  # 5^27 < 2^64: products of down to this power of ten can be whole numbers
_SUREST_MIN, _SUREST_MAX = _ROUNDED_UP_MIN, 55  # 5^55 < 2^128: a product is always decided in this range

_U0, _U1, _U3 = np.uint64(0), np.uint64(1), np.uint64(3)
_NINE, _ZERO_U = np.uint64(9), np.uint64(48)
_ZERO_BYTE, _NINE_BYTE = np.uint8(48), np.uint8(9)
_10, _32, _63 = np.uint64(10), np.uint64(32), np.uint64(63)
_LOW = np.uint64(0xFFFFFFFF)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_UNSURE = np.uint64(0x1FF)  # 64 - 53 bits of the product, less one for rounding, less one for its leading zero
_HIDDEN = np.uint64(2**52)

_MINUS, _PLUS, _DOT, _ZERO = 45, 43, 46, 48
_E_LOWER, _E_UPPER = 101, 69


def _power_of_five(exponent: int) -> int:
    """Return the top 128 bits of 5^exponent.

    They are truncated, so that a product is never too large. The exceptions are reciprocals of powers that fit 64 bits. Those are
    rounded up, so that the exact product of a multiple of the power is not one too small.
    """
    power: int = 5 ** abs(exponent)
    length = power.bit_length()
    if exponent >= 0:
        return power << (128 - length) if length <= 128 else power >> (length - 128)
    return (1 << (length + 127)) // power + (1 if exponent >= _ROUNDED_UP_MIN else 0)


def _table() -> U64:
    powers = [_power_of_five(exponent) for exponent in range(_POWER_MIN, _POWER_MAX + 1)]
    return np.array([[power >> 64, power & (2**64 - 1)] for power in powers], dtype=np.uint64)


_POWERS_OF_FIVE = _table()
_WORD_BYTES = 8
_WHOLE_POWERS_OF_TEN = np.array([10**k for k in range(_WORD_BYTES + 1)], np.uint64)
_POWERS_OF_TEN = np.array([10.0**k for k in range(_EXACT_POWER + 1)])


@kernel
def parse_number(data: U8, start: int, stop: int, json: bool) -> tuple[float, int]:
    """Read all the bytes start:stop of `data` as one decimal number.

    Parameters
    ----------
    data : u8[...]     the whole body; read only
    start, stop : int  the number's bytes
    json : bool        true: the grammar of RFC 8259. false: also a leading `+`, leading zeros, `.5` and `1.`;
                       neither accepts hexadecimals, `inf` or `nan`

    Returns
    -------
    value : float      the double nearest to the number, ties to even; infinite beyond 1.797e308
    status : int       EXACT; NOT_A_NUMBER; or HAND_OVER: a number of more than 19 digits next to a tie, which
                       the caller reads with Python's float

    Cost               one pass, one or two wide multiplications
    Source             Clinger 1990 for the short numbers; Lemire, "Number parsing at a gigabyte per second", 2021
    """
    value, status, end = parse_prefix(data, start, stop, json)
    return (value, status) if end == stop else (0.0, NOT_A_NUMBER)


@kernel
def parse_prefix(data: U8, start: int, stop: int, json: bool) -> tuple[float, int, int]:
    """Read a decimal number from `start` on, as far as it goes.

    Parameters
    ----------
    data, start, stop, json : as for `parse_number`, but the number may end before `stop`

    Returns
    -------
    value, status      as for `parse_number`
    end : int          where it ends; undefined if it is not a number

    Cost               one pass for up to 19 digits, two for more
    Source             as for `parse_number`
    """
    data = borrow(data)
    at = start
    negative = at < stop and data[at] == _MINUS
    if negative or (not json and at < stop and data[at] == _PLUS):
        at += 1
    whole_from = at
    digits, at = run_of_digits(data, at, stop, _U0)
    count = at - whole_from
    usual = not json or (count > 0 and (count == 1 or data[whole_from] != _ZERO))
    exponent = 0
    if at < stop and data[at] == _DOT:
        point = at
        digits, at = run_of_digits(data, at + 1, stop, digits)
        exponent = point + 1 - at
        count -= exponent
        usual = usual and (exponent < 0 or not json)
    if at < stop and (data[at] == _E_LOWER or data[at] == _E_UPPER):
        power, at = take_exponent(data, at + 1, stop)
        exponent += power
    if count == 0 or at < 0 or not usual:
        return 0.0, NOT_A_NUMBER, start
    sure = True
    if count > _DIGITS_KEPT:  # the run may have overflowed
        value, sure = read_long(data, whole_from, stop, exponent)
    elif digits <= _EXACT_INTEGER and -_EXACT_POWER <= exponent <= _EXACT_POWER:
        value = float(digits)
        value = value * _POWERS_OF_TEN[exponent] if exponent >= 0 else value / _POWERS_OF_TEN[-exponent]
    else:
        value, sure = round_decimal(digits, exponent)
    return (-value if negative else value), (EXACT if sure else HAND_OVER), at


@inline_kernel
def run_of_digits(data: U8, at: int, stop: int, digits: np.uint64) -> tuple[np.uint64, int]:
    """Append the run of decimal digits at `at` to `digits`, modulo 2^64. Returns where it ends, too. Source: place values."""
    while at + _WORD_BYTES <= stop:
        part, count = leading_digits(load_word(data, at))
        digits = digits * _WHOLE_POWERS_OF_TEN[count] + part
        at += count
        if count < _WORD_BYTES:
            break
    while at < stop:
        digit = np.uint8(data[at] - _ZERO_BYTE)  # wraps round to a large number below "0"
        if digit > _NINE_BYTE:
            break
        digits = digits * _10 + np.uint64(digit)
        at += 1
    return digits, at


@inline_kernel
def take_exponent(data: U8, start: int, stop: int) -> tuple[int, int]:
    """Read what follows the `e`, clamped, and where it ends, or -1 if there is no digit. Source: RFC 8259 section 6."""
    at = start
    negative = at < stop and data[at] == _MINUS
    if negative or (at < stop and data[at] == _PLUS):
        at += 1
    first = at
    power = 0
    while at < stop and _ZERO <= data[at] <= _ZERO + 9:
        if power < _EXPONENT_CLAMP:
            power = int(power * 10 + (np.int64(data[at]) - _ZERO))
        at += 1
    return (-power if negative else power), (at if at > first else -1)


@kernel
def read_long(data: U8, start: int, stop: int, exponent: int) -> tuple[float, bool]:
    """Read a number of more than 19 digits from its first 19 significant ones.

    Parameters
    ----------
    data : u8[...]     the whole body; read only
    start, stop : int  the first digit, or the point; where reading ends at the latest
    exponent : int     of the last digit

    Returns
    -------
    value : float      its absolute value
    sure : bool        false if the dropped digits could change it

    Cost               one pass, at most two times `round_decimal`
    Source             Lemire 2021, section 11
    """
    digits, kept, passed, dropped, at = take_digits(data, start, stop, _U0, 0)
    if at < stop and data[at] == _DOT:
        digits, kept, more, fraction_dropped, at = take_digits(data, at + 1, stop, digits, kept)
        passed += more
        dropped = dropped or fraction_dropped
    value, sure = round_decimal(digits, exponent + passed)
    if dropped:
        # The true number is between digits and digits + 1; if both round to the same double, so does it.
        above, sure_above = round_decimal(digits + _U1, exponent + passed)
        sure = sure and sure_above and value == above
    return value, sure


@kernel
def take_digits(data: U8, start: int, stop: int, digits: np.uint64, kept: int) -> tuple[np.uint64, int, int, bool, int]:
    """Append the run of decimal digits at `start` to `digits`, up to 19 significant ones.

    Parameters
    ----------
    data, start, stop  the bytes to read; the run ends at `stop` or at the first byte that is not a digit
    digits : u64       the digits before the run
    kept : int         how many significant digits that has

    Returns
    -------
    digits, kept       as given, with the run appended
    passed : int       digits of the run that were not kept
    dropped : bool     one of those was not zero
    at : int           where the run ended

    Cost               one multiplication a digit
    Source             Lemire 2021, section 4
    """
    at = start
    passed = 0
    dropped = False
    while at < stop:
        digit = np.uint64(data[at]) - _ZERO_U  # wraps round to a large number below "0"
        if digit > _NINE:
            break
        if kept < _DIGITS_KEPT:
            digits = digits * _10 + digit
            if digits != _U0:  # leading zeros are not significant
                kept += 1
        else:
            passed += 1
            if digit != _U0:
                dropped = True
        at += 1
    return digits, kept, passed, dropped, at


@kernel
def round_decimal(digits: np.uint64, exponent: int) -> tuple[float, bool]:
    """Round digits * 10^exponent to the nearest double, ties to even.

    Parameters
    ----------
    digits : u64       any
    exponent : int     any

    Returns
    -------
    value : float      zero and infinity included
    sure : bool        false if the 128 bits of the table could not decide (not known to happen)

    Cost               one or two 64-bit by 64-bit multiplications
    Source             Lemire 2021, Algorithm 1; the table and the bounds on exponents are explained at their definitions
    """
    if digits == _U0 or exponent < _POWER_MIN:
        return 0.0, True
    if exponent > _POWER_MAX:
        return math.inf, True
    zeros = leading_zeros(digits)
    scaled = digits << np.uint64(zeros)
    high, low = multiply_wide(scaled, _POWERS_OF_FIVE[exponent - _POWER_MIN, 0])
    if (high & _UNSURE) == _UNSURE:
        carry, _ = multiply_wide(scaled, _POWERS_OF_FIVE[exponent - _POWER_MIN, 1])
        low += carry
        if low < carry:
            high += _U1
    sure = low != _ALL or _SUREST_MIN <= exponent <= _SUREST_MAX
    top = high >> _63
    shift = top + np.uint64(9)
    mantissa = high >> shift  # 54 bits: 53 and the one that decides the rounding
    # floor(exponent * log2(10)) is exact for the whole range of the table (Lemire 2021, section 5); 1086 is the bias plus the
    # 63 places of `scaled`.
    biased = int(((217706 * exponent) >> 16) + 1086 + np.int64(top) - zeros)
    if biased <= 0:
        if biased < -62:
            return 0.0, sure
        mantissa >>= np.uint64(1 - biased)
        mantissa = (mantissa + (mantissa & _U1)) >> _U1
        return math.ldexp(float(mantissa), -1074), sure
    if low <= _U1 and _TIE_MIN <= exponent <= _TIE_MAX and (mantissa & _U3) == _U1 and (mantissa << shift) == high:
        mantissa -= _U1  # an exact tie above an even number: stay there
    mantissa = (mantissa + (mantissa & _U1)) >> _U1
    if biased > 2046 or (biased == 2046 and mantissa == _HIDDEN << _U1):
        return math.inf, sure
    return math.ldexp(float(mantissa), biased - 1075), sure


@inline_kernel
def leading_zeros(x: np.uint64) -> int:
    """Count the zero bits above the highest one of x, which is not zero. Source: binary search."""
    count = 0
    width = 32
    while width > 0:
        if x >> np.uint64(64 - width) == _U0:
            x <<= np.uint64(width)
            count += width
        width >>= 1
    return count


@inline_kernel
def multiply_wide(x: np.uint64, y: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Return the high and the low 64 bits of x * y. Source: schoolbook multiplication in base 2^32."""
    x_high, x_low = x >> _32, x & _LOW
    y_high, y_low = y >> _32, y & _LOW
    low = x_low * y_low
    middle = x_high * y_low + (low >> _32)
    other = x_low * y_high + (middle & _LOW)
    return x_high * y_high + (middle >> _32) + (other >> _32), x * y
