"""A copy of a learner's curvature, taken in the thread that learns, and the regularisation path computed from it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from riata.base.errors import Conflict
from riata.learn.learner import Shadow, Sketch
from riata.learn.registry import SPECS
from riata.predict.uncertainty import regularisation_path
from riata.run.state.config_changes import other_penalty
from riata.run.writer.published import Published


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
