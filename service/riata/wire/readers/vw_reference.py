"""The reference reader of VW text, in plain Python: str methods and regular expressions.

It reads the lines that `service/native/vw.c` hands over. The tests also compare the two: for every line both
accept the same numbers or refuse for the same reason.
"""

from __future__ import annotations

import re
from typing import Final

from riata.base.limits import VALUE_ABS_MAX, WEIGHT_MAX
from riata.maths.hashing import FIELD_EQUALS, FIELD_NAMESPACE, NUMBER
from riata.native.reading import hash_of
from riata.wire.codes import (
    BAD_NAME,
    BAD_NUMBER,
    BAD_WEIGHT,
    BASE_NOT_SUPPORTED,
    INVALID_UTF8,
    MISSING_LABEL,
    OUT_OF_RANGE,
    SYNTAX,
)  # fmt: skip
from riata.wire.given import decimal
from riata.wire.rows import EQUALS, NAMESPACE, PLAIN, SHADOWED, Refusal, Rules, SlowRow
from riata.wire.scan import Record, Refused, check_name, checked_label, number_record

_FRONT_WORDS_MAX: Final = 3  # label, importance, base
_CUT: Final = re.compile(r"[ \t]+")
_NUMBER_LIKE: Final = re.compile(r"[0-9+.-].*|(?:nan|inf|infinity)\Z|.*:.*|\Z", re.IGNORECASE | re.ASCII | re.DOTALL)


def reference_vw(line: bytes, rules: Rules) -> SlowRow | Refusal:
    """Read one line, which is not blank and has no line end, in plain Python; any UTF-8 is accepted."""
    try:
        text = line.decode()
        front, bar, rest = text.partition("|")
        if not bar:
            raise Refused(SYNTAX)
        label, weight = _slow_front(front, rules)
        records: list[Record] = []
        for namespace in rest.split("|"):
            records.extend(_slow_namespace(namespace, rules))
    except UnicodeDecodeError:
        return Refusal(INVALID_UTF8)
    except Refused as refused:
        return refused.refusal
    return SlowRow(records, label, weight)


def _slow_front(front: str, rules: Rules) -> tuple[float, float]:
    words = [word for word in _CUT.split(front) if word]
    if words and (front.endswith(words[-1]) or words[-1].startswith("'")):
        del words[-1]
    label, weight = float("nan"), 1.0
    if rules.labelled and words:
        label = checked_label(words[0], rules)
    if rules.labelled and len(words) > 1:
        given = decimal(words[1])
        if given is None or not 0.0 < given <= WEIGHT_MAX:
            raise Refused(BAD_WEIGHT)
        weight = given
    if len(words) > 2 and decimal(words[2]) != 0.0:
        raise Refused(BASE_NOT_SUPPORTED)
    if len(words) > _FRONT_WORDS_MAX:
        raise Refused(SYNTAX)
    if rules.labelled and not words:
        raise Refused(MISSING_LABEL)
    return label, weight


def _slow_namespace(text: str, rules: Rules) -> list[Record]:
    head, *features = _CUT.split(text)
    name, colon, factor = head.partition(":")
    prefix, key = b"", int(rules.key)
    if name:
        prefix = check_name(name, name)
        key = hash_of(prefix, key, FIELD_NAMESPACE)
        prefix += b"^"
    elif colon:
        raise Refused(BAD_NAME)
    scale = decimal(factor) if colon else 1.0
    if scale is None:
        raise Refused(BAD_NUMBER, name)
    if abs(scale) > VALUE_ABS_MAX:
        raise Refused(OUT_OF_RANGE, name)
    nameless = 0
    crossed = len(rules.crosses) > 0
    records = [_field_record(prefix.removesuffix(b"^"), rules)] if prefix and crossed else []
    for feature in filter(None, features):
        said, colon, value = feature.partition(":")
        if colon and not said and decimal(value) is not None:
            said = str(nameless)
            nameless += 1
        if crossed and not prefix and value and decimal(value) is None:
            records.append(_field_record(check_name(said, said), rules))
        records.append(_slow_feature(said, value if colon else None, prefix, (key, scale), rules))
    return records


def _field_record(name: bytes, rules: Rules) -> Record:
    """The record that tells the field of the records after it; only if the encoder has crosses."""
    return hash_of(name, int(rules.key), NUMBER), 0.0, PLAIN | SHADOWED, name


def _slow_feature(name: str, value: str | None, prefix: bytes, space: tuple[int, float], rules: Rules) -> Record:
    """space : the hash key of the namespace, and the factor of its numbers"""
    key, scale = space
    said = check_name(name, name)
    number = 1.0 if value is None else decimal(value)
    if number is not None:
        return number_record((said, key), scale * number, prefix, rules)
    if value is None or _NUMBER_LIKE.match(value):
        raise Refused(BAD_NUMBER, name)
    if not name:
        raise Refused(BAD_NAME)
    word = check_name(value, name)
    fingerprint = hash_of(word, hash_of(said, key, FIELD_EQUALS), NUMBER)
    return fingerprint, 1.0, NAMESPACE if prefix else EQUALS, prefix + said + (b":" if prefix else b"=") + word
