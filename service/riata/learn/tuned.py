"""A learner that chooses its own settings, from the first rows of its stream.

The first rows are held. From LEAST rows on, whenever their number has doubled, each candidate has learnt them from the
beginning, and the one with the lowest progressive log loss goes on: the first, unless another is clearly better. After ROWS rows,
or earlier if they have many features, the choice remains and nothing is held: from there on it is that one learner, at its cost.

Candidates learn the rows since the last comparison only, as long as they are in memory. They are no part of the state: after a
restart, after `rest`, or after something was forgotten they learn all rows held, and are the same to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

import numpy as np

from riata.base.arrays import BOOL, F64, U32, Arrays
from riata.base.errors import Corrupt
from riata.learn.first_rows import NAMES, FirstRows, no_first_rows, rows_of
from riata.learn.frozen import check_counts
from riata.learn.learner import Learner, Shadow, Sketch, Stepped, Weights, step_each
from riata.maths.log_loss import log_losses
from riata.wire.batch import Batch, slice_rows

C = TypeVar("C")

ROWS: Final = 4096  # a power of two
LEAST: Final = 64  # fewer rows say nothing yet
OF_EACH_LABEL: Final = 8  # as many have to be held: one label is learnt best with a step as large as can be
CLEARLY: Final = 0.99  # of the loss of the first candidate, below which another is better
_CHOICE: Final = "tuned_counts"


def settled(arrays: Arrays) -> Arrays:
    """The state of a learner that goes on with its first candidate, from that of the learner inside."""
    return {**arrays, _CHOICE: np.array([0, 1], np.int64), **no_first_rows()}


class Tuned(Generic[C]):
    """Learns with one of several configurations, and serves the weights of that one. For logistic losses."""

    def __init__(self, build: Callable[[C], Learner], candidates: Sequence[C], rows: int = ROWS, least: int = LEAST) -> None:
        """Make an empty learner.

        build      : makes the empty learner of a configuration
        candidates : the configurations; the first is in force until one of the others is better
        rows       : number of first rows, a power of two
        least      : number of rows that the first is in force for
        """
        self._build = build
        self._candidates = candidates
        self._first = FirstRows(rows)
        self._least = least
        self._choice = 0
        self._inside = build(candidates[0])
        # Of the candidates, or none. The one inside is among them, and has learnt all rows held.
        self._learners: list[Learner] = []
        self._losses: list[list[F64]] = []  # of the rows that each of them has learnt
        self._compared = 0  # rows held that all of them have learnt

    @property
    def chosen(self) -> C:
        """The configuration in force."""
        return self._candidates[self._choice]

    @property
    def ended(self) -> bool:
        """Whether it remains."""
        return self._first.ended

    def step(self, batch: Batch, skip: BOOL | None = None) -> Stepped:
        """Predict and learn the events of `batch` in order; rows with a true `skip` are predicted only."""
        if self._first.ended:
            return self._inside.step(batch, skip)
        stepped = self._first.step(batch, skip, self._learn, self._choose)
        if self._first.ended:
            self.rest()
        return stepped

    def step_all(self, batches: Sequence[Batch], skip: BOOL | None = None) -> Stepped:
        """Learn the events of all batches: one batch at a time while rows are held."""
        return self._inside.step_all(batches, skip) if self._first.ended else step_each(self, batches, skip)

    def weights(self) -> Weights:
        """Return the non-zero weights of the configuration in force."""
        return self._inside.weights()

    def sketch(self) -> Sketch | None:
        """As the learner inside."""
        return self._inside.sketch()

    def shadows(self) -> list[Shadow]:
        """As the learner inside."""
        return self._inside.shadows()

    def closed_vocabulary(self) -> U32 | None:
        """As the learner inside."""
        return self._inside.closed_vocabulary()

    def forget(self, keep: float, forget: Callable[[Learner, float], None]) -> None:
        """Let the past count for a share `keep` of what it counted, also when the rows held are learnt again."""
        forget(self._inside, keep)
        self._first.forget(keep)
        self.rest()

    def rest(self) -> None:
        """Free the candidates that are not in force. They are made again when they are needed, from the rows held."""
        self._learners, self._losses, self._compared = [], [], 0

    def freeze(self) -> Arrays:
        """Return copies of everything that determines later results: the arrays of the learner inside, and

        tuned_counts : i64[2]  index of the configuration in force; 1 if it remains
        first_indptr, first_hash, first_value, first_label, first_weight : the rows held, as in `Batch`; none once it remains
        """
        choice = np.array([self._choice, self._first.ended], np.int64)
        return {**self._inside.freeze(), _CHOICE: choice, **self._first.arrays()}

    def thaw(self, arrays: Arrays) -> None:
        """Restore a frozen state. Raises `Corrupt`, with the state unchanged, if `arrays` is not a valid state."""
        own = {_CHOICE, *NAMES}
        if not own <= arrays.keys():
            raise Corrupt(f"learner state: expected arrays {sorted(own)} among {sorted(arrays)}")
        check_counts(_CHOICE, arrays[_CHOICE], 2)
        choice, ended = arrays[_CHOICE].astype(np.int64).tolist()
        held = rows_of(arrays)
        if choice >= len(self._candidates) or ended > 1 or (ended and held.n):
            raise Corrupt("learner state: the choice is not one of the candidates, or rows are held for no purpose")
        inside = self._build(self._candidates[choice])
        inside.thaw({name: array for name, array in arrays.items() if name not in own})
        self._inside, self._choice = inside, choice
        self._first.restore(held, bool(ended))
        self.rest()

    def memory(self) -> dict[str, int]:
        """Return bytes by part."""
        parts = self._inside.memory()
        held = self._first.nbytes
        others = sum(sum(one.memory().values()) for one in self._learners if one is not self._inside)
        return {**parts, "first_rows": held, "candidates": others, "checkpoint": parts["checkpoint"] + held + 16}

    def _learn(self, rows: Batch, skip: BOOL) -> Stepped:
        stepped = self._inside.step(rows, skip)
        if self._learners:
            self._losses[self._choice].append(_losses_of(stepped, rows)[~stepped.refused])
        return stepped

    def _choose(self, held: Batch) -> None:
        """Have every candidate learn the rows held, and go on with the best; with the first, unless another is clearly better."""
        positive = int((held.label > 0.5).sum())
        if held.n < self._least or min(positive, held.n - positive) < OF_EACH_LABEL:
            return
        if not self._learners:
            self._learners = [self._build(candidate) for candidate in self._candidates]
            self._losses = [[] for _ in self._candidates]
        rows = slice_rows(held, self._compared, held.n)
        self._compared = held.n
        for learner, losses in zip(self._learners, self._losses, strict=True):
            if learner is not self._inside:
                losses.append(_losses_of(learner.step(rows), rows))
        totals = [math.fsum(np.concatenate(losses).tolist()) for losses in self._losses]
        best = int(np.argmin(totals))
        self._choice = best if totals[best] < CLEARLY * totals[0] else 0
        self._inside = self._learners[self._choice]


def _losses_of(stepped: Stepped, rows: Batch) -> F64:
    """The log losses of rows before they were learnt, times their weights."""
    losses = np.empty(rows.n)
    log_losses(stepped.margin, stepped.refused, rows.label, rows.weight, losses)
    return losses
