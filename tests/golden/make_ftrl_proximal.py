"""Write ftrl_proximal.json: traces of FTRL-Proximal with 60 digits, free of the product's code and of its rounding.

The rows are those of truncated_gradient.json; only what is written is rounded to float64. Run
`python -m tests.golden.make_ftrl_proximal` from the root of the repository.
"""

from __future__ import annotations

import json
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath

from tests.golden.make_truncated_gradient import DIGITS, SEED, SNAPSHOTS, D, Row, make_rows

TRACES: list[dict[str, Any]] = [
    {"alpha": "1/2", "beta": "1", "l1": "1/2", "l2": "0", "intercept": True},
    {"alpha": "2", "beta": "1/10", "l1": "0", "l2": "0", "intercept": True},
    {"alpha": "1/10", "beta": "1", "l1": "1", "l2": "3", "intercept": True},
    {"alpha": "1", "beta": "2", "l1": "2", "l2": "1/4", "intercept": False},
]


def trace(settings: dict[str, Any], rows: list[Row]) -> dict[str, list[float]]:
    """Run one configuration over all rows; index 0 is the intercept, which no penalty pulls at."""
    exact = [Fraction(settings[name]) for name in ("alpha", "beta", "l1", "l2")]
    alpha, beta, l1, l2 = (mpmath.mpf(number.numerator) / number.denominator for number in exact)
    z, n, out = [mpmath.mpf(0)] * (D + 1), [mpmath.mpf(0)] * (D + 1), {}

    def weight(j: int) -> Any:
        pull, curve = (l1, l2) if j else (0, 0)
        if abs(z[j]) <= pull:
            return mpmath.mpf(0)
        return -(z[j] - mpmath.sign(z[j]) * pull) / ((beta + mpmath.sqrt(n[j])) / alpha + curve)

    for i, (names, values, label, importance) in enumerate(rows, start=1):
        x = {j: mpmath.mpf(value) for j, value in zip(names, values, strict=True)}
        if settings["intercept"]:
            x[0] = mpmath.mpf(1)
        w = {j: weight(j) for j in x}
        p = 1 / (1 + mpmath.exp(-sum(w[j] * x[j] for j in x)))
        for j in x:
            g = importance * (p - label) * x[j]
            sigma = (mpmath.sqrt(n[j] + g * g) - mpmath.sqrt(n[j])) / alpha
            z[j] += g - sigma * w[j]
            n[j] += g * g
        if i in SNAPSHOTS:
            out[str(i)] = [float(weight(j)) for j in range(D + 1)]
    return out


def main() -> None:
    """Write the file beside this one."""
    rows = make_rows(random.Random(SEED))
    with mpmath.workdps(DIGITS):
        traces = [{"settings": settings, "beta_after_row": trace(settings, rows)} for settings in TRACES]
    document = {
        "what": "weights after some rows of FTRL-Proximal on the rows of truncated_gradient.json; index 0 is the intercept",
        "how": "60 digits, rounded to float64 when written",
        "tolerance": {"absolute": 1e-12},
        "d": D,
    }
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in document.items()]
    body = ",\n".join(json.dumps(item) for item in traces)
    text = "{\n" + ",\n".join(lines) + ',\n"traces": [\n' + body + "\n]\n}\n"
    Path(__file__).with_name("ftrl_proximal.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
