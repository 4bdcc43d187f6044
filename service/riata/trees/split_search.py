"""The best split of a node on one variable: two prototypes that part the curves, or a threshold.

A restart begins with two curves of the node as prototypes. Under "euclid" these become the means of their sides until the sides
repeat (2-means), under "dtw" the member with the least summed distance to its side until neither changes (2-medoids). The best
restart is the one with the largest decrease of Gini impurity, the first of several.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from riata.base.arrays import BOOL, F64, I64
from riata.jit.kernel import inline_kernel, kernel

MEANS_MAX: Final = 30  # assignments of 2-means
MEDOIDS_MAX: Final = 20


@inline_kernel
def gini(counts: F64) -> float:
    """1 - sum p^2 of counts. Source: Breiman et al. 1984."""
    total, squares = 0.0, 0.0
    for count in counts:
        total += count
        squares += count * count
    return 1.0 - squares / (total * total) if total > 0.0 else 0.0


@inline_kernel
def decrease_of(side: BOOL, label: I64, classes: int) -> float:
    """Decrease of Gini impurity by a split; -1 if a side is empty. Source: Balakrishnan 2007, section 5.2."""
    left, right = np.zeros(classes), np.zeros(classes)
    for i in range(len(label)):
        if side[i]:
            left[label[i]] += 1.0
        else:
            right[label[i]] += 1.0
    n, m = left.sum(), right.sum()
    if n == 0.0 or m == 0.0:
        return -1.0
    return float(gini(left + right) - (n * gini(left) + m * gini(right)) / (n + m))


@inline_kernel
def part_means(x: F64, side: BOOL, means: F64) -> bool:
    """Write the means of both sides; false if a side is empty. Source: 2-means."""
    count = np.zeros(2)
    means[:] = 0.0
    for i in range(len(side)):
        half = 0 if side[i] else 1
        count[half] += 1.0
        for t in range(x.shape[1]):
            means[half, t] += x[i, t]
    for half in range(2):
        for t in range(x.shape[1]):
            means[half, t] /= max(count[half], 1.0)
    return bool(count[0] > 0.0 and count[1] > 0.0)


@kernel
def two_means(x: F64, left: int, right: int, side: BOOL, means: F64) -> int:
    """Part curves by 2-means.

    Parameters
    ----------
    x : f64[n, points]        read only
    left, right : int         the curves that begin as prototypes
    side : bool[n]            overwritten: whether a curve is at least as near to the left prototype
    means : f64[2, points]    overwritten: the prototypes

    Returns                   assignments, the one that repeats included; 0 if a side became empty
    Cost                      n points for each assignment
    Source                    Balakrishnan 2007, section 5.3
    """
    means[0], means[1] = x[left], x[right]
    side[:] = False
    for step in range(MEANS_MAX):
        changed = step == 0
        for i in range(len(side)):
            near, far = 0.0, 0.0
            for t in range(x.shape[1]):
                a, b = x[i, t] - means[0, t], x[i, t] - means[1, t]
                near += a * a
                far += b * b
            changed = changed or side[i] != (near <= far)
            side[i] = near <= far
        if not changed:
            return step + 1
        if not part_means(x, side, means):
            return 0
    return MEANS_MAX


@inline_kernel
def medoid(distance: F64, side: BOOL, half: bool, before: int) -> int:
    """The member of a side with the least summed distance to it, `before` among equals. Source: 2-medoids."""
    best, least = before, math.inf
    for i in range(len(side)):
        if side[i] == half:
            total = 0.0
            for j in range(len(side)):
                total += distance[i, j] if side[j] == half else 0.0
            if total < least or (total == least and i == before):
                best, least = i, total
    return best


@kernel
def two_medoids(distance: F64, left: int, right: int, side: BOOL) -> tuple[int, int]:
    """Part curves by 2-medoids.

    Parameters
    ----------
    distance : f64[n, n]      symmetric; read only
    left, right : int         the curves that begin as prototypes
    side : bool[n]            overwritten: whether a curve is at least as near to the left prototype

    Returns                   the prototypes; -1 twice if a side became empty
    Cost                      n^2 for each assignment
    Source                    Balakrishnan 2007, section 5.3
    """
    for step in range(MEDOIDS_MAX):
        count = 0
        for i in range(len(side)):
            side[i] = distance[i, left] <= distance[i, right]
            count += side[i]
        if count == 0 or count == len(side):
            return -1, -1
        if step == MEDOIDS_MAX - 1:
            break
        first, second = medoid(distance, side, True, left), medoid(distance, side, False, right)
        if first == left and second == right:
            break
        left, right = first, second
    return left, right


@kernel
def best_medoids(distance: F64, label: I64, classes: int, pairs: I64) -> tuple[float, int, int]:
    """The best of several restarts of 2-medoids.

    Parameters
    ----------
    distance : f64[n, n]      symmetric; read only
    label : i64[n]            0 .. classes - 1; read only
    classes : int
    pairs : i64[restarts, 2]  the curves that each begins with; read only

    Returns                   decrease of impurity, -1 if every restart left a side empty; the prototypes
    Cost                      n^2 for each assignment of each restart
    Source                    Balakrishnan 2007, section 5.2
    """
    side = np.empty(len(label), np.bool_)
    best, left, right = -1.0, -1, -1
    for restart in range(len(pairs)):
        first, second = two_medoids(distance, pairs[restart, 0], pairs[restart, 1], side)
        if first >= 0:
            decrease = decrease_of(side, label, classes)
            if decrease > best:
                best, left, right = decrease, first, second
    return best, left, right


@kernel
def best_means(x: F64, label: I64, classes: int, pairs: I64, prototypes: F64) -> float:
    """The best of several restarts of 2-means.

    Parameters
    ----------
    x : f64[n, points]        read only
    label : i64[n]            0 .. classes - 1; read only
    classes : int
    pairs : i64[restarts, 2]  the curves that each begins with; read only
    prototypes : f64[2, points]  overwritten

    Returns                   decrease of impurity, -1 if every restart left a side empty
    Cost                      n points for each assignment of each restart
    Source                    Balakrishnan 2007, section 5.2
    """
    side, means = np.empty(len(label), np.bool_), np.empty((2, x.shape[1]))
    best = -1.0
    for restart in range(len(pairs)):
        if two_means(x, pairs[restart, 0], pairs[restart, 1], side, means) > 0:
            decrease = decrease_of(side, label, classes)
            if decrease > best:
                best = decrease
                prototypes[:] = means
    return best


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
