"""Streams of predictions for tests of what is watched."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from riata.base.arrays import BOOL, F64
from riata.learn.learner import Stepped
from riata.watch.observer import Rows
from riata.watch.progressive import Progressive
from riata.wire.batch import Batch


def observed(watched: Progressive, good: int, bad: int) -> Progressive:
    """Return it after `good` predictions that are right and calibrated, then `bad` ones that claim the opposite."""
    rng = np.random.default_rng(5)
    for count, sign in ((good, 1.0), (bad, -1.0)):
        side = np.where(rng.random(count) < 0.25, 1.0, -1.0)
        margin = 2.0 * side
        label = (rng.random(count) < 1.0 / (1.0 + np.exp(-sign * margin))).astype(np.float64)
        for at in range(0, count, 1000):
            part = slice(at, at + 1000)
            n = len(margin[part])
            watched.add(margin[part], label[part], np.ones(n), np.zeros(n, np.bool_), watched.examples + 1)
    return watched


def shown(batches: Sequence[Batch], margin: F64, refused: BOOL, first: int = 1) -> tuple[Rows, Stepped]:
    """What an observer is shown of rows that a learner predicted with these margins."""
    label, weight = (np.concatenate([getattr(batch, name) for batch in batches]) for name in ("label", "weight"))
    return Rows(batches, first), Stepped(margin, refused, label, weight, int(refused.sum()))
