"""A buffer for a body, with padding around it, so that the body can be read in place without a copy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from riata.base.arrays import U8

FRONT: Final = 8  # bytes that must be readable before a body
NEWLINE: Final = 10
_PADDING: Final = 72  # bytes that must be readable after a row
_SIDE_TIMES: Final = 3  # the side area: for strings without escapes, and for folded words, in bytes for each byte of the body


def room_of(size: int) -> int:
    """Bytes for a body of `size` bytes as readers take it: the body, a newline, the side area and padding."""
    return (1 + _SIDE_TIMES) * size + 1 + _PADDING


@dataclass(slots=True)
class Text:
    """A body, and the buffer where it is read."""

    at: int  # address of its first byte; equal to that of `data` if the body is there already
    size: int  # bytes
    data: U8  # u8[room_of(size)] written: the body, and behind it what readers write; FRONT bytes precede it
    lines: int = 0  # set by readers of lines: newlines, plus one


class PaddedBuffer:
    """A body of `size` bytes with the padding that the readers need before and after it, and one byte for a final newline.

    bytes : u8[size]        to be written before it is read
    room  : u8[room_of(size)]   the same memory and what readers need after it; FRONT bytes precede it. Pages that no reader
            touches take no memory
    """

    __slots__ = ("bytes", "room")

    def __init__(self, size: int) -> None:
        self.room: U8 = np.empty(FRONT + room_of(size), np.uint8)[FRONT:]
        self.bytes: U8 = self.room[:size]

    @classmethod
    def of(cls, content: bytes) -> PaddedBuffer:
        """A copy of `content`."""
        made = cls(len(content))
        made.bytes[:] = np.frombuffer(content, np.uint8)
        return made

    def first(self, size: int) -> PaddedBuffer:
        """Its first `size` bytes, in the same memory."""
        made = PaddedBuffer.__new__(PaddedBuffer)
        made.room, made.bytes = self.room[: room_of(size)], self.room[:size]
        return made

    def __len__(self) -> int:
        return len(self.bytes)

    def __bytes__(self) -> bytes:
        return self.bytes.tobytes()
