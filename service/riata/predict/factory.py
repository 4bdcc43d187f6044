"""Makes the models that are served: from the weights of a learner, and from the arrays of an edition."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Any, Final, cast

import numpy as np

from riata.base.arrays import F64, U32, Arrays, read_only
from riata.base.errors import Corrupt
from riata.base.frozen_dataclass import frozen_dataclass
from riata.learn.apart import DECLARED, Apart, read_apart
from riata.learn.apart import PARTS as APART
from riata.learn.frozen import check_names, check_numbers, check_slots
from riata.learn.learner import Weights, bounded
from riata.learn.one_vs_rest import heads_together
from riata.learn.shapes import CELLS, Shapes, read_cells, read_shapes
from riata.learn.shapes import PARTS as SHAPES
from riata.maths.links import LINKS, Link, class_probabilities
from riata.predict.explain import Explanation, explain
from riata.predict.linear_model import BOUNDS, LinearModel
from riata.predict.model import Model, Origin, Plan, Scores
from riata.predict.posterior import PARTS, PosteriorModel, read_posterior
from riata.predict.uncertainty import NEW, OUTSIDE, SPAN, SPREAD, Covariance, Span, Spread, Uncertainty, look_up
from riata.wire.batch import Batch

# The model of several classes: a linear model for each, and probabilities that sum to one.

CLASS_PARTS: Final = ("class_slot", "class_beta", "class_intercept", "class_end")
CLASS_NUMBERS: Final = ("class_shape_value", "class_shape_intercept")  # of the shapes of each class, one after another


@frozen_dataclass(frozen=True, slots=True)
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
        batch = self.weights.used(batch)
        scored = [head.score(batch) for head in self.heads]
        margin, known = np.stack([one.margin for one in scored], axis=1), np.stack([one.known for one in scored], axis=1)
        answered = bounded(margin, *self.weights.bounds) if math.isfinite(self.weights.bounds[1]) else margin
        probability, winner = class_probabilities(answered, LINKS[self.weights.link].code)
        at = winner[:, np.newaxis]
        margin, best = (np.take_along_axis(each, at, axis=1)[:, 0] for each in (margin, probability))
        known_features = np.take_along_axis(known, at, axis=1)[:, 0]
        unknown = np.diff(batch.indptr) - known_features
        return Scores(margin, best, winner.astype(np.float64), known_features, unknown, nothing, probability)

    def explain(self, named_row: Sequence[tuple[int, float, str]], shared: Callable[[int, int], list[str]]) -> Explanation:
        """Split the margin of the winning class into the contributions of the features."""
        heads = (replace(head.weights, apart=self.weights.apart) for head in self.heads)
        explained = [explain(head, named_row, shared) for head in heads]
        return max(explained, key=lambda one: one.margin, default=Explanation(0.0, ()))

    def weight_errors(self) -> F64:
        """Return NaN for each weight: there are no standard errors."""
        return np.full(len(self.weights.slot), np.nan)

    def memory(self) -> dict[str, int]:
        """Return bytes by part."""
        parts = [head.memory() for head in self.heads]
        own = self.weights.slot.nbytes + self.weights.beta.nbytes
        names = ("weights", "index", *(("shapes",) if self.weights.cells else ()))
        return {name: sum(part[name] for part in parts) + own * (name == "weights") for name in names}

    def parts(self) -> tuple[Arrays, str]:
        """Return its arrays: the weights of the classes one after another, and where those of each class end."""
        heads = [head.weights for head in self.heads]
        slot = np.concatenate([np.zeros(0, np.uint32), *(head.slot for head in heads)])
        beta = np.concatenate([np.zeros(0), *(head.beta for head in heads)])
        ends = np.cumsum([len(head.slot) for head in heads], dtype=np.int64)
        intercepts = np.array([head.intercept for head in heads], np.float64)
        arrays: Arrays = dict(zip(CLASS_PARTS, (slot, beta, intercepts, ends), strict=True))
        if math.isfinite(self.weights.bounds[1]):
            arrays[BOUNDS] = np.array(self.weights.bounds)
        if self.weights.apart is not None:
            arrays |= self.weights.apart.parts()
        shapes = [head.shapes for head in heads if head.shapes is not None]
        if shapes:
            numbers = (np.concatenate([one.value for one in shapes]), np.array([one.intercept for one in shapes]))
            arrays |= {**shapes[0].cell_parts(), **dict(zip(CLASS_NUMBERS, numbers, strict=True))}
        return arrays, ""


def read_classes(origin: Origin, at: tuple[int, int], link: Link, bits: int, arrays: Arrays) -> ClassModel:
    """Make a model from its `parts`. Raises `Corrupt`."""
    is_shaped = bool(set(CLASS_NUMBERS) & set(arrays))
    optional = {BOUNDS, *APART} & set(arrays)
    check_names(arrays, set(CLASS_PARTS) | optional | ({*CELLS, *CLASS_NUMBERS} if is_shaped else set()))
    bounds, apart = _bounds(arrays), _apart(arrays)
    slot, beta, intercepts, ends = (arrays[name] for name in CLASS_PARTS)
    if ends.dtype != np.int64 or ends.ndim != 1 or bool((np.diff(ends, prepend=0) < 0).any()):
        raise Corrupt("the weights of the classes do not follow one another")
    if slot.ndim != 1 or (int(ends[-1]) if len(ends) else 0) != len(slot):
        raise Corrupt("its weights belong to no class")
    check_numbers("class_intercept", intercepts, len(ends))
    check_numbers("class_beta", beta, len(slot))
    shapes = _shapes_of_classes(arrays, len(ends)) if is_shaped else [None] * len(ends)
    heads, start = [], 0
    for stop, intercept, shape in zip(ends.tolist(), intercepts.tolist(), shapes, strict=True):
        check_slots("class_slot", slot[start:stop], bits)
        own = cast(U32, read_only(slot[start:stop])), cast(F64, read_only(beta[start:stop]))
        if not bool((own[1] != 0.0).all()):
            raise Corrupt("a weight is zero")
        heads.append(Weights(*own, intercept, link, bits, shapes=shape, bounds=bounds))
        start = stop
    return ClassModel(origin, replace(heads_together(heads, link, bits), apart=apart), *at)


def _shapes_of_classes(arrays: Arrays, classes: int) -> list[Shapes]:
    cells = read_cells(arrays)
    value, intercept = (arrays[name] for name in CLASS_NUMBERS)
    check_numbers(CLASS_NUMBERS[0], value, classes * cells.cells)
    check_numbers(CLASS_NUMBERS[1], intercept, classes)
    numbers = zip(value.astype(np.float64).reshape(classes, -1), intercept.astype(np.float64).tolist(), strict=True)
    return [cells.with_values(own, base) for own, base in numbers]


WEIGHTS: Final = {"slot", "beta", "intercept"}


def make_model(origin: Origin, weights: Weights, gen: int, seq: int, covariance: Covariance | None = None) -> Model:
    """Make the model of a learner's `weights`, which it takes over. `covariance` may be of an earlier event."""
    if weights.heads is not None:
        return ClassModel(origin, weights, gen, seq)
    if weights.posterior is not None:
        return PosteriorModel(origin, weights, gen, seq, posterior=weights.posterior)
    return LinearModel(origin, weights, gen, seq, None if covariance is None else look_up(covariance, weights))


def read_model(origin: Origin, at: tuple[int, int], link: Link, bits: int, arrays: Arrays, std_errors: bool) -> Model:
    """Make a model from its `parts`.

    at         : its generation and the last event that it has learnt
    std_errors : whether they have to be among the arrays

    Raises `Corrupt`.
    """
    if origin.labels == "classes":
        return read_classes(origin, at, link, bits, arrays)
    weights = _weights(arrays, link, bits)
    if std_errors and set(PARTS) & set(arrays):
        check_names(arrays, WEIGHTS | set(PARTS))
        return PosteriorModel(origin, weights, *at, posterior=read_posterior(arrays, weights))
    scattered, spanned = bool(set(SPREAD) & set(arrays)), bool(set(SPAN) & set(arrays))
    optional = ({BOUNDS} & set(arrays)) | (set() if weights.shapes is None else set(SHAPES))
    optional |= set() if weights.apart is None else set(APART)
    check_names(arrays, WEIGHTS | (set(SPREAD) if scattered else set()) | (set(SPAN) if spanned else set()) | optional)
    uncertainty = _uncertainty(arrays, len(weights.slot)) if scattered else None
    if uncertainty is not None and spanned:
        uncertainty = replace(uncertainty, span=_span(arrays, len(uncertainty.spread.covariance), bits))
    if scattered != std_errors or (spanned and not scattered):
        raise Corrupt("it needs either standard errors or the reason for their absence")
    model = LinearModel(origin, weights, *at, uncertainty)
    if np.float64(model.weights.intercept).tobytes() != np.float64(weights.intercept).tobytes():
        raise Corrupt("it has an intercept although it has learnt nothing")
    return model


def _weights(arrays: Arrays, link: Link, bits: int) -> Weights:
    if not set(arrays) >= WEIGHTS:
        raise Corrupt("it has no weights")
    check_slots("slot", arrays["slot"], bits)
    check_numbers("beta", arrays["beta"], len(arrays["slot"]))
    check_numbers("intercept", arrays["intercept"], 1)
    beta = cast(F64, arrays["beta"])
    if not bool((beta != 0.0).all()):
        raise Corrupt("a weight is zero")
    if set(SHAPES) & set(arrays) and not set(arrays) >= set(SHAPES):
        raise Corrupt("a part of its shapes is missing")
    shapes = read_shapes(arrays) if set(SHAPES) & set(arrays) else None
    intercept, apart = float(cast(F64, arrays["intercept"])[0]), _apart(arrays)
    return Weights(cast(U32, arrays["slot"]), beta, intercept, link, bits, shapes=shapes, apart=apart, bounds=_bounds(arrays))


def _apart(arrays: Arrays) -> Apart | None:
    if not set(APART) & set(arrays):
        return None
    if not set(arrays) >= set(DECLARED):
        raise Corrupt("a part of the values that are set apart is missing")
    return read_apart(arrays)


def _bounds(arrays: Arrays) -> tuple[float, float]:
    if BOUNDS not in arrays:
        return -math.inf, math.inf
    check_numbers(BOUNDS, arrays[BOUNDS], 2)
    low, high = (float(bound) for bound in cast(F64, arrays[BOUNDS]))
    if low >= high:
        raise Corrupt("no margin is within its bounds")
    return low, high


def _uncertainty(arrays: Arrays, weights: int) -> Uncertainty:
    place, variance, covariance, row = (arrays[name] for name in SPREAD)
    if covariance.ndim != 2 or covariance.shape[0] != covariance.shape[1]:
        raise Corrupt("the covariance is not square")
    size = covariance.shape[0]
    check_numbers("variance", variance, weights, 0.0)
    check_numbers("covariance", covariance.reshape(-1), size * size)
    _check_places("place", place, weights, size, {OUTSIDE, NEW})
    _check_places("row", row, 1, size, {-1})
    return Uncertainty(Spread(*(read_only(array) for array in (place, variance, covariance, row))))  # type: ignore[arg-type]


def _span(arrays: Arrays, size: int, bits: int) -> Span:
    prior, met, still, still_at = (arrays[name] for name in SPAN)
    check_numbers("prior_part", prior.reshape(-1), size * size)
    check_slots("met", met, bits)
    check_slots("still", still, bits)
    check_numbers("still_at", still_at, len(still))
    return Span(*(read_only(array) for array in (prior.reshape(size, size), met, still, still_at)))  # type: ignore[arg-type]


def _check_places(name: str, array: Any, length: int, size: int, others: set[int]) -> None:
    if array.dtype != np.int64 or array.shape != (length,):
        raise Corrupt(f"{name} does not have {length} positions")
    inside = ((array >= 0) & (array < size)) | np.isin(array, list(others))
    if not bool(inside.all()):
        raise Corrupt(f"{name} has a position outside the covariance")
