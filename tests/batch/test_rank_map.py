"""Ranks of slots: the kernels give what their twins give."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riata.base.arrays import F64, I64, U32
from riata.base.errors import Corrupt
from riata.lab.batch import segment_data
from riata.lab.batch.segment_data import SlotCounts, move_entries
from riata.native.library import core, struct
from tests.twins import rank_map as twin


def some_rows(rng: np.random.Generator, n: int, kinds: int, wide: bool = True) -> tuple[I64, U32, F64]:
    """Rows of up to 9 features; hashes of few kinds, so that slots repeat within rows and between them."""
    known = np.unique(rng.integers(0, 2**32 if wide else 2**12, kinds, dtype=np.int64))
    rows = [np.sort(rng.choice(known, min(int(rng.integers(0, 10)), len(known)), replace=False)) for _ in range(n)]
    indptr = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    hashes = np.concatenate([*rows, np.zeros(0, np.int64)]).astype(np.uint32)
    return indptr, hashes, rng.normal(size=len(hashes))


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.integers(0, 2**32), st.integers(0, 40), st.integers(1, 60), st.sampled_from([1, 2, 5, 12, 22, 32]), st.booleans())
def test_rows_are_counted_and_ranked_as_the_twin_does(seed: int, n: int, kinds: int, bits: int, wide: bool) -> None:
    rng = np.random.default_rng(seed)
    counts, kept, features = SlotCounts(bits), [], 0
    expected: dict[int, int] = {}
    for _ in range(2):
        indptr, hashes, value = some_rows(rng, n, kinds, wide)
        keep = rng.random(n) < 0.8
        counts.add(indptr, hashes, keep)
        more, nnz = twin.count_slots(indptr, hashes, keep, 32 - bits)
        features += nnz
        expected = {slot: expected.get(slot, 0) + more.get(slot, 0) for slot in expected.keys() | more.keys()}
        kept += [
            (indptr[i : i + 2] - indptr[i], *(part[indptr[i] : indptr[i + 1]] for part in (hashes, value)))
            for i in np.flatnonzero(keep)
        ]
    ranks = counts.ranked()
    order = twin.ranks_of(expected)
    assert ranks.slots.tolist() == list(order)
    assert counts.nnz == features
    for indptr, hashes, value in kept:
        starts, rank, total = ranks.rows(indptr, hashes, value)
        [row] = twin.rank_rows(indptr, hashes, value, 32 - bits, order)
        assert starts.tolist() == [0, len(row)]
        assert dict(zip(rank.tolist(), total.tolist(), strict=True)) == row


def test_the_map_grows_and_keeps_its_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_data, "_AT_FIRST", 8)
    indptr, hashes, _ = some_rows(np.random.default_rng(4), 500, 900)
    counts = SlotCounts(32)
    counts.add(indptr, hashes, np.ones(500, np.bool_))
    assert twin.move_entries(counts._place) == twin.count_slots(indptr, hashes, np.ones(500, np.bool_), 0)[0]
    assert 2 * counts._counts.used <= len(counts._place) <= 8 * counts._counts.used


def test_counting_stops_before_a_row_for_which_there_may_be_no_room() -> None:
    place = np.zeros(8, np.int64)
    indptr, hashes = np.array([0, 2, 5, 6]), np.arange(6, dtype=np.uint32)
    keep = np.ones(3, np.bool_)
    counts = struct("riata_slot_counts", place=place, size=8)
    assert core.count_slots(indptr, 3, hashes, keep, 0, 0, counts) == 1
    assert (counts.used, counts.counted) == (2, 2)
    larger = np.zeros(16, np.int64)
    move_entries(place, larger)
    assert twin.move_entries(larger) == twin.move_entries(place) == {0: 1, 1: 1}
    counts.place, counts.size = larger, 16
    assert core.count_slots(indptr, 3, hashes, keep, 0, 1, counts) == 3
    assert (counts.used, counts.counted) == (6, 6)
    assert twin.move_entries(larger) == dict.fromkeys(range(6), 1)


def test_slots_with_equal_places_are_told_apart() -> None:
    """Of 2^12 slots in a map of 2^13 places many begin to look at the same place."""
    hashes = np.random.default_rng(3).permutation(2**12).astype(np.uint32)
    counts = SlotCounts(32)
    counts.add(np.array([0, *range(1, 2**12 + 1)]), hashes, np.ones(2**12, np.bool_))
    assert counts.ranked().slots.tolist() == list(range(2**12))


def test_a_slot_that_was_not_counted_is_refused() -> None:
    counts = SlotCounts(32)
    counts.add(np.array([0, 1]), np.array([7], np.uint32), np.ones(1, np.bool_))
    ranks = counts.ranked()
    assert ranks.rows(np.array([0, 1]), np.array([7], np.uint32), np.ones(1))[1].tolist() == [0]
    with pytest.raises(Corrupt, match="changed between two passes"):
        ranks.rows(np.array([0, 1]), np.array([8], np.uint32), np.ones(1))
