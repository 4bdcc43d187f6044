"""Lazy truncation: the effect on one weight of a gap of events that did not touch it otherwise.

Truncation applies to all weights, learning only to the few of one row. So a weight stores the time of its last touch, and the
truncation events since then are applied in closed form when it is next read. That is exact: a weight above the ceiling does not
change, and one at or below it only gets smaller. So the ceiling is compared once, at the start of the gap, whatever the sizes of
the events were.

Time is a clock that only truncation events advance. `gap` is the clock now minus the clock at the last touch; one unit of it
shrinks by `unit`. If all events are equal, the clock counts them and `unit` is their size. If the size changes from event to
event, the clock adds up the sizes and `unit` is the weight's own rate.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from riata.jit.kernel import inline_kernel, kernel

TRUNCATE: Final = 0
ROUND: Final = 1
SUBGRADIENT: Final = 2

GRID: Final = 2.0**-40  # sums of multiples of this below 2^13 are exact in float64


@inline_kernel
def on_grid(value: float) -> float:
    """The nearest multiple of GRID, ties to even.

    Source    scaling by a power of two is exact, so only the rounding rounds
    """
    return float(np.rint(value / GRID)) * GRID


@inline_kernel
def shrink(beta: float, size: float, amount: float, ceiling: float) -> float:
    """Move a weight towards zero by `amount` >= 0, stopping there, unless its size is above the ceiling.

    size is compared with the ceiling: |beta|, or |beta| in other units. A weight that arrives at zero is +0.0.
    The function has no branch, so that a loop over it can be vectorized.

    Source    Langford, Li & Zhang 2009, equation 6 (T1)
    """
    limit = 0.0 if size > ceiling else amount
    pull = beta if beta < limit else limit
    return beta - (pull if pull > -limit else -limit)


@kernel
def gap_shrinkage(beta: float, unit: float, gap: float) -> float:
    """Take `gap` steps of size `unit`, each towards zero, without stopping there.

    Parameters
    ----------
    beta : float   the weight
    unit : float   >= 0
    gap : float    number of steps, a whole number

    Returns        the weight after the steps: it goes to zero and then alternates in sign; at exactly zero it stays
    Cost           one division
    Source         Langford, Li & Zhang 2009, equation 5, iterated
    """
    size = abs(beta)
    if unit <= 0.0 or gap <= 0.0 or size == 0.0:
        return beta
    n = min(gap, float(np.floor(size / unit)))  # math.floor would go through int64, where 1e300 does not fit
    rest = size - n * unit
    left = gap - n
    if left > 0.0 and rest > 0.0 and left % 2.0 == 1.0:
        return -math.copysign(unit - rest, beta)
    return math.copysign(rest, beta) if rest != 0.0 else 0.0


@kernel
def after_gap(rule: int, beta: float, size: float, unit: float, gap: float, ceiling: float) -> float:
    """The weight now, given the weight at its last touch.

    Parameters
    ----------
    rule : int        TRUNCATE, ROUND or SUBGRADIENT
    beta : float      the weight at its last touch
    size : float      compared with the ceiling: |beta|, or |beta| in other units
    unit : float      what one unit of the clock takes away, >= 0; ROUND ignores it
    gap : float       how far the clock advanced since then, >= 0
    ceiling : float   > 0; SUBGRADIENT ignores it

    Returns           the weight after all events of the gap
    Cost              O(1), for any number of events in the gap
    Source            Langford, Li & Zhang 2009, equations 4 (with the inequality turned, as the text means), 5 and 6
    """
    if gap <= 0.0:
        return beta
    if rule == TRUNCATE:
        return shrink(beta, size, unit * gap, ceiling)
    if rule == ROUND:
        return beta if size > ceiling else 0.0
    return gap_shrinkage(beta, unit, gap)
