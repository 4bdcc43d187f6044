"""How far a prediction can be trusted: standard errors of margins and weights, from the curvature of a learner's sketch.

Theory of operation
    Around the weights b of a sketch the log-likelihood is about a quadratic with curvature M = H + D, so the weights that are not
    zero scatter about as the inverse of M among them: the approximation of Laplace on the active set A. A margin is x . b, so
    its variance is x_A' (M_AA)^-1 x_A. Of features outside the block of cross curvature only the diagonal is known; each adds
    x_j^2 / D_j.

    Where the sketch forgets, events have weights w, and the estimate scatters by the sandwich form M^-1 V M^-1: V sums w^2 where
    M sums w. Of a steady stream V = noise M, so the variance is the noise times the inverse of M.

    With too few events for so many weights their errors are not normal, and there is none; the rule of thumb is ten events of the
    rarer label for each weight (Peduzzi et al. 1996), which is 5 units of the intercept's curvature, as an event adds p (1 - p).

    Prior P and penalties pull the weights towards zero, by u = M^-1 (P b + gamma sign b) if b are the true ones. Of b + u it is
    u + M^-1 P u: two terms of its series. The square of this bias is added to the variance. It matters most where a column has
    heavy tails, because the prior grows with the largest value.

    A sample of the rows shows the rest. The smallest curvature of an event (`curvature_floor`) adds E to M, so M - E determines
    the scatter: (M - E)^-1 is about M^-1 + M^-1 E M^-1. And there is none if the block lacks cross curvature, if the weights have
    moved far since rows were linearised, or if the second term of the pull is as large as the margins: then the prior rules.

    A row outside the span of those learnt has none: one with a feature that was never met, or in a direction of which the prior
    determines nearly all, P x' M^-1 M^-1 x of x' M^-1 x. Columns that are combinations of others do not matter to other rows.

    What it leaves out: features that were met and have no weight add nothing, and that A was chosen by the same events adds
    nothing. So it is an approximation, and it is called one to clients. Sketches without a sample have none of the corrections,
    and none for columns with heavy tails or that are nearly combinations of others.

    Inverting costs |A|^3, so it is done seldom, by the thread that learns, and what it gave stays in use while the model is
    published again and again (`Covariance`). The weights of each publication are looked up in it (`Uncertainty`). A weight that
    was zero then counts by its diagonal curvature, x_j^2 / D_j. A feature that the sketch had never met then is not known to it;
    without a sample it counts 1, about what x_j^2 / D_j is after its first event with a prior of one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final, NamedTuple, cast

import numpy as np

from riata.base.arrays import BOOL, F64, I64, U32, read_only
from riata.base.frozen_dataclass import frozen_dataclass
from riata.base.halt import lent
from riata.learn.learner import Sample, Sketch, Weights
from riata.learn.slot_table import HASH_BITS
from riata.maths.links import LINKS
from riata.maths.shooting import Quadratic, shoot
from riata.native.library import core, struct
from riata.native.rows import features_of
from riata.wire.batch import Batch

ACTIVE_MAX: Final = 2000  # weights whose curvature is inverted together: 0.8 s of one core, and 32 MB
RARER_MIN: Final = 10  # events of the rarer label for each weight
EVIDENCE_MIN: Final = 0.5 * RARER_MIN  # the same as curvature of the intercept
INFLATION_MAX: Final = 100.0  # of a column: a multiple correlation of 0.995
SAMPLE_MIN: Final = 64  # rows
MISSED_MAX: Final = 1.2  # 1 if no cross curvature is missed
MOVED_MAX: Final = 2.0  # root of the mean square distance of margins from the optimum, in standard errors
PULLED_MAX: Final = 0.95  # of the margins of the sample: the second term of the pull on them, both by root mean squares
TAIL_MAX: Final = 20.0  # of a column: more than twice that of an exponential distribution
JITTERS: Final = (0.0, 1e-14, 1e-12, 1e-10, 1e-8, 1e-6)  # of a matrix with diagonal 1; only rounding can ask for them
OUTSIDE: Final = -1  # places of a weight that is in no row of the covariance
NEW: Final = -2


class Spread(NamedTuple):
    """How weights scatter, one entry for each weight of a model, in their order.

    place      : i64[nnz]  the weight's row in `covariance`; OUTSIDE: its variance is its own; NEW: it counts 1
    variance   : f64[nnz]  of each weight; 0 where NEW
    covariance : f64[a, a]
    intercept  : i64[1]    the intercept's row in `covariance`, or -1
    """

    place: I64
    variance: F64
    covariance: F64
    intercept: I64


class Span(NamedTuple):
    """Which rows are like those that were learnt.

    prior    : f64[a, a]  the part of the covariance that the prior determines
    met      : u32[m]  slots of the features that were learnt, increasing
    still    : u32[s]  slots of columns that had one value only, increasing
    still_at : f64[s]  that value
    """

    prior: F64
    met: U32
    still: U32
    still_at: F64


SPREAD: Final = ("place", "variance", "covariance", "row")  # the names of these arrays in an edition
SPAN: Final = ("prior_part", "met", "still", "still_at")


@frozen_dataclass(frozen=True, slots=True)
class Covariance:
    """What a sketch says about how its weights scatter.

    matrix    : f64[a, a]  covariance of the intercept, where there is one, and of the block's weights that are not zero
    intercept : whether row 0 of it is the intercept's
    slot      : u32[m]     every feature of the sketch that has curvature; strictly increasing
    place     : i64[m]     its row in `matrix`, or OUTSIDE
    variance  : f64[m]     of its weight: matrix[place, place], or 1 / D_j and the square of its pull
    span      : None if rows are not checked; then a weight that is NEW counts 1
    why_not   : why there is none, in words for people; empty where there is one. The arrays are then empty
    """

    matrix: F64
    intercept: bool
    slot: U32
    place: I64
    variance: F64
    span: Span | None = None
    why_not: str = ""

    @staticmethod
    def of(sketch: Sketch) -> Covariance:
        """Invert the curvature of the weights that are not zero. Never fails: `why_not` says what stood in the way."""
        active = sketch.beta != 0.0
        if sketch.intercept:
            active[0] = True
        active &= sketch.curvature > 0.0
        rows = np.flatnonzero(active)
        if sketch.intercept and not active[0]:
            return _none("nothing was learnt yet")
        if len(rows) > ACTIVE_MAX:
            return _none(f"{len(rows)} weights are in the block of cross curvature, and more than {ACTIVE_MAX} are not inverted")
        if sketch.intercept and sketch.curvature[0] < EVIDENCE_MIN * len(rows):
            counts = sketch.curvature[0] / EVIDENCE_MIN * RARER_MIN
            return _none(
                f"too few events for {len(rows)} weights: labels that are not nearly certain count as {counts:.0f} of the rarer "
                f"one, and there should be {RARER_MIN} for each weight"
            )
        matrix = _inverse(sketch.cross[np.ix_(rows, rows)], sketch.curvature[rows])
        if matrix is None:
            return _none("the curvature of the weights is singular")
        sampled = None if sketch.sample is None else _of_sample(sketch, sketch.sample, rows, matrix)
        unfit = _unfit_unsampled(sketch, rows) if sampled is None else _unfit(sketch, sampled, rows, matrix)
        if unfit:
            return _none(unfit)
        if sampled is None:
            return _by_slot(sketch, rows, sketch.noise * matrix, None, np.zeros(len(sketch.outside_slot)))
        first, second = _pull(sketch, rows, matrix)
        scatter = sketch.noise * (matrix + _floored(sketch, sampled, matrix)) + np.outer(first + second, first + second)
        return _by_slot(sketch, rows, scatter, sketch.noise * (matrix * sketch.prior[rows]) @ matrix, _pull_outside(sketch) ** 2)


@frozen_dataclass(frozen=True, slots=True)
class Uncertainty:
    """How the margins of one published model scatter. Immutable; made by `look_up`."""

    spread: Spread
    span: Span | None = None

    def std_errors(self, batch: Batch, weights: Any, error: F64) -> None:
        """Write the standard error of the margin of every row into `error`, f64[n]; NaN for a row outside the span of those
        learnt, or where it left the finite numbers.

        weights : the `riata_weights` of the model this was made for
        """
        room = int(np.diff(batch.indptr).max(initial=0)) + 1
        at, x, own = np.empty(room, np.int64), np.empty(room), self.spread
        spread = struct(
            "riata_spread",
            place=own.place,
            variance=own.variance,
            covariance=own.covariance,
            size=len(own.covariance),
            intercept=int(own.intercept[0]),
            **({} if self.span is None else self.span._asdict()),
            mets=0 if self.span is None else len(self.span.met),
            stills=0 if self.span is None else len(self.span.still),
            spanned=self.span is not None,
        )
        if not core.row_variances(weights, spread, *features_of(batch), at, x, room, error):
            raise ValueError("the rows of a batch are not inside of its features")
        np.sqrt(error, out=error)
        error[~np.isfinite(error)] = np.nan

    def of_weights(self) -> F64:
        """Return the standard error of every weight, f64[nnz], in their order; NaN where it is not known."""
        errors: F64 = np.sqrt(self.spread.variance)
        errors[self.spread.place == NEW] = np.nan
        return errors

    def memory(self) -> int:
        """Return bytes; the covariance is shared by publications."""
        return sum(array.nbytes for array in (*self.spread, *(self.span or ())))


def look_up(covariance: Covariance, weights: Weights) -> Uncertainty | None:
    """Find the weights of a publication in `covariance`, which may be older. None where there is no covariance."""
    if covariance.why_not:
        return None
    at = np.searchsorted(covariance.slot, weights.slot)
    at[at == len(covariance.slot)] = 0
    found = np.zeros(len(at), np.bool_) if len(covariance.slot) == 0 else covariance.slot[at] == weights.slot
    place = np.full(len(at), NEW, np.int64)
    variance = np.zeros(len(at))
    place[found], variance[found] = covariance.place[at[found]], covariance.variance[at[found]]
    intercept = np.array([0 if covariance.intercept else -1])
    spread = (read_only(array) for array in (place, variance, covariance.matrix, intercept))
    span = (
        None
        if covariance.span is None
        else Span(*cast(tuple[F64, U32, U32, F64], tuple(read_only(one) for one in covariance.span)))
    )
    return Uncertainty(Spread(*cast(tuple[I64, F64, F64, I64], tuple(spread))), span)


def _inverse(cross: F64, curvature: F64) -> F64 | None:
    """Return (cross + diag(curvature))^-1, symmetric to the last bit; None where rounding has made it hopeless.

    Scaled to a diagonal of 1 first, so that the jitter means the same for every unit of measurement.
    """
    root = np.sqrt(curvature)
    scaled = cross / np.outer(root, root)
    for jitter in JITTERS:
        np.fill_diagonal(scaled, 1.0 + jitter)
        try:
            half = np.linalg.inv(np.linalg.cholesky(scaled))
        except np.linalg.LinAlgError:
            continue
        inverse: F64 = (half.T @ half) / np.outer(root, root)
        if bool(np.isfinite(inverse).all()):
            return inverse
    return None


def _by_slot(sketch: Sketch, rows: I64, matrix: F64, prior: F64 | None, outside: F64) -> Covariance:
    """Return the covariance of the weights `rows` of the block, in units of the input, and the variances of all others.

    prior   : f64[a, a]  the part of the covariance that the prior determines; None if rows are not checked
    outside : f64[n]  what is added to the variances of the features outside the block
    """
    place = np.full(len(sketch.slot) + len(outside), OUTSIDE, np.int64)
    place[rows] = np.arange(len(rows))
    curvature = np.concatenate([sketch.curvature, sketch.outside_curvature])
    known = curvature > 0.0
    known[:1] &= not sketch.intercept  # its slot means nothing
    variance = sketch.noise / np.where(known, curvature, 1.0)
    variance[len(sketch.slot) :] += outside
    if sketch.middle is not None and sketch.spread is not None and sketch.outside_spread is not None:
        units = sketch.middle[rows], sketch.spread[rows], sketch.intercept
        matrix, prior = _in_input(matrix, *units), None if prior is None else _in_input(prior, *units)
        variance /= np.concatenate([sketch.spread, sketch.outside_spread]) ** 2
    variance[rows] = matrix.diagonal()
    slot = np.concatenate([sketch.slot, sketch.outside_slot])
    order = np.flatnonzero(known)[np.argsort(slot[known], kind="stable")]
    still = (np.zeros(0, np.uint32), np.zeros(0)) if sketch.still is None else sketch.still
    span = None if prior is None else Span(prior, slot[order], *still)
    return Covariance(matrix, sketch.intercept, slot[order], place[order], variance[order], span)


class _Sampled(NamedTuple):
    """The rows of the sample at the present weights.

    z      : f64[n, a]  values of the weights of the block, then of those outside that are not zero and occur in it
    beta   : f64[a]     these weights
    spread : f64[a, a]  their covariance by the curvature alone
    share  : f64[n]     how many rows each stands for
    curvature, excess : f64[n]  of the log-likelihood, as the sketch counts it, and how much of that the floor is expected to add
    off    : f64[n]     slope, less what the linearisation says it is
    """

    z: F64
    beta: F64
    spread: F64
    share: F64
    curvature: F64
    excess: F64
    off: F64


def _pull(sketch: Sketch, rows: I64, inverse: F64) -> tuple[F64, F64]:
    """Return two terms f64[a] of how far prior and penalty pull the weights `rows` of the block."""
    prior, beta = sketch.prior[rows] * sketch.starts_pull, sketch.beta[rows]
    first = inverse @ (prior * beta + sketch.gamma[rows] * np.sign(beta))
    return first, inverse @ (prior * first)


def _pull_outside(sketch: Sketch) -> F64:
    """Return both terms together for the features outside the block, each by itself: f64[n]."""
    curvature = np.where(sketch.outside_curvature > 0.0, sketch.outside_curvature, 1.0)
    prior = sketch.outside_prior * sketch.starts_pull
    pressed = prior * sketch.outside_beta + sketch.outside_gamma * np.sign(sketch.outside_beta)
    pull: F64 = pressed / curvature * (1.0 + prior / curvature)
    return pull


def _floored(sketch: Sketch, sampled: _Sampled, inverse: F64) -> F64:
    """Return what the smallest curvature of an event hides of the covariance of the block, f64[a, a]."""
    half = sampled.z[:, : len(inverse)] @ inverse
    found: F64 = (half.T * (sampled.share * sampled.excess)) @ half
    return found if _is_enough(sketch, sampled) else np.zeros_like(inverse)


def _is_enough(sketch: Sketch, sampled: _Sampled) -> bool:
    """Whether the sample says how often rows like its own occur."""
    return sketch.intercept and len(sampled.z) >= SAMPLE_MIN


def _unfit_unsampled(sketch: Sketch, rows: I64) -> str:
    """Return what is said against the inverse curvature of the weights `rows` without a sample; empty for nothing."""
    alike = _combinations(sketch)
    if alike:
        return f"{alike} columns are nearly combinations of others, and no sample of rows shows their effect"
    if sketch.limited:
        return "columns have limits, and no sample of rows shows their effect; set relinearise in a new model"
    heavy = 0 if sketch.tail is None or not sketch.starts_pull else int((sketch.tail[rows] > TAIL_MAX).sum())
    return (
        f"columns with heavy tails: {heavy}, so intervals would be too narrow; send logarithms of these columns" if heavy else ""
    )


def _unfit(sketch: Sketch, sampled: _Sampled, rows: I64, inverse: F64) -> str:
    """Return what a sample of rows says against the inverse curvature of the weights `rows` of the block; empty for nothing.

    Let a row x of the sample have the curvature h, times the number of rows that it stands for. If C is the inverse of the sum of
    h x x', the sum of h x' C x is the number of weights, and so is that of h g (x' C z)^2 over pairs of rows x and z with
    curvatures h and g. The more cross curvature C lacks, the larger the second is. And the slopes of the rows now, less what
    their linearisation says, move the margins from the optimum; pairs of rows give the mean square of that in standard errors,
    without the noise of the sample.
    """
    if sketch.left_out:
        return f"{sketch.left_out} features outside the block should have a weight; set a larger k, or mode hybrid"
    if not _is_enough(sketch, sampled):
        return ""
    n = len(sampled.z)
    pairs = sampled.z @ sampled.spread @ sampled.z.T
    variance = pairs.diagonal()
    counted, others = sampled.share * sampled.curvature, n / (n - 1.0)
    apart = float(counted @ pairs**2 @ counted - counted**2 @ variance**2) * others / float(counted @ variance)
    if apart > MISSED_MAX and bool((sketch.outside_curvature > 0.0).any()):
        return "features that occur together are not together in the block of cross curvature; set a larger k, or mode exact"
    moved = (sampled.share * sampled.off)[:, np.newaxis] * (pairs / np.sqrt(variance))
    square = float(np.mean(moved.sum(axis=0) ** 2 - np.sum(moved**2, axis=0))) * others
    if square > MOVED_MAX**2:
        return f"the weights have moved since most rows were learnt: margins are {math.sqrt(square):.0f} errors from the optimum"
    again = sampled.z[:, : len(rows)] @ _pull(sketch, rows, inverse)[1]
    if float(np.mean(again**2)) > PULLED_MAX**2 * float(np.var(sampled.z @ sampled.beta)):
        return "the prior holds the weights far from the optimum: columns with heavy tails; send logarithms of these columns"
    return ""


def _combinations(sketch: Sketch) -> int:
    """Return how many columns of numbers, those with a middle, are nearly combinations of other members, with a weight or not."""
    if sketch.middle is None:
        return 0
    used = np.flatnonzero(sketch.curvature > 0.0)
    column = sketch.middle[used] != 0.0
    if not column.any() or len(used) > ACTIVE_MAX:
        return 0
    matrix = _inverse(sketch.cross[np.ix_(used, used)], sketch.curvature[used])
    if matrix is None:
        return int(column.sum())
    return int((sketch.curvature[used] * matrix.diagonal() > INFLATION_MAX)[column].sum())


def _of_sample(sketch: Sketch, sample: Sample, rows: I64, inverse: F64) -> _Sampled:
    """Evaluate the rows of the sample, with the weights `rows` of the block and their inverse curvature."""
    batch = sample.rows
    key, row = batch.hash >> np.uint32(HASH_BITS - sketch.bits), np.repeat(np.arange(batch.n), np.diff(batch.indptr))
    first = int(sketch.intercept)
    alive = (sketch.outside_beta != 0.0) & (sketch.outside_curvature > 0.0) & np.isin(sketch.outside_slot, key)
    slot = np.concatenate([sketch.slot[rows[first:]], sketch.outside_slot[alive]])
    order = np.argsort(slot)
    at = np.minimum(np.searchsorted(slot[order], key), max(len(slot) - 1, 0))
    met = slot[order][at] == key if len(slot) else np.zeros(len(key), np.bool_)
    z = np.zeros((batch.n, first + len(slot)))
    z[:, :first] = 1.0
    np.add.at(z, (row[met], first + order[at[met]]), batch.value[met])
    spread = np.zeros((first + len(slot), first + len(slot)))
    spread[: len(rows), : len(rows)] = inverse
    outside = np.arange(len(rows), len(spread))
    spread[outside, outside] = 1.0 / sketch.outside_curvature[alive]
    beta = np.concatenate([sketch.beta[rows], sketch.outside_beta[alive]])
    margin = z @ beta
    slope, curvature = _terms(sample, margin)
    before, curvature_before = _terms(sample, sample.margin)
    whole = max(float(batch.weight @ curvature), np.finfo(np.float64).tiny)
    share = batch.weight / whole * (sketch.curvature[0] if sketch.intercept else 1.0)
    off = slope - before + curvature_before * (margin - sample.margin)
    return _Sampled(z, beta, spread, share, curvature, _excess(sample, margin), off)


def _excess(sample: Sample, margin: F64) -> F64:
    """Return how much the floor is expected to add to the curvature p (1 - p) of each row: a label with the probability q below
    it counts floor (1 - q) in place of q (1 - q)."""
    if sample.link != "logistic":
        return np.zeros(len(margin))
    rare = 0.5 - 0.5 * np.tanh(0.5 * np.abs(margin))  # without overflow
    excess: F64 = rare * (1.0 - rare) * np.maximum(sample.floor - rare, 0.0)
    return excess


def _terms(sample: Sample, margin: F64) -> tuple[F64, F64]:
    """Return slope and curvature of the log-likelihood of each row at a margin, as the sketch counts them."""
    n = len(margin)
    slope, curvature, likelihood = np.empty(n), np.empty(n), np.empty(n)
    core.taylor(LINKS[sample.link].code, margin, sample.rows.label, n, slope, curvature, likelihood)
    return slope, np.maximum(curvature, sample.floor * np.abs(slope)) if sample.link == "logistic" else curvature


def _in_input(matrix: F64, middle: F64, spread: F64, intercept: bool) -> F64:
    """Return the covariance of weights in the units of the input, from that of the weights of values (x - middle) / spread."""
    found: F64 = matrix / np.outer(spread, spread)
    if intercept:  # that of the input is the other's less the sum of the weights times the middles
        found[0] -= middle[1:] @ found[1:]
        found[:, 0] -= found[:, 1:] @ middle[1:]
    return found


def _none(why_not: str) -> Covariance:
    return Covariance(np.zeros((0, 0)), False, np.zeros(0, np.uint32), np.zeros(0, np.int64), np.zeros(0), why_not=why_not)


# The regularisation path of a sketch: the weights under other penalties, without learning again.
#
# A sketch is a quadratic, so the optimum under another penalty needs one solve. The solves begin at the largest penalty, where
# every weight is zero, and each one starts from the solution of the one before. Features outside the block are independent of
# each other, so their optimum has a closed form.
# Weights with individual penalties keep them. The intercept keeps its penalty too, unless it equals the common one.

FLOOR: Final = 0.01  # the grid ends at this fraction of the current gamma: low enough to see the loss rise again
FLOOR_WITHOUT_PENALTY: Final = 1e-4  # of the largest gamma, if the current one is zero
TOLERANCE: Final = 1e-4  # of gamma, a hundredth of a learner's: weights that are zero should be exactly zero here
ROUNDING: Final = 1e-12  # the same without a common penalty, as a fraction of the largest gradient at weights zero
SWEEPS_MAX: Final = 200  # bounds the time; only penalties near zero need about as many


@frozen_dataclass(frozen=True, slots=True)
class Point:
    """The optimum of a sketch under one penalty.

    non_zeros : weights that are not zero, the intercept not counted
    objective : log-likelihood of the sketch minus penalties, relative to that of all weights zero
    """

    gamma: float
    non_zeros: int
    objective: float


class Path:
    """Optima of one sketch. Solve for decreasing penalties: each solve starts from the last one."""

    def __init__(self, sketch: Sketch) -> None:
        self._sketch = sketch
        self._own = sketch.gamma != sketch.penalty
        self._outside_own = sketch.outside_gamma != sketch.penalty
        self._outside_omega = sketch.outside_gradient + sketch.outside_curvature * sketch.outside_beta
        self._at_zero = sketch.gradient + sketch.curvature * sketch.beta + sketch.cross @ sketch.beta
        self._problem = Quadratic(
            beta=np.zeros(len(sketch.beta)),
            gradient=self._at_zero.copy(),
            curvature=sketch.curvature,
            gamma=np.zeros(len(sketch.beta)),
            cross=sketch.cross,
            halt=np.zeros(1, np.int64),
        )
        self.largest_gamma = self._largest_gamma()

    def solve(self, gamma: float) -> Point:
        """Find the optimum under `gamma`."""
        self._solve_block(gamma)
        beta, gradient, penalties = self._problem.beta, self._problem.gradient, self._problem.gamma
        active = np.flatnonzero(beta)
        # The rise of a quadratic along a step is the step times the mean of the gradients at both ends.
        gain = 0.5 * beta[active] * (self._at_zero + gradient)[active]
        objective = float(np.sum(gain - penalties[active] * np.abs(beta[active])))
        inside = len(active) - int(self._sketch.intercept and beta[0] != 0.0)
        excess = np.abs(self._outside_omega) - np.where(self._outside_own, self._sketch.outside_gamma, gamma)
        moves = (excess > 0.0) & (self._sketch.outside_curvature > 0.0)
        objective += float(np.sum(0.5 * excess[moves] ** 2 / self._sketch.outside_curvature[moves]))
        return Point(gamma, inside + int(np.count_nonzero(moves)), objective)

    def grid(self, points: int, top: float | None, bottom: float | None) -> list[float]:
        """Return `points` penalties in equal ratios, decreasing; fewer if no weight can become non-zero.

        top, bottom : its ends. By default the smallest gamma at which every weight with the common penalty is zero, and FLOOR of
                      the current gamma
        """
        high = self.largest_gamma if top is None else top
        in_force = min(self._sketch.penalty, high)
        low = bottom if bottom is not None else FLOOR * in_force if in_force > 0.0 else FLOOR_WITHOUT_PENALTY * high
        if not 0.0 < low < high:
            return [high] if high > 0.0 else []
        ratio = (math.log(low) - math.log(high)) / (points - 1)  # low / high may be too small a number
        return [high, *(high * math.exp(ratio * i) for i in range(1, points - 1)), low]

    def _solve_block(self, gamma: float) -> None:
        self._problem.gamma[:] = np.where(self._own, self._sketch.gamma, gamma)
        slack = TOLERANCE * gamma if 0.0 < gamma < math.inf else ROUNDING * float(np.max(np.abs(self._at_zero), initial=0.0))
        with lent(self._problem.halt):
            shoot(self._problem, slack, SWEEPS_MAX)

    def _largest_gamma(self) -> float:
        """The smallest gamma at which only weights with individual penalties are non-zero. Leaves the block in that state."""
        self._solve_block(math.inf)
        inside = _largest(np.abs(self._problem.gradient), ~self._own & (self._sketch.curvature > 0.0))
        outside = _largest(np.abs(self._outside_omega), ~self._outside_own & (self._sketch.outside_curvature > 0.0))
        return max(inside, outside) * (1.0 + 1000 * ROUNDING)  # so that rounding leaves no weight non-zero


def regularisation_path(
    sketch: Sketch, points: int, top: float | None = None, bottom: float | None = None, also: Iterable[float] = ()
) -> list[Point]:
    """Return the optima over a grid of penalties, largest first, including the current penalty and `also`.

    points      : number of points of the grid, at least 2
    top, bottom : ends of the grid, see `Path.grid`; top > bottom > 0
    """
    path = Path(sketch)
    gammas = {*path.grid(points, top, bottom), sketch.penalty, *also}
    return [path.solve(gamma) for gamma in sorted(gammas, reverse=True)]


def _largest(sizes: F64, among: BOOL) -> float:
    return float(np.max(sizes, initial=0.0, where=among))
