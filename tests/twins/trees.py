"""Slow, obvious twins of warping and of the splits of functional trees."""

from __future__ import annotations

import math

import numpy as np

from riata.base.arrays import BOOL, F64, I64
from riata.trees.curves import NO_WINDOW, Curves

TWINS_OF = ("trees",)


def points(values: F64, channels: int) -> F64:
    """f64[points, channels]"""
    return values.reshape(channels, -1).T


def warp(a: F64, b: F64, channels: int, window: int) -> float:
    """The recursion cell by cell."""
    x, y = points(a, channels), points(b, channels)
    n, m = len(x), len(y)
    w = n + m if window == NO_WINDOW else max(window, abs(n - m))
    best = np.full((n + 1, m + 1), math.inf)
    best[0, 0] = 0.0
    for i in range(n):
        for j in range(m):
            if abs(i - j) <= w:
                cost = float(((x[i] - y[j]) ** 2).sum())
                best[i + 1, j + 1] = cost + min(best[i, j], best[i + 1, j], best[i, j + 1])
    return float(best[n, m])


def curve(curves: Curves, i: int) -> F64:
    """The values of a curve."""
    return curves.value[curves.channels * curves.start[i] : curves.channels * curves.start[i + 1]]


def warp_pairs(curves: Curves, window: int, first: int, end: int, out: F64) -> None:
    """One pair after another."""
    for i in range(first, end):
        for j in range(i):
            out[i, j] = warp(curve(curves, i), curve(curves, j), curves.channels, window)


def nearer_left(curves: Curves, at: I64, left: F64, right: F64, window: int, is_warped: bool) -> list[bool]:
    """Both distances of each curve."""
    out = []
    for i in at:
        one = curve(curves, int(i))
        if is_warped:
            near, far = (warp(one, other, curves.channels, window) for other in (left, right))
        else:
            near, far = (float(((one - other) ** 2).sum()) for other in (left, right))
        out.append(near <= far)
    return out


def gini(counts: F64) -> float:
    """1 - sum p^2."""
    return float(1.0 - ((counts / counts.sum()) ** 2).sum())


def decrease_of(side: BOOL, label: I64, classes: int) -> float:
    """Of impurity."""
    if side.all() or not side.any():
        return -1.0
    counts = [np.bincount(label[half], minlength=classes).astype(np.float64) for half in (side, ~side)]
    whole = gini(counts[0] + counts[1])
    return float(whole - sum(one.sum() * gini(one) for one in counts) / len(label))


def two_means(x: F64, left: int, right: int, side: BOOL, means: F64) -> int:
    """Assign, recompute, until it repeats."""
    means[:] = x[left], x[right]
    before = None
    for step in range(30):
        side[:] = ((x - means[0]) ** 2).sum(axis=1) <= ((x - means[1]) ** 2).sum(axis=1)
        if before is not None and np.array_equal(before, side):
            return step + 1
        if side.all() or not side.any():
            return 0
        means[:] = x[side].mean(axis=0), x[~side].mean(axis=0)
        before = side.copy()
    return 30


def two_medoids(distance: F64, left: int, right: int, side: BOOL) -> tuple[int, int]:
    """Assign, take the central members, until neither changes."""
    for step in range(20):
        side[:] = distance[:, left] <= distance[:, right]
        if side.all() or not side.any():
            return -1, -1
        if step == 19:
            break
        central = []
        for half, before in ((side, left), (~side, right)):
            members = np.flatnonzero(half)
            sums = distance[np.ix_(members, members)].sum(axis=1)
            least = members[sums == sums.min()]
            central.append(before if before in least else int(least[0]))
        if central == [left, right]:
            break
        left, right = central
    return left, right


def best_medoids(distance: F64, label: I64, classes: int, pairs: I64) -> tuple[float, int, int]:
    """The first of the best restarts."""
    best = (-1.0, -1, -1)
    for left, right in pairs.tolist():
        side = np.empty(len(label), np.bool_)
        found = two_medoids(distance, left, right, side)
        if found[0] >= 0 and decrease_of(side, label, classes) > best[0]:
            best = (decrease_of(side, label, classes), *found)
    return best


def best_means(x: F64, label: I64, classes: int, pairs: I64, prototypes: F64) -> float:
    """The first of the best restarts."""
    best = -1.0
    for left, right in pairs.tolist():
        side, means = np.empty(len(label), np.bool_), np.empty((2, x.shape[1]))
        if two_means(x, left, right, side, means) and decrease_of(side, label, classes) > best:
            best = decrease_of(side, label, classes)
            prototypes[:] = means
    return best
