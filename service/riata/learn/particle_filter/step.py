"""Learning one row after another: one access to each event, in memory that does not grow.

Theory of operation
    Column c of theta holds a parameter: the intercept, whose key is -1, or a feature, whose key is its hash. A feature gets a
    column when it first occurs; until then the events say nothing about its weight, so its particles are draws from the prior.

    A row multiplies the weights of the particles by its likelihood. If the effective sample size falls below `keep`, the
    particles move (`rejuvenate`). A row that would take it below `floor` at once leaves too few particles to tell the covariance,
    so its likelihood is taken in parts, as powers that add up to its importance, with a move between the parts.

    The first rows are held. When `redraw_due` says so, the caller draws the particles anew from the posterior of these rows.

    Each move, and each new column, has its own stream of random numbers: counts[STREAM] numbers them. So the state is a function
    of the rows.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from riata.base.arrays import BOOL, F64, I64
from riata.jit.kernel import inline_kernel, kernel
from riata.maths.particles import Scratch, effective, hold_scale, mean_of, rejuvenate, total, weigh
from riata.maths.philox import uniform
from riata.maths.rows import Rows

LEARNT, COLUMNS, MOVES, TEMPERED, STREAM, HELD, DEPENDENT = range(7)
COUNTS: Final = 7
INTERCEPT: Final = -1
DONE: Final = 0
REDRAW: Final = 1
REDRAW_FIRST: Final = 16
PARTS_MAX: Final = 200  # of the likelihood of one row; a row that needs more is refused


class Settings(NamedTuple):
    """Of the kernels. keep, floor : effective sample sizes; b : f64[C + 1] bandwidth by the number of columns."""

    intercept: bool
    gamma: float
    gamma_intercept: float
    keep: float
    floor: float
    start: int
    seed: np.uint64
    b: F64


class State(NamedTuple):
    """C columns, M particles, and the rows held.

    theta : f64[C, M], weight : f64[M], key : i64[C]
    x : f64[C, start], label : f64[start], importance : f64[start]   of the rows held; without rows once they are dropped
    counts : i64[COUNTS]   rows learnt, columns in use, moves, rows tempered, streams of random numbers used, rows held, and 1 +
                           the column that depends on those before it in the first rows, 0 if none
    halt : i64[1]          once another thread has set it, the state is not wanted any more, and rows are left unlearnt
    """

    theta: F64
    weight: F64
    key: I64
    x: F64
    label: F64
    importance: F64
    counts: I64
    halt: I64


class Room(NamedTuple):
    """Scratch memory. margin, after, weight : f64[M]; theta : f64[C, M]; at : i64[features of the longest row]."""

    particles: Scratch
    margin: F64
    after: F64
    weight: F64
    theta: F64
    at: I64


class FilterAnswers(NamedTuple):
    """One entry for each row, as in `learn.learner.Stepped`."""

    margin: F64
    refused: BOOL
    no_room: BOOL


@inline_kernel
def redraw_due(learnt: int, start: int) -> bool:
    """Return whether the particles are drawn anew after so many rows.

    Source    this module's theory of operation
    """
    return learnt == start or (REDRAW_FIRST <= learnt < start and (learnt & (learnt - 1)) == 0)


@inline_kernel
def column_of(state: State, key: int | np.int64) -> int:
    """Return the column of a key, or -1.

    Source    linear search: there are at most 33
    """
    for c in range(state.counts[COLUMNS]):
        if state.key[c] == key:
            return c
    return -1


@kernel
def look_up(state: State, rows: Rows, i: int, room: Room) -> tuple[int, float]:
    """Find the columns of a row's features, and the margin that a server answers.

    Parameters
    ----------
    state : State     read only
    rows : Rows       read only
    i : int           which row
    room : Room       at is overwritten with the columns, -1 for a feature that has none; line of particles too

    Returns           number of features without a column, and the margin: that of the weighted mean of the particles
    Cost              O(features M)
    Source            this module's theory of operation
    """
    whole, line, fresh, margin = total(state.weight), room.particles.line[0], 0, 0.0
    first = column_of(state, INTERCEPT)
    if first >= 0:
        margin = mean_of(state.theta[first], state.weight, whole, line)
    begin = rows.indptr[i]
    for p in range(begin, rows.indptr[i + 1]):
        c = column_of(state, np.int64(rows.hash[p]))
        room.at[p - begin] = c
        if c < 0:
            fresh += 1
        else:
            margin += mean_of(state.theta[c], state.weight, whole, line) * rows.value[p]
    return fresh, margin


@kernel
def add_column(state: State, settings: Settings, key: int | np.int64) -> int:
    """Give a parameter a column of draws from its prior, in pairs of opposite sign.

    Parameters
    ----------
    state : State         overwritten; has room for a column
    settings : Settings   the configuration
    key : int             hash of the feature, or INTERCEPT

    Returns               the column
    Cost                  O(M)
    Source                inverse of the distribution function of Laplace; opposite pairs make the mean zero
    """
    c = state.counts[COLUMNS]
    stream, line = np.uint64(state.counts[STREAM]), state.theta[c]
    gamma = settings.gamma_intercept if key == INTERCEPT else settings.gamma
    for k in range(0, len(line), 2):
        u = uniform(settings.seed, stream, np.uint64(k // 2)) - 0.5
        size = -math.log(1.0 - 2.0 * abs(u)) / gamma
        line[k] = size if u >= 0.0 else -size
        if k + 1 < len(line):
            line[k + 1] = -line[k]
    state.key[c] = key
    state.x[c] = 0.0
    state.counts[COLUMNS] += 1
    state.counts[STREAM] += 1
    return int(c)


@inline_kernel
def particle_margins(state: State, rows: Rows, i: int, room: Room) -> None:
    """Set room.margin to beta . x of each particle.

    Source    definition
    """
    margin, first = room.margin, column_of(state, INTERCEPT)
    margin[:] = 0.0
    if first >= 0:
        margin[:] = state.theta[first]
    begin = rows.indptr[i]
    for p in range(begin, rows.indptr[i + 1]):
        x, line = rows.value[p], state.theta[room.at[p - begin]]
        for k in range(len(margin)):
            margin[k] += x * line[k]


@inline_kernel
def move(state: State, settings: Settings, room: Room) -> None:
    """Move the particles, with random numbers of their own.

    Source    Balakrishnan 2007, figure 2.3
    """
    d = state.counts[COLUMNS]
    chance = (settings.seed, np.uint64(state.counts[STREAM]))
    rejuvenate(state.theta[:d], state.weight, settings.b[d], chance, room.particles)
    state.counts[STREAM] += 1
    state.counts[MOVES] += 1


@kernel
def part_of(state: State, label: float, left: float, least: float, room: Room) -> float:
    """Halve a power of a row's likelihood until the effective sample size is at least `least`.

    Parameters
    ----------
    state : State    read only
    label : float    of the row
    left : float     the power to begin with
    least : float    effective sample size, at most that of `state.weight`
    room : Room      margin is read; after is overwritten with the weights at the power found

    Returns          the power
    Cost             O(M) for each halving
    Source           this module's theory of operation
    """
    part = 0.5 * left
    while weigh(state.weight, room.margin, label, part, room.particles, room.after) < least and part > 0.0:
        part *= 0.5
    return part


@kernel
def take_row(state: State, settings: Settings, rows: Rows, i: int, room: Room) -> bool:
    """Multiply the weights by the likelihood of a row, in parts if need be, and move the particles when due.

    Parameters
    ----------
    state : State         theta, weight and counts are overwritten, unless the row needs too many parts
    settings : Settings   the configuration
    rows : Rows           read only
    i : int               which row; its features have columns, which room.at holds
    room : Room           overwritten

    Returns               whether the row was taken
    Cost                  O(features M), and O(d^2 M) for each move
    Source                Balakrishnan 2007, figure 2.2; this module's theory of operation for the parts
    """
    left, label, parts = rows.weight[i], rows.label[i], 0
    moves, stream = state.counts[MOVES], state.counts[STREAM]
    d = state.counts[COLUMNS]
    floor = max(settings.floor, d + 2.0)
    particle_margins(state, rows, i, room)
    if not math.isfinite(total(room.margin)):
        return False
    size = weigh(state.weight, room.margin, label, left, room.particles, room.after)
    while size < floor:
        if parts == 0:
            room.weight[:] = state.weight
            room.theta[:d] = state.theta[:d]
        if parts == PARTS_MAX or state.halt[0] != 0:
            state.weight[:] = room.weight
            state.theta[:d] = room.theta[:d]
            state.counts[MOVES], state.counts[STREAM] = moves, stream
            return False
        left -= part_of(state, label, left, min(0.5 * settings.keep, effective(state.weight, room.particles)), room)
        state.weight[:] = room.after
        move(state, settings, room)
        particle_margins(state, rows, i, room)
        size = weigh(state.weight, room.margin, label, left, room.particles, room.after)
        parts += 1
    state.weight[:] = room.after
    if parts > 0:
        state.counts[TEMPERED] += 1
    if size < settings.keep:
        move(state, settings, room)
    hold_scale(state.weight)
    return True


@inline_kernel
def learn_row(state: State, settings: Settings, rows: Rows, i: int, fresh: int, room: Room) -> bool:
    """Learn row i, which `look_up` has looked up: give its new features columns, take it, and hold it if rows are held.

    Source    this module's theory of operation
    """
    columns, stream, begin = state.counts[COLUMNS], state.counts[STREAM], rows.indptr[i]
    if settings.intercept and columns == 0:
        add_column(state, settings, INTERCEPT)
    if fresh > 0:
        for p in range(begin, rows.indptr[i + 1]):
            if room.at[p - begin] < 0:
                room.at[p - begin] = add_column(state, settings, np.int64(rows.hash[p]))
    if not take_row(state, settings, rows, i, room):
        state.counts[COLUMNS], state.counts[STREAM] = columns, stream
        return False
    if state.counts[LEARNT] < settings.start:
        n = state.counts[HELD]
        for c in range(state.counts[COLUMNS]):
            state.x[c, n] = 1.0 if state.key[c] == INTERCEPT else 0.0
        for p in range(begin, rows.indptr[i + 1]):
            state.x[room.at[p - begin], n] = rows.value[p]
        state.label[n], state.importance[n] = rows.label[i], rows.weight[i]
        state.counts[HELD] = n + 1
    state.counts[LEARNT] += 1
    return True


@kernel
def learn_rows(state: State, settings: Settings, rows: Rows, start: int, room: Room, answers: FilterAnswers) -> tuple[int, int]:
    """Predict and learn rows in order, until all are done or the particles have to be drawn anew.

    Parameters
    ----------
    state : State         overwritten
    settings : Settings   the configuration
    rows : Rows           read only
    start : int           the first row
    room : Room           at has room for the longest row; overwritten
    answers : FilterAnswers     overwritten from `start` on

    Returns               the row to continue with, and the reason: DONE, also if it is halted, or REDRAW
    Cost                  O(features M) for each row, and O(d^2 M) for each move
    Source                Balakrishnan 2007, figure 2.2
    """
    most = len(state.key)
    for i in range(start, len(rows.indptr) - 1):
        if state.halt[0] != 0:
            return i, DONE
        fresh, margin = look_up(state, rows, i, room)
        full = state.counts[COLUMNS] + fresh + (1 if settings.intercept and state.counts[COLUMNS] == 0 else 0) > most
        good = not rows.skip[i] and not full and math.isfinite(margin) and math.isfinite(rows.label[i])
        learnt = good and learn_row(state, settings, rows, i, fresh, room)
        answers.margin[i] = margin
        answers.refused[i] = not learnt
        answers.no_room[i] = full and not rows.skip[i]
        if learnt and redraw_due(state.counts[LEARNT], settings.start):
            return i + 1, REDRAW
    return len(rows.indptr) - 1, DONE
