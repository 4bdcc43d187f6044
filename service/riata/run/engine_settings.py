"""What the engine is told, and what it counts."""

from __future__ import annotations

from dataclasses import dataclass

from riata.run.checkpointer import Retention


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """What the engine needs to be told; see the settings of the same names."""

    host: str
    retention: Retention
    durability: str
    inbox_requests_max: int = 1024
    lag_events_max: int = 250_000
    observe_timeout_ms: int = 10_000
    min_seq_wait_ms: int = 2_000
    scrub_every_s: float = 600.0


@dataclass(slots=True)
class Tally:
    """Counts for the operator."""

    checkpoints_ok: int = 0
    checkpoints_failed: int = 0
    checkpoint_last_ms: int = 0
    generations_corrupt: int = 0
    compiled: bool = False
    replayed: int = 0
    to_replay: int = 0

    def saved(self, ok: bool, took_ms: int) -> None:
        """Count a checkpoint that ended."""
        self.checkpoints_ok += ok
        self.checkpoints_failed += not ok
        self.checkpoint_last_ms = took_ms
