"""The table of names as a Python set."""

from __future__ import annotations

TWINS_OF = ("rows",)


def lacks(known: set[int], fingerprint: int) -> bool:
    """True where the fingerprint is absent; 0 counts as 1."""
    return (fingerprint or 1) not in known


def enter(known: set[int], fingerprint: int) -> int:
    """1 where it was put, 0 if it was there."""
    absent = lacks(known, fingerprint)
    known.add(fingerprint or 1)
    return int(absent)


def enter_all(known: set[int], fingerprints: list[int], room: int) -> tuple[list[int], int]:
    """For each, 1 where it was put; and how many found no room."""
    fresh: list[int] = []
    dropped = 0
    for fingerprint in fingerprints:
        if sum(fresh) < room:
            fresh.append(enter(known, fingerprint))
        else:
            fresh.append(0)
            dropped += lacks(known, fingerprint)
    return fresh, dropped
