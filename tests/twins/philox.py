"""Philox4x32-10 in unbounded integers, from its description."""

from __future__ import annotations

TWINS_OF = ("losses",)

_WORD = 2**32


def philox(seed: int, stream: int, draw: int) -> tuple[int, int]:
    """Ten rounds of two multiplications; the upper halves are mixed with the key and with the other words."""
    counter = [draw % _WORD, draw // _WORD, stream % _WORD, stream // _WORD]
    key = [seed % _WORD, seed // _WORD]
    for number in range(10):
        k0, k1 = (key[0] + number * 0x9E3779B9) % _WORD, (key[1] + number * 0xBB67AE85) % _WORD
        high0, low0 = divmod(0xD2511F53 * counter[0], _WORD)
        high1, low1 = divmod(0xCD9E8D57 * counter[2], _WORD)
        counter = [high1 ^ counter[1] ^ k0, low1, high0 ^ counter[3] ^ k1, low0]
    return counter[0] + counter[1] * _WORD, counter[2] + counter[3] * _WORD
