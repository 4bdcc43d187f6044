"""The processes that share a store: the one that owns it, and what each says of itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Holder:
    """Owner of a shared store, and the time until its lease expires unless it is renewed."""

    epoch: int
    host: str
    remaining_ms: int
    algo_version: int


class Process(NamedTuple):
    """A process that uses a shared store, and what it last said of itself."""

    host: str
    age_ms: int  # since it said so
    said: bytes  # opaque to a store
