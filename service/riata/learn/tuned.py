"""A learner that chooses its own settings, from the first rows of its stream.

The first rows are held. From LEAST rows on, whenever their number has doubled, each candidate has learnt them from the
beginning, and the one with the lowest progressive log loss goes on: the first, unless another is clearly better. After ROWS rows,
or earlier if they have many features, the choice remains and nothing is held: from there on it is that one learner, at its cost.

Candidates learn the rows since the last comparison only, as long as they are in memory. They are no part of the state: after a
restart, after `rest`, or after something was forgotten they learn all rows held, and are the same to the last bit.

Of several classes a candidate is a learner of all of them, `OneVsRest`, and one choice is made for all, by the log loss of the
probabilities that sum to one. Classes count from their first row on, so when a class becomes known has no effect on the choice.
Candidates are then made one after another, and only the best is kept: each is as large as the model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

import numpy as np

from riata.base.arrays import BOOL, F64, Arrays
from riata.base.errors import Corrupt
from riata.learn.first_rows import NAMES, Around, FirstRows, no_first_rows, rows_of
from riata.learn.frozen import check_counts
from riata.learn.learner import Learner, Stepped
from riata.learn.one_vs_rest import OneVsRest
from riata.maths.links import LOGISTIC, PROBABILITY_MIN, class_probabilities, log_losses
from riata.wire.batch import Batch, slice_rows

C = TypeVar("C")

ROWS: Final = 4096  # a power of two
LEAST: Final = 64  # fewer rows say nothing yet
LEAST_OF_CLASSES: Final = 256  # several classes need more
OTHERS: Final = 8  # rows held that have another label than most: one label is learnt best with a step as large as can be
CLEARLY: Final = 0.99  # of the loss of the first candidate, below which another is better
FEATURES_OF_CLASSES: Final = 2**20  # and intercepts, of the rows held, times the learners that learn each
UNKNOWN: Final = -1e308  # the margin of a class before its first row: its probability is 0
_CHOICE: Final = "tuned_counts"
_DIFFERS: Final = ("eta", "accumulator", "scale")


def settled(arrays: Arrays) -> Arrays:
    """The state of a learner that goes on with its first candidate, from that of the learner inside."""
    return {**arrays, _CHOICE: np.array([0, 1], np.int64), **no_first_rows()}


class Tuned(Around, Generic[C]):
    """Learns with one of several configurations, and serves the weights of that one. For logistic losses."""

    def __init__(
        self,
        build: Callable[[C], Learner],
        candidates: Sequence[C],
        rows: int = ROWS,
        least: int = LEAST,
        classes: int | None = None,
    ) -> None:
        """Make an empty learner.

        build      : makes the empty learner of a configuration; of several classes a `OneVsRest` without classes
        candidates : the configurations; the first is in force until one of the others is better
        rows       : number of first rows, a power of two
        least      : number of rows that the first is in force for
        classes    : number of classes now, if there are several; otherwise None
        """
        self._build = build
        self._candidates = candidates
        self._first = FirstRows(rows, None if classes is None else _many_of_classes)
        self._least = least
        self._classes = classes
        self._choice = 0
        self._inside = self._made(0, classes)
        # Candidates by their numbers, with the losses of the rows held that they have learnt; the one inside is among them. Empty
        # after `rest`, and always if there are several classes.
        self._kept: dict[int, tuple[Learner, list[F64]]] = {}

    @property
    def config(self) -> C:
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

    def grow(self, classes: int) -> None:
        """Have at least this many classes, if there are several."""
        if self._classes is not None:
            self._classes = max(self._classes, classes)
            _grow(self._inside, classes)

    def chosen(self) -> Mapping[str, Any]:
        """Return what the candidates may differ in, of the configuration in force."""
        return {**{name: getattr(self.config, name) for name in _DIFFERS}, "ended": self.ended}

    def forget(self, keep: float) -> None:
        super().forget(keep)
        self.rest()

    def rest(self) -> None:
        """Free the candidates that are not in force. They are made again when they are needed, from the rows held."""
        self._kept = {}

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
        if self._classes is not None and _CHOICE not in arrays:  # of ALGO_VERSION 6 and before: several classes had no choice
            arrays = settled(arrays)
        if not own <= arrays.keys():
            raise Corrupt(f"learner state: expected arrays {sorted(own)} among {sorted(arrays)}")
        check_counts(_CHOICE, arrays[_CHOICE], 2)
        choice, ended = arrays[_CHOICE].astype(np.int64).tolist()
        held = rows_of(arrays)
        if choice >= len(self._candidates) or ended > 1 or (ended and held.n):
            raise Corrupt("learner state: the choice is not one of the candidates, or rows are held for no purpose")
        inside = self._made(choice, self._classes)
        inside.thaw({name: array for name, array in arrays.items() if name not in own})
        self._inside, self._choice = inside, choice
        self._first.restore(held, bool(ended))
        self.rest()

    def memory(self) -> dict[str, int]:
        """Return bytes by part."""
        parts = self._inside.memory()
        held = self._first.nbytes
        others = sum(sum(one.memory().values()) for one, _ in self._kept.values() if one is not self._inside)
        return {**parts, "first_rows": held, "candidates": others, "checkpoint": parts["checkpoint"] + held + 16}

    def _made(self, choice: int, classes: int | None) -> Learner:
        """The empty learner of a candidate, with this many classes."""
        learner = self._build(self._candidates[choice])
        _grow(learner, classes)
        return learner

    def _learn(self, rows: Batch, skip: BOOL) -> Stepped:
        stepped = self._inside.step(rows, skip)
        if self._choice in self._kept:
            self._kept[self._choice][1].append(_losses_of(stepped, rows)[~stepped.refused])
        return stepped

    def _choose(self, held: Batch) -> None:
        """Have every candidate learn the rows held, and go on with the best; with the first, unless another is clearly better."""
        _, counts = np.unique(held.label, return_counts=True)
        if held.n < self._least or held.n - int(counts.max()) < OTHERS:
            return
        first = least = math.inf
        for choice in range(len(self._candidates)):
            learner, losses = self._kept.get(choice) or (self._made(choice, _classes_of(held)), [])
            rows = slice_rows(held, sum(map(len, losses)), held.n)
            losses.append(_losses_of(learner.step(rows), rows))
            if self._classes is None:
                self._kept[choice] = learner, losses
            loss = math.fsum(np.concatenate(losses).tolist())
            first = loss if choice == 0 else first
            if choice == 0 or loss < min(least, CLEARLY * first):
                self._choice, self._inside, least = choice, learner, loss
        _grow(self._inside, self._classes)


def _grow(learner: Learner, classes: int | None) -> None:
    if classes is not None and isinstance(learner, OneVsRest):
        learner.grow(classes)


def _classes_of(held: Batch) -> int:
    """The number of classes up to the last one that has a row."""
    return 1 + int(held.label.max())


def _many_of_classes(held: Batch) -> bool:
    return (held.nnz + held.n) * (1 + _classes_of(held)) >= FEATURES_OF_CLASSES  # each has an intercept too


def _losses_of(stepped: Stepped, rows: Batch) -> F64:
    """The log losses of rows before they were learnt, times their weights."""
    if stepped.margin.ndim > 1:
        return _losses_of_classes(stepped, rows)
    return log_losses(stepped.margin, stepped.refused, rows.label, rows.weight)


def _losses_of_classes(stepped: Stepped, rows: Batch) -> F64:
    """The same of several classes, if `rows` are all since the beginning. Classes that have had no row so far have no share."""
    labels, first, own = np.unique(rows.label, return_index=True, return_inverse=True)
    margin = stepped.margin[:, labels.astype(np.int64)]
    impossible = stepped.refused | ~np.isfinite(margin).all(axis=1)  # as in `log_losses`
    margin = np.where((first <= np.arange(rows.n)[:, None]) & ~impossible[:, None], margin, UNKNOWN)
    probability, _ = class_probabilities(np.ascontiguousarray(margin), LOGISTIC)
    told = np.where(impossible, 0.0, probability[np.arange(rows.n), own])
    return rows.weight * [-math.log(max(one, PROBABILITY_MIN)) for one in told.tolist()]
