"""LAPS, the lasso with attribute partition search: groups of weights, and runs of neighbours inside those that have an order.

    minimise  -sum_i w_i log p(y_i | b_0 + x_i b)  +  gamma sum_j s_j |b_j|_K          s_j = sqrt((n_j + 1) / 2)

over weights b_j of runs j. Every feature is in one run; a group without an order is one run with k = 0, which is the group lasso;
a run of one weight has the penalty of the lasso. `Balakrishnan 2007`, chapter 4; norms in `lab/batch/runs.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from riata.base.arrays import BOOL, F64, I64
from riata.base.errors import TooLarge
from riata.lab.batch.certificate import Expansion, balance, dual_distance, expansion_of, expansion_request
from riata.lab.batch.data import Data
from riata.lab.batch.passes import LIKELIHOOD
from riata.lab.batch.pool import Pool
from riata.lab.batch.problem import Certificate, Problem
from riata.maths.links import LINKS
from riata.native.library import core, struct
from riata.wire.groups import Grouping

STEPS_MAX: Final = 200
MEMORY_BYTES_MAX: Final = 2**31
COPIES: Final = 4  # of the values, at most, that a descent holds: the features of active runs, once in rows and once in panels
NUMBER_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class Layout:
    """The features of some data in the order of their groups, and which neighbours may be in one run.

    rank  : i64[p]        feature of each column; groups in their order, then the features of no group
    group : i64[p]        group of each column; -1 for a feature of no group
    tied  : bool[p - 1]   column i and the next are in one run whatever happens: those of a group without an order
    free  : bool[p - 1]   column i and the next may be in one run
    """

    rank: I64
    group: I64
    tied: BOOL
    free: BOOL

    @classmethod
    def of(cls, grouping: Grouping, features: int) -> Layout:
        """Make the layout of all features of some data."""
        single = np.ones(features, np.bool_)
        for ranks in grouping.ranks:
            single[ranks] = False
        alone = np.flatnonzero(single)
        rank = np.concatenate([*grouping.ranks, alone]).astype(np.int64)
        sizes = [len(ranks) for ranks in grouping.ranks]
        group = np.concatenate([np.repeat(np.arange(len(sizes)), sizes), np.full(len(alone), -1)]).astype(np.int64)
        inside = (group[1:] == group[:-1]) & (group[1:] >= 0)
        of_runs = np.append(np.array(grouping.is_runs, np.bool_), False)[group[1:]]
        return cls(rank, group, inside & ~of_runs, inside & of_runs)

    def runs(self, edges: BOOL, gamma: float, k: float) -> Runs:
        """The runs whose neighbours are joined by `edges` (bool[p - 1], ties included)."""
        start = np.concatenate([[0], np.flatnonzero(~edges) + 1, [len(self.rank)]]).astype(np.int64)
        of_runs = np.append(self.free, False)[start[:-1]]
        lengths = np.diff(start)
        return Runs(start, np.where(of_runs, k, 0.0), gamma * np.sqrt(0.5 * (lengths + 1)))


@dataclass(slots=True)
class Point:
    """Weights in the order of a layout, and their objective as a minimum."""

    edges: BOOL
    b: F64
    intercept: F64
    value: float = math.inf


def columns_of(data: Data, layout: Layout, workers: int, memory_bytes_max: int = MEMORY_BYTES_MAX) -> Columns:
    """Gather the rows, dense. Raises `TooLarge` (code `memory_bound`) before anything is allocated."""
    needed = memory_bytes(data, workers)
    if needed > memory_bytes_max:
        raise TooLarge(
            f"groups need all values in memory: {data.rows:,} rows of {data.features:,} features and what {workers} threads copy "
            f"are {needed:,} bytes, and memory_bytes_max is {memory_bytes_max:,}; take fewer rows, or leave features out",
            "memory_bound",
        )
    place = np.empty(data.features, np.int64)
    place[layout.rank] = np.arange(data.features)
    x, label, weight = np.zeros((data.rows, data.features)), np.empty(data.rows), np.empty(data.rows)
    first = 0
    for part in data.parts:
        rows = part.load()
        n = len(rows.label)
        x[first + np.repeat(np.arange(n), np.diff(rows.indptr)), place[rows.rank]] = rows.value
        label[first : first + n], weight[first : first + n] = rows.label, rows.weight
        first += n
    return Columns(x, label, weight)


def memory_bytes(data: Data, workers: int) -> int:
    """What a solution needs at most."""
    curvature = 2 * data.features**2
    return NUMBER_BYTES * (data.rows * data.features * (1 + COPIES * workers) + curvature * workers)


def solve_runs(columns: Columns, problem: Problem, runs: Runs, point: Point, tolerance: float) -> float:
    """Move a point to the optimum of given runs; returns the largest violation. tolerance: as a share of gamma."""
    point.value, violation, _ = descend(
        columns, LINKS[problem.link].code, runs, point.b, point.intercept, (tolerance * float(problem.gamma), STEPS_MAX)
    )
    return violation


@dataclass(frozen=True, slots=True)
class Checked:
    """What one exact pass over all rows says of weights.

    log_likelihood : of the rows
    certificate    : as that of the other solvers; objective is a maximum
    score          : minus the logarithm of the evidence, by Laplace's approximation: less is better
    """

    log_likelihood: float
    certificate: Certificate
    score: float


def check(problem: Problem, layout: Layout, runs: Runs, point: Point, pool: Pool) -> Checked:
    """Certify and score a point by a pass of its own."""
    beta = np.zeros(problem.data.features)
    beta[layout.rank] = point.b
    norms = np.empty(len(runs.k))
    run_norms(point.b, runs.start, runs.k, False, norms)
    members = np.sort(layout.rank[np.repeat(norms > 0.0, np.diff(runs.start))])
    job, given = expansion_request(problem, beta, float(point.intercept[0]), members)
    at = expansion_of(pool.fold(job, problem.data.parts, given), beta, float(point.intercept[0]), members)
    penalty = math.fsum(runs.penalty * norms)
    likelihood = float(at.sums[:, LIKELIHOOD].sum())
    kkt = max(_violation(at.gradient[layout.rank], runs, point.b, norms), abs(at.residual)) / float(problem.gamma)
    certificate = Certificate(likelihood - penalty, _gap(problem, layout, runs, at, penalty), kkt)
    return Checked(likelihood, certificate, _score(problem, layout, runs, at, penalty - likelihood, norms))


def run_matrix(n: int, k: float) -> F64:
    """K of a run, f64[n, n]."""
    made = np.eye(n)
    if n > 1:
        inner = np.full(n, 1.0 + k * k)
        inner[[0, -1]] = 1.0
        made = (np.diag(inner) - k * (np.eye(n, k=1) + np.eye(n, k=-1))) / (1.0 - k * k)
    return made


def _violation(gradient: F64, runs: Runs, b: F64, norms: F64) -> float:
    off, sizes = gradient.copy(), np.empty(len(norms))
    held = np.flatnonzero(norms)
    for j in held.tolist():
        inside = slice(runs.start[j], runs.start[j + 1])
        off[inside] -= runs.penalty[j] / norms[j] * (run_matrix(inside.stop - inside.start, float(runs.k[j])) @ b[inside])
    run_norms(off, runs.start, runs.k, True, sizes)
    limits = runs.penalty.copy()
    limits[held] = 0.0
    return float(np.max(sizes - limits, initial=0.0))


def _gap(problem: Problem, layout: Layout, runs: Runs, at: Expansion, penalty: float) -> float:
    share = balance(problem, at)
    sizes = np.empty(len(runs.k))
    run_norms((share @ at.gradient_by_label)[layout.rank], runs.start, runs.k, True, sizes)
    over = sizes > runs.penalty
    return dual_distance(at, share * float(np.min(runs.penalty[over] / sizes[over], initial=1.0)), penalty)


def _score(problem: Problem, layout: Layout, runs: Runs, at: Expansion, value: float, norms: F64) -> float:
    """S of section 4.3.2: value - log of the volume of the posterior around it, given the runs that are not zero."""
    size = len(at.members) + 1
    curved = np.triu(at.cross, 1)
    curved += curved.T
    curved[np.arange(size), np.arange(size)] = np.append(at.intercept_curvature, at.curvature[at.members])
    line = np.zeros(problem.data.features, np.int64)
    line[at.members] = np.arange(1, size)
    gamma, total = float(problem.gamma), value
    for j in np.flatnonzero(norms).tolist():
        ranks = layout.rank[runs.start[j] : runs.start[j + 1]]
        n, k = len(ranks), float(runs.k[j])
        matrix = run_matrix(n, k)
        pull = matrix @ at.beta[ranks]
        curved[np.ix_(line[ranks], line[ranks])] += runs.penalty[j] * (matrix / norms[j] - np.outer(pull, pull) / norms[j] ** 3)
        log_prior = n * math.log(2.0 * (n + 1) * gamma**2) - (n - 1) * math.log1p(-k * k)
        total -= log_constant(n) + 0.5 * log_prior
    return total + 0.5 * float(np.linalg.slogdet(curved)[1]) - 0.5 * size * math.log(2.0 * math.pi)


def partition(layout: Layout, runs: Runs, b: F64) -> list[tuple[int, int]]:
    """Return the runs as pairs of first and end, in which neighbouring zero runs of one group are one: the objective does not see
    them, so partitions that differ only there are the same."""
    made: list[tuple[int, int]] = []
    for first, end in zip(runs.start[:-1].tolist(), runs.start[1:].tolist(), strict=True):
        is_zero = not np.any(b[first:end])
        joined = made and layout.group[first] == layout.group[first - 1] >= 0 and is_zero and not np.any(b[slice(*made[-1])])
        if joined:
            made[-1] = (made[-1][0], end)
        else:
            made.append((first, end))
    return made


def spread(columns: Columns, layout: Layout, groups: int) -> list[float]:
    """Return for each group how many times the standard deviation of its widest column is that of its narrowest.

    Runs compare weights of neighbours, so columns of one group belong on one scale."""
    widths = columns.x.std(axis=0)
    found = []
    for group in range(groups):
        own = widths[(layout.group == group) & (widths > 0.0)]
        found.append(float(own.max() / own.min()) if len(own) else 1.0)
    return found


# Norms of runs: weights of neighbouring features that are in the model, or out of it, together.
#
# Theory of operation
#     |b|_K = sqrt(b'K b) of a run of n weights, with (K^-1)_il = k^|i - l|, 0 <= k < 1. K is tridiagonal:
#         (1, 1 + k^2, ..., 1 + k^2, 1) / (1 - k^2) on the diagonal, -k / (1 - k^2) beside it; K = 1 if n = 1.
#     k = 0 is the Euclidean norm, hence the group lasso; k near 1 asks neighbours to have weights alike.
#
#     K^-1 = L L' is the covariance of an autoregressive sequence. So b = L a has |b|_K = |a|_2, and L and L' are recursions of n
#     steps: no matrix is kept.
#         b_1 = a_1,  b_i = k b_(i-1) + root a_i          root = sqrt(1 - k^2)
#         (L'g)_i = root t_i,  (L'g)_1 = t_1,  with t_n = g_n, t_i = g_i + k t_(i+1)
#     The dual norm of |.|_K is |L'g|_2.


def log_constant(n: int) -> float:
    """log c(n) of the prior density  c |Sigma|^(-1/2) exp(-lambda s |b|_K),  Sigma^-1 = 2 (n + 1) lambda^2 K."""
    return math.lgamma(0.5 * n) - math.lgamma(n) - n * math.log(2.0) - math.log(2.0) - 0.5 * n * math.log(math.pi)


def run_norms(b: F64, start: I64, k: F64, dual: bool, out: F64) -> None:
    """Write the norm of each run of a vector: of weights, or the dual norm of a gradient. See `riata_run_norms`."""
    runs = struct("riata_runs", start=start, k=k, n=len(k))
    core.run_norms(runs, b, dual, out, np.empty(int(np.diff(start).max(initial=0))))


def shrink_group(h: F64, v: F64, penalty: float, a: F64) -> None:
    """Move a to the minimum of  a'h a / 2 - v'a + penalty |a|_2. See `riata_shrink_group`."""
    core.shrink_group(h, v, len(v), penalty, a, np.empty((len(v), len(v) + 2)))


# Descent to the weights of least  -log-likelihood + lambda sum_j s_j |b_j|_K  for given runs, on rows held in memory.
#
# The method is in `service/native/run_descent.c`.


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


def descend(
    columns: Columns, link: int, runs: Runs, b: F64, intercept: F64, limits: tuple[float, int]
) -> tuple[float, float, int]:
    """Move b f64[p] and intercept f64[1] to the optimum for given runs; see `riata_descend`.

    limits : the largest violation that is good enough, and the most steps

    Returns minus log-likelihood plus penalties, the largest violation, and steps.
    """
    n, p = columns.x.shape
    rows = struct("riata_dense", n=n, features=p, **columns._asdict())
    parts = struct("riata_runs", n=len(runs.k), **runs._asdict())
    at = struct("riata_descent", b=b, intercept=float(intercept[0]), enough=limits[0], steps_max=limits[1])
    core.descend(rows, link, parts, at, np.empty(core.descend_room(rows, parts)))
    intercept[0] = at.intercept
    return at.objective, at.violation, at.steps
