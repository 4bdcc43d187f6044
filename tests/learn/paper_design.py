"""Simulated rows whose true margins are known, and what an estimate from them is compared with.

The rows are the design of Balakrishnan & Madigan 2008, and sparse rows with topics. The batch optimum is plain numpy, and nothing
of the learner's own code: Newton's method on the whole data, each step a quadratic with an L1 penalty that is solved by
coordinates. From zero its iterates are those of the paper's MP, pass by pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal
from unittest.mock import patch

import numpy as np
from scipy.special import expit, log_expit, log_ndtr, ndtr
from scipy.stats import norm

from riata.base.arrays import F64, I64
from riata.learn.learner import Learner, Weights
from riata.predict import uncertainty
from riata.predict.factory import make_model
from riata.predict.model import Origin
from riata.predict.uncertainty import Covariance
from riata.wire.batch import Batch, slice_rows
from riata.wire.encoder import EncoderConfig

ProbitOrLogistic = Literal["logistic", "probit"]
BITS: Final = 12
HASH_BITS: Final = 32
PASSES_MAX: Final = 60
SWEEPS_MAX: Final = 10_000
KKT_SHARE: Final = 1e-10  # of gamma
LEVELS: Final = (0.5, 0.8, 0.95)
ORIGIN: Final = Origin("coverage", bytes(16), EncoderConfig(), "0/1")

# Table 1 of the paper: the intercept and ten coefficients, three of them zero.
BETA_TRUE: Final[F64] = np.array([0.259, 0.761, -0.36, 0.876, 0.913, -0.302, -0.82, 0.0, 0.0, 0.0, -0.319])


@dataclass(frozen=True, slots=True)
class Rows:
    """n rows over `width` columns: indptr i64[n + 1], column i64[nnz] rising within a row, value f64[nnz]."""

    indptr: I64
    column: I64
    value: F64
    width: int

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.indptr) - 1

    def margins(self, beta: F64) -> F64:
        """f64[n] for beta f64[1 + width], the intercept first."""
        products = beta[1 + self.column] * self.value
        row = np.repeat(np.arange(self.n), np.diff(self.indptr))
        return np.asarray(beta[0] + np.bincount(row, products, minlength=self.n))

    def batch(self, label: F64) -> Batch:
        """The rows as events; column c has the same order among hashes as among columns, and slot c + 1 of 2^BITS."""
        return Batch(
            indptr=self.indptr,
            hash=((1 + self.column) << (HASH_BITS - BITS)).astype(np.uint32),
            value=self.value,
            label=label,
            weight=np.ones(self.n),
            event_id=np.zeros((self.n, 16), dtype=np.uint8),
            has_id=np.zeros(self.n, dtype=np.bool_),
        )


def dense_rows(z: F64) -> Rows:
    """Rows of a matrix f64[n, width] without zeros in it."""
    n, width = z.shape
    column = np.tile(np.arange(width, dtype=np.int64), n)
    return Rows(np.arange(0, n * width + 1, width, dtype=np.int64), column, np.ascontiguousarray(z).ravel(), width)


def dense_beta(weights: Weights, width: int) -> F64:
    """f64[1 + width]: the served weights, the intercept first, by the columns of `Rows.batch`."""
    beta = np.zeros(1 + width)
    beta[weights.slot.astype(np.int64) >> (weights.bits - BITS)] = weights.beta
    beta[0] = weights.intercept
    return beta


def paper_design(t: int, seed: int, link: ProbitOrLogistic) -> tuple[F64, F64]:
    """The paper's simulated design: z f64[t, 10] standard normal, y f64[t] in {0, 1} from BETA_TRUE.

    In numpy's PCG64 of this seed the normals are drawn before the uniforms, so a prefix of a longer stream is another stream.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    z = rng.standard_normal((t, len(BETA_TRUE) - 1))
    u = rng.random(t)
    c = np.hstack([np.ones((t, 1)), z]) @ BETA_TRUE
    p = 1.0 / (1.0 + np.exp(-c)) if link == "logistic" else ndtr(c)
    return z, (u < p).astype(np.float64)


def correlated_normals(n: int, width: int, correlation: float, rng: np.random.Generator) -> Rows:
    """Dense standard normal rows; neighbours correlate, columns a and b by correlation^|a - b|."""
    z = rng.standard_normal((n, width))
    for column in range(1, width):
        z[:, column] = correlation * z[:, column - 1] + np.sqrt(1.0 - correlation**2) * z[:, column]
    return dense_rows(z)


def topic_rows(n: int, width: int, per_row: int, topics: int, rng: np.random.Generator) -> Rows:
    """Sparse rows of about `per_row` distinct columns out of `width`, values |normal| + 1/2 scaled by 1/sqrt(per_row).

    topics : 0 draws columns independently of each other; otherwise each row has one of this many topics, a run of neighbouring
             columns from which four fifths of its columns come, so that columns of one topic appear together
    """
    drawn = rng.integers(0, width, (n, per_row))
    if topics:
        run = width // topics
        topic = rng.integers(0, topics, (n, 1))
        from_topic = rng.random((n, per_row)) < 0.8
        drawn = np.where(from_topic, topic * run + drawn % run, drawn)
    drawn.sort(axis=1)
    first = np.ones(drawn.shape, dtype=np.bool_)
    first[:, 1:] = drawn[:, 1:] != drawn[:, :-1]
    value = (np.abs(rng.standard_normal((n, per_row))) + 0.5) / np.sqrt(per_row)
    indptr = np.concatenate(([0], np.cumsum(first.sum(axis=1)))).astype(np.int64)
    return Rows(indptr, drawn[first].astype(np.int64), value[first], width)


def draw_labels(rows: Rows, beta: F64, rng: np.random.Generator) -> F64:
    """f64[n] in {0, 1}, logistic with the true coefficients `beta` f64[1 + width]."""
    p: F64 = expit(rows.margins(beta))
    return (rng.random(rows.n) < p).astype(np.float64)


@dataclass(frozen=True, slots=True)
class Optimum:
    """beta f64[d], the violation of the optimality conditions there, and the iterate after each pass."""

    beta: F64
    kkt: float
    passes: list[F64]


def derivatives(c: F64, y: F64, link: ProbitOrLogistic) -> tuple[F64, F64, float]:
    """Residual r f64[t], curvature h f64[t] and log-likelihood at the margins c f64[t]."""
    s = 2.0 * y - 1.0
    m = s * c
    if link == "logistic":
        p = expit(c)
        return y - p, p * (1.0 - p), float(log_expit(m).sum())
    log_p = log_ndtr(m)
    mills = np.exp(-0.5 * m * m - 0.5 * np.log(2.0 * np.pi) - log_p)
    return s * mills, mills * (mills + m), float(log_p.sum())


def kkt_residual(gradient: F64, beta: F64, gamma: F64) -> float:
    """Largest violation of the optimality conditions of log-likelihood - sum_j gamma_j |beta_j|."""
    at_zero = np.maximum(np.abs(gradient) - gamma, 0.0)
    return float(np.where(beta == 0.0, at_zero, np.abs(gradient - gamma * np.sign(beta))).max())


def solve_quadratic(gradient: F64, curvature: F64, beta: F64, gamma: F64, tolerance: float) -> F64:
    """Maximise the quadratic with that gradient and curvature f64[d, d] at `beta`, less the L1 penalty, by cyclic coordinates."""
    beta, gradient = beta.copy(), gradient.copy()
    diagonal = np.diag(curvature).tolist()
    for _ in range(SWEEPS_MAX):
        largest = 0.0
        for j, d in enumerate(diagonal):
            omega = float(gradient[j]) + d * float(beta[j])
            new = np.sign(omega) * max(abs(omega) - float(gamma[j]), 0.0) / d if d > 0.0 else 0.0
            move = new - float(beta[j])
            if move:
                beta[j] = new
                gradient -= curvature[j] * move
                largest = max(largest, abs(move) * d)
        if largest <= tolerance:
            break
    return beta


def batch_optimum(x: F64, y: F64, gamma: F64, link: ProbitOrLogistic, start: F64 | None = None) -> Optimum:
    """Maximise the log-likelihood of y given x f64[t, d] less sum_j gamma_j |beta_j|, to KKT_SHARE of the largest gamma."""
    goal = KKT_SHARE * float(gamma.max())
    beta = np.zeros(x.shape[1]) if start is None else start
    before, objective_before = beta, -np.inf
    passes: list[F64] = []
    kkt = np.inf
    for _ in range(PASSES_MAX):
        r, h, likelihood = derivatives(x @ beta, y, link)
        objective = likelihood - float(gamma @ np.abs(beta))
        if objective < objective_before - 1e-12 * abs(objective_before):
            beta = (beta + before) / 2.0  # a step too far: half of it
            continue
        gradient = x.T @ r
        kkt = kkt_residual(gradient, beta, gamma)
        if kkt <= goal:
            break
        before, objective_before = beta, objective
        beta = solve_quadratic(gradient, (x.T * h) @ x, beta, gamma, 1e-3 * goal)
        passes.append(beta)
    return Optimum(beta, kkt, passes)


def follow(learner: Learner, batch: Batch, stops: Iterable[int]) -> Iterator[int]:
    """Let `learner` learn `batch` up to each of `stops` (increasing), and yield there."""
    for start, stop in pairwise((0, *stops)):
        stepped = learner.step(slice_rows(batch, start, stop))
        if bool(stepped.refused.any()):
            raise RuntimeError(f"the learner refused an event before the {stop}-th")
        yield stop


def std_errors(learner: Learner, rows: Rows) -> F64:
    """f64[n]: the standard errors of predictions of `rows` now; NaN where there is none."""
    sketch = learner.sketch()
    with patch.object(uncertainty, "EVIDENCE_MIN", 0.0):  # also where a service says that the events are too few
        covariance = None if sketch is None else Covariance.of(sketch)
    if covariance is None or covariance.why_not:
        return np.full(rows.n, np.nan)
    model = make_model(ORIGIN, learner.weights(), gen=0, seq=1, covariance=covariance)
    return model.score(rows.batch(np.zeros(rows.n))).std_error


def coverage(error: F64, std_error: F64, nominal: float) -> float:
    """Share of the true margins within the nominal interval, of the rows that have a standard error; NaN if none has."""
    served = np.isfinite(std_error)
    held = np.abs(error) <= norm.ppf(0.5 + nominal / 2.0) * std_error
    return float(np.sum(held & served) / served.sum()) if served.any() else float("nan")
