"""The parts of VW features by str methods and regular expressions."""

from __future__ import annotations

import re

import numpy as np

from riata.base.arrays import U8
from riata.base.limits import NAME_BYTES_MAX, VALUE_ABS_MAX
from riata.maths.hashing import FIELD_EQUALS, NUMBER
from riata.native.reading import hash_of
from riata.wire.codes import BAD_NAME, BAD_NUMBER, NAME_TOO_LONG, OK, OUT_OF_RANGE
from riata.wire.scan.reference import decimal
from tests.twins.transpose import text_of
from tests.twins.unicode import name_code

TWINS_OF = ("wire/readers/vw/features",)


def take_name(data: U8, p: int, stop: int, colon: bool) -> tuple[int, int]:
    """By a regular expression."""
    found = re.match("[^ \t|:]*" if colon else "[^ \t|]*", text_of(data, p, stop))
    name = found.group() if found else ""
    if not name.isascii():
        return p + len(name), name_code(data[p : p + len(name)].tobytes())
    if any(ord(c) < 32 or ord(c) == 127 for c in name):
        return p + len(name), BAD_NAME
    return p + len(name), NAME_TOO_LONG if len(name) > NAME_BYTES_MAX else OK


def same_word(data: U8, start: int, stop: int, word: U8) -> bool:
    """By str.lower."""
    return text_of(data, start, stop).lower() == text_of(word, 0, len(word))


def is_word(data: U8, start: int, stop: int) -> bool:
    """By str methods."""
    text = text_of(data, start, stop)
    return text[:1] not in set("0123456789+-.") | {""} and ":" not in text and text.lower() not in ("nan", "inf", "infinity")


def read_namespace(data: U8, start: int, stop: int) -> tuple[int, int, float, int]:
    """By partition."""
    named, code = take_name(data, start, stop, True)
    if code != OK or text_of(data, named, stop)[:1] != ":":
        return named, named, 1.0, code
    after, _ = take_name(data, named + 1, stop, False)
    scale = decimal(text_of(data, named + 1, after))
    if named == start:
        return after, named, scale or 0.0, BAD_NAME
    if scale is None:
        return after, named, 0.0, BAD_NUMBER
    return after, named, scale, OK if abs(scale) <= VALUE_ABS_MAX else OUT_OF_RANGE


def read_feature(data: U8, start: int, stop: int, key: np.uint64) -> tuple[int, int, float, np.uint64, int]:
    """By partition; a feature with a name, and without a fault in it."""
    named, code = take_name(data, start, stop, True)
    name = data[start:named].tobytes()
    plain = np.uint64(hash_of(name, int(key), NUMBER))
    if code != OK or text_of(data, named, stop)[:1] != ":":
        return named, named, 1.0, plain, code
    after, fault = take_name(data, named + 1, stop, False)
    number = decimal(text_of(data, named + 1, after))
    if number is None and named == start and is_word(data, named + 1, after):
        fault = BAD_NAME
    if number is not None:
        return after, named, number, plain, code
    word = np.uint64(hash_of(data[named + 1 : after].tobytes(), hash_of(name, int(key), FIELD_EQUALS), NUMBER))
    return after, named, float("nan"), word, fault if is_word(data, named + 1, after) else BAD_NUMBER
