"""Is the service alive, started, ready, and if not, why."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ModelHealth:
    """Where one model stands."""

    seq_logged: int
    seq_applied: int
    version: int
    age_s: float  # since what is served was published
    non_zeros: int


@dataclass(frozen=True, slots=True)
class Health:
    """The service at one moment.

    alive: threads run and nothing fatal happened; started: every log was replayed; ready: events and predictions are taken.
    """

    alive: bool
    started: bool
    ready: bool
    reasons: list[str]
    fatal: str | None
    warnings: list[str]
    models: dict[str, ModelHealth]
    checkpoints: dict[str, int] = field(default_factory=dict)  # ok, failed, last_ms, and generations found corrupt
    replayed: tuple[int, int] = (0, 0)  # events replayed at start so far, of how many
