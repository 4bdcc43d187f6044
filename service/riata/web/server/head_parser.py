"""Fast parser of plain HTTP/1.1 request heads, `service/native/head.c`, for requests to hot routes.

It accepts only heads that can be read in one way: GET or POST, a path in visible ASCII, `HTTP/1.1`, lines that end in CRLF,
names of token characters, values of visible ASCII, spaces and tabs, exactly one Host, and no header that changes how a message is
read or that identifies its origin (Transfer-Encoding, Content-Encoding, Expect, Upgrade, Origin, Sec-Fetch-Site, a Connection
other than keep-alive, Proxy-Connection). Whatever it accepts, `web/server/heads.py` reads as the same request. That one reads all
other heads.

A `HeadParser` belongs to one thread.
"""

from __future__ import annotations

import struct
import time
from typing import Final

import numpy as np

from riata.native.library import core
from riata.web.server.heads import HeadReader
from riata.web.server.request import Request

NOT_PLAIN: Final = 0  # result of `HeadParser.parse`: `web/server/heads.py` has to read the head
INCOMPLETE: Final = -1  # its end has not arrived; as far as it has, it is plain
HEAD_BYTES_MAX: Final = 96 * 2**10  # of a whole head; longer ones are not plain
SHORT_BYTES: Final = 2 * 2**10  # copied first: most heads are shorter
# Words of the result. Of each header that is handed out: offset of its value and of the end; -1 and -1 if it was not sent.
IS_POST, TARGET, PATH_STOP, TARGET_STOP, LENGTH, LINES_BYTES, LINES = range(7)
HOST, ACCEPT, CONTENT_TYPE, AUTHORIZATION, IDEMPOTENCY_KEY = range(7, 17, 2)
WORDS: Final = 17
IN_GET: Final = ((b"authorization", AUTHORIZATION),)  # headers that hot routes look at
IN_POST: Final = (*IN_GET, (b"accept", ACCEPT), (b"content-type", CONTENT_TYPE), (b"idempotency-key", IDEMPOTENCY_KEY))

Words = tuple[int, ...]


class HeadParser:
    """The memory in which one thread parses heads. After `parse`, `words` are the words of the head (see the constants)."""

    def __init__(self) -> None:
        self._room, self._found = np.zeros(HEAD_BYTES_MAX, np.uint8), np.zeros(WORDS, np.int64)
        self._bytes, self._words = memoryview(self._room.data), memoryview(self._found.data)
        self._at, self._found_at = int(self._room.ctypes.data), int(self._found.ctypes.data)
        self._unpack = struct.Struct(f"{WORDS}q").unpack

    def parse(self, data: bytes) -> int:
        """Parse the head with which `data` begins: its bytes with the empty line at its end, NOT_PLAIN, or INCOMPLETE.

        An incomplete head of more than HEAD_BYTES_MAX is NOT_PLAIN.
        """
        size = len(data)
        if size > SHORT_BYTES:
            self._bytes[:SHORT_BYTES] = data[:SHORT_BYTES]
            found: int = core.parse_head(self._at, SHORT_BYTES, self._found_at)
            if found != INCOMPLETE:
                return found
            if size > HEAD_BYTES_MAX:
                size, data = HEAD_BYTES_MAX, data[:HEAD_BYTES_MAX]
        self._bytes[:size] = data
        found = core.parse_head(self._at, size, self._found_at)
        return NOT_PLAIN if found == INCOMPLETE and size == HEAD_BYTES_MAX else found

    def words(self) -> Words:
        """Return the words of the head that was parsed last."""
        return self._unpack(self._words)

    def read(self, data: bytes, heads: HeadReader) -> tuple[Request, bytes] | None:
        """Return the request with which `data` begins, and what follows its head. It has the headers that hot routes look at.

        None if the head is not plain or too long, or the body has not arrived: `heads` has to read it. Raises `Refused`.
        """
        end = self.parse(data)
        if end <= 0:
            return None
        words, limits = self.words(), heads.limits
        target, path_stop, stop, length = words[TARGET], words[PATH_STOP], words[TARGET_STOP], max(words[LENGTH], 0)
        if (
            len(data) < end + length
            or stop - target > limits.target_bytes_max
            or words[LINES_BYTES] > limits.head_bytes_max
            or words[LINES] > limits.headers_max
        ):
            return None
        heads.check_host(data[words[HOST] : words[HOST + 1]])
        method, names = ("POST", IN_POST) if words[IS_POST] else ("GET", IN_GET)
        values = {name: data[words[word] : words[word + 1]] for name, word in names if words[word] > 0}
        query = data[path_stop + 1 : stop]
        return Request(method, data[target:path_stop], query, [], values, time.perf_counter(), "1.1", length), data[end:]
