"""Learners that continue from a solution: the same predictions at once, and the sums that the solution's events leave."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pytest

from riata.base.arrays import F64, I64, U32
from riata.base.errors import BadInput
from riata.learn.learner import Learner, Sketch
from riata.learn.registry import LearnerConfig, build_learner, spec_of
from riata.learn.spec import Adopted
from riata.run.candidates.adopting import Weighed, one_pass, slopes
from riata.run.state.config import read_config
from riata.wire.batch import Batch
from tests.learn.contract import same, served
from tests.learn.streams import cut, sparse_events, to_batch

BITS = 6  # some features share a slot
ROWS, MORE = 600, 200
GAMMA = 2.0


class Ranked(NamedTuple):
    """Rows by rank, as a solver takes them."""

    indptr: I64
    rank: I64
    value: F64
    label: F64
    weight: F64


def ranked(batch: Batch, bits: int) -> tuple[Ranked, U32]:
    """The rows by rank, each slot of a row once, and the slot of each rank, the most frequent first."""
    rows = []
    for i in range(batch.n):
        row: dict[int, float] = {}
        for p in range(int(batch.indptr[i]), int(batch.indptr[i + 1])):
            slot = int(batch.hash[p]) >> (32 - bits)
            row[slot] = row.get(slot, 0.0) + float(batch.value[p])
        rows.append({slot: x for slot, x in row.items() if x != 0.0})
    counts: dict[int, int] = {}
    for row in rows:
        for slot in row:
            counts[slot] = counts.get(slot, 0) + 1
    slots = sorted(counts, key=lambda slot: (-counts[slot], slot))
    rank = {slot: r for r, slot in enumerate(slots)}
    indptr = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    entries = [(rank[slot], x) for row in rows for slot, x in row.items()]
    made = Ranked(
        indptr, np.array([r for r, _ in entries], np.int64), np.array([x for _, x in entries]), 2 * batch.label - 1, batch.weight
    )
    return made, np.array(slots, np.uint32)


def part(rows: Ranked, start: int, stop: int) -> Ranked:
    first, last = int(rows.indptr[start]), int(rows.indptr[stop])
    return Ranked(
        rows.indptr[start : stop + 1] - first, rows.rank[first:last], rows.value[first:last], rows.label[start:stop],
        rows.weight[start:stop],
    )  # fmt: skip


def stream() -> tuple[Batch, Batch]:
    """Past and future of one stream."""
    rows = to_batch(sparse_events(ROWS + MORE, seed=3, spread=0.5))
    return cut(rows, 0, ROWS), cut(rows, ROWS, ROWS + MORE)


def learner_of(**settings: Any) -> LearnerConfig:
    return read_config({"learner": settings}).learner


def optimum(past: Batch, bits: int, link: str = "logistic", gamma: float = GAMMA) -> tuple[F64, float, U32, Ranked]:
    """Minimise the penalised loss by Newton's method, each quadratic by coordinates: weights by rank, intercept, slots, rows."""
    rows, slot = ranked(past, bits)
    dense = np.zeros((past.n, len(slot) + 1))
    dense[np.repeat(np.arange(past.n), np.diff(rows.indptr)), rows.rank] = rows.value
    dense[:, -1] = 1.0
    beta, penalty = np.zeros(len(slot) + 1), np.append(np.full(len(slot), gamma), 0.0)
    for _ in range(10):
        r, h = slopes(link, dense @ beta, rows.label)  # type: ignore[arg-type]
        curved = dense.T @ (dense * (rows.weight * h)[:, None])
        beta = quadratic_optimum(beta, dense.T @ (rows.weight * r), curved, penalty)
    return beta[:-1], float(beta[-1]), slot, rows


def quadratic_optimum(start: F64, gradient: F64, curved: F64, penalty: F64) -> F64:
    """Maximise gradient . d - d' curved d / 2 - penalty . |start + d|, one coordinate after the other."""
    beta, left = start.copy(), gradient.copy()
    for _ in range(60):
        for j, (gamma, own) in enumerate(zip(penalty.tolist(), np.diag(curved).tolist(), strict=True)):
            old = float(beta[j])
            pull = float(left[j]) + own * old
            new = math.copysign(max(abs(pull) - gamma, 0.0), pull) / own
            if new != old:
                left -= curved[j] * (new - old)
                beta[j] = new
    return beta


@pytest.fixture(scope="module")
def solved() -> dict[tuple[str, int], tuple[Adopted, Batch, Batch]]:
    """Solutions by link and bits, with the rows before and after them."""
    past, future = stream()
    found = {}
    for link, bits in (("logistic", BITS), ("logistic", 32), ("probit", BITS)):
        beta, intercept, slot, rows = optimum(past, bits, link)
        solution = Weighed(bits, slot, beta, intercept, link)  # type: ignore[arg-type]
        found[link, bits] = one_pass([rows], solution, np.arange(len(slot))), past, future
    return found


Solved = dict[tuple[str, int], tuple[Adopted, Batch, Batch]]

SKETCH: dict[str, Any] = {"kind": "taylor_sketch", "gamma": GAMMA}
CASES: dict[str, dict[str, Any]] = {
    "truncated": {"kind": "truncated_gradient"},
    "truncated, adaptive": {"kind": "truncated_gradient", "normalised": False},
    "truncated, constant": {"kind": "truncated_gradient", "normalised": False, "rate": "constant", "eta": 0.01},
    "truncated, no intercept": {"kind": "truncated_gradient", "intercept": False},
    "ftrl": {"kind": "ftrl_proximal"},
    "ftrl, l2": {"kind": "ftrl_proximal", "l2": 1.0, "l1": 1.0},
    "exact": {**SKETCH, "mode": "exact", "standardised": False},  # whose prior stays
    "exact, then hybrid": {**SKETCH, "mode": "exact", "features_max": 12, "beyond": "hybrid"},
    "strict": {**SKETCH, "mode": "strict", "k": 35},
    "hybrid": {**SKETCH, "mode": "hybrid", "k": 8, "shadow": [1.0, 5.0]},
    "diag": {**SKETCH, "mode": "diag"},
    "forgetting": {**SKETCH, "mode": "hybrid", "k": 8, "rho": 0.999, "burn_in": 50},
    "probit": {**SKETCH, "mode": "hybrid", "link": "probit", "k": 8},
    "reexpanded": {**SKETCH, "mode": "exact", "reexpand": 20},
}


def around(name: str, solved: Solved) -> tuple[Learner, Adopted, Batch, Batch]:
    settings = CASES[name]
    config = learner_of(**settings)
    solution, past, future = solved[settings.get("link", "logistic"), config.slot_bits(BITS)]
    learner = build_learner(config, BITS)
    learner.thaw(spec_of(config).adopt(config, BITS, solution))
    return learner, solution, past, future


@pytest.mark.parametrize("name", CASES)
def test_an_adopted_learner_predicts_as_the_solution(name: str, solved: Solved) -> None:
    learner, solution, _, future = around(name, solved)
    weights = learner.weights()
    beta = dict(zip(solution.slot.tolist(), solution.beta.tolist(), strict=True))
    intercept = 0.0 if "no intercept" in name else solution.intercept
    for i in range(40):
        margin = intercept
        for p in range(int(future.indptr[i]), int(future.indptr[i + 1])):
            margin += beta.get(int(future.hash[p]) >> (32 - weights.bits), 0.0) * float(future.value[p])
        assert served(weights, future, i) == pytest.approx(margin, rel=1e-9, abs=1e-12)
    assert len(weights.slot) == np.count_nonzero(solution.beta)


@pytest.mark.parametrize("name", CASES)
def test_an_adopted_learner_freezes_and_goes_on_learning(name: str, solved: Solved) -> None:
    learner, _, _, future = around(name, solved)
    twin = build_learner(learner_of(**CASES[name]), BITS)
    twin.thaw(learner.freeze())
    assert same(twin.freeze(), learner.freeze())
    before = learner.freeze()
    whole, single = learner.step(future), [twin.step(cut(future, i, i + 1)).margin[0] for i in range(future.n)]
    assert whole.margin.tobytes() == np.array(single).tobytes()
    assert whole.refusals == 0
    assert same(twin.freeze(), learner.freeze())
    assert not same(before, learner.freeze())
    assert np.isfinite(learner.weights().beta).all()


def violation(sketch: Sketch) -> float:
    """The largest violation of the optimality conditions, over the penalty."""
    beta, gradient, gamma = (
        np.concatenate([getattr(sketch, name), getattr(sketch, f"outside_{name}")]) for name in ("beta", "gradient", "gamma")
    )
    each = np.where(beta != 0.0, np.abs(gradient - gamma * np.sign(beta)), np.maximum(np.abs(gradient) - gamma, 0.0))
    return float(each.max()) / sketch.penalty


@pytest.mark.parametrize("name", ["exact", "exact, then hybrid", "strict", "hybrid", "diag", "probit", "reexpanded"])
def test_a_sketch_adopted_at_an_optimum_is_at_the_optimum_of_its_sketch(name: str, solved: Solved) -> None:
    learner, solution, _, _ = around(name, solved)
    sketch = learner.sketch()
    assert sketch is not None
    assert violation(sketch) < 1e-6 < 0.01  # the tolerance of a solve
    assert np.count_nonzero(solution.beta) > 5
    assert (solution.beta == 0.0).sum() > 2


@pytest.mark.parametrize("mode", ["exact", "hybrid"])
def test_the_prior_of_an_adopted_sketch_does_not_pull_and_that_of_a_learnt_one_does(mode: str, solved: Solved) -> None:
    name = {"exact": "exact, then hybrid", "hybrid": "hybrid"}[mode]
    adopted, _, past, future = around(name, solved)
    learnt = build_learner(learner_of(**CASES[name]), BITS)
    learnt.step(past)
    for learner, pulls in ((adopted, False), (learnt, True)):
        for rows in (cut(future, 0, 0), cut(future, 0, 60)):
            learner.step(rows)
            sketch = learner.sketch()
            assert sketch is not None
            assert sketch.starts_pull == pulls


def test_a_sketch_continues_as_if_it_had_summed(solved: Solved) -> None:
    """Its next solve is at the optimum of the old quadratic plus the new events."""
    learner, solution, _, future = around("exact", solved)
    rows, slot = ranked(cut(future, 0, 100), 32)
    dense = np.zeros((100, len(solution.slot) + 1))
    place = {int(one): j + 1 for j, one in enumerate(solution.slot.tolist())}
    known = [place[int(one)] for one in slot.tolist()]
    dense[np.repeat(np.arange(100), np.diff(rows.indptr)), np.array(known)[rows.rank]] = rows.value
    dense[:, 0] = 1.0
    start = np.append(solution.intercept, solution.beta)
    r, h = slopes("logistic", dense @ start, rows.label)
    h = np.maximum(h, 0.25 * np.abs(r))
    gradient = np.append(solution.base.gradient, solution.features.gradient) + dense.T @ (rows.weight * r)
    curved = solution.cross + dense.T @ (dense * (rows.weight * h)[:, None])
    peak = np.maximum(np.append(1.0, solution.features.peak) ** 2, (dense**2).max(axis=0))
    curved[np.diag_indices(len(curved))] += peak
    penalty = np.append(0.0, np.full(len(solution.beta), GAMMA))
    beta = quadratic_optimum(start, gradient, curved, penalty)
    learner.step(cut(future, 0, 100))  # a block: it ends with a solve
    found = dict(zip(learner.weights().slot.tolist(), learner.weights().beta.tolist(), strict=True))
    assert learner.weights().intercept == pytest.approx(beta[0], abs=0.01)
    for j, one in enumerate(solution.slot.tolist()):
        assert found.get(one, 0.0) == pytest.approx(beta[j + 1], abs=0.01)


def test_one_pass_is_the_sum_over_all_rows_however_they_are_cut(solved: Solved) -> None:
    past, _ = stream()
    rows, slot = ranked(past, BITS)
    rng = np.random.default_rng(2)
    solution = Weighed(BITS, slot, rng.normal(0, 0.3, len(slot)), 0.4, "logistic")
    members = np.array([4, 0, 7])
    whole = one_pass([rows], solution, members)
    pieces = one_pass([part(rows, 0, 100), part(rows, 100, 101), part(rows, 101, ROWS)], solution, members)
    dense = np.zeros((ROWS, len(slot)))
    dense[np.repeat(np.arange(ROWS), np.diff(rows.indptr)), rows.rank] = rows.value
    margin = 0.4 + dense @ solution.beta
    p = 1.0 / (1.0 + np.exp(-margin))
    r, h, w = (rows.label > 0) - p, p * (1.0 - p), rows.weight
    for found in (whole, pieces):
        assert found.features.gradient == pytest.approx(dense.T @ (w * r), rel=1e-9, abs=1e-9)
        assert found.features.curvature == pytest.approx((dense**2).T @ (w * h), rel=1e-9)
        assert found.features.squares == pytest.approx((dense**2).T @ (w * r * r), rel=1e-9)
        assert found.features.whole_squares == pytest.approx((dense**2).T @ (w * r) ** 2, rel=1e-9)
        assert found.features.energy == pytest.approx((dense**2).T @ w, rel=1e-9)
        assert found.features.peak.tolist() == np.abs(dense).max(axis=0).tolist()
        assert float(found.base.gradient[0]) == pytest.approx(float((w * r).sum()), rel=1e-9)
        some = np.column_stack([np.ones(ROWS), dense[:, members]])
        assert found.cross == pytest.approx(some.T @ (some * (w * h)[:, None]), rel=1e-9)
        assert found.events == ROWS
        assert found.effective == pytest.approx(float(w.sum()))
    assert (whole.importance, pieces.importance) == (whole.effective, pieces.effective)
    assert solved


def test_accumulators_are_those_of_a_pass_at_the_solution(solved: Solved) -> None:
    """A learner whose steps are too small to move has met every event at the solution, and has the same accumulators."""
    for kind, settings in (("truncated_gradient", {"eta": 1e-30, "gravity": 0.0, "reach": 1e9}), ("ftrl_proximal", {})):
        config = learner_of(kind=kind, **settings)
        solution, past, _ = solved["logistic", BITS]
        empty = Adopted(
            BITS, solution.slot, solution.beta * 0.0, 0.0, *one_pass_at_zero(past, solution), solution.members[:0],
            np.zeros((1, 1)), ROWS, solution.importance, solution.effective,
        )  # fmt: skip
        made = spec_of(config).adopt(config, BITS, empty)
        if kind == "truncated_gradient":
            still = build_learner(config, BITS)
            still.step(past)
            frozen = still.freeze()
            assert made["squares"] == pytest.approx(frozen["squares"], rel=1e-9)
            assert made["scale"].tobytes() == frozen["scale"].tobytes()
            assert made["seen"].tobytes() == frozen["seen"].tobytes()
            assert made["scalars"][[3, 5]] == pytest.approx(frozen["scalars"][[3, 5]], rel=1e-9)
        else:
            slow = learner_of(kind=kind, alpha=1e-12, l1=0.0, standardised=False)
            still = build_learner(slow, BITS)
            still.step(past)
            assert made["squares"] == pytest.approx(still.freeze()["squares"], rel=1e-6)


def one_pass_at_zero(past: Batch, solution: Adopted) -> tuple[Any, Any]:
    rows, slot = ranked(past, BITS)
    found = one_pass([rows], Weighed(BITS, slot, np.zeros(len(slot)), 0.0, "logistic"), solution.members[:0])
    return found.features, found.base


def refusal(config: LearnerConfig, solution: Adopted) -> tuple[str, str]:
    with pytest.raises(BadInput) as refused:
        spec_of(config).adopt(config, BITS, solution)
    return refused.value.code, refused.value.detail


def test_what_cannot_be_adopted_is_refused(solved: Solved) -> None:
    solution, whole = solved["logistic", BITS][0], solved["logistic", 32][0]
    for kind in ("truncated_gradient", "ftrl_proximal", "taylor_sketch"):
        code, detail = refusal(learner_of(kind=kind), whole)
        assert (code, "32 bits and the learner by 6" in detail) == ("needs_rebuild", True)
    for loss in ("squared", "hinge"):
        code, detail = refusal(learner_of(kind="truncated_gradient", loss=loss), solution)
        assert (code, f"not the {loss} loss" in detail) == ("not_for_this_loss", True)
    code, detail = refusal(learner_of(**SKETCH, mode="exact", features_max=12), whole)
    assert (code, "up to features_max (12)" in detail) == ("cannot_adopt", True)
    few = Adopted(
        32, whole.slot, whole.beta, whole.intercept, whole.features, whole.base, whole.members[:3], whole.cross[:4, :4],
        ROWS, 1.0, 1.0,
    )  # fmt: skip
    code, detail = refusal(learner_of(**SKETCH, mode="exact"), few)
    assert (code, "cross curvature for 3" in detail) == ("cannot_adopt", True)
    code, detail = refusal(learner_of(**SKETCH, mode="strict", k=3), solution)
    assert (code, "use mode hybrid" in detail) == ("cannot_adopt", True)
