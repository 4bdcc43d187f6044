"""Reads the query of a prediction into records: its names and values, decoded."""

from __future__ import annotations

from riata.base.arrays import U8
from riata.jit.kernel import inline_kernel, kernel
from riata.maths.hashing import FIELD_EQUALS, NUMBER, hash_name
from riata.wire.codes import OK
from riata.wire.rows import EQUALS, KEY, PLAIN, SHADOWED, RecordScratch, Rules
from riata.wire.scan.numbers import EXACT, NOT_A_NUMBER, parse_number
from riata.wire.scan.unicode import name_code

_HASH_SIGN, _PERCENT, _AMPERSAND, _PLUS, _EQUALS, _UNDERSCORE, _FIRST, _LAST = 0x23, 0x25, 0x26, 0x2B, 0x3D, 0x5F, 0x21, 0x7E
_SPACE, _ZERO, _LETTER_A = 0x20, 0x30, 0x61


@inline_kernel
def hex_digit(c: int) -> int:
    """The value of a hexadecimal digit, or -1. Source: ASCII."""
    if _ZERO <= c <= _ZERO + 9:
        return c - _ZERO
    lower = c | 32
    return lower - _LETTER_A + 10 if _LETTER_A <= lower < _LETTER_A + 6 else -1


@kernel
def decode_part(data: U8, p: int, stop: int, name: bool, at: int) -> tuple[int, int]:
    """Decode a name or a value of a query.

    Parameters
    ----------
    data : u8[...]     written from `at`
    p, stop : int      its first byte; length of the query
    name : bool        whether an equals sign ends it; an ampersand always does
    at : int           after the query

    Returns            (position of the byte that ends it, or -1 if a byte cannot be in a query; position after what was written)
    Cost               one read and one write of each byte
    Source             application/x-www-form-urlencoded in the URL standard: `+` is a space, `%XX` a byte, any other `%` itself
    """
    while p < stop and data[p] != _AMPERSAND and not (name and data[p] == _EQUALS):
        c = int(data[p])
        if not _FIRST <= c <= _LAST or c == _HASH_SIGN:
            return -1, at
        p += 1
        if c == _PLUS:
            c = _SPACE
        elif c == _PERCENT and p + 1 < stop:
            high, low = hex_digit(int(data[p])), hex_digit(int(data[p + 1]))
            if high >= 0 and low >= 0:
                c, p = high << 4 | low, p + 2
        data[at] = c
        at += 1
    return p, at


@kernel
def query_records(data: U8, stop: int, row: RecordScratch, rules: Rules) -> int:
    """Read a query `name=value&...` into records.

    Parameters
    ----------
    data : u8[...]     begins with the query; written after it
    stop : int         length of the query in bytes
    row : RecordScratch  records are written from 0
    rules : Rules

    Returns            records, or -1 if the query is left to `wire.parse.parse_query`: what that refuses, a name that begins with
                       `_`, text fields and a value that is not a number, a number next to a tie
    Cost               two passes over the bytes, one hash for each value
    Source             the HTTP contract; wire.readers.json.reference, `feature_records`
    """
    fingerprints, values, kinds = row.fingerprint, row.value, row.kind
    n, p, at = 0, 0, stop + 1
    while p < stop:
        if data[p] == _AMPERSAND:
            p += 1
            continue
        start = at
        p, middle = decode_part(data, p, stop, True, start)
        at = middle
        if p >= 0 and p < stop and data[p] == _EQUALS:
            p, at = decode_part(data, p + 1, stop, False, middle)
        if p < 0 or middle == start or data[start] == _UNDERSCORE or n + 2 > len(values):
            return -1
        if name_code(data, start, middle) != OK:
            return -1
        fingerprints[n], values[n], kinds[n] = hash_name(data, start, middle, rules.key, NUMBER), 0.0, PLAIN | KEY
        value, status = parse_number(data, middle, at, True)
        if status == EXACT:
            values[n] = value
        elif status != NOT_A_NUMBER or len(rules.text) > 0 or name_code(data, middle, at) != OK:
            return -1
        else:
            kinds[n] |= SHADOWED
            n += 1
            field = hash_name(data, start, middle, rules.key, FIELD_EQUALS)
            fingerprints[n], values[n], kinds[n] = hash_name(data, middle, at, field, NUMBER), 1.0, EQUALS
        n += 1
        p += 1
    return n


@kernel
def join_lists(row: RecordScratch, n: int) -> bool:
    """Make the strings that come under one name a list: only the first of their names stays a key.

    Parameters
    ----------
    row : RecordScratch  n records of a query; `kind` is written
    n : int

    Returns            whether any name changed
    Cost               n^2 comparisons
    Source             the HTTP contract: a key that comes twice is a list of indicators
    """
    found = False
    for i in range(n):
        for k in range(i):
            if row.kind[i] == row.kind[k] == PLAIN | KEY | SHADOWED and row.fingerprint[i] == row.fingerprint[k]:
                row.kind[i] = PLAIN | SHADOWED
                found = True
    return found
