from __future__ import annotations

import itertools

import numpy as np

from riata.wire.batch import join_batches, select_rows, slice_rows
from tests.run.events import random_batch
from tests.store.batches import same


def rows_of(batch: object) -> list[tuple[list[int], list[float], float]]:
    indptr, hashes, value, label = (getattr(batch, name) for name in ("indptr", "hash", "value", "label"))
    return [(hashes[a:b].tolist(), value[a:b].tolist(), float(y)) for a, b, y in zip(indptr[:-1], indptr[1:], label, strict=True)]


def test_selected_rows_are_those_rows_in_order() -> None:
    batch = random_batch(np.random.default_rng(0), 9, with_ids=True)
    keep = np.array([1, 0, 0, 1, 1, 0, 0, 0, 1], dtype=np.bool_)
    chosen = select_rows(batch, keep)
    assert rows_of(chosen) == [row for row, kept in zip(rows_of(batch), keep, strict=True) if kept]
    assert chosen.event_id.tobytes() == batch.event_id[keep].tobytes()
    assert chosen.n == 4
    assert chosen.nnz == 32


def test_all_rows_are_the_batch_itself() -> None:
    batch = random_batch(np.random.default_rng(0), 3)
    assert select_rows(batch, np.ones(3, np.bool_)) is batch
    assert slice_rows(batch, 0, 3) is batch


def test_a_slice_is_those_rows_and_starts_at_zero() -> None:
    batch = random_batch(np.random.default_rng(0), 9)
    part = slice_rows(batch, 2, 5)
    assert rows_of(part) == rows_of(batch)[2:5]
    assert part.indptr[0] == 0
    assert slice_rows(batch, 4, 4).n == 0


def test_joined_batches_are_their_rows_in_order() -> None:
    batch = random_batch(np.random.default_rng(0), 9, with_ids=True)
    for cuts in ([0, 9], [0, 1, 2, 3, 9], [0, 4, 4, 5, 9], [0, 0, 9, 9]):
        parts = [slice_rows(batch, first, stop) for first, stop in itertools.pairwise(cuts)]
        assert same(join_batches(parts), batch)
    twice = join_batches([slice_rows(batch, 7, 9), batch])
    assert rows_of(twice) == rows_of(batch)[7:] + rows_of(batch)
    assert twice.indptr.dtype == np.int64
