"""L2 normalisation: divides each row by its 2-norm."""

from __future__ import annotations

from typing import Final

import numpy as np

from riata.base.arrays import F64, U32
from riata.jit.kernel import kernel

SMALLEST_NORMAL: Final = 2.0**-1022
SQUARES_SMALL: Final = 2.0**-900  # below this the sum of squares has lost digits to underflow
LIFT: Final = 2.0**600  # exact; the smallest normal number times this has a normal square


@kernel
def normalise_l2(hashes: U32, values: F64, start: int, stop: int) -> tuple[int, float, float]:
    """Divide values[start:stop] by its 2-norm; values that become subnormal are dropped.

    Parameters
    ----------
    hashes : u32[c], values : f64[c]   one row between start and stop; overwritten, possibly shortened
    start, stop : int

    Returns              (new stop, lift, norm): every value is now  value * lift / norm
    Cost                 two passes
    Source               squares are summed in order of hash; a tiny row is scaled by a power of two first
    """
    squares = 0.0
    for i in range(start, stop):
        squares += values[i] * values[i]
    lift = 1.0
    if squares < SQUARES_SMALL:
        lift = LIFT
        squares = 0.0
        for i in range(start, stop):
            squares += (values[i] * lift) * (values[i] * lift)
    norm = np.sqrt(squares) if stop > start else 1.0
    kept = start
    for i in range(start, stop):
        scaled = values[i] * lift / norm
        if abs(scaled) >= SMALLEST_NORMAL:
            hashes[kept] = hashes[i]
            values[kept] = scaled
            kept += 1
    return kept, lift, norm
