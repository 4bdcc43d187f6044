"""Slow, obvious twin of `losses.h`: the definitions, with as many digits as the cancellation takes."""

from __future__ import annotations

import math
import sys
from typing import Any

import mpmath

from riata.maths.links import LOGISTIC

TWINS_OF = ("losses",)

DIGITS = 60


def _digits(margin: float) -> int:
    """1 + m (lambda + m) loses two digits for each digit of m."""
    return DIGITS + 2 * max(0, round(math.log10(1.0 + abs(margin))))


def _about(link: int, margin: float, label: float) -> tuple[Any, Any, Any]:
    """log p(y | c), its slope and its second derivative at c = margin."""
    s = 2 * int(label) - 1
    m = s * mpmath.mpf(margin)
    if link == LOGISTIC:
        q, p = 1 / (1 + mpmath.exp(m)), 1 / (1 + mpmath.exp(-m))
        return -mpmath.log1p(mpmath.exp(-m)), s * q, -p * q
    upper = mpmath.erfc(m / mpmath.sqrt(2)) / 2
    log_p = mpmath.log1p(-upper) if m > 0 else mpmath.log(mpmath.erfc(-m / mpmath.sqrt(2)) / 2)
    mills = mpmath.npdf(m) / (1 - upper) if m > 0 else mpmath.npdf(m) / (mpmath.erfc(-m / mpmath.sqrt(2)) / 2)
    return log_p, s * mills, -mills * (mills + m)


def taylor(link: int, margin: float, label: float) -> tuple[float, float]:
    """Slope, and minus the second derivative."""
    with mpmath.workdps(_digits(margin)):
        _, slope, second = _about(link, margin, label)
        return float(slope), float(-second)


def log_likelihood(link: int, margin: float, label: float) -> float:
    """log p, held within the finite numbers."""
    with mpmath.workdps(_digits(margin)):
        return max(float(_about(link, margin, label)[0]), -sys.float_info.max)
