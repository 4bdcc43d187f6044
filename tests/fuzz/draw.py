"""Choices out of bytes: by these a fuzzer, which knows bytes alone, builds structured inputs, and a kept one is replayed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Draw:
    """Reads choices from `data`, front to back; after its end every choice is the first one."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        """Bytes not read yet."""
        return len(self._data) - self._at

    def take(self, count: int) -> bytes:
        """The next `count` bytes, fewer at the end."""
        taken = self._data[self._at : self._at + count]
        self._at += len(taken)
        return taken

    def below(self, count: int) -> int:
        """A number of 0 .. count - 1; 0 if count is below 1."""
        if count <= 1:
            return 0
        width = ((count - 1).bit_length() + 7) // 8
        return int.from_bytes(self.take(width), "little") % count

    def pick(self, options: Sequence[T]) -> T:
        """One of `options`, which are not empty."""
        return options[self.below(len(options))]

    def text(self) -> bytes:
        """Up to 255 bytes, preceded by their number."""
        return self.take(self.below(256))

    def rest(self) -> bytes:
        """All remaining bytes."""
        return self.take(self.left)
