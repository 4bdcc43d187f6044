"""A normal distribution of weights, by its precision, which is inverted whenever it is needed."""

from __future__ import annotations

import math

import numpy as np

from riata.base.arrays import F64
from riata.learn.second_order import VARIANCE, VARIANCE_COUNT, VARIANCE_INTERCEPT, VARIANCE_SCALED, WEIGHTS

YOUNG = 4096  # rows


class Normal:
    """slot : the features, None for the intercept"""

    def __init__(self, reach: float) -> None:
        self._reach = reach
        self._slot: list[int | None] = [None]
        self._peak = [1.0]
        self._precision: F64 = np.array([[1.0 / VARIANCE_INTERCEPT]])
        self._pull: F64 = np.zeros(1)  # precision times mean

    def scale(self, x: dict[int, F64]) -> None:
        """Before the first row: the weights of columns are independent when each has the mean 0 and the variance 1 over all rows.

        x : the values of each, 0 where it is absent
        """
        mean = np.array([1.0, *(values.mean() for values in x.values())])
        scaled = np.array([0.0, *(values.var() / VARIANCE_SCALED for values in x.values())])
        self._slot, self._peak = [None, *x], [1.0, *(float(np.abs(values).max()) for values in x.values())]
        self._precision = np.outer(mean, mean) / VARIANCE_INTERCEPT + np.diag(
            scaled
        )  # of the intercept at the means, and weights
        self._pull = np.zeros(len(mean))

    def weights(self) -> dict[int | None, float]:
        """The mean of each weight."""
        mean = np.linalg.solve(self._precision, self._pull)
        return dict(zip(self._slot, mean.tolist(), strict=True))

    def learn(self, row: dict[int, float], label: float, importance: float) -> bool:
        """Go on to the mode of the distribution times the likelihood of the label; false if there are too many features."""
        x: dict[int | None, float] = {slot: self._within(slot, value) for slot, value in row.items() if value != 0.0}
        x[None] = 1.0
        if len(self._slot) > WEIGHTS:
            return False
        values = np.array([x.get(slot, 0.0) for slot in self._slot])
        mean, covariance = np.linalg.solve(self._precision, self._pull), np.linalg.inv(self._precision)
        sign = 1.0 if label > 0.5 else -1.0
        margin, variance = sign * float(mean @ values), importance * float(values @ covariance @ values)
        low, high = margin, margin + variance
        for _ in range(200):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if middle > margin + variance / (1.0 + math.exp(min(middle, 700.0))) else (middle, high)
        away = 1.0 / (1.0 + math.exp(min(low, 700.0)))
        curvature = importance * away * (1.0 - away)
        self._precision = self._precision + curvature * np.outer(values, values)
        self._pull = self._pull + (curvature * sign * low + sign * importance * away) * values
        return True

    def _within(self, slot: int, value: float) -> float:
        """The value as it is learnt; the precision at first grows with the largest one."""
        if slot not in self._slot:
            self._slot.append(slot)
            self._peak.append(0.0)
            self._precision = np.pad(self._precision, (0, 1))
            self._pull = np.append(self._pull, 0.0)
        at = self._slot.index(slot)
        old = self._peak[at]
        value = max(-self._reach * old, min(self._reach * old, value)) if old else value
        new = max(old, abs(value))
        variance = VARIANCE_COUNT if old == 0.0 and value == 1.0 else VARIANCE
        self._precision[at, at] += (new**2 - old**2) / variance
        self._peak[at] = new
        return value
