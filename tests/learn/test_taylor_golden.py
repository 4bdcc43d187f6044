"""Golden traces of other implementations: the bounded sketch, Online, MP, and the paper's simulated design."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from riata.base.arrays import F64
from riata.learn.taylor_config import TaylorSketchConfig
from riata.learn.taylor_sketch import TaylorSketch
from riata.wire.batch import Batch
from tests.learn.streams import cut, to_batch
from tests.twins.truncated_step import Event

GOLDEN = Path(__file__).parents[1] / "golden"
BITS = 5  # feature j is slot j; there are at most 20
BOUNDED: dict[str, Any] = json.loads((GOLDEN / "bounded_sketch.json").read_text(encoding="utf-8"))
EXAMPLES: list[dict[str, Any]] = json.loads((GOLDEN / "truncated_gradient_reference.json").read_text(encoding="utf-8"))[
    "examples"
]
SMALL: dict[str, Any] = json.loads((GOLDEN / "online_mp_rmmp.json").read_text(encoding="utf-8"))
SIMULATED: dict[str, Any] = json.loads((GOLDEN / "simulated_design.json").read_text(encoding="utf-8"))

# What the paper's algorithms know nothing of is off: prior, floor, blocks. Its equation 4 penalises the intercept.
PAPER: dict[str, Any] = {
    "mode": "exact", "prior_curvature": 0.0, "curvature_floor": 0.0, "block": 1, "tolerance": 1e-13, "sweeps_max": 100_000,
    "gamma": 1.0, "gamma_intercept": 1.0, "warm_up": 0,
}  # fmt: skip
ONLINE: dict[str, dict[str, Any]] = {
    "fixed gamma, logistic": {},
    "fixed gamma, probit": {"link": "probit"},
    "fixed gamma, logistic, intercept unpenalised": {"gamma_intercept": 0.0, "warm_up": 20},
    "linear gamma with floor, logistic": {
        "gamma": 2.0, "gamma_intercept": 2.0, "gamma_schedule": "linear", "gamma_events": 60, "gamma_floor": 0.25,
    },
    "block heuristic B=10, logistic": {"reexpand": 10},
    "warm-up n0=20 and B=10, logistic": {"warm_up": 20, "reexpand": 10},
}  # fmt: skip


def _dense(learner: TaylorSketch, d: int, shift: int) -> F64:
    """Weights of d columns, the intercept first; column j was hashed to j << (32 - shift)."""
    weights = learner.weights()
    beta = np.zeros(d)
    beta[weights.slot >> (weights.bits - shift)] = weights.beta
    beta[0] = weights.intercept
    return beta


def _rows(x: F64, y: F64, shift: int) -> Batch:
    """Rows of a matrix without its first column, which is the learner's intercept; zeros are not features."""
    n = len(x)
    row, column = np.nonzero(x[:, 1:])
    return Batch(
        indptr=np.concatenate(([0], np.cumsum(np.bincount(row, minlength=n)))).astype(np.int64),
        hash=((column + 1) << (32 - shift)).astype(np.uint32),
        value=x[row, column + 1],
        label=y.astype(np.float64),
        weight=np.ones(n),
        event_id=np.zeros((n, 16), np.uint8),
        has_id=np.zeros(n, np.bool_),
    )


def _bounded(trace: dict[str, Any]) -> TaylorSketch:
    p = trace["parameters"]
    config = TaylorSketchConfig(
        mode=p["mode"], k=p["k"], gamma=p["gamma"], block=p["B"], rounds=p["A"], admit=p["tau"], hysteresis=p["hyst"],
        prior_curvature=p["c0"], curvature_floor=p["phi"], tolerance=p["tol"], sweeps_max=p["max_sweeps"], rho=p["rho"],
        ramp=0.0, prior_by_row=False,
        burn_in=0 if p["a"] == 0.0 else p.get("t_a", 2**62), burn_in_power=p["a"] or 1.0,
    )  # fmt: skip
    return TaylorSketch(config, BITS)


@pytest.mark.parametrize("trace", BOUNDED["traces"], ids=lambda trace: trace["name"])
def test_bounded_modes_follow_the_golden_traces(trace: dict[str, Any]) -> None:
    rows = [[(j << (32 - BITS), x) for j, x in zip(example["j"], example["x"], strict=True)] for example in EXAMPLES]
    batch = to_batch([Event(row, float(example["y"] > 0)) for row, example in zip(rows, EXAMPLES, strict=True)])
    learner, near, done, loss = _bounded(trace), BOUNDED["tolerance"]["absolute"], 0, 0.0
    for i, expected in trace["after_example"].items():
        part = cut(batch, done, int(i))
        margin = learner.step(part).margin
        loss += float(np.logaddexp(0.0, np.where(part.label > 0.5, -margin, margin)).sum())
        done = int(i)
        assert learner.sketch().penalty > 0.0
        arrays, size = learner.freeze(), learner._state.size
        scale, n_eff = arrays["scalars"][:2].astype(float)
        sums = np.zeros((3, BOUNDED["d"]))
        sketch = learner.sketch()
        sums[:, sketch.slot] = sketch.beta, sketch.gradient, sketch.curvature
        sums[0, arrays["outside_slot"]] = arrays.get("outside_beta", np.zeros(len(arrays["outside_slot"])))
        sums[1, arrays["outside_slot"]] = scale * arrays["outside_gradient"].astype(float)
        prior = trace["parameters"]["c0"] * arrays["outside_peak"].astype(float)
        sums[2, arrays["outside_slot"]] = scale * arrays["outside_curvature"].astype(float) + prior
        for ours, name in zip(sums, ("beta", "G", "D"), strict=True):
            assert ours == pytest.approx(expected[name], rel=0.0, abs=near), name
        slots = [0, *arrays["member_key"][1:size].tolist()]
        assert slots + [-1] * (len(expected["S"]) - size) == expected["S"]
        assert n_eff == pytest.approx(expected["n_eff"], abs=near)
    assert done == 200
    assert loss / done == pytest.approx(trace["progressive_log_loss"], abs=near)


@pytest.mark.parametrize("trace", SMALL["online"], ids=lambda trace: trace["name"])
def test_exact_mode_follows_the_golden_traces_of_online(trace: dict[str, Any]) -> None:
    settings = {**PAPER, **ONLINE[trace["name"]]}
    learner, done = TaylorSketch(TaylorSketchConfig(**settings), 22), 0
    batch = _rows(np.array(SMALL["X"]), np.array(SMALL["y"]), 8)
    for i, expected in zip(trace["i"], trace["beta_i"], strict=True):
        learner.step(cut(batch, done, i))
        done = i
        if i >= settings.get("warm_up", 0):  # theirs stays at zero until the warm-up is over
            assert _dense(learner, 7, 8) == pytest.approx(expected, abs=SMALL["tolerance"]["traces"])
    sketch = learner.sketch()
    order = [0, *(sketch.slot[1:] >> 24).tolist()]
    psi = np.zeros((7, 7))
    psi[np.ix_(order, order)] = -0.5 * (sketch.cross + np.diag(sketch.curvature))
    theta = np.zeros(7)
    theta[order] = sketch.gradient + (sketch.cross + np.diag(sketch.curvature)) @ sketch.beta
    assert psi == pytest.approx(np.array(trace["Psi_t"]), abs=SMALL["tolerance"]["traces"])
    assert theta == pytest.approx(trace["theta_t"], abs=SMALL["tolerance"]["traces"])


@pytest.mark.parametrize("batch", SMALL["batch"], ids=lambda one: f"{one['link']}-{one['gamma']}-{one['intercept_penalised']}")
def test_warm_up_over_all_events_is_the_batch_optimum(batch: dict[str, Any]) -> None:
    settings = {"link": batch["link"], "gamma": batch["gamma"], "warm_up": 60}
    free = {} if batch["intercept_penalised"] else {"gamma_intercept": 0.0}
    penalised = {"gamma_intercept": batch["gamma"]} | free
    learner = TaylorSketch(TaylorSketchConfig(**{**PAPER, **settings, **penalised}), 22)
    learner.step(_rows(np.array(SMALL["X"]), np.array(SMALL["y"]), 8))
    assert _dense(learner, 7, 8) == pytest.approx(batch["beta_star"], abs=SMALL["tolerance"]["batch"])


def _simulated(run: dict[str, Any]) -> Batch:
    """The paper's design, made by its recipe and checked by digest."""
    rng = np.random.Generator(np.random.PCG64(run["seed"]))
    z, u = rng.standard_normal((run["t"], 10)), rng.random(run["t"])
    x = np.column_stack([np.ones(run["t"]), z])
    c = x @ np.array(SIMULATED["beta_true"])
    p = 1.0 / (1.0 + np.exp(-c)) if run["link"] == "logistic" else np.array([0.5 * math.erfc(-one / math.sqrt(2.0)) for one in c])
    y = u < p
    assert hashlib.sha256(x.astype("<f8").tobytes()).hexdigest() == run["sha256_X"]
    assert hashlib.sha256(y.astype(np.uint8).tobytes()).hexdigest() == run["sha256_y"]
    return _rows(x, y.astype(np.float64), 8)


@pytest.mark.parametrize("run", SIMULATED["runs"], ids=lambda run: run["link"])
@pytest.mark.parametrize("which", [0, 3])
def test_batch_optimum_of_the_simulated_design(run: dict[str, Any], which: int) -> None:
    solution = run["solutions"][which]
    gamma = solution["gamma"]
    settings = {
        **PAPER, "link": run["link"], "gamma": gamma, "gamma_intercept": gamma if solution["intercept_penalised"] else 0.0,
        "warm_up": run["t"], "block": 1000,
    }  # fmt: skip
    learner = TaylorSketch(TaylorSketchConfig(**settings), 22)
    learner.step(_simulated(run))
    assert _dense(learner, 11, 8) == pytest.approx(solution["beta_star"], abs=SIMULATED["tolerance"]["beta_star"])


def test_online_on_the_simulated_design() -> None:
    online, done = SIMULATED["online"], 0
    learner = TaylorSketch(TaylorSketchConfig(**{**PAPER, "gamma": 10.0, "gamma_intercept": 10.0, "tolerance": 1e-9}), 22)
    batch = _simulated(online)
    for i, expected, optimum, distance in zip(
        online["i"], online["beta_i"], online["batch_beta_star"], online["L1_distance_online_to_batch"], strict=True
    ):
        learner.step(cut(batch, done, i))
        done = i
        beta = _dense(learner, 11, 8)
        assert beta == pytest.approx(expected, abs=SIMULATED["tolerance"]["online_beta_i"])
        assert np.abs(beta - np.array(optimum)).sum() == pytest.approx(distance, abs=1e-5)
