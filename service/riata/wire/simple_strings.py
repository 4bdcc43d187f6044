"""The common members of a features object, `"name":number` and `"name":"value"`, eight bytes at a time.

Reading stops before any other member: an escape, a text, white space in an uncommon place, an exponent, a twentieth digit, a
mistake. `wire.json_features` reads that member in the general way. So there is no second grammar here: both readers agree on
what is accepted, and only one judges the rest.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from riata.base.arrays import U8
from riata.base.limits import NAME_BYTES_MAX
from riata.jit.kernel import inline_kernel, kernel
from riata.jit.raw.unowned import borrow
from riata.jit.simd.bytes8 import first_byte, load_word, not_plain
from riata.maths.hashing import FIELD_EQUALS, NUMBER, hash_name
from riata.wire.json_scan import CLOSE_OBJECT, COLON, COMMA, MINUS, QUOTE, SPACE
from riata.wire.rows import EQUALS, KEY, PLAIN, SHADOWED, RecordScratch, Rules, borrow_row
from riata.wire.simple_numbers import SIMPLE_NUMBER_REACH, simple_number

_AHEAD: Final = SIMPLE_NUMBER_REACH + 8  # bytes that may be read after the quote that ends a name
_NOTHING = np.uint64(0)
INDICATOR_RECORDS: Final = 2  # one for the key, which must not come twice, and one for the indicator


@inline_kernel
def simple_string_end(data: U8, start: int, last: int) -> int:
    """Position of the quote that ends a string of plain ASCII, of at most NAME_BYTES_MAX bytes; or -1.

    `start` is its first byte; 8 bytes must be readable from `last` on. Source: RFC 8259, section 7.
    """
    end = start
    special = _NOTHING
    while special == _NOTHING and end < last:
        special = not_plain(load_word(data, end))
        end += first_byte(special)
    good = special != _NOTHING and end < last and data[end] == QUOTE and end - start <= NAME_BYTES_MAX
    return end if good else -1


@kernel
def read_plain(data: U8, p: int, stop: int, row: RecordScratch, n: int, rules: Rules) -> tuple[int, int, bool]:
    """Read members `"name":number` and `"name":"value"` as long as they are of a common kind.

    Parameters
    ----------
    data : u8[...]     read only
    p, stop : int      first byte of a member; end of what may be read
    row : RecordScratch  records are written from n
    n : int
    rules : Rules      if strings may be texts, they are left

    Returns            (position, records, closed): if closed, the position is that of the closing brace, otherwise
                       the first byte of the first member that was left
    Cost               two reads of each byte, eight at a time
    Source             RFC 8259; wire.json_features for what a member means
    """
    data, row = borrow(data), borrow_row(row)
    fingerprints, values, kinds, spans = row.fingerprint, row.value, row.kind, row.span
    key, words = rules.key, len(rules.text) > 0
    last, room = min(stop, len(data) - _AHEAD), len(values) - INDICATOR_RECORDS
    while p < last and n <= room and data[p] == QUOTE:
        start = p + 1
        end = simple_string_end(data, start, last)
        if end <= start or data[end + 1] != COLON:
            break
        at = end + 2 + int(data[end + 2] == SPACE)
        spans[n, 0], spans[n, 1], spans[n, 2], spans[n, 3] = start, start, start, end
        if data[at] == QUOTE:
            after = -1 if words else simple_string_end(data, at + 1, last)
            if after < 0:
                break
            fingerprints[n], values[n], kinds[n] = hash_name(data, start, end, key, NUMBER), 0.0, PLAIN | KEY | SHADOWED
            field = hash_name(data, start, end, key, FIELD_EQUALS)
            n += 1
            fingerprints[n], values[n], kinds[n] = hash_name(data, at + 1, after, field, NUMBER), 1.0, EQUALS
            spans[n, 0], spans[n, 1], spans[n, 2], spans[n, 3] = start, end, at + 1, after
            after += 1
        else:
            negative = data[at] == MINUS
            after, value = simple_number(data, at + int(negative))
            if after < 0:
                break
            fingerprints[n], kinds[n] = hash_name(data, start, end, key, NUMBER), PLAIN | KEY
            values[n] = -value if negative else value
        closed = after < stop and data[after] == CLOSE_OBJECT
        if after >= stop or (not closed and data[after] != COMMA):
            n -= int(data[at] == QUOTE)
            break
        n += 1
        if closed:
            return after, n, True
        p = after + 1 + int(after + 1 < stop and data[after + 1] == SPACE)
    return p, n, False
