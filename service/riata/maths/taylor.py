"""The log-likelihood of one label as a quadratic about the predicted margin: log p(y | c) = a c^2 + b c + const.

Both links have p(0 | c) = p(1 | -c), so everything is a function of the signed margin m = s c with s = 2 label - 1. With
    q = d log p / dm,    h = -d^2 log p / dm^2,    w = 1 + m h / q,
we have r = d log p / dc = s q, a = -h / 2, b = r + h c = s q w. Learners need only r and h.

    logistic    q = sigma(-m), h = sigma(m) sigma(-m), w = 1 + m sigma(m)
    probit      q = lambda = phi(m) / Phi(m), the inverse Mills ratio; with delta = lambda + m: h = lambda delta, w = 1 + m delta

For probit far below zero lambda is close to -m, and both delta and w would lose their digits by cancellation. There, with x = -m,
Laplace's continued fraction gives  delta = 1 / (x + 2 / (x + 3 / (x + ...))), and with eps for the part from 2 on, w = delta eps.
"""

from __future__ import annotations

import math
import sys
from typing import Final

from riata.jit.kernel import inline_kernel, kernel
from riata.maths.links import LOGISTIC, ROOT_HALF, normal_cdf

_ROOT_TWO_PI: Final = math.sqrt(2.0 * math.pi)
_LOG_ROOT_TWO_PI: Final = 0.5 * math.log(2.0 * math.pi)
_LOWEST: Final = -sys.float_info.max

# probit: the continued fraction is used for m <= -TAIL_FROM. Above it cancellation costs at most two digits of delta and three of
# w. From 2 on it would cost less, but the fraction would need twice the terms.
TAIL_FROM: Final = 3.0
FLAT_FROM: Final = 40.0  # probit: phi(m) is 0 in double precision from 38.6 on

# Terms that leave a relative error below 6e-16 in delta and eps; x = 3 needs 57 of 62, x = 10 needs 15 of 16.
_TERMS_LEAST: Final = 12
_TERMS_NEAR: Final = 450.0


@inline_kernel
def mills_tail(x: float) -> tuple[float, float]:
    """Return delta = lambda - x and eps = 1 / delta - x for x >= TAIL_FROM, lambda = phi(x) / Phi(-x).

    Cost               12 (x large) to 60 (x = 3) sequential divisions
    Source             Laplace's continued fraction of the Mills ratio; Balakrishnan & Madigan 2008, appendix A, needs lambda
    """
    t = x
    for k in range(_TERMS_LEAST + int(_TERMS_NEAR / (x * x)), 2, -1):
        t = x + k / t
    eps = 2.0 / t
    return 1.0 / (x + eps), eps


@inline_kernel
def margin_form(link: int, m: float) -> tuple[float, float, float]:
    """Return q, h and w at the signed margin m, as defined in the module docstring.

    Source             Balakrishnan & Madigan 2008, appendix A, its cases combined by p(0 | c) = p(1 | -c)
    """
    if link == LOGISTIC:
        e = math.exp(-abs(m))
        small = e / (1.0 + e)
        large = 1.0 / (1.0 + e)
        likely = large if m >= 0.0 else small
        q = small if m >= 0.0 else large
        h = small * large
        w = 1.0 + m * likely
    elif m > -TAIL_FROM:
        m = min(m, FLAT_FROM)  # m * m would overflow for large m, where the result is 0
        q = math.exp(-0.5 * m * m) / (_ROOT_TWO_PI * normal_cdf(m))
        delta = q + m
        h = q * delta
        w = 1.0 + m * delta
    else:
        delta, eps = mills_tail(-m)
        q = delta - m
        h = q * delta
        w = delta * eps
    return q, h, w


@inline_kernel
def margin_terms(link: int, m: float) -> tuple[float, float, float]:
    """Return q, h and log p at the signed margin m: `margin_form` and `log_likelihood`, with one exponential instead of two.

    Source             Balakrishnan & Madigan 2008, appendix A
    """
    if link == LOGISTIC:
        e = math.exp(-abs(m))
        large = 1.0 / (1.0 + e)
        small = e * large
        return (small if m >= 0.0 else large), small * large, min(m, 0.0) - math.log1p(e)
    q, h, _ = margin_form(link, m)
    return q, h, log_likelihood(link, m, 1.0)


@kernel
def taylor(link: int, margin: float, label: float) -> tuple[float, float]:
    """Slope and curvature of the log-likelihood of one label.

    Parameters
    ----------
    link : int       LOGISTIC or PROBIT of `links`
    margin : float   c, finite
    label : float    0 or 1

    Returns          r = d log p / dc, of the sign of 2 label - 1 or 0; and h = -d^2 log p / dc^2, from 0 to 1/4 (logistic) or 1
                     (probit), 0 only where it underflows. Finite for every finite margin
    Cost             logistic one exp; probit one exp and one erfc, or up to 60 divisions if the label was unlikely
    Source           Balakrishnan & Madigan 2008, appendix A: r = 2 a c + b, h = -2 a
    """
    s = 1.0 if label > 0.5 else -1.0
    q, h, _ = margin_form(link, s * margin)
    return s * q, h


@kernel
def coefficients(link: int, margin: float, label: float) -> tuple[float, float]:
    """Coefficients of the quadratic that agrees with the log-likelihood at `margin` up to its second derivative.

    Parameters
    ----------
    link : int       LOGISTIC or PROBIT of `links`
    margin : float   c, finite
    label : float    0 or 1

    Returns          a and b of a c^2 + b c + const; a <= 0. Logistic: b passes through 0 near m = -1.278 and has no relative
                     accuracy there, only an absolute one
    Cost             as for `taylor`
    Source           Balakrishnan & Madigan 2008, appendix A
    """
    s = 1.0 if label > 0.5 else -1.0
    q, h, w = margin_form(link, s * margin)
    return -0.5 * h, s * q * w


@kernel
def log_likelihood(link: int, margin: float, label: float) -> float:
    """Log of the probability of the label under the link.

    Parameters
    ----------
    link : int       LOGISTIC or PROBIT of `links`
    margin : float   c, finite
    label : float    0 or 1

    Returns          log p(label | margin) <= 0, accurate at both ends; at least the lowest finite number, which the probit link
                     would pass at |margin| = 1.9e154

    Cost             logistic one exp and one log1p; probit one erfc and one logarithm, or as for `taylor`
    Source           Balakrishnan & Madigan 2008, for the two links
    """
    m = margin if label > 0.5 else -margin
    if link == LOGISTIC:
        return min(m, 0.0) - math.log1p(math.exp(-abs(m)))
    if m > 0.0:
        return math.log1p(-0.5 * math.erfc(ROOT_HALF * m))
    if m > -TAIL_FROM:
        return math.log(normal_cdf(m))
    delta, _ = mills_tail(-m)
    return max(-0.5 * m * m - _LOG_ROOT_TWO_PI - math.log(delta - m), _LOWEST)
