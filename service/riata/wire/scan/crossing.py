"""Crosses: features that are combinations of features of two or three fields of a row.

Theory of operation
    The records of a row are grouped by field, and every combination of one record from each field of a cross becomes a record.
    Its value is the product times `encoder.cross_scale`. Its fingerprint is that of a name whose parts are the fingerprints of
    the others:

        a x b         H(a, CROSS, the eight bytes of b)
        a x b x c     H(H(a, CROSS, b), CROSS, c)

    A field that is crossed with itself gives each pair of its features once, the smaller fingerprint first, and the squares of
    the values other than 1, as Vowpal Wabbit does.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from riata.base.arrays import F64, I64, U8, U64
from riata.jit.kernel import inline_kernel, kernel
from riata.jit.raw.memory import peek, poke
from riata.jit.raw.unowned import bare, borrow
from riata.maths.hashing import CROSS, M1, M2
from riata.wire.encoder import CROSSED_PER_ROW_MAX
from riata.wire.rows import CROSSED, PART, PARTS_MAX, PLAIN, BatchBuilder, RecordScratch, Rules

_KIND = 3  # the bits of a kind that say how it is shown
_NONE = np.uint64(2**64 - 1)  # no field, or the end of a list
UNLISTED = np.uint64(2**64 - 1)  # in `order`: the record is not listed among those found
_BEGIN = np.uint64((8 * int(M1) ^ int(CROSS) * int(M2)) % 2**64)  # what a hash of eight bytes begins with
_32 = np.uint64(32)


@inline_kernel
def crossed(first: np.uint64, second: np.uint64) -> np.uint64:
    """The fingerprint of a combination. Source: this module's theory of operation; maths.hashing for eight bytes."""
    h = (first ^ _BEGIN ^ second) * M1
    h ^= h >> _32
    h *= M2
    return h ^ (h >> _32)


class Records(NamedTuple):
    """Arrays of a `RecordScratch` by address alone: helpers that took the whole scratch would count references to all of it."""

    fingerprint: U64
    value: F64
    kind: U8
    span: I64  # four for each record
    order: U64  # the next record of the same field, or _NONE
    bucket: U64  # the first record of each field


@inline_kernel
def records_of(row: RecordScratch) -> Records:
    """The arrays that crossing needs. Source: jit.raw.unowned."""
    span = bare(borrow(row.span).reshape(-1))
    return Records(bare(row.fingerprint), bare(row.value), bare(row.kind), span, bare(row.order), bare(row.bucket))


@inline_kernel
def put_crossed(at: Records, n: int, parts: tuple[int, int, int], scale: float) -> None:
    """Write record n, the combination of the records of `parts`; the third is -1 for a pair. Source: as `crossed`."""
    a, b, c = parts
    poke(at.kind, n, np.uint8(PLAIN | CROSSED))
    fingerprint, value = crossed(peek(at.fingerprint, a), peek(at.fingerprint, b)), peek(at.value, a) * peek(at.value, b)
    if c >= 0:
        fingerprint, value = crossed(fingerprint, peek(at.fingerprint, c)), value * peek(at.value, c)
    poke(at.fingerprint, n, fingerprint)
    poke(at.value, n, value * scale)
    poke(at.span, 4 * n, a)
    poke(at.span, 4 * n + 1, b)
    poke(at.span, 4 * n + 2, c)
    poke(at.span, 4 * n + 3, -1)


@inline_kernel
def begin_of(at: Records, field: int, before: int, last: int) -> int:
    """The first record of `field` to combine with record `last` of the field `before`; -1 if there is none.

    If the fields are the same: the record itself if its value is not 1, otherwise the one after it. Source: as above.
    """
    if field != before:
        return int(np.int64(peek(at.bucket, field)))
    return last if peek(at.value, last) != 1.0 else int(np.int64(peek(at.order, last)))


@inline_kernel
def in_order(at: Records, a: int, b: int, same: bool) -> bool:
    """Whether records of fields, the same or not, are in the order of their hash. Source: this module's theory of operation."""
    return not same or peek(at.fingerprint, a) <= peek(at.fingerprint, b)


@inline_kernel
def list_fields(at: Records, n: int, fields: U64, known: int) -> None:
    """List the records of each of `known` fields, in the order of the row. Source: wire.rows, the field of a record."""
    field = _NONE
    for i in range(n):
        if peek(at.kind, i) & _KIND == PLAIN:
            fingerprint, field = peek(at.fingerprint, i), _NONE
            for k in range(known):
                field = np.uint64(k) if peek(fields, k) == fingerprint else field
        poke(at.order, i, field if peek(at.value, i) != 0.0 else _NONE)
    for k in range(known):
        poke(at.bucket, k, _NONE)
    for i in range(n - 1, -1, -1):
        field = peek(at.order, i)
        if field != _NONE:
            k = int(np.int64(field))
            poke(at.order, i, peek(at.bucket, k))
            poke(at.bucket, k, np.uint64(i))


@kernel
def cross_row(row: RecordScratch, n: int, rules: Rules) -> int:
    """Add the combinations of crossed fields to the n records of a row.

    Parameters
    ----------
    row : RecordScratch  n records; others are added, `order` and `bucket` are overwritten
    n : int
    rules : Rules        fields, crosses, and the factor of their values

    Returns              how many records there are now; or -1 - i if there are too many combinations, i being the first part
    Cost                 a comparison with each field for each name, and one hash for each combination
    Source               this module's theory of operation
    """
    known, scale = len(rules.fields), rules.cross_scale
    crosses, at = borrow(rules.crosses), records_of(row)
    room = min(len(row.value), n + CROSSED_PER_ROW_MAX)
    if n + known > len(row.value):
        return -1 if n > 0 else 0
    list_fields(at, n, bare(rules.fields), known)
    done = n
    for k in range(len(crosses)):
        first, second, third = crosses[k, 0], crosses[k, 1], crosses[k, 2]
        a = begin_of(at, first, -1, 0)
        while a >= 0:
            b = begin_of(at, second, first, a)
            while b >= 0:
                c = begin_of(at, third, second, b) if third >= 0 else 0
                while c >= 0:
                    if done >= room:
                        return -1 - a
                    x, y, z = a, b, c if third >= 0 else -1
                    if not in_order(at, x, y, first == second):
                        x, y = y, x
                    if not in_order(at, y, z, second == third):
                        y, z = z, y
                        if not in_order(at, x, y, first == second):
                            x, y = y, x
                    put_crossed(at, done, (x, y, z), scale)
                    done += 1
                    c = int(np.int64(peek(at.order, c))) if third >= 0 else -1
                b = int(np.int64(peek(at.order, b)))
            a = int(np.int64(peek(at.order, a)))
    return done


@inline_kernel
def list_parts(row: RecordScratch, i: int, sink: BatchBuilder, found: int) -> int:
    """List the parts of the combination that is record i, unless the row has listed them. Returns how many are listed then.

    `row.order` has the position of each listed record. Source: wire.rows, PART.
    """
    for k in range(PARTS_MAX):
        part = row.span[i, k]
        if part >= 0 and row.order[part] == UNLISTED:
            sink.found_fingerprint[found] = row.fingerprint[part]
            sink.found_kind[found] = row.kind[part] | PART
            sink.found_value[found] = 0.0
            for q in range(4):
                sink.found_span[found, q] = row.span[part, q]
            row.order[part] = np.uint64(found)
            found += 1
    return found
