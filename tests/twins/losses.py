"""Losses with 50 digits, straight from their definitions."""

from __future__ import annotations

import mpmath

TWINS_OF = ("losses",)

LOGISTIC, SQUARED, HINGE = 0, 1, 2
_DIGITS = 50


def slope(loss: int, margin: float, label: float) -> float:
    """Derivative of the loss with respect to the margin."""
    with mpmath.workdps(_DIGITS):
        if loss == SQUARED:
            return float(2 * (mpmath.mpf(margin) - mpmath.mpf(label)))
        s = 2 * label - 1
        if loss == LOGISTIC:
            return float(-s / (1 + mpmath.exp(s * mpmath.mpf(margin))))
        return float(-s) if s * margin < 1 else 0.0


def logistic_travel(z: float, strength: float) -> float:
    """d with d + exp(z + d) - exp(z) = strength, through Lambert's W."""
    if strength == 0.0:
        return 0.0
    # Where z is -700, exp(z) has 304 zeros before its first digit, and it still decides the answer when z + d is near 0.
    with mpmath.workdps(_DIGITS + int(min(abs(z), 700.0))):
        a = mpmath.mpf(strength) + mpmath.mpf(z) + mpmath.exp(z)
        # W(exp(a)) by Newton's method on w + log(w) = a, since exp(a) itself may be astronomically large.
        w = mpmath.exp(a) if a < 1 else a
        for _ in range(200):
            step = (w + mpmath.log(w) - a) * w / (w + 1)
            w = w - step if step < w else w / 2
            if abs(step) < abs(w) * mpmath.mpf(10) ** -_DIGITS:
                break
        return float(a - z - w)


def invariant_travel(loss: int, margin: float, label: float, strength: float) -> float:
    """Change of the margin after learning for the time `strength`."""
    s = 2 * label - 1
    if loss == LOGISTIC:
        return float(s * logistic_travel(s * margin, strength))
    with mpmath.workdps(_DIGITS):
        if loss == SQUARED:
            return float((mpmath.mpf(label) - mpmath.mpf(margin)) * (1 - mpmath.exp(-2 * mpmath.mpf(strength))))
        left = max(mpmath.mpf(0), 1 - mpmath.mpf(s) * mpmath.mpf(margin))
        return float(s * min(mpmath.mpf(strength), left))
