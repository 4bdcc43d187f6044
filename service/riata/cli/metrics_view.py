"""What the demonstration shows at one moment, read from the answers of the service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Reading:
    """The metrics of a model, older examples counting ever less; None where there is no such figure yet.

    examples  : how many were learnt in all
    half_life : examples after which one counts half
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
    """How far the demonstration has come. total: rows there will be, None where that is not known; curve: every reading."""

    sent: int
    total: int | None
    rejected: int
    elapsed_s: float
    curve: list[Reading]

    @property
    def events_per_s(self) -> float:
        """Rows sent a second, from the first on."""
        return self.sent / self.elapsed_s if self.elapsed_s > 0.0 else 0.0


def read_metrics(answer: Mapping[str, Any]) -> Reading:
    """Read the answer of /metrics; figures that are missing or null are None.

    The faded figures are taken and not those of the window: a window moves in whole steps, which draws a staircase.
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
