"""The active set of the block: eviction, admission and exchange of features.

A member with a zero weight and a small gradient leaves the block. The strongest features outside enter it.

A feature that enters has no cross curvature with the other members yet: its earlier events are treated as diagonal. Only
features on the waiting list are considered: those that an event updated since the last round that had room for any. A gradient
that no event updates only decays, so every other feature was too weak in that round, or came too late. It is put on the waiting
list again at its next event.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from riata.base.arrays import F64, I64
from riata.jit.kernel import inline_kernel, kernel
from riata.jit.raw.prefetch import AHEAD, prefetch
from riata.learn.slot_table import line_at
from riata.learn.taylor_sketch.best import keep_best, sort_best
from riata.learn.taylor_sketch.kernel_state import (
    BETA,
    CURVATURE,
    GRADIENT,
    GROWTH,
    HYBRID,
    N_WAITING,
    PEAK,
    SCALE,
    STRICT,
    Settings,
    State,
)
from riata.learn.taylor_sketch.row import gamma_of, join, outside_weight
from riata.learn.taylor_sketch.slot_map import fill_places, position_of
from riata.maths.block import SIZE, clear, flush, set_zero

_EVICT: Final = 0.9  # share of the threshold of admission, so that a feature that has just left is not admitted in the next round


@inline_kernel
def leave(state: State, position: int) -> None:
    """Move a member whose weight is zero back to the table.

    Source    this module
    """
    block, line = state.members.block, state.outside.line
    slot = state.members.key[position]
    at = line_at(state.outside.places, int(slot))
    line[at, BETA] = 0.0
    line[at, GRADIENT] = block.gradient[position]
    line[at, CURVATURE] = block.curvature[position]
    line[at, PEAK] = block.peak[position]
    state.members.key[position] = -1
    state.shadows.beta[:, position] = 0.0
    state.shadows.factor[:, position] = 0.0
    clear(block, position)


@inline_kernel
def enter(state: State, settings: Settings, position: int, slot: int) -> None:
    """Move a feature of the table to a free position of the block.

    Source    this module
    """
    block, line, w = state.members.block, state.outside.line, state.shadows
    at = line_at(state.outside.places, slot)
    beta, gradient, curvature, peak = line[at, BETA], line[at, GRADIENT], line[at, CURVATURE], abs(line[at, PEAK])
    block.beta[position] = beta
    block.gradient[position] = gradient
    block.curvature[position] = curvature
    block.peak[position] = peak
    line[at, BETA] = 0.0
    line[at, GRADIENT] = 0.0
    line[at, PEAK] = peak
    join(state, settings, position, slot)
    block.counts[SIZE] = max(block.counts[SIZE], position + 1)
    total = settings.prior / state.scalars[SCALE] * peak + curvature
    growth = state.scalars[GROWTH] / state.scalars[SCALE]
    if settings.outside == HYBRID:
        for c in range(len(w.gamma)):
            w.beta[c, position] = outside_weight(gradient + total * beta, w.factor[c, position] * growth, total)


@inline_kernel
def evict(state: State, settings: Settings) -> int:
    """Evict members with a zero weight and a small gradient. Returns how many are left, without the intercept.

    Source    this package's rule
    """
    block = state.members.block
    growth = state.scalars[GROWTH] / state.scalars[SCALE]
    left = 0
    for position in range(1, block.counts[SIZE]):
        if state.members.key[position] >= 0:
            least = _EVICT * settings.admit * growth * block.gamma[position]
            if block.beta[position] == 0.0 and abs(block.gradient[position]) < least:
                leave(state, position)
            else:
                left += 1
    return left


@inline_kernel
def pick_waiting(state: State, settings: Settings, full: bool, score: F64, key: I64) -> int:
    """Find the strongest features on the waiting list, and clear the list. Returns how many were found.

    Source    this package's rule
    """
    line, waiting = state.outside.line, state.outside.waiting
    growth = state.scalars[GROWTH] / state.scalars[SCALE]
    prior = settings.prior / state.scalars[SCALE]
    share = 1.0 if full else settings.admit
    listed = state.counts[N_WAITING]
    kept = 0
    for p in range(listed):
        prefetch(line, line_at(state.outside.places, int(waiting[min(p + AHEAD, listed - 1)])))
        slot = int(waiting[p])
        at = line_at(state.outside.places, slot)
        peak = abs(line[at, PEAK])
        line[at, PEAK] = peak
        omega = abs(line[at, GRADIENT] + (prior * peak + line[at, CURVATURE]) * line[at, BETA])
        least = share * growth * gamma_of(state, settings, slot)
        if omega > least or (omega == least and not full and omega > 0.0):
            kept = keep_best(score, key, kept, omega, slot)
    state.counts[N_WAITING] = 0
    sort_best(score, key, kept)
    return kept


@inline_kernel
def weakest_members(state: State, settings: Settings, score: F64, key: I64) -> int:
    """Find the members with the smallest |Omega|, without the intercept. Scores are -|Omega|. Returns how many were found.

    Source    this package's rule
    """
    block = state.members.block
    prior = settings.prior / state.scalars[SCALE]
    kept = 0
    for position in range(1, block.counts[SIZE]):
        if state.members.key[position] >= 0:
            total = prior * block.peak[position] + block.curvature[position]
            omega = abs(block.gradient[position] + total * block.beta[position])
            kept = keep_best(score, key, kept, -omega, state.members.key[position])
    sort_best(score, key, kept)
    return kept


@inline_kernel
def swap(state: State, settings: Settings, score: F64, key: I64, kept: int) -> int:
    """Replace the weakest members by stronger features outside, pair by pair. Returns how many were replaced.

    Source    this package's rule: the weight of a member that leaves is moved to zero through the sketch
    """
    weak_score, weak_key = np.empty(settings.swaps), np.empty(settings.swaps, np.int64)
    weak = weakest_members(state, settings, weak_score, weak_key)
    done = 0
    while done < min(kept, weak) and score[done] > settings.hysteresis * -weak_score[done]:
        position = position_of(state.members.place, weak_key[done])
        set_zero(state.members.block, position, settings.prior / state.scalars[SCALE])
        leave(state, position)
        enter(state, settings, position, key[done])
        done += 1
    if done > 0:
        fill_places(state.members.key, state.members.block.counts[SIZE], state.members.place)
    return done


@kernel
def exchange_members(state: State, settings: Settings) -> int:
    """Run one round: evict, then admit. If the block is still full, swap in strict mode; otherwise admit nothing.

    Parameters
    ----------
    state : State          overwritten
    settings : Settings    the configuration

    Returns                how many features have entered or left
    Cost                   O(features waiting + size of the block * (features exchanged + log features admitted))
    Source                 this package's rule; the active set of Balakrishnan & Madigan 2008, algorithm 3, made online
    """
    flush(state.members.block)
    before = 0
    for position in range(1, state.members.block.counts[SIZE]):
        before += int(state.members.key[position] >= 0)
    left = evict(state, settings)
    changes = before - left
    free = settings.limit - 1 - left
    if free == 0 and settings.outside != STRICT:
        return changes
    room = free if free > 0 else settings.swaps
    score, key = np.empty(room), np.empty(room, np.int64)
    kept = pick_waiting(state, settings, free == 0, score, key)
    if free == 0:
        return swap(state, settings, score, key, kept)
    position = 1
    for p in range(kept):
        while position < state.members.block.counts[SIZE] and state.members.key[position] >= 0:
            position += 1
        enter(state, settings, position, key[p])
    if changes + kept > 0:
        fill_places(state.members.key, state.members.block.counts[SIZE], state.members.place)
    return changes + kept
