"""What is left of the weights, the plain way."""

from __future__ import annotations

from collections.abc import Mapping

TWINS_OF = ("truncated_gradient",)


def collect(beta: Mapping[int, float]) -> dict[int, float]:
    """The non-zero weights by slot, in increasing order of slot."""
    return {slot: beta[slot] for slot in sorted(beta) if beta[slot] != 0.0}
