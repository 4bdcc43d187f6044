"""Lists of slots: which lines of a table of 2^bits are not empty, so that no code has to scan the table."""

from __future__ import annotations

from typing import Final

from riata.base.arrays import F64, U32
from riata.jit.kernel import kernel
from riata.jit.raw.prefetch import AHEAD, prefetch

RUN: Final = 8  # slots that are moved at once if no new slot goes between them


@kernel
def merge_tail(slot: U32, tail: U32) -> None:
    """Merge a sorted copy of the end of a list into the sorted rest of it.

    Parameters
    ----------
    slot : u32[m]          the first m - len(tail) are sorted; overwritten with all m, sorted
    tail : u32[t]          the last t of them, sorted

    Returns                nothing
    Cost                   O(m)
    Source             a merge from the back, where there is space
    """
    to = len(slot) - 1
    left = to - len(tail)
    right = len(tail) - 1
    while left >= 0 and right >= 0:
        new = tail[right]
        if left >= RUN and slot[left - RUN] > new:  # usual if the tail is short, so the branch is predictable
            for k in range(RUN):
                slot[to - k] = slot[left - k]
            to -= RUN
            left -= RUN
            continue
        old = slot[left]  # no branch selects one of the two, as it would be unpredictable
        is_old = old > new
        slot[to] = old if is_old else new
        left -= int(is_old)
        right -= int(not is_old)
        to -= 1
    while right >= 0:
        slot[to] = tail[right]
        right -= 1
        to -= 1


@kernel
def prune(line: F64, column: int, floor: float, slot: U32) -> int:
    """Keep the listed slots whose number in one column is above a floor in absolute value, each once.

    Parameters
    ----------
    line : f64[2^bits, w]  read only
    column : int           which number of a line is compared
    floor : float          a slot stays if |number| > floor; 0 keeps what is not zero, -1 everything
    slot : u32[m]          non-decreasing; its head is overwritten with the slots kept, strictly increasing

    Returns                how many were kept
    Cost                   O(m)
    Source                 this module
    """
    kept = 0
    last = len(slot) - 1
    for p in range(len(slot)):
        prefetch(line, int(slot[min(p + AHEAD, last)]))
        at = slot[p]
        again = p < last and slot[p + 1] == at
        # Which slots stay is unpredictable for a branch: each is written, and the next one may overwrite it.
        slot[kept] = at
        kept += int(abs(line[at, column]) > floor) & int(not again)
    return kept


@kernel
def pick(line: F64, slot: U32, column: int, left: F64, right: F64) -> None:
    """Copy two adjacent columns of the listed slots.

    Parameters
    ----------
    line : f64[2^bits, w]  read only
    slot : u32[m]          which lines
    column : int           the first of the two columns
    left, right : f64[m]   overwritten

    Returns                nothing
    Cost                   O(m)
    Source                 this module
    """
    last = len(slot) - 1
    for p in range(len(slot)):
        prefetch(line, int(slot[min(p + AHEAD, last)]))
        left[p] = line[slot[p], column]
        right[p] = line[slot[p], column + 1]
