"""The rule for acquiring a store, shared by every store."""

from __future__ import annotations

from riata.base.errors import Conflict


def older_algorithm(mine: int, last: int) -> Conflict:
    """Return the `Conflict` (code `older_algorithm`) for a program with older algorithms than those of the last owner."""
    return Conflict(
        f"this program has algorithm version {mine}, and the store was last owned by one with version {last}: run that version "
        "or a newer one; to go back, import an export that the older version made into a new store",
        "older_algorithm",
    )
