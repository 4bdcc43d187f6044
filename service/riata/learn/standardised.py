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
from riata.learn.frozen import check_counts, check_numbers, check_slots
from riata.learn.learner import Learner, Shadow, Sketch, Stepped, Weights, step_each
from riata.learn.standards import Standards
from riata.wire.batch import Batch, join_batches, select_rows, slice_rows

C = TypeVar("C")

ROWS: Final = 1024  # a power of two
FEATURES: Final = 2**18  # of the rows held, 3 MiB; checked whenever their number has doubled
SLOTS: Final = "standard_slot"  # the frozen array of slots
_STANDARDS: Final = (SLOTS, "standard_middle", "standard_spread")
_HELD: Final = ("first_indptr", "first_hash", "first_value", "first_label", "first_weight")
_LABEL: Final = "standard_label"
_SETTLED: Final = "standard_counts"
_LEAST: Final = 1e-12  # weight of a forgotten row, so that any number of alarms leaves it above zero


def settled(arrays: Arrays) -> Arrays:
    """The state of a learner that has no standards and takes none any more, from that of the learner inside."""
    return {**arrays, **_frozen(Standards.none(1), None)}


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
        self._rows = rows
        self._inside = build(config, 0.5)
        self._bits = self._inside.weights().bits
        self._standards = Standards.none(self._bits)
        self._learnt = 0  # rows held
        self._held: list[Batch] | None = []

    def step(self, batch: Batch, skip: BOOL | None = None) -> Stepped:
        """Predict and learn the events of `batch` in order; rows with a true `skip` are predicted only."""
        skip = np.zeros(batch.n, np.bool_) if skip is None else skip
        done: list[Stepped] = []
        start = 0
        while start < batch.n or not done:
            stop = batch.n if self._held is None else min(batch.n, start + _until_doubled(self._learnt))
            part = slice_rows(batch, start, stop)
            stepped = self._inside.step(self._standards.apply(part), skip[start:stop])
            done.append(replace(stepped, margin=self._standards.undo_margin(stepped.margin)))
            if self._held is not None and not stepped.refused.all():
                self._hold(select_rows(part, ~stepped.refused))
            start = stop
        no_room = [one.no_room for one in done if one.no_room is not None]
        return Stepped(
            np.concatenate([one.margin for one in done]),
            np.concatenate([one.refused for one in done]),
            batch.label,
            batch.weight,
            sum(one.refusals for one in done),
            np.concatenate(no_room) if no_room else None,
        )

    def step_all(self, batches: Sequence[Batch], skip: BOOL | None = None) -> Stepped:
        """Learn the events of all batches: one batch at a time while rows are held."""
        if self._held is not None:
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
        if self._held is not None:
            self._held = [replace(rows, weight=np.maximum(keep * rows.weight, _LEAST)) for rows in self._held]

    def freeze(self) -> Arrays:
        """Return copies of everything that determines later results: the arrays of the learner inside, and

        standard_counts : i64[1]  1 if the standards remain
        standard_slot, standard_middle, standard_spread : u32[m], f64[m], f64[m]  as in `Standards`
        standard_label : f64[2]  middle and spread of the label; only if labels are standardised
        first_indptr, first_hash, first_value, first_label, first_weight : the rows held, as in `Batch`; none once they remain
        """
        return {**self._inside.freeze(), **self._frozen()}

    def thaw(self, arrays: Arrays) -> None:
        """Restore a frozen state. Raises `Corrupt`, with the state unchanged, if `arrays` is not a valid state."""
        own = {_SETTLED, *_STANDARDS, *_HELD, *([_LABEL] if self._labels else [])}
        if not own <= arrays.keys():
            raise Corrupt(f"learner state: expected arrays {sorted(own)} among {sorted(arrays)}")
        slot, middle, spread = (arrays[name] for name in _STANDARDS)
        check_slots(SLOTS, slot, self._bits)
        check_numbers("standard_middle", middle, len(slot))
        check_numbers("standard_spread", spread, len(slot), least=0.0)
        label = arrays[_LABEL] if self._labels else np.array([0.0, 1.0])
        check_numbers(_LABEL, label, 2)
        held = _held_rows(arrays)
        check_counts(_SETTLED, arrays[_SETTLED])
        if (
            bool((spread == 0.0).any())
            or not float(label[1]) > 0.0
            or (held.n > 0 and bool(arrays[_SETTLED].astype(np.int64)[0]))
        ):
            raise Corrupt("learner state: a spread is zero, or rows are held for no purpose")
        self._inside.thaw({name: array for name, array in arrays.items() if name not in own})
        numbers = middle.astype(np.float64), spread.astype(np.float64)
        self._standards = Standards(self._bits, slot.astype(np.uint32), *numbers, *(float(number) for number in label))
        self._learnt = held.n
        self._held = None if arrays[_SETTLED].astype(np.int64)[0] else [held]

    def memory(self) -> dict[str, int]:
        """Return bytes by part."""
        parts = self._inside.memory()
        own = sum(array.nbytes for array in self._frozen().values())
        return {**parts, "standards": own, "checkpoint": parts["checkpoint"] + own}

    def _frozen(self) -> Arrays:
        label = np.array([self._standards.label_middle, self._standards.label_spread])
        return {**_frozen(self._standards, self._held), **({_LABEL: label} if self._labels else {})}

    def _hold(self, rows: Batch) -> None:
        """Hold learnt rows, and begin again if their number has doubled."""
        assert self._held is not None
        self._held.append(join_batches([rows]))  # a copy: readers use the memory of a batch again
        self._learnt += rows.n
        if self._learnt & (self._learnt - 1):
            return
        held = join_batches(self._held)
        self._held = [held]
        of = Standards.of_labels if self._labels else Standards.of
        standards = of(held, self._bits, self._columns)
        if self._starts or not standards.equal(self._standards):
            positive, whole = math.fsum((held.weight * held.label).tolist()), math.fsum(held.weight.tolist())
            rate = (positive + 0.5) / (whole + 1.0)
            self._standards, self._inside = standards, self._build(self._config, rate)
            self._inside.step(standards.apply(held))
        if held.n >= self._rows or held.nnz >= FEATURES:
            self._held, self._learnt = None, 0


def _until_doubled(rows: int) -> int:
    """How many rows are missing to the next power of two."""
    return (1 << rows.bit_length()) - rows


def _no_rows() -> Batch:
    nothing = np.zeros(0)
    no_hash = np.zeros(0, np.uint32)
    return Batch(np.zeros(1, np.int64), no_hash, nothing, nothing, nothing, np.zeros((0, 16), np.uint8), np.zeros(0, np.bool_))


def _frozen(standards: Standards, held: list[Batch] | None) -> Arrays:
    rows = join_batches(held) if held else _no_rows()
    arrays = (
        np.array([held is None], np.int64),
        *(standards.slot, standards.middle, standards.spread),
        *(rows.indptr, rows.hash, rows.value, rows.label, rows.weight),
    )
    return {name: np.array(array) for name, array in zip((_SETTLED, *_STANDARDS, *_HELD), arrays, strict=True)}


def _held_rows(arrays: Arrays) -> Batch:
    """The rows held. Raises `Corrupt` unless they are those of a batch."""
    indptr, hash_, value, label, weight = (arrays[name] for name in _HELD)
    check_counts("first_indptr", indptr, len(indptr))
    ends = indptr.astype(np.int64)
    if not len(ends) or ends[0] != 0 or bool((np.diff(ends) < 0).any()) or hash_.dtype != np.uint32:
        raise Corrupt("learner state: the first rows are not rows")
    nnz, n = int(ends[-1]), len(ends) - 1
    check_numbers("first_value", value, nnz)
    check_numbers("first_label", label, n)
    check_numbers("first_weight", weight, n, least=0.0)
    starts = np.zeros(nnz + 1, np.bool_)
    starts[ends] = True
    if hash_.shape != (nnz,) or bool((~starts[1:-1] & (np.diff(hash_.astype(np.int64)) <= 0)).any()):
        raise Corrupt("learner state: the features of the first rows are not in order")
    x, y, w = (array.astype(np.float64) for array in (value, label, weight))
    return Batch(ends, hash_.astype(np.uint32), x, y, w, np.zeros((n, 16), np.uint8), np.zeros(n, np.bool_))
