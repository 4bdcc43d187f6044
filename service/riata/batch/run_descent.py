"""Descent to the weights of least  -log-likelihood + lambda sum_j s_j |b_j|_K  for given runs, on rows held in memory.

Theory of operation
    One step: margins, G of every feature, and the violation of each optimality condition, all at the present weights. If the
    largest is small enough, these weights are returned: G is theirs, not an estimate. Otherwise H of the runs that are not zero
    or violate their condition; the quadratic approximation is minimised over these runs one after the other (`shoot_runs`);
    Armijo's rule shortens the move if the objective does not fall.

    H is summed in the weights b, whatever the runs. In the coordinates a of `maths/run_norm.py`, b = L a, the penalty of a run is
    the Euclidean norm of its a, and G and H become L'G and L'HL, by recursions. The intercept has no penalty: it is eliminated
    from the quadratic before, so it moves along with every run.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from riata.base.arrays import F64, I64
from riata.batch.taylor_pass import add_block
from riata.jit.kernel import inline_kernel, kernel
from riata.maths.run_norm import fold, fold_gradient, run_norms, shrink_group, unfold
from riata.maths.taylor import log_likelihood, margin_form

SWEEPS_MAX: Final = 1000
HALVINGS_MAX: Final = 40
ENTERING: Final = 100
ARMIJO: Final = 1e-4
INNER: Final = 0.1  # an inner minimum is approached to this share of the violation, or to its square
ROUNDING: Final = 1e-15
NOISE: Final = 1e-14  # of the objective: what a sum of the losses may be wrong by


class Columns(NamedTuple):
    """Rows held in memory, their features in the order of the runs.

    x      : f64[n, p]
    label  : f64[n]   -1 or 1
    weight : f64[n]   > 0
    """

    x: F64
    label: F64
    weight: F64


class Runs(NamedTuple):
    """A partition of the features and its penalties.

    start   : i64[m + 1]  run j is start[j] : start[j + 1], none is empty
    k       : f64[m]      of the norm of each run
    penalty : f64[m]      lambda s_j, > 0
    """

    start: I64
    k: F64
    penalty: F64


@inline_kernel
def shoot_runs(h: F64, g: F64, runs: Runs, a: F64, enough: float) -> None:
    """Minimise  (a - a0)'h (a - a0) / 2 - g'(a - a0) + sum_j penalty_j |a_j|_2  over runs in turns, from a = a0.

    h : f64[p, p]; read only. g : f64[p], of a0; becomes that of a. a : f64[p], overwritten.
    Stops after a sweep that changes no run's gradient by more than `enough`. Source: Balakrishnan 2007, algorithm 4."""
    longest = 0
    for j in range(len(runs.k)):
        longest = max(longest, runs.start[j + 1] - runs.start[j])
    work, v, before = np.empty((longest, longest + 2)), np.empty(longest), np.empty(longest)
    for _ in range(SWEEPS_MAX):
        largest = 0.0
        for j in range(len(runs.k)):
            first, end = runs.start[j], runs.start[j + 1]
            n = end - first
            for i in range(n):
                before[i], v[i] = a[first + i], g[first + i]
                for e in range(n):
                    v[i] += h[first + i, first + e] * a[first + e]
            shrink_group(h[first:end, first:end], v[:n], runs.penalty[j], a[first:end], work[:n, : n + 2])
            moved = 0.0
            for i in range(n):
                step = a[first + i] - before[i]
                if step != 0.0:
                    line = h[first + i]
                    moved = max(moved, abs(step) * line[first + i])
                    for e in range(len(g)):
                        g[e] -= step * line[e]
            largest = max(largest, moved)
        if largest <= enough:
            return


@inline_kernel
def look(columns: Columns, link: int, margin: F64, r: F64, h: F64) -> float:
    """Write r and h of each row; return minus the log-likelihood. Source: `maths/taylor.py`."""
    total = 0.0
    for i in range(len(margin)):
        s, w, c = columns.label[i], columns.weight[i], margin[i]
        q, curvature, _ = margin_form(link, s * c)
        r[i], h[i] = w * s * q, w * curvature
        total -= w * log_likelihood(link, c, s)
    return total


@inline_kernel
def in_folds(h: F64, start: I64, k: F64) -> None:
    """h := L'h L for each run, in place. Source: this module's theory of operation."""
    for j in range(len(k)):
        first, end = start[j], start[j + 1]
        if k[j] == 0.0 or end - first == 1:
            continue
        root = math.sqrt(1.0 - k[j] * k[j])
        for i in range(end - 2, first - 1, -1):
            for e in range(h.shape[1]):
                h[i, e] += k[j] * h[i + 1, e]
        for i in range(first + 1, end):
            for e in range(h.shape[1]):
                h[i, e] *= root
    for j in range(len(k)):
        first, end = start[j], start[j + 1]
        if k[j] != 0.0 and end - first > 1:
            for e in range(h.shape[0]):
                fold_gradient(h[e, first:end], k[j], h[e, first:end])


@inline_kernel
def violations(g: F64, a: F64, runs: Runs, out: F64) -> float:
    """Write the violation of each run's condition and return the largest: |g - penalty a / |a|| if a is not 0, otherwise the
    excess of |g| over the penalty. g, a : f64[p], folded. Source: Balakrishnan 2007, equation 4.3."""
    worst = 0.0
    for j in range(len(runs.k)):
        size, total = 0.0, 0.0
        for i in range(runs.start[j], runs.start[j + 1]):
            size += a[i] * a[i]
        size = math.sqrt(size)
        for i in range(runs.start[j], runs.start[j + 1]):
            off = g[i] - runs.penalty[j] * a[i] / size if size > 0.0 else g[i]
            total += off * off
        out[j] = math.sqrt(total) if size > 0.0 else max(math.sqrt(total) - runs.penalty[j], 0.0)
        worst = max(worst, out[j])
    return worst


@inline_kernel
def penalty_of(b: F64, runs: Runs) -> float:
    """The penalty of weights. Source: Balakrishnan 2007, equation 4.2."""
    norms = np.empty(len(runs.k))
    run_norms(b, runs.start, runs.k, False, norms)
    total = 0.0
    for j in range(len(norms)):
        total += runs.penalty[j] * norms[j]
    return total


@inline_kernel
def entry_violation(runs: Runs, b: F64, off: F64) -> float:
    """The violation from which on a zero run becomes active: as many features enter as have a weight, but at least ENTERING.

    Source: the working set of RMMP."""
    zero, held = off.copy(), 0
    for j in range(len(off)):
        for i in range(runs.start[j], runs.start[j + 1]):
            if b[i] != 0.0:
                zero[j] = 0.0
                held += runs.start[j + 1] - runs.start[j]
                break
    room = max(held, ENTERING)
    order = np.argsort(-zero)
    for at in range(len(order)):
        j = order[at]
        room -= runs.start[j + 1] - runs.start[j]
        if room < 0 and at > 0:
            return float(zero[order[at - 1]])
    return 0.0


@inline_kernel
def active_runs(runs: Runs, b: F64, off: F64) -> tuple[I64, Runs]:
    """The features of the runs that are not zero or violate their condition, and these runs. Source: the working set of RMMP."""
    at, used, m, enough = np.empty(len(b), np.int64), 0, 0, entry_violation(runs, b, off)
    start, k, penalty = np.zeros(len(off) + 1, np.int64), np.empty(len(off)), np.empty(len(off))
    for j in range(len(off)):
        is_active = off[j] > 0.0 and off[j] >= enough
        for i in range(runs.start[j], runs.start[j + 1]):
            is_active = is_active or b[i] != 0.0
        if is_active:
            for i in range(runs.start[j], runs.start[j + 1]):
                at[used] = i
                used += 1
            k[m], penalty[m] = runs.k[j], runs.penalty[j]
            m += 1
            start[m] = used
    return at[:used], Runs(start[: m + 1], k[:m], penalty[:m])


@inline_kernel
def gram(x: F64, at: I64, h: F64) -> tuple[F64, F64]:
    """The features `at` of each row with a one before them, f64[n, m + 1], and z'hz of these, whole. Source: `taylor_pass`."""
    n, m = len(x), len(at) + 1
    z, cross = np.empty((n, m)), np.zeros((m, m))
    line = np.arange(m).astype(np.uint32)
    member = np.empty(n * m, np.uint32)
    for i in range(n):
        z[i, 0] = 1.0
        for e in range(len(at)):
            z[i, e + 1] = x[i, at[e]]
        member[i * m : (i + 1) * m] = line
        for e in range(m):
            cross[e, e] += h[i] * z[i, e] * z[i, e]
    add_block(cross, np.arange(0, n * m + 1, m), member, z.reshape(n * m), h, n)
    for e in range(m):
        for f in range(e):
            cross[e, f] = cross[f, e]
    return z, cross


@inline_kernel
def gradient(x: F64, r: F64, h: F64, g: F64) -> tuple[float, float]:
    """g := x'r; return the sums of r and of h. Source: definition."""
    g[:] = 0.0
    g0, h0 = 0.0, 0.0
    for i in range(len(r)):
        g0 += r[i]
        h0 += h[i]
        ri = r[i]
        for e in range(len(g)):
            g[e] += ri * x[i, e]
    return g0, h0


@inline_kernel
def newton_target(cross: F64, g: F64, sums: tuple[float, float], active: Runs, a: F64, enough: float) -> tuple[F64, float]:
    """The minimum of the quadratic approximation over active runs, folded, and the move of the intercept.

    cross : H with the intercept's line first. g, a : f64[m], folded. sums : G and H of the intercept. Source: the module."""
    h, aside = np.ascontiguousarray(cross[1:, 1:]), cross[0, 1:].copy()
    in_folds(h, active.start, active.k)
    for j in range(len(active.k)):
        first, end = active.start[j], active.start[j + 1]
        fold_gradient(aside[first:end], active.k[j], aside[first:end])
    for e in range(len(a)):
        for f in range(len(a)):
            h[e, f] -= aside[e] * (aside[f] / sums[1])
    slope, to = g - aside * (sums[0] / sums[1]), a.copy()
    shoot_runs(h, slope, active, to, enough)
    return to, (sums[0] - float(np.sum(aside * (to - a)))) / sums[1]


@inline_kernel
def product(z: F64, change: F64, constant: float, out: F64) -> None:
    """out := constant + z[:, 1:] change. Source: definition."""
    for i in range(len(out)):
        total = constant
        for e in range(len(change)):
            total += z[i, e + 1] * change[e]
        out[i] = total


@kernel
def descend(
    columns: Columns, link: int, runs: Runs, b: F64, intercept: F64, limits: tuple[float, int]
) -> tuple[float, float, int]:
    """Find the optimum for given runs.

    Parameters
    ----------
    columns : Columns      read only
    link : int             LOGISTIC or PROBIT of `links`
    runs : Runs            read only
    b : f64[p]             the start; overwritten with the weights
    intercept : f64[1]     likewise
    limits                 (largest violation that is good enough, most steps)

    Returns                minus log-likelihood plus penalties; the largest violation; steps
    Cost                   a step: n p, n m^2 / 2 for m features of active runs, and some m^2 for each sweep over them
    Source                 Balakrishnan 2007, section 4.3; proximal Newton with working sets
    """
    n, p, m = len(columns.label), len(b), len(runs.k)
    margin, r, h, ahead = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    g, a, off = np.empty(p), np.empty(p), np.empty(m)
    for i in range(n):
        margin[i] = intercept[0]
        for e in range(p):
            if b[e] != 0.0:
                margin[i] += columns.x[i, e] * b[e]
    loss = look(columns, link, margin, r, h)
    step = 0
    while True:
        sums = gradient(columns.x, r, h, g)
        for j in range(m):
            first, end = runs.start[j], runs.start[j + 1]
            fold_gradient(g[first:end], runs.k[j], g[first:end])
            fold(b[first:end], runs.k[j], a[first:end])
        worst = max(violations(g, a, runs, off), abs(sums[0]))
        objective = loss + penalty_of(b, runs)
        if worst <= limits[0] or step >= limits[1] or not sums[1] > 0.0:
            return objective, worst, step
        at, active = active_runs(runs, b, off)
        z, cross = gram(columns.x, at, h)
        to, forward = newton_target(cross, g[at], sums, active, a[at], max(INNER * min(1.0, worst), ROUNDING) * worst)
        now, after = b[at], np.empty(len(at))
        for j in range(len(active.k)):
            first, end = active.start[j], active.start[j + 1]
            unfold(to[first:end], active.k[j], after[first:end])
        before = penalty_of(now, active)
        fall = penalty_of(after, active) - before - np.sum(g[at] * (to - a[at])) - sums[0] * forward
        change, share, is_lower = after - now, 1.0, False
        product(z, change, forward, ahead)
        for _ in range(HALVINGS_MAX):
            candidate = after if share == 1.0 else now + share * change
            rise = look(columns, link, margin + share * ahead, r, h) - loss + penalty_of(candidate, active) - before
            is_lower = bool(rise <= ARMIJO * share * fall + NOISE * abs(objective))
            if is_lower:
                b[at] = candidate
                intercept[0] += share * forward
                break
            share *= 0.5
        if not is_lower:
            return objective, worst, step
        product(z, b[at], intercept[0], margin)  # anew from the weights, so that no rounding adds up
        loss = look(columns, link, margin, r, h)
        step += 1
