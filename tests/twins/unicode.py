"""Characters by `unicodedata` and the codecs of Python."""

from __future__ import annotations

import unicodedata

from riata.base.limits import NAME_BYTES_MAX
from riata.wire.codes import BAD_NAME, INVALID_UTF8, NAME_TOO_LONG, NOT_NFC, OK


def composed(first: int, second: int) -> int:
    """What two characters compose to; 0 if normal form C changes them in another way, -1 if it leaves them."""
    pair = chr(first) + chr(second)
    whole = unicodedata.normalize("NFC", pair)
    if whole == pair:
        return -1
    parts = unicodedata.decomposition(whole).split() if len(whole) == 1 else []
    is_syllable = len(whole) == 1 and 0xAC00 <= ord(whole) < 0xD7A4
    return ord(whole) if is_syllable or parts == [f"{first:04X}", f"{second:04X}"] else 0


def string_code(text: bytes) -> int:
    """By the codec, by categories, and by `is_normalized`."""
    try:
        held = text.decode()
    except UnicodeDecodeError:
        return INVALID_UTF8
    if any(unicodedata.category(c) == "Cc" for c in held):
        return BAD_NAME
    return OK if unicodedata.is_normalized("NFC", held) else NOT_NFC


def name_code(text: bytes) -> int:
    """With the length."""
    code = string_code(text)
    return NAME_TOO_LONG if code in (OK, NOT_NFC) and len(text) > NAME_BYTES_MAX else code
