"""Rounds of Shotgun: P weights move at the same time, each as if it were the only one (Bradley, Kyrola, Bickson & Guestrin 2011).

Every weight is the difference of two coordinates that are at least 0: coordinate c < d is the positive part of feature c, and
coordinate d + j the negative part of feature j. All gradients of a round are taken at the same residuals; then all moves are
applied, in the order of the round. So a round can be cut among threads, by coordinates and then by rows, without changing a bit.

The published step divides by the largest curvature that there can be, a quarter of sum w x^2, which is far from that of rows
whose label is likely. Here a coordinate moves by at most its reach R, within which the curvature of the logistic link grows by at
most exp(R max |x|), since |d log h / dm| <= 1. The reach is twice the last move, or half of itself. With an infinite reach the
step is the published one.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from riata.base.arrays import F64, I32, I64
from riata.batch.columns import Columns
from riata.jit.kernel import kernel
from riata.maths.philox import below, uniform
from riata.maths.taylor import log_likelihood, margin_form

_FAR: Final = 700.0  # exp of it is finite
_TINY: Final = 1e-300


class Place(NamedTuple):
    """Where the solver is.

    part     : f64[2 d]   coordinates, >= 0
    margin   : f64[n]
    residual : f64[n]     weight times slope of the log-likelihood
    spread   : f64[n]     weight times its curvature
    reach    : f64[2 d]   how far each coordinate may move; inf: any distance
    stamp    : i32[n]     scratch: the last round that moved a row
    """

    part: F64
    margin: F64
    residual: F64
    spread: F64
    reach: F64
    stamp: I32


class Limits(NamedTuple):
    """What is known of each feature.

    penalty : f64[d]   gamma
    bound   : f64[d]   upper bound of the curvature; 0 for a weight that is to stay 0
    peak    : f64[d]   largest |x|
    """

    penalty: F64
    bound: F64
    peak: F64


@kernel
def moves(columns: Columns, place: Place, limits: Limits, chosen: I64, move: F64) -> float:
    """How far each chosen coordinate moves.

    Parameters
    ----------
    columns : Columns   read only
    place : Place       the reach of the chosen is overwritten
    limits : Limits     read only
    chosen : i64[P]     coordinates, distinct
    move : f64[P]       overwritten

    Returns             the largest violation of an optimality condition among them
    Cost                one read of the features
    Source              Bradley et al. 2011, algorithm 2: delta = max(-x_j, -(grad F)_j / beta); Genkin, Lewis & Madigan 2007,
                        section 3.2, for the reach
    """
    d, worst = len(limits.penalty), 0.0
    for a in range(len(chosen)):
        c = chosen[a]
        j = c - d if c >= d else c
        move[a] = 0.0
        if limits.bound[j] == 0.0:
            continue
        g, curvature = 0.0, 0.0
        for e in range(columns.start[j], columns.start[j + 1]):
            x = columns.value[e]
            g += place.residual[columns.row[e]] * x
            curvature += place.spread[columns.row[e]] * x * x
        slope, reach = (-g if c >= d else g) - limits.penalty[j], place.reach[c]
        bound = min(limits.bound[j], curvature * math.exp(min(reach * limits.peak[j], _FAR)) + _TINY)
        move[a] = max(-place.part[c], min(max(slope / bound, -reach), reach))
        place.reach[c] = max(2.0 * abs(move[a]), 0.5 * reach)
        worst = max(worst, abs(slope) if place.part[c] > 0.0 else slope)
    return worst


@kernel
def apply(columns: Columns, link: int, place: Place, chosen: I64, move: F64, rows: tuple[int, int], number: int) -> None:
    """Apply moves to the margins and residuals of some rows. The coordinates themselves are not changed.

    Parameters
    ----------
    columns : Columns        read only
    link : int               LOGISTIC or PROBIT of `links`
    place : Place            margins, residuals, spreads and stamps of the rows are overwritten
    chosen : i64[P]
    move : f64[P]
    rows : (int, int)        the first row and the one after the last
    number : int             of the round, from 1; different from those before

    Returns                  nothing
    Cost                     two reads of the features; one exp for each row that has one of them
    Source                   Bradley et al. 2011, section 3.1: A x is kept
    """
    n, d = len(place.margin), len(columns.start) - 1
    first, end = rows
    for recompute in (False, True):
        for a in range(len(chosen)):
            if move[a] == 0.0:
                continue
            j = chosen[a] - d if chosen[a] >= d else chosen[a]
            step = -move[a] if chosen[a] >= d else move[a]
            at, stop = columns.start[j], columns.start[j + 1]
            if end - first < n:
                held = columns.row[at:stop]
                at, stop = at + np.searchsorted(held, first), at + np.searchsorted(held, end)
            for e in range(at, stop):
                i = columns.row[e]
                if not recompute:
                    place.margin[i] += step * columns.value[e]
                elif place.stamp[i] != number:
                    place.stamp[i] = number
                    s = columns.label[i]
                    q, h, _ = margin_form(link, s * place.margin[i])
                    place.residual[i], place.spread[i] = columns.weight[i] * s * q, columns.weight[i] * h


@kernel
def rounds(columns: Columns, link: int, place: Place, limits: Limits, order: I64, at_once: int, number: int) -> tuple[float, int]:
    """Move all coordinates of `order`, `at_once` in each round.

    Parameters
    ----------
    columns : Columns   read only
    link : int          LOGISTIC or PROBIT of `links`
    place : Place       overwritten
    limits : Limits     read only
    order : i64[m]      coordinates, distinct
    at_once : int       P
    number : int        of the first round

    Returns             the largest violation of an optimality condition, of each coordinate at its round; feature values read
    Cost                two reads of the features, and one exp for each value of those that move
    Source              Bradley et al. 2011, algorithm 2
    """
    d, move, worst, reads = len(limits.penalty), np.empty(at_once), 0.0, 0
    for first in range(0, len(order), at_once):
        chosen = order[first : first + at_once]
        step = move[: len(chosen)]
        worst = max(worst, moves(columns, place, limits, chosen, step))
        for a in range(len(chosen)):
            c = chosen[a]
            place.part[c] += step[a]
            j = c - d if c >= d else c
            reads += (columns.start[j + 1] - columns.start[j]) * (2 if step[a] != 0.0 else 1)
        apply(columns, link, place, chosen, step, (0, len(place.margin)), number)
        number += 1
    return worst, reads


@kernel
def settle(columns: Columns, link: int, place: Place, shift: float) -> tuple[float, float, float]:
    """Shift all margins, and recompute the residuals.

    Parameters
    ----------
    columns : Columns   labels and weights are read
    link : int          LOGISTIC or PROBIT of `links`
    place : Place       margins, residuals and spreads are overwritten
    shift : float       move of the intercept

    Returns             log-likelihood; slope and curvature of the intercept
    Cost                O(n)
    Source              Balakrishnan & Madigan 2008, appendix A, for the intercept's derivatives
    """
    total, slope, curvature = 0.0, 0.0, 0.0
    for i in range(len(place.margin)):
        place.margin[i] += shift
        s, w = columns.label[i], columns.weight[i]
        q, h, _ = margin_form(link, s * place.margin[i])
        place.residual[i], place.spread[i] = w * s * q, w * h
        total += w * log_likelihood(link, place.margin[i], s)
        slope += place.residual[i]
        curvature += place.spread[i]
    return total, slope, curvature


@kernel
def shuffle(order: I64, seed: np.uint64, epoch: int) -> None:
    """Permute at random.

    Parameters
    ----------
    order : i64[m]   overwritten
    seed : u64
    epoch : int      which permutation of this seed

    Returns          nothing
    Cost             one random number for each element
    Source           Fisher & Yates 1938, in the form of Durstenfeld 1964
    """
    for a in range(len(order) - 1, 0, -1):
        b = below(seed, np.uint64(epoch), np.uint64(a), a + 1)
        order[a], order[b] = order[b], order[a]


@kernel
def spectral_radius(columns: Columns, features: I64, norm: F64, iterations: int, seed: np.uint64) -> float:
    """An estimate from below of the largest eigenvalue of A' A, where A is some columns scaled to unit norm.

    Parameters
    ----------
    columns : Columns    read only; a row counts with its weight
    features : i64[m]    those with a norm above 0
    norm : f64[d]        sum of w x^2 of each feature
    iterations : int     of the power method
    seed : u64           of the vector to begin with

    Returns              rho
    Cost                 two reads of the features for each iteration
    Source               von Mises & Pollaczek-Geiringer 1929
    """
    v, t = np.empty(len(features)), np.empty(len(columns.label))
    for a in range(len(features)):
        v[a] = 0.5 + uniform(seed, np.uint64(0), np.uint64(a))
    rho = 0.0
    for _ in range(iterations):
        length = math.sqrt((v * v).sum())
        t[:] = 0.0
        for a in range(len(features)):
            j = features[a]
            share = v[a] / length / math.sqrt(norm[j])
            for e in range(columns.start[j], columns.start[j + 1]):
                t[columns.row[e]] += share * columns.value[e]
        rho = 0.0
        for i in range(len(t)):
            rho += columns.weight[i] * t[i] * t[i]
            t[i] *= columns.weight[i]
        for a in range(len(features)):
            j = features[a]
            total = 0.0
            for e in range(columns.start[j], columns.start[j + 1]):
                total += t[columns.row[e]] * columns.value[e]
            v[a] = total / math.sqrt(norm[j])
    return rho
