"""A body that is read where it lies: whoever receives one into such memory saves a copy of it."""

from __future__ import annotations

from typing import Final

import numpy as np

from riata.base.arrays import U8
from riata.wire.delimiters import FRONT, PADDING

_NEWLINE_BYTES: Final = 1


class PaddedBuffer:
    """A body of `size` bytes in memory of its own, with the bytes around it that readers look at, and one to end its last line.

    bytes : u8[size]        to be written before it is read
    room  : u8[size + 1 + PADDING]   the same, and what is behind; FRONT bytes are there before it
    """

    __slots__ = ("bytes", "room")

    def __init__(self, size: int) -> None:
        self.room: U8 = np.empty(FRONT + size + _NEWLINE_BYTES + PADDING, np.uint8)[FRONT:]
        self.bytes: U8 = self.room[:size]

    @classmethod
    def of(cls, content: bytes) -> PaddedBuffer:
        """A copy of `content`."""
        made = cls(len(content))
        made.bytes[:] = np.frombuffer(content, np.uint8)
        return made

    def __len__(self) -> int:
        return len(self.bytes)

    def __bytes__(self) -> bytes:
        return self.bytes.tobytes()
