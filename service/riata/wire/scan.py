"""Shared by the reference readers, in plain Python: names, features and their words, decimal numbers and labels."""

from __future__ import annotations

import base64
import re
import unicodedata
import zlib
from collections.abc import Iterator
from itertools import chain
from typing import Any, Final, cast

import numpy as np

from riata.base.arrays import F64
from riata.base.limits import LABEL_ABS_MAX, NAME_BYTES_MAX, TEXT_BYTES_MAX
from riata.maths.hashing import FIELD_EQUALS, FIELD_WORD, NUMBER
from riata.native.reading import hash_of
from riata.wire import unicode_data
from riata.wire.codes import (
    BAD_CURVE,
    BAD_FEATURE,
    BAD_LABEL,
    BAD_NAME,
    BAD_TEXT,
    CHANNELS_DIFFER,
    CURVE_LENGTH,
    CURVE_NOT_FINITE,
    CURVE_TOO_LONG,
    EMPTY_CURVE,
    LABEL_HINTS,
    NAME_TOO_LONG,
    NOT_NFC,
    OK,
)
from riata.wire.encoder import CURVE_ABS_MAX, FIRST_RULE, POINTS_MAX, CurveTree
from riata.wire.fields import TEXT, Moment, Untyped, Value, read_as, read_untyped
from riata.wire.given import decimal
from riata.wire.rows import CLASS_NAME_LENGTH_MAX, CLASSES, EQUALS, KEY, NAMESPACE, PLAIN, SHADOWED, WORD, Refusal, Rules

Record = tuple[int, float, int, bytes]  # fingerprint, value, kind, shown name
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")  # category Cc of Unicode: C0, DEL and C1
_WORD: Final = re.compile(r"\w+")  # for text, \w is exactly str.isalnum() or `_`

LABELS: Final = ("0/1", "-1/+1", "real", "classes")  # by Rules.labels
CLASS_HINT: Final = (
    'the model\'s labels setting is "classes": expected the name of a class, a text of 1 to 128 characters without control '
    f"characters, or a number of magnitude at most {LABEL_ABS_MAX:g}"
)

POINTS: Final = 0x110000

# What the tables of characters say: one bit each, and the canonical combining class above them.
PAGE_BITS: Final = 7
LETTER: Final = 1  # part of a word: letters (L), marks (M), numbers (N) and `_`
IDEOGRAPH: Final = 2  # of a script without spaces whose words are pairs of characters: Han, Bopomofo, Hiragana, Katakana
CONTROL: Final = 4  # C0, DEL and C1
NEVER: Final = 8  # not in any text in normal form C
MAYBE: Final = 16  # composes with some character before it
DROPPED: Final = 32  # removed from words: soft hyphen, joiners, variation selectors
CLASS_SHIFT: Final = 8


class ClassLabel(float):
    """The label of a row that names its class by a text."""

    name: str

    def __new__(cls, name: str) -> ClassLabel:
        """Make it; as a number, which nothing reads, it is 0."""
        made = super().__new__(cls, 0.0)
        made.name = name
        return made


class Refused(Exception):
    """Carries a `Refusal` out of a reference reader."""

    def __init__(self, code: int, field: str = "") -> None:
        super().__init__(code, field)
        self.refusal = Refusal(code, field)


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
    value = value_in(plain, value, rules)
    if isinstance(value, Moment):
        yield plain, value.days, PLAIN | KEY, shown
        for part, word in value.parts:
            prefix = hash_of(shown + b"." + part.encode(), int(rules.key), FIELD_EQUALS)
            yield hash_of(word.encode(), prefix, NUMBER), 1.0, EQUALS, b"%s.%s=%s" % (shown, part.encode(), word.encode())
        return
    if isinstance(value, float | bool):
        yield plain, float(value), PLAIN | KEY, shown
        return
    yield plain, 0.0, PLAIN | KEY | SHADOWED, shown
    if value is None:
        return
    is_split = plain in rules.text.tolist() or (rules.kinds is not None and rules.kinds.kind(plain) == TEXT)
    for text in [value] if isinstance(value, str) else value if type(value) is list else [value]:
        if not isinstance(text, str):
            raise Refused(BAD_FEATURE, field)
        if is_split:
            if len(text.encode()) > TEXT_BYTES_MAX:
                raise Refused(BAD_TEXT, field)
            prefix = hash_of(shown, int(rules.key), FIELD_WORD)
            for gram in reference_words(text, rules.ngrams, rules.words):
                yield hash_of(gram, prefix, NUMBER), 1.0, WORD, shown + b":" + gram
        else:
            said = check_name(text, field)
            prefix = hash_of(shown, int(rules.key), FIELD_EQUALS)
            yield hash_of(said, prefix, NUMBER), 1.0, EQUALS, shown + b"=" + said


def value_in(field: int, value: Any, rules: Rules) -> Value:
    """Return a decoded value as the kind of its field has it, and count it if it is odd. field : the hash of its name"""
    if rules.kinds is None:
        return cast(Value, value)
    kind = rules.kinds.kind(field)
    found, odd = read_untyped(kind, str(value)) if isinstance(value, Untyped) else read_as(kind, value)
    if odd is not None:
        rules.kinds.count_odd(field, odd, f"{'lists' if isinstance(value, list) else 'texts'} in {rules.source}")
    return found


def number_record(name: tuple[bytes, int], value: float, space: bytes, rules: Rules) -> Record:
    """Return the record of a number of a format without types, VW text or svmlight: an indicator if the field is a category.

    name  : as it is written, and the hash key of the model or of the namespace
    space : what is shown before it
    """
    said, key = name
    field, kind = hash_of(said, key, NUMBER), NAMESPACE if space else PLAIN
    found = value_in(field, value, rules)
    if isinstance(found, list):
        (found,) = found
    if not isinstance(found, str) or (rules.kinds is not None and rules.kinds.kind(field) == TEXT):  # it has no texts
        return field, found.days if isinstance(found, Moment) else value, kind, space + said
    between = b":" if space else b"="
    fingerprint = hash_of(found.encode(), hash_of(said, key, FIELD_EQUALS), NUMBER)
    return fingerprint, 1.0, NAMESPACE if space else EQUALS, space + said + between + found.encode()


def curve_records(name: str, value: Any, tree: CurveTree, rules: Rules) -> Iterator[Record]:
    """Yield the records of one curve: an indicator of each leaf in which it ends. None is absent. Raises `Refused`."""
    shown = check_name(name, f"features.{name}")
    yield hash_of(shown, int(rules.key), NUMBER), 0.0, PLAIN | KEY | SHADOWED, shown
    if value is None:
        return
    points, code = points_of(value, tree)
    if code != OK:
        raise Refused(code, f"features.{name}")
    for leaf in tree.leaves(points):
        said = shown + b"#%d" % leaf
        yield hash_of(said, int(rules.key), NUMBER), 1.0, EQUALS, said


def words_of(text: str) -> list[str]:
    """Split a text by rule 2 of words (`service/native/json.c`)."""
    words: list[str] = []
    word, run = "", ""  # letters so far; characters so far of a run without spaces
    for point in map(ord, text):
        flags = flags_at(point)
        if flags & DROPPED:
            continue
        if run and not flags & IDEOGRAPH:
            words, run = words + pairs_in(run), ""
        if word and (flags & IDEOGRAPH or not flags & LETTER):
            words, word = [*words, word], ""
        if not flags & LETTER:
            continue
        held, point = run or word, folded_at(point)
        whole = composed(ord(held[-1]), point) if held and flags & MAYBE else -1
        held = held[:-1] + chr(folded_at(whole)) if whole > 0 else held + chr(point)
        word, run = ("", held) if flags & IDEOGRAPH else (held, "")
    return words + pairs_in(run) + ([word] if word else [])


def pairs_in(run: str) -> list[str]:
    """Overlapping pairs of characters; a single character itself."""
    return [run[i : i + 2] for i in range(len(run) - 1)] if len(run) > 1 else [run] if run else []


def reference_words(text: str, ngrams: int, rule: int) -> list[bytes]:
    """Return every gram of `text` of 1 to `ngrams` words as UTF-8, in the order in which its last word ends."""
    listed = words_of(text) if rule != FIRST_RULE else _WORD.findall(unicodedata.normalize("NFC", text).lower())
    words = [word.encode() for word in listed]
    grams = [
        b" ".join(words[last - length + 1 : last + 1])
        for last in range(len(words))
        for length in range(1, ngrams + 1)
        if length <= last + 1
    ]
    return [gram for gram in grams if len(gram) <= NAME_BYTES_MAX]


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
    return class_label(text if value is None else value, rules)


def class_label(given: object, rules: Rules, field: str = "") -> float:
    """The label of a row of several classes, given as a text or a number. Raises `Refused`."""
    if rules.labels == CLASSES:
        if isinstance(given, str) and is_class_name(given):
            return ClassLabel(given)
        if isinstance(given, float) and abs(given) <= LABEL_ABS_MAX:
            return given + 0.0
    raise Refused(BAD_LABEL, field)


def is_class_name(text: str) -> bool:
    """Whether a class may have this name."""
    return 1 <= len(text) <= CLASS_NAME_LENGTH_MAX and _CONTROL.search(text) is None


def setting_of(rules: Rules) -> str:
    """The model's setting `labels`."""
    return LABELS[rules.labels]


def label_hint(rules: Rules) -> str:
    """What a label of the model is."""
    return CLASS_HINT if rules.labels == CLASSES else LABEL_HINTS[rules.labels]


# Reads a decoded JSON value as a curve.


def points_of(value: Any, tree: CurveTree) -> tuple[F64, int]:
    """Read a decoded JSON value as a curve: a list of numbers, or of points that are lists of one number for each channel.

    Returns f64[points, channels] and OK; otherwise a code of `wire.codes`.
    """
    nothing = np.empty((0, tree.channels))
    if type(value) is not list:
        return nothing, BAD_CURVE
    if not value:
        return nothing, EMPTY_CURVE
    if len(value) > POINTS_MAX:
        return nothing, CURVE_TOO_LONG
    kinds = set(map(type, value))
    if kinds == {list}:
        widths, kinds = set(map(len, value)), set(map(type, chain.from_iterable(value)))
    else:
        widths = {1}
    if kinds - {float}:
        return nothing, BAD_CURVE
    if widths != {tree.channels}:
        return nothing, CHANNELS_DIFFER
    points = np.array(value, np.float64).reshape(len(value), tree.channels)
    if not bool((np.abs(points) <= CURVE_ABS_MAX).all()):
        return nothing, CURVE_NOT_FINITE
    return (points, OK) if tree.length in (None, len(points)) else (nothing, CURVE_LENGTH)


# Characters of one version of Unicode: flags, folding, and the pairs that normal form C composes.
#
# Theory of operation
#     A character has flags, a combining class and a folded form, in tables of one version of Unicode.
#     So a name or a word does not change with the version of Python.
#
#     A text is in normal form C if no character is of a kind that never occurs there, marks are in the order of their classes,
#     and
#     no character composes with the last starter before it. A mark is compared with that starter unless a mark of the same or a
#     higher class, or another starter, is between them. The pairs listed are all that change: those with a composed form, and
#     those
#     where the mark would move before the last mark of a composed starter. Syllables of Hangul are computed. For these pairs this
#     is the whole of UAX #15: a first change of a text is always a change of one pair.


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
