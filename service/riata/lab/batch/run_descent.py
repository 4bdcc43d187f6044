"""Descent to the weights of least  -log-likelihood + lambda sum_j s_j |b_j|_K  for given runs, on rows held in memory.

The method is in `service/native/run_descent.c`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from riata.base.arrays import F64, I64
from riata.native.library import core, struct


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
