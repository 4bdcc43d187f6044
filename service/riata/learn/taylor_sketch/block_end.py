"""The end of a block of events: forgetting, the growth of the penalty, a solve, and a round if one is due.

A round is an exchange of features between the block of cross curvature and the table (`round`).
"""

from __future__ import annotations

import math
from typing import Final

from riata.jit.kernel import inline_kernel, kernel
from riata.jit.raw.prefetch import AHEAD, prefetch
from riata.learn.slot_table import line_at
from riata.learn.taylor_sketch.kernel_state import (
    CURVATURE,
    ENDED,
    FIXED,
    GRADIENT,
    GROWTH,
    IMPORTANCE,
    LEARNT,
    LINEAR,
    N_EFF,
    N_HELD,
    N_SEEN,
    SCALE,
    SINCE,
    Settings,
    State,
)
from riata.learn.taylor_sketch.round import exchange_members
from riata.learn.taylor_sketch.row import slack_of
from riata.learn.taylor_sketch.shadow import solve_shadows
from riata.maths.block import rescale, solve

_DECAY_MIN: Final = 1e-90  # lower bound of the decay of one block; below it nothing of the past is left
SWEEPS_WHOLE: Final = 1000  # for a single solve; the solves at block ends are a sequence in which each continues the one before
_SCALE_MIN: Final = 1e-100  # below it the stored sums would come near overflow


@inline_kernel
def forget(state: State, settings: Settings, learnt: int, length: int) -> None:
    """Multiply the sums by the decay of a block of `length` events.

    Source    exponential forgetting; in the burn-in, weights (s / i)^power, so that the terms that were linearised about the
              first, poor weights are forgotten
    """
    q = math.pow(settings.rho, float(length))
    if length < learnt <= settings.burn_in:
        q = min(q, math.pow((learnt - length) / learnt, settings.power))
    q = max(q, _DECAY_MIN)
    if q < 1.0:
        state.scalars[SCALE] *= q
        state.scalars[N_EFF] *= q
        if state.scalars[SCALE] < _SCALE_MIN:
            renormalise(state)


@kernel
def renormalise(state: State) -> None:
    """Set the scale to 1 and every stored sum to the true sum.

    Parameters
    ----------
    state : State    overwritten

    Returns          nothing
    Cost             O(slots seen + size of the block, squared)
    Source           a change of units
    """
    scale = state.scalars[SCALE]
    line, seen = state.outside.line, state.outside.seen
    listed = state.counts[N_SEEN]
    for p in range(listed):
        prefetch(line, line_at(state.outside.places, int(seen[min(p + AHEAD, listed - 1)])))
        at = line_at(state.outside.places, int(seen[p]))
        if line[at, CURVATURE] >= 0.0:  # a negative one is a member's position
            line[at, GRADIENT] *= scale
            line[at, CURVATURE] *= scale
    rescale(state.members.block, scale)
    for row in range(state.counts[N_HELD]):
        state.held.weight[row] *= scale
    state.scalars[SCALE] = 1.0


@inline_kernel
def growth_at(state: State, settings: Settings, learnt: int) -> float:
    """Return the factor of the penalties after `learnt` events.

    Source    Balakrishnan & Madigan 2008, section 4.1, with a floor; in a burn-in the penalties stay proportional to the
              importance that is not forgotten
    """
    growth = 1.0
    if settings.schedule != FIXED:
        share = learnt / settings.gamma_events
        growth = max(settings.gamma_floor, share if settings.schedule == LINEAR else math.sqrt(share))
    if settings.burn_in > 0 and learnt > 0:
        growth *= min(1.0, state.scalars[N_EFF] / state.scalars[IMPORTANCE])
    return growth


@kernel
def solve_members(state: State, settings: Settings, sweeps_max: int) -> None:
    """Solve for the weights of the block, and for those of the shadows if there are any.

    Parameters
    ----------
    state : State          overwritten
    settings : Settings    the configuration
    sweeps_max : int       the most sweeps a solve may take

    Returns                nothing
    Cost                   the cost of `solve` and of `solve_shadows`
    Source                 Balakrishnan & Madigan 2008, algorithm 1
    """
    growth, scale = state.scalars[GROWTH], state.scalars[SCALE]
    slack = slack_of(state, settings, settings.gamma)
    solve(state.members.block, settings.prior / scale, growth / scale, slack, sweeps_max)
    if len(state.shadows.gamma) > 0:
        solve_shadows(state, settings, sweeps_max)


@inline_kernel
def block_ends(state: State, settings: Settings) -> bool:
    """Return whether the block ends here: as many rows were learnt since the last block as the current block length.

    Source    this package's measurements: a stream whose first blocks are short has an early phase
    """
    learnt = state.counts[LEARNT]
    length = settings.block if settings.ramp == 0.0 else min(settings.block, max(1, int(settings.ramp * learnt)))
    return bool(learnt - state.counts[ENDED] >= length)


@kernel
def end_block(state: State, settings: Settings) -> None:
    """Forget, set the penalty in force, solve for the block, and exchange its members if a round is due.

    Parameters
    ----------
    state : State          overwritten
    settings : Settings    the configuration

    Returns                nothing
    Cost                   the cost of `solve`; in a round O(features waiting + members * features exchanged)
    Source                 Balakrishnan & Madigan 2008, algorithm 2
    """
    learnt = state.counts[LEARNT]
    length = learnt - state.counts[ENDED]
    forget(state, settings, learnt, length)
    state.scalars[GROWTH] = growth_at(state, settings, learnt)
    solve_members(state, settings, settings.sweeps_max)
    state.counts[ENDED] = learnt
    state.counts[SINCE] += 1
    if settings.exchanges and (length < settings.block or state.counts[SINCE] >= settings.rounds):
        state.counts[SINCE] = 0
        exchange_members(state, settings)
