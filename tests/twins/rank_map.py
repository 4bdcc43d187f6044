"""Slow, obvious twins of the kernels that count and rank slots."""

from __future__ import annotations

from collections import Counter

import numpy as np

from riata.base.arrays import BOOL, F64, I64, U32

TWINS_OF = ("batch_pass",)


def count_slots(indptr: I64, hashes: U32, keep: BOOL, shift: int) -> tuple[dict[int, int], int]:
    """How often each slot occurs in the rows that are kept, and the features of these rows, equal slots of a row once."""
    counts: Counter[int] = Counter()
    features = 0
    for i in np.flatnonzero(keep):
        row = [int(one) >> shift for one in hashes[indptr[i] : indptr[i + 1]]]
        counts.update(row)
        features += len(set(row))
    return dict(counts), features


def move_entries(place: I64) -> dict[int, int]:
    """The entries of a map."""
    return {int(entry) >> 32 & 0xFFFFFFFF: int(entry) & 0xFFFFFFFF for entry in place if entry}


def rank_rows(indptr: I64, hashes: U32, value: F64, shift: int, ranks: dict[int, int]) -> list[dict[int, float]]:
    """Each row as the values of its ranks."""
    rows = []
    for i in range(len(indptr) - 1):
        row: dict[int, float] = {}
        for k in range(indptr[i], indptr[i + 1]):
            rank = ranks[int(hashes[k]) >> shift]
            row[rank] = row[rank] + float(value[k]) if rank in row else float(value[k])
        rows.append(row)
    return rows


def ranks_of(counts: dict[int, int]) -> dict[int, int]:
    """Ranks by decreasing count, those of equal counts by increasing slot."""
    return {slot: rank for rank, slot in enumerate(sorted(counts, key=lambda slot: (-counts[slot], slot)))}
