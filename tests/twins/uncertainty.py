"""Slow, obvious twin of the kernel of `riata.predict.uncertainty`."""

from __future__ import annotations

from riata.base.arrays import F64, I64, U32
from riata.predict.uncertainty import NEW, OUTSIDE, Spread

TWINS_OF = ("scoring",)


def row_variances(
    indptr: I64, hash32: U32, value: F64, slot: U32, bucket: U32, bits: int, spread: Spread, at: I64, x: F64, variance: F64
) -> None:
    """Add the values of each slot in a dictionary, then every pair of the covariance."""
    del bucket, at, x
    entry = {key: i for i, key in enumerate(slot.tolist())}
    for i in range(len(indptr) - 1):
        sums: dict[int, float] = {}
        for j in range(int(indptr[i]), int(indptr[i + 1])):
            key = int(hash32[j]) >> (32 - bits)
            sums[key] = sums.get(key, 0.0) + float(value[j])
        inside = {} if spread.intercept[0] < 0 else {int(spread.intercept[0]): 1.0}
        total = 0.0
        for key, together in sums.items():
            if key not in entry:
                continue
            place = int(spread.place[entry[key]])
            if place == OUTSIDE:
                total += together**2 * float(spread.variance[entry[key]])
            elif place == NEW:
                total += 1.0
            else:
                inside[place] = together
        for a, xa in inside.items():
            for b, xb in inside.items():
                total += xa * xb * float(spread.covariance[a, b])
        variance[i] = max(total, 0.0)
