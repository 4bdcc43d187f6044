"""Where keys are, as a dictionary."""

from __future__ import annotations

from collections.abc import Sequence

TWINS_OF = ("learn/taylor_sketch/slot_map",)


def fill_places(key: Sequence[int], size: int) -> dict[int, int]:
    """Position of every key among the first `size`; -1 is no key."""
    return {one: position for position, one in enumerate(key[:size]) if one >= 0}
