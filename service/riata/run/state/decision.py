"""What a model's answers decide: costs of errors, and corrections for negatives left out and for weights of labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Final

import numpy as np
from annotated_types import Ge, Gt, Le

from riata.base.arrays import BOOL
from riata.base.errors import BadInput
from riata.base.frozen_dataclass import frozen_dataclass
from riata.base.limits import WEIGHT_MAX
from riata.learn.learner import Learner, Stepped, Weights
from riata.wire.batch import UNWEIGHTED, Batch, ByLabel, weighted

COST_MAX: Final = 10**9  # an int, as other settings have: typing caches equal bounds, and pages show whichever came first


@frozen_dataclass(frozen=True, slots=True)
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


@frozen_dataclass(frozen=True, slots=True)
class LabelWeight:
    """By how much the weight of a row is multiplied when it is learnt. Served probabilities are those of the rows as sent."""

    positive: Annotated[float, Gt(0.0), Le(WEIGHT_MAX), "Factor of the weights of rows with the positive label."] = 1.0
    negative: Annotated[float, Gt(0.0), Le(WEIGHT_MAX), "Factor of the weights of rows with the negative label."] = 1.0

    @property
    def is_wanted(self) -> bool:
        """Whether a factor is not 1."""
        return self.by_label != UNWEIGHTED

    @property
    def by_label(self) -> ByLabel:
        """The factors as `wire.batch.weighted` takes them."""
        return self.negative, self.positive

    @property
    def shift(self) -> float:
        """What is added to each margin: the odds that are learnt are positive / negative times those of the rows as sent."""
        return math.log(self.negative) - math.log(self.positive)

    def step_all(self, learner: Learner, rows: Sequence[Batch], skip: BOOL | None) -> Stepped:
        """Have `learner` learn `rows` with these factors. What it returns has the margins as they are served and the weights as
        they were sent, so that metrics are those of the rows as sent."""
        if not self.is_wanted:
            return learner.step_all(rows, skip)
        stepped = learner.step_all([weighted(batch, self.by_label) for batch in rows], skip)
        weight = np.concatenate([batch.weight for batch in rows])
        return replace(stepped, margin=stepped.margin + self.shift, weight=weight, middle=self.shift)


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


def served_weights(weights: Weights, shift: float) -> Weights:
    """Return a learner's weights as they are served: `shift` is added to the intercept, to that of draws, and to the bounds."""
    if shift == 0.0:
        return weights
    draws = weights.posterior
    moved = None if draws is None else replace(draws, base=draws.base + shift)
    low, high = weights.bounds
    return replace(weights, intercept=weights.intercept + shift, posterior=moved, bounds=(low + shift, high + shift))
