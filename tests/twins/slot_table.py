"""Lines of slots, as a dictionary."""

from __future__ import annotations

from collections.abc import Sequence

TWINS_OF = ("slot_table",)


def enter(known: dict[int, int], hashes: Sequence[int], shift: int, up: int) -> list[int]:
    """The lines, times 2^up, of the slots of hashes.

    known : line of each slot so far; those of new slots are added
    """
    return [known.setdefault(number >> shift, len(known)) << up for number in hashes]
