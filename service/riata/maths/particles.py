"""A posterior as weighted particles: importance weights, effective sample size, resampling, and the kernel with shrinkage.

Theory of operation
    M particles theta_k with weights w_k stand for the posterior distribution of d parameters. The likelihood of an event
    multiplies the weights (`weigh`). They become unequal; the effective sample size (sum w)^2 / sum w^2 says by how much. When it
    falls too low, the particles are drawn anew (`rejuvenate`) from the mixture of M normal distributions about

        a theta_k + (1 - a) mean,   of covariance b^2 V,   a = sqrt(1 - b^2),

    where mean and V are those of the weighted particles. The shrinkage by a makes mean and covariance of the mixture equal to
    mean and V; without it V would grow at each time.

    theta is f64[d, M]: the particles of a parameter are adjacent, so that loops over particles run in vector registers. Sums are
    taken in eight lanes, in an order that does not depend on the processor. Weights are not normalised; a common power of two is
    taken out when they become small (`hold_scale`).

    Source    Balakrishnan 2007, chapter 2; Balakrishnan & Madigan 2006. The weighted moments are taken before resampling, which
              adds no noise of resampling to V.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from riata.base.arrays import F64, I64
from riata.jit.kernel import inline_kernel, kernel
from riata.maths.philox import normals, uniform

LANES: Final = 8
SCALE_LEAST: Final = 2.0**-200  # of the sum of the weights
SCALE_UP: Final = 2.0**200
SINGULAR: Final = 1e-12  # a pivot below this part of the variance is rounding

_LOG2E: Final = 1.4426950408889634
_LN2_HIGH: Final = 6.93147180369123816490e-01  # ln 2 in two parts: the first has 33 bits, so that products with it are exact
_LN2_LOW: Final = 1.90821492927058770002e-10
_WHOLE: Final = 1.5 * 2.0**52  # a sum with it is rounded to an integer, which is in its lowest bits
_BIAS: Final = 1023
_FRACTION_BITS: Final = 52
_LEAST: Final = -700.0  # exp of it is a normal number


class Scratch(NamedTuple):
    """Memory for the kernels of this module. line : f64[3, M]; noise : f64[d, M]; picked : i64[M]."""

    line: F64
    noise: F64
    picked: I64


def new_scratch(d: int, particles: int) -> Scratch:
    """Return scratch memory for M particles of up to d parameters."""
    return Scratch(np.empty((3, particles)), np.empty((d, particles)), np.empty(particles, np.int64))


def bandwidth(d: int, particles: int, widen: float = 1.0, most: float = 1.0) -> float:
    """Return b = widen b_M, at most `most`, with b_M = (4 / ((d + 2) M))^(1 / (d + 4)).

    Source    Balakrishnan 2007, eq. 2.10
    """
    return float(min(widen * (4.0 / ((d + 2) * particles)) ** (1.0 / (d + 4)), most))


@inline_kernel
def total(values: F64) -> float:
    """Return the sum, in eight lanes.

    Source    this module's theory of operation
    """
    n = len(values) // LANES
    lanes = values[: n * LANES].reshape((n, LANES))
    s0, s1, s2, s3, s4, s5, s6, s7 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(n):
        s0 += lanes[i, 0]
        s1 += lanes[i, 1]
        s2 += lanes[i, 2]
        s3 += lanes[i, 3]
        s4 += lanes[i, 4]
        s5 += lanes[i, 5]
        s6 += lanes[i, 6]
        s7 += lanes[i, 7]
    rest = 0.0
    for i in range(n * LANES, len(values)):
        rest += values[i]
    return ((s0 + s4) + (s2 + s6)) + ((s1 + s5) + (s3 + s7)) + rest


@inline_kernel
def exponentials(x: F64, out: F64, bits: F64) -> None:
    """Set out to exp(-|x|), to 2 units in the last place; below exp(-700) to that. bits : overwritten.

    Source    reduction by ln 2 in two parts (Cody & Waite 1980), Taylor series of degree 13 on |r| <= ln 2 / 2
    """
    for k in range(len(x)):
        t = max(-abs(x[k]), _LEAST)
        whole = t * _LOG2E + _WHOLE
        bits[k] = whole
        n = whole - _WHOLE
        r = (t - n * _LN2_HIGH) - n * _LN2_LOW
        p = 1.0 / 479001600.0 + r * (1.0 / 6227020800.0)
        p = 1.0 / 3628800.0 + r * (1.0 / 39916800.0 + r * p)
        p = 1.0 / 40320.0 + r * (1.0 / 362880.0 + r * p)
        p = 1.0 / 720.0 + r * (1.0 / 5040.0 + r * p)
        p = 1.0 / 24.0 + r * (1.0 / 120.0 + r * p)
        out[k] = 1.0 + r * (1.0 + r * (0.5 + r * (1.0 / 6.0 + r * p)))
    exponent = bits.view(np.int64)
    for k in range(len(x)):
        exponent[k] = (exponent[k] + _BIAS) << _FRACTION_BITS
    for k in range(len(x)):
        out[k] *= bits[k]


@kernel
def weigh(weight: F64, margin: F64, label: float, importance: float, scratch: Scratch, after: F64) -> float:
    """Multiply the weights by the likelihood of an event under each particle.

    Parameters
    ----------
    weight : f64[M]      read only
    margin : f64[M]      beta . x of each particle, finite; read only
    label : float        1, or another number for the negative class
    importance : float   power of the likelihood, > 0
    scratch : Scratch    overwritten
    after : f64[M]       the product, overwritten

    Returns              the effective sample size of `after`; 0 if all are zero
    Cost                 O(M)
    Source               Balakrishnan 2007, figure 2.2; p(y | x, beta) = sigma(+-beta . x)
    """
    e, bits = scratch.line[0], scratch.line[1]
    exponentials(margin, e, bits)
    sign = 1.0 if label == 1.0 else -1.0
    if importance == 1.0:
        for k in range(len(weight)):
            part = 1.0 / (1.0 + e[k])
            after[k] = weight[k] * (part if sign * margin[k] >= 0.0 else e[k] * part)
    else:
        for k in range(len(weight)):
            after[k] = weight[k] * math.exp(importance * (min(sign * margin[k], 0.0) - math.log1p(e[k])))
    return effective(after, scratch)


@kernel
def effective(weight: F64, scratch: Scratch) -> float:
    """The effective sample size (sum w)^2 / sum w^2, in 1 .. M; 0 if all weights are zero.

    Parameters
    ----------
    weight : f64[M]      >= 0; read only
    scratch : Scratch    overwritten

    Cost                 O(M)
    Source               Balakrishnan 2007, section 2.3, in the form that does not depend on the scale of the weights
    """
    square = scratch.line[2]
    for k in range(len(weight)):
        square[k] = weight[k] * weight[k]
    second = total(square)
    first = total(weight)
    return first * first / second if second > 0.0 else 0.0


@inline_kernel
def hold_scale(weight: F64) -> None:
    """Multiply all weights by a power of two once their sum has become small, so that they do not underflow.

    Source    this module's theory of operation
    """
    if total(weight) < SCALE_LEAST:
        for k in range(len(weight)):
            weight[k] *= SCALE_UP


@inline_kernel
def mean_of(values: F64, weight: F64, whole: float, line: F64) -> float:
    """Return the weighted mean; whole is the sum of the weights, line is overwritten.

    Source    definition
    """
    for k in range(len(weight)):
        line[k] = weight[k] * values[k]
    return total(line) / whole


@kernel
def moments(theta: F64, weight: F64, mean: F64, covariance: F64, scratch: Scratch) -> None:
    """The weighted mean and covariance of particles.

    Parameters
    ----------
    theta : f64[d, M]       read only
    weight : f64[M]         not all zero; read only
    mean : f64[d]           overwritten
    covariance : f64[d, d]  overwritten, symmetric; divisor: the sum of the weights
    scratch : Scratch       overwritten

    Returns                 nothing
    Cost                    O(d^2 M)
    Source                  Balakrishnan 2007, eq. 2.9
    """
    d, whole, line = len(theta), total(weight), scratch.line[0]
    for j in range(d):
        mean[j] = mean_of(theta[j], weight, whole, line)
    for j in range(d):
        left, middle = scratch.line[1], mean[j]
        for k in range(len(weight)):
            left[k] = weight[k] * (theta[j, k] - middle)
        for i in range(j + 1):
            right, middle = theta[i], mean[i]
            for k in range(len(weight)):
                line[k] = left[k] * (right[k] - middle)
            covariance[i, j] = covariance[j, i] = total(line) / whole


@kernel
def factorise(matrix: F64, lower: F64) -> int:
    """The Cholesky factor of a positive semidefinite matrix. A direction in which it is singular has a column of zeros.

    Parameters
    ----------
    matrix : f64[d, d]      symmetric; read only
    lower : f64[d, d]       overwritten: L with L L' = matrix, zero above the diagonal

    Returns                 the first index whose row depends on the rows before it, or -1
    Cost                    O(d^3)
    Source                  Golub & Van Loan, Matrix Computations, section 4.2.8
    """
    d, dependent = len(matrix), -1
    lower[:] = 0.0
    for j in range(d):
        pivot = matrix[j, j]
        for i in range(j):
            pivot -= lower[j, i] * lower[j, i]
        if pivot <= SINGULAR * matrix[j, j]:
            dependent = j if dependent < 0 else dependent
            continue
        root = math.sqrt(pivot)
        lower[j, j] = root
        for r in range(j + 1, d):
            value = matrix[r, j]
            for i in range(j):
                value -= lower[r, i] * lower[j, i]
            lower[r, j] = value / root
    return dependent


@kernel
def resample(weight: F64, u: float, index: I64) -> None:
    """Systematic resampling: point (i + u) / M picks the first particle whose cumulative weight exceeds it.

    Parameters
    ----------
    weight : f64[M]     >= 0, not all zero; read only
    u : float           in [0, 1)
    index : i64[M]      overwritten: the particles picked, increasing

    Returns             nothing
    Cost                O(M)
    Source              Kitagawa 1996; Balakrishnan 2007, section 2.3
    """
    count, whole = len(weight), 0.0
    for k in range(count):
        whole += weight[k]
    k, reached = 0, weight[0]
    for i in range(count):
        while reached <= (i + u) / count * whole and k < count - 1:
            k += 1
            reached += weight[k]
        index[i] = k


@kernel
def draw_about(
    mean: F64, lower: F64, chance: tuple[np.uint64, np.uint64], widths: tuple[float, float], theta: F64, noise: F64
) -> None:
    """Move particles to a theta + (1 - a) mean + b L z with standard normal z.

    Parameters
    ----------
    mean : f64[d]           read only
    lower : f64[d, d]       L, lower triangular; read only
    chance : (u64, u64)     seed and stream of the random numbers: the draws 0 .. d M / 2 of it are used
    widths : (float, float) a and b
    theta : f64[d, M]       overwritten
    noise : f64[d, M]       overwritten with z

    Returns                 nothing
    Cost                    O(d^2 M)
    Source                  Balakrishnan 2007, figure 2.3
    """
    d, count = theta.shape
    flat = noise.reshape(-1)
    for i in range(0, d * count - 1, 2):
        flat[i], flat[i + 1] = normals(chance[0], chance[1], np.uint64(i // 2))
    if d * count % 2 == 1:
        flat[d * count - 1] = normals(chance[0], chance[1], np.uint64(d * count // 2))[0]
    a, b = widths
    for j in range(d):
        line, rest = theta[j], (1.0 - a) * mean[j]
        for k in range(count):
            line[k] = a * line[k] + rest
        for i in range(j + 1):
            factor, z = b * lower[j, i], noise[i]
            for k in range(count):
                line[k] += factor * z[k]


@kernel
def rejuvenate(theta: F64, weight: F64, b: float, chance: tuple[np.uint64, np.uint64], scratch: Scratch) -> None:
    """Draw the particles anew from the mixture of normal distributions with shrinkage, with equal weights.

    Parameters
    ----------
    theta : f64[d, M]       overwritten
    weight : f64[M]         not all zero; overwritten with ones
    b : float               bandwidth, in [0, 1]
    chance : (u64, u64)     seed and stream of the random numbers
    scratch : Scratch       overwritten

    Returns                 nothing
    Cost                    O(d^2 M)
    Source                  Balakrishnan 2007, figure 2.3
    """
    d, count = theta.shape
    mean, covariance, lower = np.empty(d), np.empty((d, d)), np.empty((d, d))
    moments(theta, weight, mean, covariance, scratch)
    factorise(covariance, lower)
    resample(weight, uniform(chance[0], chance[1], np.uint64(d * count)), scratch.picked)
    line = scratch.line[0]
    for j in range(d):
        for k in range(count):
            line[k] = theta[j, scratch.picked[k]]
        theta[j] = line
    draw_about(mean, lower, chance, (math.sqrt(1.0 - b * b), b), theta, scratch.noise[:d])
    weight[:] = 1.0
