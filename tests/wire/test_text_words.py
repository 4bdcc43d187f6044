"""Words of a text: one rule, compiled, and in Python as its reference."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter

import pytest

from riata.base.errors import BadInput
from riata.base.limits import TEXT_BYTES_MAX
from riata.wire.encoder import EncoderConfig, fingerprint
from riata.wire.parse import Context, explain_rows, parse_examples
from riata.wire.scan import reference_words
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
    ]
    alphabet += [
        "É",
        "İ",
        "ß",
        "ẞ",
        "½",
        "日本",
        "日",
        "語",
        "かか\u3099",
        "カ\u3099",
        "ｶﾀ",
        "ー",
        "e\u0301",
        "\\u0301",
        "ς",
        "Σ",
        "ſ",
        "µ",
        "हिन्दी",
    ]
    alphabet += [
        "\u00ad",
        "\u200d",
        "\ufe0f",
        "한국",
        "\u1112\u1161\u11ab",
        "ไทย",
        "\U00020000",
        "\\ud840\\udc00",
        "Ⱥ",
        "Å",
        "ﬀ",
        "٣",
        "א\u05b8",
    ]
    for number in range(600):
        pieces = alphabet[:11] if number % 3 == 0 else alphabet
        string = "".join(rng.choice(pieces) for _ in range(rng.randrange(60))).encode()
        wanted: dict[str, float] = {}
        for gram in twin.read_text(b'"' + string + b'"', ngrams):
            wanted["t:" + gram.decode()] = wanted.get("t:" + gram.decode(), 0.0) + 1.0
        assert counted(string, ngrams) == wanted, string


def test_slow_words_agree_with_the_twin_on_ascii() -> None:
    text = "Hello, HELLO world_1 it's 3.5%"
    for ngrams in (1, 2, 3):
        assert reference_words(text, ngrams, 2) == reference_words(text, ngrams, 1)
        assert reference_words(text, ngrams, 2) == twin.read_text(json.dumps(text).encode(), ngrams)
    assert reference_words(text, 1, 2) == [b"hello", b"hello", b"world_1", b"it", b"s", b"3", b"5"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Straße STRASSE", "straße strasse"),
        ("naïve Ｆｕｌｌ", "naïve ｆｕｌｌ"),
        ("ΟΔΟΣ οδος", "οδοσ οδοσ"),
        ("東京都庁", "東京 京都 都庁"),
        ("東 京a都", "東 京 a 都"),
        ("ラーメンlove", "ラー ーメ メン love"),
        ("हिन्दी में", "हिन्दी में"),
        ("a\u00adb c\u200dd", "ab cd"),
        ("e\u0301 E\u0301", "é é"),
        ("Ελλάδα 2½", "ελλάδα 2½"),
        ("한국어 단어", "한국어 단어"),
        ("ภาษาไทย", "ภาษาไทย"),
        ("it's 3.5%", "it s 3 5"),
    ],
)
def test_the_rule_of_words_in_examples(text: str, words: str) -> None:
    assert [word.decode() for word in reference_words(text, 1, 2)] == words.split(" ")
    assert counted(json.dumps(text).encode()[1:-1], 1) == {f"t:{word}": words.split().count(word) for word in words.split()}
    assert counted(text.encode(), 1) == counted(json.dumps(text).encode()[1:-1], 1)


def test_a_model_of_the_old_rule_keeps_its_words() -> None:
    encoder = EncoderConfig(text=("t",), words=1)
    rows = explain_rows('{"features":{"t":"ΟΔΟΣ 東京都"}}'.encode(), "application/json", Context(encoder))
    assert {name for _, _, name in rows[0]} == {"t:οδος", "t:東京都"}
    assert fingerprint(encoder) != fingerprint(EncoderConfig(text=("t",)))


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


@pytest.mark.parametrize("ngrams", [1, 2])
def test_words_that_come_again_far_apart_are_counted_among_thousands(ngrams: int) -> None:
    rng = random.Random(12)
    words = [f"w{rng.randrange(3000)}" for _ in range(6000)]
    grams = [f"t:{gram}" for gram in words + [f"{a} {b}" for a, b in itertools.pairwise(words)] * (ngrams > 1)]
    assert counted(" ".join(words).encode(), ngrams) == Counter(grams)


def test_a_cross_with_a_text_combines_each_time_a_word_comes() -> None:
    context = Context(EncoderConfig(text=("t",), crosses=(("t", "c"), ("t", "t"))))
    rows = explain_rows(b'{"features":{"t":"a b a","c":"x"}}', "application/json", context)
    found = {name: value for _, value, name in rows[0]}
    assert (found["t:a"], found["t:a × c=x"], found["t:b × c=x"]) == (2.0, 2.0, 1.0)
    assert sum(value for name, value in found.items() if name.count("t:") == 2) == 3.0


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
