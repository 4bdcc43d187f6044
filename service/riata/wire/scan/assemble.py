"""Turns the records of one row into sorted, summed, bounded features; `wire.rows` describes the steps and the arrays."""

from __future__ import annotations

from typing import Final

import numpy as np

from riata.base.arrays import F64, U32, U64
from riata.base.limits import FEATURES_PER_ROW_MAX, VALUE_ABS_MAX
from riata.jit.kernel import inline_kernel, kernel
from riata.jit.raw.memory import LINE_KEYS, LINE_WORDS, in_line, peek, poke
from riata.jit.raw.prefetch import AHEAD, prefetch, prefetch_to_read
from riata.jit.raw.unowned import bare, borrow
from riata.jit.simd.rank import RANK_KEYS, RANKED_MAX, keys_below, make_keys
from riata.wire.codes import DUPLICATE_KEY, OK, OUT_OF_RANGE, TOO_MANY_CROSSED, TOO_MANY_FEATURES, TOO_MANY_IN_ROW
from riata.wire.names import lacks
from riata.wire.rows import (  # fmt: skip
    BEGIN,
    CROSSED,
    END,
    FEATURES,
    FOUND,
    KEY,
    LISTED_PLACES,
    PARTS_MAX,
    BatchBuilder,
    RecordScratch,
    Rules,
)
from riata.wire.scan.crossing import UNLISTED, cross_row, list_parts
from riata.wire.scan.normalise import SMALLEST_NORMAL, normalise_l2
from riata.wire.scan.sorting import rank_words, sort_keys, sort_range
from riata.wire.scan.tokens import settle

_32 = np.uint64(32)
_EMPTY = np.uint64(0)  # an empty place of a table of names
_LOW = np.uint64(0xFFFFFFFF)
_LISTED = np.uint64(LISTED_PLACES - 1)
PREFETCHED_FROM: Final = 2**14  # places, two for each name: a smaller table stays in the L2 cache and needs no prefetch


@kernel
def repeated_key(row: RecordScratch, first: int, last: int) -> int:
    """Find a JSON key that came twice among the records order[first:last], which share one hash.

    Parameters
    ----------
    row : RecordScratch  `order` sorted; `bucket` is overwritten
    first, last : int

    Returns              position of a record of that key, or -1
    Cost                 m log m for m records
    Source               wire.rows, theory of operation
    """
    m = 0
    for k in range(first, last):
        i = np.int64(row.order[k] & _LOW)
        if row.kind[i] & KEY:
            row.bucket[m] = row.fingerprint[i]
            m += 1
    sort_range(row.bucket, 0, m)
    for k in range(1, m):
        if row.bucket[k] == row.bucket[k - 1]:
            for q in range(first, last):
                i = np.int64(row.order[q] & _LOW)
                if row.fingerprint[i] == row.bucket[k] and row.kind[i] & KEY:
                    return int(i)
    return -1


@inline_kernel
def place_few(fingerprints: U64, values: F64, keys: U32, n: int, hashes: U32, sums: F64, start: int) -> int:
    """The part of `place_row` for at most RANK_KEYS records: the sum of the ranks. Source: as `rank_words`."""
    make_keys(fingerprints, n, 0, keys)
    total = 0
    for i in range(n):
        rank = keys_below(keys, i)
        total += rank
        poke(hashes, start + rank, np.uint32(peek(fingerprints, i) >> _32))
        poke(sums, start + rank, peek(values, i))
    return total


@inline_kernel
def place_ranked(fingerprints: U64, values: F64, scratch: tuple[U32, U32], n: int, hashes: U32, sums: F64, start: int) -> int:
    """The part of `place_row` for at most RANKED_MAX records: the sum of the ranks. Source: as `rank_words`."""
    keys, ranks = scratch
    rank_words(fingerprints, n, keys, ranks)
    total = 0
    for i in range(n):
        rank = int(np.int64(peek(ranks, i)))
        total += rank
        poke(hashes, start + rank, np.uint32(peek(fingerprints, i) >> _32))
        poke(sums, start + rank, peek(values, i))
    return total


@kernel
def place_row(fingerprints: U64, values: F64, scratch: tuple[U32, U32], n: int, hashes: U32, sums: F64, start: int) -> int:
    """Do what `sum_row` does for a short row whose values are within bounds and whose hashes differ in their first 16 bits.

    Parameters
    ----------
    fingerprints : u64[>= n], values : f64[>= n]   of the records; read only
    scratch : u32[...], u32[...]   `keys` and `ranks` of a RecordScratch; overwritten
    n : int              at most RANKED_MAX
    hashes : u32[c], sums : f64[c]   written from `start`; room for n
    start : int

    Returns              features written; -1 if the row is of another kind, and what was written is invalid
    Cost                 as `rank_words`
    Source               wire.rows, theory of operation; sorting by counting (Knuth 1998, section 5.2)
    """
    # Equal keys share the lowest of their ranks, so the sum of ranks shows whether any are equal. A key is the first 16 bits of a
    # hash: in one of 25 rows of 75 records, two different hashes share it, and the row is sorted.
    if n <= RANK_KEYS:
        total = place_few(fingerprints, values, scratch[0], n, hashes, sums, start)
    else:
        total = place_ranked(fingerprints, values, scratch, n, hashes, sums, start)
    if 2 * total != n * (n - 1):
        return -1
    inside, usual = 0, 0
    for i in range(n):
        size = abs(peek(values, i))
        inside += int(size <= VALUE_ABS_MAX)  # false for NaN
        usual += int((size <= VALUE_ABS_MAX) & (size >= SMALLEST_NORMAL))
    if usual == n:
        return n
    if inside != n:
        return -1
    done = start
    for i in range(start, start + n):
        poke(hashes, done, peek(hashes, i))
        poke(sums, done, peek(sums, i))
        done += int(abs(peek(sums, i)) >= SMALLEST_NORMAL)
    return done - start


@kernel
def sum_row(row: RecordScratch, n: int, hashes: U32, sums: F64, start: int) -> tuple[int, int]:
    """Write the sums of a row's records to hashes[start:] and sums[start:], in increasing order of hash.

    Parameters
    ----------
    row : RecordScratch  n records; `order` and `bucket` are overwritten
    n : int
    hashes : u32[c], sums : f64[c]   written from `start`
    start : int

    Returns              (OK, features written), or (why not, position of the record at fault)
    Cost                 one sort of n
    Source               wire.rows, theory of operation, steps 1 to 3
    """
    # Taken out of their tuple once: numba counts references each time an array leaves a tuple.
    order, fingerprints, values = row.order, row.fingerprint, row.value
    for i in range(n):
        order[i] = ((fingerprints[i] >> _32) << _32) | np.uint64(i)
    sort_keys(order, row.bucket, n)
    room = min(len(hashes) - start, FEATURES_PER_ROW_MAX)
    done = 0
    i = 0
    while i < n:
        h = order[i] >> _32
        first = int(np.int64(order[i] & _LOW))
        total = values[first]
        j = i + 1
        while j < n and order[j] >> _32 == h:
            total += values[np.int64(order[j] & _LOW)]
            j += 1
        if j > i + 1:
            twice = repeated_key(row, i, j)
            if twice >= 0:
                return DUPLICATE_KEY, twice
        if not abs(total) <= VALUE_ABS_MAX:  # negated so that NaN (infinity minus infinity) is refused too
            return OUT_OF_RANGE, first
        if abs(total) >= SMALLEST_NORMAL:
            if done >= room:
                return (TOO_MANY_IN_ROW if room == FEATURES_PER_ROW_MAX else TOO_MANY_FEATURES), first
            hashes[start + done] = np.uint32(h)
            sums[start + done] = total
            done += 1
        i = j
    return OK, done


@inline_kernel
def prefetch_names(fingerprints: U64, n: int, seen: U64) -> None:
    """Prefetch the cache lines of the table of names seen that `first_unknown` will compare with n fingerprints.

    Source: a large table is evicted from the cache by a thread that reads long bodies. Ranking a row takes long enough for the
    lines to arrive.
    """
    mask = np.uint64(len(seen) - LINE_WORDS)
    for i in range(n):
        prefetch_to_read(seen, int(np.int64(peek(fingerprints, i) & mask)))


@inline_kernel
def prefetch_for_write(sink: BatchBuilder, start: int, n: int) -> None:
    """Prefetch for writing the memory that the rows after this one will use; this one has n features from `start` on.

    Source: the features of a row are written in no order, so the hardware prefetcher does not predict the next address. Without
    this, stores wait one after another for memory that a long body reaches for the first time.
    """
    for i in range(0, n, LINE_WORDS):
        prefetch(sink.value, start + AHEAD + i)
    for i in range(0, n, LINE_KEYS):
        prefetch(sink.hash, start + AHEAD + i)


@inline_kernel
def is_near(seen: U64, fingerprint: np.uint64) -> bool:
    """Return whether a fingerprint is in the cache line of its first place in the table of names seen, or in the next one.

    False for 0, which counts as 1 there. Source: wire.names, theory of operation; one comparison covers a line.
    """
    mask = np.uint64(len(seen) - LINE_WORDS)
    line = fingerprint & mask
    if fingerprint == _EMPTY:
        return False
    if in_line(seen, int(np.int64(line)), fingerprint):
        return True
    return in_line(seen, int(np.int64((line + np.uint64(LINE_WORDS)) & mask)), fingerprint)


@inline_kernel
def first_unknown(fingerprints: U64, n: int, seen: U64) -> int:
    """The first of n fingerprints that is not near its place in the table of names seen; n if all are. Source: `is_near`."""
    if len(seen) < LINE_WORDS:
        return 0
    i = 0
    while i < n and is_near(seen, peek(fingerprints, i)):
        i += 1
    return i


@kernel
def list_new(
    row: RecordScratch, first: int, n: int, sink: BatchBuilder, seen: U64, number: int, lift: float, norm: float
) -> None:
    """List the records of a row whose names are not in the table of names seen.

    A first body repeats most of its names. Records that are listed already are skipped, unless the table is EVERY_NAME (shorter
    than a line), which asks for every record. `wire.new_names` removes the remaining repetitions.

    Parameters
    ----------
    row : RecordScratch  n records; spans that are owed are written, and `order` is overwritten
    first, n : int       the names of the records before `first` are known
    sink : BatchBuilder  found_… and count[FOUND] are written
    seen : u64[2^k]      the table
    number : int         number of the row
    lift, norm : float   what the row's values were multiplied by, and divided by

    Returns              nothing
    Cost                 one probe of the table for each record
    Source               wire.rows, theory of operation
    """
    fingerprints, values = borrow(row.fingerprint), borrow(row.value)
    found_fingerprint, listed = borrow(sink.found_fingerprint), borrow(sink.listed)
    found, room = int(sink.count[FOUND]), len(sink.found_value)
    if row.owed[0] > 0:
        settle(row)
    if row.kind[n - 1] & CROSSED:
        for i in range(n):
            row.order[i] = UNLISTED
    lined = len(seen) >= LINE_WORDS
    for i in range(first, n):
        fingerprint = peek(fingerprints, i)
        if lined and is_near(seen, fingerprint):
            continue  # the common case, even in a row with a new name
        place = int(np.int64(fingerprint & _LISTED))
        before = int(np.int64(peek(listed, place)))
        if lined and before < found and peek(found_fingerprint, before) == fingerprint:
            continue
        is_crossed = row.kind[i] & CROSSED != 0
        if values[i] != 0.0 and found < (room - PARTS_MAX if is_crossed else room) and lacks(seen, fingerprint):
            if is_crossed:
                found = list_parts(row, i, sink, found)
            poke(listed, place, np.uint32(found))
            sink.found_fingerprint[found] = fingerprint
            sink.found_value[found] = values[i] * lift / norm
            sink.found_row[found] = number
            sink.found_kind[found] = row.kind[i]
            row.order[i] = np.uint64(found)
            for k in range(4):
                sink.found_span[found, k] = row.span[i, k]
            if is_crossed:
                for k in range(PARTS_MAX):
                    part = row.span[i, k]
                    sink.found_span[found, k] = np.int64(row.order[part]) if part >= 0 else -1
            found += 1
    sink.count[FOUND] = found


@inline_kernel
def finish_row(row: RecordScratch, n: int, sink: BatchBuilder, rules: Rules, number: int) -> tuple[int, int]:
    """Turn the n records of `row` into features of row `number` and append them to `sink`.

    Parameters
    ----------
    row : RecordScratch  n records; scratch is overwritten
    n : int
    sink : BatchBuilder  features appended, place[number, BEGIN:END + 1] and count updated; unchanged if the row is refused
    rules : Rules        key, l2 and seen are read
    number : int         number of the row

    Returns              (OK, 0), or (why not, position of the record at fault)
    Cost                 one sort of n, one probe of the table of names for each record
    Source               wire.rows, theory of operation
    """
    start, given = int(sink.count[FEATURES]), n
    if len(rules.crosses) > 0:
        n = cross_row(row, n, rules)
        if n < 0:
            return TOO_MANY_CROSSED, -1 - n
    if len(rules.seen) > PREFETCHED_FROM:
        prefetch_names(row.fingerprint, n, rules.seen)
    code, done = OK, -1
    if n > LINE_KEYS:
        prefetch_for_write(sink, start, n)
    if n <= RANKED_MAX and start + n <= len(sink.hash):
        scratch = (bare(row.keys), bare(row.ranks))
        done = place_row(bare(row.fingerprint), bare(row.value), scratch, n, bare(sink.hash), bare(sink.value), start)
    if done < 0:
        code, done = sum_row(row, n, sink.hash, sink.value, start)
    if code != OK:
        return code, done if done < given else int(row.span[done, 0])
    stop = start + done
    lift, norm = 1.0, 1.0
    if rules.l2:
        stop, lift, norm = normalise_l2(sink.hash, sink.value, start, stop)
    sink.count[FEATURES] = stop
    sink.place[number, BEGIN] = start
    sink.place[number, END] = stop
    if len(rules.seen) > 0:
        first = first_unknown(row.fingerprint, n, rules.seen)
        if first < n:
            list_new(row, first, n, sink, rules.seen, number, lift, norm)
    return OK, 0
