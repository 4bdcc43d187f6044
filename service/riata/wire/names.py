"""Which feature names this server has met, so that a weight can be shown by name.

Theory of operation
    Weights are stored by hash. A name is written to the log once, with the first request that carried it; this table
    says, for each record of a request, whether that has happened. It holds 64-bit fingerprints in open addressing,
    linear probing, at most half full. A probe gives up after PROBE_MAX steps and calls the name known: names made to
    collide are then merely not shown, and cost nobody time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from riata.base.arrays import U64
from riata.base.limits import NAMES_KEPT_MAX
from riata.maths.kernel import kernel

PROBE_MAX: Final = 64
_EMPTY = np.uint64(0)
_ONE = np.uint64(1)


@kernel
def lacks(table: U64, fingerprint: np.uint64) -> bool:
    """Say whether `fingerprint` is not in `table`.

    Parameters
    ----------
    table : u64[2^k]     0 where empty; read only
    fingerprint : u64    0 counts as 1

    Returns              true where it is surely absent; false where present, or where the probe gave up
    Cost                 at most PROBE_MAX reads, usually one or two
    Source               this module's theory of operation
    """
    wanted = fingerprint if fingerprint != _EMPTY else _ONE
    mask = np.uint64(len(table) - 1)
    at = wanted & mask
    for _ in range(min(PROBE_MAX, len(table))):
        held = table[at]
        if held == wanted:
            return False
        if held == _EMPTY:
            return True
        at = (at + _ONE) & mask
    return False


@kernel
def enter(table: U64, fingerprint: np.uint64) -> int:
    """Put `fingerprint` into `table`.

    Parameters
    ----------
    table : u64[2^k]     overwritten
    fingerprint : u64    0 counts as 1

    Returns              1 where it was put, 0 where it was there, -1 where the probe gave up
    Cost                 at most PROBE_MAX reads
    Source               this module's theory of operation
    """
    wanted = fingerprint if fingerprint != _EMPTY else _ONE
    mask = np.uint64(len(table) - 1)
    at = wanted & mask
    for _ in range(min(PROBE_MAX, len(table))):
        if table[at] == wanted:
            return 0
        if table[at] == _EMPTY:
            table[at] = wanted
            return 1
        at = (at + _ONE) & mask
    return -1


class NamesSeen:
    """A set of name fingerprints of fixed capacity. One thread adds; reading beside it is harmless."""

    def __init__(self, capacity: int = NAMES_KEPT_MAX) -> None:
        """Make room for `capacity` names; 0 keeps none."""
        self.capacity = capacity
        self.count = 0
        self.dropped = 0  # names that were offered to `add` and found no room
        self._table: U64 = np.zeros(1 << (2 * max(capacity, 1)).bit_length(), np.uint64)

    @property
    def full(self) -> bool:
        """True where no further name is kept."""
        return self.count >= self.capacity

    def table(self) -> U64:
        """The table for kernels, or an empty array where the set is full: then nothing is worth looking up."""
        return self._table[:0] if self.full else self._table

    def __contains__(self, fingerprint: int) -> bool:
        return not lacks(self._table, np.uint64(fingerprint))

    def __len__(self) -> int:
        return self.count

    def add(self, fingerprints: Iterable[int]) -> int:
        """Mark names as seen, once the request that carried them is in the log. Returns how many were new and kept."""
        kept = 0
        for fingerprint in fingerprints:
            if self.full:
                self.dropped += fingerprint not in self
                continue
            put = enter(self._table, np.uint64(fingerprint))
            kept += put == 1
            self.count += put == 1
            self.dropped += put == -1
        return kept


NO_NAMES: Final[U64] = np.zeros(0, np.uint64)  # the table of a reader that is not asked for names
EVERY_NAME: Final[U64] = np.zeros(2, np.uint64)  # an empty table: every record is listed; never written to
