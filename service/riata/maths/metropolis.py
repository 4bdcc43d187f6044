"""Draws from the posterior of logistic regression, given all its events: Metropolis within Gibbs.

Theory of operation
    The prior is Laplace, exp(-gamma_j |beta_j|) for each parameter. First Newton's method finds the mode under the normal prior
    of the same variance, 2 / gamma_j^2, and the Cholesky factor L of the curvature there. Then the chain runs over u in

        beta = mode + A u,   A = L'^-1,

    one coordinate of u at a time. In u the posterior is about spherical, whatever the units of the features and however
    correlated they are, so that each coordinate mixes well with steps of about 2.4. The target is the exact posterior with the
    Laplace prior; mode and curvature only shape the proposals. Step sizes are adapted to an acceptance of 0.44 in the burn-in and
    then frozen.

    The margins Z u of the rows are kept, Z = X A, so a proposal costs one pass over the rows.

    Source    Balakrishnan 2007, section 2.2; Gelman, Roberts & Gilks 1996 for the acceptance; the coordinates are ours
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from riata.base.arrays import F64, I64
from riata.jit.kernel import inline_kernel, kernel
from riata.maths.particles import exponentials, factorise, total
from riata.maths.philox import normals
from riata.maths.shooting import NEVER

BURN_IN: Final = 500  # sweeps
ACCEPTANCE: Final = 0.44
FIRST_STEP: Final = 2.4
NEWTON_MAX: Final = 60
HALVINGS_MAX: Final = 30
NEWTON_ENOUGH: Final = 1e-8  # of the squared length of a step, in units of the posterior's standard deviation
_UNIT: Final = 2.0**-53
_PRODUCT: Final = 512  # numbers of 1 .. 2 whose product is below 2^512


class Events(NamedTuple):
    """Rows of logistic regression.

    x : f64[d, n]        the values of a parameter are adjacent; the intercept's are ones
    sign : f64[n]        1 or -1
    importance : f64[n]  > 0
    halt : i64[1]        once another thread has set it, what is computed is left unfinished
    """

    x: F64
    sign: F64
    importance: F64
    halt: I64 = NEVER


@kernel
def log_likelihood(margin: F64, events: Events, room: F64) -> float:
    """The log-likelihood of all rows at the given margins.

    Parameters
    ----------
    margin : f64[n]      read only
    events : Events      read only
    room : f64[3, n]     overwritten

    Returns              sum of importance log sigma(sign margin)
    Cost                 O(n)
    Source               log sigma(t) = min(t, 0) - log(1 + exp(-|t|)); the logarithm of a product for rows of importance one
    """
    n, e, line = len(margin), room[0], room[1]
    exponentials(margin, e, line)
    sign, importance = events.sign, events.importance
    for i in range(n):
        line[i] = importance[i] * min(sign[i] * margin[i], 0.0)
    found, product, factors = total(line), 1.0, 0
    for i in range(n):
        if importance[i] == 1.0:
            product *= 1.0 + e[i]
            factors += 1
            if factors == _PRODUCT:
                found -= math.log(product)
                product, factors = 1.0, 0
        else:
            found -= importance[i] * math.log1p(e[i])
    return found - math.log(product)


@inline_kernel
def add_columns(matrix: F64, step: F64, out: F64) -> None:
    """Add matrix' step to out: f64[n], for a matrix f64[d, n].

    Source    definition
    """
    for j in range(len(step)):
        size, line = step[j], matrix[j]
        for i in range(len(out)):
            out[i] += size * line[i]


@inline_kernel
def solve(lower: F64, right: F64) -> None:
    """Overwrite right with (L L')^-1 right. L has no zero on its diagonal.

    Source    forward and back substitution
    """
    d = len(right)
    for j in range(d):
        for i in range(j):
            right[j] -= lower[j, i] * right[i]
        right[j] /= lower[j, j]
    for j in range(d - 1, -1, -1):
        for i in range(j + 1, d):
            right[j] -= lower[i, j] * right[i]
        right[j] /= lower[j, j]


@kernel
def mode_of(events: Events, gamma: F64, beta: F64, lower: F64) -> bool:
    """The mode under the normal prior of precision gamma^2 / 2, by Newton's method with halved steps.

    Parameters
    ----------
    events : Events       read only
    gamma : f64[d]        > 0; read only
    beta : f64[d]         overwritten with the mode
    lower : f64[d, d]     overwritten with the Cholesky factor of the curvature there

    Returns               whether the curvature is positive definite in floating point; if not, beta is the last good point
    Cost                  O(d^2 n) for each of about ten steps
    Source                Nocedal & Wright, Numerical Optimization, section 3.1; this module's theory of operation
    """
    d, n = events.x.shape
    margin, room, slope = np.zeros(n), np.empty((3, n)), np.empty(n)
    precision = 0.5 * gamma * gamma
    beta[:] = 0.0
    hessian, step, shift = np.empty((d, d)), np.empty(d), np.empty(n)
    height = log_likelihood(margin, events, room)
    for _ in range(NEWTON_MAX):
        if events.halt[0] != 0:
            break
        for i in range(n):
            p = 1.0 / (1.0 + math.exp(-margin[i]))
            slope[i] = events.importance[i] * ((1.0 if events.sign[i] > 0.0 else 0.0) - p)
            room[2, i] = events.importance[i] * p * (1.0 - p)
        for j in range(d):
            for i in range(n):
                room[1, i] = room[2, i] * events.x[j, i]
            for k in range(j + 1):
                for i in range(n):
                    room[0, i] = room[1, i] * events.x[k, i]
                hessian[j, k] = hessian[k, j] = total(room[0])
            hessian[j, j] += precision[j]
            for i in range(n):
                room[0, i] = slope[i] * events.x[j, i]
            step[j] = total(room[0]) - precision[j] * beta[j]
        if factorise(hessian, lower) >= 0:
            return False
        gradient = step.copy()
        solve(lower, step)
        gain, size = 0.0, 1.0
        for j in range(d):
            gain += gradient[j] * step[j]
        if gain < NEWTON_ENOUGH:
            break
        shift[:] = 0.0
        add_columns(events.x, step, shift)
        old = height - 0.5 * (precision * beta * beta).sum()
        for _ in range(HALVINGS_MAX):
            moved, reached = beta + size * step, margin + size * shift
            height = log_likelihood(reached, events, room)
            if height - 0.5 * (precision * moved * moved).sum() >= old:
                beta[:], margin[:] = moved, reached
                break
            size *= 0.5
    return True


@inline_kernel
def axes_of(lower: F64, axes: F64) -> None:
    """Set row j of axes to column j of L'^-1: the direction in which coordinate j of u moves beta.

    Source    back substitution with L' for each unit vector
    """
    d = len(lower)
    axes[:] = 0.0
    for j in range(d):
        axes[j, j] = 1.0 / lower[j, j]
        for c in range(j - 1, -1, -1):
            value = 0.0
            for i in range(c + 1, j + 1):
                value -= lower[i, c] * axes[j, i]
            axes[j, c] = value / lower[c, c]


@inline_kernel
def log_prior(beta: F64, axis: F64, size: float, gamma: F64) -> float:
    """Return the Laplace log density at beta + size axis, up to a constant.

    Source    definition
    """
    found = 0.0
    for c in range(len(beta)):
        found -= gamma[c] * abs(beta[c] + size * axis[c])
    return float(found)


@kernel
def draw_posterior(events: Events, gamma: F64, chance: tuple[np.uint64, np.uint64], theta: F64) -> float:
    """Draw from the posterior: one draw after each sweep, after BURN_IN sweeps without.

    Parameters
    ----------
    events : Events       read only
    gamma : f64[d]        of the Laplace prior, > 0; read only
    chance : (u64, u64)   seed and stream of the random numbers
    theta : f64[d, M]     overwritten with the draws

    Returns               the acceptance over the draws; -1 if the curvature at the mode is not positive definite: theta is
                          then unchanged
    Cost                  O((BURN_IN + M) d n)
    Source                this module's theory of operation
    """
    d, count = theta.shape
    n = events.x.shape[1]
    beta, lower, axes = np.empty(d), np.empty((d, d)), np.empty((d, d))
    if not mode_of(events, gamma, beta, lower):
        return -1.0
    axes_of(lower, axes)
    z, margin, room = np.zeros((d, n)), np.zeros(n), np.empty((3, n))
    for j in range(d):
        add_columns(events.x, axes[j], z[j])
    add_columns(events.x, beta, margin)
    height, step = log_likelihood(margin, events, room), np.full(d, FIRST_STEP)
    proposed, accepted, draw = np.empty(n), 0, np.uint64(0)
    for sweep in range(BURN_IN + count):
        if events.halt[0] != 0:
            break
        for j in range(d):
            size, other = normals(chance[0], chance[1], draw)
            draw += np.uint64(1)
            size, line = size * step[j], z[j]
            for i in range(n):
                proposed[i] = margin[i] + size * line[i]
            found = log_likelihood(proposed, events, room)
            gain = found - height + log_prior(beta, axes[j], size, gamma) - log_prior(beta, axes[j], 0.0, gamma)
            # P(N > x) is uniform, so a normal number decides as a uniform one does.
            taken = math.log(max(0.5 * math.erfc(other * math.sqrt(0.5)), _UNIT)) < gain
            if taken:
                height = found
                margin[:] = proposed
                for c in range(j + 1):
                    beta[c] += size * axes[j, c]
            if sweep < BURN_IN:
                step[j] *= math.exp(((1.0 if taken else 0.0) - ACCEPTANCE) / math.sqrt(1.0 + sweep))
            elif taken:
                accepted += 1
        if sweep >= BURN_IN:
            theta[:, sweep - BURN_IN] = beta
    return float(accepted / (d * count))
