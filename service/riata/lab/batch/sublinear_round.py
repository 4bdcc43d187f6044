"""Rounds of SLLR: each reads one row and one column (Peng et al. 2012); see `service/native/sublinear.c`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from riata.base.arrays import F64
from riata.lab.batch.columns import Columns, native_columns
from riata.lab.batch.data import Rows, native_rows
from riata.native.library import core, struct

# Entries of `own` of `Search`: the intercept of the last round, the sum of all, rounds so far, and feature values read.
INTERCEPT, TOTAL, DONE, ACCESSES, SIZE = 0, 1, 2, 3, 4


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
