"""A learner whose numeric columns have limits (`learn.apart`), found in a sample of its rows.

When limits are found first, the learner begins anew and learns the rows so far with them: otherwise one that stands for a missing
value would have set its scales. At later searches earlier rows stay as they were learnt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from riata.base.arrays import BOOL, Arrays
from riata.base.errors import Corrupt
from riata.learn.apart import PARTS, Apart
from riata.learn.far import Allowed
from riata.learn.frozen import check_counts
from riata.learn.held_rows import forgotten, names_of
from riata.learn.learner import FarValue, Learner, Stepped, Weights, Wrapped, join_steps
from riata.learn.limit_search import DECIDED, FAR, LimitSearch
from riata.learn.spec import LearnerSettings
from riata.wire.batch import Batch, join_batches, slice_rows

COUNTS: Final = "limits"
_PREFIX: Final = "limits"
_OWN: Final = (COUNTS, *names_of(_PREFIX), *FAR)


class Limited(Wrapped):
    """Gives its rows to the learner inside with values within the limits of their columns, and indicators of those set apart."""

    def __init__(self, build: Callable[[Any], Learner], config: LearnerSettings, near: float) -> None:
        """Make an empty learner.

        build : makes the one inside, from its settings
        near  : as of `Allowed`
        """
        self._build, self._config, self._near, self._classes = build, config, near, 0
        self._inside, self._search, self._fresh = build(config), LimitSearch(_PREFIX), True

    def step(self, batch: Batch, skip: BOOL | None = None) -> Stepped:
        """Predict and learn the events of `batch` in order."""
        return self.step_all([batch], skip)

    def step_all(self, batches: Sequence[Batch], skip: BOOL | None = None) -> Stepped:
        """Predict and learn the events of all batches in order, in parts that end where limits are found again."""
        if self._search.ended:
            return self._inside.step_all([self._search.used(batch) for batch in batches], skip)
        rows = batches[0] if len(batches) == 1 else join_batches(batches)
        done: list[Stepped] = []
        start = 0
        while start < rows.n or not done:
            stop = self._search.part(start, rows.n)
            done.append(self._learn(slice_rows(rows, start, stop), None if skip is None else skip[start:stop]))
            start = stop
        return join_steps(done)

    def weights(self) -> Weights:
        """Return the weights of the learner inside, and the values that have others in their place."""
        return replace(self._inside.weights(), apart=self._search.apart)

    def adjust(self, config: Any) -> None:
        """Change a setting of the learner inside, and of the one with which it may begin anew."""
        self._config = config
        self._inside.adjust(config)

    def grow(self, classes: int) -> None:
        """Have at least this many classes, also when the learner begins anew."""
        self._classes = max(self._classes, classes)
        self._inside.grow(classes)

    def forget(self, keep: float) -> None:
        """Let the past count for a share `keep` of what it counted, also when the first rows are learnt again."""
        self._inside.forget(keep)
        if self._fresh:
            sample = self._search.sample
            sample.hold(forgotten(sample.rows(), keep), sample.stride)

    def far_values(self) -> list[FarValue]:
        """Return values that are set apart, or were far from all others of their column when limits were found last."""
        return self._search.far_values()

    def freeze(self) -> Arrays:
        """Return copies of everything that determines later results: the arrays of the learner inside, and

        limits     : i64[4]  rows learnt, while limits are sought; the row at which they are found next; stride of the sample;
                             whether the learner begins anew when they are found
        limits_... : the sample, as in `FirstRows`
        far_...    : hashes and values as of `LimitSearch`
        apart_...  : as in `Apart`, if any values have others in their place
        """
        counts = np.array([*self._search.counts(), self._fresh], np.int64)
        return {**self._inside.freeze(), COUNTS: counts, **self._search.arrays(), **self._search.far_arrays()}

    def thaw(self, arrays: Arrays) -> None:
        """Restore what `freeze` returned, or the state of a learner inside, whose limits are sought from here on. Raises
        `Corrupt`, with the state unchanged."""
        search, fresh = LimitSearch(_PREFIX), False
        if {*_OWN, *PARTS} & arrays.keys():
            if not {*_OWN} <= arrays.keys():
                raise Corrupt(f"learner state: expected arrays {sorted(_OWN)} among {sorted(arrays)}")
            check_counts(COUNTS, arrays[COUNTS], 4)
            counts = arrays[COUNTS].astype(np.int64)
            search, fresh = LimitSearch.read(_PREFIX, counts[:-1], arrays, far=True), bool(counts[-1])
        inside = self._empty()
        inside.thaw({name: array for name, array in arrays.items() if name not in (*_OWN, *PARTS)})
        self._inside, self._search, self._fresh = inside, search, fresh

    def memory(self) -> dict[str, int]:
        """Return bytes by part."""
        parts = self._inside.memory()
        sample, found = self._search.nbytes
        return {**parts, "limits": sample + found, "checkpoint": parts["checkpoint"] + sample + found + 4 * 8}

    def _empty(self) -> Learner:
        inside = self._build(self._config)
        inside.grow(self._classes)
        return inside

    def _learn(self, rows: Batch, skip: BOOL | None) -> Stepped:
        stepped = self._inside.step(self._search.used(rows), skip)
        if self._search.add(rows, stepped.refused):
            self._find()
        return stepped

    def _find(self) -> None:
        """Find limits; with the first ones begin anew, if the sample has all rows."""
        search = self._search
        search.find(Allowed(self._near, self._config.room()))
        if self._fresh and search.apart is not None and search.sample.stride == 1:
            self._inside = self._empty()
            self._inside.step(search.used(search.sample.rows()))
        self._fresh = self._fresh and search.apart is None
        search.searched(again=search.apart is not None or search.rows < DECIDED)


# A learner whose rows have indicators in place of values that are set apart (`learn.apart`).


class SettingApart(Wrapped):
    """Gives its rows to the learner inside with indicators in place of values that are set apart. It has no state."""

    def __init__(self, inside: Learner, apart: Apart) -> None:
        self._inside, self._apart = inside, apart

    def step(self, batch: Batch, skip: BOOL | None = None) -> Stepped:
        """Predict and learn the events of `batch` in order."""
        return self._inside.step(self._apart.rows(batch), skip)

    def step_all(self, batches: Sequence[Batch], skip: BOOL | None = None) -> Stepped:
        """Predict and learn the events of all batches in order."""
        return self._inside.step_all([self._apart.rows(batch) for batch in batches], skip)

    def weights(self) -> Weights:
        """Return the weights of the learner inside, and the values that are set apart."""
        weights = self._inside.weights()
        return replace(weights, apart=self._apart if weights.apart is None else self._apart.joined(weights.apart))
