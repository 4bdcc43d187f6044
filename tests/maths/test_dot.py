from __future__ import annotations

import numpy as np
import pytest

from riata.base.arrays import F64, I64, U32
from riata.native.library import core, struct
from riata.native.rows import features_of
from tests.predict.rows import batch_of, random_rows, random_weights
from tests.twins import dot as twin


def indexed(slot: U32, bits: int, bucket_bits: int) -> U32:
    bucket = np.zeros(2**bucket_bits + 1, np.uint32)
    core.index_slots(slot, len(slot), bits - bucket_bits, bucket, 2**bucket_bits)
    return bucket


@pytest.mark.parametrize(
    ("bits", "bucket_bits", "non_zeros"),
    [(1, 0, 1), (1, 1, 2), (6, 3, 9), (10, 10, 700), (22, 5, 40), (4, 2, 0), (32, 0, 1), (32, 6, 40)],
)
def test_bucket_starts_equals_its_twin(bits: int, bucket_bits: int, non_zeros: int) -> None:
    slot = random_weights(np.random.default_rng(bits), non_zeros, bits).slot
    expected = np.zeros(2**bucket_bits + 1, np.uint32)
    twin.bucket_starts(slot, bits - bucket_bits, expected)
    np.testing.assert_array_equal(indexed(slot, bits, bucket_bits), expected)


@pytest.mark.parametrize(
    ("bits", "bucket_bits", "non_zeros"),
    [(1, 0, 1), (6, 0, 20), (6, 5, 20), (10, 10, 700), (26, 9, 500), (32, 0, 1), (32, 6, 40)],
)
def test_margins_equals_its_twin_bit_for_bit(bits: int, bucket_bits: int, non_zeros: int) -> None:
    rng = np.random.default_rng(100 + bits)
    weights = random_weights(rng, non_zeros, bits)
    known = [(int(slot) << (32 - bits)) + int(rng.integers(0, 2 ** (32 - bits))) for slot in weights.slot[:40]]
    rows = random_rows(rng, 200 - len(known), 12) + [[(h, 1.5)] for h in known]
    batch = batch_of(rows)
    bucket = indexed(weights.slot, bits, bucket_bits)
    found: tuple[F64, I64] = (np.empty(200), np.empty(200, np.int64))
    expected: tuple[F64, I64] = (np.empty(200), np.empty(200, np.int64))
    inputs = (batch.indptr, batch.hash, batch.value, weights.slot, weights.beta, bucket, bits, weights.intercept)
    native = struct("riata_weights", slot=weights.slot, beta=weights.beta, bucket=bucket, buckets=2**bucket_bits, bits=bits)
    native.intercept = weights.intercept
    assert core.margins(native, *features_of(batch), *found)
    twin.margins(*inputs, *expected)
    np.testing.assert_array_equal(found[0].view(np.uint64), expected[0].view(np.uint64))
    np.testing.assert_array_equal(found[1], expected[1])
    assert (found[1][200 - len(known) :] == 1).all()
