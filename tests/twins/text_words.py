"""Words by `unicodedata` and str methods, one character at a time."""

from __future__ import annotations

import json
import re
import unicodedata

from riata.wire.scan import reference_words
from tests.twins.unicode import composed

_DROPPED = re.compile("[\u00ad\u200c\u200d\u2060\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_SCRIPTS = ("CJK UNIFIED", "CJK COMPATIBILITY IDEOGRAPH", "HIRAGANA", "KATAKANA", "BOPOMOFO", "HALFWIDTH KATAKANA", "HENTAIGANA")


def put_letter(before: str, letter: str) -> str:
    """Fold a letter, and compose it with the last of the word before it."""
    folded = _folded(letter)
    whole = composed(ord(before[-1]), ord(folded)) if before else -1
    return before[:-1] + _folded(chr(whole)) if whole > 0 else before + folded


def put_pair(run: str) -> list[str]:
    """The words of a run of characters without spaces."""
    return [run[i : i + 2] for i in range(max(1, len(run) - 1))]


def put_words(text: str) -> list[str]:
    """The words of a text, by rule 2."""
    words: list[str] = []
    held, in_pairs = "", False
    for letter in _DROPPED.sub("", text) + " ":
        is_letter = letter == "_" or unicodedata.category(letter)[0] in "LMN"
        if held and (not is_letter or _is_ideograph(letter) != in_pairs):
            words += put_pair(held) if in_pairs else [held]
            held = ""
        if is_letter:
            held, in_pairs = put_letter(held, letter), _is_ideograph(letter)
    return words


def read_text(string: bytes, ngrams: int, rule: int = 2) -> list[bytes]:
    """Every gram of a quoted JSON string."""
    text = json.loads(string)
    if rule == 1 and not text.isascii():
        return reference_words(text, ngrams, 1)
    words = put_words(text)
    grams: list[bytes] = []
    for last in range(len(words)):
        for length in range(1, min(ngrams, last + 1) + 1):
            gram = " ".join(words[last - length + 1 : last + 1]).encode()
            if len(gram) <= 256:
                grams.append(gram)
    return grams


def _folded(letter: str) -> str:
    same = unicodedata.normalize("NFC", letter)
    letter = same if len(same) == 1 else letter
    folded = next((form for form in (letter.casefold(), letter.lower()) if len(form) == 1), letter)
    same = unicodedata.normalize("NFC", folded)
    return same if len(same) == 1 else folded


def _is_ideograph(letter: str) -> bool:
    name = unicodedata.name(letter, "")
    return name.startswith(_SCRIPTS) or 0x3400 <= ord(letter) <= 0x9FFF or letter in "々〇゙゚ー"
