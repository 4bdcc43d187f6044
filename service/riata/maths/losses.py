"""Losses of a margin: their slope, and how far a step of a given strength moves the margin along the loss.

A label is 0 or 1 for the logistic and the hinge loss (inside, s = 2 label - 1), any real number for the squared loss,
which is (margin - label)^2 without a factor 1/2, as Langford, Li & Zhang write it.
"""

from __future__ import annotations

import math
from typing import Final

from riata.jit.kernel import inline_kernel, kernel

LOGISTIC: Final = 0
SQUARED: Final = 1
HINGE: Final = 2

_NEWTON_STEPS_MAX: Final = 60  # convergence is quadratic from the right of the root; usually two or three
_NEWTON_TOL: Final = 2.0**-52  # one unit in the last place
_SPLIT: Final = 1.0  # above this e^(z + d) - e^z has no cancellation and cannot be 0 * infinity


@inline_kernel
def sigma(margin: float) -> float:
    """1 / (1 + exp(-margin)), without overflow.

    Source    the common two-sided form, which only takes exp of a number <= 0. It has no branch: the sign of a margin is
              unpredictable, and a misprediction costs as much as the exponential
    """
    e = math.exp(-abs(margin))
    return (1.0 if margin >= 0.0 else e) / (1.0 + e)


@kernel
def slope(loss: int, margin: float, label: float) -> float:
    """Derivative of the loss with respect to the margin.

    Parameters
    ----------
    loss : int       LOGISTIC, SQUARED or HINGE
    margin : float   finite
    label : float    see the module docstring

    Returns          d loss / d margin; 0 for the hinge loss from margin 1 on, including the kink
    Cost             one exp
    Source           Langford, Li & Zhang 2009, section 5 (squared, hinge, logistic)
    """
    if loss == LOGISTIC:
        # sigma(-s margin) is accurate when sigma(margin) - label would cancel.
        away = sigma(-margin if label > 0.5 else margin)
        return -away if label > 0.5 else away
    if loss == SQUARED:
        return 2.0 * (margin - label)
    s = 1.0 if label > 0.5 else -1.0
    return -s if s * margin < 1.0 else 0.0


@kernel
def logistic_travel(z: float, strength: float) -> float:
    """Solve d + exp(z + d) - exp(z) = strength for d >= 0.

    This is d z' / d t = 1 / (1 + exp(z')) from z' = z over the time `strength`. In terms of Lambert's W it is
    d = a - z - W(exp(a)) with a = strength + z + exp(z), which overflows and cancels when Newton's method does not.

    Parameters
    ----------
    z : float          signed margin s * margin before the step, finite
    strength : float   rate times importance times squared length, >= 0

    Returns            d, to a few units in the last place
    Cost               3-6 exp
    Source             Karampatziakis & Langford 2011, table 1, logistic loss
    """
    e = math.exp(min(z, 700.0))  # exp overflows above 709; at 700 the result is below 1e-300 * strength anyway
    # The left side is convex in d and exp(d) - 1 >= d + d^2 / 2. So the root of that quadratic is at the root or right of it,
    # and from there Newton's method only descends. Its error is O(d^3).
    steep = 1.0 + e
    d = strength / (0.5 * (steep + math.sqrt(steep * steep + 2.0 * e * strength)))
    if not d <= _SPLIT:
        d = min(strength / steep, max(_SPLIT, math.log(strength + e) - z))  # d >= 0: exp(z + d) is at most strength + e
    for _ in range(_NEWTON_STEPS_MAX):
        if d <= _SPLIT:
            rise = math.expm1(d)
            excess = d + e * rise - strength
            steep = 1.0 + e * (rise + 1.0)
        else:
            far = math.exp(min(z + d, 700.0))
            excess = d + far - e - strength
            steep = 1.0 + far
        step = excess / steep
        d -= step
        if not step * step > _NEWTON_TOL * abs(d):  # the remaining error is at most half the square of this step
            break
    return max(d, 0.0)


@kernel
def invariant_travel(loss: int, margin: float, label: float, strength: float) -> float:
    """How far the margin moves when the row is learnt with importance as time (importance invariance).

    Infinitely many infinitesimal steps whose strengths add up to `strength`: two rows of importance 1 move the margin
    as one of importance 2 does, and no importance carries the margin past the label.

    Parameters
    ----------
    loss : int         LOGISTIC, SQUARED or HINGE
    margin : float     before the step, finite
    label : float      see the module docstring
    strength : float   rate times importance times squared length, >= 0

    Returns            change of the margin, with its sign
    Cost               one expm1, or that of `logistic_travel`
    Source             Karampatziakis & Langford 2011, table 1
    """
    if loss == SQUARED:
        return (margin - label) * math.expm1(-2.0 * strength)
    s = 1.0 if label > 0.5 else -1.0
    if loss == LOGISTIC:
        return s * logistic_travel(s * margin, strength)
    return s * min(strength, max(0.0, 1.0 - s * margin))
