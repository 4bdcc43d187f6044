"""The metrics that the demonstration displays, parsed from the responses of the service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Reading:
    """The metrics of a model with exponentially fading weights of older examples. None: no value yet.

    examples  : total number of learnt examples
    half_life : number of examples after which the weight of an example is one half
    """

    examples: int
    half_life: int
    log_loss: float | None
    base_log_loss: float | None
    normalised_entropy: float | None
    auc: float | None
    base_rate: float | None
    non_zeros: int


@dataclass(frozen=True, slots=True)
class Moment:
    """Progress of the demonstration. total: number of rows, None if unknown; curve: all readings so far."""

    sent: int
    total: int | None
    rejected: int
    elapsed_s: float
    curve: list[Reading]

    @property
    def events_per_s(self) -> float:
        """Rows sent per second since the start."""
        return self.sent / self.elapsed_s if self.elapsed_s > 0.0 else 0.0


def read_metrics(answer: Mapping[str, Any]) -> Reading:
    """Parse the response of /metrics. Values that are missing or null become None.

    Uses the faded values instead of those of the window: a window moves in whole steps, so its curve looks like a staircase.
    """
    faded = answer.get("faded") or {}
    cumulative = answer.get("cumulative") or {}
    return Reading(
        examples=int(cumulative.get("examples") or 0),
        half_life=int(faded.get("half_life") or 0),
        log_loss=_figure(faded, "log_loss"),
        base_log_loss=_figure(faded, "base_log_loss"),
        normalised_entropy=_figure(faded, "normalised_entropy"),
        auc=_figure(faded, "auc"),
        base_rate=_figure(faded, "base_rate"),
        non_zeros=int(answer.get("non_zeros") or 0),
    )


def _figure(part: Mapping[str, Any], name: str) -> float | None:
    value = part.get(name)
    return float(value) if isinstance(value, int | float) else None
