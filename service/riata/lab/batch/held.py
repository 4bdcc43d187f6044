"""What RMMP holds in memory between two passes over all rows: the columns of its working set, and before that a sample of rows.

Columns of S are gathered by one pass. The optimum on S is found on them (`column_ascent`), and the next pass over all rows
certifies it, and finds which weights outside S violate their condition. If there are some, S and its columns are gathered anew.

A sample gives the first S: the optimum of one row in SAMPLE, under a penalty that is as much smaller, is where the passes begin.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, cast

import numpy as np

from riata.base.arrays import F64, I64, U32, Arrays
from riata.lab.batch.active_set import choose_active, held_room
from riata.lab.batch.columns import Columns, columns_of, native_columns
from riata.lab.batch.data import Data, DataInMemory, PartInMemory, Rows
from riata.lab.batch.expansion import Expansion
from riata.lab.batch.pool import Pool
from riata.lab.batch.problem import Problem
from riata.maths.links import LINKS
from riata.native.library import core

FEATURE_BYTES: Final = 24  # by rows and by columns; later by columns, and its product with h
ROW_BYTES: Final = 96  # of what is held by rows and by columns, and of the state of `solve_columns`
SAMPLE: Final = 8  # a power of 2
SAMPLE_ROWS: Final = 512  # fewer are no sample


def most_bytes(data: Data) -> int:
    """What the columns of all features take."""
    return FEATURE_BYTES * data.nnz + ROW_BYTES * data.rows


def gather(data: Data, pool: Pool, members: I64, bytes_max: int, stride: int = 1) -> DataInMemory | None:
    """Copy the features `members` of every row, or of one row in `stride`; None if they would take more than `bytes_max`.

    members : i64[k]   increasing; feature members[p] has rank p in the copy
    stride  : a power of 2
    """
    if ROW_BYTES * (data.rows // stride) > bytes_max:
        return None
    position = np.full(data.features, -1, np.int32)
    position[members] = np.arange(len(members))
    parts, rows, nnz = [], 0, 0
    for found in pool.each("gather", data.parts, {"position": position, "stride": np.array([stride])}):
        part = _rows(found)
        rows, nnz = rows + len(part.label), nnz + len(part.rank)
        if FEATURE_BYTES * nnz + ROW_BYTES * rows > bytes_max:
            return None
        parts.append(PartInMemory(part))
    return DataInMemory(rows, nnz, len(members), parts, data.slots[members], data.bits)


def sample_of(problem: Problem, pool: Pool, bytes_max: int) -> Problem | None:
    """The problem of one row in SAMPLE; None if they would be few."""
    data = problem.data
    if data.rows < SAMPLE * SAMPLE_ROWS:
        return None
    rows = gather(data, pool, np.arange(data.features), bytes_max, SAMPLE)
    if rows is None or not rows.rows:
        return None
    share = rows.rows / data.rows
    return replace(problem, data=rows, gamma=share * problem.penalties, gamma_intercept=share * problem.gamma_intercept)


class HeldColumns:
    """The working set and its columns.

    members : i64[k]   S, increasing
    reads   : feature values of columns that were read
    """

    def __init__(self, problem: Problem, pool: Pool, bytes_max: int, whole: bool) -> None:
        """bytes_max: of the columns; whole: S is every feature."""
        self._problem, self._pool, self._bytes_max, self._whole = problem, pool, bytes_max, whole
        self._columns: Columns | None = None
        self.members = np.empty(0, np.int64)
        self.reads = 0
        self.gathered = 0  # passes over all rows

    def optimum(self, at: Expansion, slack: float) -> tuple[F64, float] | None:
        """The weights that are optimal on S, up to a violation of `slack`; None if the columns are too many to be held, or if no
        better weights are found.

        at : a pass over all rows, which says where to begin and what S needs
        """
        if self.gathers(at):
            self._gather(at)
        if self._columns is None:
            return None
        beta = np.append(at.intercept, at.beta[self.members])
        gamma = np.append(self._problem.gamma_intercept, self._problem.penalties[self.members])
        _, reads = solve_columns(self._columns, LINKS[self._problem.link].code, gamma, slack, beta)
        self.reads += reads
        found = np.zeros(len(at.beta))
        found[self.members] = beta[1:]
        same = beta[0] == at.intercept and np.array_equal(found, at.beta)
        return None if same else (found, float(beta[0]))

    def gathers(self, at: Expansion) -> bool:
        """Whether the next optimum takes a pass of its own that gathers columns."""
        outside = np.abs(at.gradient) > self._problem.penalties
        outside[self.members] = False
        return self._columns is None or bool(outside.any())

    def _gather(self, at: Expansion) -> None:
        self._columns = None  # before the next are gathered
        if self._whole:
            self.members = np.arange(len(at.beta))
        else:
            most = held_room(int(np.count_nonzero(at.beta)), len(self.members))
            omega = at.gradient + at.curvature * at.beta
            self.members = choose_active(at.beta, omega, self._problem.penalties, self.members, most)
        rows = gather(self._problem.data, self._pool, self.members, self._bytes_max)
        self.gathered += 1
        self._columns = None if rows is None else columns_of(rows)


def _rows(found: Arrays) -> Rows:
    return Rows(
        cast(I64, found["indptr"]), cast(U32, found["rank"]), cast(F64, found["value"]), cast(F64, found["label"]),
        cast(F64, found["weight"]),
    )  # fmt: skip


# The optimum on a working set whose columns are in memory; the method is in `service/native/coordinate_descent.c`.


def solve_columns(columns: Columns, link: int, gamma: F64, slack: float, beta: F64) -> tuple[int, int]:
    """Move beta f64[k + 1] to the optimum on k columns; return the steps, and the reads of a feature value in them.

    gamma : f64[k + 1], penalties; entry 0 is the intercept's. slack : the largest violation that may remain. See
    `riata_solve_columns`.
    """
    given, reads = native_columns(columns), np.empty(1, np.int64)
    work = np.empty(core.solve_columns_room(given, len(beta)))
    steps = core.solve_columns(given, link, gamma, slack, beta, len(beta), reads, work)
    return steps, int(reads[0])
