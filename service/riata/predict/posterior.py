"""A linear model with the posterior distribution of its weights: what a row's probability and each weight may be."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Final, cast

import numpy as np

from riata.base.arrays import F64, I64, U32, Arrays, read_only
from riata.base.errors import Conflict, Corrupt
from riata.base.limits import CURVATURE_CARRIED_BYTES_MAX
from riata.learn.frozen import check_numbers, check_slots
from riata.learn.learner import Posterior, Weights
from riata.learn.registry import SPECS
from riata.maths.links import LINKS, answers
from riata.predict.linear_model import LinearModel
from riata.predict.model import Model, Scores
from riata.wire.batch import Batch

PARTS: Final = ("draws_slot", "draws", "draws_base", "draws_weight", "draws_figures", "draws_dependent")
FIGURES: Final = 3
FEATURES_ADVISED: Final = 16  # above it the draws move by hardly more than a normal distribution fitted to them


@dataclass(frozen=True, slots=True)
class Marginal:
    """The distribution of one number. low, high : the central interval; positive : the probability that it is above zero."""

    low: float
    high: float
    positive: float


@dataclass(frozen=True, slots=True)
class PosteriorModel(LinearModel):
    """The linear model of the posterior means, and the draws of which they are the means. It has no plan: answers have standard
    errors.

    Margins, probabilities and explanations are those of the means. The standard error of a margin is the standard deviation of
    the draws' margins. A feature without draws adds nothing.
    """

    posterior: Posterior = field(kw_only=True)
    covariance: F64 = field(init=False)

    def __post_init__(self) -> None:
        LinearModel.__post_init__(self)
        object.__setattr__(self, "plan", None)
        p = self.posterior
        frozen = replace(
            p, slot=cast(U32, read_only(p.slot)), theta=cast(F64, read_only(p.theta)), base=cast(F64, read_only(p.base)),
            weight=cast(F64, read_only(p.weight)), figures=cast(F64, read_only(p.figures)),
        )  # fmt: skip
        object.__setattr__(self, "posterior", frozen)
        theta, part = np.vstack([p.base, p.theta]), p.weight / p.weight.sum()
        centred = theta - (theta @ part)[:, np.newaxis]
        object.__setattr__(self, "covariance", cast(F64, read_only((centred * part) @ centred.T)))

    def score(self, batch: Batch) -> Scores:
        """Score every row of `batch`, with the standard deviations of the margins."""
        scores, std_error = LinearModel.score(self, batch), np.empty(batch.n)
        batch = self.weights.used(batch)
        for i in range(batch.n):
            at, x = self._row(batch, i)
            std_error[i] = np.sqrt(max(float(x @ self.covariance[np.ix_(at, at)] @ x), 0.0))
        return replace(scores, std_error=std_error)

    def intervals(self, batch: Batch, level: float) -> F64:
        """Return f64[n, 3]: low and high end of the central interval of each row's probability, and its posterior mean.

        level : probability of the interval, in (0, 1)
        """
        p, found, batch = self.posterior, np.empty((batch.n, 3)), self.weights.used(batch)
        theta, whole = np.vstack([p.base, p.theta]), p.weight.sum()
        for i in range(batch.n):
            at, x = self._row(batch, i)
            margin = x @ theta[at]
            probability = 0.5 + 0.5 * np.tanh(0.5 * margin)  # the logistic function, without overflow
            found[i, :2] = quantiles(probability, p.weight, level)
            found[i, 2] = float(probability @ p.weight / whole)
        return found

    def marginals(self, level: float) -> tuple[Marginal, list[Marginal]]:
        """Return the distribution of the intercept, and of each of `weights`, in their order."""
        p = self.posterior
        kept = np.isin(p.slot, self.weights.slot)
        lines = [p.base[0], *p.theta[kept]]
        found = [Marginal(*quantiles(line, p.weight, level), positive=positive(line, p.weight)) for line in lines]
        return found[0], found[1:]

    def weight_errors(self) -> F64:
        """Return the standard deviation of each weight."""
        kept = np.isin(self.posterior.slot, self.weights.slot)
        return cast(F64, np.sqrt(np.diag(self.covariance)[1:][kept]))

    def memory(self) -> dict[str, int]:
        """Return bytes by part."""
        p = self.posterior
        return {
            **LinearModel.memory(self),
            "posterior": p.theta.nbytes + p.base.nbytes + p.weight.nbytes + self.covariance.nbytes,
        }

    def parts(self) -> tuple[Arrays, str]:
        """Return its arrays; the draws only if they are small enough to be sent to followers every 200 ms."""
        arrays, _ = LinearModel.parts(self)
        if self.memory()["posterior"] > CURVATURE_CARRIED_BYTES_MAX:
            mib = self.memory()["posterior"] / 2**20
            return arrays, f"its posterior takes {mib:.0f} MiB, too much to publish to followers; ask the writer"
        p = self.posterior
        values = (p.slot, p.theta.reshape(-1), p.base[0], p.weight, p.figures, np.array([p.dependent], np.int64))
        return arrays | dict(zip(PARTS, values, strict=True)), ""

    def _row(self, batch: Batch, i: int) -> tuple[I64, F64]:
        """Return the draws that a row meets, by index with the intercept at 0, and its values for them."""
        row = slice(int(batch.indptr[i]), int(batch.indptr[i + 1]))
        slot, known = batch.hash[row] >> np.uint32(32 - self.weights.bits), self.posterior.slot
        at = np.searchsorted(known, slot)
        hit = at < len(known)
        hit[hit] = known[at[hit]] == slot[hit]
        return np.concatenate([[0], 1 + at[hit]]).astype(np.int64), np.concatenate([[1.0], batch.value[row][hit]])


def read_posterior(arrays: Arrays, weights: Weights) -> Posterior:
    """Read the draws among the `parts` of a model with these weights; `arrays` has all of PARTS. Raises `Corrupt`."""
    slot, theta, base, weight, figures, dependent = (arrays[name] for name in PARTS)
    count = weight.size
    check_slots("draws_slot", slot, weights.bits)
    check_numbers("draws", theta, len(slot) * count)
    check_numbers("draws_base", base, count)
    check_numbers("draws_weight", weight, count, 0.0)
    check_numbers("draws_figures", figures, FIGURES, 0.0)
    if dependent.dtype != np.int64 or dependent.shape != (1,) or not -1 <= int(dependent[0]) < max(len(slot), 1):
        raise Corrupt("draws_dependent is not the position of a feature")
    if not bool(weight.any()) or not bool(np.isin(weights.slot, slot).all()):
        raise Corrupt("its draws have no weight, or a weight has no draws")
    drawn = cast(F64, theta).reshape(len(slot), count)
    parts = (cast(U32, slot), drawn, cast(F64, base).reshape(1, count), cast(F64, weight), cast(F64, figures))
    return Posterior(*parts, int(dependent[0]))


def require_posterior(model: Model) -> PosteriorModel:
    """Return a model that has a posterior. Raises `Conflict` (code `no_posterior`) for another."""
    if isinstance(model, PosteriorModel):
        return model
    kinds = " or ".join(kind for kind, spec in SPECS.items() if spec.keeps_posterior)
    raise Conflict(
        f"level: the model {model.origin.name} has no posterior distribution; a learner of kind {kinds} that has learnt an event "
        "has one, in the process that learns and in followers",
        "no_posterior",
    )


def quantiles(values: F64, weight: F64, level: float) -> tuple[float, float]:
    """Return the ends of the central interval of probability `level` of weighted draws: the smallest draws at which the
    cumulative weight reaches (1 - level) / 2 and (1 + level) / 2."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weight[order])
    at = np.searchsorted(reached, np.array([0.5 - 0.5 * level, 0.5 + 0.5 * level]) * reached[-1])
    low, high = values[order[np.minimum(at, len(values) - 1)]].tolist()
    return low, high


def positive(values: F64, weight: F64) -> float:
    """Return the probability that weighted draws are above zero."""
    return float(weight[values > 0.0].sum() / weight.sum())


def posterior_document(model: Model, names_in: Callable[[int, int], list[str]]) -> dict[str, object] | None:
    """Return the state of a model's posterior for its description; None if it has none.

    names_in : (slot, bits of the model's slots) -> names seen in it
    """
    if not isinstance(model, PosteriorModel):
        return None
    p = model.posterior
    size, moves, tempered = p.figures.tolist()
    named = [] if p.dependent < 0 else names_in(int(p.slot[p.dependent]), model.weights.bits)
    many = len(p.slot) > FEATURES_ADVISED
    return {
        "draws": len(p.weight),
        "effective_sample_size": size,
        "rejuvenations": int(moves),
        "tempered_events": int(tempered),
        "dependent_feature": None if p.dependent < 0 else (named or [f"slot {p.slot[p.dependent]}"])[0],
        "warning": f"more than {FEATURES_ADVISED} features: the posterior is close to a normal distribution" if many else None,
    }


WIDTH_MAX: Final = 0.5  # of a weight, in units of 1 / gamma: the standard deviation of the prior is 1.4
TEMPERED_MIN: Final = 2
TEMPERED_SHARE: Final = 1e-4  # of the rows


def doubts(model: Model, gamma: float) -> list[tuple[str, list[int]]]:
    """Return what speaks against the intervals of a model with a posterior, and the slots that it is about.

    gamma : of the prior of its weights
    """
    if not isinstance(model, PosteriorModel):
        return []
    p = model.posterior
    wide = p.slot[np.sqrt(model.covariance.diagonal()[1:]) * gamma > WIDTH_MAX].tolist()
    tempered = int(p.figures[2])
    found: list[tuple[str, list[int]]] = []
    if wide:
        found.append((f"{len(wide)} weight{'s are' if len(wide) > 1 else ' is'} {_WIDE}", wide))
    if tempered >= max(TEMPERED_MIN, TEMPERED_SHARE * model.seq):
        found.append((f"{tempered:,} {_TEMPERED}", []))
    return found


_WIDE: Final = (
    "hardly limited by the rows, as where a feature is rare or separates the labels: the prior decides, and intervals can be "
    "half as wide as they should be. Set a larger gamma, or leave the feature out"
)
_TEMPERED: Final = (
    "rows were far from what the particles expect, so means and intervals can be wrong by several standard deviations: look for "
    "outliers and features in large units"
)


# Intervals of probabilities: of draws from the posterior where a model has them, otherwise from standard errors.
#
# Theory of operation
#     A standard error s comes from the curvature of the objective at the weights: the Laplace approximation, under which the
#     margin of a row is normal with mean m and standard deviation s. The link is monotone, so the central interval of the
#     probability has the ends link(m - z s) and link(m + z s), z being the quantile of the standard normal at (1 + level) / 2.
#     The mean of the probability is the integral of link(m + s t) against the normal density of t, by Gauss-Hermite quadrature.


@cache
def _quadrature() -> tuple[F64, F64]:
    """Return the values of t, and their shares of the integral."""
    nodes, shares = np.polynomial.hermite.hermgauss(32)
    return math.sqrt(2.0) * nodes, shares / math.sqrt(math.pi)


def intervals_of(model: Model, batch: Batch, scores: Scores, level: float) -> F64:
    """Return f64[n, 3]: low and high end of the central interval of each row's probability, and its mean; NaN for a row outside
    the span of those learnt.

    scores : of the same rows by the same model
    level  : probability of the interval, in (0, 1)
    Raises `Conflict` (code `no_posterior`) if the model has neither a posterior nor standard errors.
    """
    if isinstance(model, PosteriorModel):
        return model.intervals(batch, level)
    if scores.outside is None and np.isnan(scores.std_error).any():
        kinds = " or ".join(kind for kind, spec in SPECS.items() if spec.keeps_posterior or spec.keeps_curvature)
        raise Conflict(
            f"level: the model {model.origin.name} has no standard errors now; a learner of kind {kinds} that has learnt events "
            "has them, unless it keeps too much curvature to invert or to send to followers",
            "no_posterior",
        )
    from statistics import NormalDist  # takes 5 ms, and few ask for intervals

    z = NormalDist().inv_cdf(0.5 + 0.5 * level)
    times, share = _quadrature()
    steps = np.concatenate(([-z, z], times))
    margins = (scores.margin[:, None] + scores.std_error[:, None] * steps).ravel()
    probability, label = np.empty(len(margins)), np.empty(len(margins))
    answers(margins, LINKS[model.weights.link].code, 0.0, probability, label)
    found = probability.reshape(batch.n, len(steps))
    return np.column_stack((found[:, :2], found[:, 2:] @ share))
