"""Collects the new names of a request: from the records whose names were not in the table, to `Names` without repetitions.

Theory of operation
    The readers list a record for every occurrence of a name not seen before. `first_found` keeps the first of each
    fingerprint. It uses a table at most a quarter full, whose probes give up as those of `wire.names` do. Then the lengths
    of the shown names are summed, and the names are written one after another.

    A name from a reference reader is not a span of the body: its span is (-1, i, ., .), and it is name i of `slow`.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Final

import numpy as np

from riata.base.arrays import I64, U8, U32, U64
from riata.jit.kernel import inline_kernel, kernel
from riata.jit.raw.unowned import borrow
from riata.wire.names import NOTHING_NAMED, PROBE_MAX, Names
from riata.wire.rows import EQUALS, FOUND, NAMESPACE, PLAIN, WORD, BatchBuilder

_SPARE: Final = 4  # places of the table for each record
_KIND_SHOWN: Final = 3  # the bits of a kind that say how it is shown
_FREE = np.uint32(0)
_ONE = np.uint64(1)
BETWEEN: Final = {EQUALS: b"=", WORD: b":", NAMESPACE: b"^"}
_BETWEEN_BYTES = np.array([BETWEEN.get(kind, b"\0")[0] for kind in range(_KIND_SHOWN + 1)], np.uint8)


@kernel
def first_found(fingerprints: U64, table: U32, first: I64) -> int:
    """Find the first occurrence of each fingerprint.

    Parameters
    ----------
    fingerprints : u64[n]   read only, n < 2^32 - 1
    table : u32[2^k]        all 0; overwritten. More than n long
    first : i64[n]          positions are written, increasing

    Returns                 how many there are
    Cost                    at most PROBE_MAX reads for each, usually one or two; a fingerprint whose probe gives up is left out
    Source                  this module's theory of operation
    """
    mask = np.uint64(len(table) - 1)
    count = 0
    for i in range(len(fingerprints)):
        wanted = fingerprints[i]
        at = wanted & mask
        for _ in range(PROBE_MAX):
            held = table[at]
            if held == _FREE:
                table[at] = np.uint32(i + 1)
                first[count] = i
                count += 1
                break
            if fingerprints[held - np.uint32(1)] == wanted:
                break
            at = (at + _ONE) & mask
    return count


@kernel
def shown_lengths(kinds: U8, spans: I64, chosen: I64, slow_ends: I64, lengths: U32) -> int:
    """Compute the lengths of the names of the records `chosen`, as they are shown.

    Parameters
    ----------
    kinds : u8[n], spans : i64[n, 4]   of the records; read only
    chosen : i64[k]         positions of records; read only
    slow_ends : i64[s + 1]  where the names of the reference readers begin and end; read only
    lengths : u32[k]        written

    Returns                 their sum
    Cost                    a few additions for each
    Source                  this module's theory of operation
    """
    total = 0
    for k in range(len(chosen)):
        i = chosen[k]
        if spans[i, 0] < 0:
            length = slow_ends[spans[i, 1] + 1] - slow_ends[spans[i, 1]]
        else:
            length = spans[i, 3] - spans[i, 2]
            if kinds[i] & _KIND_SHOWN != PLAIN:
                length += spans[i, 1] - spans[i, 0] + 1
        lengths[k] = np.uint32(length)
        total += length
    return total


@inline_kernel
def _copy(source: U8, start: int, stop: int, target: U8, at: int) -> int:
    """Copy source[start:stop] to target[at:]; the position after it. Source: none."""
    for p in range(start, stop):
        target[at] = source[p]
        at += 1
    return at


@kernel
def write_shown(data: U8, kinds: U8, spans: I64, chosen: I64, slow: tuple[U8, I64], text: U8) -> None:
    """Write the names of the records `chosen`, as they are shown, one after another.

    Parameters
    ----------
    data : u8[...]          the body; read only
    kinds : u8[n], spans : i64[n, 4]   of the records; read only
    chosen : i64[k]         positions of records; read only
    slow : u8[...], i64[s + 1]   the names of the reference readers, and where they begin and end; read only
    text : u8[sum of `shown_lengths`]   written

    Returns                 nothing
    Cost                    one copy of each byte
    Source                  this module's theory of operation
    """
    data, kinds, spans, text = borrow(data), borrow(kinds), borrow(spans), borrow(text)
    slow_text, slow_ends = slow
    at = 0
    for i in chosen:
        if spans[i, 0] < 0:
            at = _copy(slow_text, slow_ends[spans[i, 1]], slow_ends[spans[i, 1] + 1], text, at)
            continue
        kind = kinds[i] & _KIND_SHOWN
        if kind != PLAIN:
            at = _copy(data, spans[i, 0], spans[i, 1], text, at)
            text[at] = _BETWEEN_BYTES[kind]
            at += 1
        at = _copy(data, spans[i, 2], spans[i, 3], text, at)


def names_found(data: U8, sink: BatchBuilder, slow_names: list[bytes]) -> Names:
    """Every name the readers listed in `sink`, once, in the order of its first occurrence.

    data       : u8[...]      the body
    slow_names : list[bytes]  the names that spans of reference readers refer to
    """
    n = int(sink.count[FOUND])
    if n == 0:
        return NOTHING_NAMED
    fingerprints, kinds, spans = sink.found_fingerprint[:n], sink.found_kind[:n], sink.found_span[:n]
    chosen = np.empty(n, np.int64)
    chosen = chosen[: first_found(fingerprints, np.zeros(1 << (_SPARE * n).bit_length(), np.uint32), chosen)]
    slow_ends = np.array([0, *accumulate(map(len, slow_names))], np.int64)
    slow_text = np.array(bytearray(b"".join(slow_names)), np.uint8)
    lengths = np.empty(len(chosen), np.uint32)
    text = np.empty(shown_lengths(kinds, spans, chosen, slow_ends, lengths), np.uint8)
    write_shown(data, kinds, spans, chosen, (slow_text, slow_ends), text)
    return Names(fingerprints[chosen], lengths, text)
