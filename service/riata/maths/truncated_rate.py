"""The arithmetic of one row of truncated gradient, between reading its lines of the table and writing them back.

Everything here goes over the columns of a `Scratch`, one short loop after another without a branch in it, so that the
compiler can take several features at once; square roots and divisions then cost next to nothing. Divisions are
`np.divide`, since Python's own looks for a zero each time. A loop touches few columns: the compiler has to prove, when
it runs, that none overlaps another.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from riata.base.arrays import F64, U32
from riata.maths.kernel import inline_kernel
from riata.maths.truncation import SUBGRADIENT, TRUNCATE, after_gap, on_grid, shrink

INFINITE: Final = math.inf


class Settings(NamedTuple):
    """The configuration as the kernels want it; the words behind the numbers are in `learn.truncated_gradient`."""

    loss: int
    rule: int
    adaptive: bool
    normalised: bool
    invariant: bool
    grid: bool
    intercept: bool
    counting: bool  # truncation events are all of one size, so the clock counts them
    eta: float
    power: float  # 0 for a step size that does not decay
    delay: float
    gravity: float
    period: int
    ceiling: float
    accumulator: float
    reach: float
    shift: int  # slot = hash >> shift


class Scratch(NamedTuple):
    """Room for one row, a column for each: slot; value; weight; clock since the last touch; sum of squared gradients; scale
    before the row; scale after it; value over scale; rate of the step."""

    slot: U32
    x: F64
    beta: F64
    gap: F64
    squares: F64
    before: F64
    scale: F64
    unit: F64
    rate: F64


@inline_kernel
def inverse_root(squares: float, scale: float, accumulator: float) -> float:
    """What the adaptive rate divides by, inverted; 0 where there has been no gradient yet.

    Source    Duchi, Hazan & Singer 2011; in units of the normalised feature x / scale, Ross, Mineiro & Langford 2013
    """
    total = squares + accumulator * scale * scale
    return float(np.divide(1.0, math.sqrt(total if total > 0.0 else INFINITE)))


@inline_kernel
def shrink_unit(squares: float, scale: float, settings: Settings) -> float:
    """What one unit of the clock takes from a weight.

    Source    Langford, Li & Zhang 2009, equation 6, with the weight's own step size; a penalty on scale * |beta|
    """
    unit = inverse_root(squares, scale, settings.accumulator) if settings.adaptive else 1.0
    if settings.counting:
        events = 1 if settings.rule == SUBGRADIENT else settings.period
        unit = unit * (settings.eta * (settings.gravity * events))
        if settings.grid:
            unit = on_grid(unit)
    return unit


@inline_kernel
def weight_now(beta: float, gap: float, squares: float, scale: float, settings: Settings) -> float:
    """A weight with the truncation that is due for a gap of the clock; no array comes in, for that would cost a lock.

    Source    module `truncation`; the ceiling, like the penalty, is meant for scale * |beta|
    """
    unit = shrink_unit(squares, scale, settings)
    if settings.rule == TRUNCATE:
        return shrink(beta, abs(beta) * scale, unit * (gap if gap > 0.0 else 0.0), settings.ceiling)
    return after_gap(settings.rule, beta, abs(beta) * scale, unit, gap, settings.ceiling)


@inline_kernel
def catch_up(settings: Settings, k: int, scratch: Scratch) -> None:
    """Turn the k weights of the last touch into those of now.

    The loops for the rule that everyone uses are `weight_now` to the last bit: a gap of 0 takes away 0.

    Source    weight_now
    """
    s = scratch
    if settings.rule != TRUNCATE or settings.grid:
        for j in range(k):
            s.beta[j] = weight_now(s.beta[j], s.gap[j], s.squares[j], s.before[j], settings)
    else:
        size = settings.eta * (settings.gravity * settings.period) if settings.counting else 1.0
        accumulator = settings.accumulator
        ceiling = settings.ceiling
        if settings.adaptive:
            for j in range(k):
                s.rate[j] = inverse_root(s.squares[j], s.before[j], accumulator)
        else:
            for j in range(k):
                s.rate[j] = 1.0
        for j in range(k):
            gap = s.gap[j] if s.gap[j] > 0.0 else 0.0
            s.beta[j] = shrink(s.beta[j], abs(s.beta[j]) * s.before[j], (s.rate[j] * size) * gap, ceiling)


@inline_kernel
def stretch(settings: Settings, k: int, scratch: Scratch) -> None:
    """Let the scales of the k features grow to the row's values, within reach, and keep scale * weight as it was.

    Source    Ross, Mineiro & Langford 2013, algorithm 2 (NAG), with the margin taken before the rescaling
    """
    s = scratch
    reach = settings.reach
    for j in range(k):
        old = s.before[j]
        limit = reach * old if old > 0.0 else INFINITE
        x = s.x[j]
        x = x if x < limit else limit
        x = x if x > -limit else -limit
        scale = abs(x) if abs(x) > old else old
        s.x[j] = x
        s.scale[j] = scale
        s.unit[j] = np.divide(x, scale if scale > 0.0 else INFINITE)
    for j in range(k):
        s.beta[j] = s.beta[j] * np.divide(s.before[j], s.scale[j] if s.scale[j] > 0.0 else INFINITE)


@inline_kernel
def add_squares(settings: Settings, heat: float, k: int, scratch: Scratch) -> None:
    """Add the row to the k sums of squared gradients, and work out the rates: one square root and one division for each.

    Source    Duchi, Hazan & Singer 2011; Ross, Mineiro & Langford 2013
    """
    s = scratch
    accumulator = settings.accumulator
    for j in range(k):
        x = s.x[j]
        scale = s.scale[j]
        squares = s.squares[j] + heat * x * x
        root = scale * math.sqrt(squares + accumulator * scale * scale)
        s.squares[j] = squares
        s.rate[j] = np.divide(1.0, root if root > 0.0 else INFINITE)


@inline_kernel
def rate_row(settings: Settings, heat: float, k: int, scratch: Scratch) -> tuple[float, float, float]:
    """Work out scales, sums of squares and rates of the k gathered features, before the common factor of the row.

    Parameters
    ----------
    settings : Settings    the configuration
    heat : float           importance times the square of the loss's slope
    k : int                number of gathered slots
    scratch : Scratch      x, beta, squares, scale, unit and rate are overwritten

    Returns                sum of rate * x^2, sum of (x / scale)^2 (0 unless normalised), a bound on every number made
    Cost                   one square root and three divisions for each feature, several at once
    Source                 this module
    """
    s = scratch
    length = 0.0
    norm = 0.0
    bound = 0.0
    if settings.normalised:
        stretch(settings, k, scratch)
    else:
        for j in range(k):
            s.scale[j] = 1.0
            s.unit[j] = 0.0
    if settings.adaptive:
        add_squares(settings, heat, k, scratch)
    else:
        for j in range(k):
            s.rate[j] = 1.0
    for j in range(k):  # three sums side by side take no longer than one
        step = s.rate[j] * s.x[j]
        norm += s.unit[j] * s.unit[j]
        length += step * s.x[j]
        bound += s.squares[j] + abs(s.beta[j]) + abs(step)
    return length, norm, bound
