"""Sorting of 64-bit keys, with a bound that no choice of keys can exceed.

A bucket pass on the top byte makes it linear for keys that are spread, as hashes are. Heap sort inside large buckets keeps keys
that were chosen to collide at n log n. If there are few keys, each is compared with all the others to find its rank without a
branch (SIMD).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from riata.base.arrays import U32, U64
from riata.jit.kernel import inline_kernel, kernel
from riata.jit.simd.rank import RANK_KEYS, make_keys, rank_keys

_BUCKETS: Final = 256
_TOP_BYTE = np.uint64(56)
_INSERT_MAX: Final = 32  # insertion sort is faster below about this length


@kernel
def heap_sort(keys: U64, start: int, stop: int) -> None:
    """Sort keys[start:stop] in place.

    Parameters
    ----------
    keys : u64[...]    overwritten between start and stop
    start, stop : int

    Returns            nothing
    Cost               n log n for any keys
    Source             Williams 1964, Algorithm 232
    """
    n = stop - start
    for step in range(n // 2 + n - 1):
        if step < n // 2:  # the first half of the steps builds the heap, the rest takes it down
            root, size = n // 2 - 1 - step, n
        else:
            size = n - 1 - (step - n // 2)
            keys[start], keys[start + size] = keys[start + size], keys[start]
            root = 0
        held = keys[start + root]
        child = 2 * root + 1
        while child < size:
            if child + 1 < size and keys[start + child] < keys[start + child + 1]:
                child += 1
            if keys[start + child] <= held:
                break
            keys[start + root] = keys[start + child]
            root = child
            child = 2 * root + 1
        keys[start + root] = held


@kernel
def insert_sort(keys: U64, start: int, stop: int) -> None:
    """Sort keys[start:stop] in place by insertion.

    Parameters
    ----------
    keys : u64[...]    overwritten between start and stop
    start, stop : int

    Returns            nothing
    Cost               the sum of the distances of keys from their places
    Source             Knuth 1998, section 5.2.1, Algorithm S
    """
    for i in range(start + 1, stop):
        held = keys[i]
        j = i
        while j > start and keys[j - 1] > held:
            keys[j] = keys[j - 1]
            j -= 1
        keys[j] = held


@kernel
def sort_range(keys: U64, start: int, stop: int) -> None:
    """Sort keys[start:stop] in place: insertion sort if short, heap sort if long.

    Parameters
    ----------
    keys : u64[...]    overwritten between start and stop
    start, stop : int

    Returns            nothing
    Cost               n log n at worst
    Source             as `heap_sort`
    """
    if stop - start > _INSERT_MAX:
        heap_sort(keys, start, stop)
        return
    insert_sort(keys, start, stop)


@kernel
def sort_keys(keys: U64, scratch: U64, n: int) -> None:
    """Sort keys[:n] in place.

    Parameters
    ----------
    keys : u64[>= n]     overwritten up to n
    scratch : u64[>= n]  overwritten up to n
    n : int

    Returns              nothing
    Cost                 about n for keys that spread, n log n at worst
    Source               this module's first paragraph
    """
    if n <= _INSERT_MAX:
        sort_range(keys, 0, n)
        return
    ends = np.zeros(_BUCKETS + 1, np.int64)
    for i in range(n):
        ends[np.int64(keys[i] >> _TOP_BYTE) + 1] += 1
    largest = 0
    for b in range(_BUCKETS):
        largest = max(largest, ends[b + 1])
        ends[b + 1] += ends[b]
    for i in range(n):
        bucket = np.int64(keys[i] >> _TOP_BYTE)
        scratch[ends[bucket]] = keys[i]
        ends[bucket] += 1
    if largest <= _INSERT_MAX:
        insert_sort(scratch, 0, n)  # every key is near its place, so one pass is fast
    else:
        start = 0
        for b in range(_BUCKETS):
            sort_range(scratch, start, ends[b])
            start = ends[b]
    for i in range(n):
        keys[i] = scratch[i]


@inline_kernel
def rank_words(words: U64, n: int, keys: U32, ranks: U32) -> None:
    """Count for each of n words how many have smaller first 16 bits.

    Parameters
    ----------
    words : u64[>= n]          read only
    n : int                    1 to RANKED_MAX
    keys : u32[RANKED_MAX / 2] scratch
    ranks : u32[RANKED_MAX]    written; a multiple of RANK_KEYS

    Returns                    nothing
    Cost                       n^2 / 32 comparisons, each of three operations
    Source                     Knuth 1998, section 5.2, Algorithm C (comparison counting)
    """
    for at in range(0, n, RANK_KEYS):
        make_keys(words, n, at, keys)
    rank_keys(keys, n, ranks)
