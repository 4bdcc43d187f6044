"""The learner of a state, and the table of the observers that watch it.

What watches a model is one module, with an `Observer`, and one line of `KINDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeVar, cast

from riata.base.arrays import Arrays
from riata.base.dataclass import dataclass
from riata.learn.learner import Learner, Stepped, Weights
from riata.learn.registry import build_learner
from riata.maths.links import Answers
from riata.run.candidates.pairs import pairs_as_asked
from riata.run.log.log_reading import is_set
from riata.run.state.config import Change, ModelConfig
from riata.watch.class_progressive import ClassProgressive
from riata.watch.drift import detector_as_asked
from riata.watch.observer import Observer, Rows
from riata.watch.progressive import Progressive, ProgressiveConfig, part
from riata.watch.slices import slices_as_asked
from riata.watch.warnings import columns_as_asked
from riata.watch.weight_history import followed_as_asked

O = TypeVar("O", bound=Observer)  # noqa: E741

NOT_FINITE: Final = "learning it would have made a weight non-finite"
NO_CLASS: Final = "its class is not one of the model's classes"
NO_ROOM: Final = "it has a feature for which the learner's vocabulary has no room"


def build_parts(config: ModelConfig, bits: int) -> tuple[Learner, Answers]:
    """Return the empty learner of a configuration, with 2^bits slots, and its answers as `ProgressiveConfig.answers`."""
    settings, classes = config.learner, config.classes
    if config.encoder.normalise == "l2" or (config.has_classes and not classes.limited):
        settings = settings.as_sent()
    several = (len(classes.names), classes.max) if config.has_classes else None
    learner = build_learner(settings, bits, config.encoder.hash_key, several)
    return learner, "real" if config.labels == "real" else learner.weights().link


def why_refused(stepped: Stepped, row: int) -> str:
    """Return why a learner refused a row by itself."""
    if is_set(stepped.no_room, row):
        return NO_ROOM
    return NO_CLASS if stepped.margin.ndim > 1 and stepped.label[row] >= stepped.margin.shape[1] else NOT_FINITE


@dataclass(frozen=True, slots=True)
class Asked:
    """What decides which observers a model has.

    change  : a config event, or the configuration of a state that was put in place
    answers : of the learner, as `ProgressiveConfig.answers`
    now     : number of events that were learnt, and what returns the weights
    """

    change: Change
    answers: Answers
    now: tuple[int, Callable[[], Weights]]


class Kind(NamedTuple):
    """A kind of observer.

    name     : of its part of a checkpoint
    as_asked : returns the one that the model is to have: a new one, or the one it has; None for none
    lasts    : whether another state that is put in place keeps it
    """

    name: str
    as_asked: Callable[[Asked, Any], Observer | None]
    lasts: bool = False


def _progressive(asked: Asked, held: Progressive | None) -> Progressive:
    config, measured = asked.change.config, ProgressiveConfig(answers=asked.answers)
    if not config.has_classes:
        return held or Progressive(measured)
    found = held if isinstance(held, ClassProgressive) else ClassProgressive(measured, config.classes.names)
    found.grow(config.classes.names)
    return found


def _drift(asked: Asked, held: Any) -> Observer | None:
    drift = asked.change.config.drift
    return detector_as_asked(drift.action, drift.rest_events, asked.change.alarm, asked.answers, held)


def _columns(asked: Asked, held: Any) -> Observer | None:
    config = asked.change.config
    return columns_as_asked(config.learner.slot_bits(config.encoder.bits) if config.learner.wants_scaled() else None, held)


WATCH: Final = "watch"  # the one that every model has
KINDS: Final = (
    Kind(WATCH, _progressive),
    Kind("drift", _drift),
    Kind("slices", lambda a, held: slices_as_asked(a.change.config.slices, a.change.names, a.answers, held)),
    Kind("followed", lambda a, held: followed_as_asked(a.change.config.weights_followed, a.change.names, a.now, held)),
    Kind("pairs", lambda a, held: pairs_as_asked(a.change.follow, a.change.challengers, a.answers, held), lasts=True),
    Kind("columns", _columns),
)


class Observers:
    """What watches one model, in the order of `KINDS`."""

    def __init__(self, held: Mapping[str, Observer] | None = None) -> None:
        self._held = dict(held or {})

    def __iter__(self) -> Iterator[Observer]:
        return iter(self._held.values())

    def get(self, kind: type[O]) -> O | None:
        """Return the observer of this type; None if the model has none."""
        return next((one for one in self if isinstance(one, kind)), None)

    def __getitem__(self, kind: type[O]) -> O:
        if (found := self.get(kind)) is None:
            raise KeyError(kind.__name__)
        return found

    @property
    def progressive(self) -> Progressive:
        """The one that every model has."""
        return cast(Progressive, self._held[WATCH])

    @property
    def examples(self) -> int:
        """Number of events that were learnt."""
        return self.progressive.examples if WATCH in self._held else 0

    def lasting(self) -> Observers:
        """Return those that another state keeps when it is put in place."""
        return Observers({kind.name: self._held[kind.name] for kind in KINDS if kind.lasts and kind.name in self._held})

    def put(self, name: str, observer: Observer) -> None:
        """Have this observer in place of the one of this name."""
        self._held[name] = observer

    def configure(self, asked: Asked) -> None:
        """Have the observers that are asked for: new ones, or those there are with other settings."""
        found = ((kind.name, kind.as_asked(asked, self._held.get(kind.name))) for kind in KINDS)
        self._held = {name: one for name, one in found if one is not None}

    def observe(self, rows: Rows, stepped: Stepped, weights: Callable[[], Weights]) -> None:
        """Show rows that were just learnt, and at a point of the learning curve the weights."""
        for one in self:
            one.observe(rows, stepped)
        if self.progressive.awaits_count:
            counted = weights()
            for one in self:
                one.count(self.progressive.examples, counted)

    def copy(self) -> Observers:
        """Return copies of all: see `Observer.copy`."""
        return Observers({name: one.copy() for name, one in self._held.items()})

    def figures(self) -> dict[str, Any]:
        """Return the figures of the one that every model has, and those of each other under its name."""
        others = {name: one.figures() for name, one in self._held.items() if name != WATCH}
        return {**self.progressive.figures(), **{name: told for name, told in others.items() if told is not None}}

    def memory(self) -> int:
        """Return bytes."""
        return sum(size for one in self for size in one.memory().values())

    def header(self) -> dict[str, Any]:
        """As of an `Observer`."""
        return {key: told for one in self for key, told in one.header().items()}

    def freeze(self) -> Arrays:
        """Return a copy of all as arrays."""
        return {f"{name}.{key}": array for name, one in self._held.items() for key, array in one.freeze().items()}

    def thaw(self, arrays: Arrays, header: Mapping[str, Any], but: Observers) -> None:
        """Restore all but some from the arrays of a checkpoint and its header. Raises as `Observer.thaw` does."""
        for name, one in self._held.items():
            if name not in but._held:
                one.thaw(part(arrays, f"{name}."), header)
