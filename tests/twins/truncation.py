"""Truncation, event by event."""

from __future__ import annotations

TWINS_OF = ("truncated_gradient",)

TRUNCATE, ROUND, SUBGRADIENT = 0, 1, 2


def _sign(value: float) -> float:
    return 1.0 if value > 0 else -1.0 if value < 0 else 0.0


def shrink(beta: float, scale: float, amount: float, ceiling: float) -> float:
    """T1 of Langford, Li & Zhang, with the ceiling in units of scale * |beta|."""
    return _sign(beta) * max(0.0, abs(beta) - amount) if abs(beta) * scale <= ceiling else beta


def gap_shrinkage(beta: float, unit: float, gap: float) -> float:
    """Equation 5 without its gradient, `gap` times."""
    for _ in range(int(gap)):
        beta = beta - unit * _sign(beta)
    return beta


def after_gap(rule: int, beta: float, scale: float, unit: float, gap: float, ceiling: float) -> float:
    """`gap` events, a whole number of them, one after another."""
    for _ in range(int(gap)):
        if rule == TRUNCATE:
            beta = shrink(beta, scale, unit, ceiling)
        elif rule == ROUND:
            beta = beta if abs(beta) * scale > ceiling else 0.0
        else:
            beta = gap_shrinkage(beta, unit, 1.0)
    return beta
