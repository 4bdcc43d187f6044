from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from riata.base.arrays import F64
from riata.base.errors import Corrupt
from riata.run.log.log_reading import decode_batches, decode_rows
from riata.store.payload import FORMS, decode_batch, encode_batch
from riata.wire.batch import Batch, join_batches, slice_rows
from tests.run.events import random_batch
from tests.store.batches import same


def some_rows(n: int = 50, with_ids: bool = False) -> list[Batch]:
    """Rows of zero to eight features; if there are ids, every other row has one."""
    batch = random_batch(np.random.default_rng(5), n, with_ids=with_ids)
    keep = np.random.default_rng(6).random(batch.nnz) < 0.8
    keep[:8] = False
    counts = np.add.reduceat(keep, batch.indptr[:-1]) if n else np.zeros(0, np.int64)
    thinned = dataclasses.replace(
        batch,
        indptr=np.concatenate(([0], np.cumsum(counts))),
        hash=batch.hash[keep],
        value=batch.value[keep],
        has_id=batch.has_id & (np.arange(n) % 2 == 0),
        event_id=np.where((batch.has_id & (np.arange(n) % 2 == 0))[:, None], batch.event_id, 0).astype(np.uint8),
    )
    rows = [slice_rows(thinned, i, i + 1) for i in range(n)]
    return [dataclasses.replace(row, value=some_values(row.value, i)) for i, row in enumerate(rows)]


def some_values(value: F64, i: int) -> F64:
    """Values of each form of at most two bytes in turn."""
    return [np.ones(len(value)), np.round(value) % 200, -np.round(value, 1), np.round(value, 2), -np.round(value * 100)][
        i % 5
    ] + 0.0


@pytest.mark.parametrize("with_ids", [False, True])
def test_rows_decoded_at_once_are_the_rows_decoded_one_by_one(with_ids: bool) -> None:
    payloads = [encode_batch(row) for row in some_rows(with_ids=with_ids)]
    got = decode_rows(payloads)
    assert got is not None
    assert same(got, join_batches([decode_batch(payload) for payload in payloads]))
    assert {FORMS[payload[2]] for payload in payloads} == {"", "u1", "i1", "<u2", "<i2"}
    assert decode_rows(payloads[:1]) is not None
    assert decode_rows([]) is None


def test_other_payloads_are_decoded_one_by_one() -> None:
    row = slice_rows(random_batch(np.random.default_rng(1), 1), 0, 1)
    others = [
        random_batch(np.random.default_rng(1), 2),
        dataclasses.replace(row, value=row.value + 1e-9),
        dataclasses.replace(row, label=np.array([0.5])),
        dataclasses.replace(row, weight=np.array([2.0])),
    ]
    plain = encode_batch(some_rows()[3])
    for other in others:
        payloads = [plain, encode_batch(other), plain]
        assert decode_rows(payloads) is None
        batches = decode_batches(payloads)
        assert len(batches) == 3
        assert same(batches[1], other)
    assert len(decode_batches([plain, plain])) == 1
    assert len(decode_batches([plain])) == 1


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")  # a value that is not a number, and not a quiet one
def test_a_fault_of_one_body_is_reported_as_if_it_were_alone() -> None:
    plain = [encode_batch(row) for row in some_rows(with_ids=True)]
    rng = np.random.default_rng(8)
    refused = 0
    for _ in range(600):
        payloads = list(plain[:6])
        which = int(rng.integers(6))
        spoilt = bytearray(payloads[which])
        spoilt[int(rng.integers(len(spoilt)))] ^= 1 << int(rng.integers(8))
        cut = int(rng.integers(len(spoilt) + 1)) if rng.random() < 0.2 else len(spoilt)
        payloads[which] = bytes(spoilt[:cut])
        try:
            expected = join_batches([decode_batch(payload) for payload in payloads])
        except Corrupt:
            refused += 1
            with pytest.raises(Corrupt):
                decode_batches(payloads)
            assert decode_rows(payloads) is None
        else:
            assert same(join_batches(decode_batches(payloads)), expected)
    assert 100 < refused < 500
