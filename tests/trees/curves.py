"""Curves for tests: cylinder, bell and funnel as the thesis simulates them."""

from __future__ import annotations

import numpy as np

from riata.base.arrays import F64, I64

POINTS = 128


def cylinder_bell_funnel(kind: int, rng: np.random.Generator) -> F64:
    """One curve. kind : 0 cylinder, 1 bell, 2 funnel. Saito 1994; Balakrishnan 2007, section 5.4."""
    t = np.arange(1, POINTS + 1)
    a = int(rng.integers(16, 33))
    b = a + int(rng.integers(32, 97))
    shape = (np.ones(POINTS), (t - a) / (b - a), (b - t) / (b - a))[kind]
    found: F64 = (6.0 + rng.standard_normal()) * ((t >= a) & (t <= b)) * shape + rng.standard_normal(POINTS)
    return found


def of_kinds(kinds: tuple[int, ...], each: int, rng: np.random.Generator) -> tuple[F64, I64]:
    """`each` curves of every kind, and their kinds."""
    labels = np.repeat(np.array(kinds), each)
    return np.array([cylinder_bell_funnel(int(kind), rng) for kind in labels]), labels
