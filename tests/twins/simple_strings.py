"""Usual members of a features object by one regular expression."""

from __future__ import annotations

import re

from tests.twins.hashing import hash_name

TWINS_OF = ("wire/simple_strings",)

_PLAIN = rb"[ !#-\[\]-~]"
_MEMBER = re.compile(
    rb'"(%b{1,256})": ?(?:(-?(?:0|[1-9][0-9]{0,6})(?:\.[0-9]+)?)|"(%b{0,256})")(?=[,}])' % (_PLAIN, _PLAIN), re.DOTALL
)
_DIGITS_MAX = 19

Record = tuple[int, float, int, tuple[int, int, int, int]]


def read_plain(text: bytes, p: int, stop: int, key: int, words: bool) -> tuple[int, list[Record], bool]:
    """Where reading ends, the records, and whether at the closing brace."""
    records: list[Record] = []
    while match := _MEMBER.match(text, p, stop):
        field, number, string = match.groups()
        (a, b), after = match.span(1), match.end()
        if number is not None:
            if len(number.strip(b"-").replace(b".", b"")) > _DIGITS_MAX:
                break
            records.append((hash_name(field, key, 0), float(number), 4, (a, a, a, b)))
        elif words:
            break
        else:
            records.append((hash_name(field, key, 0), 0.0, 12, (a, a, a, b)))
            records.append((hash_name(string, hash_name(field, key, 1), 0), 1.0, 1, (a, b, *match.span(3))))
        if text[after : after + 1] == b"}":
            return after, records, True
        p = after + 1
        p += int(text[p:stop].startswith(b" "))
    return p, records, False
