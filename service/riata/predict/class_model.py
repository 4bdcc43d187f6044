"""The model of several classes: a linear model for each, and probabilities that sum to one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

import numpy as np

from riata.base.arrays import F64, U32, Arrays, read_only
from riata.base.errors import Corrupt
from riata.learn.frozen import check_names, check_numbers, check_slots
from riata.learn.learner import Weights
from riata.learn.one_vs_rest import heads_together
from riata.maths.classes import class_probabilities
from riata.maths.links import LINKS, Link
from riata.predict.explain import Explanation
from riata.predict.linear_model import LinearModel
from riata.predict.model import Origin, Scores
from riata.predict.one_row import Plan
from riata.wire.batch import Batch

PARTS: Final = ("class_slot", "class_beta", "class_intercept", "class_end")


@dataclass(frozen=True, slots=True)
class ClassModel:
    """A model of k classes, by one-vs-rest. `weights` has those of each class as `heads`; its maker gives them away."""

    origin: Origin
    weights: Weights
    gen: int
    seq: int
    heads: tuple[LinearModel, ...] = field(init=False)

    def __post_init__(self) -> None:
        heads = tuple(LinearModel(self.origin, head, self.gen, self.seq) for head in self.weights.heads or ())
        object.__setattr__(self, "heads", heads)

    @property
    def plan(self) -> Plan | None:
        """None: every row has several margins."""
        return None

    def score(self, batch: Batch) -> Scores:
        """Score every row. Margin, probability and known features are those of the class of the largest margin; `label` is its
        number. Without a class yet: NaN, and margin 0."""
        n, k = batch.n, len(self.heads)
        nothing = np.full(n, np.nan)
        if k == 0:
            none = np.zeros(n, np.int64)
            return Scores(np.zeros(n), nothing, nothing, none, np.diff(batch.indptr), nothing, np.zeros((n, 0)))
        scored = [head.score(batch) for head in self.heads]
        margin, known = np.stack([one.margin for one in scored], axis=1), np.stack([one.known for one in scored], axis=1)
        probability, winner = class_probabilities(margin, LINKS[self.weights.link].code)
        at = winner[:, np.newaxis]
        margin, best = (np.take_along_axis(each, at, axis=1)[:, 0] for each in (margin, probability))
        known_features = np.take_along_axis(known, at, axis=1)[:, 0]
        unknown = np.diff(batch.indptr) - known_features
        return Scores(margin, best, winner.astype(np.float64), known_features, unknown, nothing, probability)

    def explain(self, named_row: Sequence[tuple[int, float, str]], shared: Callable[[int, int], list[str]]) -> Explanation:
        """Split the margin of the winning class into the contributions of the features."""
        explained = [head.explain(named_row, shared) for head in self.heads]
        return max(explained, key=lambda one: one.margin, default=Explanation(0.0, ()))

    def weight_errors(self) -> F64:
        """Return NaN for each weight: there are no standard errors."""
        return np.full(len(self.weights.slot), np.nan)

    def memory(self) -> dict[str, int]:
        """Return bytes by part."""
        parts = [head.memory() for head in self.heads]
        own = self.weights.slot.nbytes + self.weights.beta.nbytes
        return {name: sum(part[name] for part in parts) + own * (name == "weights") for name in ("weights", "index")}

    def parts(self) -> tuple[Arrays, str]:
        """Return its arrays: the weights of the classes one after another, and where those of each class end."""
        heads = [head.weights for head in self.heads]
        slot = np.concatenate([np.zeros(0, np.uint32), *(head.slot for head in heads)])
        beta = np.concatenate([np.zeros(0), *(head.beta for head in heads)])
        ends = np.cumsum([len(head.slot) for head in heads], dtype=np.int64)
        intercepts = np.array([head.intercept for head in heads], np.float64)
        return dict(zip(PARTS, (slot, beta, intercepts, ends), strict=True)), ""


def read_classes(origin: Origin, at: tuple[int, int], link: Link, bits: int, arrays: Arrays) -> ClassModel:
    """Make a model from its `parts`. Raises `Corrupt`."""
    check_names(arrays, set(PARTS))
    slot, beta, intercepts, ends = (arrays[name] for name in PARTS)
    if ends.dtype != np.int64 or ends.ndim != 1 or bool((np.diff(ends, prepend=0) < 0).any()):
        raise Corrupt("the weights of the classes do not follow one another")
    if slot.ndim != 1 or (int(ends[-1]) if len(ends) else 0) != len(slot):
        raise Corrupt("its weights belong to no class")
    check_numbers("class_intercept", intercepts, len(ends))
    check_numbers("class_beta", beta, len(slot))
    heads, start = [], 0
    for stop, intercept in zip(ends.tolist(), intercepts.tolist(), strict=True):
        check_slots("class_slot", slot[start:stop], bits)
        own = cast(U32, read_only(slot[start:stop])), cast(F64, read_only(beta[start:stop]))
        if not bool((own[1] != 0.0).all()):
            raise Corrupt("a weight is zero")
        heads.append(Weights(*own, intercept, link, bits))
        start = stop
    return ClassModel(origin, heads_together(heads, link, bits), *at)
