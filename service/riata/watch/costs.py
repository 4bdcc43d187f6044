"""What the decisions of a model cost in the window: realised with the labels that came, and as the model itself expected."""

from __future__ import annotations

import math

import numpy as np

from riata.base.arrays import F64
from riata.maths.links import answers
from riata.watch.accumulate import PAST_LABEL, PAST_MARGIN, PAST_WEIGHT
from riata.watch.figures import Figures, ratio


def cost_figures(past: F64, link: int, costs: tuple[float, float], shift: float = 0.0) -> Figures:
    """Return mean costs of an event of the window under the threshold of the costs, and under others for comparison.

    past  : f64[PAST, n]  margins before learning, labels 0 or 1 and weights, as the window holds them
    link  : of `maths.links`, with probabilities
    costs : of a decision for the positive class with label 0, and of one for the negative class with label 1
    shift : of served margins, the logarithm of the share of negatives that are learnt; each counts as 1 / share here
    """
    cost_fp, cost_fn = costs
    threshold = cost_fp / (cost_fp + cost_fn)
    margin, positive = past[PAST_MARGIN] + shift, past[PAST_LABEL] > 0.0
    probability, label = np.empty(len(margin)), np.empty(len(margin))
    answers(margin, link, 0.0, probability, label)
    weight = past[PAST_WEIGHT] * np.where(positive, 1.0, math.exp(-shift))
    total = float(weight.sum())

    def mean(cost: F64) -> float | None:
        return ratio(float((cost * weight).sum()), total)

    def realised(decided: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> float | None:
        return mean(np.where(decided & ~positive, cost_fp, np.where(~decided & positive, cost_fn, 0.0)))

    return {
        "examples": len(margin),
        "threshold": threshold,
        "realised": realised(probability > threshold),
        "expected": mean(np.minimum((1.0 - probability) * cost_fp, probability * cost_fn)),
        "realised_at_half": realised(probability > 0.5),
        "always_negative": realised(np.zeros(len(margin), np.bool_)),
        "always_positive": realised(np.ones(len(margin), np.bool_)),
    }
