"""Slow twin of `web.server.heads.HeadParser`: the list of what is plain, line by line."""

from __future__ import annotations

import re

from riata.web.server.heads import INCOMPLETE, NOT_PLAIN, WORDS

TWINS_OF = ("head",)
_FIRST = re.compile(rb"(GET|POST) (/[\x21\x22\x24-\x7e]*) HTTP/1\.1")
_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*((?:[\t\x20-\x7e]*[\x21-\x7e])?)")
_DIGITS = re.compile(rb"[0-9]{1,18}")
_HANDED_OUT = (b"host", b"accept", b"content-type", b"authorization", b"idempotency-key")
_WATCHED = (*_HANDED_OUT, b"content-length", b"connection")
_REFUSED = (b"transfer-encoding", b"content-encoding", b"expect", b"upgrade", b"origin", b"sec-fetch-site", b"proxy-connection")


def parse_head(data: bytes) -> tuple[int, list[int] | None]:
    """What `HeadParser.parse` returns for a head that is there to its end, and the words if it is plain."""
    head, end, _ = data.partition(b"\r\n\r\n")
    if not end:
        return INCOMPLETE, None
    first, *lines = head.split(b"\r\n")
    found = _FIRST.fullmatch(first)
    if found is None:
        return NOT_PLAIN, None
    words = [-1] * WORDS
    at, seen = len(first) + 2, set()
    for line in lines:
        split = _LINE.fullmatch(line)
        if split is None:
            return NOT_PLAIN, None
        name, value = split[1].lower(), split[2]
        if name in _REFUSED or (name in seen and name in _WATCHED):
            return NOT_PLAIN, None
        seen.add(name)
        if name in _WATCHED and not value:
            return NOT_PLAIN, None
        if name == b"content-length":
            if not _DIGITS.fullmatch(value):
                return NOT_PLAIN, None
            words[4] = int(value)
        if name == b"connection" and value.lower() != b"keep-alive":
            return NOT_PLAIN, None
        if name in _HANDED_OUT:
            which = 7 + 2 * _HANDED_OUT.index(name)
            words[which], words[which + 1] = at + split.start(2), at + split.end(2)
        at += len(line) + 2
    if b"host" not in seen or (found[1] == b"GET" and words[4] > 0):
        return NOT_PLAIN, None
    words[0] = 5 if found[1] == b"POST" else 0
    words[1], words[3] = found.start(2), found.end(2)
    words[2] = words[1] + len(found[2].partition(b"?")[0])
    words[5], words[6] = at - len(first) - 2, len(lines)
    return len(head) + 4, words
