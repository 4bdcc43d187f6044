"""UTF-8, the rule of names and the tables of Unicode, against Python's codecs and `unicodedata`."""

from __future__ import annotations

import random
import unicodedata

import pytest

from riata.native.reading import name_code
from riata.wire import scan
from riata.wire.codes import BAD_NAME, INVALID_UTF8, NOT_NFC, OK
from riata.wire.scan import CLASS_SHIFT, CONTROL, LETTER, NEVER, POINTS, composed, flags_at, folded_at
from riata.wire.unicode_data import VERSION
from tests.twins import text_words as words_twin
from tests.twins import unicode as twin

SAME = pytest.mark.skipif(
    unicodedata.unidata_version != VERSION, reason=f"Unicode {VERSION} is that of an older Python, or of a later one"
)
PAIRS = [(int(key) >> 21, int(key) & 0x1FFFFF) for key in scan._PAIRS]
JAMO = [*range(0x1100, 0x1115), *range(0x1161, 0x1178), *range(0x11A8, 0x11C5), 0xAC00, 0xAC01, 0xD788, 0xD7A3]


def any_text(rng: random.Random) -> str:
    """A few characters, most of them of the kinds that compose."""

    def one() -> str:
        pair = rng.choice(PAIRS)
        astral = rng.randrange(0x10000, POINTS)
        return chr(rng.choice([*pair, *pair, rng.choice(JAMO), 0x61, 0x20, 0x85, rng.randrange(0xD800), 0xE000, astral]))

    text = "".join(one() for _ in range(rng.randrange(6)))
    return unicodedata.normalize("NFC", text) if rng.random() < 0.5 else text


def broken(rng: random.Random, text: bytes) -> bytes:
    changed = bytearray(text)
    for _ in range(rng.randrange(3) if changed else 0):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed[: rng.randrange(len(changed) + 1)])


@SAME
def test_strings_are_judged_as_python_judges_them() -> None:
    rng, seen = random.Random(1), dict.fromkeys((OK, NOT_NFC, BAD_NAME, INVALID_UTF8), 0)
    for _ in range(30_000):
        text = any_text(rng).encode()
        text = broken(rng, text) if rng.random() < 0.2 else text
        wanted = twin.string_code(text)
        assert name_code(text) == wanted, text
        seen[wanted] += 1
    assert min(seen.values()) > 300


@SAME
def test_names_are_too_long_from_257_bytes_on() -> None:
    for text in ("é" * 128, "é" * 128 + "a", "é" * 129 + "\x85", "e\u0301" * 86, "a" * 300, "", "e\u0301"):
        held = text.encode()
        assert name_code(held) == twin.name_code(held), text


@SAME
def test_bytes_are_utf8_where_the_codec_reads_them() -> None:
    rng = random.Random(2)
    for text in [
        bytes([a, b, c, 0x80]) for a in range(256) for b in (0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF) for c in (0x80, 0xC0)
    ]:
        for held in (text, text[: rng.randrange(1, 4)]):
            assert name_code(held) == twin.name_code(held), held


@SAME
def test_the_tables_hold_what_unicodedata_says() -> None:
    for point in [
        *range(0x3000),
        *range(0x1E00, 0x2200),
        *range(0xA600, 0xB000),
        *range(0xF900, 0x10000),
        *range(0x10000, POINTS, 97),
    ]:
        letter, flags = chr(point), flags_at(point)
        if 0xD800 <= point < 0xE000:
            continue
        assert flags >> CLASS_SHIFT == unicodedata.combining(letter)
        assert bool(flags & CONTROL) == (unicodedata.category(letter) == "Cc")
        assert bool(flags & NEVER) == (unicodedata.normalize("NFC", letter) != letter)
        if flags & LETTER:
            assert chr(folded_at(point)) == words_twin._folded(letter), letter


@SAME
def test_pairs_compose_as_in_normal_form_c() -> None:
    rng = random.Random(3)
    pairs = rng.sample(PAIRS, 500) + [(rng.choice(PAIRS)[0], rng.choice(PAIRS)[1]) for _ in range(500)]
    for first, second in pairs + [(rng.choice(JAMO), rng.choice(JAMO)) for _ in range(500)]:
        if flags_at(first) & NEVER or flags_at(second) & NEVER or flags_at(first) >> CLASS_SHIFT:
            continue
        assert composed(first, second) == twin.composed(first, second), (hex(first), hex(second))
