"""What the writer keeps of one model, and its callbacks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from riata.run.checkpointer import Saved
from riata.run.cluster.lease import WriterPosition
from riata.run.core import Core
from riata.run.drift_answer import Asked
from riata.run.log_reading import ReadAgain
from riata.run.model_state import ModelState
from riata.run.published import Published
from riata.run.publishing import Curvature
from riata.run.turn_size import Turn
from riata.run.writer_queue import SaveNow
from riata.watch.minute import Minute


@dataclass(slots=True)
class Cell:
    """One model of the writer."""

    state: ModelState
    core: Core
    gen: int  # newest durable generation
    version: int = 0
    position: WriterPosition | None = None  # replaced after every record: another thread reads it
    curvature: Curvature = field(default_factory=Curvature)
    turn: Turn = field(default_factory=Turn)
    minute: Minute = field(default_factory=Minute)
    asked: Asked | None = None  # the last answer to drift that was asked for
    waiting: list[SaveNow] = field(default_factory=list)  # requests for the next checkpoint
    being_saved: list[SaveNow] = field(default_factory=list)  # requests for the checkpoint under way


@dataclass(frozen=True, slots=True)
class WriterHooks:
    """The writer's callbacks; all are called in the writer's thread and must not block, except the last."""

    published: Callable[[Published], None]
    refused: Callable[[str, dict[int, str]], None]  # events that the learner refused by itself, and why: logged as skipped
    drifted: Callable[[str, bytes], None]  # the payload of the event that answers an alarm of the model's drift detector
    saved: Callable[[Saved], None]
    wanted: Callable[[str], int | None]  # the lowest log position of this model that a request waits for
    fatal: Callable[[str, BaseException], None]
    read_again: ReadAgain  # for promotions only; waits for the store's thread
