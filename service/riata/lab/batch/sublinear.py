"""SLLR-L1 and SLLR-L2: logistic regression that reads one row and one column in each round (Peng et al. 2012).

    rounds      T of them (`sublinear_round`), in memory by row and by column, the rows scaled so that the longest has length 1
    direction   the average of w over the rounds. It is dense; `last` takes w of the last round, which SLLR-L1 leaves sparse
    scale       factor and intercept by a logistic regression on the margins: the direction has length at most 1, and its
                margins are not log-odds

It is a method to study: the direction is that of a large margin and not of the most likely weights, which the certificate shows.
What it saves is accesses on dense data. On sparse rows one pass of stochastic gradient steps reads less and errs less.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from riata.base.arrays import F64
from riata.base.errors import BadInput
from riata.lab.batch.certificate import Record
from riata.lab.batch.data import Data, Rows, native_rows
from riata.lab.batch.passes import Columns, columns_of, memory_bytes, native_columns, require_memory
from riata.lab.batch.pool import Pool
from riata.lab.batch.problem import Note, Problem, Solution, Watch, first_weights, watch_nothing
from riata.lab.batch.rmmp import TOLERANCE
from riata.native.library import core, struct

ROUNDS: Final = 10_000
NU: Final = 0.1  # of SLLR-L2
SPARSE: Final = 0.2  # share of values that are not zero, below which other methods read less
MEASURED: Final = 6  # times that the weights are measured on the way, each after twice the rounds of the one before
READ_BETWEEN: Final = 2**26  # values that are read between two measurements at most, some seconds: only they can cancel it
PASSES_BETWEEN: Final = 32  # or as many as these passes, so that measuring takes a few per cent of the time
NEWTON_STEPS: Final = 50

# Entries of `own` of `Search`: the intercept of the last round, the sum of all, rounds so far, and feature values read.
INTERCEPT, TOTAL, DONE, ACCESSES, SIZE = 0, 1, 2, 3, 4


@dataclass(frozen=True, slots=True)
class Sublinear:
    """The solver.

    tolerance, memory_bytes_max : see `Rmmp`
    rounds : T
    nu     : SLLR-L2: rows may lack a margin of up to 2 in all nu n; 0: SLLR-L1, with the gamma of the problem
    last   : the weights of the last round in place of the average
    seed   : of the rows and columns drawn
    """

    tolerance: float = TOLERANCE
    memory_bytes_max: int | None = None
    rounds: int = ROUNDS
    nu: float = 0.0
    last: bool = False
    seed: int = 0

    def solve(self, problem: Problem, pool: Pool, watch: Watch = watch_nothing) -> Solution:
        """Find weights. Raises `BadInput` for rows of different weights or the probit link, and `TooLarge`."""
        data = problem.data
        if problem.link != "logistic":
            raise BadInput("sllr: only the logistic link is possible; use rmmp", "not_for_this_link")
        memory = 2 * memory_bytes(data)
        require_memory("sllr", memory, self.memory_bytes_max)
        gamma = problem.penalties
        if len(np.unique(gamma)) > 1 or not np.isfinite(gamma).all():
            raise BadInput("sllr: expected one penalty for all features", "one_penalty")
        record = Record(problem, pool, self.tolerance, watch)
        first_weights(problem, pool.fold("labels", data.parts, {}))
        columns, rows = columns_of(data), gather_rows(data)
        if len(np.unique(columns.weight)) > 1:
            raise BadInput("sllr: all rows must have the same weight, without forgetting; use rmmp", "weights_differ")
        self._note_shape(record)
        run = _Run(self, record, columns, rows)
        done = 0
        most = max(1, max(READ_BETWEEN, PASSES_BETWEEN * data.nnz) // (data.rows + data.features))
        while done < self.rounds and record.stopped is None:
            target = next(at for part in range(MEASURED - 1, -1, -1) if (at := self.rounds >> part) > done)
            count = min(target - done, most)
            run.advance(count)
            run.measure()
            done += count
        record.stopped = record.stopped or "passes"
        return record.solution(memory)

    def _note_shape(self, record: Record) -> None:
        data = record.problem.data
        share = data.nnz / (data.rows * max(data.features, 1))
        if share < SPARSE:
            text = f"only {share:.1%} of the values are not zero: rmmp, and parallel_sgd in one pass, read fewer and err less"
            record.notes.append(Note("sparse_rows", text))


def gather_rows(data: Data) -> Rows:
    """All rows in memory."""
    loaded = [part.load() for part in data.parts]
    lengths = np.concatenate([np.diff(rows.indptr) for rows in loaded])
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    rank, value, label, weight = (
        np.concatenate([getattr(rows, name) for rows in loaded]) for name in ("rank", "value", "label", "weight")
    )
    return Rows(indptr, rank, value, label, weight)


class _Run:
    def __init__(self, limits: Sublinear, record: Record, columns: Columns, rows: Rows) -> None:
        self._limits, self._record, n, d = limits, record, len(rows.label), record.problem.data.features
        lengths = np.sqrt(np.bincount(np.repeat(np.arange(n), np.diff(rows.indptr)), rows.value**2, minlength=n))
        self._longest = float(np.max(lengths, initial=0.0)) or 1.0
        self._columns = columns._replace(value=columns.value / self._longest)
        self._rows = rows._replace(value=rows.value / self._longest)
        self._feature = np.repeat(np.arange(d), np.diff(columns.start))
        # gamma / n of a row, for weights of rows that are divided by the longest
        pull = float(record.problem.penalties[0]) / (n * self._longest * math.sqrt(2.0 * limits.rounds)) if d else 0.0
        free = record.problem.gamma_intercept == 0.0
        self._terms = Terms(limits.rounds, pull if limits.nu == 0.0 else 0.0, limits.nu, free, limits.seed)
        self._search = Search(*(np.zeros(size) for size in (d, d, d, n, n, n, n, SIZE)))

    def advance(self, count: int) -> None:
        """Do some rounds."""
        sublinear_rounds(self._rows, self._columns, self._search, self._terms, count)

    def measure(self) -> None:
        """Measure the weights so far."""
        record, search = self._record, self._search
        direction = (
            search.w if self._limits.last else search.total / max(1.0, float(np.abs(search.total).max()))
        ) / self._longest
        factor, intercept = self._scaled(direction)
        record.accesses = int(search.own[ACCESSES])
        record.passes = max(record.passes, record.accesses // max(record.problem.data.nnz, 1))
        record.measure(factor * direction, intercept, int(np.count_nonzero(direction)))

    def _scaled(self, direction: F64) -> tuple[float, float]:
        """Factor and intercept that maximise the objective along a direction, by Newton's method with halved steps."""
        problem, label, weight = self._record.problem, self._rows.label, self._rows.weight
        values = self._columns.value * self._longest * direction[self._feature]
        score = np.bincount(self._columns.row, values, minlength=len(label))
        design = np.column_stack([score, np.ones(len(label)) * self._terms.free])
        price = np.array([problem.penalty(direction, 0.0), 0.0])

        def objective(at: F64) -> float:
            return -float(weight @ np.logaddexp(0.0, -label * (design @ at))) - float(price @ np.abs(at))

        share = float((label > 0.0).mean())
        at = np.array([0.0, math.log(share / (1.0 - share)) if self._terms.free else 0.0])
        for _ in range(NEWTON_STEPS):
            q = 1.0 / (1.0 + np.exp(np.clip(label * (design @ at), -700.0, 700.0)))
            slope = design.T @ (weight * label * q) - price
            if at[0] <= 0.0 and slope[0] <= 0.0:
                slope[0] = 0.0
            hessian = design.T @ ((weight * q * (1.0 - q))[:, None] * design) + 1e-12 * np.eye(2)
            step = np.linalg.solve(hessian, slope)
            step[0] = max(step[0], -at[0])
            while objective(at + step) < objective(at) and np.abs(step).max() > 1e-12:
                step *= 0.5
            at = at + step
            if np.abs(step).max() <= 1e-10 * max(1.0, float(np.abs(at).max())):
                break
        return float(at[0]), float(at[1])


# Rounds of SLLR: each reads one row and one column (Peng et al. 2012); see `service/native/stochastic.c`.


class Search(NamedTuple):
    """Where the solver is.

    u, w  : f64[d]      the sum of steps, and its projection to |w| <= 1
    total : f64[d]      sum of w over the rounds
    log_q : f64[n]
    p     : f64[n]      q / sum q
    xi    : f64[n]      slack of each row; 0 in SLLR-L1
    base  : f64[n]      scratch
    own   : f64[SIZE]
    """

    u: F64
    w: F64
    total: F64
    log_q: F64
    p: F64
    xi: F64
    base: F64
    own: F64


class Terms(NamedTuple):
    """T; the penalty of one step (SLLR-L1); nu (SLLR-L2), 0 for SLLR-L1; whether there is an intercept; the seed."""

    rounds: int
    pull: float
    nu: float
    free: bool
    seed: int


def sublinear_rounds(rows: Rows, columns: Columns, search: Search, terms: Terms, count: int) -> None:
    """Do some rounds. No row is longer than 1; `columns` are the same by feature. See `riata_sublinear_rounds`."""
    order = np.empty(2 * len(rows.label), np.int64)
    given = struct("riata_sublinear", order=order, features=len(search.u), **search._asdict(), **terms._asdict())
    core.sublinear_rounds(native_rows(rows), native_columns(columns), given, count)
