"""The published model that predictions and pages read: immutable, replaced by one assignment."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from riata.base.arrays import U32
from riata.base.clock import Clock
from riata.base.frozen_dataclass import frozen_dataclass
from riata.learn.learner import FarValue, Weights
from riata.learn.registry import spec_of
from riata.maths.links import LINKS
from riata.predict.explain import Partition
from riata.predict.factory import make_model
from riata.predict.model import Model, Origin
from riata.predict.name_book import NameBook
from riata.predict.posterior import doubts
from riata.predict.uncertainty import Covariance
from riata.run.candidates.pairs import NO_PAIRS, Pairs
from riata.run.state.config import ModelConfig
from riata.run.state.core import Schedule
from riata.run.state.decision import margin_shift
from riata.run.state.model_state import ModelState, Observers
from riata.watch.figures import Figures, cost_figures
from riata.watch.progressive import Minute, Noted, Progressive
from riata.watch.warnings import DOUBTFUL, Columns, is_worse_than_base, unreadable_warning, warnings_of
from riata.watch.weight_history import FollowedWeights, WeightHistory


class Shown:
    """Figures and learning curve of a model at one moment, computed by the thread that first asks. Do not change what it returns.

    examples : number of events in the figures
    compute  : returns the figures, always the same
    history  : returns the points of the learning curve, as `Progressive.history`
    """

    def __init__(self, examples: int, compute: Callable[[], Figures], history: Callable[[], list[Figures]]) -> None:
        self.examples, self.history = examples, history
        self._compute = compute
        self._figures: Figures | None = None

    @property
    def figures(self) -> Figures:
        """The figures, by horizon and by feature that watches."""
        if self._figures is None:  # two threads that ask at once find the same
            self._figures = self._compute()
        return self._figures


def known(figures: Figures, history: list[Figures]) -> Shown:
    """Return figures that were computed before."""
    return Shown(int(figures["cumulative"]["examples"]), lambda: figures, lambda: history)


@frozen_dataclass(frozen=True, slots=True)
class Published:
    """A model after `model.seq` events, with the figures of that moment."""

    model: Model
    config: ModelConfig
    shown: Shown
    memory: dict[str, int]  # bytes by part
    applied: int  # log position; differs from model.seq while nothing was learnt
    skipped: int
    version: int
    published_ms: int  # unix time, for display
    published_mono_ms: int  # for ages
    closed_vocabulary: U32 | None = None  # if set, only these slots may occur in new rows; see `Learner.closed_vocabulary`
    no_std_error: str = ""  # why predictions have no standard error; empty if they have one
    chain: bytes = b""  # of the log at `applied`
    changes: tuple[int, ...] = ()  # the last events that set the configuration, oldest first; empty if unknown
    refit: str = ""  # if it is that of a refit: which
    followed: WeightHistory | None = None  # of the setting `weights_followed`, if it names features
    pairs: Pairs = NO_PAIRS  # what it follows, and what follows it
    partition: Partition | None = None  # its groups and runs of features, if it has them
    replaying: bool = False  # whether events that were logged before the start of the process are missing in it

    @property
    def examples(self) -> int:
        """Number of events in the figures. Takes no time, other than `figures`."""
        return self.shown.examples

    @property
    def figures(self) -> Figures:
        """See `Shown`. They are computed when they are first asked for."""
        return self.shown.figures

    @property
    def history(self) -> list[Figures]:
        """See `Shown`."""
        return self.shown.history()

    @property
    def is_checked_row_by_row(self) -> bool:
        """Whether rows can be refused, or get another label, for what the model is at the moment of logging them."""
        return self.closed_vocabulary is not None or self.config.has_classes

    def warnings(self, names: NameBook) -> list[dict[str, Any]]:
        """Return what is wrong with the model: `code`, `detail` with what to set, and `features` if it concerns some."""
        found = list(self.figures.get("warnings", []))  # an edition of an older version has none
        gamma = getattr(self.config.learner, "gamma", 0.0)
        found += [{"code": DOUBTFUL, "detail": detail, "slots": slots} for detail, slots in doubts(self.model, gamma)]
        bits = self.model.weights.bits
        return unreadable_warning(names.kinds or (), self.examples) + [
            {
                "code": warning["code"],
                "detail": warning["detail"],
                "features": [name for slot in warning["slots"] for name in names.in_slot(slot, bits)],
            }
            for warning in found
        ]


# What the writer publishes of a state: a model to be served, and from time to time the covariance for standard errors.


REST: Final = 20  # pause after an inversion, as a multiple of its time: inversions take a twentieth of the writer's time


class Curvature:
    """The newest covariance of one model. `None` if the learner keeps no curvature, and before the first publication."""

    def __init__(self) -> None:
        self.covariance: Covariance | None = None
        self._applied = -1  # the event after which it was made
        self._rested_ms = 0

    def refresh(self, state: ModelState, clock: Clock) -> None:
        """Recompute the covariance, unless it is that of the present state or was computed a moment ago."""
        if self._applied == state.applied or not spec_of(state.config.learner).keeps_curvature:
            return
        if clock.monotonic_ms() < self._rested_ms:
            return
        spent_ms = clock.thread_ms()  # on a busy machine one millisecond of a low-priority thread may last for seconds
        sketch = state.learner.sketch()
        self.covariance = None if sketch is None else Covariance.of(sketch)
        self._applied = state.applied
        least_ms = 0 if self.covariance is None or self.covariance.why_not else 1
        self._rested_ms = clock.monotonic_ms() + REST * max(clock.thread_ms() - spent_ms, least_ms)

    def due_ms(self, applied: int) -> int | None:
        """Return when a covariance older than event `applied` may be recomputed; None if it is not older."""
        return None if self.covariance is None or self._applied == applied else self._rested_ms


def schedule_of(state: ModelState) -> Schedule:
    """Return the schedule in a model's configuration."""
    config = state.config
    return Schedule(config.publish_every_ms, 1000 * config.checkpoint_every_s, config.checkpoint_every_events)


def publish(
    state: ModelState, gen: int, version: int, clock: Clock, covariance: Covariance | None = None, minute: Minute | None = None
) -> Published:
    """Return what will be served of `state`, without changing any bit of it. `covariance` may be of an earlier event."""
    model, no_std_error = served_model(state, gen, covariance)
    state.yield_to_loop()
    now_ms = clock.monotonic_ms()
    noted = None if minute is None else minute.note(state.progressive, now_ms)
    observers = state.observers.copy()
    far = [one._replace(feature=one.feature >> (32 - model.weights.bits)) for one in state.learner.far_values()]
    figures = partial(_figures, state.config, observers, noted, dict(state.learner.chosen()), far)
    state.yield_to_loop()
    followed = observers.get(FollowedWeights)
    return Published(
        model=model,
        config=state.config,
        shown=Shown(observers.progressive.examples, figures, observers.progressive.history),
        memory=state.memory(),
        applied=state.applied,
        skipped=state.skipped,
        version=version,
        published_ms=clock.unix_ms(),
        published_mono_ms=now_ms,
        closed_vocabulary=state.learner.closed_vocabulary(),
        no_std_error=no_std_error,
        chain=state.chain,
        changes=state.changes,
        followed=None if followed is None else followed.history,
        pairs=observers[Pairs],
    )


def served_model(state: ModelState, gen: int, covariance: Covariance | None) -> tuple[Model, str]:
    """Return the model that is served of `state`, and why it has no standard errors; empty if it has them."""
    weights = state.served_weights()
    no_std_error = _no_std_error(state, weights, covariance)
    origin = Origin(state.name, state.lineage, state.config.encoder, state.config.labels)
    seq = state.applied if state.has_learnt else 0
    return make_model(origin, weights, gen, seq, None if no_std_error else covariance), no_std_error


def _figures(
    config: ModelConfig, observers: Observers, noted: Noted | None, chosen: dict[str, Any], far: list[FarValue]
) -> Figures:
    """Return the figures of copies of observers, of the last minute, of decisions and of the learner, and the warnings.

    noted  : of the last minute; None if nothing is noted
    chosen : of the learner
    far    : of the learner's `far_values`, by slots
    """
    figures = observers.figures()
    if noted is not None:
        figures["minute"] = noted.figures(observers.progressive)
    if config.decision.is_wanted:
        figures["cost"] = _cost(config, observers.progressive)
    if chosen:
        figures["mixed"] = chosen
    spec, columns = spec_of(config.learner), observers.get(Columns)
    large = [] if columns is None else columns.large()
    figures["warnings"] = warnings_of(figures, large, spec.advice, config.learner.too_much(), far)
    return figures


def _cost(config: ModelConfig, progressive: Progressive) -> Figures:
    decision, shift = config.decision, margin_shift(config.negatives_kept)
    link = LINKS[progressive.config.answers].code
    return cost_figures(progressive.past(), link, (decision.cost_fp, decision.cost_fn), shift)


def _no_std_error(state: ModelState, weights: Weights, covariance: Covariance | None) -> str:
    """Return why predictions have no standard errors; empty if they have them.

    A standard error says how far the weights scatter about those that fit the stream best. A model that is worse than its base
    rate is not near them.
    """
    if state.config.has_classes:
        return "the model has several classes"
    if weights.posterior is not None:
        return ""
    if spec_of(state.config.learner).keeps_posterior:
        return "no event has been learnt yet"
    if covariance is None:
        keeps = spec_of(state.config.learner).keeps_curvature
        return "the curvature is being read" if keeps else "the learner keeps no curvature"
    if is_worse_than_base(state.progressive.window_losses()):
        return "the model is worse than its base rate over the last events: see warnings"
    return covariance.why_not


def generation_info(state: ModelState) -> dict[str, float | int | str]:
    """Return figures of the present state, stored with a checkpoint to help the operator choose one."""
    cumulative = state.progressive.figures()["cumulative"]
    numbers = {key: cumulative[key] for key in ("examples", "log_loss", "auc") if cumulative.get(key) is not None}
    return {**numbers, "non_zeros": state.learner.weights().non_zeros, "skipped": state.skipped}
