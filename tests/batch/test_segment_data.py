"""Data over segments: the same rows whatever the cut, without those that do not count, and with the weights of a learner that
forgets."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riata.base.arrays import F64, I64, U32
from riata.base.errors import BadInput, Corrupt
from riata.lab.batch import segment_data
from riata.lab.batch.data import Data, Rows
from riata.lab.batch.segment_data import SegmentData, SlotCounts, data_of, move_entries
from riata.native.library import core, struct
from riata.store.control_events import Counted
from riata.store.segment import Origin, Segment, SegmentBuilder, map_segment
from riata.wire.batch import Batch, slice_rows
from tests.refused import refused
from tests.store.batches import batch_of, random_batch
from tests.twins import rank_map as twin

ORIGIN = Origin("m", bytes(16), "")


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_data, "PART_ROWS", 10)


def segments(folder: Path, batch: Batch, cuts: Sequence[int] = ()) -> list[Segment]:
    """Segments of these rows, cut before these rows; the numbers of the events are the rows' from 1."""
    found = []
    edges = [0, *cuts, batch.n]
    for start, stop in itertools.pairwise(edges):
        builder = SegmentBuilder(ORIGIN, start, b"", lambda _event: None)
        builder.add_rows(slice_rows(batch, start, stop), 0)
        folder.mkdir(exist_ok=True, parents=True)
        found.append(map_segment(builder.write(folder, lambda _size: None)))
    return found


def rows_of(data: Data) -> list[tuple[dict[int, float], float, float]]:
    found = []
    for part in data.parts:
        rows = part.load()
        for i in range(len(rows.label)):
            inside = slice(rows.indptr[i], rows.indptr[i + 1])
            features = dict(zip(rows.rank[inside].tolist(), rows.value[inside].tolist(), strict=True))
            assert len(features) == rows.indptr[i + 1] - rows.indptr[i]
            found.append((features, float(rows.label[i]), float(rows.weight[i])))
    return found


def expected(batch: Batch, keep: list[int], bits: int, rho: float = 1.0) -> list[tuple[dict[int, float], float, float]]:
    mask = np.isin(np.arange(batch.n), keep)
    ranks = twin.ranks_of(twin.count_slots(batch.indptr, batch.hash, mask, 32 - bits)[0])
    rows = [
        twin.rank_rows(np.array([0, stop - start]), batch.hash[start:stop], batch.value[start:stop], 32 - bits, ranks)[0]
        for start, stop in ((batch.indptr[i], batch.indptr[i + 1]) for i in keep)
    ]
    ages = range(len(keep) - 1, -1, -1)
    return [
        (row, 2.0 * batch.label[i] - 1.0, float(np.float64(batch.weight[i]) * np.float64(rho) ** np.float64(age)))
        for row, i, age in zip(rows, keep, ages, strict=True)
    ]


def counted(spans: list[tuple[int, int]], skipped: list[int] | None = None) -> Counted:
    return Counted(np.array(spans, np.int64).reshape(-1, 2), np.array(skipped or [], np.int64))


@pytest.mark.parametrize("cuts", [(), (1,), (10, 20, 30), (3, 4, 5, 36), (9, 19, 29)])
@pytest.mark.parametrize("bits", [3, 32])
def test_the_cut_into_segments_moves_no_bit(cuts: tuple[int, ...], bits: int, tmp_path: Path) -> None:
    batch = random_batch(np.random.default_rng(1), 37)
    data: Data = data_of(segments(tmp_path, batch, cuts), bits)
    wanted = expected(batch, list(range(37)), bits)
    assert rows_of(data) == wanted
    assert (data.rows, data.nnz, data.bits) == (37, sum(len(row) for row, _, _ in wanted), bits)
    assert data.features == len(data.slots) == len({rank for row, _, _ in wanted for rank in row})
    assert [len(part.load().label) for part in data.parts] == [10, 10, 10, 7]


@pytest.mark.parametrize("cuts", [(), (10, 20, 30), (3, 4, 5, 36)])
def test_events_that_do_not_count_are_in_no_part(cuts: tuple[int, ...], tmp_path: Path) -> None:
    batch = random_batch(np.random.default_rng(2), 40)
    found = segments(tmp_path, batch, cuts)
    for spans, skipped in [([(1, 40)], [1, 40]), ([(1, 4), (6, 7), (21, 40)], [7, 30, 31]), ([(5, 24)], []), ([(15, 15)], [99])]:
        keep = [event - 1 for first, last in spans for event in range(first, last + 1) if event not in skipped]
        data = data_of(found, 12, counted(spans, skipped))
        assert rows_of(data) == expected(batch, keep, 12)
        assert [len(part.load().label) for part in data.parts[:-1]] == [10] * (len(data.parts) - 1)
        assert data.rows == len(keep)


def test_a_row_weighs_less_for_every_row_that_counts_after_it(tmp_path: Path) -> None:
    batch = random_batch(np.random.default_rng(3), 33)
    batch = replace(batch, weight=np.arange(1.0, 34.0))
    data = data_of(segments(tmp_path, batch, (7, 21)), 32, counted([(1, 20), (25, 33)], [3]), rho=0.9)
    keep = [event - 1 for event in [*range(1, 21), *range(25, 34)] if event != 3]
    found, wanted = rows_of(data), expected(batch, keep, 32, 0.9)
    assert [row[:2] for row in found] == [row[:2] for row in wanted]
    assert np.allclose([row[2] for row in found], [row[2] for row in wanted], rtol=1e-15, atol=0)
    assert found[-1][2] == 33.0


def test_a_weight_stays_positive_where_a_power_does_not(tmp_path: Path) -> None:
    data = data_of(segments(tmp_path, random_batch(np.random.default_rng(3), 30)), 32, rho=1e-30)
    weights = [row[2] for row in rows_of(data)]
    assert min(weights) > 0.0
    assert weights[-1] == 1.0


def test_values_of_colliding_slots_are_summed(tmp_path: Path) -> None:
    batch = batch_of([[(1, 0.5), (2, 0.25), (2**31, 4.0)], [(2**31 + 1, 1.0), (2**31 + 2, -1.0)]], [1.0, 0.0])
    data = data_of(segments(tmp_path, batch), 1)
    assert data.slots.tolist() == [1, 0]
    assert rows_of(data) == [({1: 0.75, 0: 4.0}, 1.0, 1.0), ({0: 0.0}, -1.0, 1.0)]
    assert data.nnz == 3


def test_slots_that_several_features_share_are_counted(tmp_path: Path) -> None:
    batch = batch_of([[(1, 0.5), (2, 0.25), (2**30, 1.0), (2**31, 4.0)], [(2**31 + 1, 1.0)], [(2, 1.0)]], [1.0, 0.0, 1.0])
    found = segments(tmp_path, batch)
    assert data_of(found, 2).shared.tolist() == [0, 2]
    assert data_of(found, 2, counted([(3, 9)])).shared.tolist() == []
    assert data_of(found, 32).shared.tolist() == []


def test_every_load_gives_the_same_bits_in_any_thread(tmp_path: Path) -> None:
    data = data_of(segments(tmp_path, random_batch(np.random.default_rng(5), 200), (63, 150)), 6, rho=0.99)
    wanted = [part.load() for part in data.parts]
    different: list[int] = []

    def load_all() -> None:
        for number, part in enumerate(data.parts):
            if not same(part.load(), wanted[number]):
                different.append(number)

    threads = [threading.Thread(target=load_all) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert different == []
    assert all(array.flags.writeable and array.flags.c_contiguous for rows in wanted for array in rows)
    assert [array.dtype.str for array in wanted[0]] == ["<i8", "<u4", "<f8", "<f8", "<f8"]


def same(left: Rows, right: Rows) -> bool:
    pairs: list[tuple[Any, Any]] = list(zip(left, right, strict=True))
    return all(one.dtype == other.dtype and one.tobytes() == other.tobytes() for one, other in pairs)


def test_real_labels_and_no_events_are_refused(tmp_path: Path) -> None:
    found = segments(tmp_path / "a", batch_of([[(1, 1.0)], [(2, 1.0)]]))
    assert data_of(found, 4).rows == 2
    with refused(BadInput, "no_events"):
        data_of(found, 4, counted([(3, 9)]))
    with refused(BadInput, "no_events"):
        data_of([], 4)
    with refused(BadInput, "not_for_this_loss"):
        data_of(segments(tmp_path / "b", batch_of([[(1, 1.0)]], [0.5])), 4)


def test_rows_without_features_are_rows(tmp_path: Path) -> None:
    data = data_of(segments(tmp_path, batch_of([[], [(3, 1.0)], []], [1.0, 0.0, 1.0])), 8)
    assert rows_of(data) == [({}, 1.0, 1.0), ({0: 1.0}, -1.0, 1.0), ({}, 1.0, 1.0)]


def test_the_memory_of_the_data_does_not_grow_with_its_rows(tmp_path: Path) -> None:
    def held(data: SegmentData) -> int:
        ranks = data.parts[0].ranks
        assert all(part.ranks is ranks for part in data.parts)
        return ranks._place.nbytes + ranks.slots.nbytes

    rng = np.random.default_rng(6)
    kinds = np.unique(rng.integers(0, 2**32, 50, dtype=np.int64))

    def batch(n: int) -> Batch:
        return batch_of([[(int(h), 1.0) for h in np.sort(rng.choice(kinds, 3, replace=False))] for _ in range(n)])

    assert held(data_of(segments(tmp_path / "a", batch(200)), 32)) == held(data_of(segments(tmp_path / "b", batch(2000)), 32))


# Ranks of slots: the kernels give what their twins give.


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
