"""States of ALGO_VERSION 4 and before, whose book of columns counted all rows: as if it had counted those of the survey."""

from __future__ import annotations

import numpy as np

from riata.base.arrays import F64
from riata.learn.truncated_gradient.state import BLOCK, DENSE


def counted_in_survey(column: F64, learnt: int) -> F64:
    """The numbers of entries with rows of the survey in place of all rows; shares, means, lowest and highest values stay.

    column : f64[5 c]   rows, rows before, sum, lowest and highest value of each entry
    learnt : int        rows learnt
    """
    count, since, total, low, high = column.reshape(-1, 5).T
    before = _surveyed(since)
    fewer = np.maximum(1.0, count * (_surveyed(np.float64(learnt)) - before) / np.maximum(learnt - since, 1.0))
    return np.column_stack([fewer, before, total * (fewer / count), low, high]).ravel()


def _surveyed(learnt: F64 | np.float64) -> F64:
    """How many of the first rows are in the survey, or one fewer."""
    return np.minimum(learnt, DENSE + (learnt - DENSE) // BLOCK)
