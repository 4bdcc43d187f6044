"""The table of names as a Python set."""

from __future__ import annotations


def lacks(known: set[int], fingerprint: int) -> bool:
    """True where the fingerprint is absent; 0 counts as 1."""
    return (fingerprint or 1) not in known


def enter(known: set[int], fingerprint: int) -> int:
    """1 where it was put, 0 where it was there."""
    absent = lacks(known, fingerprint)
    known.add(fingerprint or 1)
    return int(absent)
