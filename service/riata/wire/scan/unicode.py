"""UTF-8 and characters of Unicode in kernels: decoding, the rule of names, and the pairs that normal form C composes.

Theory of operation
    A character has flags (`wire.scan.unicode_flags`), a combining class and a folded form, in tables of one version of Unicode.
    So a name or a word does not change with the version of Python.

    A text is in normal form C if no character is of a kind that never occurs there, marks are in the order of their classes, and
    no character composes with the last starter before it. A mark is compared with that starter unless a mark of the same or a
    higher class, or another starter, is between them. The pairs listed are all that change: those with a composed form, and those
    where the mark would move before the last mark of a composed starter. Syllables of Hangul are computed. For these pairs this
    is the whole of UAX #15: a first change of a text is always a change of one pair.
"""

from __future__ import annotations

import base64
import zlib
from typing import Final

import numpy as np

from riata.base.arrays import U8
from riata.base.limits import NAME_BYTES_MAX
from riata.jit.kernel import inline_kernel, kernel
from riata.jit.raw.unowned import borrow
from riata.jit.simd.bytes8 import ONES, TOPS, load_word
from riata.wire.codes import BAD_NAME, INVALID_UTF8, NAME_TOO_LONG, NOT_NFC, OK
from riata.wire.scan import unicode_data
from riata.wire.scan.unicode_flags import CLASS_SHIFT, CONTROL, MAYBE, NEVER, PAGE_BITS


def _table(text: bytes, kind: str) -> np.ndarray:
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), kind).astype(np.dtype(kind).newbyteorder("="))


_PAGES, _FLAGS, _FOLDS = _table(unicode_data.PAGES, "<u2"), _table(unicode_data.FLAGS, "<u2"), _table(unicode_data.FOLDS, "<i4")
_PAIRS, _COMPOSED = _table(unicode_data.PAIRS, "<u8"), _table(unicode_data.COMPOSED, "<u4")
_IN_PAGE: Final = (1 << PAGE_BITS) - 1
_FIRST_BITS: Final = 21
_LEADS, _LEADS_END, _VOWELS, _VOWELS_END, _TRAILS, _TRAILS_END = 0x1100, 0x1113, 0x1161, 0x1176, 0x11A7, 0x11C3
_SYLLABLES, _SYLLABLES_END, _VOWEL_COUNT, _TRAIL_COUNT = 0xAC00, 0xD7A4, 21, 28
_HIGH, _TWO, _THREE, _FOUR, _FOUR_END, _SIX_BITS, _TAIL = 0x80, 0xC2, 0xE0, 0xF0, 0xF5, 0x3F, 0xC0
_SURROGATES, _AFTER_SURROGATES, _ASTRAL, _POINTS = 0xD800, 0xE000, 0x10000, 0x110000
_WORD_BYTES: Final = 8
_SPACES = np.uint64(0x2020202020202020)
_NOTHING = np.uint64(0)


def _row(point: int) -> int:
    return int(_PAGES[point >> PAGE_BITS]) << PAGE_BITS | (point & _IN_PAGE)


def flags_at(point: int) -> int:
    """`flags_of` in plain Python."""
    return int(_FLAGS[_row(point)])


def folded_at(point: int) -> int:
    """The character in simple case folding. Source: CaseFolding.txt, statuses C and S."""
    return point + int(_FOLDS[_row(point)])


@inline_kernel
def flags_of(point: int) -> int:
    """Flags of a character, and its combining class from CLASS_SHIFT on. Source: this module's theory of operation."""
    return int(_FLAGS[(int(_PAGES[point >> PAGE_BITS]) << PAGE_BITS) | (point & _IN_PAGE)])


@inline_kernel
def is_plain_word(word: np.uint64) -> bool:
    """True if no byte of the word is below a space, or 0x7F and above. Source: as `jit.simd.bytes8.not_plain`."""
    return bool((((word - _SPACES) & ~word) | (word + ONES) | word) & TOPS == _NOTHING)


@kernel
def code_point(text: U8, p: int, stop: int) -> tuple[int, int]:
    """Decode one character.

    Parameters
    ----------
    text : u8[...]     read only
    p, stop : int      its first byte; end of what may be read, p < stop

    Returns            (the character, position after it), or (-1, p) if the bytes are not UTF-8
    Cost               at most four bytes
    Source             RFC 3629, section 4
    """
    c = int(text[p])
    if c < _HIGH:
        return c, p + 1
    size = 2 if c < _THREE else 3 if c < _FOUR else 4
    if c < _TWO or c >= _FOUR_END or p + size > stop:
        return -1, p
    point = c & (_IN_PAGE >> size)
    for q in range(p + 1, p + size):
        c = int(text[q])
        if c & _TAIL != _HIGH:
            return -1, p
        point = point << 6 | (c & _SIX_BITS)
    if (size == 3 and (point < 0x800 or _SURROGATES <= point < _AFTER_SURROGATES)) or (
        size == 4 and not _ASTRAL <= point < _POINTS
    ):
        return -1, p
    return point, p + size


@kernel
def composed(first: int, second: int) -> int:
    """What two characters compose to.

    Parameters
    ----------
    first, second : int   a starter, and a character with the flag MAYBE

    Returns            the composed character; 0 if the pair is not in normal form C but has none; -1 if it is in normal form C
    Cost               a search in some 2000 pairs
    Source             UAX #15; section 3.12 of the Unicode Standard for Hangul
    """
    if _LEADS <= first < _LEADS_END and _VOWELS <= second < _VOWELS_END:
        return _SYLLABLES + ((first - _LEADS) * _VOWEL_COUNT + second - _VOWELS) * _TRAIL_COUNT
    if _SYLLABLES <= first < _SYLLABLES_END and (first - _SYLLABLES) % _TRAIL_COUNT == 0 and _TRAILS < second < _TRAILS_END:
        return first + second - _TRAILS
    wanted = np.uint64(first << _FIRST_BITS | second)
    low, high = 0, len(_PAIRS)
    while low < high:
        middle = (low + high) >> 1
        if _PAIRS[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return int(_COMPOSED[low]) if low < len(_PAIRS) and _PAIRS[low] == wanted else -1


@kernel
def string_code(text: U8, start: int, stop: int) -> int:
    """Check the characters of a part of a name.

    Parameters
    ----------
    text : u8[...]     read only
    start, stop : int  its bytes

    Returns            INVALID_UTF8; otherwise BAD_NAME if it has a control character; otherwise NOT_NFC or OK
    Cost               one read of each byte, eight plain ones at a time; a few operations for each other character
    Source             the rule of names; this module's theory of operation
    """
    text = borrow(text)
    p, starter, last, code = start, -1, 0, OK
    while p < stop:
        if p + _WORD_BYTES <= stop and is_plain_word(load_word(text, p)):
            p += _WORD_BYTES
            starter, last = int(text[p - 1]), 0
            continue
        point, p = code_point(text, p, stop)
        if point < 0:
            return INVALID_UTF8
        flags = flags_of(point)
        order = flags >> CLASS_SHIFT
        if flags & CONTROL:
            code = BAD_NAME
        elif flags & NEVER or 0 < order < last:
            code = NOT_NFC if code == OK else code
        elif flags & MAYBE and starter >= 0 and code == OK and (last < order or (last == 0 and order == 0)):
            code = NOT_NFC if composed(starter, point) >= 0 else OK
        starter = point if order == 0 else starter
        last = order
    return code


@kernel
def name_code(text: U8, start: int, stop: int) -> int:
    """Check a part of a name, all of it.

    Parameters
    ----------
    text : u8[...]     read only
    start, stop : int  its bytes; it may be empty

    Returns            OK, INVALID_UTF8, BAD_NAME, NAME_TOO_LONG or NOT_NFC, in this precedence
    Cost               as `string_code`
    Source             the rule of names
    """
    code = string_code(text, start, stop)
    return NAME_TOO_LONG if stop - start > NAME_BYTES_MAX and code in (OK, NOT_NFC) else code
