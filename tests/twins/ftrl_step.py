"""FTRL-Proximal with dictionaries, one coordinate after another, as the paper prints it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from riata.learn.ftrl_proximal import FtrlProximalConfig
from tests.twins import losses
from tests.twins.truncated_step import Event

TWINS_OF = ("ftrl",)

INTERCEPT = -1  # a coordinate of its own beside the slots


@dataclass
class Eager:
    """z and n of every coordinate that was ever touched."""

    config: FtrlProximalConfig
    bits: int
    z: dict[int, float] = field(default_factory=dict)
    n: dict[int, float] = field(default_factory=dict)
    learnt: int = 0

    def weight(self, j: int) -> float:
        """The closed form, from z and n."""
        config = self.config
        l1, l2 = (0.0, 0.0) if j == INTERCEPT else (config.l1, config.l2)
        z, n = self.z.get(j, 0.0), self.n.get(j, 0.0)
        if abs(z) <= l1:
            return 0.0
        return -(z - math.copysign(l1, z)) / ((config.beta + math.sqrt(n)) / config.alpha + l2)


def intercept_of(eager: Eager) -> float:
    """The weight of the intercept."""
    return eager.weight(INTERCEPT)


def collect(eager: Eager) -> dict[int, float]:
    """The non-zero weights by slot, in increasing order of slot."""
    weights = {j: eager.weight(j) for j in sorted(eager.z) if j != INTERCEPT}
    return {j: w for j, w in weights.items() if w != 0.0}


def _learn(eager: Eager, gradients: Mapping[int, float]) -> bool:
    """The update of one row; false, with nothing changed, where it would leave the finite range."""
    z, n = dict(eager.z), dict(eager.n)
    for j, g in gradients.items():
        before = n.get(j, 0.0)
        sigma = (math.sqrt(before + g * g) - math.sqrt(before)) / eager.config.alpha
        z[j] = z.get(j, 0.0) + g - sigma * eager.weight(j)
        n[j] = before + g * g
    if not all(math.isfinite(number) for number in (*z.values(), *n.values())):
        return False
    eager.z, eager.n = z, n
    return True


def learn_rows(eager: Eager, events: Sequence[Event]) -> tuple[list[float], list[bool]]:
    """Predict and learn every row in order; returns margins before learning, and which rows were refused."""
    margins, refused = [], []
    for event in events:
        margin, x = intercept_of(eager), {INTERCEPT: 1.0} if eager.config.intercept else {}
        for name, value in event.features:
            slot = name >> (32 - eager.bits)
            margin += eager.weight(slot) * value
            x[slot] = x.get(slot, 0.0) + value
        learnt = math.isfinite(margin) and math.isfinite(event.label)
        if learnt:
            slope = losses.slope(losses.LOGISTIC, margin, event.label)
            learnt = _learn(eager, {j: event.weight * slope * value for j, value in x.items()})
        eager.learnt += int(learnt)
        margins.append(margin)
        refused.append(not learnt)
    return margins, refused
