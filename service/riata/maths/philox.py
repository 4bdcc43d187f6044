"""Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror & Shaw 2011), from `service/native/philox.h`.

Theory of operation
    A number is a pure function of a key and a counter, so there is no state to keep, to seed, or to share between threads:

        seed    the key: which sequence of all
        stream  the upper half of the counter, such as the number of an event or of a round
        draw    the lower half, which of the numbers of that stream

    The same three give the same 64 bits on every machine.
"""

from __future__ import annotations

from typing import Final, SupportsInt

from riata.native.library import core

_UNIT: Final = 2.0**-53


def random_bits(seed: SupportsInt, stream: SupportsInt, draw: SupportsInt) -> int:
    """Return 64 random bits. The arguments are in 0 .. 2^64 - 1."""
    return int(core.random(int(seed), int(stream), int(draw), False))


def below(seed: SupportsInt, stream: SupportsInt, draw: SupportsInt, n: int) -> int:
    """Return a number in 0 .. n - 1; no number is likelier than another by more than a share of n / 2^53."""
    return int((random_bits(seed, stream, draw) >> 11) * _UNIT * n)
