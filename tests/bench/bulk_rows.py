"""Rows in bodies of a thousand, the same for every side: 75 features a row with Zipf-like names, values of two decimals.

Names are drawn from 100,000 with frequencies that fall as one over their rank, labels from a sparse linear model with noise;
all from a fixed seed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

import numpy as np

from riata.base.arrays import F64

ROWS: Final = 1000
FEATURES: Final = 75
NAMES: Final = 100_000
SEED: Final = 75
NDJSON: Final = "application/x-ndjson"
VW_TEXT: Final = "text/x-vw"


@dataclass(frozen=True, slots=True)
class Rows:
    """The same rows for both sides."""

    bodies: list[bytes]
    lines: list[str]
    label: F64

    def vw_bodies(self) -> list[bytes]:
        """The rows of each body as VW text."""
        return ["\n".join(self.lines[at : at + ROWS]).encode() + b"\n" for at in range(0, len(self.lines), ROWS)]


def make_rows(bodies: int) -> Rows:
    """Generate bodies * ROWS rows from SEED."""
    rng = np.random.default_rng(SEED)
    n = bodies * ROWS
    truth = rng.normal(0.0, 1.0, NAMES) * (rng.random(NAMES) < 0.3)  # drawn first: more bodies are more of the same stream
    name = np.minimum((NAMES ** rng.random((n, FEATURES))).astype(np.int64), NAMES - 1)  # density 1/rank, as Zipf's law
    value = np.round(rng.uniform(0.01, 1.0, (n, FEATURES)), 2)
    margin = (truth[name] * value).sum(axis=1)
    label = (margin + rng.logistic(0.0, 0.5, n) > 0.0).astype(np.float64)
    objects, lines = [], []
    for names, values, y in zip(name.tolist(), value.tolist(), label.tolist(), strict=True):
        features = dict(zip((f"w{j}" for j in names), values, strict=True))  # a name drawn twice keeps its last value
        objects.append(json.dumps({"features": features, "label": int(y)}))
        lines.append(f"{1 if y else -1} |f " + " ".join(f"{k}:{v}" for k, v in features.items()))
    packed = ["\n".join(objects[at : at + ROWS]).encode() + b"\n" for at in range(0, n, ROWS)]
    return Rows(packed, lines, label)
