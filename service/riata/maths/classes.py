"""Probabilities of several classes from one margin a class: one-vs-rest."""

from __future__ import annotations

import math

from riata.base.arrays import F64, I64
from riata.jit.kernel import inline_kernel, kernel
from riata.jit.raw.unowned import borrow
from riata.maths.taylor import log_likelihood


@inline_kernel
def share_out(margin: F64, link: int, probability: F64) -> int:
    """Write the probabilities of the classes of one row; return the class of the largest margin, the first of equal ones.

    Each class has the probability that its own model gives it, divided by the sum over the classes. The sum is taken relative to
    the largest, so it does not underflow.

    Source             Zadrozny & Elkan 2002, Transforming classifier scores into multiclass probability estimates, section 4
    """
    winner, top = 0, -math.inf
    for k in range(margin.shape[0]):
        probability[k] = log_likelihood(link, margin[k], 1.0)
        top = max(top, probability[k])
        winner = k if margin[k] > margin[winner] else winner
    total = 0.0
    for k in range(margin.shape[0]):
        probability[k] = math.exp(probability[k] - top)
        total += probability[k]
    for k in range(margin.shape[0]):
        probability[k] /= total
    return winner


@kernel
def class_probabilities(margin: F64, link: int, probability: F64, winner: I64) -> None:
    """Turn the margins of several classes into probabilities that sum to one.

    Parameters
    ----------
    margin : f64[n, k]       k >= 1, finite; read only
    link : int               LOGISTIC or PROBIT of `links`
    probability : f64[n, k]  overwritten
    winner : i64[n]          overwritten: the class of the largest margin

    Returns            nothing
    Cost               one logarithm and two exponentials for each margin
    Source             `share_out`
    """
    margin, probability = borrow(margin), borrow(probability)
    for i in range(margin.shape[0]):
        winner[i] = share_out(margin[i], link, probability[i])
