"""Words of a text: one rule, in compiled ASCII and in Python for any script."""

from __future__ import annotations

import random

import pytest

from riata.base.errors import BadInput
from riata.base.limits import TEXT_BYTES_MAX
from riata.wire.encoder import EncoderConfig
from riata.wire.parse import Context, explain_rows, parse_examples
from riata.wire.scan.reference import reference_words
from tests.twins import text_words as twin


def counted(string: bytes, ngrams: int) -> dict[str, float]:
    rows = explain_rows(
        b'{"features":{"t":"%b"}}' % string, "application/json", Context(EncoderConfig(text=("t",), ngrams=ngrams))
    )
    return {name: value for _, value, name in rows[0]}


@pytest.mark.parametrize("ngrams", [1, 2, 3])
def test_words_equal_the_twin_on_ascii_and_beyond(ngrams: int) -> None:
    rng = random.Random(11)
    alphabet = [
        "a",
        "B",
        "z9",
        "_",
        " ",
        "  ",
        ".",
        "-",
        "\\n",
        '\\"',
        "\\\\",
        "\\u0041",
        "x" * 130,
        "\x7f",
        "\\u0000",
        "\u0085",
        "é",
        "İ",
        "ß",
        "½",
        "日本",
    ]
    for number in range(400):
        pieces = alphabet[: 11 if number % 2 else len(alphabet)]
        string = "".join(rng.choice(pieces) for _ in range(rng.randrange(25))).encode()
        wanted: dict[str, float] = {}
        for gram in twin.read_text(b'"' + string + b'"', ngrams):
            wanted["t:" + gram.decode()] = wanted.get("t:" + gram.decode(), 0.0) + 1.0
        assert counted(string, ngrams) == wanted, string


def test_slow_words_agree_with_the_twin_on_ascii() -> None:
    text = "Hello, HELLO world_1 it's 3.5%"
    for ngrams in (1, 2, 3):
        assert reference_words(text, ngrams) == twin.put_grams(text, ngrams)
    assert reference_words(text, 1) == [b"hello", b"hello", b"world_1", b"it", b"s", b"3", b"5"]


def test_words_are_counted_and_grams_joined_with_a_space() -> None:
    assert counted(b"Big big CAT", 2) == {"t:big": 2.0, "t:cat": 1.0, "t:big big": 1.0, "t:big cat": 1.0}


def test_words_that_are_canonically_equal_are_one_feature() -> None:
    assert counted("e\u0301te \u00c9TE".encode(), 1) == {"t:\u00e9te": 2.0}


def test_a_word_as_long_as_a_name_is_kept_and_a_longer_one_is_no_word() -> None:
    assert counted(b"a " + b"x" * 256 + b" b", 2) == {"t:a": 1.0, "t:b": 1.0, "t:" + "x" * 256: 1.0}
    assert counted(b"a " + b"x" * 257 + b" b", 2) == {"t:a": 1.0, "t:b": 1.0}


def test_a_list_of_texts_is_counted_together_but_no_gram_spans_two() -> None:
    rows = explain_rows(b'{"features":{"t":["a b","b c"]}}', "application/json", Context(EncoderConfig(text=("t",), ngrams=2)))
    assert {name: value for _, value, name in rows[0]} == {"t:a": 1.0, "t:b": 2.0, "t:c": 1.0, "t:a b": 1.0, "t:b c": 1.0}


@pytest.mark.parametrize("filler", [b".", "é".encode()])
def test_a_text_takes_its_limit_of_bytes_and_not_one_more(filler: bytes) -> None:
    context = Context(EncoderConfig(text=("t",)))
    for extra, good in ((b"", True), (b"a", False)):
        body = b'{"features":{"t":"%b"}}' % (filler * (TEXT_BYTES_MAX // len(filler)) + extra)
        parsed = parse_examples(body, "application/json", context, labelled=False)
        assert [error.code for error in parsed.errors] == ([] if good else ["bad_text"])


def test_a_text_of_many_repeated_words_is_one_feature() -> None:
    assert counted(b"spam " * 100_000, 1) == {"t:spam": 100_000.0}


@pytest.mark.parametrize("control", [*range(0x20), *range(0x7F, 0xA0)])
def test_a_control_character_in_a_text_separates_words_like_any_separator(control: int) -> None:
    assert counted(b"Buy\\u%04xnow buy" % control, 2) == counted(b"Buy.now buy", 2)


@pytest.mark.parametrize("control", range(0x7F, 0xA0))
def test_a_control_character_that_json_allows_bare_separates_words_too(control: int) -> None:
    assert counted(f"Buy{chr(control)}now buy".encode(), 2) == counted(b"Buy.now buy", 2)


def test_a_bare_nul_is_no_json() -> None:
    context = Context(EncoderConfig(text=("t",)))
    with pytest.raises(BadInput):
        parse_examples(b'{"features":{"t":"a\0b"}}', "application/json", context, labelled=False)
