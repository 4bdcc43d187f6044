"""The best split of a node on one variable: two prototypes that part the curves (`service/native/trees.c`), or a threshold."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from riata.base.arrays import F64, I64
from riata.native.library import core, struct


def gini(counts: F64) -> float:
    """Return 1 - sum p^2 of counts, 0 if there are none. Source: Breiman et al. 1984."""
    total = float(counts.sum())
    return 1.0 - float((counts * counts).sum()) / (total * total) if total > 0.0 else 0.0


def best_medoids(distance: F64, label: I64, classes: int, pairs: I64) -> tuple[float, int, int]:
    """Return the decrease of impurity by the best of several restarts of 2-medoids, and its prototypes.

    See `riata_best_medoids`.
    """
    prototypes = np.empty(2, np.int64)
    decrease = core.best_medoids(_split(label, classes, pairs), distance, prototypes)
    return decrease, int(prototypes[0]), int(prototypes[1])


def best_means(x: F64, label: I64, classes: int, pairs: I64, prototypes: F64) -> float:
    """Return the decrease of impurity by the best of several restarts of 2-means, and write its prototypes; see
    `riata_best_means`."""
    decrease: float = core.best_means(_split(label, classes, pairs, np.empty_like(prototypes)), x, x.shape[1], prototypes)
    return decrease


def _split(label: I64, classes: int, pairs: I64, means: F64 | None = None) -> Any:
    scratch = {"side": np.empty(len(label), np.bool_), "counts": np.empty((3, classes)), "means": means}
    sizes = {"n": len(label), "classes": classes, "restarts": len(pairs)}
    return struct("riata_split", label=label, pairs=pairs, **scratch, **sizes)


def best_threshold(value: F64, label: I64, classes: int) -> tuple[float, float]:
    """Return the decrease of impurity and the threshold of the best split on numbers, -1 if all are equal; the least of several.

    The threshold is half way between two neighbouring values (CART)."""
    order = np.argsort(value, kind="stable")
    ordered = value[order]
    cut = np.flatnonzero(ordered[1:] > ordered[:-1])
    if not len(cut):
        return -1.0, math.nan
    below = np.cumsum(np.eye(classes)[label[order]], axis=0)
    left, whole = below[cut], below[-1]
    right, n = whole - left, len(value)
    sizes = left.sum(axis=1)
    after = sizes - (left**2).sum(axis=1) / sizes + (n - sizes) - (right**2).sum(axis=1) / (n - sizes)
    best = int(np.argmin(after))
    low, high = float(ordered[cut[best]]), float(ordered[cut[best] + 1])
    middle = low + 0.5 * (high - low)
    return float(gini(whole) - after[best] / n), middle if middle < high else low
