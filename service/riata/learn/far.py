"""Limits of columns, and values far outside of them that repeat, which stand for something else, found in a sample of rows.

A value counts as at most NEAR times as far from the median as a quartile is from the other. So neither mistakes nor the large
values of a heavy tail move the linear part of a margin by much; shapes have numbers for them.

A value is far if it is FAR times as far from the median as a quartile is from the other, and FAR_NEXT times as far as the
farthest value that is not. So columns with a heavy tail have none: their largest values are far from the middle, but not from
each other. Limits of a column are taken again with every sample.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from riata.base.arrays import F64, I64, U32
from riata.learn.apart import LIMITS, Apart
from riata.learn.learner import ColumnRange
from riata.learn.shapes import ROWS_MIN
from riata.wire.batch import Batch

NEAR: Final = 3.0
WIDE: Final = 10.0  # the same for a learner with standard errors, which hold where the margin is a straight line in heavy tails
FAR: Final = 30.0
FAR_NEXT: Final = 10.0
VALUES_MIN: Final = 32  # of a column in the sample, or it has no limits yet
FAR_SHARE: Final = 0.02  # of the values that do not repeat, at most: more are a part of the column
REPEATS_MIN: Final = 3  # of a far value in the sample, and
REPEATS_SHARE: Final = 0.001  # of its rows, from which on it is set apart
SET_APART_MAX: Final = 256  # values


class Found(NamedTuple):
    """What a sample shows.

    apart     : values that are set apart, and limits of columns; None for none
    far       : hashes of columns, and far values of theirs that are not set apart
    stretched : hashes of columns that have limits for the first time, and values outside of them
    """

    apart: Apart | None
    far: list[tuple[int, float]]
    stretched: list[int]


class Allowed(NamedTuple):
    """near: NEAR or WIDE. room: for how many features; a value that is set apart is one more, and without room counts as the
    limit."""

    near: float = NEAR
    room: int = sys.maxsize


USUAL: Final = Allowed()


def find_apart(hash_: U32, value: F64, rows: int, column: U32, known: Apart | None, allowed: Allowed = USUAL) -> Found:
    """Find the values that are set apart and the limits of columns. What is set apart remains so.

    hash_, value : the features of a sample by hash, and by value in each
    rows         : of the sample
    column       : hashes of its numeric columns
    known        : what was found before
    """
    instead, used, limit = _of(known)
    most = min(SET_APART_MAX, allowed.room - 1 - int(np.count_nonzero(hash_[1:] != hash_[:-1])))
    repeats = max(REPEATS_MIN, REPEATS_SHARE * rows)
    far: list[tuple[int, float]] = []
    stretched: list[int] = []
    starts, ends = (np.searchsorted(hash_, column, side).tolist() for side in ("left", "right"))
    for one, start, end in zip(column.tolist(), starts, ends, strict=True):
        x = value[start:end]
        if one in instead:
            x = x[~np.isin(x, instead[one])]
        if len(x) < VALUES_MIN:
            continue
        middle, spread = float(x[len(x) // 2]), float(x[3 * len(x) // 4] - x[len(x) // 4])
        outside = _outside(x, middle, spread)
        found, count = np.unique(outside, return_counts=True) if len(outside) else (outside, outside)
        if spread == 0.0 or count[count < repeats].sum() > FAR_SHARE * len(x):
            continue
        low, high = middle - allowed.near * spread, middle + allowed.near * spread
        if one not in limit and not (low <= x[0] and x[-1] <= high):
            stretched.append(one)
        limit[one], used[one] = (low, high), middle
        if len(outside):
            free = most - sum(map(len, instead.values()))
            again = found[count >= repeats].tolist()[: max(free, 0)]
            instead.setdefault(one, []).extend(again)
            far += [(one, x) for x in found.tolist() if x not in again]
    return Found(_apart(instead, used, limit), far, stretched)


def _outside(x: F64, middle: float, spread: float) -> F64:
    """The values that are far. x : increasing"""
    if max(x[-1] - middle, middle - x[0]) <= FAR * spread:
        return x[:0]
    distance = np.abs(x - middle)
    upper = np.sort(distance)[3 * len(x) // 4 :]
    gap = np.flatnonzero(upper[1:] > np.maximum(FAR * spread, FAR_NEXT * upper[:-1]))
    outside: F64 = x[distance > (upper[gap[0]] if len(gap) else upper[-1])]
    return outside


def ranges_of(sample: Batch, column: Sequence[int]) -> dict[int, ColumnRange]:
    """The ranges of some columns, by hash. sample : as it is learnt"""
    found = {}
    for one in column:
        x = sample.value[sample.hash == one]
        if len(x):
            mean = float(x.mean())
            found[one] = ColumnRange(len(x) / sample.n, mean, float(((x - mean) ** 2).mean()), float(x.min()), float(x.max()))
    return found


def _of(known: Apart | None) -> tuple[dict[int, list[float]], dict[int, float], dict[int, tuple[float, ...]]]:
    """The values of each feature that are set apart, what the feature then counts as, and the limits of each column."""
    instead: dict[int, list[float]] = {}
    if known is None:
        return instead, {}, {}
    for feature, value in zip(known.feature.tolist(), known.value.tolist(), strict=True):
        instead.setdefault(feature, []).append(value)
    limits = zip(*known.limit.tolist(), strict=True)
    used = dict(zip(known.feature.tolist(), known.used.tolist(), strict=True))
    return instead, used, dict(zip(known.column.tolist(), limits, strict=True))


def _apart(instead: dict[int, list[float]], used: dict[int, float], limit: dict[int, tuple[float, ...]]) -> Apart | None:
    if not limit:
        return None
    pairs = [(feature, value) for feature in sorted(instead) for value in instead[feature]]
    column = sorted(limit)
    feature: I64 = np.array([feature for feature, _ in pairs], np.int64)
    counts_as = np.array([used[feature] for feature, _ in pairs], np.float64)
    limits = np.array([limit[one] for one in column]).T.reshape(LIMITS, -1)
    return Apart(feature, np.array([value for _, value in pairs], np.float64), counts_as, np.array(column, np.uint32), limits)


def find_far(hash_: U32, value: F64, column: U32) -> tuple[U32, F64]:
    """Values that are far from all others of their column, for a learner that sets none apart: hashes, and a value each.

    Only the lowest and the highest value can be, by the distance of the next one.

    hash_, value : the `sorted_values` of a sample
    """
    found: list[tuple[int, float]] = []
    for one in column.tolist():
        x = value[np.searchsorted(hash_, one) : np.searchsorted(hash_, one, side="right")]
        if len(x) < ROWS_MIN:
            continue
        middle, spread = x[len(x) // 2], x[3 * len(x) // 4] - x[len(x) // 4]
        for end in (x[0], x[-1]):
            others = x[x != end]
            next_ = np.abs(others - middle).max(initial=0.0) if len(others) else math.inf
            if abs(end - middle) > max(FAR * spread, FAR_NEXT * next_) > 0.0:
                found.append((one, float(end)))
    return np.array([hash_ for hash_, _ in found], np.uint32), np.array([value for _, value in found], np.float64)
