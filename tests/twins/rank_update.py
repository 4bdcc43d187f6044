"""Slow, obvious twin of `rank_update.c`: one pair of features of one row after another, in exact arithmetic."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from riata.base.arrays import F64, I64, U32

TWINS_OF = ("rank_update",)

Features = dict[int, float]


class Rows(NamedTuple):
    """Rows by columns of numbers: row i is start[i] : start[i + 1], and has the curvature h[i]."""

    start: I64
    at: U32
    x: F64
    h: F64


def exact_fma(a: float, b: float, c: float) -> float:
    """a b + c, rounded once."""
    return float(Fraction(a) * Fraction(b) + Fraction(c))


def features(rows: Rows, i: int) -> Features:
    """Row i by position."""
    part = slice(int(rows.start[i]), int(rows.start[i + 1]))
    return dict(zip(rows.at[part].tolist(), rows.x[part].tolist(), strict=True))


def rank_update(cross: F64, size: int, rows: Rows, n: int, mirrored: bool = False) -> bool:
    """Add (h x_j) x_c to H_jc for every pair j < c; below the diagonal too where it is kept."""
    for i in range(n):
        row, h = features(rows, i), float(rows.h[i])
        for j in range(size):
            for c in range(j + 1, size):
                if j in row and c in row:
                    cross[j, c] = exact_fma(h * row[j], row[c], float(cross[j, c]))
    if mirrored:
        mirror(cross, size)
    return mirrored


def mirror(cross: F64, size: int) -> None:
    """Copy one triangle to the other."""
    for j in range(size):
        for c in range(j):
            cross[j, c] = cross[c, j]
