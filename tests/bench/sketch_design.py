"""Simulated rows whose true margins are known: the design of Balakrishnan & Madigan 2008, and sparse rows with topics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from scipy.special import expit, ndtr

from riata.base.arrays import F64, I64
from riata.learn.learner import Weights
from riata.wire.batch import Batch

ProbitOrLogistic = Literal["logistic", "probit"]
BITS: Final = 12
HASH_BITS: Final = 32

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
