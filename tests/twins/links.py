"""Slow, obvious twin of `riata.maths.links`."""

from __future__ import annotations

import math

import mpmath

from riata.base.arrays import F64
from riata.maths.links import HINGE, IDENTITY, LOGISTIC, PROBIT, REAL

TWINS_OF = ("losses",)


def sigma(margin: float) -> float:
    """1 / (1 + exp(-margin)), overflow answered by its limit."""
    try:
        return 1.0 / (1.0 + math.exp(-margin))
    except OverflowError:
        return 0.0


def normal_cdf(margin: float) -> float:
    """Integral of the density up to the margin; from 50 on there is nothing left to add that a double could hold."""
    return float(mpmath.ncdf(min(max(margin, -50.0), 50.0)))


def answers(margin: F64, link: int, negative: float, probability: F64, label: F64) -> None:
    """One case after the other."""
    for i, m in enumerate(margin.tolist()):
        if link == LOGISTIC:
            probability[i] = sigma(m)
            label[i] = 1.0 if sigma(m) > 0.5 else negative
        if link == PROBIT:
            probability[i] = normal_cdf(m)
            label[i] = 1.0 if normal_cdf(m) > 0.5 else negative
        if link == IDENTITY:
            probability[i] = 0.0 if m < 0.0 else 1.0 if m > 1.0 else m
            label[i] = 1.0 if m > 0.5 else negative
        if link == HINGE:
            probability[i] = math.nan
            label[i] = 1.0 if m > 0.0 else negative
        if link == REAL:
            probability[i] = math.nan
            label[i] = m
