"""Framing of bodies in chunks: where a body ends, without reading it."""

from __future__ import annotations

import re
from typing import Final

from riata.web.server import bounds
from riata.web.server.bounds import Refused

FRAMING_BYTES_MAX: Final = 64 * 2**10  # bytes of chunk heads and extensions allowed without any body
FRAMING_RATIO_MAX: Final = 8  # and as many for every byte of body: a chunk of one byte takes five
LINE_BYTES_MAX: Final = 4096  # of a chunk's size and extensions
_TOKEN: Final = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_SIZE: Final = re.compile(rb'([0-9A-Fa-f]{1,16})(?:;%b(?:=(?:%b|"[\x20\x21\x23-\x5b\x5d-\x7e]*"))?)*' % (_TOKEN, _TOKEN))
_SIZE_BEGUN: Final = re.compile(rb"[0-9A-Fa-f]{0,16}(|;[\t\x20-\x7e]*)\r?")  # of a line whose end has not arrived
_LINE_END: Final = b"\r\n"


class ChunkScanner:
    """Finds the end of one body in chunks. Raises `Refused` for malformed chunks, trailers, and more framing than body.

    `body_bytes` counts the body without its framing; `framing_bytes` counts the framing.
    """

    __slots__ = ("_last", "_left", "_line", "body_bytes", "done", "framing_bytes")

    def __init__(self) -> None:
        self.body_bytes = self.framing_bytes = 0
        self.done = False
        self._left = 0  # bytes to come of the data of a chunk, with the line end after them
        self._line = b""  # the part that has arrived of the line of the next chunk's size, or of the last empty line
        self._last = False  # the chunk of size 0 has arrived

    def feed(self, data: bytes) -> int:
        """Scan the next bytes; returns how many of them belong to the body. After its end `done` is true."""
        at = 0
        while at < len(data) and not self.done:
            at = self._in_data(data, at) if self._left else self._in_line(data, at)
            if self.framing_bytes > FRAMING_BYTES_MAX + FRAMING_RATIO_MAX * self.body_bytes:
                raise Refused(bounds.BAD_CHUNKS)
        return at

    def _in_data(self, data: bytes, at: int) -> int:
        there = min(self._left, len(data) - at)
        body = min(max(self._left - len(_LINE_END), 0), there)
        self.body_bytes += body
        self.framing_bytes += there - body
        end = data[at + body : at + there]
        if end != _LINE_END[len(_LINE_END) - self._left + body :][: len(end)]:
            raise Refused(bounds.MALFORMED)
        self._left -= there
        return at + there

    def _in_line(self, data: bytes, at: int) -> int:
        stop = data.find(b"\n", at)
        stop = len(data) if stop < 0 else stop + 1
        self.framing_bytes += stop - at
        self._line += data[at:stop]
        line = self._line
        if line[-1:] == b"\n":
            if line[-2:] != _LINE_END:
                raise Refused(bounds.MALFORMED)
            self._line = b""
            self._whole(line[:-2])
        elif not self._last and _SIZE_BEGUN.fullmatch(line) is None:
            raise Refused(bounds.MALFORMED)
        elif (self._last and line != b"\r") or len(line) > LINE_BYTES_MAX:
            raise Refused(bounds.BAD_CHUNKS)
        return stop

    def _whole(self, line: bytes) -> None:
        if self._last:
            if line:
                raise Refused(bounds.BAD_CHUNKS)
            self.done = True
            return
        size = _SIZE.fullmatch(line)
        if size is None:
            raise Refused(bounds.MALFORMED)
        length = int(size[1], 16)
        self._last = length == 0
        self._left = length + len(_LINE_END) if length else 0


def unchunk(body: bytes) -> bytes:
    """Return the content of a whole body in chunks that a `ChunkScanner` has taken to its end."""
    parts: list[bytes] = []
    at = 0
    while True:
        line = body.index(_LINE_END, at)
        size = int(body[at:line].partition(b";")[0], 16)
        if size == 0:
            return b"".join(parts) if len(parts) != 1 else parts[0]
        start = line + len(_LINE_END)
        parts.append(body[start : start + size])
        at = start + size + len(_LINE_END)
