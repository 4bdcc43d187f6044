"""Link functions: from margin to probability, and from probability to label."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from riata.base.arrays import F64
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
