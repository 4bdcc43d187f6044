"""Several classes by one-vs-rest: a learner for each class, which is told whether a row is of its class.

A further learner is told of every row that it is of another class. It is in the state that the learner of any class has before
the first row of that class. So a class that comes late begins with a copy of it, and has the bits of one that was named from the
start: when classes become known has no effect on what is learnt.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from riata.base.arrays import BOOL, U32, Arrays, distinct
from riata.base.errors import Corrupt
from riata.learn.learner import ColumnRange, Learner, Stepped, Weights
from riata.maths.links import Link
from riata.wire.batch import Batch

REST = "rest"


class OneVsRest(Learner):
    """The learners of several classes as one `Learner`. Labels are numbers of classes; margins are f64[n, k], one for each class.

    A row that the learners of some classes refuse is learnt by the others. It is refused if every one refuses it, or if its label
    is not the number of a class.
    """

    def __init__(self, make: Callable[[], Learner], classes: int, most: int) -> None:
        """
        make    : makes an empty learner of one class
        classes : number of classes now
        most    : number of classes that there may be
        """
        self._make, self._most = make, most
        self._adjusted: Any = None  # settings as of the last change
        self.heads = [make() for _ in range(classes)]
        self.other = make() if classes < most else None

    @property
    def learners(self) -> list[Learner]:
        """Every learner: those of the classes in order, then the one of no class, if more classes may come."""
        return self.heads if self.other is None else [*self.heads, self.other]

    def grow(self, classes: int) -> None:
        """Have at least this many classes."""
        while len(self.heads) < classes and self.other is not None:
            if len(self.heads) + 1 == self._most:
                head, self.other = self.other, None
            else:
                head = self._make()
                if self._adjusted is not None:
                    head.adjust(self._adjusted)
                head.thaw(self.other.freeze())
            self.heads.append(head)

    def step_all(self, batches: Sequence[Batch], skip: BOOL | None = None) -> Stepped:
        """Predict and learn the events of all batches in order, one class after another."""
        stepped, _ = self.step_heads(batches, skip)
        return replace(stepped, margin=np.ascontiguousarray(stepped.margin[:, : len(self.heads)]))

    def step_heads(self, batches: Sequence[Batch], skip: BOOL | None) -> tuple[Stepped, BOOL]:
        """As `step_all`, but with the margins of all `learners`; and which of them refused each row, bool[n, heads]. Rows without
        room are those of the last learner, bounds those of the first."""
        label, weight = (np.concatenate([getattr(batch, name) for batch in batches]) for name in ("label", "weight"))
        strange = ~(label < len(self.heads))  # also NaN
        skip = skip if not bool(strange.any()) else strange if skip is None else strange | skip
        margin, refused = np.empty((len(label), len(self.learners))), np.empty((len(label), len(self.learners)), np.bool_)
        steps = [
            learner.step_all([replace(batch, label=(batch.label == k).astype(np.float64)) for batch in batches], skip)
            for k, learner in enumerate(self.learners)
        ]
        for k, stepped in enumerate(steps):
            margin[:, k], refused[:, k] = stepped.margin, stepped.refused
        whole: BOOL = np.all(refused, axis=1)
        return Stepped(margin, whole, label, weight, int(whole.sum()), steps[-1].no_room, steps[0].bound), refused

    def adjust(self, config: Any) -> None:
        """Adjust the learner of each class, also of those that come."""
        self._adjusted = config
        for one in self.learners:
            one.adjust(config)

    def mend(self, ranges: Mapping[int, ColumnRange]) -> None:
        """Mend the learner of each class."""
        for one in self.learners:
            one.mend(ranges)

    def learn_again(self, rows: Batch, ranges: Mapping[int, ColumnRange], far: bool) -> None:
        """Have the learner of each class learn the rows again."""
        for k, one in enumerate(self.learners):
            one.learn_again(replace(rows, label=(rows.label == k).astype(np.float64)), ranges, far)

    def freeze(self) -> Arrays:
        """Return the arrays of each learner, with the number of its class, or `rest`, and a dot before their names."""
        return {f"{part}.{name}": array for part, one in self.parts() for name, array in one.freeze().items()}

    def thaw(self, arrays: Arrays) -> None:
        """Restore what `freeze` returned. Raises `Corrupt`; the state is then not valid."""
        parts: dict[str, Arrays] = {}
        for key, array in arrays.items():
            part, _, name = key.partition(".")
            parts.setdefault(part if name else "", {})[name or part] = array
        own = dict(self.parts())
        for_all = parts.pop("", {})  # of ALGO_VERSION 8 and before: one choice of settings for all classes
        parts = {part: {**for_all, **each} for part, each in parts.items()}
        if parts.keys() != own.keys():
            raise Corrupt(f"learner state: expected the classes {', '.join(own)}, got {', '.join(parts)}")
        for part, one in own.items():
            one.thaw(parts[part])

    def weights(self) -> Weights:
        """Return the weights of each class, as `heads_together` does."""
        found = [one.weights() for one in self.heads or self.learners]
        return heads_together(found[: len(self.heads)], found[0].link, found[0].bits)

    def closed_vocabulary(self) -> U32 | None:
        """Return the vocabulary that all classes share; None while any of them is open or they differ."""
        first, *others = [one.closed_vocabulary() for one in self.learners]
        return first if first is not None and all(o is not None and np.array_equal(first, o) for o in others) else None

    def memory(self) -> dict[str, int]:
        """Return bytes by part, summed over the classes."""
        total: dict[str, int] = {}
        for one in self.learners:
            for part, size in one.memory().items():
                total[part] = total.get(part, 0) + size
        return total

    def parts(self) -> list[tuple[str, Learner]]:
        """The `learners` with their names in a frozen state."""
        named = [(str(k), head) for k, head in enumerate(self.heads)]
        return named if self.other is None else [*named, (REST, self.other)]


def heads_together(heads: Sequence[Weights], link: Link, bits: int) -> Weights:
    """Return the weights of several classes as one; see `Weights.heads`."""
    slot = distinct(np.concatenate([np.zeros(0, np.uint32), *(head.slot for head in heads)]))
    beta = np.zeros(len(slot))
    for head in heads:
        at = np.searchsorted(slot, head.slot)
        beta[at] = np.where(np.abs(head.beta) > np.abs(beta[at]), head.beta, beta[at])
    bounds = heads[0].bounds if heads else (-math.inf, math.inf)
    return Weights(slot, beta, 0.0, link, bits, bounds=bounds, heads=tuple(heads))
