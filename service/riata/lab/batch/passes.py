"""Passes over parts of the data: what a worker is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, cast

import numpy as np

from riata.base.arrays import F64, I32, I64, U32, Arrays
from riata.base.errors import TooLarge
from riata.lab.batch.data import Data, Part, Rows, keep_features, native_rows
from riata.native.library import core, struct

# Rows in memory by feature, for solvers that move one weight at a time.
#
# They need 12 bytes for each feature value and 40 for each row, so solvers that hold all rows are refused beyond a bound
# (`memory_bytes`).

_VALUE_BYTES: Final = 12
_ROW_BYTES: Final = 40
_FEATURE_BYTES: Final = 64


class Columns(NamedTuple):
    """The rows by feature.

    start  : i64[d + 1]   feature j is start[j] : start[j + 1]
    row    : u32[nnz]     increasing within a feature
    value  : f64[nnz]
    label  : f64[n]       -1 or 1
    weight : f64[n]       > 0
    """

    start: I64
    row: U32
    value: F64
    label: F64
    weight: F64


def native_columns(columns: Columns) -> Any:
    """Return a `riata_columns` of the columns."""
    return struct("riata_columns", n=len(columns.label), **columns._asdict())


def memory_bytes(data: Data) -> int:
    """What the columns take, and what a solver keeps for each row and feature beside them."""
    return _VALUE_BYTES * data.nnz + _ROW_BYTES * data.rows + _FEATURE_BYTES * data.features


def require_memory(name: str, need: int, most: int | None) -> None:
    """Raise `TooLarge` if a solver that holds the rows in memory needs more than `most` bytes."""
    if most is not None and need > most:
        raise TooLarge(
            f"{name} holds the rows in memory, which takes {need} bytes, and memory_bytes_max is {most}; use rmmp", "memory_bound"
        )


def columns_of(data: Data) -> Columns:
    """Read all rows, twice unless every row has every feature."""
    counts = np.full(data.features, data.rows if (full := data.nnz == data.rows * data.features) else 0, np.int64)
    for part in () if full else data.parts:
        core.count_features(native_rows(part.load()), counts)
    start = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    made = Columns(start, np.empty(data.nnz, np.uint32), np.empty(data.nnz), np.empty(data.rows), np.empty(data.rows))
    end, first, work = start[:-1].copy(), 0, np.empty(core.fill_columns_room(data.features))
    for part in data.parts:
        rows = part.load()
        core.fill_columns(native_rows(rows), first, data.features, end, made.row, made.value, work)
        after = first + len(rows.label)
        made.label[first:after], made.weight[first:after] = rows.label, rows.weight
        first = after
    return made


# One pass over rows: the log-likelihood at given weights, and its derivatives of first and second order.
#
#     G_j = sum_i r_i x_ij        D_j = sum_i h_i x_ij^2        H_jl = sum_i h_i x_ij x_il, for members j, l of the working set S
#
# with r and h of `service/native/losses.h` times the weight of the row. G and D are kept for all features, H only on S: memory is
# d + k^2 and does not depend on the number of rows. All sums are f64.
#
# G and the sums are kept for both labels separately, [0] for -1 and [1] for 1. So a dual point in which the residuals sum to
# zero, which the duality gap of a free intercept needs, costs no further pass (`certificate.py`).

# Sums over the rows of one label.
WEIGHT: Final = 0  # w
LIKELIHOOD: Final = 1  # log p
RESIDUAL: Final = 2  # r
MOMENT: Final = 3  # r c: the residual times the margin
SPREAD: Final = 4  # w q^2 / h: the second derivative of the dual along the residuals, see `certificate.py`
CURVATURE: Final = 5  # h
SUMS: Final = 6


class Weighted(NamedTuple):
    """Weights of all features, dense, and where the members of S are.

    beta      : f64[d]
    intercept : float
    position  : i32[d]   line of H of each feature, 1 .. k, increasing; -1 outside S. Line 0 is the intercept's
    """

    beta: F64
    intercept: float
    position: I32


def expand(rows: Rows, link: int, at: Weighted, sums: F64, moments: F64, cross: F64) -> None:
    """Add the rows to the sums of a pass: f64[2, SUMS], moments f64[2, d, 2] and H f64[k + 1, k + 1]. See `riata_pass`."""
    size, given = len(cross), native_rows(rows)
    of = struct("riata_matrix", cross=cross, stride=size, size=size)
    out = struct("riata_pass_sums", sums=sums, moments=moments, features=moments.shape[1], cross=of)
    core.expand(given, link, _native(at), out, np.empty(core.expand_room(given, size)))


def add_block(cross: F64, rows: tuple[I64, U32, F64, F64]) -> None:
    """Add h x x' of rows (start, member, x, h) to the elements of H above the diagonal. See `riata_add_block`."""
    start, member, x, h = rows
    terms = struct("riata_terms", start=start, at=member, x=x, h=h, n=len(h))
    work = np.empty(core.add_block_room(len(cross), len(h), len(x)))
    core.add_block(struct("riata_matrix", cross=cross, stride=len(cross), size=len(cross)), terms, work)


def likelihoods(rows: Rows, link: int, at: Weighted, toward: Weighted, shares: F64, out: F64) -> None:
    """Write the log-likelihood at the points at + share (toward - at). See `riata_likelihoods`."""
    core.likelihoods(native_rows(rows), link, _native(at), _native(toward), shares, len(shares), out)


def sides(rows: Rows, direction: F64, intercept: float, slack: float) -> tuple[int, int]:
    """Return how many rows a direction moves away from their label by more than `slack`, and how many toward it.

    See `riata_sides`.
    """
    found = np.empty(2, np.int64)
    core.sides(native_rows(rows), struct("riata_weighted", beta=direction, intercept=intercept), slack, found)
    return int(found[0]), int(found[1])


def _native(at: Weighted) -> Any:
    return struct("riata_weighted", **at._asdict())


# Rows learnt one by one by stochastic gradient steps, with an L1 penalty that is applied to a weight when it is next used.

# Entries of the array `own` of `Walk`: what belongs to no feature.
INTERCEPT, SQUARES, STEPS, SIZE = 0, 1, 2, 3


class Walk(NamedTuple):
    """The state of one machine.

    beta    : f64[d]      weights; the penalty of the steps since `seen` is still to be applied
    squares : f64[d]      sums of squared gradients
    peak    : f64[d]      largest |x| so far
    seen    : i64[d]      the step up to which the penalty is applied
    own     : f64[SIZE]   the intercept, its sum of squared gradients, and the number of steps
    """

    beta: F64
    squares: F64
    peak: F64
    seen: I64
    own: F64


class Rates(NamedTuple):
    """How far a step goes.

    eta      : step size
    pull     : penalty of one step
    adaptive : whether a step is divided by the root of the squared gradients so far and by the largest |x|
    free     : whether there is an intercept
    """

    eta: float
    pull: float
    adaptive: bool
    free: bool


def walk_rows(rows: Rows, link: int, walk: Walk, rates: Rates, order: I64) -> None:
    """Learn rows in an order. See `riata_walk_rows`."""
    core.walk_rows(native_rows(rows), link, _native_walk(walk), struct("riata_rates", **rates._asdict()), order, len(order))


def settle_walk(walk: Walk, rates: Rates) -> None:
    """Apply the penalty of all steps to all weights. See `riata_settle_walk`."""
    core.settle_walk(_native_walk(walk), struct("riata_rates", **rates._asdict()))


def new_walk(beta: F64, intercept: float) -> Walk:
    """A machine that begins at weights."""
    d = len(beta)
    own = np.zeros(SIZE)
    own[INTERCEPT] = intercept
    return Walk(beta.copy(), np.zeros(d), np.zeros(d), np.zeros(d, np.int64), own)


def _native_walk(walk: Walk) -> Any:
    return struct("riata_walk", features=len(walk.beta), **walk._asdict())


# Rounds of Shotgun: P weights move at the same time, each as if it were the only one; see `service/native/coordinate_descent.c`.


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


class Rounds:
    """Moves the coordinates of a place, on columns. Threads may share a round by `moves` of others and `apply` to other rows."""

    def __init__(self, columns: Columns, link: int, place: Place, limits: Limits) -> None:
        """link : LOGISTIC or PROBIT of `links`"""
        self._columns, self._link = native_columns(columns), link
        self._at = struct("riata_shotgun", features=len(limits.penalty), **place._asdict(), **limits._asdict())

    def moves(self, chosen: I64, move: F64) -> float:
        """Write how far each chosen coordinate moves; return the largest violation among them. See `riata_shotgun_moves`."""
        worst: float = core.shotgun_moves(self._columns, self._at, chosen, len(chosen), move)
        return worst

    def apply(self, chosen: I64, move: F64, rows: tuple[int, int], number: int) -> None:
        """Apply moves to the margins and residuals of the rows of a range, in round `number`. See `riata_shotgun_apply`."""
        core.shotgun_apply(self._columns, self._link, self._at, chosen, len(chosen), move, *rows, number)

    def advance(self, order: I64, at_once: int, number: int) -> tuple[float, int]:
        """Move all coordinates of `order`, `at_once` in each round, `number` being the first; return the largest violation, and
        how many feature values were read. See `riata_shotgun_rounds`."""
        reads, move = np.empty(1, np.int64), np.empty(at_once)
        worst = core.shotgun_rounds(self._columns, self._link, self._at, order, len(order), at_once, number, move, reads)
        return worst, int(reads[0])

    def settle(self, shift: float) -> tuple[float, float, float]:
        """Shift all margins and recompute the residuals; return the log-likelihood, and slope and curvature of the intercept.

        See `riata_shotgun_settle`.
        """
        of_intercept = np.empty(2)
        total = core.shotgun_settle(self._columns, self._link, self._at, shift, of_intercept)
        return total, float(of_intercept[0]), float(of_intercept[1])


def shuffle(order: I64, seed: int, epoch: int) -> None:
    """Permute at random, by permutation number `epoch` of a seed. See `riata_shuffle`."""
    core.shuffle(order, len(order), seed, epoch)


def spectral_radius(columns: Columns, features: I64, norm: F64, iterations: int, seed: int) -> float:
    """Return an estimate from below of the largest eigenvalue of A' A, A the features scaled to unit norm.

    See `riata_spectral_radius`.
    """
    work = np.empty(len(features) + len(columns.label))
    rho: float = core.spectral_radius(native_columns(columns), features, len(features), norm, iterations, seed, work)
    return rho


# The machines of ParallelSGD: each goes over all parts with every k-th row, and knows nothing of the others.

STATE: Final = Walk._fields


def walk(parts: Sequence[Part], given: Arrays, share: int, shares: int) -> Arrays:
    """One pass of some machines over all rows. See `walk_rows`.

    given   : link, machines, epoch, seed and whole i64[1] (see `ParallelSgd`), rates f64[4] as `Rates`,
              and the states of all machines, each with the axis of `Walk` after it; of one machine if all begin equal
    share   : of `shares`, whose machines these are
    returns : their states
    """
    link, machines, epoch, seed, whole = (int(given[name][0]) for name in ("link", "machines", "epoch", "seed", "whole"))
    eta, pull, adaptive, free = given["rates"].tolist()
    rates = Rates(eta, pull, bool(adaptive), bool(free))
    first, stop = (machines * edge // shares for edge in (share, share + 1))
    begun = slice(first, stop) if len(given["beta"]) == machines else slice(0, 1)
    made: Arrays = {name: np.repeat(given[name][begun], (stop - first) // len(given[name][begun]), axis=0) for name in STATE}
    walks = [Walk(*(made[name][at] for name in STATE)) for at in range(stop - first)]
    before, stride = 0, 1 if whole else machines
    for number, part in enumerate(parts):
        rows = part.load()
        for machine in range(first, stop):
            order: I64 = np.arange(0 if whole else (machine - before) % machines, len(rows.label), stride)
            shuffle(order, seed, (epoch * len(parts) + number) * machines + machine)
            walk_rows(rows, link, walks[machine - first], rates, order)
        before += len(rows.label)
    for one in walks:
        settle_walk(one, rates)
    return made


# What may be run over rows: pure functions of rows and named arrays.
#
# A job is run over one part, and its results are summed. A walk goes over all parts, one after another, for some of the machines
# of ParallelSGD.
#
# Jobs have names, and only names and arrays are handed to a pool. So a pool of other processes sends no code.

Job = Literal["labels", "taylor", "search", "sides", "gather", "several"]
WalkName = Literal["walk"]
Request = tuple[Job, Arrays]

MIX: Final = np.uint32(2654435769)  # Knuth's multiplicative hash


def labels(rows: Rows, _given: Arrays) -> Arrays:
    """Total weight by label: `weight` f64[2], of -1 and of 1."""
    positive = rows.label > 0.0
    return {"weight": np.array([rows.weight[~positive].sum(), rows.weight[positive].sum()])}


def taylor(rows: Rows, given: Arrays) -> Arrays:
    """See `expand`.

    given   : link i64[1], beta f64[d], intercept f64[1], position i32[d], members i64[1]
    returns : sums, moments, cross
    """
    d, size = len(given["beta"]), int(given["members"][0]) + 1
    made = {"sums": np.zeros((2, SUMS)), "moments": np.zeros((2, d, 2)), "cross": np.zeros((size, size))}
    expand(rows, int(given["link"][0]), _weighted(given, ""), *made.values())
    return cast(Arrays, made)


def search(rows: Rows, given: Arrays) -> Arrays:
    """See `likelihoods`.

    given   : link i64[1], beta and toward_beta f64[d], intercept and toward_intercept f64[1], position i32[0], shares f64[m]
    returns : likelihood f64[m]
    """
    shares = cast(F64, given["shares"])
    made = np.zeros(len(shares))
    likelihoods(rows, int(given["link"][0]), _weighted(given, ""), _weighted(given, "toward_"), shares, made)
    return {"likelihood": made}


def side_counts(rows: Rows, given: Arrays) -> Arrays:
    """See `sides`: `sides` i64[2]. given: beta f64[d], intercept f64[1], slack f64[1]."""
    beta = cast(F64, given["beta"])
    return {"sides": np.array(sides(rows, beta, float(given["intercept"][0]), float(given["slack"][0])), np.int64)}


def gather(rows: Rows, given: Arrays) -> Arrays:
    """See `data.keep_features`: a copy of the rows. given: position i32[d], stride i64[1]."""
    stride, number = int(given["stride"][0]), np.arange(len(rows.label), dtype=np.uint32)
    chosen = np.flatnonzero((number * MIX >> np.uint32(16)) & np.uint32(stride - 1) == 0)
    return cast(Arrays, keep_features(rows, chosen, cast(I32, given["position"]))._asdict())


def several(rows: Rows, given: Arrays) -> Arrays:
    """Several jobs on rows that are loaded once.

    given   : jobs str[m], and what job i is given with the prefix `i/`
    returns : what job i returns with the prefix `i/`
    """
    made: Arrays = {}
    for i, job in enumerate(given["jobs"].tolist()):
        own = {name.removeprefix(f"{i}/"): array for name, array in given.items() if name.startswith(f"{i}/")}
        made |= {f"{i}/{name}": array for name, array in JOBS[cast(Job, job)](rows, own).items()}
    return made


def merged(requests: list[Request]) -> Request:
    """Several requests as one, whose parts are loaded once."""
    given: Arrays = {"jobs": np.array([job for job, _ in requests])}
    for i, (_, own) in enumerate(requests):
        given |= {f"{i}/{name}": array for name, array in own.items()}
    return "several", given


def answer_to(i: int, found: Arrays) -> Arrays:
    """What request i of those that were merged returned."""
    return {name.removeprefix(f"{i}/"): array for name, array in found.items() if name.startswith(f"{i}/")}


def _weighted(given: Arrays, prefix: str) -> Weighted:
    beta, position = cast(F64, given[prefix + "beta"]), cast(I32, given["position"])
    return Weighted(beta, float(given[prefix + "intercept"][0]), position)


JOBS: Final[Mapping[Job, Callable[[Rows, Arrays], Arrays]]] = MappingProxyType(
    {"labels": labels, "taylor": taylor, "search": search, "sides": side_counts, "gather": gather, "several": several}
)
WALKS: Final[Mapping[WalkName, Callable[[Sequence[Part], Arrays, int, int], Arrays]]] = MappingProxyType({"walk": walk})
SHARES: Final = "shares"  # what a walk is given: the number of its tasks, i64[1]


def tasks_of(job: Job | WalkName, given: Arrays, parts: int) -> int:
    """How many tasks a call has: one for each part, or for each share of a walk."""
    return int(given[SHARES][0]) if job in WALKS else parts


def run_task(job: Job | WalkName, parts: Sequence[Part], given: Arrays, number: int) -> Arrays:
    """Do one task of a call. parts : of all the data"""
    if job == "walk":
        return WALKS[job](parts, given, number, int(given[SHARES][0]))
    return JOBS[job](parts[number].load(), given)
