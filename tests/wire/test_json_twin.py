"""The compiled reader of JSON and its slow twin accept the same rows with the same bits, and refuse for the same reason."""

from __future__ import annotations

import hashlib
import random

import numpy as np
import pytest

from riata.base.errors import Malformed
from riata.base.limits import BODY_BYTES_MAX
from riata.wire.codes import BY_PREDICTION, HANDOVER, INVALID_UTF8, OK, SLUGS, SYNTAX, TOO_DEEP
from riata.wire.encoder import EncoderConfig
from riata.wire.names import NO_NAMES
from riata.wire.parse import Context, Labels, make_rules, parse_examples
from riata.wire.parsed import Parsed
from riata.wire.readers.json.body import read_ndjson
from riata.wire.rows import ROWS, make_row, make_sink, row_capacity
from riata.wire.scan.delimiters import FRONT, Text
from tests.twins import json_text as twin
from tests.wire.json_bodies import make_line

CONTEXTS = [
    (Context(EncoderConfig(text=("t", "body"), ngrams=3)), True),
    (Context(EncoderConfig(text=("t",), normalise="l2", hash_key=12345), "-1/+1"), True),
    (Context(EncoderConfig(), "real"), True),
    (Context(EncoderConfig(text=("a",), ngrams=2, normalise="l2")), False),
]
LINES_A_BODY = 2000
UNREADABLE = {"malformed", "too_deep", "invalid_utf8"}  # which of these wins depends on what is looked at first


def bits(values: list[float]) -> list[str]:
    return [value.hex() for value in values]


def check_rows(parsed: Parsed, outcomes: list[twin.Outcome], lines: list[bytes]) -> None:
    assert parsed.rows == len(outcomes) == len(lines)
    reason = {error.index: error.code for error in parsed.errors}
    place = {int(row): k for k, row in enumerate(parsed.row)}
    batch = parsed.batch
    for number, (outcome, line) in enumerate(zip(outcomes, lines, strict=True)):
        if outcome.code != OK:
            assert number in reason, line
            # Bytes that are no UTF-8 stop the twin before it looks further, the compiled reader when it gets to them.
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
        assert bits([batch.label[k], batch.weight[k]]) == bits([outcome.label, outcome.weight]), line
        assert bool(batch.has_id[k]) == (outcome.event_id != b""), line
        if outcome.event_id:
            assert batch.event_id[k].tobytes() == hashlib.blake2b(outcome.event_id, digest_size=16).digest(), line


def compare_ndjson(count: int, seed: int) -> None:
    rng = random.Random(seed)
    for number in range(count // LINES_A_BODY):
        context, labelled = CONTEXTS[number % len(CONTEXTS)]
        lines = [line for line in (make_line(rng, labelled) for _ in range(LINES_A_BODY)) if line.strip(b" \t\r")]
        parsed = parse_examples(b"\n".join([b"", *lines]), "application/x-ndjson", context, labelled)
        rules = make_rules(context, labelled)
        outcomes = [twin.take_row(twin.read_example(line, rules), rules) for line in lines]
        check_rows(parsed, outcomes, lines)
        assert 0.05 * len(lines) < len(parsed.errors) < 0.95 * len(lines)  # else the generator tests one side only


def test_both_readers_agree_on_100_000_lines() -> None:
    compare_ndjson(100_000, seed=1)


@pytest.mark.parametrize("labels", ["0/1", "-1/+1", "real"])
def test_both_readers_agree_on_arrays_and_single_objects(labels: Labels) -> None:
    rng = random.Random(3)
    context = Context(EncoderConfig(text=("t",)), labels)
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


def test_most_well_formed_rows_are_read_by_the_compiled_reader() -> None:
    rng = random.Random(4)
    lines = [make_line(rng) for _ in range(LINES_A_BODY)]
    body = np.frombuffer(bytes(FRONT) + b"\n".join(lines) + b"\n" + b" " * BODY_BYTES_MAX, np.uint8).copy()[FRONT:]
    size = sum(map(len, lines)) + len(lines)
    text = Text(body.ctypes.data, size - 1, body, np.empty(size + 2, np.int64))
    sink = make_sink(size, len(lines), 1)
    rules = make_rules(CONTEXTS[0][0], True, NO_NAMES)
    read_ndjson(text, make_row(row_capacity(size, 3)), sink, rules)
    codes = sink.code[: sink.count[ROWS]]
    well_formed = codes[(codes != SYNTAX) & (codes != TOO_DEEP)]
    # A third of these lines is built to be handed over; ordinary traffic never is.
    assert (well_formed == HANDOVER).mean() < 0.35
