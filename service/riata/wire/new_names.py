"""Collects the new names of a request: from the records whose names were not in the table, to `Names` without repetitions.

Theory of operation
    The readers list a record for every occurrence of a name not seen before. `first_found` keeps the first of each
    fingerprint. It uses a table at most a quarter full, whose probes give up as those of `wire.names` do. Then the lengths
    of the shown names are summed, and the names are written one after another.

    A name from a reference reader is not a span of the body: its span is (-1, i, ., .), and it is name i of `slow`. A crossed
    name is made of names that were found, by their positions; those that were listed only for that (PART) are no new names.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Final

import numpy as np

from riata.base.arrays import I64, U8, U32, U64
from riata.jit.kernel import inline_kernel, kernel
from riata.jit.raw.unowned import borrow
from riata.wire.names import NOTHING_NAMED, PROBE_MAX, Names
from riata.wire.rows import CROSSED, EQUALS, FOUND, NAMESPACE, PART, PARTS_MAX, PLAIN, WORD, BatchBuilder

_SPARE: Final = 4  # places of the table for each record
_KIND_SHOWN: Final = 3  # the bits of a kind that say how it is shown
_FREE = np.uint32(0)
_ONE = np.uint64(1)
TIMES: Final = " \u00d7 ".encode()  # between the parts of a crossed name
_TIMES_BYTES = np.frombuffer(TIMES, np.uint8)
BETWEEN: Final = {EQUALS: b"=", WORD: b":", NAMESPACE: b"^"}
_BETWEEN_BYTES = np.array([BETWEEN.get(kind, b"\0")[0] for kind in range(_KIND_SHOWN + 1)], np.uint8)


@kernel
def first_found(fingerprints: U64, kinds: U8, table: U32, first: I64) -> int:
    """Find the first occurrence of each fingerprint, without those listed as parts.

    Parameters
    ----------
    fingerprints : u64[n]   read only, n < 2^32 - 1
    kinds : u8[n]           read only
    table : u32[2^k]        all 0; overwritten. More than n long
    first : i64[n]          positions are written, increasing

    Returns                 how many there are
    Cost                    at most PROBE_MAX reads for each, usually one or two; a fingerprint whose probe gives up is left out
    Source                  this module's theory of operation
    """
    mask = np.uint64(len(table) - 1)
    count = 0
    for i in range(len(fingerprints)):
        if kinds[i] & PART:
            continue
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


@inline_kernel
def length_of(kind: int, span: I64, slow_ends: I64) -> int:
    """Length of the name of one record that is not crossed. Source: this module's theory of operation."""
    if span[0] < 0:
        return int(slow_ends[span[1] + 1] - slow_ends[span[1]])
    length = span[3] - span[2]
    if kind & _KIND_SHOWN != PLAIN:
        length += span[1] - span[0] + 1
    return int(length)


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
        if kinds[i] & CROSSED:
            length = -len(_TIMES_BYTES)
            for part in spans[i, :PARTS_MAX]:
                if part >= 0:
                    length += length_of(kinds[part], spans[part], slow_ends) + len(_TIMES_BYTES)
        else:
            length = length_of(kinds[i], spans[i], slow_ends)
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


@inline_kernel
def _write(data: U8, kind: int, span: I64, slow: tuple[U8, I64], text: U8, at: int) -> int:
    """Write the name of one record that is not crossed to text[at:]; the position after it. Source: as `length_of`."""
    if span[0] < 0:
        return _copy(slow[0], slow[1][span[1]], slow[1][span[1] + 1], text, at)
    shown = kind & _KIND_SHOWN
    if shown != PLAIN:
        at = _copy(data, span[0], span[1], text, at)
        text[at] = _BETWEEN_BYTES[shown]
        at += 1
    return _copy(data, span[2], span[3], text, at)


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
    at = 0
    for i in chosen:
        if not kinds[i] & CROSSED:
            at = _write(data, kinds[i], spans[i], slow, text, at)
            continue
        for k in range(PARTS_MAX):
            part = spans[i, k]
            if part >= 0:
                at = _copy(_TIMES_BYTES, 0, len(_TIMES_BYTES) if k > 0 else 0, text, at)
                at = _write(data, kinds[part], spans[part], slow, text, at)


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
    chosen = chosen[: first_found(fingerprints, kinds, np.zeros(1 << (_SPARE * n).bit_length(), np.uint32), chosen)]
    slow_ends = np.array([0, *accumulate(map(len, slow_names))], np.int64)
    slow_text = np.array(bytearray(b"".join(slow_names)), np.uint8)
    lengths = np.empty(len(chosen), np.uint32)
    text = np.empty(shown_lengths(kinds, spans, chosen, slow_ends, lengths), np.uint8)
    write_shown(data, kinds, spans, chosen, (slow_text, slow_ends), text)
    return Names(fingerprints[chosen], lengths, text)
