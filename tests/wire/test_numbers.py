from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from riata.base.limits import VALUE_ABS_MAX
from riata.native.reading import EXACT, HAND_OVER, NOT_A_NUMBER, parse_number
from riata.wire.encoder import EncoderConfig
from riata.wire.parse import Context, parse_examples
from tests.twins import numbers as twin

Make = Callable[[random.Random], str]
ROWS = Context(EncoderConfig(), by_row=True)


def _parse(text: str, json: bool = False) -> tuple[float, int]:
    return parse_number(text.encode("latin-1"), json)


def _same(a: float, b: float) -> bool:
    return struct.pack("d", a) == struct.pack("d", b)


def _any_double(rng: random.Random) -> str:
    x: float = struct.unpack("d", struct.pack("Q", rng.getrandbits(64)))[0]
    return repr(x) if math.isfinite(x) else "0"


def _shortened(rng: random.Random) -> str:
    return f"{math.ldexp(1 + rng.random(), rng.randrange(-1073, 1023)):.{rng.randrange(0, 25)}e}"


def _integer(rng: random.Random) -> str:
    return f"{rng.getrandbits(rng.randrange(1, 70))}e{rng.randrange(-30, 30)}"


def _wide(rng: random.Random) -> str:
    return f"{rng.getrandbits(80)}.{rng.getrandbits(60)}e{rng.randrange(-345, 310)}"


def _plain(rng: random.Random) -> str:
    return f"{rng.uniform(-1000, 1000):.{rng.randrange(0, 20)}f}"


def _halfway(rng: random.Random) -> str:
    """An integer with 54 bits, the last of them set, times a small power of two: exactly between two doubles."""
    return str((rng.getrandbits(53) | 2**53 | 1) << rng.randrange(0, 10))


def _beside_halfway(rng: random.Random) -> str:
    """The 17 to 19 digits nearest to a midpoint of any size: as close to a tie as short numbers get."""
    middle = Fraction(2 * rng.getrandbits(52) + 2**53 + 1) * Fraction(2) ** rng.randrange(-1000, 900)
    shift = rng.randrange(17, 20) - 1 - math.floor(math.log10(middle.numerator) - math.log10(middle.denominator))
    return f"{round(middle * Fraction(10) ** shift)}e{-shift}"


@pytest.mark.parametrize(
    ("make", "count", "undecided"),
    [
        (_any_double, 300_000, 0.0),
        (_shortened, 200_000, 0.01),
        (_integer, 200_000, 0.01),
        (_wide, 100_000, 0.01),
        (_plain, 150_000, 0.01),
        (_halfway, 50_000, 0.0),
        (_beside_halfway, 20_000, 0.0),
    ],
)
def test_a_million_numbers_are_pythons_to_the_last_bit(make: Make, count: int, undecided: float) -> None:
    rng = random.Random(20)
    texts = [make(rng) for _ in range(count)]
    found = [_parse(text) for text in texts]
    value, status = np.array([one for one, _ in found]), np.array([how for _, how in found])
    expected = np.array([float(text) for text in texts])
    decided = status == EXACT
    assert np.all(decided | (status == HAND_OVER))
    assert np.array_equal(value[decided].view(np.int64), expected[decided].view(np.int64))
    assert np.mean(~decided) <= undecided  # handing over must stay rare, or the fast way is not one


@pytest.mark.parametrize(
    "text",
    [
        "0", "-0", "0.0", "1", "-1", "10", "1.5", "1e308", "1.7976931348623157e308", "1.7976931348623158e308", "5e-324",
        "4.9e-324", "2.4703282292062327e-324", "2.4703282292062328e-324", "2.2250738585072011e-308", "2.2250738585072014e-308",
        "1e-400",
        "9007199254740993", "9007199254740992.5", "0e999999999999999999999", "1e-999999999999999999999", "1e22", "1e23",
        "0.000000000000000000000000000001", "123456789012345678901234567890", "1E5", "1e+5", "1e05", "7e-10",
        "18446744073709551615",
    ],
)  # fmt: skip
def test_numbers_of_both_grammars_are_pythons(text: str) -> None:
    for json in (True, False):
        value, status = _parse(text, json)
        assert status == EXACT
        assert _same(value, float(text))


@pytest.mark.parametrize("text", [".5", "1.", "+1", "+.5e1", "-1.e2", "01", "-007.50", "00"])
def test_the_wider_grammar_has_what_json_refuses(text: str) -> None:
    value, status = _parse(text)
    assert status == EXACT
    assert value == float(text)
    assert _parse(text, json=True)[1] == NOT_A_NUMBER


@pytest.mark.parametrize(
    "text",
    ["", "-", "+", ".", "-.", "e1", ".e1", "1e", "1e+", "1e-", "inf", "nan", "Infinity", "0x10", "1_0", "1 ", " 1", "1e1.0",
     "--1", "+-1", "1.2.3", "1,5", "1\0", "\xb2", "1d5", "1f", "1/2"],
)  # fmt: skip
def test_a_text_that_is_not_a_decimal_number_is_refused(text: str) -> None:
    assert _parse(text)[1] == NOT_A_NUMBER
    assert _parse(text, json=True)[1] == NOT_A_NUMBER


def test_overflow_is_infinite_and_underflow_is_zero() -> None:
    assert _parse("1e309") == (math.inf, EXACT)
    assert _parse("-1.7976931348623159e308") == (-math.inf, EXACT)
    assert _parse("1" + "0" * 400) == (math.inf, EXACT)
    assert _same(_parse("-1e-330")[0], -0.0)


def test_long_digit_strings_come_back_into_range() -> None:
    assert _parse("0." + "0" * 5000 + "15e5001") == (1.5, EXACT)
    assert _parse("25" + "0" * 5000 + "e-5001") == (2.5, EXACT)
    assert _parse("0." + "3" * 5000) == (0.3333333333333333, EXACT)


def test_a_long_number_beside_a_tie_is_handed_over() -> None:
    tie = 2**64 + 2**11  # half way between two neighbours; 20 digits
    for text in (f"{tie}", f"{tie}.00000000000000000000000001", f"{tie - 1}.9999"):
        assert _parse(text)[1] == HAND_OVER


def test_mutated_numbers_are_read_like_their_twin() -> None:
    rng = random.Random(21)
    accepted = 0
    for _ in range(20_000):
        letters = list(rng.choice([_integer, _wide, _plain])(rng))
        for _ in range(rng.randrange(0, 3)):
            letters[rng.randrange(len(letters))] = rng.choice("0.e-+E19x ")
        text, json = "".join(letters), rng.random() < 0.5
        value, status = _parse(text, json)
        expected = twin.parse_number(text.encode(), json)
        assert (status == NOT_A_NUMBER) == (expected is None)
        if status == EXACT and expected is not None:
            accepted += 1
            assert _same(value, expected)
    assert 2_000 < accepted < 19_000  # both answers are well represented


def test_long_numbers_are_pythons_or_handed_over() -> None:
    rng = random.Random(25)
    undecided = 0
    for _ in range(3000):
        digits = str(rng.getrandbits(rng.randrange(70, 200)))
        point = rng.randrange(len(digits))
        text = f"{digits[:point]}.{digits[point:]}e{rng.randrange(-400, 320)}"
        value, status = _parse(text)
        undecided += status == HAND_OVER
        assert status != NOT_A_NUMBER
        assert status == HAND_OVER or _same(value, float(text))
    assert undecided < 30  # the digits left out matter for one number in about a thousand


def test_rounding_is_pythons_at_the_edges_of_the_range() -> None:
    for digits in (0, 1, 2, 9, 2**53, 2**53 + 1, 2**63, 10**19 - 1):
        for exponent in (*range(-350, -300), *range(-30, 60), *range(280, 312)):
            text = f"{digits}e{exponent}"
            assert _parse(text) == (float(text), EXACT), text


@pytest.mark.parametrize("kind", ["application/x-ndjson", "text/x-vw", "text/x-svmlight"])
def test_values_of_any_length_are_those_of_the_language(kind: str) -> None:
    """Readers take short numbers eight bytes at a time."""
    rng, read = random.Random(4), 0
    line = {"application/x-ndjson": b'{"features":{"1":%s},"label":1}', "text/x-vw": b"1 | 1:%s", "text/x-svmlight": b"1 1:%s"}[
        kind
    ]
    texts = []
    for _ in range(20_000):
        text = repr(
            rng.choice((rng.random(), rng.gauss(0, 1e3), round(rng.random(), rng.randrange(12)), float(rng.randrange(10**9))))
        )
        text = text.removesuffix(".0") if rng.random() < 0.5 else text
        if rng.random() < 0.3:
            at = rng.randrange(1, len(text) + 1)  # a word may begin with a letter
            text = text[:at] + rng.choice("0.e-+") + text[at:]
        texts.append(text.encode())
    found = dict[int, float]()
    for start in range(0, len(texts), 5000):
        parsed = parse_examples(b"\n".join(line % text for text in texts[start : start + 5000]), kind, ROWS, labelled=True)
        for row, first, last in zip(parsed.row.tolist(), parsed.batch.indptr[:-1], parsed.batch.indptr[1:], strict=True):
            found[start + row] = float(parsed.batch.value[first:last].sum())
    for row, given in enumerate(texts):
        wanted = twin.parse_number(given, kind == "application/x-ndjson")
        assert (row in found) == (wanted is not None and abs(wanted) <= VALUE_ABS_MAX), given
        if wanted is not None and row in found and (wanted == 0.0 or abs(wanted) > 1e-300):
            read += 1
            assert found[row] == wanted, given
    assert 12_000 < read < 19_500
