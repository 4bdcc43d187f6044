"""Losses of a margin: their slope, and how far a step of a given strength moves the margin along the loss.

A label is 0 or 1 for the logistic and the hinge loss, any real number for the squared loss, which is (margin - label)^2 without a
factor 1/2, as Langford, Li & Zhang write it. The formulas are in `service/native/losses.h`.
"""

from __future__ import annotations

from typing import Final

from riata.native.library import core

LOGISTIC: Final = 0
SQUARED: Final = 1
HINGE: Final = 2


def slope(loss: int, margin: float, label: float) -> float:
    """Return the derivative of the loss with respect to the margin, which is finite."""
    return float(core.slope(loss, margin, label))


def invariant_travel(loss: int, margin: float, label: float, strength: float) -> float:
    """Return how far the margin moves, with its sign, when the row is learnt with importance as time (importance invariance).

    strength : rate times importance times squared length, >= 0
    """
    return float(core.travel(loss, margin, label, strength))
