"""What is put into the queue of the writer: records to learn, and requests."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field

from riata.run.state.model_state import ModelState
from riata.run.writer.checkpointer import Saved
from riata.run.writer.sketch_copy import SketchCopy
from riata.store.store import Record
from riata.wire.batch import Batch


@dataclass(frozen=True, slots=True)
class Logged:
    """A record that is durable and has to be learnt."""

    record: Record
    batch: Batch | None

    @property
    def model(self) -> str:
        return self.record.model


@dataclass(frozen=True, slots=True)
class AddModel:
    """A model to learn from now on."""

    state: ModelState
    gen: int = 0  # newest durable generation
    saved: int = 0  # the event it was taken after

    @property
    def model(self) -> str:
        return self.state.name


@dataclass(frozen=True, slots=True)
class DropModel:
    """A model that was dropped; not one of the same name and another lineage."""

    model: str
    lineage: bytes = b""


@dataclass(frozen=True, slots=True)
class SaveNow:
    """A checkpoint that a caller waits for; with `if_ahead` only if the newest one is not of the present state. `requested`: by a
    client, not by the service itself. `note`: of one that is kept until it is deleted; None for others."""

    model: str
    if_ahead: bool = False
    requested: bool = False
    note: str | None = None
    future: Future[Saved] = field(default_factory=Future)


@dataclass(frozen=True, slots=True)
class PublishNow:
    """A caller waits until a model's present state is served."""

    model: str


@dataclass(frozen=True, slots=True)
class CopySketch:
    """A caller reads a model's curvature; the reply is a copy, so that learning continues."""

    model: str
    future: Future[SketchCopy] = field(default_factory=Future)


@dataclass(frozen=True, slots=True)
class Finished:
    """A checkpoint that ended, successfully or not."""

    saved: Saved

    @property
    def model(self) -> str:
        return self.saved.model


@dataclass(eq=False, slots=True)
class Drain:
    """A request to be told when everything put before it was learnt and published: `left` counts the lines that are not there
    yet."""

    future: Future[None] = field(default_factory=Future)
    left: int = 0


@dataclass(frozen=True, slots=True)
class DrainOne:
    """The place of a `Drain` in the line of one model."""

    model: str
    drain: Drain


Item = Logged | AddModel | DropModel | SaveNow | PublishNow | CopySketch | Finished | DrainOne
