"""Relinearisation of held rows: of the warm-up rows from an empty sketch, or of a block of rows on top of the earlier sketch.

A row is linearised about the margin that was predicted for it. Early predictions are poor, and the terms learnt from them stay
in the sketch. Both remedies are from Balakrishnan and Madigan: hold the first rows and make passes over them until the weights
fit them (their MP), or hold each block of rows and make one more pass over it at its end. Held rows are part of the learner's
state, so a replay gives the same result.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from riata.base.arrays import F64, I64
from riata.jit.kernel import inline_kernel, kernel
from riata.jit.raw.prefetch import AHEAD, prefetch
from riata.learn.slot_table import line_at
from riata.learn.taylor_sketch.block_end import SWEEPS_WHOLE, solve_members
from riata.learn.taylor_sketch.kernel_state import (
    BETA,
    CURVATURE,
    GRADIENT,
    GROWTH,
    HELD_NNZ,
    HYBRID,
    N_ALIVE,
    N_HELD,
    N_SEEN,
    N_WAITING,
    PEAK,
    SCALE,
    Scratch,
    Settings,
    State,
    borrowed,
)
from riata.learn.taylor_sketch.round import exchange_members
from riata.learn.taylor_sketch.row import event_terms, gamma_of, gather_row, outside_weight, slack_of
from riata.maths.block import HALT, SIZE, add_row, flush, problem_of, rescale
from riata.maths.rows import Rows
from riata.maths.shooting import violation
from riata.maths.taylor import log_likelihood

PASSES_MAX: Final = 12  # from zero weights, four or five passes give three digits
_HALVINGS_MAX: Final = 30
_FALLS: Final = 1e-12  # a relative decrease of the objective that is more than rounding


@inline_kernel
def held_rows(state: State) -> Rows:
    """Return the held rows as `Rows` for the kernels of one row, which do not read `skip`.

    Source    this module
    """
    e = state.held
    return Rows(e.indptr, e.hash, e.value, e.label, e.weight, np.empty(0, np.bool_))


@inline_kernel
def forget_sums(state: State) -> None:
    """Set gradients and curvatures to zero. Weights and largest squares are kept.

    Source    Balakrishnan & Madigan 2008, section 5: each pass starts a new sketch
    """
    rescale(state.members.block, 0.0)
    line, seen = state.outside.line, state.outside.seen
    listed = state.counts[N_SEEN]
    for p in range(listed):
        prefetch(line, line_at(state.outside.places, int(seen[min(p + AHEAD, listed - 1)])))
        at = line_at(state.outside.places, int(seen[p]))
        if line[at, CURVATURE] >= 0.0:  # a negative one is a member's position
            line[at, GRADIENT] = 0.0
            line[at, CURVATURE] = 0.0


@inline_kernel
def penalty_of(state: State, settings: Settings) -> float:
    """Return the sum of gamma_j |beta_j|, in stored units.

    Source    Balakrishnan & Madigan 2008, equation 4
    """
    block, line = state.members.block, state.outside.line
    total = 0.0
    for j in range(block.counts[SIZE]):
        total += block.gamma[j] * abs(block.beta[j])
    if settings.outside == HYBRID:
        for p in range(state.counts[N_SEEN]):
            slot = int(state.outside.seen[p])
            beta = line[line_at(state.outside.places, slot), BETA]
            if beta != 0.0:
                total += gamma_of(state, settings, slot) * abs(beta)
    return float(total * state.scalars[GROWTH] / state.scalars[SCALE])


@kernel
def linearise_held(state: State, settings: Settings, scratch: Scratch) -> float:
    """Rebuild the sketch from the held rows, each linearised about its margin at the current weights.

    Parameters
    ----------
    state : State          sums are overwritten
    settings : Settings    the configuration
    scratch : Scratch      room for the longest row; overwritten

    Returns                log-likelihood minus penalties at the current weights, in stored units
    Cost                   O(features held), and the cost of `add_row`
    Source                 Balakrishnan & Madigan 2008, section 5
    """
    forget_sums(state)
    rows, s, line = held_rows(state), scratch, state.outside.line
    objective = -penalty_of(state, settings)
    for i in range(state.counts[N_HELD]):
        if state.members.block.counts[HALT] != 0:
            break
        k, n, _, margin = gather_row(state, settings, rows, i, s)
        weight, label = rows.weight[i], rows.label[i]
        objective += weight * log_likelihood(settings.link, margin, label)
        r, h = event_terms(settings, margin, label)
        add_row(state.members.block, s.at, s.x, k, weight * r, weight * h)
        for j in range(n):
            at = line_at(state.outside.places, int(s.slot[j]))
            line[at, GRADIENT] += weight * r * s.y[j]
            line[at, CURVATURE] += weight * h * (s.y[j] * s.y[j])
    flush(state.members.block)
    return objective


@kernel
def solve_outside(state: State, settings: Settings, moves: bool) -> float:
    """Update every feature outside the block, one coordinate at a time.

    Parameters
    ----------
    state : State          weights and gradients are overwritten; the caller calls `list_alive` afterwards
    settings : Settings    the configuration
    moves : bool           if false, only the violation is computed

    Returns                largest violation of the optimality conditions before the update, in stored units
    Cost                   O(slots seen)
    Source                 Balakrishnan & Madigan 2008, algorithm 1, on one coordinate
    """
    line, o = state.outside.line, state.outside
    growth, prior = state.scalars[GROWTH] / state.scalars[SCALE], settings.prior / state.scalars[SCALE]
    listed = state.counts[N_SEEN]
    worst = 0.0
    for p in range(listed):
        prefetch(line, line_at(o.places, int(o.seen[min(p + AHEAD, listed - 1)])))
        slot = int(o.seen[p])
        at = line_at(o.places, slot)
        if line[at, CURVATURE] >= 0.0:
            beta, gradient = line[at, BETA], line[at, GRADIENT]
            gamma = growth * gamma_of(state, settings, slot)
            total = prior * abs(line[at, PEAK]) + line[at, CURVATURE]
            new = outside_weight(gradient + total * beta, gamma, total)
            if beta != 0.0:
                worst = max(worst, abs(gradient - math.copysign(gamma, beta)))
            elif new != 0.0:
                worst = max(worst, abs(gradient) - gamma)
            if moves and new != beta and math.isfinite(total * (new - beta)):
                line[at, GRADIENT] = gradient - total * (new - beta)
                line[at, BETA] = new
    return worst


@kernel
def list_alive(state: State) -> None:
    """Rebuild the list of the non-zero weights outside the block.

    Parameters
    ----------
    state : State    the list is overwritten; it has room for every slot seen

    Returns          nothing
    Cost             O(slots seen)
    Source           this module
    """
    line, o = state.outside.line, state.outside
    listed = state.counts[N_SEEN]
    alive = 0
    for p in range(listed):
        prefetch(line, line_at(o.places, int(o.seen[min(p + AHEAD, listed - 1)])))
        if line[line_at(o.places, int(o.seen[p])), BETA] != 0.0:
            o.alive[alive] = o.seen[p]
            alive += 1
    state.counts[N_ALIVE] = alive


@inline_kernel
def all_wait(state: State) -> None:
    """Put every feature outside the block on the waiting list: the next round may admit features that were too weak before.

    Source    this module
    """
    line, o = state.outside.line, state.outside
    waiting = 0
    for p in range(state.counts[N_SEEN]):
        slot = int(o.seen[p])
        at = line_at(o.places, slot)
        if line[at, CURVATURE] >= 0.0:
            line[at, PEAK] = -abs(line[at, PEAK])
            o.waiting[waiting] = slot
            waiting += 1
    state.counts[N_WAITING] = waiting


@kernel
def solve_all(state: State, settings: Settings) -> None:
    """Apply another penalty: solve for the block, update each feature outside, and put all of these on the waiting list.

    Parameters
    ----------
    state : State          overwritten; the lists have room for every slot seen
    settings : Settings    the configuration

    Returns                nothing
    Cost                   O(slots seen), and the cost of `solve`
    Source                 Balakrishnan & Madigan 2008, algorithm 1
    """
    state = borrowed(state)
    solve_members(state, settings, max(settings.sweeps_max, SWEEPS_WHOLE))
    if settings.outside == HYBRID:
        solve_outside(state, settings, True)
        list_alive(state)
    if settings.exchanges:
        all_wait(state)


@inline_kernel
def outside_weights(state: State, settings: Settings) -> F64:
    """Return a copy of the weights of the slots seen.

    Source    this module
    """
    weights = np.zeros(state.counts[N_SEEN] if settings.outside == HYBRID else 0)
    for p in range(len(weights)):
        weights[p] = state.outside.line[line_at(state.outside.places, int(state.outside.seen[p])), BETA]
    return weights


@inline_kernel
def go_half_back(state: State, key: I64, beta: F64, outside: F64) -> None:
    """Move every weight half the way back to its earlier value. A feature that has entered or left the block since is kept.

    Source    step halving, which Balakrishnan & Madigan 2008 do not use: from a start other than zero, the objective of their
              MP may decrease
    """
    members, line = state.members, state.outside.line
    for j in range(members.block.counts[SIZE]):
        if j < len(key) and members.key[j] == key[j]:
            members.block.beta[j] = 0.5 * (members.block.beta[j] + beta[j])
    for p in range(len(outside)):
        at = line_at(state.outside.places, int(state.outside.seen[p]))
        if line[at, CURVATURE] >= 0.0:
            line[at, BETA] = 0.5 * (line[at, BETA] + outside[p])


@kernel
def linearise_anew(state: State, settings: Settings, scratch: Scratch) -> tuple[int, float]:
    """Fit the held rows: linearise them about the current weights, solve, and repeat until the weights are optimal.

    Parameters
    ----------
    state : State          overwritten; the lists have room for every slot seen
    settings : Settings    the configuration
    scratch : Scratch      room for the longest row; overwritten

    Returns                number of passes over the rows; remaining violation of the optimality conditions divided by the one
                           allowed, at the weights of the last pass, for the log-likelihood itself and not for its sketch
    Cost                   at most PASSES_MAX passes and as many solves, and one pass for each halving
    Source                 Balakrishnan & Madigan 2008, section 5 (MP); with features outside the block, or a full block,
                           algorithm 3 (RMMP) with this package's rule for the active set
    """
    state = borrowed(state)
    block = state.members.block
    slack = slack_of(state, settings, settings.gamma)
    growth, prior = state.scalars[GROWTH] / state.scalars[SCALE], settings.prior / state.scalars[SCALE]
    key, beta, outside = state.members.key[:0].copy(), block.beta[:0].copy(), np.zeros(0)
    before = -math.inf
    passes, halvings, changes = 0, 0, 0
    while True:
        objective = linearise_held(state, settings, scratch)
        passes += 1
        if halvings < _HALVINGS_MAX and not objective >= before - _FALLS * abs(before):
            go_half_back(state, key, beta, outside)
            halvings += 1
            continue
        worst = violation(problem_of(block, prior, growth))
        if settings.outside == HYBRID:
            worst = max(worst, solve_outside(state, settings, False))
        if (worst <= slack and changes == 0) or passes - halvings >= PASSES_MAX:
            break
        before = objective
        size = block.counts[SIZE]
        key, beta, outside = state.members.key[:size].copy(), block.beta[:size].copy(), outside_weights(state, settings)
        solve_members(state, settings, max(settings.sweeps_max, SWEEPS_WHOLE))
        if settings.outside == HYBRID:
            solve_outside(state, settings, True)
        changes = 0
        if settings.exchanges:
            all_wait(state)
            changes = exchange_members(state, settings)
    solve_members(state, settings, max(settings.sweeps_max, SWEEPS_WHOLE))
    list_alive(state)
    return passes, worst / slack


@kernel
def linearise_again(state: State, settings: Settings, scratch: Scratch) -> None:
    """Relinearise the held rows about the current weights instead of those at the time of learning, and solve.

    The terms of a row have followed the weights through the sketch: its slope is now r - h (c - c_old). The difference to the
    slope and the curvature at c is added as if it were a row.

    Parameters
    ----------
    state : State          overwritten
    settings : Settings    the configuration
    scratch : Scratch      room for the longest row; overwritten

    Returns                nothing
    Cost                   O(features held), and the cost of `add_row` and `solve`
    Source                 Balakrishnan & Madigan 2008, section 4.1, second heuristic
    """
    state = borrowed(state)
    rows, s, e, block = held_rows(state), scratch, state.held, state.members.block
    for i in range(state.counts[N_HELD]):
        if block.counts[HALT] != 0:
            break
        k, _, _, margin = gather_row(state, settings, rows, i, s)
        own = 0.0
        for j in range(k):
            own += block.beta[s.at[j]] * s.x[j]
        r, h = event_terms(settings, margin, e.label[i])
        add_row(block, s.at, s.x, k, e.weight[i] * (r - e.r[i] + e.h[i] * (own - e.margin[i])), e.weight[i] * (h - e.h[i]))
    state.counts[N_HELD] = 0
    state.counts[HELD_NNZ] = 0
    for j in range(block.counts[SIZE]):
        block.curvature[j] = max(block.curvature[j], 0.0)  # rounding can make it slightly negative
    solve_members(state, settings, max(settings.sweeps_max, SWEEPS_WHOLE))
