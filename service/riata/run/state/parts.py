"""The learner and the figures of a state, as its configuration asks for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from riata.learn.learner import Learner, Stepped
from riata.learn.one_vs_rest import OneVsRest
from riata.learn.registry import LearnerConfig, build_learner, spec_of
from riata.learn.tuned import LEAST_OF_CLASSES, Tuned
from riata.run.log.row_groups import is_set
from riata.run.state.config import ModelConfig
from riata.watch.class_progressive import ClassProgressive
from riata.watch.progressive import Progressive, ProgressiveConfig
from riata.wire.classes import ClassesConfig

NOT_FINITE: Final = "learning it would have made a weight non-finite"
NO_CLASS: Final = "its class is not one of the model's classes"
NO_ROOM: Final = "it has a feature for which the learner's vocabulary has no room"


def build_parts(config: ModelConfig, bits: int) -> tuple[Learner, Progressive]:
    """Return the empty learner of a configuration, with 2^bits slots, and its figures."""
    classes = config.classes
    make = partial(build_learner, bits=bits, hash_key=config.encoder.hash_key)
    if config.has_classes:
        several = _several(make, spec_of(config.learner).candidates(config.learner), classes)
        return several, ClassProgressive(ProgressiveConfig(answers=several.weights().link), classes.names)
    learner = make(config.learner)
    answers = "real" if config.labels == "real" else learner.weights().link
    return learner, Progressive(ProgressiveConfig(answers=answers))


def _several(make: Callable[[LearnerConfig], Learner], tried: Sequence[LearnerConfig], classes: ClassesConfig) -> Learner:
    if len(tried) == 1:
        return OneVsRest(partial(make, tried[0]), len(classes.names), classes.max)
    return Tuned(
        lambda own: OneVsRest(partial(make, own), 0, classes.max), tried, least=LEAST_OF_CLASSES, classes=len(classes.names)
    )


def grow(learner: Learner, progressive: Progressive, classes: ClassesConfig) -> None:
    """Have the learner and the figures of a state know these classes, of which those so far are the first."""
    if isinstance(learner, (OneVsRest, Tuned)) and isinstance(progressive, ClassProgressive):
        learner.grow(len(classes.names))
        progressive.grow(classes.names)


def why_refused(stepped: Stepped, row: int) -> str:
    """Return why a learner refused a row by itself."""
    if is_set(stepped.no_room, row):
        return NO_ROOM
    return NO_CLASS if stepped.margin.ndim > 1 and stepped.label[row] >= stepped.margin.shape[1] else NOT_FINITE
