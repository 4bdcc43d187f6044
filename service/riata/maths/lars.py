"""The path of an L1 penalty on a quadratic, by least angle regression; the method is in `service/native/lars.c`."""

from __future__ import annotations

import numpy as np

from riata.base.arrays import BOOL, F64
from riata.native.library import core, struct


def lars(a: F64, c: F64, allowed: BOOL, lowest: float, most: float) -> tuple[F64, float, BOOL]:
    """Follow the path down to the penalty `lowest`, or to a sum `most` of the sizes of the weights.

    Returns beta f64[k], the penalty there, and bool[k]: columns that would be tied but are combinations of others. See
    `riata_lars`.
    """
    k = len(c)
    beta, barred = np.empty(k), np.empty(k, np.bool_)
    problem = struct("riata_lars_problem", a=a, c=c, allowed=allowed, k=k)
    penalty = core.lars(problem, lowest, most, beta, barred, np.empty(core.lars_room(k)))
    return beta, penalty, barred
