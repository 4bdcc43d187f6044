"""Shadows: other penalties that are evaluated on the same sketch in parallel to the penalty in force.

Each shadow has its own weights and its own progressive loss.
"""

from __future__ import annotations

import math
from typing import Final

from riata.jit.kernel import inline_kernel, kernel
from riata.learn.taylor_sketch.kernel_state import GROWTH, HYBRID, SCALE, Scratch, Settings, State
from riata.learn.taylor_sketch.row import outside_weight, slack_of
from riata.learn.taylor_sketch.slot_map import position_of
from riata.maths.block import SIZE, flush, mirror_once, problem_of
from riata.maths.shooting import Quadratic, shift, shoot
from riata.maths.taylor import log_likelihood

WEIGHT: Final = 0  # columns of Shadows.loss: importance; importance times loss; both with decay
LOSS: Final = 1
FADED_WEIGHT: Final = 2
FADED_LOSS: Final = 3
LOSSES: Final = 4

_FADE: Final = 2.0 ** (-1.0 / 10_000.0)  # the weight of an event halves every 10,000 events
_LOSS_MAX: Final = -math.log(1e-15)  # the loss of a certain and wrong prediction in progressive validation


@inline_kernel
def shadow_margins(state: State, settings: Settings, counts: tuple[int, int], scratch: Scratch) -> None:
    """Compute each shadow's margin for the row that `gather_row` looked up. Members have the shadow's weights. A feature outside
    has the weight that maximises the penalised sketch along its own coordinate.

    Source    Balakrishnan & Madigan 2008, section 4.1 on the choice of gamma
    """
    s, w = scratch, state.shadows
    k, n = counts
    growth = state.scalars[GROWTH] / state.scalars[SCALE]
    prior = settings.prior / state.scalars[SCALE]
    for c in range(len(w.gamma)):
        margin = 0.0
        for j in range(k):
            margin += w.beta[c, s.at[j]] * s.x[j]
        if settings.outside == HYBRID:
            for j in range(n):
                own = position_of(state.own.place, int(s.slot[j]))
                gamma = growth * (state.own.gamma[own] if own >= 0 else w.gamma[c])
                total = prior * abs(s.peak[j]) + s.curvature[j]
                margin += outside_weight(s.gradient[j] + total * s.beta[j], gamma, total) * s.y[j]
        w.margin[c] = margin


@inline_kernel
def score_shadows(state: State, settings: Settings, label: float, importance: float) -> None:
    """Add the loss of every shadow's prediction to its sums.

    Source    progressive validation, as in `watch`
    """
    w = state.shadows
    for c in range(len(w.gamma)):
        loss = _LOSS_MAX
        if math.isfinite(w.margin[c]):
            loss = min(-log_likelihood(settings.link, w.margin[c], label), _LOSS_MAX)
        w.loss[c, WEIGHT] += importance
        w.loss[c, LOSS] += importance * loss
        w.loss[c, FADED_WEIGHT] = _FADE * w.loss[c, FADED_WEIGHT] + importance
        w.loss[c, FADED_LOSS] = _FADE * w.loss[c, FADED_LOSS] + importance * loss


@kernel
def solve_shadows(state: State, settings: Settings, sweeps_max: int) -> None:
    """Solve the sketch for the weights of the block under every shadow's penalty, starting from its previous weights.

    Parameters
    ----------
    state : State          shadows are overwritten; the block is flushed
    settings : Settings    the configuration
    sweeps_max : int       the most sweeps a solve may take

    Returns                nothing
    Cost                   for each shadow, size of the block times weights that differ from those in force, and a solve
    Source                 Balakrishnan & Madigan 2008, algorithm 1
    """
    b, w = state.members.block, state.shadows
    flush(b)
    mirror_once(b)
    size = b.counts[SIZE]
    growth, prior = state.scalars[GROWTH] / state.scalars[SCALE], settings.prior / state.scalars[SCALE]
    own = problem_of(b, prior, growth)
    for c in range(len(w.gamma)):
        wanted = w.beta[c, :size].copy()
        gamma = w.factor[c, :size] * growth
        problem = Quadratic(w.beta[c, :size], w.gradient[:size], own.curvature, gamma, b.cross, own.halt)
        problem.beta[:] = own.beta
        problem.gradient[:] = own.gradient
        for j in range(size):
            if wanted[j] != problem.beta[j]:
                shift(problem.gradient, b.cross[j], j, (wanted[j] - problem.beta[j], own.curvature[j]))
                problem.beta[j] = wanted[j]
        shoot(problem, slack_of(state, settings, w.gamma[c]), sweeps_max)
