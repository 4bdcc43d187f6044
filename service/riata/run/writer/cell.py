"""What the writer keeps of one model, its line of items that wait, and the writer's callbacks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import asdict, field
from typing import Any

from riata.base.dataclass import dataclass, frozen_dataclass
from riata.base.errors import Conflict, RiataError
from riata.base.halt import Halt
from riata.learn.learner import Shadow, Sketch
from riata.learn.registry import SPECS
from riata.predict.uncertainty import regularisation_path
from riata.run.cluster.lease import WriterPosition
from riata.run.log.log_reading import ReadAgain, Turn
from riata.run.state.config_changes import other_penalty
from riata.run.state.core import Core
from riata.run.state.damage import Damage
from riata.run.state.drift_answer import Asked
from riata.run.state.model_state import ModelState
from riata.run.writer.checkpointer import Saved
from riata.run.writer.published import Curvature, Published
from riata.store.store import Record
from riata.watch.progressive import Minute
from riata.wire.batch import Batch

# What is put into the queue of the writer: records to learn, and requests.


@frozen_dataclass(frozen=True, slots=True)
class Logged:
    """A record that is durable and has to be learnt."""

    record: Record
    batch: Batch | None

    @property
    def model(self) -> str:
        return self.record.model


@dataclass(frozen=True, slots=True)
class AddModel:
    """A model to learn from now on. served : whether it is served already, as its first version"""

    state: ModelState
    gen: int = 0  # newest durable generation
    saved: int = 0  # the event it was taken after
    overdue: bool = False  # whether a scheduled checkpoint is due as soon as there is something to save
    served: bool = False

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
class SaveDue:
    """The turn of a model's scheduled checkpoint among those of all models."""

    model: str


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


Item = Logged | AddModel | DropModel | SaveNow | SaveDue | PublishNow | CopySketch | Finished | DrainOne


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


@dataclass(eq=False, slots=True)
class Line:
    """The items of one model that wait, and the model, once it was added.

    busy     : a thread processes its items, and owns `cell`
    dropped  : the model was dropped: nothing of this line counts any more
    entry    : number of its entry among the lines that are ready; 0 if it has none
    left     : it had been left to gather when its turn began
    turn_ms  : the processor time that its next turn is expected to take
    slow_ms  : when a turn of it took long, of the writer's clock; None: never
    halt     : ends what it computes
    why      : what those who wait are told once it was dropped; None: that the model was dropped
    """

    model: str
    cell: Cell | None = None
    lineage: bytes = b""  # of the model that was added last
    items: deque[Item] = field(default_factory=deque)
    pressing: int = 0  # how many of the items are not left to gather
    entry: int = 0
    left: bool = False
    bytes: int = 0  # of the payloads of their records
    busy: bool = False
    dropped: bool = False
    turn_ms: float = 0.0
    slow_ms: int | None = None
    since_s: float = 0.0  # when its first item was put, or what it is busy with began
    halt: Halt = field(default_factory=Halt)
    why: RiataError | None = None

    def took(self, turn_ms: float, is_typical: bool) -> None:
        """Expect turns to be as long as this one, or if it was short and typical, half as long as before."""
        self.turn_ms = max(turn_ms, self.turn_ms / 2 if is_typical else self.turn_ms)


@dataclass(frozen=True, slots=True)
class WriterHooks:
    """The writer's callbacks. They are called in the thread that takes a turn of the model, several at once for several models,
    and must not block, except the last."""

    published: Callable[[Published], None]
    refused: Callable[[str, dict[int, str]], None]  # events that the learner refused by itself, and why: logged as skipped
    drifted: Callable[[str, bytes], None]  # the payload of the event that answers an alarm of the model's drift detector
    saved: Callable[[Saved], None]
    wanted: Callable[[str], int | None]  # the lowest log position of this model that a request waits for
    fatal: Callable[[str, BaseException], None]
    read_again: ReadAgain  # for promotions only; waits for the store's thread
    damaged: Callable[[Damage], object]  # a model with a record that cannot be learnt as it was written


# A copy of a learner's curvature, taken in the thread that learns, and the regularisation path computed from it.


@dataclass(frozen=True, slots=True)
class SketchCopy:
    """Copies, taken between two events.

    version : of the model served at that moment, which may be older than `seq`
    """

    version: int
    seq: int
    sketch: Sketch | None
    shadows: list[Shadow]


@dataclass(frozen=True, slots=True)
class PathQuestion:
    """How many penalties, from which (the largest) to which; None if the sketch decides."""

    gammas: int = 20
    top: float | None = None
    bottom: float | None = None


def path_answer(model: str, looked: SketchCopy, question: PathQuestion, published: Published) -> dict[str, Any]:
    """Solve the path of a sketch. Raises `Conflict` (code `no_sketch`) if the learner keeps none, with the setting that it has.

    published : what is served of the model, with the figures of its own progressive validation
    """
    sketch, figures = looked.sketch, published.figures
    if sketch is None:
        others = " or ".join(kind for kind, spec in SPECS.items() if spec.keeps_curvature)
        raise Conflict(
            f"the learner of model {model} keeps no curvature, so it has no regularisation path; a model with the learner "
            f"{others} does; {other_penalty(published.config, model)}",
            "no_sketch",
        )
    tried = {shadow.gamma: shadow for shadow in looked.shadows}
    points = regularisation_path(sketch, question.gammas, question.top, question.bottom, also=tried)
    return {
        "model": {"name": model, "version": looked.version, "seq": looked.seq},
        "gamma": sketch.penalty,
        "log_loss": figures["cumulative"].get("log_loss"),
        "faded_log_loss": figures["faded"].get("log_loss"),
        "points": [
            {
                **asdict(point),
                "in_force": point.gamma == sketch.penalty,
                "log_loss": _loss(tried.get(point.gamma), "log_loss"),
                "faded_log_loss": _loss(tried.get(point.gamma), "faded_log_loss"),
            }
            for point in points
        ],
        "shadows": [asdict(shadow) for shadow in looked.shadows],
    }


def _loss(shadow: Shadow | None, name: str) -> float | None:
    """Return a loss of a penalty that is tried; None if it is not tried, or no event has tested it yet."""
    return None if shadow is None or shadow.weight == 0.0 else float(getattr(shadow, name))
