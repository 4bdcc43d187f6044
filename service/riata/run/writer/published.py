"""The published model that predictions and pages read: immutable, replaced by one assignment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from riata.base.arrays import U32
from riata.predict.explain import Partition
from riata.predict.model import Model
from riata.predict.name_book import NameBook
from riata.run.candidates.pairs import NO_PAIRS, Pairs
from riata.run.state.config import ModelConfig
from riata.watch.figures import Figures
from riata.watch.weight_history import WeightHistory


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


@dataclass(frozen=True, slots=True)
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
        found = self.figures.get("warnings", [])  # an edition of an older version has none
        bits = self.model.weights.bits
        return [
            {
                "code": warning["code"],
                "detail": warning["detail"],
                "features": [name for slot in warning["slots"] for name in names.in_slot(slot, bits)],
            }
            for warning in found
        ]
