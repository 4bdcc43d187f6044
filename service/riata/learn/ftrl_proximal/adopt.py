"""FTRL-Proximal around a solution."""

from __future__ import annotations

import numpy as np

from riata.base.arrays import F64, Arrays
from riata.learn.adopt import Adopted, require_bits
from riata.learn.ftrl_proximal.config import FtrlProximalConfig


def around(config: FtrlProximalConfig, bits: int, solution: Adopted) -> Arrays:
    """Return the frozen state whose weights are those of the solution, with the sums of squared gradients of a pass there.

    A weight is a function of z and of the sum of squares; z is chosen so that it is that of the solution. Every z within l1 gives
    the weight zero: there z is the sum of the gradients, as after a pass with all weights at the solution.
    """
    require_bits(solution, bits)
    sums, base = solution.features, solution.base
    at = np.argsort(solution.slot)
    at = at[sums.whole_squares[at] > 0.0]
    beta, squares = solution.beta[at], sums.whole_squares[at]
    damping = config.beta + config.alpha * config.l2
    idle = np.clip(-sums.gradient[at], -config.l1, config.l1)
    z = np.where(beta == 0.0, idle, -np.sign(beta) * config.l1 - beta * (damping + np.sqrt(squares)) / config.alpha)
    whole: F64 = base.whole_squares if config.intercept else np.zeros(1)
    scalars = np.concatenate([-solution.intercept * (config.beta + np.sqrt(whole)) / config.alpha, whole])
    return {
        "counts": np.array([solution.events], np.int64),
        "scalars": scalars if config.intercept else np.zeros(2),
        "slot": solution.slot[at].astype(np.uint32),
        "z": z,
        "squares": squares,
    }
