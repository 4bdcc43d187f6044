"""What predictions and pages read: immutable, replaced by one assignment, never changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from riata.base.arrays import U32
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
    closed_vocabulary: U32 | None = None  # the slots that alone may occur in rows from now on; see `Learner.closed_vocabulary`
    no_std_error: str = ""  # why predictions carry no standard error; empty where they do
    chain: bytes = b""  # of the log at `applied`
    changes: tuple[int, ...] = ()  # the last events that set the configuration, oldest first; empty where that is not known
