"""Write truncated_gradient.json: eager traces of truncated gradient, free of the product's code and of its rounding.

Squared loss with plain gradient steps is computed in exact rationals, everything else with 60 digits; only what is
written is rounded to float64. Run `python -m tests.golden.make_truncated_gradient` from the root of the repository.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath

D = 12
ROWS = 120
SEED = 20080611
SNAPSHOTS = (1, 2, 3, 5, 10, 20, 50, 77, 119, 120)
DIGITS = 60

Number = Any  # Fraction or mpmath.mpf; both have the arithmetic, neither has a common type
Row = tuple[list[int], list[float], float, float]

TRACES: list[dict[str, Any]] = [
    {"loss": "squared", "rate": "constant", "eta": "1/40", "gravity": "1/8", "period": 1, "ceiling": "inf"},
    {"loss": "squared", "rate": "constant", "eta": "1/40", "gravity": "1/8", "period": 10, "ceiling": "1/20"},
    {"loss": "squared", "rate": "decaying", "eta": "1/20", "delay": "10", "power": "1", "gravity": "13/1000", "period": 7,
     "ceiling": "1/10"},
    {"loss": "squared", "rate": "constant", "eta": "1/40", "period": 10, "ceiling": "1/20", "rule": "round"},
    {"loss": "squared", "rate": "constant", "eta": "1/40", "gravity": "1/77", "rule": "subgradient"},
    {"loss": "squared", "rate": "constant", "eta": "1/40", "gravity": "1/100", "period": 3, "step": "invariant"},
    {"loss": "logistic", "rate": "constant", "eta": "1/10", "gravity": "1/8", "period": 10, "ceiling": "1/50"},
    {"loss": "logistic", "rate": "decaying", "eta": "1/2", "delay": "1", "power": "1/2", "gravity": "13/1000", "period": 7,
     "ceiling": "1/10"},
    {"loss": "logistic", "rate": "adaptive", "eta": "3/10", "accumulator": "1", "gravity": "1/8", "period": 10},
    {"loss": "logistic", "rate": "adaptive", "eta": "3/10", "gravity": "1/8", "period": 10, "step": "invariant"},
    {"loss": "logistic", "rate": "adaptive", "eta": "1/2", "gravity": "1/8", "period": 10, "ceiling": "1/5", "step": "invariant",
     "normalised": True, "accumulator": "1/32", "reach": "2"},
    {"loss": "logistic", "rate": "constant", "eta": "1/10", "gravity": "1/77", "rule": "subgradient", "step": "invariant"},
    {"loss": "hinge", "rate": "adaptive", "eta": "3/10", "gravity": "1/8", "period": 10, "step": "invariant"},
    {"loss": "hinge", "rate": "constant", "eta": "1/10", "gravity": "1/8", "period": 5, "intercept": False},
]  # fmt: skip
DEFAULTS: dict[str, Any] = {
    "rule": "truncate", "step": "gradient", "normalised": False, "accumulator": "0", "reach": "inf", "gravity": "0", "period": 1,
    "ceiling": "inf", "delay": "1", "power": "0", "intercept": True,
}  # fmt: skip


def make_rows(rng: random.Random) -> list[Row]:
    """Sparse rows whose values, in eighths, are exact in float64 and as rationals. Labels 0 and 1, importances 1/2, 1, 2."""
    rows = []
    for _ in range(ROWS):
        names = sorted(rng.sample(range(1, D + 1), rng.randint(1, 4)))
        values = [rng.choice([-1, 1]) * rng.randint(1, 8) / 8 * (2.0 if j % 3 == 0 else 1.0) for j in names]
        lean = sum(x if j in (1, 3, 5) else 0 for j, x in zip(names, values, strict=True))
        label = 1.0 if lean + rng.gauss(0, 1) > 0 else 0.0
        rows.append((names, values, label, rng.choice([0.5, 1.0, 1.0, 2.0])))
    return rows


def _slope(loss: str, margin: Number, label: Number) -> Number:
    s = 2 * label - 1
    if loss == "squared":
        return 2 * (margin - label)
    if loss == "hinge":
        return -s if s * margin < 1 else 0 * s
    return -s / (1 + mpmath.exp(s * margin))


def _travel(loss: str, margin: Number, label: Number, strength: Number) -> Number:
    s = 2 * label - 1
    if loss == "squared":
        return (label - margin) * (1 - mpmath.exp(-2 * strength))
    if loss == "hinge":
        return s * min(strength, max(0, 1 - s * margin))
    z = s * margin
    return s * (strength + mpmath.exp(z) - mpmath.re(mpmath.lambertw(mpmath.exp(strength + z + mpmath.exp(z)))))


def _sign(value: Number) -> int:
    return int(value > 0) - int(value < 0)


@dataclass
class State:
    """Weights, sums of squared gradients and scales of features 1..D; index 0 is the intercept."""

    settings: dict[str, Any]
    number: Callable[[Any], Number]
    w: list[Number] = field(default_factory=list)
    n: list[Number] = field(default_factory=list)
    s: list[Number] = field(default_factory=list)
    norm: Number = 0
    importance: Number = 0

    def get(self, name: str) -> Number:
        """A setting as a number; None for an infinite one."""
        return None if self.settings[name] == "inf" else self.number(self.settings[name])

    def root(self, j: int) -> Number:
        """1 / sqrt(sum of squares), in units of the normalised feature."""
        adaptive = self.settings["rate"] == "adaptive"
        return 1 / mpmath.sqrt(self.n[j] + self.get("accumulator") * self.s[j] ** 2) if adaptive else self.number(1)

    def eta(self, i: int) -> Number:
        """Step size of row i = 1, 2, ..., without what belongs to one coordinate."""
        eta = self.get("eta")
        if self.settings["rate"] == "decaying":
            delay, power = self.get("delay"), 1 if self.settings["power"] == "1" else self.get("power")
            eta *= (delay / (delay + i - 1)) ** power
        return eta


def start(settings: dict[str, Any]) -> State:
    """The empty state, in rationals where everything stays rational."""
    c = DEFAULTS | settings
    exact = c["loss"] == "squared" and c["step"] == "gradient" and c["rate"] != "adaptive"
    number: Callable[[Any], Number] = Fraction if exact else lambda v: mpmath.mpf(Fraction(v).numerator) / Fraction(v).denominator
    scale = [number(1)] + [number(0 if c["normalised"] else 1)] * D
    return State(c, number, [number(0)] * (D + 1), [number(0)] * (D + 1), scale)


def learn(state: State, row: Row, i: int) -> None:
    """The gradient step of row i."""
    names, values, label, weight = row
    c, number = state.settings, state.number
    x = {j: number(v) for j, v in zip(names, values, strict=True)}
    y, h = number(label), number(weight)
    margin = state.w[0] + sum((state.w[j] * x[j] for j in names), number(0))
    gradient = _slope(c["loss"], margin, y)
    if gradient == 0:
        return
    reach = state.get("reach")
    for j in names if c["normalised"] else ():
        if state.s[j] > 0 and reach is not None and abs(x[j]) > reach * state.s[j]:
            x[j] = _sign(x[j]) * reach * state.s[j]
        larger = max(state.s[j], abs(x[j]))
        state.w[j], state.s[j] = state.w[j] * (state.s[j] / larger), larger
    state.norm += h * sum((x[j] / state.s[j]) ** 2 for j in x)
    state.importance += h
    # What all features share of the step size, and the intercept does not.
    common = {j: mpmath.sqrt(state.importance / state.norm) if c["normalised"] else number(1) for j in x}
    if c["intercept"]:
        x[0], common[0] = number(1), number(1)
    for j in x:
        state.n[j] += h * (gradient * x[j]) ** 2
    rates = {j: common[j] * state.root(j) / state.s[j] for j in x}
    length = sum(rates[j] * x[j] ** 2 for j in x)
    move = -state.eta(i) * h * gradient
    if c["step"] == "invariant":
        move = _travel(c["loss"], margin, y, state.eta(i) * h * length) / length
    for j in x:
        state.w[j] += move * rates[j] * x[j]


def truncate(state: State, signs: list[int], i: int) -> None:
    """What happens to every weight after row i; `signs` are those from before its gradient step."""
    c, ceiling = state.settings, state.get("ceiling")
    for j in range(1, D + 1):
        size = abs(state.w[j])
        if c["rule"] == "subgradient":
            if signs[j]:
                state.w[j] -= state.eta(i) * state.get("gravity") * state.root(j) * signs[j]
        elif i % c["period"] == 0 and size > 0 and (ceiling is None or size * state.s[j] <= ceiling):
            common = mpmath.sqrt(state.importance / state.norm) if c["normalised"] else 1
            pull = size if c["rule"] == "round" else common * state.eta(i) * c["period"] * state.get("gravity") * state.root(j)
            state.w[j] = _sign(state.w[j]) * max(state.number(0), size - pull)


def trace(settings: dict[str, Any], rows: list[Row]) -> dict[str, list[float]]:
    """Run one configuration over all rows, every coordinate at every event."""
    state, out = start(settings), {}
    for i, row in enumerate(rows, start=1):
        signs = [_sign(v) for v in state.w]
        learn(state, row, i)
        truncate(state, signs, i)
        if i in SNAPSHOTS:
            out[str(i)] = [float(v) for v in state.w]
    return out


def main() -> None:
    """Write the file beside this one."""
    rows = make_rows(random.Random(SEED))
    with mpmath.workdps(DIGITS):
        traces = [{**settings, "beta_after_row": trace(settings, rows)} for settings in TRACES]
    document = {
        "what": "weights after some rows of truncated gradient, eager; index 0 is the intercept, absent settings are in defaults",
        "how": "exact rationals for squared loss with plain gradient steps, 60 digits otherwise, rounded to float64 when written",
        "tolerance": {"absolute": 1e-12},
        "d": D,
        "defaults": DEFAULTS,
        "rows": [{"j": j, "x": x, "label": label, "weight": weight} for j, x, label, weight in rows],
        "traces": traces,
    }
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in document.items() if key != "traces"]
    body = ",\n".join(json.dumps(item) for item in traces)
    text = "{\n" + ",\n".join(lines) + ',\n"traces": [\n' + body + "\n]\n}\n"
    Path(__file__).with_name("truncated_gradient.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
