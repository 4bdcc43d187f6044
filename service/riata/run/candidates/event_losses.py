"""The loss of each event before it was learnt, of every kind of model."""

from __future__ import annotations

import numpy as np

from riata.base.arrays import F64
from riata.learn.learner import Stepped
from riata.maths.links import Answers
from riata.maths.log_loss import PROBABILITY_MIN
from riata.run.candidates.gate import losses, probabilities


def measure_of(answers: Answers) -> str:
    """Return what `event_losses` are. answers : as `ProgressiveConfig.answers`"""
    return "squared error" if answers == "real" else "hinge loss" if answers == "hinge" else "log loss"


def event_losses(stepped: Stepped, answers: Answers) -> F64:
    """Return f64[n]; NaN for events that were refused. answers : as `ProgressiveConfig.answers`"""
    margin = np.where(stepped.refused, np.nan, stepped.margin)
    if answers == "real":
        return losses("identity", margin, stepped.label, True)
    if answers == "identity":  # the gate has the loss that is learnt, which is the squared error
        probability = probabilities("identity", margin)
        of_label = np.where(stepped.label > 0.5, probability, 1.0 - probability)
        return -np.log(np.maximum(of_label, PROBABILITY_MIN))
    return losses(answers, margin, stepped.label, False)
