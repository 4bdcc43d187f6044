"""Slow, obvious twin of `riata.run.state.provenance`."""

from __future__ import annotations

import math

import mpmath

from riata.base.arrays import F64

TWINS_OF = ("about",)


def leaves(x: F64, power: F64, rest: F64, out: F64) -> None:
    """Each function with 60 digits, rounded once."""
    with mpmath.workdps(60):
        for i, number in enumerate(x.tolist()):
            size = mpmath.mpf(abs(number))
            out[i, 0] = float(mpmath.exp(-size))
            out[i, 1] = float(mpmath.expm1(-size))
            out[i, 2] = float(mpmath.log(size)) if size else -math.inf
            out[i, 3] = float(mpmath.log1p(size))
            out[i, 4] = float(mpmath.erfc(mpmath.mpf(number)))
            out[i, 5] = float((1 + size) ** -mpmath.mpf(abs(float(power[i]))))
            out[i, 6] = float(mpmath.sqrt(size))
            out[i, 7] = number * float(power[i]) + float(rest[i])
