"""Modified Shooting on a block: coordinate ascent of the sketch under an L1 penalty.

There are two changes to the printed algorithm. Neither changes its optimum, or the rule by which the optimum is recognised.

The first member, if it has no penalty (as an intercept), moves along with every other: a weight is moved to the optimum of the
two coordinates together. With text the intercept is nearly a sum of features, and updating one coordinate at a time converges
slowly along that valley (measured: 381 sweeps became 17). This needs no second update of the gradients: the optimum of the first
weight follows from its own gradient at any time, so it moves once, at the end of the sweep.

After the first sweep only weights that violate their condition by more than a quarter of the slack are updated (LEAST).
"""

from __future__ import annotations

import math
from typing import Final

from riata.jit.kernel import inline_kernel, kernel
from riata.jit.simd.fma import add_line
from riata.maths.block import PENDING, SIZE, Block, flush, mirror_once, shift
from riata.maths.block_arrays import BEND, FINE, PULL, TRACKED, WEIGHT
from riata.maths.block_gram import bring_line, copy_rows, gather, scatter
from riata.maths.block_lazy import TRACK_ALL, choose, promote, settle

MANY_ROWS: Final = 32
LEAST: Final = 0.25
FLAT: Final = 1e-8  # share of its curvature that a weight must keep beside the first; below it, it moves alone (rounding)
WEIGHT_MAX: Final = 1e100  # a step to a weight beyond it is skipped: products of curvatures and weights stay finite


@inline_kernel
def target(omega: float, gamma: float, curvature: float) -> float:
    """The optimum of one weight while the others are fixed; 0 if there is no curvature to divide by.

    Source    Balakrishnan & Madigan 2008, algorithm 1: soft(Omega, gamma) / D, which is its three cases in one
    """
    if curvature <= 0.0 or abs(omega) <= gamma:
        return 0.0
    new = (omega - math.copysign(gamma, omega)) / curvature
    return new if abs(new) <= WEIGHT_MAX else 0.0


@inline_kernel
def aim(beta: float, g: float, gamma: float, curvature: float, lead: tuple[float, float, float], least: float) -> float:
    """The optimum of one weight if the first moves along and all others are fixed; unchanged if its violation is at most `least`.

    lead : cross curvature with the first, its gradient, its curvature; (0, 0, 1) if it is fixed too

    Source    Balakrishnan & Madigan 2008, algorithm 1, on the sketch with the first coordinate maximised out
    """
    share = lead[0] / lead[2]
    left = curvature - lead[0] * share
    along = g - share * lead[1]
    off = abs(along - math.copysign(gamma, beta)) if beta != 0.0 else abs(along) - gamma
    if off <= least:
        return beta
    if left > FLAT * curvature or abs(along + left * beta) <= gamma:
        return target(along + left * beta, gamma, left)
    return target(g + curvature * beta, gamma, curvature)


@inline_kernel
def leads(beta: float, g: float, gamma: float, curvature: float) -> bool:
    """Whether the first weight can move along: it has no penalty, and a step of its own would be finite.

    Source    this module
    """
    return gamma == 0.0 and curvature > 0.0 and abs(g + curvature * beta) <= WEIGHT_MAX * curvature


@inline_kernel
def excess(beta: float, g: float, gamma: float, curvature: float) -> float:
    """The violation of one weight's optimality condition; 0 if the weight is 0 because it cannot move.

    Source    Karush-Kuhn-Tucker conditions of the sketch
    """
    if beta != 0.0:
        return abs(g - math.copysign(gamma, beta))
    return abs(g) - gamma if target(g, gamma, curvature) != 0.0 else 0.0


@kernel
def violation(block: Block, prior: float, gamma: float) -> float:
    """Largest violation of the optimality conditions, over the members that can move.

    Parameters
    ----------
    block : Block      flushed; read only
    prior : float      initial curvature of every feature for each unit of its largest x^2
    gamma : float      penalty in force, in the block's units

    Returns            max_j of |G_j - gamma_j sgn beta_j| if beta_j is not 0, of max(0, |G_j| - gamma_j) otherwise
    Cost               O(size)
    Source             Karush-Kuhn-Tucker conditions of the sketch
    """
    worst = 0.0
    for j in range(block.counts[SIZE]):
        curvature = prior * block.peak[j] + block.curvature[j]
        worst = max(worst, excess(block.beta[j], block.gradient[j], block.gamma[j] * gamma, curvature))
    return worst


@kernel
def solve_plain(block: Block, prior: float, gamma: float, slack: float, sweeps_max: int) -> tuple[int, float]:
    """Do what `solve` does to a flushed block, without its `lazy`, which may be about other weights and gradients.

    Parameters
    ----------
    block : Block      overwritten
    prior : float      initial curvature of every feature for each unit of its largest x^2
    gamma : float      penalty in force, in the block's units, multiplied by gamma[j] for member j
    slack : float      largest violation that may remain, in the block's units: a share of gamma, or if gamma is 0 a
                       share of the gradient of one event
    sweeps_max : int   limit of the sweeps over the weights that are not 0 or should not be; at least one sweep is made

    Returns            weights moved, with repeats, the first not counted when it moves along; the violation that remains
    Cost               O(sweeps * |W| * size)
    Source             Balakrishnan & Madigan 2008, algorithm 1, on a worklist
    """
    mirror_once(block)
    size, g, cross = block.counts[SIZE], block.gradient, block.cross
    first = prior * block.peak[0] + block.curvature[0] if size > 0 else 0.0
    led = 1 if size > 1 and leads(block.beta[0], g[0], block.gamma[0] * gamma, first) else 0
    updates, worst, least = 0, math.inf, 0.0
    for _ in range(sweeps_max):
        for j in range(led, size):
            beta, curvature = block.beta[j], prior * block.peak[j] + block.curvature[j]
            lead = (cross[0, j], g[0], first) if led else (0.0, 0.0, 1.0)
            new = aim(beta, g[j], block.gamma[j] * gamma, curvature, lead, least)
            if new != beta:
                shift(g, cross[j], j, (new - beta, curvature), size)
                block.beta[j] = new
                updates += 1
        if led:
            new = target(g[0] + first * block.beta[0], 0.0, first)
            shift(g, cross[0], 0, (new - block.beta[0], first), size)
            block.beta[0] = new
        worst, least = violation(block, prior, gamma), LEAST * slack
        if worst <= slack:
            break
    return updates, worst


@inline_kernel
def all_at_once(block: Block, gamma: float) -> bool:
    """Whether to add the waiting rows now and solve on the whole block. True if enough rows were added since the last time for it
    to pay, and so many weights move that `gram` would be little smaller than the block.

    Source    this package's measurements; affects the time, and rounding
    """
    size, active = block.counts[SIZE], 0
    if block.counts[TRACKED] > 0 or 0 < block.counts[PENDING] < MANY_ROWS:
        return False
    for j in range(size):
        active += block.beta[j] != 0.0 or abs(block.gradient[j]) > block.gamma[j] * gamma
    return bool(size <= TRACK_ALL or 4 * active >= size)


@inline_kernel
def sweep(block: Block, lanes: int, least: float) -> int:
    """Update every tracked weight that violates its condition by more than `least`, once.

    Parameters
    ----------
    block : Block    lazy is overwritten; its members are gathered
    lanes : int      members tracked, rounded up to whole vectors
    least : float    0 in a first sweep

    Returns          weights moved
    Cost             O(weights moved * members tracked)
    Source           Balakrishnan & Madigan 2008, algorithm 1, on a worklist
    """
    work, gram = block.lazy.work, block.lazy.gram
    updates, first = 0, block.lazy.place[0] - 1
    led = first >= 0 and leads(work[WEIGHT, first], work[PULL, first], work[FINE, first], work[BEND, first])
    if led:
        bring_line(block, first, lanes)
    for a in range(block.counts[TRACKED]):
        if a != first or not led:
            beta, curvature = work[WEIGHT, a], work[BEND, a]
            lead = (gram[first, a], work[PULL, first], work[BEND, first]) if led else (0.0, 0.0, 1.0)
            new = aim(beta, work[PULL, a], work[FINE, a], curvature, lead, least)
            if new != beta:
                bring_line(block, a, lanes)
                gram[a, a] = curvature
                add_line(work[PULL], beta - new, gram[a], lanes)
                work[WEIGHT, a] = new
                updates += 1
    if led:
        new = target(work[PULL, first] + work[BEND, first] * work[WEIGHT, first], 0.0, work[BEND, first])
        gram[first, first] = work[BEND, first]
        add_line(work[PULL], work[WEIGHT, first] - new, gram[first], lanes)
        work[WEIGHT, first] = new
    return updates


@inline_kernel
def remaining(block: Block, since: int) -> float:
    """Largest violation of the optimality conditions over the gathered members from `since` on.

    Source    Karush-Kuhn-Tucker conditions of the sketch
    """
    work = block.lazy.work
    worst = 0.0
    for a in range(since, block.counts[TRACKED]):
        worst = max(worst, excess(work[WEIGHT, a], work[PULL, a], work[FINE, a], work[BEND, a]))
    return worst


@kernel
def solve(block: Block, prior: float, gamma: float, slack: float, sweeps_max: int) -> tuple[int, float]:
    """Maximise the sketch from the present weights until no optimality condition is violated by more than `slack`.

    Parameters
    ----------
    block : Block      overwritten
    prior : float      initial curvature of every feature for each unit of its largest x^2
    gamma : float      penalty in force, in the block's units, multiplied by gamma[j] for member j
    slack : float      largest violation that may remain, in the block's units: a share of gamma, or if gamma is 0 a
                       share of the gradient of one event
    sweeps_max : int   limit of the sweeps over the weights that are not 0 or should not be; at least one sweep is made

    Returns            weights moved, with repeats, the first not counted when it moves along; the violation that remains

    Cost               O(sweeps * |W| * members tracked + size)
    Source             Balakrishnan & Madigan 2008, algorithm 1, on a worklist; `block_lazy` for the rest
    """
    if len(block.lazy.tracked) == 0 or all_at_once(block, gamma):
        flush(block)
        return solve_plain(block, prior, gamma, slack, sweeps_max)
    updates, sweeps, worst = 0, 0, math.inf
    while sweeps < sweeps_max and worst > slack:
        if block.counts[TRACKED] == 0 and not choose(block, gamma):
            flush(block)
            more, worst = solve_plain(block, prior, gamma, slack, sweeps_max - sweeps)
            return updates + more, worst
        copy_rows(block)
        tracked = block.counts[TRACKED]
        lanes = -(-tracked // 8) * 8
        gather(block, prior, gamma, lanes)
        while sweeps < sweeps_max and worst > slack:
            updates += sweep(block, lanes, 0.0 if sweeps == 0 else LEAST * slack)
            sweeps += 1
            worst = remaining(block, 0)
        scatter(block, lanes)
        if tracked < block.counts[SIZE]:
            late = promote(block, gamma)
            if late < 0:
                settle(block)
                worst = violation(block, prior, gamma)
            elif late > 0:
                gather(block, prior, gamma, -(-(tracked + late) // 8) * 8)
                worst = max(worst, remaining(block, tracked))
    return updates, worst
