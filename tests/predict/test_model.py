from __future__ import annotations

import dataclasses
import json
import math
import random
import struct
from typing import Literal

import numpy as np
import pytest

from riata.base.errors import RiataError
from riata.learn.learner import Weights
from riata.learn.shapes import Shapes
from riata.learn.truncated_config import TruncatedGradientConfig
from riata.learn.truncated_gradient import TruncatedGradient
from riata.maths.links import Link
from riata.predict.explain import LARGEST
from riata.predict.linear_model import LinearModel
from riata.predict.model import BYTES_MAX, Labels, OneRow, Origin, Plan, RowAnswer, Scores
from riata.predict.uncertainty import Covariance, look_up
from riata.wire.batch import select_rows
from riata.wire.encoder import EncoderConfig
from riata.wire.fields import FieldKinds, Fields
from riata.wire.parse import Context
from tests.predict.rows import batch_of, model_of, origin, random_batch, random_weights
from tests.predict.sketches import random_sketch, served_weights
from tests.twins import dot as dot_twin
from tests.twins import one_row as twin


@pytest.mark.parametrize(
    ("link", "labels", "probability"),
    [
        ("logistic", "0/1", 0.5),
        ("probit", "0/1", 0.5),
        ("identity", "-1/+1", 0.5),
        ("hinge", "0/1", math.nan),
        ("identity", "real", math.nan),
    ],
)
def test_empty_model_answers_its_prior(link: Link, labels: Labels, probability: float) -> None:
    weights = Weights(np.zeros(0, np.uint32), np.zeros(0), 3.0, link, 22)
    model = LinearModel(origin(labels), weights, gen=0, seq=0)
    scores = model.score(batch_of([[], [(3, 1.0), (4_000_000_000, -2.0)]]))
    np.testing.assert_array_equal(scores.probability, [probability, probability])
    np.testing.assert_array_equal(scores.unknown, [0, 2])
    assert model.weights.non_zeros == 0


def test_model_cannot_be_written_through() -> None:
    model = model_of(random_weights(np.random.default_rng(1), 50, 10))
    for array in (model.weights.slot, model.weights.beta, model.bucket):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        model.seq = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("non_zeros", "bits", "buckets"), [(0, 22, 1), (1, 22, 1), (2, 22, 2), (1000, 22, 1024), (1024, 10, 1024)]
)
def test_index_has_about_as_many_buckets_as_weights(non_zeros: int, bits: int, buckets: int) -> None:
    model = model_of(random_weights(np.random.default_rng(2), non_zeros, bits))
    assert len(model.bucket) == buckets + 1
    assert model.bucket[-1] == non_zeros
    assert model.memory() == {"weights": 12 * non_zeros, "index": 4 * (buckets + 1)}


def test_replaced_model_has_its_own_index() -> None:
    rng = np.random.default_rng(3)
    first = model_of(random_weights(rng, 10, 8))
    second = dataclasses.replace(first, weights=random_weights(rng, 100, 8), seq=43)
    assert second.bucket[-1] == 100
    assert first.bucket[-1] == 10


def test_negative_zero_intercept_becomes_zero() -> None:
    model = model_of(Weights(np.zeros(0, np.uint32), np.zeros(0), -0.0, "logistic", 22))
    assert math.copysign(1.0, float(model.score(batch_of([[(1, 1.0)]])).margin[0])) == 1.0


# One row in one native call gives what parsing and scoring give, to the last bit, or leaves the row.


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


def one_model(link: Link, labels: Labels, intercept: float = -0.25) -> LinearModel:
    draw = np.random.default_rng(3)
    slots = np.flatnonzero(draw.random(2**BITS) < 0.6).astype(np.uint32)
    weights = Weights(slots, draw.normal(size=len(slots)), intercept, link, BITS)
    return LinearModel(Origin("m", bytes(16), EncoderConfig(), labels), weights, gen=1, seq=5)


def plan_of(model: LinearModel, context: Context) -> Plan:
    return Plan(model.native, context.encoder, model.origin.labels)


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


def test_kinds_of_fields_are_those_of_one_model() -> None:
    context, row = Context(EncoderConfig()), b'{"features": {"zip": 7}}'
    models = [one_model("logistic", "0/1", k) for k in (0.25, 0.5)]
    asked, plans = OneRow(), [plan_of(model, context) for model in models]
    before = [asked.answer(plan, row, True) for plan in plans]
    kinds = FieldKinds(Fields((("zip", "category"),), meets=False))
    plans[0].rules.kinds = kinds.native
    of_kinds = twin.answer_row(models[0], dataclasses.replace(context, kinds=kinds), row, True)
    assert asked.answer(plans[0], row, True) == of_kinds != before[0]
    for plan, model, intact in ((plans[1], models[1], before[1]), (plan_of(models[0], context), models[0], before[0])):
        assert asked.answer(plan, row, True) == intact == twin.answer_row(model, context, row, True)


@pytest.mark.parametrize(("link", "labels"), MODELS)
@pytest.mark.parametrize("encoder", ENCODERS, ids=["plain", "l2", "texts", "key", "crosses"])
def test_accepted_rows_are_answered_as_by_parsing_and_scoring(link: Link, labels: Labels, encoder: EncoderConfig) -> None:
    model, context, asked, draw = one_model(link, labels), Context(encoder, labels), OneRow(), random.Random(7)
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
    model, asked = one_model("logistic", "0/1"), OneRow()
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
    model, asked = one_model("logistic", "0/1"), OneRow()
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
    model = one_model("logistic", "0/1")
    assert OneRow().answer(plan_of(model, Context(ENCODERS[0])), row, json=True) is None


@pytest.mark.parametrize("query", LEFT_QUERIES)
def test_queries_that_are_left(query: bytes) -> None:
    model = one_model("logistic", "0/1")
    assert OneRow().answer(plan_of(model, Context(ENCODERS[0])), query, json=False) is None


@pytest.mark.parametrize("query", TAKEN_QUERIES)
def test_queries_are_decoded_as_forms_are(query: bytes) -> None:
    model, context = one_model("logistic", "0/1"), Context(ENCODERS[0])
    found = OneRow().answer(plan_of(model, context), query, json=False)
    assert bits_of(found) == bits_of(twin.answer_row(model, context, query, False))


@pytest.mark.parametrize(
    "row", ['{"features":{"ä":1,"b":"東京"}}', '{"features":{"a\\u0041":"\\ud83d\\ude00"}}', '{"features":{"ड़":true}}']
)
def test_rows_that_are_not_ascii_are_answered(row: str) -> None:
    model, context = one_model("logistic", "0/1"), Context(ENCODERS[0])
    found = OneRow().answer(plan_of(model, context), row.encode(), json=True)
    assert bits_of(found) == bits_of(twin.answer_row(model, context, row.encode(), True))


def test_any_query_is_answered_as_the_general_path_answers_it_or_left() -> None:
    draw = random.Random(9)
    model, context = one_model("logistic", "0/1"), Context(ENCODERS[0])
    one, plan, answered = OneRow(), plan_of(model, context), 0
    for _ in range(3000):
        text = bytes(draw.choice(b"a%41+=&&#c3A9 \xc3\x7f~b") for _ in range(draw.randrange(14)))
        found = one.answer(plan, text, json=False)
        if found is not None:
            answered += 1
            assert bits_of(found) == bits_of(twin.answer_row(model, context, text, False)), text
    assert answered > 300


def test_texts_of_a_query_are_left_and_numbers_beside_them_are_not() -> None:
    model = one_model("logistic", "0/1")
    plan = plan_of(model, Context(ENCODERS[2]))
    assert OneRow().answer(plan, b"subject=offer", json=False) is None
    assert OneRow().answer(plan, b"subject=1", json=False) is not None


def test_a_row_that_is_too_long_is_left() -> None:
    model = one_model("logistic", "0/1")
    plan = plan_of(model, Context(ENCODERS[0]))
    body = b'{"features":{"a":1}}'
    assert OneRow().answer(plan, body.ljust(BYTES_MAX), json=True) is not None
    assert OneRow().answer(plan, body.ljust(BYTES_MAX + 1), json=True) is None


def test_a_margin_that_overflows_is_left() -> None:
    model = one_model("logistic", "0/1", intercept=1.7e308)
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
    plans = [one_model("logistic", "0/1").plan for _ in range(20)]
    answers = {OneRow().answer(plan, b"f1=1&f2=1", json=False) for plan in plans if plan is not None}
    assert len(answers) == 1


def test_a_broken_row_raises_nothing() -> None:
    model = one_model("logistic", "0/1")
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


# Scoring.


def sigma(margin: float) -> float:
    """As served models compute it, to the last bit."""
    e = math.exp(-abs(margin))
    return (1.0 if margin >= 0.0 else e) / (1.0 + e)


def rows_of(scores: Scores, rows: slice) -> list[bytes]:
    held = (getattr(scores, field.name) for field in dataclasses.fields(scores))
    return [array[rows].tobytes() for array in held if array is not None]


@pytest.mark.parametrize(("bits", "non_zeros"), [(1, 2), (8, 200), (12, 1), (12, 3000), (22, 5000)])
def test_margin_is_the_sum_in_hash_order_bit_for_bit(bits: int, non_zeros: int) -> None:
    rng = np.random.default_rng(bits * 7 + non_zeros)
    model = model_of(random_weights(rng, non_zeros, bits))
    batch = random_batch(rng, 300, 40)
    scores = model.score(batch)
    weights, margin, known = model.weights, np.empty(300), np.empty(300, np.int64)
    dot_twin.margins(
        batch.indptr, batch.hash, batch.value, weights.slot, weights.beta, model.bucket, bits, weights.intercept, margin, known
    )
    np.testing.assert_array_equal(scores.margin.view(np.uint64), margin.view(np.uint64))
    np.testing.assert_array_equal(scores.known, known)
    np.testing.assert_array_equal(scores.known + scores.unknown, np.diff(batch.indptr))
    np.testing.assert_allclose(scores.probability, [sigma(float(m)) for m in margin], rtol=1e-15, atol=1e-307)


def test_features_that_collide_add_up_one_by_one() -> None:
    model = model_of(Weights(np.array([5], np.uint32), np.array([0.1]), 0.3, "logistic", 4))
    batch = batch_of([[(5 << 28, 0.7), ((5 << 28) + 9, 1e-3), (6 << 28, 100.0)]])
    scores = model.score(batch)
    assert scores.margin[0] == (0.3 + 0.1 * 0.7) + 0.1 * 1e-3
    assert (int(scores.known[0]), int(scores.unknown[0])) == (2, 1)


def test_columns_with_a_shape_are_known_without_a_weight() -> None:
    column, edge, start = np.array([3, 5 << 28, 9 << 28], np.uint32), np.array([0.5, 1.0, 2.0]), np.arange(4)
    shapes = Shapes(column, edge, start, np.zeros((0, 2), np.int64), np.arange(6.0))
    model = model_of(Weights(np.array([5], np.uint32), np.array([0.1]), 0.3, "logistic", 4, shapes=shapes))
    rows = [[(column[0], 2.0), (column[1], 1.5), (7 << 28, 1.0)], [(column[2], 1.0)], [(2, 1.0), (4, 1.0), (column[2] + 1, 1.0)]]
    scores = model.score(batch_of(rows))
    assert scores.known.tolist() == [2, 1, 0]
    assert scores.unknown.tolist() == [1, 0, 3]


def test_scores_do_not_depend_on_how_rows_are_batched() -> None:
    rng = np.random.default_rng(11)
    model = model_of(random_weights(rng, 4000, 12))
    batch = random_batch(rng, 60, 20)
    whole = model.score(batch)
    for i in range(batch.n):
        alone = model.score(select_rows(batch, np.arange(batch.n) == i))
        assert rows_of(alone, slice(0, 1)) == rows_of(whole, slice(i, i + 1))


@pytest.mark.parametrize("loss", ["logistic", "squared", "hinge"])
def test_served_margin_is_what_the_learner_says_before_it_learns(loss: Literal["logistic", "squared", "hinge"]) -> None:
    rng = np.random.default_rng(13)
    learner = TruncatedGradient(TruncatedGradientConfig(loss=loss, gravity=1e-3), bits=7)
    for seed in range(30):
        batch = random_batch(rng, 8, 15)
        batch = dataclasses.replace(batch, label=(rng.random(8) < 0.5).astype(np.float64))
        served = model_of(learner.weights()).score(select_rows(batch, np.arange(8) == 0))
        said = learner.step(batch).margin[0]
        assert served.margin[0].tobytes() == said.tobytes()
        assert seed == 0 or served.known[0] > 0 or batch.indptr[1] == 0


def test_labels_are_written_as_the_client_writes_them() -> None:
    batch = batch_of([[(1, 1.0)], [(1, -1.0)], []])
    weights = Weights(np.array([0], np.uint32), np.array([2.0]), 0.0, "logistic", 8)
    hinge = dataclasses.replace(weights, link="hinge")
    identity = dataclasses.replace(weights, link="identity", intercept=0.5)
    assert model_of(weights).score(batch).label.tolist() == [1.0, 0.0, 0.0]
    assert model_of(weights, "-1/+1").score(batch).label.tolist() == [1.0, -1.0, -1.0]
    assert model_of(hinge).score(batch).label.tolist() == [1.0, 0.0, 0.0]
    assert np.isnan(model_of(hinge).score(batch).probability).all()
    assert model_of(identity).score(batch).probability.tolist() == [1.0, 0.0, 0.5]
    probit = model_of(dataclasses.replace(weights, link="probit")).score(batch)
    assert probit.probability.tolist() == pytest.approx(
        [0.9772498680518208, 0.0227501319481792, 0.5], rel=1e-14
    )  # Phi(2), Phi(-2)
    assert probit.label.tolist() == [1.0, 0.0, 0.0]
    real = model_of(identity, "real").score(batch)
    assert real.label.tolist() == real.margin.tolist() == [2.5, -1.5, 0.5]
    assert np.isnan(real.probability).all()


def test_a_sum_that_overflows_is_held_at_the_largest_double() -> None:
    weights = Weights(np.array([1, 2, 3], np.uint32), np.array([1e308, -1e308, 1.0]), 0.0, "logistic", 8)
    huge, tiny, one = (1 << 24, 1e6), (2 << 24, 1e6), (3 << 24, 1.0)
    scores = model_of(weights).score(batch_of([[huge], [tiny], [huge, tiny, one], [one]]))
    assert scores.margin.tolist() == [LARGEST, -LARGEST, 1.0, 1.0]
    assert scores.probability.tolist() == pytest.approx([1.0, 0.0, sigma(1.0), sigma(1.0)], rel=1e-15)


def test_scoring_changes_nothing() -> None:
    rng = np.random.default_rng(4)
    model = model_of(random_weights(rng, 500, 12))
    batch = random_batch(rng, 40, 20)
    before = (model.weights.beta.tobytes(), model.weights.slot.tobytes(), model.bucket.tobytes(), batch.value.tobytes())
    first = model.score(batch)
    again = model.score(batch)
    assert rows_of(first, slice(None)) == rows_of(again, slice(None))
    assert before == (model.weights.beta.tobytes(), model.weights.slot.tobytes(), model.bucket.tobytes(), batch.value.tobytes())


def test_no_rows_and_rows_without_features_are_answered() -> None:
    model = model_of(random_weights(np.random.default_rng(5), 10, 8))
    assert len(model.score(batch_of([])).margin) == 0
    assert model.score(batch_of([[]])).margin.tolist() == [model.weights.intercept]


@pytest.mark.parametrize("non_zeros", [0, 1, 300])
def test_weights_of_finds_what_the_kernel_finds(non_zeros: int) -> None:
    rng = np.random.default_rng(6)
    model = model_of(dataclasses.replace(random_weights(rng, non_zeros, 9), intercept=0.0))
    hashes = [0, 2**32 - 1, *rng.integers(0, 2**32, 200, dtype=np.int64).tolist()]
    kernel = model.score(batch_of([[(h, 1.0)] for h in hashes])).margin
    assert model.weights.of(hashes) == kernel.tolist()


def test_rows_that_are_not_inside_of_their_features_are_refused() -> None:
    rng = np.random.default_rng(8)
    model, batch = model_of(random_weights(rng, 20, 6)), random_batch(rng, 5, 4)
    with pytest.raises(ValueError, match="not inside of its features"):
        model.score(dataclasses.replace(batch, indptr=batch.indptr + 1))
    with pytest.raises(ValueError, match="do not have the same lengths"):
        model.score(dataclasses.replace(batch, value=batch.value[:-1]))
