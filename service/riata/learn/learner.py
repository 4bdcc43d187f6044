"""The `Learner` protocol, and the results that a learner returns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from riata.base.arrays import BOOL, F64, U32, Arrays
from riata.base.frozen_dataclass import frozen_dataclass
from riata.learn.apart import Apart
from riata.learn.shapes import Shapes
from riata.maths.links import Link
from riata.native.library import core
from riata.wire.batch import Batch


@frozen_dataclass(frozen=True, slots=True)
class Posterior:
    """Weighted draws from the posterior distribution of the weights.

    slot      : u32[d]      features, strictly increasing; slot = hash >> (32 - bits) with the bits of the weights
    theta     : f64[d, M]   draws of their weights
    base      : f64[1, M]   draws of the intercept; zeros if there is none
    weight    : f64[M]      >= 0, not all zero; on any scale
    figures   : f64[3]      effective sample size, moves of the draws so far, rows that were learnt in parts so far
    dependent : int         index into `slot` of a feature that depends linearly on others in the first rows; -1 for none
    """

    slot: U32
    theta: F64
    base: F64
    weight: F64
    figures: F64
    dependent: int


@frozen_dataclass(frozen=True, slots=True)
class Weights:
    """The weights that a learner would serve now. Non-zero weights only.

    slot      : u32[nnz]  strictly increasing; slot = hash >> (32 - bits)
    beta      : f64[nnz]  non-zero, finite
    intercept : float
    link      : maps a margin to a probability, see `maths.links`
    posterior : draws whose mean the weights are; None if the learner keeps none
    shapes    : what is added to the margin beside weights times values; None for nothing
    apart     : values in whose place rows have others when they are predicted; None for none
    bounds    : least and largest margin as probabilities take it
    heads     : of several classes: the weights of each; `slot` has every slot of theirs, `beta` the largest weight of each slot,
                and `intercept` is 0. None: there is one margin
    """

    slot: U32
    beta: F64
    intercept: float
    link: Link
    bits: int
    posterior: Posterior | None = None
    shapes: Shapes | None = None
    apart: Apart | None = None
    bounds: tuple[float, float] = (-math.inf, math.inf)
    heads: tuple[Weights, ...] | None = None

    @property
    def non_zeros(self) -> int:
        """Number of weights, the intercept not counted."""
        return len(self.slot)

    @property
    def shaped_columns(self) -> int:
        """Number of columns with a shape."""
        return 0 if self.cells is None else len(self.cells.column)

    @property
    def cells(self) -> Shapes | None:
        """The shapes; of several classes, which have their columns and pairs in common, those of the first."""
        return self.heads[0].shapes if self.heads else self.shapes

    def used(self, rows: Batch) -> Batch:
        """Rows as they are predicted: with others in place of values that have them."""
        return rows if self.apart is None else self.apart.rows(rows)

    def of(self, hash32: Iterable[int]) -> list[float]:
        """Return the weight of each feature hash, 0.0 if there is none. For the slower routes."""
        keys = np.array([h >> (32 - self.bits) for h in hash32], dtype=np.uint32)
        at = np.searchsorted(self.slot, keys)
        inside = at < len(self.slot)
        hit = inside.copy()
        hit[inside] = self.slot[at[inside]] == keys[inside]
        beta = np.zeros(len(keys))
        beta[hit] = self.beta[at[hit]]
        return [float(b) for b in beta]


@frozen_dataclass(frozen=True, slots=True)
class Stepped:
    """The result of one call of `step` or `step_all`, row by row.

    margin  : f64[n]   intercept + beta . x before the row was learnt (test-then-train); of k classes f64[n, k]
    refused : bool[n]  true if learning the row would have made a number non-finite, or the caller said to skip it;
                       a refused row leaves every part of the learner unchanged
    label, weight : f64[n]  of the rows, as they were sent
    refusals : int     number of refused rows
    no_room : bool[n]  among the refused: rows with a feature that does not fit into the learner's vocabulary; None if
                       there is no vocabulary
    bound   : f64[n]   how far from `middle` the margins of a row may be as probabilities take them; None if there is no limit
    middle  : float
    """

    margin: F64
    refused: BOOL
    label: F64
    weight: F64
    refusals: int
    no_room: BOOL | None = None
    bound: F64 | None = None
    middle: float = 0.0

    @property
    def answered(self) -> F64:
        """The margins as probabilities take them."""
        if self.bound is None:
            return self.margin
        return bounded(self.margin, self.middle - self.bound, self.middle + self.bound)


def bounded(margin: F64, low: F64 | float, high: F64 | float) -> F64:
    """Return margins within bounds, f64[n] or of k classes f64[n, k]. The first largest of several classes stays larger than the
    others, by the least difference there is."""
    if margin.ndim == 1:
        return np.clip(margin, low, high)
    low, high = np.reshape(low, (-1, 1)), np.reshape(high, (-1, 1))
    others = np.clip(margin, low, np.nextafter(high, low))
    first = np.arange(margin.shape[1]) == margin.argmax(axis=1)[:, np.newaxis]
    return np.where(first, np.clip(margin, np.nextafter(low, high), high), others)


def margin_bounds(learnt: int, refused: BOOL, bounded: bool) -> F64 | None:
    """Return the largest size of the margin of each row as probabilities take it, after `learnt` others; None for no limit."""
    if not bounded:
        return None
    bound = np.empty(len(refused))
    core.margin_bounds(learnt, refused, len(refused), bound)
    return bound


def bounds_after(learnt: int, bounded: bool) -> tuple[float, float]:
    """Return the least and the largest margin of a row after `learnt` others, likewise."""
    bound = margin_bounds(learnt, np.zeros(1, np.bool_), bounded)
    return (-math.inf, math.inf) if bound is None else (-float(bound[0]), float(bound[0]))


class Sample(NamedTuple):
    """Rows evenly spaced over those that a sketch has learnt, in its units.

    margin : f64[rows.n]  about which each was linearised
    floor  : smallest curvature of a row, as a fraction of its |residual|; only with the logistic link
    """

    rows: Batch
    margin: F64
    link: Link
    floor: float


@frozen_dataclass(frozen=True, slots=True)
class Sketch:
    """Copies of a learner's quadratic approximation of the log-likelihood, about its present weights.

    At weights b the sketch's objective, up to a constant, is
        gradient . (b - beta) - (b - beta)' (cross + diag(curvature)) (b - beta) / 2 - sum_j gamma_j |b_j|
    for the m members of the block, and one coordinate at a time for the n features outside it.

    slot                        : u32[m]   the features; entry 0 is the intercept if `intercept` is true, and not a slot
    beta, gradient              : f64[m]   present weights, and the gradient of the log-likelihood there
    curvature                   : f64[m]   diagonal, > 0, or 0 if nothing was learnt of a feature
    prior                       : f64[m]   the part of `curvature` that is the prior's
    cross                       : f64[m, m]  symmetric, diagonal zero
    gamma                       : f64[m]   penalty in force
    penalty                     : float    the gamma in force for a feature without a penalty of its own
    outside_slot, ..._beta, ..._gradient, ..._curvature, ..._prior, ..._gamma : u32[n], f64[n]  features outside the block that
                                           may have a weight; slots strictly increasing
    bits                        : slots are hash >> (32 - bits)
    noise                       : variance of the gradient over curvature: 1, or less if events are forgotten, for an event of
                                     weight w counts w in the curvature, and w^2 in the variance
    middle, spread, outside_spread : f64[m], f64[m], f64[n]  given if the sketch is of values (x - middle) / spread; features
                                     outside the block count as if their middle were zero
    tail                        : f64[m]   given with them: as in `Standards`, of the first rows
    still                       : u32[s], f64[s]  given with them: columns with one value only in the first rows, and that value
    starts_pull                 : whether what the first rows were learnt with, a prior and weights far from the present ones, is
                                     still in the sums; not where a solution was adopted
    sample                      : of the rows learnt; None if none is kept
    left_out                    : features that may have no weight outside the block, and would have one inside it
    limited                     : whether values of columns have limits
    """

    slot: U32
    beta: F64
    gradient: F64
    curvature: F64
    prior: F64
    cross: F64
    gamma: F64
    penalty: float
    intercept: bool
    outside_slot: U32
    outside_beta: F64
    outside_gradient: F64
    outside_curvature: F64
    outside_prior: F64
    outside_gamma: F64
    bits: int
    noise: float = 1.0
    middle: F64 | None = None
    spread: F64 | None = None
    outside_spread: F64 | None = None
    tail: F64 | None = None
    starts_pull: bool = True
    sample: Sample | None = None
    left_out: int = 0
    limited: bool = False
    still: tuple[U32, F64] | None = None


@frozen_dataclass(frozen=True, slots=True)
class Shadow:
    """The test-then-train results of another penalty, on the same sketch.

    weight, log_loss             : total importance of the tested events, and their mean log loss (0.0 before the first)
    faded_weight, faded_log_loss : the same, with weights that halve every 10,000 events
    """

    gamma: float
    weight: float
    log_loss: float
    faded_weight: float
    faded_log_loss: float


class ColumnRange(NamedTuple):
    """The values of a column in a sample of rows.

    share          : of the rows that have it
    mean, variance : of the values
    low, high      : the lowest and the highest
    """

    share: float
    mean: float
    variance: float
    low: float
    high: float


class FarValue(NamedTuple):
    """A value that is far from all others of its feature, by hash or slot, and whether it is set apart."""

    feature: int
    value: float
    set_apart: bool


class Learner(Protocol):
    """An online algorithm. Deterministic: no clock, no global random numbers, no dependence on threads.

    The state after events 1..t does not depend on how they were divided into batches. Learners inherit from this class; they
    define `step` or `step_all`, `freeze`, `thaw`, `weights` and `memory`, and of the rest what they have.
    """

    def step(self, batch: Batch, skip: BOOL | None = None) -> Stepped:
        """Predict and learn the events of `batch` in order. Rows with a true `skip` are predicted only, and count as refused."""
        return self.step_all([batch], skip)

    def step_all(self, batches: Sequence[Batch], skip: BOOL | None = None) -> Stepped:
        """As `step` of each batch in turn; `skip` is for the rows of all batches. A learner whose kernel takes many batches in
        one call defines it in place of `step`."""
        return step_each(self, batches, skip)

    def freeze(self) -> Arrays:
        """Return copies that determine every later result to the last bit; keys are stable names."""
        ...

    def thaw(self, arrays: Arrays) -> None:
        """Restore the state that `freeze` returned. Raises `Corrupt` if the arrays are not a valid state."""
        ...

    def weights(self) -> Weights:
        """Return the weights to serve, without changing a bit of the state."""
        ...

    def linear_weights(self) -> Weights:
        """Return the weights to serve, perhaps without what they have beside those of features: less work."""
        return self.weights()

    def sketch(self) -> Sketch | None:
        """Return a copy of the curvature that the learner keeps; None if it keeps none."""
        return None

    def shadows(self) -> list[Shadow]:
        """Return the results of the penalties that are tried in addition to the one in force; empty if there are none."""
        return []

    def closed_vocabulary(self) -> U32 | None:
        """Return the hashes, strictly increasing, that alone may occur in rows from now on; None while the vocabulary is not
        full, or if any feature may occur. Hashes are compared as hash >> (32 - bits) with the bits of `weights`."""
        return None

    def memory(self) -> dict[str, int]:
        """Return bytes by part: what is allocated, the size of a checkpoint, and as `growth` what a table takes when it grows
        next, 0 while that is not near."""
        ...

    def adjust(self, config: Any) -> None:  # noqa: ARG002
        """Change the settings that `LearnerSpec.adjustable` names to those of `config`."""
        return

    def grow(self, classes: int) -> None:  # noqa: ARG002
        """Have at least this many classes. Without effect if labels are no classes."""
        return

    def forget(self, keep: float) -> None:  # noqa: ARG002
        """Let the past count for a share `keep`, in (0, 1], of what it counted: weights stay about where they are, and later
        events move them further. Without effect if the learner remembers nothing but its weights."""
        return

    def mend(self, ranges: Mapping[int, ColumnRange]) -> None:  # noqa: ARG002
        """Take the scales of columns, by hash, from these ranges where values outside have stretched them. Weights stay."""
        return

    def learn_again(self, rows: Batch, ranges: Mapping[int, ColumnRange], far: bool) -> None:  # noqa: ARG002
        """Learn the rows so far again if that is better now that the ranges of columns, by hash, are known.

        far : whether values had been far outside of them
        """
        return

    def far_values(self) -> list[FarValue]:
        """Return values, by the hashes of their features, that are far from all others and may stand for something else."""
        return []

    def chosen(self) -> Mapping[str, Any]:
        """Return the settings that the learner tries side by side and the share of each; empty if it tries none."""
        return {}


class Wrapped(Learner):
    """A learner that is, where it does not say otherwise, the one inside."""

    _inside: Learner

    def freeze(self) -> Arrays:
        """Return the state of the learner inside."""
        return self._inside.freeze()

    def thaw(self, arrays: Arrays) -> None:
        """Restore it."""
        self._inside.thaw(arrays)

    def weights(self) -> Weights:
        """Return the non-zero weights."""
        return self._inside.weights()

    def memory(self) -> dict[str, int]:
        """Return bytes by part."""
        return self._inside.memory()

    def sketch(self) -> Sketch | None:
        """Return a copy of the curvature."""
        return self._inside.sketch()

    def shadows(self) -> list[Shadow]:
        """Return the results of other penalties; those of first rows are of the last time that they were learnt."""
        return self._inside.shadows()

    def closed_vocabulary(self) -> U32 | None:
        """Return the vocabulary if it is closed."""
        return self._inside.closed_vocabulary()

    def grow(self, classes: int) -> None:
        """Have at least this many classes."""
        self._inside.grow(classes)

    def forget(self, keep: float) -> None:
        """Let the past count for a share `keep` of what it counted."""
        self._inside.forget(keep)

    def far_values(self) -> list[FarValue]:
        """Return values that are far from all others of their column."""
        return self._inside.far_values()

    def chosen(self) -> Mapping[str, Any]:
        """Return the settings that are tried side by side."""
        return self._inside.chosen()


def step_each(learner: Learner, batches: Sequence[Batch], skip: BOOL | None) -> Stepped:
    """`step_all` for a learner whose kernels take one batch at a time."""
    if len(batches) == 1:
        return learner.step(batches[0], skip)
    steps: list[Stepped] = []
    start = 0
    for batch in batches:
        steps.append(learner.step(batch, None if skip is None else skip[start : start + batch.n]))
        start += batch.n
    return join_steps(steps)


def join_steps(steps: Sequence[Stepped]) -> Stepped:
    """The results of steps that followed each other, at least one, as those of one step."""
    no_room = [step.no_room for step in steps if step.no_room is not None]  # of all steps, or of none
    bound = [step.bound for step in steps if step.bound is not None]  # likewise
    return Stepped(
        np.concatenate([step.margin for step in steps]),
        np.concatenate([step.refused for step in steps]),
        np.concatenate([step.label for step in steps]),
        np.concatenate([step.weight for step in steps]),
        sum(step.refusals for step in steps),
        np.concatenate(no_room) if no_room else None,
        np.concatenate(bound) if bound else None,
    )
