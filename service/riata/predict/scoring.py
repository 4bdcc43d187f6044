"""Scores rows with a model. Scoring changes no state."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from riata.base.arrays import F64, I64
from riata.maths.dot import margins
from riata.maths.links import answers
from riata.predict.model import Model
from riata.wire.batch import Batch

LARGEST: Final = sys.float_info.max


@dataclass(frozen=True, slots=True)
class Scores:
    """Answers to the n rows of a batch.

    margin      : f64[n]  finite; bitwise equal to that of the learner after the same event
    probability : f64[n]  of the positive class; NaN if the link has none (hinge, real labels)
    label       : f64[n]  as the client writes labels: 1 if the probability is above 1/2 (hinge: the margin above 0),
                          otherwise 0 or -1; the margin itself for real labels
    known       : i64[n]  features that have a weight in the model
    unknown     : i64[n]  features that have none: never seen, or with weight zero
    std_error   : f64[n]  of the margin, approximate (see `predict/uncertainty.py`); NaN if it is unknown
    """

    margin: F64
    probability: F64
    label: F64
    known: I64
    unknown: I64
    std_error: F64


def score(model: Model, batch: Batch) -> Scores:
    """Score every row of `batch`. Never fails on a validated batch; a sum that overflows is clamped to the largest double."""
    n = batch.n
    weights = model.weights
    margin, probability, label = np.empty(n), np.empty(n), np.empty(n)
    known = np.empty(n, np.int64)
    margins(
        batch.indptr,
        batch.hash,
        batch.value,
        weights.slot,
        weights.beta,
        model.bucket,
        weights.bits,
        weights.intercept,
        margin,
        known,
    )
    if not np.isfinite(margin).all():
        _hold(model, batch, margin)
    answers(margin, model.link_code, -1.0 if model.origin.labels == "-1/+1" else 0.0, probability, label)
    std_error = np.full(n, np.nan)
    if model.uncertainty is not None:
        model.uncertainty.std_errors(batch, weights, model.bucket, std_error)
    return Scores(margin, probability, label, known, np.diff(batch.indptr) - known, std_error)


def weights_of(model: Model, hash32: Iterable[int]) -> list[float]:
    """Return the weight of each feature hash, 0.0 if the model has none. For the slower routes."""
    weights = model.weights
    keys = np.array([h >> (32 - weights.bits) for h in hash32], dtype=np.uint32)
    at = np.searchsorted(weights.slot, keys)
    inside = at < len(weights.slot)
    hit = inside.copy()
    hit[inside] = weights.slot[at[inside]] == keys[inside]
    beta = np.zeros(len(keys))
    beta[hit] = weights.beta[at[hit]]
    return [float(b) for b in beta]


def held(number: float) -> float:
    """Return `number`, or the largest double of its sign if it is infinite."""
    return min(max(number, -LARGEST), LARGEST)


def _hold(model: Model, batch: Batch, margin: F64) -> None:
    """Sum the rows that overflowed again, clamped to the finite range after every step."""
    for i in np.flatnonzero(~np.isfinite(margin)):
        row = slice(int(batch.indptr[i]), int(batch.indptr[i + 1]))
        total = model.weights.intercept
        for beta, x in zip(weights_of(model, batch.hash[row].tolist()), batch.value[row].tolist(), strict=True):
            total = held(total + held(beta * x))
        margin[i] = total


def warm_up(model: Model) -> None:
    """Compile the kernels of `score`, or load them from disk, by scoring one row without features."""
    none = np.zeros(0)
    score(
        model,
        Batch(
            indptr=np.zeros(2, np.int64),
            hash=np.zeros(0, np.uint32),
            value=none,
            label=np.zeros(1),
            weight=np.ones(1),
            event_id=np.zeros((1, 16), np.uint8),
            has_id=np.zeros(1, np.bool_),
        ),
    )
