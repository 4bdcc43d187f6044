"""Compiled strict parser of plain HTTP/1.1 request heads.

It accepts only heads that can be read in one way: GET or POST, a path in visible ASCII, `HTTP/1.1`, lines that end in CRLF,
names of token characters, values of visible ASCII, spaces and tabs, exactly one Host, and no header that changes how a message is
read or that identifies its origin (a Transfer-Encoding other than chunked, Content-Encoding, Expect, Upgrade, Origin,
Sec-Fetch-Site, a Connection other than keep-alive, Proxy-Connection). Whatever it accepts, httptools parses to the same method,
target and headers. All other heads are left to `web/heads.py`, which checks them with httptools.

A `HeadParser` belongs to one thread.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np

from riata.base.arrays import I64, U8
from riata.jit.kernel import inline_kernel, quick_kernel
from riata.jit.raw.address import array_at
from riata.jit.raw.memory import peek

NOT_PLAIN: Final = 0  # result of `parse_head`: the head is left to `web/heads.py`
INCOMPLETE: Final = -1  # its end has not arrived; as far as it has, it is plain
HEAD_BYTES_MAX: Final = 96 * 2**10  # of a whole head; longer ones are not plain
SHORT_BYTES: Final = 2 * 2**10  # copied first: most heads are shorter
LENGTH_DIGITS_MAX: Final = 18
# Words of the result. Of each header that is handed out: offset of its value and of the end; -1 and -1 if it was not sent.
IS_POST, TARGET, PATH_STOP, TARGET_STOP, LENGTH, LINES_BYTES, LINES = range(7)
HOST, ACCEPT, CONTENT_TYPE, AUTHORIZATION, IDEMPOTENCY_KEY = range(7, 17, 2)
WORDS: Final = 17
# Headers that are looked at. Those from CONTENT_LENGTH on have a meaning of their own; those from REFUSED on are not plain.
_NAMES: Final = (
    b"host", b"accept", b"content-type", b"authorization", b"idempotency-key", b"content-length", b"connection",
    b"transfer-encoding", b"content-encoding", b"expect", b"upgrade", b"origin", b"sec-fetch-site", b"proxy-connection",
)  # fmt: skip
CONTENT_LENGTH, CONNECTION, CODING, REFUSED = 5, 6, 7, 8
_NAME_BYTES: Final = 24  # of an entry of the table: longer than the longest name
_OTHER: Final = len(_NAMES)
_SPACE, _TAB, _CR, _LF, _COLON, _QUESTION, _SLASH, _ZERO, _NINE, _CASE = (
    0x20,
    0x09,
    0x0D,
    0x0A,
    0x3A,
    0x3F,
    0x2F,
    0x30,
    0x39,
    0x20,
)
_TOKEN: Final = b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"


def _tables() -> tuple[U8, U8, U8, U8]:
    """For each byte: its lower case if it may be in a name, whether it may be in a value, whether in a target; and the names."""
    lower, value, target = (np.zeros(256, np.uint8) for _ in range(3))
    for byte in _TOKEN:
        lower[byte] = byte
        if chr(byte).isalpha():
            lower[byte - _CASE] = byte
    value[0x20:0x7F] = 1
    value[_TAB] = 1
    target[0x21:0x7F] = 1
    target[ord("#")] = 0
    names = np.zeros(_OTHER * _NAME_BYTES, np.uint8)
    for at, name in enumerate(_NAMES):
        names[at * _NAME_BYTES : at * _NAME_BYTES + len(name)] = list(name)
    return lower, value, target, names


_LOWER, _IN_VALUE, _IN_TARGET, _TABLE = _tables()
_LENGTHS: Final = np.array([len(name) for name in _NAMES], np.int64)
_VERSION: Final = np.frombuffer(b" HTTP/1.1\r\n", np.uint8)
_METHODS: Final = np.frombuffer(b"GET /POST /", np.uint8)
_KEEP_ALIVE: Final = np.frombuffer(b"keep-alive", np.uint8)
_CHUNKED: Final = np.frombuffer(b"chunked", np.uint8)
IN_CHUNKS: Final = -2  # LENGTH of a body that arrives in chunks


@inline_kernel
def name_at(head: U8, start: int, stop: int) -> int:
    """Index of a header name in the table, `_OTHER` if it is not there. Source: RFC 9110, 5.1: names are case-insensitive."""
    found = _OTHER
    for which in range(_OTHER):
        if _LENGTHS[which] == stop - start:
            same = True
            for i in range(stop - start):
                if _LOWER[peek(head, start + i)] != _TABLE[which * _NAME_BYTES + i]:
                    same = False
                    break
            if same:
                found = which
                break
    return found


@inline_kernel
def says(head: U8, start: int, stop: int, word: U8) -> bool:
    """Whether a value is a word in lower case, whatever its case. Source: RFC 9112, 7 and 9.3."""
    same = stop - start == len(word)
    if same:
        for i in range(len(word)):
            same = same and _LOWER[peek(head, start + i)] == word[i]
    return same


@inline_kernel
def digits_at(head: U8, start: int, stop: int) -> int:
    """The number that the bytes write in decimal digits, -1 if they do not. Source: RFC 9110, 8.6."""
    number = 0 if 0 < stop - start <= LENGTH_DIGITS_MAX else -1
    for p in range(start, stop):
        c = peek(head, p)
        if number < 0 or c < _ZERO or c > _NINE:
            number = -1
            break
        number = 10 * number + int(c) - _ZERO
    return number


@inline_kernel
def request_line(head: U8, size: int, found: I64) -> int:
    """Parse the first line into the words of the target. Returns the offset of the next line, NOT_PLAIN, or INCOMPLETE.

    Source: RFC 9112, 3.
    """
    if size == 0:
        return INCOMPLETE
    first = 5 if peek(head, 0) == _METHODS[5] else 0
    p = 6 if first else 5
    for i in range(p):
        if i >= size:
            return INCOMPLETE
        if peek(head, i) != _METHODS[first + i]:
            return NOT_PLAIN
    found[IS_POST], found[TARGET] = first, p - 1
    while p < size and _IN_TARGET[peek(head, p)] != 0:
        if peek(head, p) == _QUESTION and found[PATH_STOP] < 0:
            found[PATH_STOP] = p
        p += 1
    found[TARGET_STOP] = p
    if found[PATH_STOP] < 0:
        found[PATH_STOP] = p
    for i in range(len(_VERSION)):
        if p + i >= size:
            return INCOMPLETE
        if peek(head, p + i) != _VERSION[i]:
            return NOT_PLAIN
    return p + len(_VERSION)


@inline_kernel
def is_framed_once(found: I64, in_chunks: int) -> bool:
    """Whether a head announces its body in one way, or none; sets LENGTH. A GET has no body. Source: RFC 9112, 6.3."""
    if in_chunks:
        once = found[LENGTH] < 0
        found[LENGTH] = IN_CHUNKS
    else:
        once = True
    return once and (found[IS_POST] != 0 or (found[LENGTH] <= 0 and not in_chunks))


@quick_kernel
def parse_head(head_at: int, size: int, found_at: int) -> int:
    """Parse a plain request head. Arrays are passed by address (`jit.raw.address`).

    Parameters
    ----------
    head_at : int      u8[size], what has arrived; begins with the head; read only
    size : int         at most HEAD_BYTES_MAX
    found_at : int     i64[WORDS], overwritten; offsets count from the beginning of the head. LENGTH is -1 without a body

    Returns            bytes of the head with the empty line at its end, NOT_PLAIN, or INCOMPLETE
    Cost               one pass over the head, and at most one comparison with each name in the table for each line
    Source             RFC 9112 (request line, field lines); this module's list of what is plain
    """
    head, found = array_at(head_at, (size,), np.uint8), array_at(found_at, (WORDS,), np.int64)
    for word in range(WORDS):
        found[word] = -1
    p = request_line(head, size, found)
    if p <= 0:
        return p
    found[LINES] = 0
    lines_start, seen = p, 0
    while True:
        if p + 1 >= size:
            return INCOMPLETE
        if peek(head, p) == _CR:
            break
        start = p
        while p < size and _LOWER[peek(head, p)] != 0:
            p += 1
        if p >= size:
            return INCOMPLETE
        if p == start or peek(head, p) != _COLON:
            return NOT_PLAIN
        which = name_at(head, start, p)
        if which >= REFUSED and which != _OTHER:
            return NOT_PLAIN
        p += 1
        while p < size and (peek(head, p) == _SPACE or peek(head, p) == _TAB):
            p += 1
        value = p
        while p < size and _IN_VALUE[peek(head, p)] != 0:
            p += 1
        if p + 1 >= size:
            return INCOMPLETE
        if peek(head, p) != _CR or peek(head, p + 1) != _LF or (p > value and peek(head, p - 1) <= _SPACE):
            return NOT_PLAIN
        if which != _OTHER:
            if seen >> which & 1 or p == value:
                return NOT_PLAIN
            seen |= 1 << which
            if which == CONTENT_LENGTH:
                found[LENGTH] = digits_at(head, value, p)
                if found[LENGTH] < 0:
                    return NOT_PLAIN
            elif which == CONNECTION:
                if not says(head, value, p, _KEEP_ALIVE):
                    return NOT_PLAIN
            elif which == CODING:
                if not says(head, value, p, _CHUNKED):
                    return NOT_PLAIN
            else:
                found[HOST + 2 * which], found[HOST + 2 * which + 1] = value, p
        found[LINES] += 1
        p += 2
    if peek(head, p + 1) != _LF or found[HOST] < 0:
        return NOT_PLAIN
    if not is_framed_once(found, seen >> CODING & 1):
        return NOT_PLAIN
    found[LINES_BYTES] = p - lines_start
    return p + 2


Words = tuple[int, ...]


class HeadParser:
    """The memory in which one thread parses heads. After `parse`, `words` are the words of the head (see the constants)."""

    def __init__(self) -> None:
        self._room, self._found = np.zeros(HEAD_BYTES_MAX, np.uint8), np.zeros(WORDS, np.int64)
        self._bytes, self._words = memoryview(self._room.data), memoryview(self._found.data)
        self._at, self._found_at = int(self._room.ctypes.data), int(self._found.ctypes.data)
        self._unpack = struct.Struct(f"{WORDS}q").unpack

    def parse(self, data: bytes) -> int:
        """Return the result of `parse_head` for the head with which `data` begins; INCOMPLETE heads of more than HEAD_BYTES_MAX
        are NOT_PLAIN."""
        size = len(data)
        if size > SHORT_BYTES:
            self._bytes[:SHORT_BYTES] = data[:SHORT_BYTES]
            found = parse_head(self._at, SHORT_BYTES, self._found_at)
            if found != INCOMPLETE:
                return found
            if size > HEAD_BYTES_MAX:
                size, data = HEAD_BYTES_MAX, data[:HEAD_BYTES_MAX]
        self._bytes[:size] = data
        found = parse_head(self._at, size, self._found_at)
        return NOT_PLAIN if found == INCOMPLETE and size == HEAD_BYTES_MAX else found

    def words(self) -> Words:
        """Return the words of the head that was parsed last."""
        return self._unpack(self._words)


def warm_up() -> None:
    """Compile the kernel of this module, or load it from disk."""
    HeadParser().parse(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
