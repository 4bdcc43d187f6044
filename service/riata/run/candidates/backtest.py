"""The backtest: several configurations learn the log of a model from its first event, in one pass, and are compared.

Every configuration learns every event that counts in the model's present state (`effective_log.py`), after predicting it. The
first is the one in force; the others differ from it in settings of the learner, of its table, or of drift. Changes that the
configuration had in the past are not repeated. Alarms of drift are answered after the record, or the records of up to
1024 rows together, in which they are raised; a refit is not made.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from riata.base.arrays import F64
from riata.base.errors import BadInput
from riata.base.process import cores
from riata.learn.learner import Stepped
from riata.run.candidates.judging import BlockSums, difference_of, event_losses, measure_of
from riata.run.log.effective_log import Window, read_effective_log
from riata.run.log.log_reading import READ_BYTES, TURN_ROWS_MAX, Call, joined, parts_without, read_again, read_log, runs
from riata.run.state.config import ModelConfig, require_one_margin
from riata.run.state.config_changes import changed
from riata.run.state.generations import thaw_generation
from riata.run.state.model_state import ModelState, answer_unlogged, begun
from riata.run.state.replay import in_this_thread
from riata.store.control_events import Counted
from riata.store.store import Store
from riata.watch.drift import DriftDetector
from riata.wire.batch import Batch

IN_FORCE: Final = "in force"
CONFIGS_MAX: Final = 16
# Settings that a stored log leaves free: its rows are already encoded.
FREE: Final = ("learner.", "drift.", "encoder.bits", "label_weight.")


class Turn(NamedTuple):
    """Examples of a log that count: parts without gaps, each with the number of its first event. last : the last event read"""

    parts: list[tuple[int, Batch]]
    last: int


class Contestant:
    """A configuration that learns. `difference` is its loss minus that of the configuration in force."""

    def __init__(self, name: str, config: ModelConfig) -> None:
        self.name = name
        self.state = begun(config, name)
        self.state.on_learnt = self._note
        self.difference = BlockSums()
        self.refused = 0
        self.answers = self.state.progressive.config.answers
        self._seen: list[Stepped] = []

    def take(self, turn: Turn) -> None:
        """Predict and learn the events of a turn."""
        self._seen.clear()
        for first, batch in turn.parts:
            self.refused += len(self.state.learn(first, [batch], frozenset()))
            self.state.applied = first + batch.n - 1
            answer_unlogged(self.state)

    @property
    def measure(self) -> str:
        """What `losses` are."""
        return measure_of(self.answers)

    def losses(self) -> tuple[F64, F64]:
        """Return loss and importance of each event of the last turn, f64[n] each; the loss is NaN of events that were refused."""
        found = [event_losses(one, self.answers) for one in self._seen]
        return np.concatenate(found), np.concatenate([one.weight for one in self._seen])

    def _note(self, stepped: Stepped) -> None:
        self._seen.append(stepped)

    def compared(self) -> dict[str, Any]:
        """Return the difference from the configuration in force, with its interval; None where unknown."""
        return difference_of(self.difference.estimate())

    def document(self) -> dict[str, Any]:
        """Return the figures of this configuration; None where unknown."""
        progressive, drift = self.state.progressive, self.state.observers.get(DriftDetector)
        figures = progressive.figures()
        loss = "loss" if figures["cumulative"]["log_loss"] is None else "log_loss"
        return {
            "settings": self.name,
            "events": progressive.examples,
            "refused": self.refused,
            "measure": self.measure,
            "loss": figures["cumulative"][loss],
            "faded_loss": figures["faded"][loss],
            "base_loss": figures["cumulative"][f"base_{loss}"],
            "calibration_ratio": figures["cumulative"]["calibration_ratio"],
            "non_zeros": self.state.learner.weights().non_zeros,
            "drift_alarms": 0 if drift is None else sum(drift.raised.values()),
            **self.compared(),
            "history": [
                {"events": point["examples"], "faded_loss": point[f"faded_{loss}"], "non_zeros": point["non_zeros"]}
                for point in progressive.history()
            ],
        }


@dataclass(frozen=True, slots=True)
class Backtest:
    """What was learnt: which events, and each configuration, the one in force first."""

    model: str
    window: Window
    contestants: list[Contestant]

    def document(self) -> dict[str, Any]:
        """Return the result as a JSON document."""
        return {
            "model": self.model,
            "window": self.window.document(),
            "settings": [contestant.document() for contestant in self.contestants],
        }


def check_free(config: ModelConfig, other: ModelConfig) -> None:
    """Raise `BadInput` (code `bad_option`) unless a log of `config` can be learnt under `other`, and `Conflict` (code
    `not_for_classes`) for several classes."""
    require_one_margin(config, "a comparison of settings")
    if fixed := [name for name in changed(config, other) if not name.startswith(FREE)]:
        raise BadInput(
            f"{', '.join(fixed)}: rows are stored as they were encoded, and other settings do not affect learning; "
            "settings that can be tried on a log: learner.*, drift.*, encoder.bits, label_weight.*",
            "bad_option",
        )


def config_in_force(store: Store, model: str) -> ModelConfig:
    """Return the configuration at the end of the log. Raises `BadInput` (code `no_events`) if the log is empty."""
    call, generations = in_this_thread(store), store.generations(model)
    state = ModelState(model, store.head(model).lineage)
    if generations:
        state = thaw_generation(generations[0], store.open_generation(model, generations[0].gen))
    state.read_again = partial(read_again, call)
    for record in read_log(call, model, state.applied):
        if record.kind != "observe":
            state.apply(record)
    if not state.changes and not generations:
        raise BadInput(f"the log of model {model} is empty", "no_events")
    return state.config


def backtest(
    store: Store,
    model: str,
    configs: Sequence[tuple[str, ModelConfig]],
    to: int | None = None,
    on_progress: Callable[[int, int], None] = lambda _done, _of: None,
) -> Backtest:
    """Have the configuration in force and others learn the log of a model from its oldest event up to event `to`, by default
    its end.

    configs : name and configuration of the others, at most CONFIGS_MAX
    Configurations are learnt in as many threads as there are cores; that changes no bit. Raises `BadInput` (code `bad_option`)
    for settings that a log does not leave free, `no_events` if no event counts, and what reading the log raises.
    """
    own = config_in_force(store, model)
    if len(configs) > CONFIGS_MAX:
        raise BadInput(f"{len(configs)} configurations; at most {CONFIGS_MAX} can be learnt at once", "bad_option")
    for _, config in configs:
        check_free(own, config)
    call = in_this_thread(store)
    log = read_effective_log(call, model)
    last = log.last if to is None else min(to, log.last)
    window = log.window(log.first, last)
    if window.events == 0:
        raise BadInput(f"no event of model {model} counts among events {window.first} to {window.last}", "no_events")
    contestants = [Contestant(name, config) for name, config in ((IN_FORCE, own), *configs)]
    counted = log.counted(log.first, last)
    with ThreadPoolExecutor(min(len(contestants), cores())) as pool:
        for turn in turns(call, model, log.first - 1, last, counted):
            list(pool.map(Contestant.take, contestants, itertools.repeat(turn)))
            compare(contestants)
            on_progress(turn.last, last)
    return Backtest(model, window, contestants)


def turns(call: Call, model: str, after: int, last: int, counted: Counted, bytes_max: int = READ_BYTES) -> Iterator[Turn]:
    """Yield the examples of a log from event `after` + 1 to event `last` that count."""
    parts: list[tuple[int, Batch]] = []
    wanted = itertools.takewhile(lambda record: record.first <= last, read_log(call, model, after, bytes_max))
    for run in runs(wanted):
        first = run[0].first
        for batch in joined(run, (), False) if run[0].kind == "observe" else ():
            events = np.arange(first, first + batch.n)
            parts += parts_without(first, batch, events[~counted.mask(events)])
            first += batch.n
        if sum(batch.n for _, batch in parts) >= TURN_ROWS_MAX:
            yield Turn(parts, min(run[-1].last, last))
            parts = []
    if parts:
        yield Turn(parts, last)


def compare(contestants: Sequence[Contestant]) -> None:
    """Add the differences of a turn from the first contestant, of events that both have learnt."""
    own, weight = contestants[0].losses()
    for other in contestants[1:]:
        if other.measure == contestants[0].measure:
            difference = other.losses()[0] - own
            both = ~np.isnan(difference)
            other.difference.add(difference[both], weight[both])
