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

import numpy as np

from riata.jit.kernel import inline_kernel, kernel
from riata.jit.raw.memory import peek, poke
from riata.jit.raw.unowned import borrow
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


@inline_kernel
def put_crossed(row: RecordScratch, n: int, parts: tuple[int, int, int], scale: float) -> None:
    """Write record n, the combination of the records of `parts`; the third is -1 for a pair. Source: as `crossed`."""
    a, b, c = parts
    fingerprints, values, span = row.fingerprint, row.value, row.span
    poke(row.kind, n, np.uint8(PLAIN | CROSSED))
    fingerprint, value = crossed(peek(fingerprints, a), peek(fingerprints, b)), peek(values, a) * peek(values, b)
    if c >= 0:
        fingerprint, value = crossed(fingerprint, peek(fingerprints, c)), value * peek(values, c)
    poke(fingerprints, n, fingerprint)
    poke(values, n, value * scale)
    span[n, 0], span[n, 1], span[n, 2], span[n, 3] = a, b, c, -1


@inline_kernel
def begin_of(row: RecordScratch, field: int, before: int, last: int) -> int:
    """The first record of `field` to combine with record `last` of the field `before`; -1 if there is none.

    If the fields are the same: the record itself if its value is not 1, otherwise the one after it. Source: as above.
    """
    if field != before:
        return int(np.int64(peek(row.bucket, field)))
    return last if peek(row.value, last) != 1.0 else int(np.int64(peek(row.order, last)))


@inline_kernel
def in_order(row: RecordScratch, a: int, b: int, same: bool) -> bool:
    """Whether records of fields, the same or not, are in the order of their hash. Source: this module's theory of operation."""
    return not same or peek(row.fingerprint, a) <= peek(row.fingerprint, b)


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
    fields, crosses = borrow(rules.fields), borrow(rules.crosses)
    fingerprints, values, kinds = borrow(row.fingerprint), borrow(row.value), borrow(row.kind)
    order, heads = borrow(row.order), borrow(row.bucket)
    room = min(len(values), n + CROSSED_PER_ROW_MAX)
    if n + len(fields) > len(values):
        return -1 if n > 0 else 0
    field = _NONE
    for i in range(n):
        if peek(kinds, i) & _KIND == PLAIN:
            fingerprint, field = peek(fingerprints, i), _NONE
            for k in range(len(fields)):
                field = np.uint64(k) if peek(fields, k) == fingerprint else field
        poke(order, i, field if peek(values, i) != 0.0 else _NONE)
    for k in range(len(fields)):
        poke(heads, k, _NONE)
    for i in range(n - 1, -1, -1):  # lists of the records of each field, in the order of the row
        field = peek(order, i)
        if field != _NONE:
            at = int(np.int64(field))
            poke(order, i, peek(heads, at))
            poke(heads, at, np.uint64(i))
    done = n
    for k in range(len(crosses)):
        first, second, third = crosses[k, 0], crosses[k, 1], crosses[k, 2]
        a = begin_of(row, first, -1, 0)
        while a >= 0:
            b = begin_of(row, second, first, a)
            while b >= 0:
                c = begin_of(row, third, second, b) if third >= 0 else 0
                while c >= 0:
                    if done >= room:
                        return -1 - a
                    x, y, z = a, b, c if third >= 0 else -1
                    if not in_order(row, x, y, first == second):
                        x, y = y, x
                    if not in_order(row, y, z, second == third):
                        y, z = z, y
                        if not in_order(row, x, y, first == second):
                            x, y = y, x
                    put_crossed(row, done, (x, y, z), rules.cross_scale)
                    done += 1
                    c = int(np.int64(peek(order, c))) if third >= 0 else -1
                b = int(np.int64(peek(order, b)))
            a = int(np.int64(peek(order, a)))
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
