"""Names in Arrow bodies: hashing of a row of names at once, and indices written out as decimal names."""

from __future__ import annotations

import numpy as np

from riata.base.arrays import I64, U8, U64
from riata.jit.kernel import inline_kernel, kernel
from riata.jit.raw.memory import peek, poke
from riata.jit.simd.bytes8 import load_word
from riata.jit.simd.f64x8 import WIDTH
from riata.wire.readers.arrow.columns import NamesAt
from riata.wire.rows import KEY, PLAIN, RecordScratch
from riata.wire.scan.tokens import hash_tokens, owe_spans
from riata.wire.scan.unicode import is_plain_word

_10 = np.uint64(10)
_HIGH = 0x80
_WORD_BYTES = 8
_SPACES = np.uint64(0x2020202020202020)
_NOTHING, _ONE = np.uint64(0), np.uint64(1)


@kernel
def write_digits(indices: U64, data: U8, at: int, ends: I64) -> None:
    """Write numbers in decimal, one after another.

    Parameters
    ----------
    indices : u64[k]     read only
    data : u8[...]       written from `at`; needs 20 bytes for each number
    at : int
    ends : i64[k + 1]    written: number i is data[ends[i]:ends[i + 1]]

    Returns              nothing
    Cost                 one division for each digit
    Source               place values
    """
    ends[0] = at
    for i in range(len(indices)):
        left, size = indices[i], 1
        while left >= _10:
            left //= _10
            size += 1
        left = indices[i]
        for p in range(at + size - 1, at - 1, -1):
            data[p] = np.uint8(48 + left % _10)
            left //= _10
        at += size
        ends[i + 1] = at


@inline_kernel
def _are_plain(data: U8, start: int, stop: int) -> bool:
    """Return whether the bytes start:stop are plain; eight must be readable before `stop`. Source: `is_plain_word`."""
    plain, p = True, start
    while p + _WORD_BYTES <= stop:
        plain &= is_plain_word(load_word(data, p))
        p += _WORD_BYTES
    if p < stop:
        before = (_ONE << np.uint64(8 * (p + _WORD_BYTES - stop))) - _ONE  # bytes already checked, or before `start`
        plain &= is_plain_word((load_word(data, stop - _WORD_BYTES) & ~before) | (_SPACES & before))
    return plain


@inline_kernel
def hash_plain(data: U8, names: NamesAt, first: int, n: int, row: RecordScratch, key: np.uint64) -> bool:
    """Hash name `first` and the n - 1 after it; their spans are owed (`wire.scan.tokens.settle`).

    False, and nothing is owed, if one of them is not plain ASCII, empty or too long. Source: wire.scan.tokens.
    """
    at, named, ends = row.position, row.named, names.ends
    stop = names.at + peek(ends, first + n)
    if n + WIDTH >= len(at) or n + WIDTH > len(row.value) or not _are_plain(data, names.at + peek(ends, first), stop):
        return False
    for i in range(n + 1):
        end = names.at + peek(ends, first + i)
        poke(at, i, np.uint32(end - 1))
        poke(named, i, np.uint32(end))
    for k in range(1, WIDTH):  # padding: dummy names of two bytes fill the last group of eight
        poke(at, n + k, np.uint32(stop + 2 * k - 1))
        poke(named, n + k, np.uint32(stop + 2 * k))
    if not hash_tokens(data, at, named, n, key, row.fingerprint):
        return False
    owe_spans(row, n, PLAIN | KEY, 0, 0)
    return True
