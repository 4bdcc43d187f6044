"""A hash map from the key of a feature to its position in the block, with open addressing.

An entry is key * 2^16 + position + 1, or 0 if it is empty, so one read returns key and position. The table is at most half full.
Entries are never deleted: the table is rebuilt after features have left the block. The order of the entries is not part of a
learner's state, because a lookup does not depend on it.
"""

from __future__ import annotations

from typing import Final

from riata.base.arrays import I64
from riata.jit.kernel import inline_kernel, kernel

_SPREAD: Final = 0x9E3779B1  # 2^32 / golden ratio, odd: adjacent keys are mapped far apart
_WORD: Final = 0xFFFFFFFF
_BITS: Final = 16  # of a position, more than it needs; the top 16 bits of the product select the first probe
_POSITION: Final = (1 << _BITS) - 1


@inline_kernel
def position_of(place: I64, key: int) -> int:
    """Return the position of a key, or -1 if it has none.

    Source    open addressing with linear probing; this module
    """
    mask = len(place) - 1
    at = (((key * _SPREAD) & _WORD) >> _BITS) & mask
    while place[at] != 0 and place[at] >> _BITS != key:
        at = (at + 1) & mask
    return int(place[at] & _POSITION) - 1


@inline_kernel
def put(place: I64, key: int, position: int) -> None:
    """Insert a key that is not in the map.

    Source    open addressing with linear probing; this module
    """
    mask = len(place) - 1
    at = (((key * _SPREAD) & _WORD) >> _BITS) & mask
    while place[at] != 0:
        at = (at + 1) & mask
    place[at] = (key << _BITS) | (position + 1)


@kernel
def fill_places(key: I64, size: int, place: I64) -> None:
    """Rebuild the map from the keys of the block.

    Parameters
    ----------
    key : i64[cap]      by position; -1 if there is none
    size : int          positions in use
    place : i64[2^n]    overwritten; 2^n is at least 2 size

    Returns             nothing
    Cost                O(2^n)
    Source              this module
    """
    place[:] = 0
    for position in range(size):
        if key[position] >= 0:
            put(place, key[position], position)
