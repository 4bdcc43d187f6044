"""A bound on the error of the stored gradient of a member that is not tracked. See `block_lazy` for the derivation."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from riata.base.arrays import F64, I64
from riata.jit.kernel import inline_kernel
from riata.maths.block_arrays import FOUNDED, MIRRORED, PENDING, SIZE, TRACKED, Block

_SAFETY: Final = 1.0 + 1e-9  # the bound is computed with rounding errors


@inline_kernel
def weighed_squares(block: Block, tracked: I64) -> F64:
    """Sum H_jl^2 / flushed_j over tracked j, increasing, for every l: f64[size].

    A member without flushed curvature has no cross curvature either. The numbers are added in the same order whether elements
    below the diagonal are kept or not.

    Source    theory of operation of `block_lazy`
    """
    cross, size = block.cross, block.counts[SIZE]
    sums, weight = np.zeros(size), np.zeros(len(tracked))
    for a in range(len(tracked)):
        flushed = block.lazy.flushed[tracked[a]]
        weight[a] = 1.0 / flushed if flushed > 0.0 else 0.0
    if block.counts[MIRRORED] == 1:
        for a in range(len(tracked)):
            for c in range(size):
                sums[c] += weight[a] * (cross[tracked[a], c] * cross[tracked[a], c])
        return sums
    after = 0  # the first tracked member after line j
    for j in range(size):
        if after < len(tracked) and tracked[after] == j:
            for c in range(j + 1, size):
                sums[c] += weight[after] * (cross[j, c] * cross[j, c])
            after += 1
        total = sums[j]
        for a in range(after, len(tracked)):
            h = cross[j, np.uint64(tracked[a])]
            total += weight[a] * (h * h)
        sums[j] = total
    return sums


@inline_kernel
def factors_now(block: Block) -> tuple[float, float, float]:
    """The second factors of the bound: of the waiting rows, of the members in `reach`, of those tracked since.

    Source    theory of operation of `block_lazy`
    """
    lazy = block.lazy
    rows = old = new = 0.0
    for i in range(block.counts[PENDING]):
        rows += block.row_h[i] * (lazy.moved[i] * lazy.moved[i])
    for a in range(block.counts[TRACKED]):
        j = lazy.tracked[a]
        step = block.beta[j] - lazy.settled[a]
        if a < block.counts[FOUNDED]:
            old += lazy.flushed[j] * (step * step)
        else:
            new += math.sqrt(lazy.flushed[j]) * abs(step)
    return _SAFETY * math.sqrt(rows), _SAFETY * math.sqrt(old), _SAFETY * new


@inline_kernel
def doubtful(block: Block, j: int, gamma: float, factors: tuple[float, float, float]) -> bool:
    """Whether the bound does not rule out that a member's gradient exceeds its penalty.

    Source    theory of operation of `block_lazy`
    """
    lazy = block.lazy
    rows, old, new = factors
    bound = lazy.reach[j] * old + math.sqrt(block.curvature[j] - lazy.flushed[j]) * rows + math.sqrt(lazy.flushed[j]) * new
    return bool((abs(block.gradient[j]) + bound > block.gamma[j] * gamma) & (lazy.place[j] == 0))
