"""The stored form of a pending prediction, byte for byte."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from riata.base.errors import Corrupt
from riata.base.limits import FEATURES_PER_ROW_MAX, REMEMBERED_ROW_BYTES_MAX
from riata.run.labels.pending_rows import Labelled, Waiting, decode_row, encode_labelled, encode_waiting
from riata.run.labels.remembering import event_id, labelled, new_names
from riata.wire.batch import Batch, slice_rows
from riata.wire.names import NOTHING_NAMED, Names, NamesSeen
from tests.run.events import random_batch


def waiting(row: bytes) -> Waiting:
    found = decode_row(row)
    assert isinstance(found, Waiting)
    return found


def unlabelled(batch: Batch) -> Batch:
    return Batch(batch.indptr, batch.hash, batch.value, np.full(batch.n, np.nan), batch.weight, batch.event_id, batch.has_id)


def same_features(one: Batch, other: Batch) -> bool:
    return one.hash.tobytes() == other.hash.tobytes() and one.value.tobytes() == other.value.tobytes()


@pytest.mark.parametrize("with_ids", [False, True])
def test_features_come_back_to_the_last_bit_and_nothing_else_does(with_ids: bool) -> None:
    batch = random_batch(np.random.default_rng(1), 50, with_ids=with_ids)
    for i, row in enumerate(encode_waiting(unlabelled(batch), NOTHING_NAMED)):
        found = waiting(row)
        assert same_features(found.batch, slice_rows(batch, i, i + 1))
        assert (found.batch.label.tolist(), found.batch.weight.tolist(), found.batch.has_id.tolist()) == ([0.0], [1.0], [False])
        assert len(found.names) == 0


def test_a_row_without_features_is_kept_too() -> None:
    batch = random_batch(np.random.default_rng(1), 3)
    empty = Batch(np.zeros(2, np.int64), batch.hash[:0], batch.value[:0], *(part[:1] for part in parts(batch)))
    assert waiting(encode_waiting(empty, NOTHING_NAMED)[0]).batch.nnz == 0


def parts(batch: Batch) -> tuple[Any, ...]:
    return batch.label, batch.weight, batch.event_id, batch.has_id


def test_every_row_carries_the_names_of_its_own_features() -> None:
    batch = random_batch(np.random.default_rng(2), 20)
    marks = sorted({int(h) for h in batch.hash.tolist()})
    named = [(h << 32 | k, f"name {k} of {h}".encode()) for h in marks[::2] for k in range(1 + h % 2)]
    rng = np.random.default_rng(3)
    rng.shuffle(named)
    for i, row in enumerate(encode_waiting(batch, Names.of(named))):
        own = set(slice_rows(batch, i, i + 1).hash.tolist())
        assert sorted(waiting(row).names) == sorted(pair for pair in named if pair[0] >> 32 in own)


def test_the_largest_row_there_can_be_is_kept_and_its_names_left_out_where_they_have_no_room() -> None:
    n = FEATURES_PER_ROW_MAX
    hashes = np.arange(n, dtype=np.uint32) * np.uint32(400_000)
    one = random_batch(np.random.default_rng(1), 1)
    batch = Batch(np.array([0, n]), hashes, np.arange(n, dtype=np.float64) + 0.1, *parts(one))
    names = Names.of((int(h) << 32, b"x" * 250) for h in hashes.tolist())
    [row] = encode_waiting(batch, names)
    assert len(row) <= REMEMBERED_ROW_BYTES_MAX
    assert same_features(waiting(row).batch, batch)
    assert len(waiting(row).names) == 0
    short = Names.of((int(h) << 32, b"x") for h in hashes[:100].tolist())
    assert len(waiting(encode_waiting(batch, short)[0]).names) == 100


def test_the_record_of_a_labelled_prediction_is_returned() -> None:
    for left in (Labelled(1.0, 1.0, 2), Labelled(-2.5, 1000.0, 2**63), Labelled(0.0, 1e-9, 0)):
        assert decode_row(encode_labelled(left)) == left
    assert len(encode_labelled(Labelled(1.0, 1.0, 2))) < len(
        encode_waiting(random_batch(np.random.default_rng(1), 1), NOTHING_NAMED)[0]
    )


def test_any_byte_that_changed_and_any_that_is_missing_is_noticed() -> None:
    batch = random_batch(np.random.default_rng(1), 1)
    names = Names.of([(int(batch.hash[0]) << 32, b"one")])
    for row in (*encode_waiting(batch, names), encode_labelled(Labelled(1.0, 1.0, 2))):
        for at in range(len(row)):
            with pytest.raises(Corrupt):
                decode_row(row[:at] + bytes([row[at] ^ 0x40]) + row[at + 1 :])
            with pytest.raises(Corrupt):
                decode_row(row[:at])
        with pytest.raises(Corrupt):
            decode_row(row + b"\0")


def test_an_event_is_the_prediction_with_its_label_and_an_id_of_its_own() -> None:
    batch = random_batch(np.random.default_rng(1), 2)
    first, second = (waiting(row) for row in encode_waiting(batch, NOTHING_NAMED))
    made = labelled(first, b"k" * 16, 1.0, 3.0).batch
    assert same_features(made, first.batch)
    assert (made.label.tolist(), made.weight.tolist(), made.has_id.tolist()) == ([1.0], [3.0], [True])
    assert (
        made.event_id.tobytes() == event_id(b"k" * 16).tobytes() != labelled(second, b"l" * 16, 1.0, 3.0).batch.event_id.tobytes()
    )


def test_names_are_brought_once_and_only_if_they_are_new() -> None:
    seen = NamesSeen(10)
    seen.add([1])
    some = [Names.of([(1, b"a"), (2, b"b")]), Names.of([(2, b"b"), (3, b"c")]), NOTHING_NAMED]
    assert list(new_names(some, seen)) == [(2, b"b"), (3, b"c")]
    full = NamesSeen(1)
    full.add([9])
    assert list(new_names(some, full)) == []
