"""Records of one row become sorted, summed, bounded features; `wire.rows` says how, and what the arrays are."""

from __future__ import annotations

import numpy as np

from riata.base.arrays import F64, U32, U64
from riata.base.limits import FEATURES_PER_ROW_MAX, VALUE_ABS_MAX
from riata.maths.borrow import borrow
from riata.maths.kernel import inline_kernel, kernel
from riata.maths.raw import peek, poke
from riata.wire.codes import DUPLICATE_KEY, OK, OUT_OF_RANGE, TOO_MANY_FEATURES, TOO_MANY_IN_ROW
from riata.wire.length import SMALLEST_NORMAL, normalise_l2
from riata.wire.names import lacks
from riata.wire.rows import BEGIN, END, FEATURES, FOUND, KEY, Row, Rules, Sink
from riata.wire.sorting import RANKED_MAX, rank_keys, sort_keys, sort_range

_32 = np.uint64(32)
_EMPTY = np.uint64(0)  # of a table of names
_LOW = np.uint64(0xFFFFFFFF)


@kernel
def repeated_key(row: Row, first: int, last: int) -> int:
    """Find a JSON key that came twice among the records order[first:last], which share one hash.

    Parameters
    ----------
    row : Row            `order` sorted; `bucket` is overwritten
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


@kernel
def place_row(fingerprints: U64, values: F64, scratch: tuple[U32, U32], n: int, hashes: U32, sums: F64, start: int) -> int:
    """Do what `sum_row` does for a short row whose hashes are all different and whose values are all within bounds.

    Parameters
    ----------
    fingerprints : u64[>= n], values : f64[>= n]   of the records; read only
    scratch : u32[RANKED_MAX], u32[RANKED_MAX]     overwritten
    n : int              at most RANKED_MAX
    hashes : u32[c], sums : f64[c]   written from `start`; room for n
    start : int

    Returns              features written; -1 where the row is of another kind, and what was written means nothing
    Cost                 as `rank_keys`, and a few operations for each record
    Source               wire.rows, theory of operation
    """
    keys, rank = scratch
    for i in range(n):
        poke(keys, i, np.uint32(peek(fingerprints, i) >> _32))
    if not rank_keys(keys, rank, n):
        return -1
    inside, normal = True, True
    for i in range(n):
        at, value = start + int(np.int64(peek(rank, i))), peek(values, i)
        inside &= abs(value) <= VALUE_ABS_MAX  # false for what is not a number
        normal &= abs(value) >= SMALLEST_NORMAL
        poke(hashes, at, peek(keys, i))
        poke(sums, at, value)
    if not inside:
        return -1
    if normal:
        return n
    done = start
    for i in range(start, start + n):
        poke(hashes, done, peek(hashes, i))
        poke(sums, done, peek(sums, i))
        done += int(abs(peek(sums, i)) >= SMALLEST_NORMAL)
    return done - start


@kernel
def sum_row(row: Row, n: int, hashes: U32, sums: F64, start: int) -> tuple[int, int]:
    """Write the sums of a row's records to hashes[start:] and sums[start:], in increasing order of hash.

    Parameters
    ----------
    row : Row            n records; `order` and `bucket` are overwritten
    n : int
    hashes : u32[c], sums : f64[c]   written from `start`
    start : int

    Returns              (OK, features written), or (why not, position of the record to blame)
    Cost                 one sort of n
    Source               wire.rows, theory of operation, steps 1 to 3
    """
    # Taken out of their tuple once: numba counts references wherever an array leaves a tuple.
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
        if not abs(total) <= VALUE_ABS_MAX:  # so written that NaN (infinity minus infinity) is refused too
            return OUT_OF_RANGE, first
        if abs(total) >= SMALLEST_NORMAL:
            if done >= room:
                return (TOO_MANY_IN_ROW if room == FEATURES_PER_ROW_MAX else TOO_MANY_FEATURES), first
            hashes[start + done] = np.uint32(h)
            sums[start + done] = total
            done += 1
        i = j
    return OK, done


@kernel
def list_new(row: Row, n: int, sink: Sink, seen: U64, number: int, lift: float, norm: float) -> None:
    """List the records of a row whose names are not in the table of names seen.

    Parameters
    ----------
    row : Row            n records; read only
    n : int
    sink : Sink          found_… and count[FOUND] are written
    seen : u64[2^k]      the table
    number : int         which row this is
    lift, norm : float   what the row's values were multiplied with, and divided by

    Returns              nothing
    Cost                 one probe of the table for each record
    Source               wire.rows, theory of operation
    """
    fingerprints, values = borrow(row.fingerprint), borrow(row.value)
    found, room, mask = int(sink.count[FOUND]), len(sink.found_value), np.uint64(len(seen) - 1)
    for i in range(n):
        # Most names are known, and at the first place where they can be.
        fingerprint = peek(fingerprints, i)
        if peek(seen, int(np.int64(fingerprint & mask))) == fingerprint and fingerprint != _EMPTY:
            continue
        if values[i] != 0.0 and found < room and lacks(seen, fingerprint):
            sink.found_fingerprint[found] = fingerprint
            sink.found_value[found] = values[i] * lift / norm
            sink.found_row[found] = number
            sink.found_kind[found] = row.kind[i]
            for k in range(4):
                sink.found_span[found, k] = row.span[i, k]
            found += 1
    sink.count[FOUND] = found


@inline_kernel
def finish_row(row: Row, n: int, sink: Sink, rules: Rules, number: int) -> tuple[int, int]:
    """Turn the n records of `row` into features of row `number` and append them to `sink`.

    Parameters
    ----------
    row : Row            n records; scratch is overwritten
    n : int
    sink : Sink          features appended, place[number, BEGIN:END + 1] and count updated; untouched where refused
    rules : Rules        key, l2 and seen are read
    number : int         which row this is

    Returns              (OK, 0), or (why not, position of the record to blame)
    Cost                 one sort of n, one probe of the table of names for each record
    Source               wire.rows, theory of operation
    """
    start = int(sink.count[FEATURES])
    code, done = OK, -1
    if n <= RANKED_MAX and start + n <= len(sink.hash):
        done = place_row(row.fingerprint, row.value, (row.ranked, row.rank), n, sink.hash, sink.value, start)
    if done < 0:
        code, done = sum_row(row, n, sink.hash, sink.value, start)
    if code != OK:
        return code, done
    stop = start + done
    lift, norm = 1.0, 1.0
    if rules.l2:
        stop, lift, norm = normalise_l2(sink.hash, sink.value, start, stop)
    sink.count[FEATURES] = stop
    sink.place[number, BEGIN] = start
    sink.place[number, END] = stop
    if len(rules.seen) > 0:
        list_new(row, n, sink, rules.seen, number, lift, norm)
    return OK, 0
