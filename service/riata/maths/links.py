"""Link functions: from margin to probability, and from probability to label."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

import numpy as np

from riata.base.arrays import BOOL, F64, I64
from riata.native.library import core

Link = Literal["logistic", "probit", "identity", "hinge"]
Answers = Link | Literal["real"]  # what a model answers: by its link, or any number

LOGISTIC: Final = 0
IDENTITY: Final = 1
HINGE: Final = 2
REAL: Final = 3  # identity, for labels of any value
PROBIT: Final = 4
WITH_PROBABILITY: Final = (LOGISTIC, IDENTITY, PROBIT)


class LinkFunction(NamedTuple):
    """A link function. The formulas are in the native core, which branches on the code.

    prior : the margin of a model that has learnt nothing; probability 1/2 if the link has one
    """

    code: int
    prior: float = 0.0


LINKS: Final[dict[Answers, LinkFunction]] = {
    "logistic": LinkFunction(LOGISTIC),
    "probit": LinkFunction(PROBIT),
    "identity": LinkFunction(IDENTITY, 0.5),
    "hinge": LinkFunction(HINGE),
    "real": LinkFunction(REAL),
}


def answers(margin: F64, link: int, negative: float, probability: F64, label: F64) -> None:
    """Turn finite margins into probabilities and labels, as `riata_answers` says; `negative` is the label 0 or -1."""
    core.answers(len(margin), margin, link, negative, probability, label)


# The log loss, where a replay has to repeat it to the last bit.

PROBABILITY_MIN: Final = 1e-15  # lower bound of the probability in the log loss, which is so at most 34.5 nats


def log_losses(margin: F64, refused: BOOL, label: F64, weight: F64) -> F64:
    """Return the log losses of margins, times the weights of their rows. See `riata_log_losses`."""
    losses = np.empty(len(margin))
    core.log_losses(margin, refused, label, weight, len(margin), losses)
    return losses


# Losses of a margin: their slope, and how far a step of a given strength moves the margin along the loss.
#
# A label is 0 or 1 for the logistic and the hinge loss, any real number for the squared loss, which is (margin - label)^2 without
# a factor 1/2, as Langford, Li & Zhang write it. The formulas are in `service/native/losses.h`.

SQUARED: Final = 1


def slope(loss: int, margin: float, label: float) -> float:
    """Return the derivative of the loss with respect to the margin, which is finite."""
    return float(core.slope(loss, margin, label))


def invariant_travel(loss: int, margin: float, label: float, strength: float) -> float:
    """Return how far the margin moves, with its sign, when the row is learnt with importance as time (importance invariance).

    strength : rate times importance times squared length, >= 0
    """
    return float(core.travel(loss, margin, label, strength))


# Probabilities of several classes from one margin a class: one-vs-rest.


def class_probabilities(margin: F64, link: int) -> tuple[F64, I64]:
    """Return the probabilities f64[n, k] of margins f64[n, k], which sum to one, and the class of the largest margin of each row.

    See `riata_class_probabilities`.
    """
    (n, k), probability = margin.shape, np.empty(margin.shape)
    winner = np.empty(n, np.int64)
    core.class_probabilities(margin, n, k, link, probability, winner)
    return probability, winner
