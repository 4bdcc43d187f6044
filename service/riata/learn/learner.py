"""What the rest of the house knows about a learner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from riata.base.arrays import BOOL, F64, U32, Arrays
from riata.wire.batch import Batch

Link = Literal["logistic", "identity", "hinge"]


@dataclass(frozen=True, slots=True)
class Weights:
    """What a learner would serve now. Non-zero weights only.

    slot      : u32[nnz]  strictly increasing; slot = hash >> (32 - bits)
    beta      : f64[nnz]  non-zero, finite
    intercept : float
    link      : how a margin becomes a probability: logistic sigma(margin), identity clip(margin, 0, 1), hinge none
    """

    slot: U32
    beta: F64
    intercept: float
    link: Link
    bits: int


@dataclass(frozen=True, slots=True)
class Stepped:
    """What one call of `step` did, row by row.

    margin  : f64[n]   intercept + beta . x before the row was learnt (test-then-train)
    refused : bool[n]  true where learning the row would have made a number non-finite, or the caller said to skip it;
                       a refused row leaves every part of the learner as it was
    """

    margin: F64
    refused: BOOL


class Learner(Protocol):
    """An online algorithm. Deterministic: no clock, no global random numbers, no dependence on threads.

    The state after events 1..t does not depend on how they were cut into batches.
    """

    def step(self, batch: Batch, skip: BOOL | None = None) -> Stepped:
        """Learn the events of `batch` in order. Rows where `skip` is true are refused."""
        ...

    def freeze(self) -> Arrays:
        """Return copies that determine every later answer to the last bit; keys are stable names."""
        ...

    def thaw(self, arrays: Arrays) -> None:
        """Become the learner that `freeze` was called on. Raises `Corrupt` where the arrays cannot be one."""
        ...

    def weights(self) -> Weights:
        """Return the weights to serve, without changing a bit of the state."""
        ...

    def memory(self) -> dict[str, int]:
        """Return bytes by part: what is allocated, what a checkpoint of it would hold."""
        ...
