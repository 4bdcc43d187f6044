"""The grammar of RFC 8259 over raw bytes: strings, numbers and literals. Nothing here depends on what an example is.

Bytes of 0x80 and above are only allowed inside strings; whoever reads a string checks that they are UTF-8. Positions are absolute
in `data`; a negative position means "not well-formed at -1 - position".
"""

from __future__ import annotations

from typing import Final

from riata.base.arrays import U8
from riata.jit.kernel import inline_kernel, kernel
from riata.jit.simd.bytes8 import first_byte, load_word, not_plain
from riata.wire.scan.unicode import put_point

SPACE: Final = 0x20
TAB: Final = 0x09
NEWLINE: Final = 0x0A
RETURN: Final = 0x0D
QUOTE: Final = 0x22
BACKSLASH: Final = 0x5C
COMMA: Final = 0x2C
COLON: Final = 0x3A
MINUS: Final = 0x2D
PLUS: Final = 0x2B
DOT: Final = 0x2E
ZERO: Final = 0x30
NINE: Final = 0x39
OPEN_OBJECT: Final = 0x7B
CLOSE_OBJECT: Final = 0x7D
OPEN_LIST: Final = 0x5B
CLOSE_LIST: Final = 0x5D
DELETE: Final = 0x7F
SLASH: Final = 0x2F
LETTER_B: Final = 0x62
LETTER_E: Final = 0x65
LETTER_F: Final = 0x66
LETTER_N: Final = 0x6E
LETTER_R: Final = 0x72
LETTER_T: Final = 0x74
LETTER_U: Final = 0x75

# What a string holds besides plain ASCII.
HAS_ESCAPE: Final = 1
HAS_NON_ASCII: Final = 2
HAS_DELETE: Final = 4

_HEX_DIGITS: Final = 4
_SHORT_BYTES_MAX: Final = 15  # digits and dot: 15 digits are below 2^53
_SURROGATES, _LOW_SURROGATES, _AFTER_SURROGATES, _ASTRAL = 0xD800, 0xDC00, 0xE000, 0x10000
_WORD_BYTES: Final = 8


@inline_kernel
def skip_space(data: U8, p: int, stop: int) -> int:
    """First position from `p` that is not JSON white space, or `stop`. Source: RFC 8259, section 2."""
    while p < stop and (data[p] == SPACE or data[p] == NEWLINE or data[p] == RETURN or data[p] == TAB):
        p += 1
    return p


@kernel
def scan_hex(data: U8, p: int, stop: int) -> int:
    """Read four hexadecimal digits.

    Parameters
    ----------
    data : u8[...]     read only
    p, stop : int      first digit; end of what may be read

    Returns            0 to 65535, or -1
    Cost               four bytes
    Source             RFC 8259, section 7
    """
    if p + _HEX_DIGITS > stop:
        return -1
    total = 0
    for i in range(p, p + _HEX_DIGITS):
        c = int(data[i])
        if 48 <= c <= 57:  # 0 to 9
            digit = c - 48
        elif 97 <= (c | 32) <= 102:  # a to f, A to F
            digit = (c | 32) - 87
        else:
            return -1
        total = total * 16 + digit
    return total


@kernel
def scan_escape(data: U8, p: int, stop: int) -> int:
    """Skip one escape of a string; a surrogate must come as a pair.

    Parameters
    ----------
    data : u8[...]     read only
    p, stop : int      the backslash; end of what may be read

    Returns            position after the escape, or -1
    Cost               at most 12 bytes
    Source             RFC 8259, section 7
    """
    if p + 1 >= stop:
        return -1
    c = data[p + 1]
    if c in (QUOTE, BACKSLASH, SLASH, LETTER_B, LETTER_F, LETTER_N, LETTER_R, LETTER_T):
        return p + 2
    if c != LETTER_U:
        return -1
    unit = scan_hex(data, p + 2, stop)
    after = p + 2 + _HEX_DIGITS
    if unit < 0 or _LOW_SURROGATES <= unit < _AFTER_SURROGATES:
        return -1
    if _SURROGATES <= unit < _LOW_SURROGATES:
        if after + 1 >= stop or data[after] != BACKSLASH or data[after + 1] != LETTER_U:
            return -1
        low = scan_hex(data, after + 2, stop)
        if low < _LOW_SURROGATES or low >= _AFTER_SURROGATES:
            return -1
        return after + 2 + _HEX_DIGITS
    return after


@kernel
def scan_string(data: U8, p: int, stop: int) -> tuple[int, int]:
    """Find the end of a string.

    Parameters
    ----------
    data : u8[...]     read only
    p, stop : int      first byte after the opening quote; end of what may be read

    Returns            (position of the closing quote, what it holds), or (-1 - position of the fault, 0)
    Cost               one read of each byte
    Source             RFC 8259, section 7
    """
    holds = 0
    while p < stop:
        if p + _WORD_BYTES <= stop:
            p += first_byte(not_plain(load_word(data, p)))
            if p >= stop:
                break
        c = data[p]
        if c == QUOTE:
            return p, holds
        if c < SPACE:
            break
        if c == BACKSLASH:
            after = scan_escape(data, p, stop)
            if after < 0:
                break
            holds |= HAS_ESCAPE
            p = after
            continue
        if c >= DELETE:
            holds |= HAS_DELETE if c == DELETE else HAS_NON_ASCII
        p += 1
    return -1 - p, 0


@kernel
def escaped(data: U8, p: int, stop: int) -> tuple[int, int]:
    """Decode one escape.

    Parameters
    ----------
    data : u8[...]     read only
    p, stop : int      the backslash of an escape that `scan_escape` accepts; end of what may be read

    Returns            the character, position after the escape
    Cost               at most 12 bytes
    Source             RFC 8259, section 7
    """
    c = int(data[p + 1])
    if c == LETTER_U:
        point, p = scan_hex(data, p + 2, stop), p + 2 + _HEX_DIGITS
        if _SURROGATES <= point < _LOW_SURROGATES:
            low = scan_hex(data, p + 2, stop)
            return _ASTRAL + ((point - _SURROGATES) << 10) + low - _LOW_SURROGATES, p + 2 + _HEX_DIGITS
        return point, p
    if c == LETTER_B:
        c = 8
    elif c == LETTER_F:
        c = 12
    elif c == LETTER_N:
        c = NEWLINE
    elif c == LETTER_R:
        c = RETURN
    elif c == LETTER_T:
        c = TAB
    return c, p + 2


@kernel
def unescape(data: U8, p: int, stop: int, at: int) -> int:
    """Write a string without its escapes.

    Parameters
    ----------
    data : u8[...]     written from `at`
    p, stop : int      the bytes between its quotes, which `scan_string` accepts
    at : int           after `stop`; room for as many bytes

    Returns            position after what was written
    Cost               one read and one write of each byte
    Source             RFC 8259, section 7
    """
    while p < stop:
        if data[p] == BACKSLASH:
            point, p = escaped(data, p, stop)
            at = put_point(data, at, point)
        else:
            data[at] = data[p]
            p, at = p + 1, at + 1
    return at


@inline_kernel
def short_number(data: U8, p: int, stop: int) -> tuple[int, float]:
    """Read digits, or digits `.` digits, of at most 15 digits in all: (position after them, value), or (-1, 0.0).

    Up to 10^15 both the digits and the power of ten are exact doubles, so one division rounds correctly. A number that begins
    with 0, that continues with another byte of a number, or that is longer is left to `parse_number`. Source: Clinger 1990,
    section 3.
    """
    digits, power, begin, dot = 0, 1.0, p, -1
    while p < stop and p - begin <= _SHORT_BYTES_MAX:
        c = int(data[p])
        if ZERO <= c <= NINE:
            digits = digits * 10 + (c - ZERO)
            power = power * 10.0 if dot >= 0 else power
        elif c == DOT and dot < 0:
            dot = p
        else:
            break
        p += 1
    c = int(data[p]) if p < stop else 0
    fits = begin < p <= begin + _SHORT_BYTES_MAX and dot != begin and dot != p - 1
    fits = fits and (data[begin] != ZERO or p == begin + 1 or dot == begin + 1)
    if fits and c not in (DOT, MINUS, PLUS) and (c | 32) != LETTER_E:
        return p, digits / power
    return -1, 0.0


@inline_kernel
def number_end(data: U8, p: int, stop: int) -> int:
    """First position from `p` whose byte cannot be in a number. Source: RFC 8259, section 6."""
    while p < stop:
        c = data[p]
        if not (ZERO <= c <= NINE or c in (DOT, MINUS, PLUS) or (c | 32) == LETTER_E):
            break
        p += 1
    return p


@kernel
def literal_end(data: U8, p: int, stop: int) -> int:
    """Skip `true`, `false` or `null`.

    Parameters
    ----------
    data : u8[...]     read only
    p, stop : int      first letter; end of what may be read

    Returns            position after the word, or -1 - p
    Cost               at most 5 bytes
    Source             RFC 8259, section 3
    """
    left = stop - p
    if left >= 4 and data[p] == LETTER_T and data[p + 1] == 0x72 and data[p + 2] == LETTER_U and data[p + 3] == 0x65:
        return p + 4
    if left >= 4 and data[p] == LETTER_N and data[p + 1] == LETTER_U and data[p + 2] == 0x6C and data[p + 3] == 0x6C:
        return p + 4
    if (
        left >= 5
        and data[p] == LETTER_F
        and data[p + 1] == 0x61
        and data[p + 2] == 0x6C
        and data[p + 3] == 0x73
        and data[p + 4] == 0x65
    ):
        return p + 5
    return -1 - p
