"""One row in one native call gives what parsing and scoring give, to the last bit, or leaves the row."""

from __future__ import annotations

import dataclasses
import json
import random
import struct

import numpy as np
import pytest

from riata.base.errors import RiataError
from riata.learn.learner import Weights
from riata.maths.links import Link
from riata.predict.linear_model import LinearModel
from riata.predict.model import BYTES_MAX, Labels, OneRow, Origin, Plan, RowAnswer
from riata.predict.uncertainty import Covariance, look_up
from riata.wire.encoder import EncoderConfig
from riata.wire.parse import Context
from tests.predict.sketches import random_sketch, served_weights
from tests.twins import one_row as twin

BITS = 12  # so few slots that a model of many weights knows some of the names
ENCODERS = [
    EncoderConfig(bits=BITS),
    EncoderConfig(bits=BITS, normalise="l2"),
    EncoderConfig(bits=BITS, text=("subject", "body"), ngrams=3),
    EncoderConfig(bits=BITS, hash_key=2**63 - 1, text=("subject",)),
    EncoderConfig(
        bits=BITS, text=("subject",), crosses=(("age", "country"), ("f1", "f2"), ("f1", "f1", "country")), cross_scale=0.3
    ),
]
MODELS: list[tuple[Link, Labels]] = [
    ("logistic", "0/1"), ("logistic", "-1/+1"), ("probit", "0/1"), ("identity", "0/1"), ("hinge", "-1/+1"), ("identity", "real"),
]  # fmt: skip
LEFT = [
    b"",
    b"[]",
    b'[{"features":{"a":1}}]',
    b'{"features":{"a":1}',
    b'{"features":{"a":1}} {',
    b'{"features":{"a":1},"label":1}',
    b'{"features":{"a":1,"a":2}}',
    b'{"features":{"a":1e300}}',
    b'{"features":{"a":[1]}}',
    b'{"features":{"a":1},"other":2}',
    b'{"features":{"a\xff":1}}',
    '{"features":{"e\u0301":1}}'.encode(),
    b'{"features":{"a\\ud800":1}}',
    b"\xef\xbb\xbf{}",
]
LEFT_QUERIES = [b"=1", b"_explain=true", b"%5Fexplain=true", b"a=1&a=2", b"a=x&a=1", b"a=%FF", b"%C3=1", b"a=%85", b"a=%C2%85",
                b"e%CC%81=1", b"a=1e300", b"a=\x01", b"a=1#b", b"a=b\x7f", b"a=b c", b"a=" + b"x" * 300, b"a=\xc3\xa9",
                b"x" * 300 + b"=1"]  # fmt: skip
TAKEN_QUERIES = [b"a", b"a=", b"a=1&&b=2", b"&", b"a=%41", b"a=1+2", b"a=x&a=y&b=1&a=x", b"a=%e6%9d%b1%E4%BA%AC", b"%61=1",
                 b"a=%31", b"city=New%20York&city=S%C3%A3o+Paulo", b"a=100%", b"a=%zz", b"a=%4", b"a=b=c", b"a+b=1"]  # fmt: skip


def model_of(link: Link, labels: Labels, intercept: float = -0.25) -> LinearModel:
    draw = np.random.default_rng(3)
    slots = np.flatnonzero(draw.random(2**BITS) < 0.6).astype(np.uint32)
    weights = Weights(slots, draw.normal(size=len(slots)), intercept, link, BITS)
    return LinearModel(Origin("m", bytes(16), EncoderConfig(), labels), weights, gen=1, seq=5)


def plan_of(model: LinearModel, context: Context) -> Plan:
    return Plan(model.native, dataclasses.replace(context, labels=model.origin.labels))


def body_of(draw: random.Random) -> bytes:
    def value() -> object:
        words = " ".join(draw.choice(["Offer", "now", "viagra", "hello,", "A-b"]) for _ in range(draw.randrange(6)))
        numbers = [draw.random(), -draw.randrange(10**6), 0, 1e-310, 0.1 + 1e-17]
        return draw.choice([*numbers, True, None, "de", words, ["x", "y", "x"]])

    names = [draw.choice(["age", "country", "subject", "body", f"f{draw.randrange(99)}"]) for _ in range(draw.randrange(40))]
    more: list[dict[str, object]] = [{}, {"weight": 2}, {"ts": "2026-11-20T11:14:00Z"}]
    document = {"features": {name: value() for name in names}, **draw.choice(more)}
    separators = draw.choice([(",", ":"), (", ", ": ")])
    return draw.choice([b"", b" \n"]) + json.dumps(document, separators=separators).encode() + draw.choice([b"", b"\r\n "])


def query_of(draw: random.Random) -> bytes:
    values = ["1", "-2.5", "1e3", "0", "-0", "007", ".5", "1.", "de", "a:b;c", "1_000", "nan", "infinity", "0x10", "1.5e", "~"]
    values += ["New%20York", "S%C3%A3o+Paulo", "%E6%9D%B1", "a%", "%2B1", "%31"]
    names = draw.choices([f"f{k}" for k in range(30)] + ["caf%C3%A9", "a+b", "%66"], k=draw.randrange(12))
    return "&".join(f"{name}={draw.choice([*values, repr(draw.random())])}" for name in dict.fromkeys(names)).encode()


def bits_of(answer: RowAnswer | None) -> bytes:
    """The bits, so that NaN equals NaN and -0.0 differs from 0.0."""
    assert answer is not None
    return struct.pack("<dddqq", *answer)


@pytest.mark.parametrize(("link", "labels"), MODELS)
@pytest.mark.parametrize("encoder", ENCODERS, ids=["plain", "l2", "texts", "key", "crosses"])
def test_accepted_rows_are_answered_as_by_parsing_and_scoring(link: Link, labels: Labels, encoder: EncoderConfig) -> None:
    model, context, asked, draw = model_of(link, labels), Context(encoder, labels), OneRow(), random.Random(7)
    plan = plan_of(model, context)
    taken = 0
    for round_ in range(120):
        is_json = round_ % 2 == 0
        row = body_of(draw) if is_json else query_of(draw)
        found = asked.answer(plan, row, is_json)
        if found is not None:
            taken += 1
            assert bits_of(found) == bits_of(twin.answer_row(model, context, row, is_json)), row
    assert taken >= 60


def test_a_longer_row_leaves_nothing_for_the_next() -> None:
    model, asked = model_of("logistic", "0/1"), OneRow()
    context = Context(ENCODERS[0])
    plan = plan_of(model, context)
    long = json.dumps({"features": {f"f{k}": k / 7 for k in range(400)}}).encode()
    short = b'{"features":{"a":1}}'
    first = asked.answer(plan, short, True)
    assert asked.answer(plan, long, True) == twin.answer_row(model, context, long, True)
    assert asked.answer(plan, b"{", True) is None
    assert asked.answer(plan, short, True) == first


@pytest.mark.parametrize("is_json", [True, False])
def test_rows_of_every_length_fit_into_the_sort_scratch(is_json: bool) -> None:
    model, asked = model_of("logistic", "0/1"), OneRow()
    context = Context(ENCODERS[0])
    plan = plan_of(model, context)
    lengths = [*range(60, 70), 80, 95, 96, 97, *range(110, 132), 200, 341]
    for length in lengths:
        values = {f"f{k}": k / 7 + 1 for k in range(length)}
        text = json.dumps({"features": values}) if is_json else "&".join(f"{name}={value}" for name, value in values.items())
        row = text.encode()
        assert bits_of(asked.answer(plan, row, is_json)) == bits_of(twin.answer_row(model, context, row, is_json))


@pytest.mark.parametrize("row", LEFT)
def test_bodies_that_are_left(row: bytes) -> None:
    model = model_of("logistic", "0/1")
    assert OneRow().answer(plan_of(model, Context(ENCODERS[0])), row, json=True) is None


@pytest.mark.parametrize("query", LEFT_QUERIES)
def test_queries_that_are_left(query: bytes) -> None:
    model = model_of("logistic", "0/1")
    assert OneRow().answer(plan_of(model, Context(ENCODERS[0])), query, json=False) is None


@pytest.mark.parametrize("query", TAKEN_QUERIES)
def test_queries_are_decoded_as_forms_are(query: bytes) -> None:
    model, context = model_of("logistic", "0/1"), Context(ENCODERS[0])
    found = OneRow().answer(plan_of(model, context), query, json=False)
    assert bits_of(found) == bits_of(twin.answer_row(model, context, query, False))


@pytest.mark.parametrize(
    "row", ['{"features":{"ä":1,"b":"東京"}}', '{"features":{"a\\u0041":"\\ud83d\\ude00"}}', '{"features":{"ड़":true}}']
)
def test_rows_that_are_not_ascii_are_answered(row: str) -> None:
    model, context = model_of("logistic", "0/1"), Context(ENCODERS[0])
    found = OneRow().answer(plan_of(model, context), row.encode(), json=True)
    assert bits_of(found) == bits_of(twin.answer_row(model, context, row.encode(), True))


def test_any_query_is_answered_as_the_general_path_answers_it_or_left() -> None:
    draw = random.Random(9)
    model, context = model_of("logistic", "0/1"), Context(ENCODERS[0])
    one, plan, answered = OneRow(), plan_of(model, context), 0
    for _ in range(3000):
        text = bytes(draw.choice(b"a%41+=&&#c3A9 \xc3\x7f~b") for _ in range(draw.randrange(14)))
        found = one.answer(plan, text, json=False)
        if found is not None:
            answered += 1
            assert bits_of(found) == bits_of(twin.answer_row(model, context, text, False)), text
    assert answered > 300


def test_texts_of_a_query_are_left_and_numbers_beside_them_are_not() -> None:
    model = model_of("logistic", "0/1")
    plan = plan_of(model, Context(ENCODERS[2]))
    assert OneRow().answer(plan, b"subject=offer", json=False) is None
    assert OneRow().answer(plan, b"subject=1", json=False) is not None


def test_a_row_that_is_too_long_is_left() -> None:
    model = model_of("logistic", "0/1")
    plan = plan_of(model, Context(ENCODERS[0]))
    body = b'{"features":{"a":1}}'
    assert OneRow().answer(plan, body.ljust(BYTES_MAX), json=True) is not None
    assert OneRow().answer(plan, body.ljust(BYTES_MAX + 1), json=True) is None


def test_a_margin_that_overflows_is_left() -> None:
    model = model_of("logistic", "0/1", intercept=1.7e308)
    plan = plan_of(model, Context(ENCODERS[0]))
    found = [OneRow().answer(plan, f"f{k}=1".encode(), json=False) for k in range(20)]
    assert any(answer is not None for answer in found)
    heavy = Weights(model.weights.slot, np.full(model.weights.non_zeros, 1.7e308), 1.7e308, "logistic", BITS)
    model = LinearModel(model.origin, heavy, gen=1, seq=5)
    plan = plan_of(model, Context(ENCODERS[0]))
    found = [OneRow().answer(plan, f"f{k}=10".encode(), json=False) for k in range(20)]
    assert None in found


def test_a_model_with_an_uncertainty_has_no_plan() -> None:
    sketch = random_sketch(np.random.default_rng(2))
    weights, origin = served_weights(sketch), Origin("m", bytes(16), EncoderConfig(), "0/1")
    assert LinearModel(origin, weights, 1, 5, look_up(Covariance.of(sketch), weights)).plan is None
    assert LinearModel(origin, weights, 1, 5).plan is not None


def test_the_plan_of_a_model_outlives_it() -> None:
    plans = [model_of("logistic", "0/1").plan for _ in range(20)]
    answers = {OneRow().answer(plan, b"f1=1&f2=1", json=False) for plan in plans if plan is not None}
    assert len(answers) == 1


def test_a_broken_row_raises_nothing() -> None:
    model = model_of("logistic", "0/1")
    plan = plan_of(model, Context(ENCODERS[0]))
    draw = random.Random(5)
    asked = OneRow()
    for _ in range(300):
        row = bytearray(body_of(draw))
        row[draw.randrange(len(row))] = draw.randrange(128)
        found = asked.answer(plan, bytes(row), json=True)
        try:
            expected = twin.answer_row(model, Context(ENCODERS[0]), bytes(row), True)
        except RiataError:
            expected = None
        assert found is None or bits_of(found) == bits_of(expected)
