"""What is left of the weights, the plain way."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

TWINS_OF = ("learn/truncated_gradient/row",)


def collect(beta: Mapping[int, float]) -> dict[int, float]:
    """The non-zero weights by slot, in increasing order of slot."""
    return {slot: beta[slot] for slot in sorted(beta) if beta[slot] != 0.0}


@dataclass
class Line:
    """A slot of the table: weight, clock at last touch, sum of squared gradients, largest |x|."""

    beta: float
    tau: float
    squares: float = 0.0
    scale: float = 0.0


def gather_row(
    pairs: Sequence[tuple[int, float]],
    lines: Mapping[int, Line],
    clock: float,
    event: float,
    accumulator: float | None,
    reach: float,
) -> tuple[float, float, dict[int, tuple[float, float]]]:
    """Margin without the intercept, sum of squares, and weight and value of each slot, both in units of the scale.

    event : what one unit of the clock takes away. accumulator : of the normalised rate; None for a constant one without a scale
    """
    now: dict[int, float] = {}
    x: dict[int, float] = {}
    margin = 0.0
    for slot, value in pairs:
        line = lines[slot]
        unit = 1.0
        if accumulator is not None:
            total = line.squares + accumulator * line.scale**2
            unit = 1.0 / math.sqrt(total) if total > 0.0 else 0.0
        now[slot] = math.copysign(max(abs(line.beta) - unit * event * max(clock - line.tau, 0.0), 0.0), line.beta)
        x[slot] = x.get(slot, 0.0) + value
        margin += now[slot] * value
    parts = {}
    for slot, total in x.items():
        old = lines[slot].scale if accumulator is not None else 1.0
        new, value = old, total
        if accumulator is not None:
            value = max(-reach * old, min(reach * old, total)) if old > 0.0 else total
            new = max(old, abs(value))
        parts[slot] = (now[slot] * old / new if new > 0.0 else 0.0, value / new if new > 0.0 else 0.0)
    return margin, math.fsum(value * value for _, value in parts.values()), parts
