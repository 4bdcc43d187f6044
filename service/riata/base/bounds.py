"""What the annotation of a field of a configuration document says besides its type: its bounds and its reason.

The classes of `annotated_types` with these names take 10 ms to import.
"""

from __future__ import annotations

from riata.base.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Ge:
    """At least this."""

    ge: float


@dataclass(frozen=True, slots=True)
class Gt:
    """More than this."""

    gt: float


@dataclass(frozen=True, slots=True)
class Le:
    """At most this."""

    le: float


@dataclass(frozen=True, slots=True)
class Lt:
    """Less than this."""

    lt: float


@dataclass(frozen=True, slots=True)
class MaxLen:
    """At most so many characters or items."""

    max_length: int


@dataclass(frozen=True, slots=True)
class Doc:
    """What the field does."""

    text: str
