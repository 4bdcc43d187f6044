"""The fast path for VW text with several namespaces: reads common lines from the positions of their delimiters.

A line is common if its bytes are ASCII, spaces separate its words, namespaces have no scale, no name is empty, and every value is
a decimal number. Any other line is left, as a whole, to `wire.readers.vw.body`, which also reports its errors. So there is no
second grammar here: what the fast path accepts, the general reader accepts with the same result.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from riata.base.arrays import U8
from riata.base.limits import NAME_BYTES_MAX
from riata.jit.kernel import kernel
from riata.jit.raw.memory import peek, poke
from riata.jit.raw.unowned import borrow
from riata.maths.hashing import FIELD_NAMESPACE, NUMBER, hash_usual
from riata.wire.rows import NAMESPACE, PLAIN, SHADOWED, RecordScratch, Rules
from riata.wire.scan.delimiters import position
from riata.wire.scan.lines import COLON, DELETE, SPACE
from riata.wire.scan.simple_numbers import number_between

BAR: Final = 124
LEFT: Final = -1000  # less than minus any code


@kernel
def fast_vw(data: U8, bar: int, stop: int, row: RecordScratch, rules: Rules) -> int:
    """Read everything from the first bar on.

    Parameters
    ----------
    data : u8[...]     the body
    bar, stop : int    the first bar; end of the line
    row : RecordScratch  `position` lists what vw_marks finds from the line's first byte on; records are written
    rules : Rules      key and crosses

    Returns            how many records, or LEFT
    Cost               about twenty operations for each feature
    Source             wire.readers.vw.body, theory of operation
    """
    data, at = borrow(data), borrow(row.position)
    fingerprints, values, kinds, span = borrow(row.fingerprint), borrow(row.value), borrow(row.kind), borrow(row.span)
    k = 0
    while position(at, k) < bar:
        if not SPACE <= peek(data, position(at, k)) < DELETE:
            return LEFT
        k += 1
    n, p, key, room, start, named, kind = 0, bar, rules.key, len(values), bar, bar, PLAIN
    while p < stop:
        end = position(at, k)
        k += 1
        if end == p:  # nothing before the delimiter: an extra space, or the next namespace
            c = peek(data, p)
            p += 1
            if c == BAR:
                start, named, key, kind = p, position(at, k), rules.key, PLAIN
                if named > p:
                    if named - p > NAME_BYTES_MAX or (named < stop and peek(data, named) != SPACE):
                        return LEFT
                    key, kind = hash_usual(data, p, named, rules.key, FIELD_NAMESPACE), NAMESPACE
                    if len(rules.crosses) > 0:
                        if n >= room:
                            return LEFT
                        poke(fingerprints, n, hash_usual(data, p, named, rules.key, NUMBER))
                        poke(values, n, 0.0)
                        poke(kinds, n, np.uint8(PLAIN | SHADOWED))
                        span[n, 0], span[n, 1], span[n, 2], span[n, 3] = start, named, start, named
                        n += 1
                    p = named
                elif named < p:
                    return LEFT
            elif c != SPACE:
                return LEFT
            continue
        after, value, good = end, 1.0, True
        if end < p or end - p > NAME_BYTES_MAX or n >= room:
            return LEFT
        if peek(data, end) == COLON:
            after = position(at, k)
            k += 1
            value, good = number_between(data, end + 1, after, False)
        if not good or after > stop:
            return LEFT
        poke(fingerprints, n, hash_usual(data, p, end, key, NUMBER))
        poke(values, n, value)
        poke(kinds, n, np.uint8(kind))
        span[n, 0], span[n, 1], span[n, 2], span[n, 3] = start, named, p, end
        n += 1
        p = after
        if p < stop:
            c = peek(data, p)
            if c == SPACE:
                p += 1
            elif c == BAR:
                k -= 1
            else:
                return LEFT
    return n
