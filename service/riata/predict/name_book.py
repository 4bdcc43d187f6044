"""Which feature names fall into which slot, so that weights can be shown by name."""

from __future__ import annotations

import sys

from riata.base.limits import NAMES_KEPT_MAX

FINGERPRINT_BITS = 64


class NameBook:
    """Names by slot, up to a capacity. One thread writes, any number read.

    A reader sees each name wholly or not at all: a slot's tuple is replaced by one assignment, and the list of all
    names only ever grows at its end.
    """

    def __init__(self, bits: int, capacity: int = NAMES_KEPT_MAX) -> None:
        self.bits = bits
        self.capacity = capacity
        self.dropped = 0
        self._by_slot: dict[int, tuple[str, ...]] = {}
        self._all: list[tuple[str, int]] = []
        self._text_bytes = 0

    def __len__(self) -> int:
        return len(self._all)

    def add(self, fingerprint: int, name: bytes) -> bool:
        """Note that `name` (UTF-8) has this 64-bit fingerprint. False where it is known already, or no room is left
        (then `dropped` counts it)."""
        text = name.decode("utf-8", "replace")
        slot = fingerprint >> (FINGERPRINT_BITS - self.bits)
        present = self._by_slot.get(slot, ())
        if text in present:
            return False
        if len(self._all) >= self.capacity:
            self.dropped += 1
            return False
        self._by_slot[slot] = (*present, text)
        self._all.append((text, slot))
        self._text_bytes += sys.getsizeof(text)
        return True

    def in_slot(self, slot: int) -> list[str]:
        """Return every name seen in `slot`, oldest first."""
        return list(self._by_slot.get(slot, ()))

    def slots_with(self, prefix: str) -> list[int]:
        """Return the slots in which a name begins with `prefix`, increasing. Cost: one look at every name."""
        return sorted({slot for text, slot in self._all if text.startswith(prefix)})

    def memory(self) -> int:
        """Return bytes, about: the texts, and what the dictionary, the tuples and the list take for them."""
        entry_bytes = 2 * sys.getsizeof(("", 0)) + sys.getsizeof(2**30)
        containers = sys.getsizeof(self._by_slot) + sys.getsizeof(self._all)
        return self._text_bytes + containers + entry_bytes * len(self._all)
