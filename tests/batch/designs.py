"""Rows for tests of the batch solvers, and what their results are compared with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np

from riata.base.arrays import F64, I64
from riata.lab.batch.data import DataInMemory, in_memory
from riata.learn.learner import Weights

GOLDEN: Final = Path(__file__).parents[1] / "golden"
ZERO: Final = Weights(np.empty(0, np.uint32), np.empty(0), 0.0, "logistic", 32)  # the start of the golden traces
NEVER: Final = float("inf")  # penalty of an intercept that is to stay 0
# Two Markov chains: one tends to stay in its state, the other to go in a circle.
STATES: Final = 4
CHAINS: Final = np.array(
    [
        [[0.7, 0.1, 0.1, 0.1], [0.1, 0.7, 0.1, 0.1], [0.1, 0.1, 0.7, 0.1], [0.1, 0.1, 0.1, 0.7]],
        [[0.1, 0.6, 0.2, 0.1], [0.1, 0.1, 0.6, 0.2], [0.2, 0.1, 0.1, 0.6], [0.6, 0.2, 0.1, 0.1]],
    ]
)
SHARE: Final = 0.65


def golden(name: str) -> dict[str, Any]:
    """A file of golden values."""
    values: dict[str, Any] = json.loads((GOLDEN / name).read_text(encoding="utf-8"))
    return values


def data_of(x: F64, y: F64, weight: F64 | None = None) -> DataInMemory:
    """Rows x f64[n, d] with labels 0 or 1; zeros are left out. Column j is slot j."""
    held = x != 0.0
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(held.sum(axis=1))])
    slot = np.nonzero(held)[1].astype(np.uint32)
    return in_memory(indptr, slot, x[held], 2.0 * y - 1.0, np.ones(len(y)) if weight is None else weight)


def dense(weights: Weights, d: int) -> F64:
    """f64[d]: the weights by slot."""
    beta = np.zeros(d)
    beta[weights.slot] = weights.beta
    return beta


def sparse_design(n: int, d: int, seed: int, density: float = 0.1) -> tuple[F64, F64]:
    """Rows x f64[n, d] whose first features are the most frequent, and labels that depend on a few of them."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d)) * (rng.random((n, d)) < density * 3.0 / (1.0 + np.arange(d) / d * 8.0))
    beta = np.where(np.arange(d) % 7 == 2, 2.0 * rng.standard_normal(d), 0.0)
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-(x @ beta) - 0.5))).astype(np.float64)
    return x, y


def simulated(n: int, share: float = SHARE, length: int = 12, seed: int = 0) -> I64:
    """Sequences of the two chains, i64[n, length]; `share` of them come from the first."""
    rng = np.random.default_rng(seed)
    which = (rng.random(n) >= share).astype(int)
    found = np.empty((n, length), np.int64)
    found[:, 0] = rng.integers(0, STATES, n)
    reached = np.cumsum(CHAINS, axis=2)
    for t in range(1, length):
        found[:, t] = (rng.random(n)[:, None] > reached[which, found[:, t - 1], :3]).sum(axis=1)
    return found
