"""Slow, obvious twin of `riata.maths.dot`."""

from __future__ import annotations

from riata.base.arrays import F64, I64, U32

TWINS_OF = ("scoring",)


def bucket_starts(slot: U32, shift: int, bucket: U32) -> None:
    """Count, for each bucket, the slots that lie in buckets before it."""
    for i in range(len(bucket)):
        bucket[i] = sum(1 for s in slot.tolist() if s >> shift < i)


def margins(
    indptr: I64, hash32: U32, value: F64, slot: U32, beta: F64, bucket: U32, bits: int, intercept: float, margin: F64, known: I64
) -> None:
    """Look every weight up in a dictionary, and add a zero where there is none."""
    del bucket
    weights = dict(zip(slot.tolist(), beta.tolist(), strict=True))
    for i in range(len(indptr) - 1):
        row = range(int(indptr[i]), int(indptr[i + 1]))
        slots = [int(hash32[j]) >> (32 - bits) for j in row]
        total = intercept
        for j, s in zip(row, slots, strict=True):
            total += weights.get(s, 0.0) * float(value[j])
        margin[i] = total
        known[i] = sum(1 for s in slots if s in weights)
