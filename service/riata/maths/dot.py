"""Margins of sparse rows under sparse weights.

The weights of a served model are two arrays sorted by slot. Slots are the top bits of a well-mixed hash, so they are evenly
distributed, and the first few bits of a slot give its approximate place in the arrays: `bucket[b]` is the first entry whose top
bits are at least b. With as many buckets as entries a bucket has one entry on average. Inside a bucket, binary search is used.
"""

from __future__ import annotations

import numpy as np

from riata.base.arrays import F64, I64, U32
from riata.jit.kernel import kernel


@kernel
def bucket_starts(slot: U32, shift: int, bucket: U32) -> None:
    """Index sorted slots by their top bits.

    Parameters
    ----------
    slot : u32[nnz]     strictly increasing; read only
    shift : int         slot >> shift is the bucket of a slot
    bucket : u32[b + 1] overwritten: entries of bucket i are bucket[i]:bucket[i + 1]

    Returns            nothing
    Cost               O(nnz + b)
    Source             interpolation by a radix (see the module); counts, added up, as at the start of a counting sort
    """
    for i in range(bucket.shape[0]):
        bucket[i] = 0
    for entry in range(slot.shape[0]):  # the size of a bucket is unpredictable, so this has no branch
        bucket[(np.int64(slot[entry]) >> shift) + 1] += np.uint32(1)
    before = np.uint32(0)
    for i in range(bucket.shape[0]):
        before += bucket[i]
        bucket[i] = before


@kernel
def margins(
    indptr: I64, hash32: U32, value: F64, slot: U32, beta: F64, bucket: U32, bits: int, intercept: float, margin: F64, known: I64
) -> None:
    """Compute intercept + beta . x for each row, adding in the order of the features, as learning does.

    Parameters
    ----------
    indptr : i64[n + 1]  rows; read only
    hash32 : u32[nnz]    feature hashes, strictly increasing in a row; slot = hash32 >> (32 - bits); read only
    value : f64[nnz]     read only
    slot, beta           u32[d], f64[d]: the non-zero weights, sorted by slot; read only
    bucket : u32[2^k + 1]  result of `bucket_starts` for `slot` with shift = bits - k; read only
    bits : int           size of the slot space, as a power of two
    intercept : float    the start of each sum
    margin : f64[n]      overwritten; not finite where the sum overflows
    known : i64[n]       overwritten: how many features of the row have a weight

    Returns            nothing
    Cost               about two cache misses for each feature
    Source             the sum of `learn`, term by term; a missing weight adds 0 * x, which changes no bit
    """
    shift = bits
    buckets = bucket.shape[0] - 1
    while buckets > 1:
        buckets >>= 1
        shift -= 1
    for i in range(indptr.shape[0] - 1):
        total = intercept
        found = 0
        for j in range(indptr[i], indptr[i + 1]):
            key = np.int64(hash32[j]) >> (32 - bits)
            low = np.int64(bucket[key >> shift])
            end = np.int64(bucket[(key >> shift) + 1])
            high = end
            while low < high:
                middle = (low + high) >> 1
                if np.int64(slot[middle]) < key:
                    low = middle + 1
                else:
                    high = middle
            if low < end and np.int64(slot[low]) == key:
                total += beta[low] * value[j]
                found += 1
        margin[i] = total
        known[i] = found
