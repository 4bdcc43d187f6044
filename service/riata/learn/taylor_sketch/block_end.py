"""The end of a block of events: forgetting, the growth of the penalty, a solve, and a round if one is due.

A round is an exchange of features between the block of cross curvature and the table (`round`).
"""

from __future__ import annotations

import math
from typing import Final

from riata.jit.kernel import inline_kernel, kernel
from riata.jit.raw.prefetch import AHEAD, prefetch
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
from riata.maths.block import rescale
from riata.maths.shooting import solve

_DECAY_MIN: Final = 1e-90  # a block that forgets more than this has forgotten all
SWEEPS_WHOLE: Final = 1000  # for a solve that is not one of a row of them, each of which goes on where the last one stopped
_SCALE_MIN: Final = 1e-100  # below it stored sums would come near the end of the range of numbers


@inline_kernel
def forget(state: State, settings: Settings, learnt: int, length: int) -> None:
    """Let the sums fade by what a block of `length` events is due.

    Source    exponential forgetting; in the burn-in, weights (s / i)^power, so that what was linearised about the first, bad
              weights goes
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
    """Bring the scale back to 1: every stored sum becomes the true one.

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
        prefetch(line, int(seen[min(p + AHEAD, listed - 1)]))
        if line[seen[p], CURVATURE] >= 0.0:  # a member's names its position
            line[seen[p], GRADIENT] *= scale
            line[seen[p], CURVATURE] *= scale
    rescale(state.members.block, scale)
    for row in range(state.counts[N_HELD]):
        state.held.weight[row] *= scale
    state.scalars[SCALE] = 1.0


@inline_kernel
def growth_at(state: State, settings: Settings, learnt: int) -> float:
    """What the penalties are multiplied by after `learnt` events.

    Source    Balakrishnan & Madigan 2008, section 4.1, with a floor; in a burn-in penalties keep their proportion to the events
              that are remembered
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
    """Solve for the weights of the block, and where shadows are kept, for theirs.

    Parameters
    ----------
    state : State          overwritten
    settings : Settings    the configuration
    sweeps_max : int       the most sweeps a solve may take

    Returns                nothing
    Cost                   what `solve` costs, and `solve_shadows`
    Source                 Balakrishnan & Madigan 2008, algorithm 1
    """
    growth, scale = state.scalars[GROWTH], state.scalars[SCALE]
    slack = slack_of(state, settings, settings.gamma)
    solve(state.members.block, settings.prior / scale, growth / scale, slack, sweeps_max)
    if len(state.shadows.gamma) > 0:
        solve_shadows(state, settings, sweeps_max)


@inline_kernel
def block_ends(state: State, settings: Settings) -> bool:
    """Whether as many rows were learnt since the last block's end as a block has now.

    Source    this package's measurements: a stream whose first blocks are short has an early phase
    """
    learnt = state.counts[LEARNT]
    length = settings.block if settings.ramp == 0.0 else min(settings.block, max(1, int(settings.ramp * learnt)))
    return bool(learnt - state.counts[ENDED] >= length)


@kernel
def end_block(state: State, settings: Settings) -> None:
    """Forget, set the penalty in force, solve for the block, and where a round is due exchange its members.

    Parameters
    ----------
    state : State          overwritten
    settings : Settings    the configuration

    Returns                nothing
    Cost                   what `solve` costs; in a round O(features waiting + members * features exchanged)
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
