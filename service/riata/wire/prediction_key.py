"""The key of a prediction whose label is awaited: when the label is due, and chance.

A prediction's id is its key in hexadecimal:

     0                       6                                        16 bytes
    ┌───────────────────────┬────────────────────────────────────────┐
    │ due_ms u48, big endian│ chance, 80 bits                         │
    └───────────────────────┴────────────────────────────────────────┘

`due_ms` is the unix time until which the label is awaited. It is part of the id so that a label that comes too late can be
distinguished from a label of an unknown prediction after all other state of both is gone.
"""

from __future__ import annotations

from typing import Final

KEY_BYTES: Final = 16
DUE_BYTES: Final = 6


def make_key(due_ms: int, chance: bytes) -> bytes:
    """The key of a prediction whose label is awaited until `due_ms`; `chance` is 10 random bytes."""
    return due_ms.to_bytes(DUE_BYTES, "big") + chance


def due_of(key: bytes) -> int:
    """The unix time, in ms, until which the label of a prediction is awaited."""
    return int.from_bytes(key[:DUE_BYTES], "big")
