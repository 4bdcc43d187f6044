"""Intervals of probabilities: of draws from the posterior where a model has them, otherwise from standard errors.

Theory of operation
    A standard error s comes from the curvature of the objective at the weights: the Laplace approximation, under which the
    margin of a row is normal with mean m and standard deviation s. The link is monotone, so the central interval of the
    probability has the ends link(m - z s) and link(m + z s), z being the quantile of the standard normal at (1 + level) / 2.
    The mean of the probability is the integral of link(m + s t) against the normal density of t, by Gauss-Hermite quadrature.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Final

import numpy as np

from riata.base.arrays import F64
from riata.base.errors import Conflict
from riata.learn.registry import SPECS
from riata.maths.links import LINKS, answers
from riata.predict.model import Model, Scores
from riata.predict.posterior import PosteriorModel
from riata.wire.batch import Batch

_NODES, _SHARES = np.polynomial.hermite.hermgauss(32)
_TIMES: Final[F64] = math.sqrt(2.0) * _NODES
_SHARE: Final[F64] = _SHARES / math.sqrt(math.pi)


def intervals_of(model: Model, batch: Batch, scores: Scores, level: float) -> F64:
    """Return f64[n, 3]: low and high end of the central interval of each row's probability, and its mean.

    scores : of the same rows by the same model
    level  : probability of the interval, in (0, 1)
    Raises `Conflict` (code `no_posterior`) if the model has neither a posterior nor standard errors.
    """
    if isinstance(model, PosteriorModel):
        return model.intervals(batch, level)
    if np.isnan(scores.std_error).any():
        kinds = " or ".join(kind for kind, spec in SPECS.items() if spec.keeps_posterior or spec.keeps_curvature)
        raise Conflict(
            f"level: the model {model.origin.name} has no standard errors now; a learner of kind {kinds} that has learnt events "
            "has them, unless it keeps too much curvature to invert or to send to followers",
            "no_posterior",
        )
    z = NormalDist().inv_cdf(0.5 + 0.5 * level)
    steps = np.concatenate(([-z, z], _TIMES))
    margins = (scores.margin[:, None] + scores.std_error[:, None] * steps).ravel()
    probability, label = np.empty(len(margins)), np.empty(len(margins))
    answers(margins, LINKS[model.weights.link].code, 0.0, probability, label)
    found = probability.reshape(batch.n, len(steps))
    return np.column_stack((found[:, :2], found[:, 2:] @ _SHARE))
