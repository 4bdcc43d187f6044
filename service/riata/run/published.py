"""What predictions and pages read: immutable, replaced by one assignment, never changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from riata.predict.model import Model
from riata.run.config import ModelConfig


@dataclass(frozen=True, slots=True)
class Published:
    """A model as it was after `model.seq` events, with the figures of that moment."""

    model: Model
    config: ModelConfig
    figures: dict[str, Any]
    history: list[dict[str, Any]]
    memory: dict[str, int]  # bytes by part
    applied: int  # log position; differs from model.seq while nothing was learnt
    skipped: int
    version: int
    published_ms: int  # unix time, for people
    published_mono_ms: int  # for ages
