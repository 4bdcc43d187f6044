"""Shared by the reference readers, in plain Python: names, features and their words, decimal numbers and labels."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from riata.base.limits import LABEL_ABS_MAX, NAME_BYTES_MAX, TEXT_BYTES_MAX
from riata.maths.hashing import FIELD_EQUALS, FIELD_WORD, NUMBER, hash_name
from riata.wire.codes import BAD_FEATURE, BAD_LABEL, BAD_NAME, BAD_TEXT, NAME_TOO_LONG, NOT_NFC
from riata.wire.rows import EQUALS, KEY, PLAIN, SHADOWED, WORD, Refusal, Rules

Record = tuple[int, float, int, bytes]  # fingerprint, value, kind, shown name
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")  # category Cc of Unicode: C0, DEL and C1
_WORD: Final = re.compile(r"\w+")  # for text, \w is exactly str.isalnum() or `_`
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


class Refused(Exception):
    """Carries a `Refusal` out of a reference reader."""

    def __init__(self, code: int, field: str = "") -> None:
        super().__init__(code, field)
        self.refusal = Refusal(code, field)


def hash_of(text: bytes, key: int, tag: np.uint64) -> int:
    """Hash one part of a name from Python."""
    return int(hash_name(np.frombuffer(text, np.uint8), 0, len(text), np.uint64(key), tag))


def check_name(text: str, field: str) -> bytes:
    """Return the UTF-8 of a part of a name, or raise `Refused`."""
    encoded = text.encode()
    if _CONTROL.search(text):
        raise Refused(BAD_NAME, field)
    if len(encoded) > NAME_BYTES_MAX:
        raise Refused(NAME_TOO_LONG, field)
    if not unicodedata.is_normalized("NFC", text):
        raise Refused(NOT_NFC, field)
    return encoded


def feature_records(name: str, value: Any, rules: Rules) -> Iterator[Record]:
    """Yield the records of one feature: a float, bool, string, None or list of strings under `name`. Raises `Refused`."""
    field = f"features.{name}"
    if not name:
        raise Refused(BAD_NAME, field)
    shown = check_name(name, field)
    plain = hash_of(shown, int(rules.key), NUMBER)
    if isinstance(value, float | bool):
        yield plain, float(value), PLAIN | KEY, shown
        return
    yield plain, 0.0, PLAIN | KEY | SHADOWED, shown
    if value is None:
        return
    for text in [value] if isinstance(value, str) else value if type(value) is list else [value]:
        if not isinstance(text, str):
            raise Refused(BAD_FEATURE, field)
        if plain in rules.text.tolist():
            if len(text.encode()) > TEXT_BYTES_MAX:
                raise Refused(BAD_TEXT, field)
            prefix = hash_of(shown, int(rules.key), FIELD_WORD)
            for gram in reference_words(text, rules.ngrams):
                yield hash_of(gram, prefix, NUMBER), 1.0, WORD, shown + b":" + gram
        else:
            said = check_name(text, field)
            prefix = hash_of(shown, int(rules.key), FIELD_EQUALS)
            yield hash_of(said, prefix, NUMBER), 1.0, EQUALS, shown + b"=" + said


def reference_words(text: str, ngrams: int) -> list[bytes]:
    """Return every gram of `text` of 1 to `ngrams` words as UTF-8, in the order in which its last word ends."""
    words = [word.encode() for word in _WORD.findall(unicodedata.normalize("NFC", text).lower())]
    grams = [
        b" ".join(words[last - length + 1 : last + 1])
        for last in range(len(words))
        for length in range(1, ngrams + 1)
        if length <= last + 1
    ]
    return [gram for gram in grams if len(gram) <= NAME_BYTES_MAX]


def decimal(text: str) -> float | None:
    """Read a decimal number with Python's float; None if it is not one."""
    return float(text) if _DECIMAL.fullmatch(text) else None


def checked_label(text: str, rules: Rules) -> float:
    """`read_label` in plain Python. Raises `Refused`."""
    value = decimal(text)
    if value is not None:
        if rules.labels == 0 and value in (0.0, 1.0):
            return abs(value)
        if rules.labels == 1 and value in (-1.0, 1.0):
            return float(value > 0.0)
        if rules.labels == 2 and abs(value) <= LABEL_ABS_MAX:
            return value + 0.0
    raise Refused(BAD_LABEL)
