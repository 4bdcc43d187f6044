"""Link functions: from margin to probability, and from probability to label."""

from __future__ import annotations

import math
from typing import Final, Literal, NamedTuple

from riata.base.arrays import F64
from riata.jit.kernel import inline_kernel, kernel

Link = Literal["logistic", "probit", "identity", "hinge"]
Answers = Link | Literal["real"]  # what a model answers: by its link, or any number

LOGISTIC: Final = 0
IDENTITY: Final = 1
HINGE: Final = 2
REAL: Final = 3  # identity, for labels of any value
PROBIT: Final = 4
WITH_PROBABILITY: Final = (LOGISTIC, IDENTITY, PROBIT)


class LinkFunction(NamedTuple):
    """A link function. The formulas are in the kernels, which branch on the code: `answers` here, `score_event` of
    `watch.accumulate`, and `maths.taylor` for the links of the Taylor sketch.

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

ROOT_HALF: Final = math.sqrt(0.5)


@inline_kernel
def sigma(margin: float) -> float:
    """Logistic function without overflow: the exponential is always of a number <= 0.

    Source             the two forms 1 / (1 + exp(-m)) and exp(m) / (1 + exp(m)), each where it cannot overflow
    """
    e = math.exp(-abs(margin))
    return 1.0 / (1.0 + e) if margin >= 0.0 else e / (1.0 + e)


@inline_kernel
def normal_cdf(margin: float) -> float:
    """Distribution function of the standard normal, with full relative accuracy when it is small.

    Source             Phi(m) = erfc(-m / sqrt 2) / 2
    """
    return 0.5 * math.erfc(-ROOT_HALF * margin)


@kernel
def answers(margin: F64, link: int, negative: float, probability: F64, label: F64) -> None:
    """Turn margins into probabilities and labels.

    Parameters
    ----------
    margin : f64[n]       finite; read only
    link : int            LOGISTIC: sigma(margin); PROBIT: normal_cdf(margin); IDENTITY: margin clipped to [0, 1]; HINGE and
                          REAL: no probability
    negative : float      value of the negative class: 0 or -1
    probability : f64[n]  overwritten; NaN if the link has none
    label : f64[n]        overwritten: 1 if the probability is above 1/2 (HINGE: the margin above 0), otherwise `negative`;
                          REAL: the margin itself

    Returns            nothing
    Cost               one exponential, or one erfc, for each row
    Source             Langford, Li & Zhang 2009, section 2 (losses and what they predict); Balakrishnan & Madigan 2008
                       for the probit link
    """
    for i in range(margin.shape[0]):
        m = margin[i]
        probability[i] = math.nan
        above = m > 0.0
        if link == LOGISTIC:
            probability[i] = sigma(m)
            above = probability[i] > 0.5
        elif link == PROBIT:
            probability[i] = normal_cdf(m)
            above = probability[i] > 0.5
        elif link == IDENTITY:
            probability[i] = min(max(m, 0.0), 1.0)
            above = m > 0.5
        if link == REAL:
            label[i] = m
        else:
            label[i] = 1.0 if above else negative
