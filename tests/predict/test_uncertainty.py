from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import pytest

from riata.base.arrays import F64
from riata.learn.learner import Sketch, Weights
from riata.learn.registry import build_learner
from riata.learn.taylor_config import TaylorSketchConfig
from riata.predict import uncertainty
from riata.predict.factory import make_model
from riata.predict.linear_model import LinearModel
from riata.predict.name_book import NameBook
from riata.predict.uncertainty import (
    EVIDENCE_MIN,
    FLOOR,
    NEW,
    OUTSIDE,
    TAIL_MAX,
    Covariance,
    Path,
    Point,
    Span,
    look_up,
    regularisation_path,
)
from riata.wire.batch import Batch
from tests.learn.paper_design import BITS, ORIGIN, correlated_normals, coverage, dense_rows, draw_labels
from tests.learn.streams import to_batch
from tests.predict.rows import batch_of, model_of, random_batch, top_of
from tests.predict.sketches import random_sketch, served_weights, with_all_weights
from tests.twins import uncertainty as twin
from tests.twins.truncated_step import Event


def model_with(sketch: Sketch, weights: Weights | None = None) -> LinearModel:
    served = served_weights(sketch) if weights is None else weights
    return dataclasses.replace(model_of(served), uncertainty=look_up(Covariance.of(sketch), served))


def std_errors(model: LinearModel, batch: Batch) -> F64:
    return model.score(batch).std_error


def row_on(sketch: Sketch, values: dict[int, float]) -> Batch:
    """A row with a value for some slots."""
    return batch_of([sorted((slot << (32 - sketch.bits), x) for slot, x in values.items())])


@pytest.mark.parametrize("bits", [8, 32])
@pytest.mark.parametrize("intercept", [True, False])
def test_it_is_the_root_of_the_quadratic_form_of_the_inverse_curvature_and_of_the_diagonal_outside(
    intercept: bool, bits: int
) -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        sketch = random_sketch(rng, intercept=intercept, bits=bits)
        active = sketch.beta != 0.0
        active[0] |= intercept
        covariance = np.linalg.inv((sketch.cross + np.diag(sketch.curvature))[np.ix_(active, active)])
        x, z = rng.normal(size=len(sketch.slot)), rng.normal(size=len(sketch.outside_slot))
        x[0] = 1.0 if intercept else x[0]
        variance = x[active] @ covariance @ x[active] + np.sum((z**2 / sketch.outside_curvature)[sketch.outside_beta != 0.0])
        values = dict(zip(sketch.slot.tolist(), x.tolist(), strict=True)) if not intercept else {}
        if intercept:
            values = dict(zip(sketch.slot[1:].tolist(), x[1:].tolist(), strict=True))
        values |= dict(zip(sketch.outside_slot.tolist(), z.tolist(), strict=True))
        found = std_errors(model_with(sketch), row_on(sketch, values))
        np.testing.assert_allclose(found, [math.sqrt(variance)], rtol=1e-12)


@pytest.mark.parametrize("spanned", [True, False])
def test_the_kernel_agrees_with_its_twin_on_rows_whose_features_share_slots(spanned: bool) -> None:
    rng = np.random.default_rng(4)
    sketch = with_all_weights(random_sketch(rng, members=30, outside=30, bits=7))
    weights = served_weights(sketch)
    outside = ("slot", "beta", "gradient", "curvature", "prior", "gamma")
    shorter = {f"outside_{name}": getattr(sketch, f"outside_{name}")[:20] for name in outside}
    stale = dataclasses.replace(sketch, **shorter, beta=np.where(rng.random(30) < 0.3, 0.0, sketch.beta))
    found = look_up(Covariance.of(stale), weights)
    assert found is not None
    assert set(np.minimum(found.spread.place, 0).tolist()) == {NEW, OUTSIDE, 0}
    batch = random_batch(rng, 200, 4 if spanned else 40)
    if spanned:
        slots = rng.permutation(128).astype(np.uint32)
        at = np.concatenate([np.sort(slots[:100]), np.sort(slots[100:])])
        still_at = np.where(rng.random(28) < 0.5, batch.value[:28], 1.0)
        share = rng.uniform(0.0, 1.2, len(found.spread.covariance))
        span = Span(found.spread.covariance * np.sqrt(np.outer(share, share)), at[:100], at[100:], still_at)
        found = dataclasses.replace(found, span=span)
    model = dataclasses.replace(model_of(weights), uncertainty=found)
    expected = np.empty(batch.n)
    twin.row_variances(batch.indptr, batch.hash, batch.value, weights.slot, 7, found.spread, found.span, expected)
    errors = std_errors(model, batch)
    assert (0 < np.isnan(errors).sum() < batch.n) == spanned
    np.testing.assert_allclose(errors**2, expected, rtol=1e-10)


def test_features_without_a_weight_add_nothing() -> None:
    sketch = random_sketch(np.random.default_rng(5), members=6, outside=4)
    model = model_with(sketch)
    alone = std_errors(model, batch_of([[]]))
    unweighted = {int(s): 3.0 for s, b in zip(sketch.slot[1:], sketch.beta[1:], strict=True) if b == 0.0}
    unweighted |= {int(s): 3.0 for s, b in zip(sketch.outside_slot, sketch.outside_beta, strict=True) if b == 0.0}
    assert len(unweighted) >= 2
    assert std_errors(model, row_on(sketch, unweighted)).tolist() == alone.tolist()


def test_a_weight_newer_than_the_covariance_counts_by_its_curvature_and_an_unknown_one_counts_1() -> None:
    sketch = with_all_weights(random_sketch(np.random.default_rng(6)))
    sleeping = dataclasses.replace(sketch, beta=np.array([0.5, 0.0, 1.0, 1.0, 1.0, 1.0]))
    served = served_weights(sketch)
    stranger = next(s for s in range(256) if s not in set(served.slot.tolist()))
    at = int(np.searchsorted(served.slot, stranger))
    served = dataclasses.replace(served, slot=np.insert(served.slot, at, stranger), beta=np.insert(served.beta, at, 0.25))
    model = model_with(sleeping, served)
    nothing = float(std_errors(model, batch_of([[]]))[0]) ** 2
    woken = float(std_errors(model, row_on(sketch, {int(sketch.slot[1]): 2.0}))[0]) ** 2
    assert woken - nothing == pytest.approx(4.0 / sketch.curvature[1])
    assert float(std_errors(model, row_on(sketch, {stranger: 7.0}))[0]) ** 2 - nothing == pytest.approx(1.0)
    shown = {weight.slot: weight.std_error for weight in top_of(model, 100, "", NameBook())}
    assert shown[stranger] is None
    assert shown[int(sketch.slot[1])] == pytest.approx(math.sqrt(1.0 / sketch.curvature[1]))


def test_a_weight_that_died_since_adds_nothing() -> None:
    sketch = with_all_weights(random_sketch(np.random.default_rng(7)))
    served = served_weights(sketch)
    gone = int(served.slot[2])
    later = dataclasses.replace(served, slot=np.delete(served.slot, 2), beta=np.delete(served.beta, 2))
    model = model_with(sketch, later)
    assert std_errors(model, row_on(sketch, {gone: 5.0})).tolist() == std_errors(model, batch_of([[]])).tolist()


def test_the_error_of_a_row_with_one_feature_and_no_intercept_is_that_of_its_weight() -> None:
    sketch = with_all_weights(random_sketch(np.random.default_rng(8), intercept=False))
    model = model_with(sketch)
    shown = top_of(model, 100, "", NameBook())
    assert len(shown) == 10
    for weight in shown:
        assert weight.std_error == pytest.approx(float(std_errors(model, row_on(sketch, {weight.slot: 1.0}))[0]), rel=1e-12)


def test_a_model_without_curvature_has_no_errors() -> None:
    model = model_of(served_weights(random_sketch(np.random.default_rng(9))))
    assert np.isnan(model.score(batch_of([[], [(1, 1.0)]])).std_error).all()
    assert {weight.std_error for weight in top_of(model, 100, "", NameBook())} == {None}


def test_curvature_made_indefinite_by_rounding_gets_the_smallest_sufficient_jitter() -> None:
    one = np.full((2, 2), 1.0 + 1e-13)
    np.fill_diagonal(one, 0.0)
    sketch = random_sketch(np.random.default_rng(10), members=2, outside=0, intercept=False)
    sketch = dataclasses.replace(sketch, beta=np.ones(2), cross=one, curvature=np.ones(2))
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.cholesky(one + np.eye(2))
    covariance = Covariance.of(sketch)
    assert covariance.why_not == ""
    assert (covariance.matrix == covariance.matrix.T).all()
    assert np.linalg.eigvalsh(covariance.matrix).min() > 0.0
    hopeless = dataclasses.replace(sketch, cross=2.0 * one)
    assert "singular" in Covariance.of(hopeless).why_not
    assert look_up(Covariance.of(hopeless), served_weights(sketch)) is None


def test_beyond_the_largest_support_there_is_none_and_it_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    sketch = with_all_weights(random_sketch(np.random.default_rng(11)))
    assert Covariance.of(sketch).why_not == ""
    monkeypatch.setattr(uncertainty, "ACTIVE_MAX", 5)
    assert "6 weights" in Covariance.of(sketch).why_not


def test_with_too_few_events_for_its_weights_there_is_none_and_it_says_why() -> None:
    sketch = with_all_weights(random_sketch(np.random.default_rng(11)))
    curvature = sketch.curvature.copy()
    curvature[0] = EVIDENCE_MIN * len(curvature) * (1.0 - 1e-9)
    why_not = Covariance.of(dataclasses.replace(sketch, curvature=curvature)).why_not
    assert why_not.startswith("too few events for 6 weights: labels that are not nearly certain count as 60 of the rarer one")


def test_columns_with_limits_have_none_without_a_sample_of_rows() -> None:
    rng = np.random.default_rng(4)
    x = rng.standard_t(3.0, size=(1000, 3))
    x[:, 1] = np.where(rng.random(1000) < 0.05, 999.0, x[:, 1])
    rows = to_batch([Event([(k << 24, v) for k, v in enumerate(row, 1)], float(row[0] > rng.normal())) for row in x.tolist()])
    found, ways = {}, [(True, "auto"), (False, "auto"), (False, "off")]
    for sampled, far in ways:
        learner = build_learner(TaylorSketchConfig(mode="hybrid", relinearise=sampled, far_values=cast(Any, far)), BITS)
        learner.step(rows)
        sketch = learner.sketch()
        assert sketch is not None
        assert sketch.limited == (far == "auto")
        found[sampled, far] = Covariance.of(sketch).why_not
    assert found[False, "auto"].startswith("columns have limits, and no sample of rows shows their effect")
    assert not any("limits" in why_not for how, why_not in found.items() if how != (False, "auto"))


@pytest.mark.parametrize(("correlation", "good"), [(0.99, True), (0.999, False)])
def test_columns_that_are_nearly_combinations_of_others_leave_none_but_indicators_that_sum_to_one_do(
    correlation: float, good: bool
) -> None:
    rng = np.random.default_rng(14)
    x, z = rng.normal(size=(2, 4000))
    level = rng.integers(0, 3, 4000)
    rows = np.column_stack([np.ones(4000), x, correlation * x + math.sqrt(1.0 - correlation**2) * z, np.eye(3)[level]])
    matrix = 0.2 * rows.T @ rows + np.diag([0.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    cross = matrix - np.diag(matrix.diagonal())
    nothing = np.zeros(6)
    sketch = dataclasses.replace(
        random_sketch(rng, members=6), beta=np.array([0.1, 0.5, 0.0, 0.2, 0.0, 0.1]), curvature=matrix.diagonal(), cross=cross,
        middle=np.array([0.0, 3.0, -2.0, 0.0, 0.0, 0.0]), spread=nothing + 1.0, outside_spread=np.ones(4),
    )  # fmt: skip
    why_not = Covariance.of(sketch).why_not
    assert (why_not == "") == good
    assert good or why_not.startswith("2 columns are nearly combinations of others")


def learnt(seed: int, n: int, config: TaylorSketchConfig, change: bool = False, columns: int = 8) -> Sketch:
    """The sketch of labels from known weights of columns that correlate by 0.7. change: weights are others after half of n."""
    rng = np.random.default_rng(seed)
    rows = correlated_normals(n, columns, 0.7, rng)
    beta = np.concatenate([[0.2], rng.normal(size=columns)])
    label = draw_labels(rows, beta, rng)
    if change:
        label[n // 2 :] = draw_labels(rows, -beta, rng)[n // 2 :]
    learner = build_learner(config, BITS)
    learner.step(rows.batch(label))
    sketch = learner.sketch()
    assert sketch is not None
    return sketch


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"mode": "exact"}, ""),
        ({"mode": "hybrid"}, ""),
        ({"mode": "strict"}, ""),
        ({"mode": "hybrid", "link": "probit"}, ""),
        ({"mode": "hybrid", "k": 4}, "features that occur together"),
        ({"mode": "strict", "k": 4}, "5 features outside the block should have a weight"),
        ({"mode": "diag"}, "features that occur together"),
        ({"mode": "diag", "relinearise": False, "far_values": "off"}, ""),
    ],
)
def test_a_sample_of_rows_shows_that_the_block_lacks_cross_curvature(settings: dict[str, Any], reason: str) -> None:
    why_not = Covariance.of(learnt(1, 4000, TaylorSketchConfig(**settings))).why_not
    assert why_not.startswith(reason) if reason else not why_not


@pytest.mark.parametrize("change", [True, False])
def test_a_sample_of_rows_shows_that_the_weights_have_moved(change: bool) -> None:
    why_not = Covariance.of(learnt(2, 6000, TaylorSketchConfig(mode="exact"), change)).why_not
    assert why_not.startswith("the weights have moved") if change else not why_not


COLUMNS: dict[str, Callable[[np.random.Generator], F64]] = {
    "rare minus": lambda rng: np.where(rng.random(5000) < 0.03, -1.0, 1.0),
    "rare outlier": lambda rng: np.where(rng.random(5000) < 0.03, 5.0 * rng.normal(size=5000) ** 3, 1.0),
    "lognormal": lambda rng: np.exp(1.5 * rng.normal(size=5000)),
    "t, 2 degrees": lambda rng: rng.standard_t(2, size=5000),
}


@pytest.mark.parametrize("mode", ["exact", "hybrid", "strict"])
@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("far_values", ["auto", "off"])
def test_intervals_hold_where_columns_have_heavy_tails(far_values: Any, column: str, mode: Any) -> None:
    held, served = [], []
    for seed in range(3):
        rng = np.random.default_rng((5, seed))
        z = np.column_stack([*(COLUMNS[column](rng) for _ in range(3)), rng.normal(size=5000)])
        rows, beta = dense_rows(z), np.concatenate([[0.2], np.array([0.8, -0.4, 0.5, 0.3]) / z.std(axis=0)])
        learner = build_learner(TaylorSketchConfig(mode=mode, far_values=far_values), BITS)
        learner.step(rows.batch(draw_labels(rows, beta, rng)))
        sketch = learner.sketch()
        assert sketch is not None
        assert sketch.tail is not None
        assert far_values == "auto" or float(sketch.tail.max()) > TAIL_MAX
        covariance = Covariance.of(sketch)
        assert covariance.why_not == ""
        scores = make_model(ORIGIN, learner.weights(), 0, 1, covariance).score(rows.batch(np.zeros(rows.n)))
        held.append(coverage(scores.margin - rows.margins(beta), scores.std_error, 0.95))
        served.append(np.isfinite(scores.std_error).mean())
    assert float(np.mean(held)) >= 0.9
    assert float(np.mean(served)) >= 0.9


@pytest.mark.parametrize("extreme", [True, False])
def test_there_is_none_where_the_prior_holds_the_weights_back(extreme: bool) -> None:
    rng = np.random.default_rng(6)
    x = rng.standard_cauchy(size=(5000, 1)) if extreme else rng.normal(size=(5000, 1))
    rows = dense_rows(np.hstack([x, rng.normal(size=(5000, 1))]))
    learner = build_learner(TaylorSketchConfig(mode="exact", far_values="off"), BITS)
    learner.step(rows.batch(draw_labels(rows, np.array([0.2, 1.0, 0.5]), rng)))
    sketch = learner.sketch()
    assert sketch is not None
    why_not = Covariance.of(sketch).why_not
    assert why_not.startswith("the prior holds the weights") if extreme else not why_not


@pytest.mark.parametrize("mode", ["exact", "hybrid", "strict"])
@pytest.mark.parametrize("made", ["nearly the same", "minimum, mean, maximum", "one indicator too many"])
def test_intervals_hold_where_columns_are_combinations_of_others(made: str, mode: Any) -> None:
    held = []
    for seed in range(3):
        rng = np.random.default_rng((4, seed))
        z = rng.normal(size=(5000, 4))
        if made == "nearly the same":
            z[:, 3] = z[:, 2] + 1e-3 * rng.normal(size=5000)
        elif made == "minimum, mean, maximum":
            z[:, 1:4] = z[:, [1]] + np.abs(z[:, [2]]) * np.array([-1.0, 0.0, 1.0])
        else:
            z[:, 1:] = 2.0 * np.eye(3)[rng.integers(0, 3, 5000)] - 1.0
        rows, beta = dense_rows(z), np.array([0.2, 0.8, -0.4, 0.5, 0.3])
        learner = build_learner(TaylorSketchConfig(mode=mode), BITS)
        learner.step(rows.batch(draw_labels(rows, beta, rng)))
        sketch = learner.sketch()
        assert sketch is not None
        covariance = Covariance.of(sketch)
        assert covariance.why_not == ""
        served = make_model(ORIGIN, learner.weights(), 0, 1, covariance).score(rows.batch(np.zeros(rows.n)))
        held.append(coverage(served.margin - rows.margins(beta), served.std_error, 0.95))
    assert float(np.mean(held)) >= 0.88


@pytest.mark.parametrize("starts_pull", [True, False])
def test_columns_with_heavy_tails_leave_none_if_the_first_rows_still_count(starts_pull: bool) -> None:
    sketch = with_all_weights(random_sketch(np.random.default_rng(16)))
    members, outside = len(sketch.slot), len(sketch.outside_slot)
    tail = np.zeros(members)
    tail[1:] = TAIL_MAX
    good = dataclasses.replace(
        sketch,
        middle=np.zeros(members),
        spread=np.ones(members),
        outside_spread=np.ones(outside),
        tail=tail,
        starts_pull=starts_pull,
    )
    assert Covariance.of(good).why_not == ""
    tail[-2:] = 1.001 * TAIL_MAX
    why_not = Covariance.of(good).why_not
    assert why_not.startswith("columns with heavy tails: 2,") if starts_pull else not why_not


def served_by(mode: Any, z: F64, label: F64, columns: Sequence[int]) -> LinearModel:
    """The model that learnt a dense matrix f64[n, d], each column in the slot of its number; rows leave zeros out."""
    batch = sparse_rows(z, columns, label)
    learner = build_learner(TaylorSketchConfig(mode=mode, standardised=True), BITS)
    learner.step(batch)
    sketch = learner.sketch()
    assert sketch is not None
    covariance = Covariance.of(sketch)
    assert covariance.why_not == ""
    return cast(LinearModel, make_model(ORIGIN, learner.weights(), 0, 1, covariance))


def sparse_rows(z: F64, columns: Sequence[int], label: F64 | None = None) -> Batch:
    rows = [[(c << 20, float(x)) for c, x in zip(columns, row, strict=True) if x] for row in z]
    batch = batch_of(rows)
    return batch if label is None else dataclasses.replace(batch, label=label)


@pytest.mark.parametrize("mode", ["exact", "hybrid", "strict"])
def test_a_row_outside_the_span_of_those_learnt_has_none_and_the_others_do(mode: Any) -> None:
    rng = np.random.default_rng(7)
    number, twin_column, level = rng.normal(size=(3000, 1)), rng.normal(size=(3000, 1)), np.eye(3)[rng.integers(0, 3, 3000)]
    z = np.hstack([number, twin_column, twin_column, np.full((3000, 1), 7.0), level])
    label = (rng.random(3000) < 1.0 / (1.0 + np.exp(-0.7 * number[:, 0] - twin_column[:, 0]))).astype(np.float64)
    model = served_by(mode, z, label, range(1, 8))
    asked = np.array(
        [
            [0.3, 1.0, 1.0, 7.0, 1.0, 0.0, 0.0, 0.0],
            [0.3, 1.0, -1.0, 7.0, 1.0, 0.0, 0.0, 0.0],  # a direction that was never seen
            [0.3, 1.0, 1.0, 7.0, 1.0, 0.0, 0.0, 1.0],  # a feature that was never met
            [0.3, 1.0, 1.0, 8.0, 1.0, 0.0, 0.0, 0.0],  # a column that has always been 7
            [-4.0, 1.0, 1.0, 7.0, 0.0, 1.0, 0.0, 0.0],
        ]
    )
    scores = model.score(sparse_rows(asked, range(1, 9)))
    outside = [False, True, True, True, False]
    assert scores.outside is not None
    assert scores.outside.tolist() == np.isnan(scores.std_error).tolist() == outside
    for i, row in enumerate(asked):
        alone = model.score(sparse_rows(row[np.newaxis], range(1, 9))).std_error
        assert alone.tobytes() == scores.std_error[i : i + 1].tobytes()


@pytest.mark.parametrize("mode", ["exact", "hybrid"])
def test_the_pull_is_that_of_two_terms_of_prior_and_penalty(mode: Any) -> None:
    sketch = learnt(1, 4000, TaylorSketchConfig(mode=mode, gamma=5.0, standardised=False))
    assert not (sketch.outside_beta != 0.0).any()
    active = (sketch.beta != 0.0) & (sketch.curvature > 0.0)
    beta, prior = sketch.beta[active], sketch.prior[active]
    inverse = np.linalg.inv((sketch.cross + np.diag(sketch.curvature))[np.ix_(active, active)])
    first = inverse @ (prior * beta + sketch.gamma[active] * np.sign(beta))
    of_penalty = inverse @ (sketch.gamma[active] * np.sign(beta))
    with_pull, without = (Covariance.of(dataclasses.replace(sketch, starts_pull=pulls)).matrix for pulls in (True, False))
    pull = first + inverse @ (prior * first)
    np.testing.assert_allclose(with_pull - without, np.outer(pull, pull) - np.outer(of_penalty, of_penalty), atol=1e-9)
    assert float(np.abs(pull - of_penalty).max()) > 1e-4


def test_sketches_without_a_sample_say_nothing_of_single_rows() -> None:
    model = model_with(with_all_weights(random_sketch(np.random.default_rng(8))))
    assert model.score(batch_of([[(0xFFFFFFFF, 1.0)]])).outside is None


def test_the_variance_of_a_sketch_that_forgets_is_that_of_the_sandwich() -> None:
    sketch = random_sketch(np.random.default_rng(15))
    whole, half = Covariance.of(sketch), Covariance.of(dataclasses.replace(sketch, noise=0.5))
    assert half.matrix.tolist() == (0.5 * whole.matrix).tolist()
    assert half.variance.tolist() == (0.5 * whole.variance).tolist()
    rho, n = 0.99, 700
    weight = rho ** np.arange(n)
    learner = build_learner(TaylorSketchConfig(rho=rho, block=1), 12)
    learner.step(batch_of([[]] * n))
    learnt = learner.sketch()
    assert learnt is not None
    assert learnt.noise == pytest.approx(np.sum(weight**2) / np.sum(weight), rel=1e-12)


def test_before_the_first_event_there_is_none() -> None:
    sketch = random_sketch(np.random.default_rng(12))
    nothing = {name: np.zeros_like(getattr(sketch, name)) for name in ("beta", "gradient", "curvature", "cross")}
    nothing |= {name: np.zeros_like(getattr(sketch, name)) for name in ("outside_beta", "outside_gradient", "outside_curvature")}
    empty = dataclasses.replace(sketch, **nothing)
    assert Covariance.of(empty).why_not == "nothing was learnt yet"
    bare = Sketch(
        *(np.zeros(0, np.uint32), *(np.zeros(0),) * 4, np.zeros((0, 0)), np.zeros(0), 0.5, False),
        *(np.zeros(0, np.uint32), *(np.zeros(0),) * 5, 8),
    )
    model = model_with(bare)
    assert std_errors(model, batch_of([[(5 << 24, 2.0)]])).tolist() == [0.0]


def test_an_error_beyond_the_finite_numbers_is_not_a_number() -> None:
    sketch = with_all_weights(random_sketch(np.random.default_rng(13), intercept=False))
    sketch = dataclasses.replace(sketch, outside_curvature=np.full(4, 1e-300))
    model = model_with(sketch)
    assert math.isnan(float(std_errors(model, row_on(sketch, {int(sketch.outside_slot[0]): 1e6}))[0]))


def test_it_cannot_be_written_through_and_counts_its_bytes() -> None:
    sketch = with_all_weights(random_sketch(np.random.default_rng(14)))
    model = model_with(sketch)
    assert model.uncertainty is not None
    for array in model.uncertainty.spread:
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    assert model.memory()["uncertainty"] == 16 * model.weights.non_zeros + 8 * 36 + 8


# Path.


def optimum(sketch: Sketch, gamma: float) -> tuple[F64, F64]:
    """Weights inside and outside by plain cyclic ascent from the current ones, far beyond the tolerance of a path."""
    curvature = sketch.cross + np.diag(sketch.curvature)
    slope = sketch.gradient + curvature @ sketch.beta
    penalties = np.where(sketch.gamma != sketch.penalty, sketch.gamma, gamma)
    beta = sketch.beta.copy()
    for _ in range(500):
        for j in range(len(beta)):
            omega = slope[j] - curvature[j] @ beta + curvature[j, j] * beta[j]
            beta[j] = math.copysign(max(abs(omega) - penalties[j], 0.0), omega) / curvature[j, j]
    outside = sketch.outside_gradient + sketch.outside_curvature * sketch.outside_beta
    own = np.where(sketch.outside_gamma != sketch.penalty, sketch.outside_gamma, gamma)
    return beta, np.sign(outside) * np.maximum(np.abs(outside) - own, 0.0) / sketch.outside_curvature


def objective(sketch: Sketch, gamma: float, beta: F64, outside: F64) -> float:
    """The value of the sketch by its definition, minus its value at weights 0."""

    def likelihood(b: F64, z: F64) -> float:
        d, e = b - sketch.beta, z - sketch.outside_beta
        inside = sketch.gradient @ d - d @ (sketch.cross + np.diag(sketch.curvature)) @ d / 2
        return float(inside + sketch.outside_gradient @ e - e @ (sketch.outside_curvature * e) / 2)

    penalties = np.where(sketch.gamma != sketch.penalty, sketch.gamma, gamma)
    own = np.where(sketch.outside_gamma != sketch.penalty, sketch.outside_gamma, gamma)
    gain = likelihood(beta, outside) - likelihood(np.zeros_like(beta), np.zeros_like(outside))
    return gain - float(penalties @ np.abs(beta)) - float(own @ np.abs(outside))


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("outside", [0, 5])
def test_every_point_is_the_optimum_under_its_penalty(intercept: bool, outside: int) -> None:
    rng = np.random.default_rng(1)
    for _ in range(3):
        sketch = random_sketch(rng, members=8, outside=outside, intercept=intercept)
        for point in regularisation_path(sketch, 12):
            beta, z = optimum(sketch, point.gamma)
            assert point.objective == pytest.approx(objective(sketch, point.gamma, beta, z), rel=1e-6, abs=1e-9)
            free = int(intercept)
            assert point.non_zeros == np.count_nonzero(np.abs(beta[free:]) > 1e-12) + np.count_nonzero(z)


def test_the_path_begins_at_the_smallest_penalty_that_leaves_no_weight_and_ends_at_a_share_of_the_one_in_force() -> None:
    rng = np.random.default_rng(2)
    for _ in range(10):
        sketch = random_sketch(rng)
        points = regularisation_path(sketch, 10)
        assert points[0].non_zeros == 0
        assert Path(sketch).solve(points[0].gamma * 0.999).non_zeros == 1
        assert points[-1].gamma == pytest.approx(FLOOR * min(sketch.penalty, points[0].gamma))
        assert points[-1].non_zeros == len(sketch.slot) - 1 + len(sketch.outside_slot)


def test_the_penalty_in_force_and_those_asked_for_are_points_of_a_decreasing_grid_in_equal_ratios() -> None:
    sketch = random_sketch(np.random.default_rng(3), gamma=0.5)
    gammas = [point.gamma for point in regularisation_path(sketch, 7, 8.0, 0.125, also=(0.7, 100.0, 0.5))]
    assert gammas == sorted(gammas, reverse=True)
    assert {0.5, 0.7, 100.0} <= set(gammas)
    grid = [gamma for gamma in gammas if gamma not in (0.5, 0.7, 100.0)]
    assert (grid[0], grid[-1]) == (8.0, 0.125)
    np.testing.assert_allclose(np.diff(np.log([*grid, 0.5])[np.argsort([*grid, 0.5])]), math.log(2.0))


def test_a_point_does_not_depend_on_the_points_before_it() -> None:
    sketch = random_sketch(np.random.default_rng(4), members=20, outside=9)
    for point in regularisation_path(sketch, 15):
        alone = Path(sketch).solve(point.gamma)
        assert alone.non_zeros == point.non_zeros
        assert alone.objective == pytest.approx(point.objective, rel=1e-6)


def test_features_with_penalties_of_their_own_keep_them() -> None:
    sketch = random_sketch(np.random.default_rng(5), members=6, outside=4)
    own, outside_own = sketch.gamma.copy(), sketch.outside_gamma.copy()
    own[3], own[4], outside_own[0], outside_own[1] = 0.0, 1e9, 0.0, 1e9
    sketch = dataclasses.replace(sketch, gamma=own, outside_gamma=outside_own)
    points = regularisation_path(sketch, 10)
    assert points[0].non_zeros == 2  # the two that are free
    assert points[-1].non_zeros == 5 + 4 - 2  # all but the two that never may
    for point in points:
        assert point.objective == pytest.approx(objective(sketch, point.gamma, *optimum(sketch, point.gamma)), rel=1e-6)


def test_fewer_weights_and_a_lower_objective_under_a_larger_penalty() -> None:
    points = regularisation_path(random_sketch(np.random.default_rng(6), members=15, outside=15), 30)
    values = [point.objective for point in points]
    assert values == sorted(values)
    assert points[0].non_zeros < points[10].non_zeros < points[-1].non_zeros


def test_a_sketch_without_a_penalty_still_has_a_path() -> None:
    sketch = random_sketch(np.random.default_rng(7), gamma=0.5)
    free = dataclasses.replace(sketch, penalty=0.0, gamma=np.zeros(6), outside_gamma=np.zeros(4))
    points = regularisation_path(free, 5)
    assert (points[0].non_zeros, points[-1].gamma) == (0, 0.0)
    assert points[-1].non_zeros == 9


def test_a_sketch_of_nothing_has_the_penalty_in_force_only() -> None:
    sketch = random_sketch(np.random.default_rng(8), members=1, outside=0)
    nothing = dataclasses.replace(sketch, beta=np.zeros(1), gradient=np.zeros(1), curvature=np.zeros(1), cross=np.zeros((1, 1)))
    assert regularisation_path(nothing, 5) == [Point(0.5, 0, 0.0)]
    assert regularisation_path(random_sketch(np.random.default_rng(9), members=0, outside=0, intercept=False), 5) == [
        Point(0.5, 0, 0.0)
    ]


def test_a_grid_may_end_at_the_smallest_number() -> None:
    """Its ratio to the largest penalty underflows."""
    path = Path(random_sketch(np.random.default_rng(5)))
    grid = path.grid(5, None, 5e-324)
    assert grid[-1] == 5e-324
    assert grid == sorted(grid, reverse=True)
    assert path.grid(5, 8.0, 0.5) == pytest.approx([8.0, 4.0, 2.0, 1.0, 0.5])
