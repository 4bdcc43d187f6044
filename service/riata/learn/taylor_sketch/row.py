"""Learning one row of the Taylor sketch in three steps: look up its features, compute the update, write the update.

`gather_row` looks up weights and sums the margin, in the order of the hashes. `move_row` computes the new numbers in columns of
the scratch, without branches. Only `write_row` changes the state. It is called only if every number that it would write is
finite, so a refused row does not change the state.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from riata.jit.kernel import inline_kernel
from riata.jit.raw.prefetch import AHEAD, prefetch
from riata.learn.slot_table import line_at
from riata.learn.taylor_sketch.kernel_state import (
    BETA,
    CURVATURE,
    GRADIENT,
    GROWTH,
    HYBRID,
    N_ALIVE,
    N_SEEN,
    N_WAITING,
    NOTHING,
    PEAK,
    SCALE,
    Scratch,
    Settings,
    State,
)
from riata.learn.taylor_sketch.slot_map import position_of, put
from riata.maths.block import SIZE, add_row
from riata.maths.links import LOGISTIC
from riata.maths.rows import Rows
from riata.maths.shooting import WEIGHT_MAX
from riata.maths.taylor import taylor

_MEMBER, _FRESH, _OUTSIDE, _NOWHERE = 0, 1, 2, 3  # the columns in which `gather_row` stores a feature

ROW_SHARE: Final = 0.3  # of the geometric mean in `row_length`
GAMMA_LEAST: Final = 1e-3  # a solve under a smaller penalty uses the tolerance of this one


@inline_kernel
def inside_at(curvature: float) -> int:
    """Return the position that a member's line stores instead of a curvature, or -1 if `curvature` is a curvature.

    Source    this module: the line is read in any case, so the map need not be read
    """
    return -int(curvature) - 1 if curvature < 0.0 else -1


@inline_kernel
def gather_row(state: State, settings: Settings, rows: Rows, i: int, scratch: Scratch) -> tuple[int, int, int, float]:
    """Look up row i.

    Parameters
    ----------
    state : State          read only
    settings : Settings    the configuration
    rows : Rows            read only
    i : int                which row
    scratch : Scratch      at, x; slot, y, beta, gradient, curvature, peak; fresh, z are overwritten

    Returns                number of members, including the intercept; number of features outside; number of features that
                           would enter the block, -1 if there is no room for one of them; margin: intercept, then each product
                           in the order of the hashes
    Cost                   for each feature one random read of its line, prefetched `AHEAD` features earlier; if there is no
                           table, a lookup in the map
    Source                 this module
    """
    s = scratch
    block, place, line, places = state.members.block, state.members.place, state.outside.line, state.outside.places
    shift = np.uint32(settings.shift)
    last = len(rows.hash) - 1
    room = settings.limit - block.counts[SIZE] if settings.opens else 0
    margin = block.beta[0]
    k, n, fresh = int(settings.intercept), 0, 0
    s.at[0] = 0
    s.x[0] = 1.0
    before = np.int64(-1)  # key of the previous feature, its weight, and the kind of columns it was stored in
    beta = 0.0
    kind = _NOWHERE
    for p in range(rows.indptr[i], rows.indptr[i + 1]):
        if settings.outside != NOTHING and len(places.entry) == 0:
            prefetch(line, int(rows.hash[min(p + AHEAD, last)] >> shift))
        key = np.int64(rows.hash[p]) >> settings.shift
        value = rows.value[p]
        if key == before:  # slots are the top bits of sorted hashes, so features that share a slot are adjacent
            if kind == _MEMBER:
                s.x[k - 1] += value
            elif kind == _FRESH:
                s.z[fresh - 1] += value
            elif kind == _OUTSIDE:
                s.y[n - 1] += value
        else:
            before = key
            row = line_at(places, int(key)) if settings.outside != NOTHING else 0
            position = inside_at(line[row, CURVATURE]) if settings.outside != NOTHING else position_of(place, int(key))
            if position < 0 and settings.opens and (fresh < room or settings.outside == NOTHING):
                beta = 0.0
                kind = _FRESH if fresh < room else _NOWHERE
                s.fresh[max(fresh, 0)], s.z[max(fresh, 0)] = key, value
                fresh = fresh + 1 if kind == _FRESH else -1
                room = room if kind == _FRESH else -1
            else:
                # A branch on membership is unpredictable: both columns are written, and the next feature overwrites one.
                inside = position >= 0
                at = position if inside else 0
                member, other = block.beta[at], line[row, BETA]
                beta = member if inside else other
                kind = _MEMBER if inside else _OUTSIDE
                s.at[k], s.x[k] = at, value
                k += int(inside)
                s.slot[n], s.y[n], s.beta[n], s.gradient[n] = key, value, other, line[row, GRADIENT]
                s.curvature[n], s.peak[n] = line[row, CURVATURE], line[row, PEAK]
                n += int(not inside)
        margin += beta * value
    return k, n, fresh, margin


@inline_kernel
def event_terms(settings: Settings, margin: float, label: float) -> tuple[float, float]:
    """Return slope and curvature of an event, before importance. With the logistic link the curvature of a confident mistake is
    near 0, and a step would have no bound, so the curvature has a floor. With the probit link it is near 1.

    Source    Balakrishnan & Madigan 2008, appendix A; the floor is this package's
    """
    r, h = taylor(settings.link, margin, label)
    if settings.link == LOGISTIC:
        h = max(h, settings.floor * abs(r))
    return r, h


@inline_kernel
def gamma_of(state: State, settings: Settings, key: int) -> float:
    """Return the penalty of a feature before growth: its own if it has one, otherwise the common one.

    Source    this package's configuration
    """
    own = position_of(state.own.place, key)
    return float(state.own.gamma[own]) if own >= 0 else settings.gamma


@inline_kernel
def join(state: State, settings: Settings, position: int, key: int) -> None:
    """Assign a position to a feature: key, penalties before growth, and the position in its line. The map is not changed.

    Source    this package's configuration
    """
    own = position_of(state.own.place, key)
    w = state.shadows
    state.members.key[position] = key
    if settings.outside != NOTHING:
        state.outside.line[line_at(state.outside.places, key), CURVATURE] = -1.0 - position
    state.members.block.gamma[position] = state.own.gamma[own] if own >= 0 else settings.gamma
    for c in range(len(w.gamma)):
        w.factor[c, position] = state.own.gamma[own] if own >= 0 else w.gamma[c]


@inline_kernel
def slack_of(state: State, settings: Settings, gamma: float) -> float:
    """Return the violation that a solve under the penalty `gamma` (before growth) may leave, in stored units.

    Source    this package's configuration
    """
    return float(settings.tolerance * max(gamma * state.scalars[GROWTH], GAMMA_LEAST) / state.scalars[SCALE])


@inline_kernel
def outside_weight(omega: float, gamma: float, curvature: float) -> float:
    """Return soft(Omega, gamma) / D, or 0 if there is no curvature or the weight would be above WEIGHT_MAX. It has no branch and
    never returns -0.0.

    Source    Balakrishnan & Madigan 2008, algorithm 1, on one coordinate
    """
    pull = omega if omega < gamma else gamma
    pull = pull if pull > -gamma else -gamma
    weight = float(np.divide(omega - pull, curvature if curvature > 0.0 else math.inf)) + 0.0
    return weight if abs(weight) <= WEIGHT_MAX else 0.0


@inline_kernel
def penalties(state: State, settings: Settings, n: int, scratch: Scratch) -> None:
    """Set the penalties in force of the n features outside, in stored units.

    Source    this package's configuration
    """
    factor = state.scalars[GROWTH] / state.scalars[SCALE]
    usual = settings.gamma * factor
    for j in range(n):
        scratch.gamma[j] = usual
    if len(state.own.gamma) > 0:
        for j in range(n):
            scratch.gamma[j] = gamma_of(state, settings, int(scratch.slot[j])) * factor


@inline_kernel
def row_length(settings: Settings, counts: tuple[int, int, int], scratch: Scratch) -> float:
    """Return the sum of |x| over the row, including the intercept's, if the prior curvature depends on the row; otherwise 0.

    Source    |x_j| times this sum bounds the row's whole curvature by a diagonal; its geometric mean with x_j^2 did best
    """
    s = scratch
    k, n, fresh = counts
    length = 0.0
    if settings.prior_by_row:
        for j in range(k):
            length += abs(s.x[j])
        for j in range(n):
            length += abs(s.y[j])
        for j in range(fresh):
            length += abs(s.z[j])
    return length


@inline_kernel
def move_row(state: State, settings: Settings, r: float, h: float, counts: tuple[int, int, int], scratch: Scratch) -> float:
    """Compute the update of the features outside. Members are updated when they are written.

    Parameters
    ----------
    state : State          read only
    settings : Settings    the configuration
    r, h : float           slope and curvature of the event, times importance, in stored units
    counts : (int, int, int)  members, features outside, and features that would enter
    scratch : Scratch      gradient, curvature, peak, gamma and after are overwritten

    Returns                the sum of the absolute values of all new numbers, which is finite only if each of them is
    Cost                   one division for each feature outside, vectorised
    Source                 Balakrishnan & Madigan 2008, algorithms 1 and 2, with the cross curvature taken as zero
    """
    s = scratch
    block = state.members.block
    k, n, fresh = counts
    prior = settings.prior / state.scalars[SCALE]
    penalties(state, settings, n, s)
    moves = 1.0 if settings.outside == HYBRID else 0.0
    length = row_length(settings, counts, s)
    for j in range(n):
        y = s.y[j]
        square = y * y
        size = ROW_SHARE * abs(y) * math.sqrt(abs(y) * length) if length > 0.0 else square
        peak = abs(s.peak[j])
        peak = size if size > peak else peak
        curvature = s.curvature[j] + h * square
        total = prior * peak + curvature
        gradient = s.gradient[j] + r * y
        after = moves * outside_weight(gradient + total * s.beta[j], s.gamma[j], total)
        s.gradient[j] = gradient - total * (after - s.beta[j])
        s.curvature[j] = curvature
        s.peak[j] = peak
        s.after[j] = after
    bound = 0.0
    for j in range(n):
        bound += abs(s.gradient[j]) + s.curvature[j] + s.peak[j] + abs(s.after[j])
    for j in range(k):
        x = s.x[j]
        bound += abs(block.gradient[s.at[j]] + r * x) + (block.curvature[s.at[j]] + h * x * x) + x * x
    for j in range(fresh):
        bound += abs(r * s.z[j]) + (1.0 + h) * s.z[j] * s.z[j]
    return bound


@inline_kernel
def write_outside(state: State, settings: Settings, n: int, scratch: Scratch) -> None:
    """Write back the n features outside. List those that are new, those with a new non-zero weight, and those that wait.

    Source    this module
    """
    s = scratch
    o = state.outside
    counts = state.counts
    sign = -1.0 if settings.exchanges else 1.0
    alive, seen, waiting = counts[N_ALIVE], counts[N_SEEN], counts[N_WAITING]
    for j in range(n):
        if s.peak[j] > 0.0:  # a value whose square is 0 has no curvature, so it cannot be learnt
            slot = s.slot[j]
            line = o.line[line_at(o.places, int(slot))]
            old = line[PEAK]
            if old == 0.0:
                o.seen[seen] = slot
                seen += 1
            if settings.exchanges and old >= 0.0:
                o.waiting[waiting] = slot
                waiting += 1
            if s.beta[j] == 0.0 and s.after[j] != 0.0:
                o.alive[alive] = slot
                alive += 1
            line[BETA] = s.after[j]
            line[GRADIENT] = s.gradient[j]
            line[CURVATURE] = s.curvature[j]
            line[PEAK] = sign * s.peak[j]
    counts[N_ALIVE], counts[N_SEEN], counts[N_WAITING] = alive, seen, waiting


@inline_kernel
def write_row(state: State, settings: Settings, r: float, h: float, counts: tuple[int, int, int], scratch: Scratch) -> None:
    """Write the update: features outside, then features that enter the block, then members.

    Parameters
    ----------
    state : State          overwritten; the block has room for the features that enter
    settings : Settings    the configuration
    r, h : float           slope and curvature of the event, times importance, in stored units
    counts : (int, int, int)  members, features outside, and features that enter
    scratch : Scratch      at and x are overwritten

    Returns                nothing
    Cost                   O(features), and the cost of `add_row`
    Source                 Balakrishnan & Madigan 2008, algorithm 2
    """
    s = scratch
    members = state.members
    k, n, fresh = counts
    write_outside(state, settings, n, s)
    for j in range(fresh):
        position = members.block.counts[SIZE]
        join(state, settings, position, int(s.fresh[j]))
        put(members.place, int(s.fresh[j]), position)
        members.block.counts[SIZE] = position + 1
        s.at[k] = position
        s.x[k] = s.z[j]
        k += 1
    add_row(members.block, s.at, s.x, k, r, h)
    if settings.lifts:
        for j in range(k):
            at = s.at[j]
            if (
                members.block.peak[at] > 1.0
                and 2.0 * members.block.curvature[at] * state.scalars[SCALE] >= members.block.peak[at]
            ):
                members.block.peak[at] = 1.0  # one large value is not a reason to pull all later estimates towards the first
