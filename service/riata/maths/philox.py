"""Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror & Shaw 2011).

Theory of operation
    A number is a pure function of a key and a counter, so there is no state to keep, to seed, or to share between threads:

        seed    u64   the key: which sequence of all
        stream  u64   the upper half of the counter, such as the number of an event or of a round
        draw    u64   the lower half, which of the numbers of that stream

    The same three give the same 128 bits on every machine. They are two u64, the first of them the lower half. A seed of two
    parts, such as a lineage and a number, is mixed into one u64 by `philox` itself.

        philox(seed, stream, draw)      -> (u64, u64)
        uniform(seed, stream, draw)     -> float in [0, 1), a multiple of 2^-53, from the first u64
        below(seed, stream, draw, n)    -> int in 0 .. n - 1
        normals(seed, stream, draw)     -> two independent standard normal floats, by log, sqrt, cos and sin of the machine

    Arguments are `np.uint64`; inside a kernel an int that is not would make the arithmetic that of floats.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from riata.jit.kernel import inline_kernel, kernel

_ROUNDS: Final = 10
_M0: Final = np.uint64(0xD2511F53)
_M1: Final = np.uint64(0xCD9E8D57)
_W0: Final = np.uint64(0x9E3779B9)  # the golden ratio
_W1: Final = np.uint64(0xBB67AE85)  # sqrt(3) - 1
_LOW: Final = np.uint64(0xFFFFFFFF)
_32: Final = np.uint64(32)
_11: Final = np.uint64(11)
_UNIT: Final = 2.0**-53


@kernel
def philox(seed: np.uint64, stream: np.uint64, draw: np.uint64) -> tuple[np.uint64, np.uint64]:
    """128 random bits.

    Parameters
    ----------
    seed : u64     key
    stream : u64   upper half of the counter
    draw : u64     lower half of the counter

    Returns        two u64: words 0 and 1, and words 2 and 3, the lower word first
    Cost           20 multiplications
    Source         Salmon, Moraes, Dror & Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3"
    """
    k0, k1 = seed & _LOW, seed >> _32
    c0, c1, c2, c3 = draw & _LOW, draw >> _32, stream & _LOW, stream >> _32
    for _ in range(_ROUNDS):
        p0, p1 = _M0 * c0, _M1 * c2
        c0, c1, c2, c3 = (p1 >> _32) ^ c1 ^ k0, p1 & _LOW, (p0 >> _32) ^ c3 ^ k1, p0 & _LOW
        k0, k1 = (k0 + _W0) & _LOW, (k1 + _W1) & _LOW
    return c0 | (c1 << _32), c2 | (c3 << _32)


@inline_kernel
def uniform(seed: np.uint64, stream: np.uint64, draw: np.uint64) -> float:
    """A number in [0, 1): the upper 53 bits of the first u64.

    Source    this module's theory of operation
    """
    first, _ = philox(seed, stream, draw)
    return float(first >> _11) * _UNIT


@inline_kernel
def below(seed: np.uint64, stream: np.uint64, draw: np.uint64, n: int) -> int:
    """A number in 0 .. n - 1; no number is likelier than another by more than a share of n / 2^53.

    Source    this module's theory of operation
    """
    return int(uniform(seed, stream, draw) * n)


@inline_kernel
def normals(seed: np.uint64, stream: np.uint64, draw: np.uint64) -> tuple[float, float]:
    """Two independent numbers of the standard normal distribution.

    Source    Box & Muller 1958
    """
    first, second = philox(seed, stream, draw)
    size = math.sqrt(-2.0 * math.log((float(first >> _11) + 1.0) * _UNIT))  # of a number in (0, 1]
    angle = 2.0 * math.pi * float(second >> _11) * _UNIT
    return size * math.cos(angle), size * math.sin(angle)
