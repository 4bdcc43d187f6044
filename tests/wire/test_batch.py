from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np

from riata.wire.batch import NO_TIME, Batch, join_batches, select_rows, slice_rows, take_rows
from tests.run.events import random_batch
from tests.store.batches import same


def rows_of(batch: Batch) -> list[tuple[list[int], list[float], float, bytes, int]]:
    subjects = [bytes(16)] * batch.n if batch.subject is None else [row.tobytes() for row in batch.subject]
    times = [NO_TIME] * batch.n if batch.time is None else batch.time.tolist()
    cells = [(batch.hash[a:b].tolist(), batch.value[a:b].tolist()) for a, b in itertools.pairwise(batch.indptr)]
    return [(*cell, y, *more) for cell, y, *more in zip(cells, batch.label.tolist(), subjects, times, strict=True)]


def full_batch() -> Batch:
    """Nine rows with every part that a batch can have."""
    rng = np.random.default_rng(0)
    return replace(random_batch(rng, 9, with_ids=True), subject=rng.integers(0, 256, (9, 16), np.uint8), time=np.arange(9) - 4)


def test_chosen_rows_are_those_rows_in_order() -> None:
    batch = full_batch()
    keep = np.array([1, 0, 0, 1, 1, 0, 0, 0, 1], dtype=np.bool_)
    chosen = select_rows(batch, keep)
    assert rows_of(chosen) == [row for row, kept in zip(rows_of(batch), keep, strict=True) if kept]
    assert chosen.event_id.tobytes() == batch.event_id[keep].tobytes()
    assert (chosen.n, chosen.nnz) == (4, 32)
    assert rows_of(take_rows(batch, np.array([4, 0, 2]))) == [rows_of(batch)[row] for row in (4, 0, 2)]


def test_all_rows_are_the_batch_itself() -> None:
    batch = random_batch(np.random.default_rng(0), 3)
    assert select_rows(batch, np.ones(3, np.bool_)) is batch
    assert slice_rows(batch, 0, 3) is batch


def test_a_slice_is_those_rows_and_starts_at_zero() -> None:
    batch = full_batch()
    part = slice_rows(batch, 2, 5)
    assert rows_of(part) == rows_of(batch)[2:5]
    assert part.indptr[0] == 0
    assert slice_rows(batch, 4, 4).n == 0


def test_joined_batches_are_their_rows_in_order() -> None:
    batch = full_batch()
    for cuts in ([0, 9], [0, 1, 2, 3, 9], [0, 4, 4, 5, 9], [0, 0, 9, 9]):
        parts = [slice_rows(batch, first, stop) for first, stop in itertools.pairwise(cuts)]
        assert same(join_batches(parts), batch)
    bare = replace(batch, subject=None, time=None)
    twice = join_batches([slice_rows(batch, 7, 9), bare, batch])
    assert rows_of(twice) == rows_of(batch)[7:] + rows_of(bare) + rows_of(batch)
    assert twice.indptr.dtype == np.int64
