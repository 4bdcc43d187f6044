"""Slow, obvious twin of the kernel of `riata.predict.uncertainty`."""

from __future__ import annotations

import math

from riata.base.arrays import F64, I64, U32
from riata.predict.uncertainty import NEW, OUTSIDE, Span, Spread

TWINS_OF = ("scoring",)


def row_variances(
    indptr: I64, hash32: U32, value: F64, slot: U32, bits: int, spread: Spread, span: Span | None, variance: F64
) -> None:
    """Add the values of each slot in a dictionary, then every pair of the covariance; NaN for a row outside the span."""
    still = {} if span is None else dict(zip(span.still.tolist(), span.still_at.tolist(), strict=True))
    entry = {key: i for i, key in enumerate(slot.tolist())}
    for i in range(len(indptr) - 1):
        sums: dict[int, float] = {}
        for j in range(int(indptr[i]), int(indptr[i + 1])):
            key = int(hash32[j]) >> (32 - bits)
            sums[key] = sums.get(key, 0.0) + float(value[j])
        inside = {} if spread.intercept[0] < 0 else {int(spread.intercept[0]): 1.0}
        total, of_prior, unknown = 0.0, 0.0, False
        for key, together in sums.items():
            place = int(spread.place[entry[key]]) if key in entry else NEW
            if place == NEW and span is not None:
                unknown |= together != 0.0 and key not in span.met.tolist() and still.get(key) != together
                continue
            if key not in entry:
                continue
            if place == OUTSIDE:
                total += together**2 * float(spread.variance[entry[key]])
            elif place == NEW:
                total += 1.0
            else:
                inside[place] = together
        for a, xa in inside.items():
            for b, xb in inside.items():
                total += xa * xb * float(spread.covariance[a, b])
                of_prior += 0.0 if span is None else xa * xb * float(span.prior[a, b])
        variance[i] = math.nan if unknown or of_prior > 0.9 * max(total, 0.0) else max(total, 0.0)
