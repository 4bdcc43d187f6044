"""Characters of one version of Unicode: flags, folding, and the pairs that normal form C composes.

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

from riata.wire.scan import unicode_data
from riata.wire.scan.unicode_flags import PAGE_BITS


def _table(text: bytes, kind: str) -> np.ndarray:
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), kind).astype(np.dtype(kind).newbyteorder("="))


_PAGES, _FLAGS, _FOLDS = _table(unicode_data.PAGES, "<u2"), _table(unicode_data.FLAGS, "<u2"), _table(unicode_data.FOLDS, "<i4")
_PAIRS, _COMPOSED = _table(unicode_data.PAIRS, "<u8"), _table(unicode_data.COMPOSED, "<u4")
_IN_PAGE: Final = (1 << PAGE_BITS) - 1
_FIRST_BITS: Final = 21
_LEADS, _LEADS_END, _VOWELS, _VOWELS_END, _TRAILS, _TRAILS_END = 0x1100, 0x1113, 0x1161, 0x1176, 0x11A7, 0x11C3
_SYLLABLES, _SYLLABLES_END, _VOWEL_COUNT, _TRAIL_COUNT = 0xAC00, 0xD7A4, 21, 28


def _row(point: int) -> int:
    return int(_PAGES[point >> PAGE_BITS]) << PAGE_BITS | (point & _IN_PAGE)


def flags_at(point: int) -> int:
    """Flags of a character, and its combining class from CLASS_SHIFT on."""
    return int(_FLAGS[_row(point)])


def folded_at(point: int) -> int:
    """The character in simple case folding. Source: CaseFolding.txt, statuses C and S."""
    return point + int(_FOLDS[_row(point)])


def composed(first: int, second: int) -> int:
    """What a starter and a character with the flag MAYBE compose to; -1 if the pair is in normal form C, 0 if it is not but
    composes to nothing. Source: UAX #15; section 3.12 of the Unicode Standard for Hangul."""
    if _LEADS <= first < _LEADS_END and _VOWELS <= second < _VOWELS_END:
        return _SYLLABLES + ((first - _LEADS) * _VOWEL_COUNT + second - _VOWELS) * _TRAIL_COUNT
    if _SYLLABLES <= first < _SYLLABLES_END and (first - _SYLLABLES) % _TRAIL_COUNT == 0 and _TRAILS < second < _TRAILS_END:
        return first + second - _TRAILS
    wanted = first << _FIRST_BITS | second
    at = int(_PAIRS.searchsorted(np.uint64(wanted)))
    return int(_COMPOSED[at]) if at < len(_PAIRS) and int(_PAIRS[at]) == wanted else -1
