"""What is read from the header of a checkpoint, and its arrays by prefix."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar

from riata.base.arrays import Arrays
from riata.watch.curves import NOTHING_CARRIED, UNKNOWN, Carried

T = TypeVar("T")
CARRIED: Final = "carried"
FADED_BASES: Final = "faded_bases"  # beside the arrays, so that states have the digests that they had before it was kept
NEW: Final[Mapping[str, Any]] = MappingProxyType({"applied": 0, "restored": False})  # of a state that was never moved
EVENTS_MAX: Final = 2**62  # no log is longer; sums with it still fit into 64 bits


def carried(header: Mapping[str, Any]) -> Carried:
    """Return which points of the learning curve were made in another log. Raises `ValueError`."""
    applied = number(header["applied"])
    if not typed(header["restored"], bool):
        return NOTHING_CARRIED
    if CARRIED not in header:  # written by an older version
        return Carried(applied, UNKNOWN)
    seq, examples = (number(one) for one in header[CARRIED])
    if seq > applied:
        raise ValueError(f"event {seq} of the log carried the state, but the state is at event {applied}")
    return Carried(seq, examples)


def faded_bases(header: Mapping[str, Any]) -> list[float | None]:
    """Return the faded loss of the base rate at each point of the learning curve; an older checkpoint has none. Raises
    `ValueError`."""
    return [None if one is None else typed(one, float) for one in typed(header.get(FADED_BASES, []), list)]


def typed(value: object, kind: type[T]) -> T:
    """Return `value` if its type is exactly `kind`, without conversion. Raises `ValueError`."""
    if type(value) is not kind:
        raise ValueError(f"expected {kind.__name__}, got {type(value).__name__}")
    return value


def number(value: object) -> int:
    """Return `value` if it can be a count of events or an event number. Raises `ValueError`."""
    found = typed(value, int)
    if not 0 <= found <= EVENTS_MAX:
        raise ValueError("a number of events is out of range")
    return found


def part(arrays: Arrays, prefix: str) -> Arrays:
    """Return the arrays whose names begin with `prefix`, without it."""
    return {key[len(prefix) :]: value for key, value in arrays.items() if key.startswith(prefix)}
