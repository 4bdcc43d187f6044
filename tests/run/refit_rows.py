"""Rows for the tests of refits, and a model that learns them too slowly."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

SLOW: Final[dict[str, Any]] = {
    "encoder": {"bits": 12},
    "publish_every_ms": 1,
    "learner": {"kind": "truncated_gradient", "rate": "constant", "normalised": False, "eta": 0.001, "far_values": "off"},
}  # the optimum of its events is far better, and stays so


def rows(n: int, seed: int = 3) -> list[dict[str, Any]]:
    """Rows of three of ten words and a number, of which two words and the number matter."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(n):
        words, x = rng.choice(10, 3, replace=False).tolist(), float(rng.normal())
        margin = x + 1.5 * (0 in words) - 1.5 * (1 in words)
        features = {"x": x, **{f"w{word}": 1 for word in words}}
        made.append({"features": features, "label": int(rng.random() < 1.0 / (1.0 + np.exp(-margin)))})
    return made
