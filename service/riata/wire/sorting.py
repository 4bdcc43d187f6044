"""Sorting of 64-bit keys that nobody can make slow.

A bucket pass on the top byte makes it linear for keys that spread, as hashes do; heap sort inside large buckets keeps
keys that were chosen to collide at n log n.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from riata.base.arrays import U32, U64
from riata.maths.kernel import kernel
from riata.maths.raw import peek, poke

RANKED_MAX: Final = 160  # keys that are compared each with each; a multiple of _AT_ONCE
_AT_ONCE: Final = 16
_LAST = np.uint32(0xFFFFFFFF)
_NONE = np.uint32(0)
_BUCKETS: Final = 256
_TOP_BYTE = np.uint64(56)
_INSERT_MAX: Final = 32  # insertion sort wins below about this length


@kernel
def heap_sort(keys: U64, start: int, stop: int) -> None:
    """Sort keys[start:stop] in place.

    Parameters
    ----------
    keys : u64[...]    overwritten between start and stop
    start, stop : int

    Returns            nothing
    Cost               n log n whatever the keys are
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
    Cost               the sum of the distances that keys are away from their places
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
    """Sort keys[start:stop] in place: insertion where short, heap sort where long.

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
        insert_sort(scratch, 0, n)  # nothing is far from its place, so one pass over all of it is short
    else:
        start = 0
        for b in range(_BUCKETS):
            sort_range(scratch, start, ends[b])
            start = ends[b]
    for i in range(n):
        keys[i] = scratch[i]


@kernel
def rank_keys(keys: U32, rank: U32, n: int) -> bool:
    """Count, for each of n keys, how many are below it: where it belongs, if all are different.

    Parameters
    ----------
    keys : u32[RANKED_MAX]   overwritten from n
    rank : u32[RANKED_MAX]   written
    n : int                  at most RANKED_MAX

    Returns              whether all keys are different
    Cost                 n * n comparisons without a branch, many at a time: for up to RANKED_MAX keys less than sorting them
    Source               sorting by counting comparisons (Knuth 1998, section 5.2, Algorithm C)
    """
    size = (n + _AT_ONCE - 1) // _AT_ONCE * _AT_ONCE
    for i in range(n, size):
        poke(keys, i, _LAST)
    for i in range(size):
        poke(rank, i, _NONE)
    for j in range(0, size, 8):
        a, b, c, d = peek(keys, j), peek(keys, j + 1), peek(keys, j + 2), peek(keys, j + 3)
        e, f, g, h = peek(keys, j + 4), peek(keys, j + 5), peek(keys, j + 6), peek(keys, j + 7)
        for i in range(size):
            key = peek(keys, i)
            below = np.uint32(a < key) + np.uint32(b < key) + np.uint32(c < key) + np.uint32(d < key)
            below += np.uint32(e < key) + np.uint32(f < key) + np.uint32(g < key) + np.uint32(h < key)
            poke(rank, i, np.uint32(peek(rank, i) + below))
    total = 0
    for i in range(n):
        total += int(np.int64(peek(rank, i)))
    # Keys that are equal share the lowest of their ranks, so the sum tells.
    return bool(2 * total == n * (n - 1))
