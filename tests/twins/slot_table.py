"""Lines of slots, as a dictionary."""

from __future__ import annotations

from collections.abc import Sequence

TWINS_OF = ("slot_table",)


def enter(known: dict[int, int], hashes: Sequence[int], shift: int, up: int, lines: int) -> tuple[list[int], int]:
    """The lines, times 2^up, of the hashes up to the first whose slot has none and gets none; and how many these are.

    known : line of each slot so far; those of new slots are added, as long as there are fewer than `lines`
    """
    out: list[int] = []
    for number in hashes:
        slot = number >> shift
        if slot not in known and len(known) == lines:
            break
        out.append(known.setdefault(slot, len(known)) << up)
    return out, len(out)
