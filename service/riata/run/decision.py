"""What a model's answers decide: the costs of errors, and the correction for negatives that were left out."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

from annotated_types import Ge, Le

from riata.base.errors import BadInput
from riata.learn.learner import Weights

COST_MAX: Final = 10**9  # an int, as other settings have: typing caches equal bounds, and pages show whichever came first


@dataclass(frozen=True, slots=True)
class Decision:
    """Costs of the two kinds of error; a right decision costs nothing. 0 and 0: there is nothing to decide."""

    cost_fp: Annotated[float, Ge(0.0), Le(COST_MAX), "Cost of deciding for the positive class when the label is negative."] = 0.0
    cost_fn: Annotated[float, Ge(0.0), Le(COST_MAX), "Cost of deciding for the negative class when the label is positive."] = 0.0

    def __post_init__(self) -> None:
        if (self.cost_fp > 0.0) != (self.cost_fn > 0.0):
            raise BadInput("decision: give both cost_fp and cost_fn, above 0", "out_of_range")

    @property
    def is_wanted(self) -> bool:
        """Whether the costs are set."""
        return self.cost_fp > 0.0

    @property
    def threshold(self) -> float:
        """The probability above which the positive class is decided for: there the expected costs of both decisions are equal.

        Source : Elkan 2001, The foundations of cost-sensitive learning, section 2
        """
        return self.cost_fp / (self.cost_fp + self.cost_fn)


def answers_probability(learner: Any) -> bool:
    """Whether the answers of a learner with this configuration are probabilities by the logistic or the probit link."""
    return _link(learner) in ("logistic", "probit")


def is_logistic(learner: Any) -> bool:
    """Whether a learner with this configuration has the logistic link."""
    return bool(_link(learner) == "logistic")


def _link(learner: Any) -> Any:
    """Return the setting that chooses the link: `link` or `loss`; learners without either are logistic."""
    return getattr(learner, "link", getattr(learner, "loss", "logistic"))


def margin_shift(negatives_kept: float) -> float:
    """What is added to each margin if this share of the negative rows is learnt: the odds were multiplied by 1 / share.

    Source : He et al. 2014, Practical lessons from predicting clicks on ads at Facebook, section 6.3; exact for log-odds
    """
    return math.log(negatives_kept)


def served_weights(weights: Weights, negatives_kept: float) -> Weights:
    """Return a learner's weights as they are served: with the intercept, that of draws too, shifted by `margin_shift`."""
    if negatives_kept == 1.0:
        return weights
    shift, draws = margin_shift(negatives_kept), weights.posterior
    moved = None if draws is None else replace(draws, base=draws.base + shift)
    return replace(weights, intercept=weights.intercept + shift, posterior=moved)
