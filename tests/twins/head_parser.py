"""Slow twin of `riata_parse_head`: what a head may be, line by line."""

from __future__ import annotations

import re

from riata.web.server.heads import INCOMPLETE, MALFORMED, WORDS

TWINS_OF = ("head",)
_FIRST = re.compile(rb"([A-Z-]{1,32}) ([\x21-\x7e]+) HTTP/1\.([01])")
_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*((?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)[ \t]*")
_DIGITS = re.compile(rb"[0-9]{1,19}")
_HANDED_OUT = (b"host", b"accept", b"content-type", b"authorization", b"idempotency-key")
_WATCHED = (*_HANDED_OUT, b"content-length", b"connection")
_UNUSUAL = (b"transfer-encoding", b"content-encoding", b"expect", b"upgrade", b"origin", b"sec-fetch-site")


def parse_head(data: bytes) -> tuple[int, list[int] | None]:
    """What `riata_parse_head` returns for a head that is there to its end, and the words if it is well-formed."""
    head, end, _ = data.partition(b"\r\n\r\n")
    if not end:
        return INCOMPLETE, None
    first, *lines = head.split(b"\r\n")
    found = _FIRST.fullmatch(first)
    split = [_LINE.fullmatch(line) for line in lines]
    if found is None or None in split:
        return MALFORMED, None
    fields = [(one[1].lower(), one[2]) for one in split if one is not None]
    lengths = [value for name, value in fields if name == b"content-length"]
    codings = [value for name, value in fields if name == b"transfer-encoding"]
    if len(lengths) + len(codings) > 1 or not all(map(_DIGITS.fullmatch, lengths)):
        return MALFORMED, None
    method, target, names = found[1], found[2], [name for name, _ in fields]
    words = [-1] * WORDS
    words[0] = int(
        method in (b"GET", b"POST")
        and target[:1] == b"/"
        and b"#" not in target
        and found[3] == b"1"
        and names.count(b"host") == 1
        and not any(name in _UNUSUAL or (name in _WATCHED and (not value or names.count(name) > 1)) for name, value in fields)
        and all(value.lower() == b"keep-alive" for name, value in fields if name == b"connection")
        and not (method == b"GET" and lengths and int(lengths[0]) > 0)
    )
    words[1], words[2] = len(method), found.end(2)
    words[3] = found.start(2) + len(target.partition(b"?")[0])
    words[4], words[5] = int(found[3]), min(int(lengths[0]), 2**63 - 1) if lengths else -1
    at = len(first) + 2
    for line, one in zip(lines, split, strict=True):
        if one is not None and one[1].lower() in _HANDED_OUT:
            which = 8 + 2 * _HANDED_OUT.index(one[1].lower())
            words[which], words[which + 1] = at + one.start(2), at + one.end(2)
        at += len(line) + 2
    words[6], words[7] = at - len(first) - 2, len(lines)
    return len(head) + 4, words
