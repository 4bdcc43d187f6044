"""The arithmetic of one row of truncated gradient, between reading its lines of the table and writing them back.

Eight features are processed at once, in `Lanes`. If the number of features of a row is not a multiple of eight, it is padded with
features of value zero in a line of the table that belongs to no slot. Rarely used rules go feature by feature.
"""

from __future__ import annotations

import math
from typing import Final, Literal, NamedTuple

import numpy as np

from riata.base.arrays import F64, U32
from riata.jit.kernel import inline_kernel
from riata.jit.simd.f64x8 import WIDTH, Lanes, add_up, flags, load, root, size, spread, store, where
from riata.learn.table_rows import HALF, SPREAD_MAX, prefetch_quarter_later
from riata.maths.rows import Rows
from riata.maths.truncation import SUBGRADIENT, TRUNCATE, after_gap, on_grid, shrink

INFINITE: Final = math.inf


class Settings(NamedTuple):
    """The configuration in the form that kernels take; the names of its numbers are in `learn.truncated_gradient.learner`.

    A flag that is None when it is off is part of the type: kernels are compiled for each combination separately, without the code
    that it does not need.
    """

    loss: int
    rule: int
    adaptive: Literal[True] | None
    normalised: Literal[True] | None
    one_by_one: bool  # another rule than TRUNCATE, or the grid: weights are truncated feature by feature
    invariant: bool
    grid: bool
    intercept: bool
    centred: bool
    calibrated: bool
    counted: float  # normalised: the scale of a feature that is not a column is 1 while its values are at most this; 0: never
    counting: bool  # truncation events all have the same size, so the clock counts them
    eta: float
    power: float  # 0 for a constant step size
    delay: float
    gravity: float
    period: int
    ceiling: float
    accumulator: float
    reach: float
    shift: int  # slot = hash >> shift


class Scratch(NamedTuple):
    """Work space for one row, one column each, in multiples of eight: where the line of the slot starts; value, less its centre
    from the gather on; weight as it enters the margin; weight after a change of the scale; sum of squared gradients; last number
    of the line, after the row; rate of the step times value, if there is a rate; centre and scale, of centred columns only; entry
    in the book of columns, if there are any."""

    start: U32
    x: F64
    plain: F64
    beta: F64
    squares: F64
    scale: F64
    step: F64
    centre: F64
    span: F64
    entry: F64


@inline_kernel
def width_of(settings: Settings) -> int:
    """Numbers in a line of the table, a power of two, so that no line crosses two cache lines.

    Source    module `truncated_gradient.row`
    """
    return 2 if settings.adaptive is None else 4


@inline_kernel
def inverse_root(squares: float, scale: float, accumulator: float) -> float:
    """The inverse of the divisor of the adaptive rate; 0 if there has been no gradient yet.

    Source    Duchi, Hazan & Singer 2011; in units of the normalised feature x / scale, Ross, Mineiro & Langford 2013
    """
    total = squares + accumulator * scale * scale
    return float(np.divide(1.0, math.sqrt(total if total > 0.0 else INFINITE)))


@inline_kernel
def shrink_unit(squares: float, scale: float, settings: Settings) -> float:
    """The amount by which one unit of the clock shrinks a weight.

    Source    Langford, Li & Zhang 2009, equation 6, with the weight's own step size; a penalty on scale * |beta|
    """
    unit = inverse_root(squares, scale, settings.accumulator) if settings.adaptive is not None else 1.0
    if settings.counting:
        events = 1 if settings.rule == SUBGRADIENT else settings.period
        unit = unit * (settings.eta * (settings.gravity * events))
        if settings.grid:
            unit = on_grid(unit)
    return unit


@inline_kernel
def weight_now(beta: float, gap: float, squares: float, scale: float, settings: Settings) -> float:
    """A weight with the truncation that is due for a gap of the clock. It takes no array, as that would cost a reference count.

    Source    module `truncation`; the ceiling, like the penalty, applies to scale * |beta|
    """
    unit = shrink_unit(squares, scale, settings)
    if settings.rule == TRUNCATE:
        return shrink(beta, abs(beta) * scale, unit * (gap if gap > 0.0 else 0.0), settings.ceiling)
    return after_gap(settings.rule, beta, abs(beta) * scale, unit, gap, settings.ceiling)


@inline_kernel
def inverse_roots(squares: Lanes, scale: Lanes, accumulator: float) -> Lanes:
    """`inverse_root` of eight features, to the last bit.

    Source    inverse_root
    """
    total = squares + accumulator * scale * scale
    return 1.0 / root(where(total > 0.0, total, INFINITE))


@inline_kernel
def weights_now(beta: Lanes, gap: Lanes, unit: Lanes, scale: Lanes, settings: Settings) -> Lanes:
    """`weight_now` of eight weights, to the last bit, for the common rule: a gap of 0 takes away 0. unit is the inverse root, 1
    if the rate is not adaptive.

    Source    weight_now
    """
    amount = (
        unit * (settings.eta * (settings.gravity * settings.period) if settings.counting else 1.0) * where(gap > 0.0, gap, 0.0)
    )
    limit = where(size(beta) * scale > settings.ceiling, 0.0, amount)
    pull = where(beta < limit, beta, limit)
    below = 0.0 - limit
    return beta - where(pull > below, pull, below)


@inline_kernel
def weights_one_by_one(beta: Lanes, gap: Lanes, scale: Lanes, j: int, settings: Settings, scratch: Scratch) -> Lanes:
    """`weight_now` of the eight features from j on, for the rare rules.

    Source    weight_now
    """
    s = scratch
    store(s.plain, j, beta)
    store(s.step, j, gap)
    store(s.scale, j, scale)
    for feature in range(j, j + WIDTH):
        s.plain[feature] = weight_now(s.plain[feature], s.step[feature], s.squares[feature], s.scale[feature], settings)
    return load(s.plain, j)


@inline_kernel
def squared_length(x: F64, k: int) -> float:
    """Sum of the squares of k values, in order; values are padded with zeros to a multiple of eight.

    Source    gather_row
    """
    length = 0.0
    for j in range(0, k, WIDTH):
        length = add_up(length, load(x, j) * load(x, j))
    return length


@inline_kernel
def stretch(beta: Lanes, old: Lanes, j: int, settings: Settings, scratch: Scratch) -> tuple[Lanes, Lanes, Lanes]:
    """Subtract the centres of eight features, and adapt their scales to the row's values.

    A scale grows to the row's value, within a limit, and keeps scale * weight unchanged; or it is 1 up to a value
    (`Settings.counted`). The scale of a centred column may also become less, as the centre moves; the weight then stays, and so
    does the sum of squared gradients in units of the scale.

    Parameters
    ----------
    beta, old : Lanes      weights and scales before the row
    j : int                the first of the features
    settings : Settings    the configuration
    scratch : Scratch      x, squares and scale are overwritten

    Returns                weights; values over scales; the lost part of each weight times its centre, for the intercept
    Cost                   one division for each feature, eight at once, and another if a scale changes
    Source                 Ross, Mineiro & Langford 2013, algorithm 2 (NAG), with the margin taken before the rescaling; module
                           `truncated_gradient.columns`
    """
    centre, span = load(scratch.centre, j), load(scratch.span, j)
    plain = centre == 0.0
    counting = settings.counted > 0.0
    largest, least = (settings.counted, 1.0) if counting else (1.0, 0.0)  # of value over scale; of the scale
    limit = where(plain, where(old > 0.0, settings.reach * largest * old, INFINITE), span)
    x = load(scratch.x, j) - centre
    x = where(x < limit, x, limit)
    x = where(x > 0.0 - limit, x, 0.0 - limit)
    wanted = size(x) * (1.0 / largest)
    wanted = where(size(x) > 0.0, where(wanted > least, wanted, least), 0.0)  # a feature that pads the row has no scale
    scale = where(plain, where(wanted > old, wanted, old), span)
    store(scratch.x, j, x)
    store(scratch.scale, j, scale)
    whole = where(scale > 0.0, scale, INFINITE)
    lost = spread(0.0)
    if flags(scale > old):  # rare; without a scale there is no weight either
        kept = where(scale > old, beta * (old / whole), beta)
        lost = (beta - kept) * centre
        beta = kept
    if flags(scale < old):
        less = where(scale < old, scale / where(old > 0.0, old, 1.0), 1.0)
        store(scratch.squares, j, load(scratch.squares, j) * less * less)
    return beta, x / whole, lost


@inline_kernel
def add_squares(
    settings: Settings, line: F64, rows: Rows, i: int, heat: float, k: int, scratch: Scratch
) -> tuple[float, float, float]:
    """Add the row to the k sums of squared gradients, and compute the steps, without the common factor of the row.

    Parameters
    ----------
    settings : Settings    the configuration, adaptive
    line, rows, i          the table and the row, to prefetch for features further on
    heat : float           importance times the square of the loss's slope
    k : int                number of gathered slots
    scratch : Scratch      squares and step are overwritten; scale, unless normalised: with the rate, for the next touch

    Returns                sum of rate * x^2 in the order of the slots, a bound on every number computed, and the sum of step *
                           centre
    Cost                   one square root and one division for each feature, eight at once
    Source                 Duchi, Hazan & Singer 2011; Ross, Mineiro & Langford 2013
    """
    s = scratch
    length, pull = 0.0, 0.0
    bound = spread(0.0)
    first = rows.indptr[i]
    for j in range(0, k, WIDTH):
        if k <= SPREAD_MAX:
            prefetch_quarter_later(line, rows, first + j + HALF, settings.shift, width_of(settings))
        x = load(s.x, j)
        scale = load(s.scale, j) if settings.normalised is not None else spread(1.0)
        squares = load(s.squares, j) + heat * x * x
        whole = scale * root(squares + settings.accumulator * scale * scale)
        rate = 1.0 / where(whole > 0.0, whole, INFINITE)
        if settings.normalised is None:
            store(s.scale, j, rate)
        step = rate * x
        store(s.squares, j, squares)
        store(s.step, j, step)
        length = add_up(length, step * x)
        if settings.centred:
            pull = add_up(pull, step * load(s.centre, j))
        bound = bound + (squares + size(load(s.beta, j)) + size(step))
    return length, add_up(0.0, bound), pull
