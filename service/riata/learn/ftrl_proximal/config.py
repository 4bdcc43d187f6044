"""Settings of FTRL-Proximal, with the reason of every default.

This module imports no kernel: code that reads a configuration imports it for every learner.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le, doc


@dataclass(frozen=True, slots=True)
class FtrlProximalConfig:
    """Settings of FTRL-Proximal (McMahan et al. 2013), logistic loss.

    Step sizes depend on the units of the features, which are standardised first.
    """

    kind: Literal["ftrl_proximal"] = "ftrl_proximal"
    alpha: Annotated[
        float,
        Gt(0),
        Le(1e6),
        doc(
            "Step size, in units of the features: a gradient g moves a weight by about alpha g / (beta + the root of the sum of "
            "its squared gradients). Default 0.15, for one-hot rows and short texts: over five streams the log loss with 0.2 is "
            "1 % better and with 0.1 is 4 % worse. Rows of several hundred counts overshoot with it: they need 0.05, or to "
            'be normalised to length one (the encoder\'s normalise "l2"), for which 1.5 is a good value: on three of seven texts '
            "the log loss is less than half of that with 0.15, and on none is it worse."
        ),
    ] = 0.15
    beta: Annotated[
        float,
        Gt(0),
        Le(1e12),
        doc(
            "Makes the first steps of a feature smaller than full size. Default 0.1: over the same streams the log loss with "
            "0.01 is 1 % better, but 3 % worse on clicks; with 1, which the paper finds good enough, it is 7 % worse."
        ),
    ] = 0.1
    l1: Annotated[
        float,
        Ge(0),
        Le(1e12),
        doc(
            "L1 penalty of every weight, on the sum of the losses; the intercept is not penalised. Default 0.1: 55 to 96 % of "
            "words and click values then have weight zero, at the cost of 1 % of the log loss; with 0.5 it is 81 to 98 %, at the "
            "cost of 4 % more."
        ),
    ] = 0.1
    l2: Annotated[
        float,
        Ge(0),
        Le(1e12),
        doc(
            "L2 penalty of every weight, on the sum of the losses; the intercept is not penalised. Default 0: with 1 none of "
            "five streams gains more than 1 %, and two lose 5 and 7 %."
        ),
    ] = 0.0
    intercept: Annotated[
        bool,
        doc(
            "Learn an intercept: a feature that is always 1, without a penalty. Default true: the base rate is learnt directly "
            "and not through the features."
        ),
    ] = True
    standardised: Annotated[
        bool,
        doc(
            "Learn values other than 1 in units of their own, taken from the first 1024 rows: less the mean and over the spread "
            "for features of nine rows of ten, over the root mean square for others where it is above 1. Weights stay in the "
            "units of the input. Default true: units and origins of columns do not matter. False: values as they are sent."
        ),
    ] = True
