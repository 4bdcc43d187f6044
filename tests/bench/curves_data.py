"""Curves for benches and tests: cylinder, bell and funnel as the thesis simulates them, and the shared sets of curves."""

from __future__ import annotations

import csv
import json

import numpy as np

from riata.base.arrays import F64, I64
from tests.bench.streams import open_lines

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


def bell_and_funnel(each: int, rng: np.random.Generator) -> tuple[F64, F64]:
    """Bells, label 1, and funnels, label -1."""
    x, kinds = of_kinds((1, 2), each, rng)
    return x, np.where(kinds == 1, 1.0, -1.0)


def control_chart() -> tuple[F64, I64]:
    """600 curves of 60 points in 6 classes."""
    rows = list(csv.reader(open_lines("synthetic_control.csv.gz")))[1:]
    classes = np.unique([row[0] for row in rows], return_inverse=True)[1]
    return np.array([[float(x) for x in row[1:]] for row in rows]), classes.astype(np.int64)


def japanese_vowels(split: str) -> tuple[list[F64], I64]:
    """Curves f64[7 .. 29, 12] of 9 speakers, 0 to 8. split : train or test."""
    rows = [json.loads(line) for line in open_lines("japanese_vowels.jsonl.gz")]
    kept = [row for row in rows if row["split"] == split]
    return [np.array(row["x"], np.float64).T for row in kept], np.array([int(row["label"]) - 1 for row in kept])
