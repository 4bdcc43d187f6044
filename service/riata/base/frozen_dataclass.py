"""A frozen dataclass for what is made for every row: only the type checker keeps it from being changed.

One that the interpreter freezes takes five times as long to make: it sets each field by a call of `object.__setattr__`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["frozen_dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass as frozen_dataclass
else:
    from dataclasses import dataclass

    def frozen_dataclass(*, frozen, slots, eq=True):
        """Decorate a class; for arguments that `dataclass` has too."""
        return dataclass(slots=slots, eq=eq, unsafe_hash=frozen and eq)
