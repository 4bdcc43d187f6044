"""What the line formats share, the obvious way."""

from __future__ import annotations

import numpy as np

from riata.wire.rows import Refusal, SlowRow


def summed(result: SlowRow | Refusal) -> dict[int, float] | int:
    """Features by hash, summed in the order they came, zeros and subnormals dropped; or the code of a refusal."""
    if isinstance(result, Refusal):
        return result.code
    sums: dict[int, float] = {}
    for fingerprint, value, _, _ in result.records:
        slot = fingerprint >> 32
        sums[slot] = sums[slot] + value if slot in sums else value
    smallest = float(np.finfo(np.float64).tiny)
    return {slot: sums[slot] for slot in sorted(sums) if abs(sums[slot]) >= smallest or not np.isfinite(sums[slot])}
