"""What the tables of `wire.scan.unicode` say about a character: one bit each, and the canonical combining class above them."""

from __future__ import annotations

from typing import Final

POINTS: Final = 0x110000
PAGE_BITS: Final = 7
LETTER: Final = 1  # part of a word: letters (L), marks (M), numbers (N) and `_`
IDEOGRAPH: Final = 2  # of a script without spaces whose words are pairs of characters: Han, Bopomofo, Hiragana, Katakana
CONTROL: Final = 4  # C0, DEL and C1
NEVER: Final = 8  # not in any text in normal form C
MAYBE: Final = 16  # composes with some character before it
DROPPED: Final = 32  # removed from words: soft hyphen, joiners, variation selectors
CLASS_SHIFT: Final = 8
