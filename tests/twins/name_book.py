"""The book of names as a dictionary that is searched from end to end."""

from __future__ import annotations

TWINS_OF = ("rows",)


class NameBook:
    """Fingerprint to name, in the order they came."""

    def __init__(self, bits: int, capacity: int) -> None:
        self.bits, self.capacity, self.dropped = bits, capacity, 0
        self.names: dict[int, str] = {}

    def add_all(self, pairs: list[tuple[int, bytes]]) -> None:
        """Keep each name that is new while there is room."""
        for fingerprint, name in pairs:
            if fingerprint not in self.names:
                if len(self.names) < self.capacity:
                    self.names[fingerprint] = name.decode()
                else:
                    self.dropped += 1

    def in_slot(self, slot: int) -> list[str]:
        """Names of a slot, oldest first."""
        return [name for fingerprint, name in self.names.items() if fingerprint >> (64 - self.bits) == slot]

    def slots_with(self, prefix: str) -> list[int]:
        """Slots in which a name begins with `prefix`."""
        return sorted({f >> (64 - self.bits) for f, name in self.names.items() if name.startswith(prefix)})
