"""Questions about the bytes of a word, asked byte by byte."""

from __future__ import annotations


def load_word(data: bytes, at: int) -> int:
    """Eight bytes, little endian."""
    return int.from_bytes(data[at : at + 8], "little")


def first_not_plain(word: bytes) -> int:
    """The first byte that a plain string cannot hold; 8 where there is none."""
    return next((i for i, c in enumerate(word) if c < 0x20 or c >= 0x7F or c in b'"\\'), 8)


def leading_digits(word: bytes) -> tuple[int, int]:
    """The number at the front, and its digits."""
    count = next((i for i, c in enumerate(word) if c not in b"0123456789"), 8)
    return int(word[:count] or b"0"), count
