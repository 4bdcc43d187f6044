"""A solution for a learner to continue from: weights that were fitted to all events of a log at once, and sums over these events.

`LearnerSpec.adopt` makes the frozen state of a learner from it. A learner that keeps sums continues as if it had summed them
itself, each event about its margin at the solution. A learner that takes steps starts at the solution, with the accumulators that
one pass over the events at the solution leaves.
"""

from __future__ import annotations

from dataclasses import dataclass

from riata.base.arrays import F64, I64, U32
from riata.base.errors import BadInput


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums over events i of weight w_i, with slope r_i and curvature h_i of the log-likelihood at the margin of the solution.

    gradient      : f64[d]  sum of w r x_j
    curvature     : f64[d]  sum of w h x_j^2
    squares       : f64[d]  sum of w (r x_j)^2
    whole_squares : f64[d]  sum of (w r x_j)^2
    energy        : f64[d]  sum of w x_j^2
    peak          : f64[d]  largest |x_j|, > 0
    """

    gradient: F64
    curvature: F64
    squares: F64
    whole_squares: F64
    energy: F64
    peak: F64


@dataclass(frozen=True, slots=True)
class Adopted:
    """A solution with its sums.

    bits       : slots are hash >> (32 - bits), as those of the learner's weights
    slot       : u32[d]  the features of the events, in any order
    beta       : f64[d]  their weights, most of them perhaps zero
    intercept  : float   0.0 if there is none
    features   : sums of the features
    base       : sums of the intercept, whose value is 1 in every row; arrays of one number
    members    : i64[m]  features with known cross curvature, by index into `slot`, the most important first
    cross      : f64[m + 1, m + 1]  sum of w h x_j x_l of the intercept, at 0, and of the members
    events     : number of events
    importance : sum of their importance
    effective  : sum of their weights: less than the importance if the learner forgets
    """

    bits: int
    slot: U32
    beta: F64
    intercept: float
    features: Sums
    base: Sums
    members: I64
    cross: F64
    events: int
    importance: float
    effective: float


def require_bits(adopted: Adopted, bits: int) -> None:
    """Raise `BadInput` (code `needs_rebuild`) unless the solution identifies features by as many bits as the learner."""
    if adopted.bits != bits:
        raise BadInput(
            f"the solution identifies features by {adopted.bits} bits and the learner by {bits}: fit it with {bits} bits",
            "needs_rebuild",
        )


def require_logistic(kind: str, loss: str) -> None:
    """Raise `BadInput` (code `not_for_this_loss`) unless the learner minimises the log loss, as every solution does."""
    if loss != "logistic":
        raise BadInput(f"{kind}: a solution minimises the log loss, not the {loss} loss", "not_for_this_loss")
