"""Dynamic time warping of curves with any number of channels.

Theory of operation
    The distance of curves a of n points and b of m points is the least sum of |a_i - b_j|^2 over paths from (0, 0) to
    (n - 1, m - 1) with steps (1, 0), (0, 1) and (1, 1); no root is taken. With a window w only cells with |i - j| <= w are on
    a path; a window narrower than |n - m| leaves none.

        D(i, j) = |a_i - b_j|^2 + min(D(i - 1, j), D(i, j - 1), D(i - 1, j - 1))

    Cells are computed along antidiagonals i + j = k: those of one antidiagonal do not depend on each other, so several are
    computed at once. Three antidiagonals are kept; b is reversed, so that its points lie in the order of i. Every path crosses
    one of two neighbouring antidiagonals: when both are above a limit, so is the distance, and the rest is left out.

    Curves are stored channel by channel: curve i is value[channels start[i] : channels start[i + 1]], first all points of
    channel 0, then those of channel 1.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from riata.base.arrays import BOOL, F64, I64
from riata.jit.kernel import inline_kernel, kernel

NO_WINDOW: Final = -1
CHECK_EVERY: Final = 16  # antidiagonals between two looks at the limit


class Curves(NamedTuple):
    """Curves of any lengths.

    start    : i64[n + 1]   curve i has the points start[i] : start[i + 1], at least one
    value    : f64[channels start[n]]   see the module
    channels : int
    """

    start: I64
    value: F64
    channels: int


@inline_kernel
def curve(curves: Curves, i: int) -> F64:
    """The values of a curve, channel by channel. Source: this module."""
    return curves.value[curves.channels * curves.start[i] : curves.channels * curves.start[i + 1]]


@inline_kernel
def smallest(line: F64, first: int, end: int) -> float:
    """The least of some numbers. Source: definition."""
    found = math.inf
    for i in range(first, end):
        found = min(found, line[i])
    return found


@inline_kernel
def advance(cost: F64, left: F64, up: F64, across: F64, out: F64) -> None:
    """out := cost + the least of three. Source: this module's theory of operation."""
    for t in range(len(out)):
        least = left[t] if left[t] < up[t] else up[t]
        out[t] = cost[t] + (across[t] if across[t] < least else least)


@kernel
def warp(a: F64, b: F64, channels: int, window: int, limit: float, scratch: F64) -> float:
    """The distance of two curves.

    Parameters
    ----------
    a : f64[channels n]      read only
    b : f64[channels m]      read only
    channels : int
    window : int             largest |i - j|; NO_WINDOW: any. A window below |n - m| is taken as |n - m|
    limit : float            distances above it may be returned as infinite
    scratch : f64[>= 4 (n + 2) + channels m]  overwritten

    Returns                  the distance
    Cost                     n m cells of `channels` additions, fewer with a window
    Source                   Sakoe & Chiba 1978; Balakrishnan 2007, section 5.2
    """
    n, m = len(a) // channels, len(b) // channels
    before, last = scratch[: n + 2], scratch[n + 2 : 2 * n + 4]
    now, cost = scratch[2 * n + 4 : 3 * n + 6], scratch[3 * n + 6 : 4 * n + 8]
    turned = scratch[4 * n + 8 : 4 * n + 8 + channels * m]
    for c in range(channels):
        for j in range(m):
            turned[c * m + m - 1 - j] = b[c * m + j]
    before[:], last[:], now[:] = math.inf, math.inf, math.inf
    before[0] = 0.0  # the cell before (0, 0); index i + 1 holds line i
    w = n + m if window == NO_WINDOW else max(window, abs(n - m))
    for k in range(n + m - 1):
        low, high = max(0, k - m + 1, (k - w + 1) // 2), min(n - 1, k, (k + w) // 2)
        size = high - low + 1
        if size > 0:
            part = cost[:size]
            part[:] = 0.0
            for c in range(channels):
                x = a[c * n + low : c * n + high + 1]
                y = turned[c * m + m - 1 - k + low : c * m + m - k + high]
                for t in range(size):
                    d = x[t] - y[t]
                    part[t] += d * d
            advance(part, last[low + 1 : high + 2], last[low : high + 1], before[low : high + 1], now[low + 1 : high + 2])
        now[low], now[high + 2] = math.inf, math.inf
        if k % CHECK_EVERY == CHECK_EVERY - 1 and k < n + m - 2 and limit < math.inf:
            ahead = min(smallest(now, max(low, 0), high + 3), smallest(last, max(low - 1, 0), min(high + 3, n + 2)))
            if ahead > limit:
                return math.inf
        before, last, now = last, now, before
    return float(last[n])


@kernel
def warp_pairs(curves: Curves, window: int, first: int, end: int, out: F64) -> None:
    """Distances between some curves and all before them.

    Parameters
    ----------
    curves : Curves       read only
    window : int          see `warp`
    first, end : int      the lines that are written
    out : f64[n, n]       out[i, j] for first <= i < end and j < i is overwritten

    Returns               nothing
    Cost                  one distance for each pair
    Source                Balakrishnan 2007, section 5.3: medoids need all pairs once
    """
    longest = 0
    for i in range(len(curves.start) - 1):
        longest = max(longest, curves.start[i + 1] - curves.start[i])
    scratch = np.empty(4 * (longest + 2) + curves.channels * longest)
    for i in range(first, end):
        for j in range(i):
            out[i, j] = warp(curve(curves, i), curve(curves, j), curves.channels, window, math.inf, scratch)


@inline_kernel
def straight(a: F64, b: F64) -> float:
    """The squared Euclidean distance of two curves of one length. Source: definition."""
    total = 0.0
    for e in range(len(a)):
        d = a[e] - b[e]
        total += d * d
    return total


@kernel
def nearer_left(curves: Curves, at: I64, left: F64, right: F64, window: int, is_warped: bool, out: BOOL) -> None:
    """Whether curves are at least as near to one prototype as to another.

    Parameters
    ----------
    curves : Curves           read only
    at : i64[n]               which curves; read only
    left, right : f64[...]    prototypes; read only
    window : int              see `warp`
    is_warped : bool          otherwise the Euclidean distance, and all lengths are those of the prototypes
    out : bool[n]             overwritten

    Returns                   nothing
    Cost                      two distances a curve; the second ends early if it is longer
    Source                    Balakrishnan 2007, section 5.2: left if the distance to the left one is not greater
    """
    longest = max(len(left), len(right)) // curves.channels
    for i in at:
        longest = max(longest, curves.start[i + 1] - curves.start[i])
    scratch = np.empty(4 * (longest + 2) + curves.channels * longest)
    for e in range(len(at)):
        one = curve(curves, at[e])
        if is_warped:
            near = warp(one, left, curves.channels, window, math.inf, scratch)
            out[e] = near <= warp(one, right, curves.channels, window, near, scratch)
        else:
            out[e] = straight(one, left) <= straight(one, right)
