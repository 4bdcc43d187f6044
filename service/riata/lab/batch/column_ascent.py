"""The optimum on a working set whose columns are in memory; the method is in `service/native/coordinate_descent.c`."""

from __future__ import annotations

import numpy as np

from riata.base.arrays import F64
from riata.lab.batch.columns import Columns, native_columns
from riata.native.library import core


def solve_columns(columns: Columns, link: int, gamma: F64, slack: float, beta: F64) -> tuple[int, int]:
    """Move beta f64[k + 1] to the optimum on k columns; return the steps, and the reads of a feature value in them.

    gamma : f64[k + 1], penalties; entry 0 is the intercept's. slack : the largest violation that may remain. See
    `riata_solve_columns`.
    """
    given, reads = native_columns(columns), np.empty(1, np.int64)
    work = np.empty(core.solve_columns_room(given, len(beta)))
    steps = core.solve_columns(given, link, gamma, slack, beta, len(beta), reads, work)
    return steps, int(reads[0])
