"""The native reader of JSON and its slow twin accept the same rows with the same bits, and refuse for the same reason."""

from __future__ import annotations

import hashlib
import random
import re

import pytest

from riata.base.errors import Malformed
from riata.native.reading import read_json_lines
from riata.wire.classes import ClassesConfig, name_of_number
from riata.wire.codes import BY_PREDICTION, HANDOVER, INVALID_UTF8, OK, SLUGS, SYNTAX, TOO_DEEP
from riata.wire.encoder import EncoderConfig
from riata.wire.names import NO_NAMES, NamesSeen
from riata.wire.parse import Context, Labels, make_rules, parse_examples
from riata.wire.parsed import Parsed
from riata.wire.scan import ClassLabel
from tests.twins import json_text as twin
from tests.wire.compiled_reader import run
from tests.wire.json_bodies import check_notes, make_line

CONTEXTS = [
    (Context(EncoderConfig(text=("t", "body"), ngrams=3)), True),
    (Context(EncoderConfig(text=("t",), normalise="l2", hash_key=12345), "-1/+1"), True),
    (Context(EncoderConfig(), "real"), True),
    (Context(EncoderConfig(text=("a",), ngrams=2, normalise="l2")), False),
    (Context(EncoderConfig(text=("t",), crosses=(("a", "b"), ("t", "a"), ("a", "a", "t")), cross_scale=0.3)), True),
    (Context(EncoderConfig(), "classes", classes=ClassesConfig(max=256)), True),
]
NAMES = ('"sport"', '"7"', '"München, Süd"', '"\\u00e9"', "7")
LINES_A_BODY = 2000
DIGITS = re.compile(rb"[0-9.]{20}")
UNREADABLE = {"malformed", "too_deep", "invalid_utf8"}  # which of these wins depends on what is looked at first


def bits(values: list[float]) -> list[str]:
    return [value.hex() for value in values]


def check_rows(
    parsed: Parsed, outcomes: list[twin.Outcome], lines: list[bytes], hash_key: int = 0, labelled: bool = True
) -> None:
    assert parsed.rows == len(outcomes) == len(lines)
    reason = {error.index: error.code for error in parsed.errors}
    place = {int(row): k for k, row in enumerate(parsed.row)}
    batch = parsed.batch
    for number, (outcome, line) in enumerate(zip(outcomes, lines, strict=True)):
        if outcome.code != OK:
            assert number in reason, line
            # Bytes that are no UTF-8 stop the twin before it looks further, the native reader when it gets to them.
            if outcome.code == BY_PREDICTION:  # such rows are read once more, and refused for reasons of their own
                assert reason[number] != SLUGS[BY_PREDICTION][0], line
            elif outcome.code != INVALID_UTF8:
                same = UNREADABLE if outcome.code in (SYNTAX, TOO_DEEP) else {SLUGS[outcome.code][0]}
                assert reason[number] in same, (line, reason[number])
            continue
        assert number in place, (line, reason.get(number))
        k = place[number]
        begin, end = batch.indptr[k], batch.indptr[k + 1]
        assert batch.hash[begin:end].tolist() == outcome.hashes, line
        assert bits(batch.value[begin:end].tolist()) == bits(outcome.values), line
        if parsed.classes:
            name = outcome.label.name if isinstance(outcome.label, ClassLabel) else name_of_number(outcome.label)
            assert parsed.classes[int(batch.label[k])] == name, line
        else:
            assert batch.label[k].hex() == outcome.label.hex(), line
        assert batch.weight[k].hex() == outcome.weight.hex(), line
        assert bool(batch.has_id[k]) == (outcome.event_id != b""), line
        if outcome.event_id:
            assert batch.event_id[k].tobytes() == hashlib.blake2b(outcome.event_id, digest_size=16).digest(), line
        check_notes(batch, k, outcome, hash_key, labelled)


def compare_ndjson(count: int, seed: int) -> None:
    rng = random.Random(seed)
    for number in range(count // LINES_A_BODY):
        context, labelled = CONTEXTS[number % len(CONTEXTS)]
        labels = NAMES if context.labels == "classes" else ("1",)
        lines = [line for line in (make_line(rng, labelled, labels) for _ in range(LINES_A_BODY)) if line.strip(b" \t\r")]
        parsed = parse_examples(b"\n".join([b"", *lines]), "application/x-ndjson", context, labelled)
        rules = make_rules(context, labelled)
        outcomes = [twin.take_row(twin.read_example(line, rules), rules) for line in lines]
        check_rows(parsed, outcomes, lines, context.encoder.hash_key, labelled)
        assert 0.05 * len(lines) < len(parsed.errors) < 0.95 * len(lines)  # else the generator tests one side only


@pytest.mark.parametrize("count", [12_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_both_readers_agree_on_many_lines(count: int) -> None:
    compare_ndjson(count, seed=1)


@pytest.mark.parametrize("labels", ["0/1", "-1/+1", "real"])
def test_both_readers_agree_on_arrays_and_single_objects(labels: Labels) -> None:
    rng = random.Random(3)
    context = Context(EncoderConfig(text=("t",)), labels, by_row=True)
    refused = accepted = 0
    for _ in range(700):
        lines = [make_line(rng) for _ in range(rng.choice((1, 1, 2)))]
        body = rng.choice((b"%b", b"%b", b"[%b]", b" [%b ] ", b"[%b,]", b"[%b")) % b", ".join(lines)
        outcomes = twin.read_json(body, make_rules(context, True))
        if isinstance(outcomes, int) or not outcomes:
            refused += 1
            with pytest.raises(Malformed):
                parse_examples(body, "application/json", context, True)
            continue
        accepted += 1
        parsed = parse_examples(body, "application/json", context, True)
        check_rows(parsed, outcomes, lines if len(lines) == len(outcomes) else [body] * len(outcomes))
        assert parsed.single == (not body.strip().startswith(b"["))
    assert min(refused, accepted) > 100


def test_no_row_is_left_to_the_reader_in_python_but_numbers_next_to_a_tie_and_texts_of_the_old_rule() -> None:
    rng, left = random.Random(4), 0
    for words in (1, 2):
        labels: Labels = "classes" if words == 2 else "0/1"
        rules = make_rules(Context(EncoderConfig(text=("t", "body"), ngrams=3, words=words), labels), True, NO_NAMES)
        lines = [make_line(rng, labels=NAMES) for _ in range(LINES_A_BODY)]
        _, _, rows = run(read_json_lines, b"\n".join(lines), rules)
        lines = [line for line in lines if line.strip(b" \t\r")]
        for line, row in zip(lines, rows, strict=True):
            if row.code == HANDOVER:
                left += 1
                assert DIGITS.search(line) or (words == 1 and (not line.isascii() or b"\\u" in line)), line
    assert left > 0


ASCII = ["city", "Muenchen", "Smith, John", "a b", "x}y", "path/to"]
SPELLED = ["caf\\u00e9", "\\ud83d\\ude00", '\\"q\\"', "\\\\", "\\/", "n\\u0041", "東京都", "Zürich"]
SPELLED += ["हिन्दी ड़", "한국어"]
SPOILED = [
    "e\u0301",
    "a\\u0301",
    "\\u000a",
    "\\ud800",
    "\u0085",
    "\\u009f",
    "\\x",
    "\x7f",
    "x" * 257,
    "é" * 129,
    "\\t",
    "",
    "\ufffe",
]


def spelled(rng: random.Random) -> bytes:
    """An example whose names and values are hardly ever ASCII; one of ten has bytes that are not UTF-8."""

    def text() -> str:
        kinds = ASCII if rng.random() < 0.2 else SPOILED if rng.random() < 0.005 else SPELLED
        return rng.choice(kinds) + str(rng.randrange(50)) * (rng.random() < 0.7)

    def value() -> str:
        words = " ".join(text() for _ in range(rng.randrange(9)))
        return rng.choice([f'"{text()}"', "1.5", "-2", "true", "null", f'["{text()}", "{text()}"]', f'"{words}"'])

    names = ["t", "body", *(text() for _ in range(rng.randrange(12)))]
    members = rng.choice([",", ", "]).join(
        f'"{name}"{rng.choice([":", ": "])}{value()}' for name in rng.sample(names, len(names))
    )
    more = rng.choice(["", "", f', "event_id": "{text()}"', ', "t\\u0073":"2026-11-20T11:14:00Z"', ',"weight":2'])
    line = f'{{"features":{{{members}}},"label":1{more}}}'.encode()
    if rng.random() < 0.1:
        at = rng.randrange(len(line))
        line = line[:at] + bytes([rng.choice((0x80, 0xC3, 0xE2, 0xED, 0xF4, 0xFF))]) + line[at + rng.randrange(2) :]
    return line


def test_both_readers_agree_where_ascii_is_the_exception() -> None:
    rng, refused, total = random.Random(21), 0, 0
    for number in range(8):
        context = Context(EncoderConfig(text=("t", "body"), ngrams=1 + number % 3, normalise=("none", "l2")[number % 2]))
        lines = [spelled(rng) for _ in range(500)]
        parsed = parse_examples(b"\n".join(lines), "application/x-ndjson", context, True)
        rules = make_rules(context, True)
        check_rows(parsed, [twin.take_row(twin.read_example(line, rules), rules) for line in lines], lines)
        refused, total = refused + len(parsed.errors), total + len(lines)
    assert 0.1 * total < refused < 0.9 * total


def test_names_with_escapes_are_shown_decoded() -> None:
    body = b'{"features":{"caf\\u00e9":1,"c\\u0069ty":"M\\u00fcnchen","t":"Caf\\u00c9 \\ud83d\\ude00"},"label":1}\n' * 2
    parsed = parse_examples(body, "application/x-ndjson", Context(EncoderConfig(text=("t",)), names=NamesSeen()), True)
    assert [name.decode() for _, name in parsed.names] == ["café", "city=München", "t:café"]
    wrong = b'{"features":{"a":1},"label":1}\n{"features":{"c\\u0085":1},"label":1}\n{"features":{"d\\u0085":1},"label":1}'
    parsed = parse_examples(wrong, "application/x-ndjson", Context(EncoderConfig()), True)
    assert [error.detail.partition(":")[0] for error in parsed.errors] == ["features.c\ufffd", "features.d\ufffd"]


@pytest.mark.parametrize("body", [b'{"x":1,"features":{"\xff":1}}', b'{"features":{"\xc3":1},"label":1}', b'{"\xff":1}'])
def test_bytes_that_are_not_utf8_go_before_any_fault_but_syntax(body: bytes) -> None:
    context = Context(EncoderConfig())
    assert [error.code for error in parse_examples(body, "application/x-ndjson", context, True).errors] == ["invalid_utf8"]
    broken = parse_examples(body[:-1], "application/x-ndjson", context, True)
    assert [error.code for error in broken.errors] == ["malformed"]
