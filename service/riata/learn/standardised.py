"""A learner of standardised columns, or of standardised labels, around any learner.

The first rows are held. Whenever their number has doubled, the standards of their features, or labels, are taken anew, and a
new learner learns them in these units from the beginning. After ROWS rows, or earlier if they have many features, the standards
remain: from there on they are no more than other units of measurement. So a learner has learnt every row in its own units.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, Generic, TypeVar

import numpy as np

from riata.base.arrays import BOOL, U32, Arrays
from riata.base.errors import Corrupt
from riata.learn.first_rows import NAMES, FirstRows, no_first_rows, rows_of
from riata.learn.frozen import check_counts, check_numbers, check_slots
from riata.learn.learner import Learner, Shadow, Sketch, Stepped, Weights, step_each
from riata.learn.standards import Standards
from riata.wire.batch import Batch

C = TypeVar("C")

ROWS: Final = 1024  # a power of two
SLOTS: Final = "standard_slot"  # the frozen array of slots
_STANDARDS: Final = (SLOTS, "standard_middle", "standard_spread", "standard_tail")
_LABEL: Final = "standard_label"
_SETTLED: Final = "standard_settled"
_OLDER: Final = "standard_counts"  # the same in states of ALGO_VERSION 5 and before, which have no tails


def settled(arrays: Arrays) -> Arrays:
    """The state of a learner that has no standards and takes none any more, from that of the learner inside."""
    return {**arrays, **_frozen(Standards.none(1), True), **no_first_rows()}


class Standardised(Generic[C]):
    """Gives its rows to the learner inside in units of their standards, and returns weights in the units of the input.

    Margins are those of the learner inside, which differ from those of the weights returned by rounding errors.
    """

    def __init__(
        self,
        build: Callable[[C, float], Learner],
        config: C,
        columns: bool,
        starts: bool = False,
        rows: int = ROWS,
        labels: bool = False,
    ) -> None:
        """Make an empty learner.

        build   : makes the empty learner of a configuration, from the share of label 1 in the rows that it will learn first
        columns : whether columns, or labels, are centred, for which the learner needs an intercept
        starts  : whether what it learns depends on that share
        rows    : number of first rows, a power of two
        labels  : whether labels are standardised, in place of features
        """
        self._build = build
        self._config = config
        self._columns = columns
        self._starts = starts
        self._labels = labels
        self._first = FirstRows(rows)
        self._inside = build(config, 0.5)
        self._bits = self._inside.weights().bits
        self._standards = Standards.none(self._bits)

    def step(self, batch: Batch, skip: BOOL | None = None) -> Stepped:
        """Predict and learn the events of `batch` in order; rows with a true `skip` are predicted only."""
        return self._first.step(batch, skip, self._learn, self._again)

    def step_all(self, batches: Sequence[Batch], skip: BOOL | None = None) -> Stepped:
        """Learn the events of all batches: one batch at a time while rows are held."""
        if not self._first.ended:
            return step_each(self, batches, skip)
        stepped = self._inside.step_all([self._standards.apply(batch) for batch in batches], skip)
        label = np.concatenate([batch.label for batch in batches])
        return replace(stepped, margin=self._standards.undo_margin(stepped.margin), label=label)

    def weights(self) -> Weights:
        """Return the non-zero weights, in the units of the input."""
        return self._standards.undo(self._inside.weights())

    def sketch(self) -> Sketch | None:
        """Return a copy of the curvature, in units of the standards, which it names."""
        sketch = self._inside.sketch()
        return None if sketch is None else self._standards.mark(sketch)

    def shadows(self) -> list[Shadow]:
        """Return the results of other penalties; those of the first rows are of the last time that they were learnt."""
        return self._inside.shadows()

    def closed_vocabulary(self) -> U32 | None:
        """As the learner inside."""
        return self._inside.closed_vocabulary()

    def adjust(self, config: C, adjust: Callable[[Learner, C], None]) -> None:
        """Change a setting of the learner inside, and of those that will be made."""
        self._config = config
        adjust(self._inside, config)

    def forget(self, keep: float, forget: Callable[[Learner, float], None]) -> None:
        """Let the past count for a share `keep` of what it counted, also when the rows held are learnt again."""
        forget(self._inside, keep)
        self._first.forget(keep)

    def freeze(self) -> Arrays:
        """Return copies of everything that determines later results: the arrays of the learner inside, and

        standard_settled : i64[1]  1 if the standards remain
        standard_slot, standard_middle, standard_spread, standard_tail : u32[m], f64[m], f64[m], f64[m]  as in `Standards`
        standard_label : f64[2]  middle and spread of the label; only if labels are standardised
        first_indptr, first_hash, first_value, first_label, first_weight : the rows held, as in `Batch`; none once they remain
        """
        return {**self._inside.freeze(), **self._frozen()}

    def thaw(self, arrays: Arrays) -> None:
        """Restore a frozen state. Raises `Corrupt`, with the state unchanged, if `arrays` is not a valid state."""
        if _OLDER in arrays and SLOTS in arrays:
            arrays = {**arrays, _SETTLED: arrays[_OLDER], "standard_tail": np.zeros(len(arrays[SLOTS]))}
            del arrays[_OLDER]
        own = {_SETTLED, *_STANDARDS, *NAMES, *([_LABEL] if self._labels else [])}
        if not own <= arrays.keys():
            raise Corrupt(f"learner state: expected arrays {sorted(own)} among {sorted(arrays)}")
        slot, middle, spread, tail = (arrays[name] for name in _STANDARDS)
        check_slots(SLOTS, slot, self._bits)
        check_numbers("standard_middle", middle, len(slot))
        check_numbers("standard_spread", spread, len(slot), least=0.0)
        check_numbers("standard_tail", tail, len(slot), least=0.0)
        label = arrays[_LABEL] if self._labels else np.array([0.0, 1.0])
        check_numbers(_LABEL, label, 2)
        held = rows_of(arrays)
        check_counts(_SETTLED, arrays[_SETTLED])
        if (
            bool((spread == 0.0).any())
            or not float(label[1]) > 0.0
            or (held.n > 0 and bool(arrays[_SETTLED].astype(np.int64)[0]))
        ):
            raise Corrupt("learner state: a spread is zero, or rows are held for no purpose")
        self._inside.thaw({name: array for name, array in arrays.items() if name not in own})
        middle, spread, tail = (array.astype(np.float64) for array in (middle, spread, tail))
        units = float(label[0]), float(label[1])
        self._standards = Standards(self._bits, slot.astype(np.uint32), middle, spread, tail, *units)
        self._first.restore(held, bool(arrays[_SETTLED].astype(np.int64)[0]))

    def memory(self) -> dict[str, int]:
        """Return bytes by part."""
        parts = self._inside.memory()
        own = sum(array.nbytes for array in self._frozen().values())
        return {**parts, "standards": own, "checkpoint": parts["checkpoint"] + own}

    def _frozen(self) -> Arrays:
        label = np.array([self._standards.label_middle, self._standards.label_spread])
        own = {**_frozen(self._standards, self._first.ended), **self._first.arrays()}
        return {**own, **({_LABEL: label} if self._labels else {})}

    def _learn(self, rows: Batch, skip: BOOL) -> Stepped:
        stepped = self._inside.step(self._standards.apply(rows), skip)
        return replace(stepped, margin=self._standards.undo_margin(stepped.margin))

    def _again(self, held: Batch) -> None:
        """Take the standards of the rows held, and begin again."""
        of = Standards.of_labels if self._labels else Standards.of
        standards = of(held, self._bits, self._columns)
        before, self._standards = self._standards, standards
        if self._starts or not standards.equal(before):
            positive, whole = math.fsum((held.weight * held.label).tolist()), math.fsum(held.weight.tolist())
            rate = (positive + 0.5) / (whole + 1.0)
            self._inside = self._build(self._config, rate)
            self._inside.step(standards.apply(held))


def _frozen(standards: Standards, ended: bool) -> Arrays:
    arrays = np.array([ended], np.int64), standards.slot, standards.middle, standards.spread, standards.tail
    return {name: np.array(array) for name, array in zip((_SETTLED, *_STANDARDS), arrays, strict=True)}
