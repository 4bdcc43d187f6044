"""The specification of a learner. Code outside the learner's module uses the spec and never names the learner."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Annotated, Any, Generic, Literal, Self, TypeVar, cast

from annotated_types import doc

from riata.base.arrays import F64, I64, U32, Arrays
from riata.base.errors import BadInput
from riata.base.frozen_dataclass import frozen_dataclass
from riata.learn.apart import Apart
from riata.learn.learner import Learner
from riata.learn.one_vs_rest import OneVsRest

# A solution for a learner to continue from: weights that were fitted to all events of a log at once, and sums over these events.
#
# `LearnerSpec.adopt` makes the frozen state of a learner from it. A learner that keeps sums continues as if it had summed them
# itself, each event about its margin at the solution. A learner that takes steps starts at the solution, with the accumulators
# that one pass over the events at the solution leaves.


@frozen_dataclass(frozen=True, slots=True)
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


@frozen_dataclass(frozen=True, slots=True)
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


FarValues = Annotated[
    Literal["auto", "off"],
    doc(
        "auto: as with truncated_gradient, with wider limits where predictions have standard errors. Default auto: 999 in the "
        "first row costs up to 2 % of the log loss in place of 30 %."
    ),
]


class LearnerSettings:
    """The settings of a learner are a frozen dataclass of this class. Its field `kind` holds the name of the learner."""

    __slots__ = ()

    @property
    def kind(self) -> str:
        """The name of the learner."""
        raise NotImplementedError

    @property
    def far_values(self) -> Literal["auto", "off"]:
        """Whether values have limits: a field of those that may have them."""
        return "off"

    def limits_values(self, classes: bool = False) -> bool:  # noqa: ARG002
        """Whether the learner, or that of several classes, is a `Limited` one."""
        return self.far_values == "auto"

    def room(self) -> int:
        """Return how many features the learner may have; a value that is set apart is one more."""
        return sys.maxsize

    def as_sent(self) -> Self:
        """The settings of a learner of values as they were sent. Rows that are divided by their length need it: there a value
        depends on the others, and where a large one is absent, the rest would be far."""
        return self if self.far_values == "off" else cast(Self, replace(cast(Any, self), far_values="off"))

    def can_forget(self) -> bool:
        """Whether `Learner.forget` has an effect."""
        return False

    def members(self) -> int:
        """Return of how many features the learner adopts the cross curvature, at most."""
        return 0

    def of_class(self) -> LearnerSettings:
        """Return the settings of the learner of one class out of several."""
        return self.as_sent()

    def no_shapes(self, classes: bool = False) -> str:  # noqa: ARG002
        """Say why numeric columns get no shapes (`riata.learn.shapes`) under these settings, or not with several classes; empty
        if they may get some."""
        return f"the learner {self.kind} has none"

    def declares_shapes(self) -> bool:
        """Whether settings name the columns that have shapes."""
        return False

    def sets_apart(self) -> bool:
        """Whether values are set apart when rows are learnt and predicted (`riata.learn.apart`)."""
        return False

    def slot_bits(self, bits: int) -> int:
        """Return how many bits of a hash identify a feature, given the bits of the encoder: the bits of its weights."""
        return bits

    def too_much(self) -> str:
        """Say why one row could take far too long, and what to set; empty if none does. New models are refused for it, existing
        ones have a warning."""
        return ""

    def undoes_scale(self) -> str:
        """Say what to set if a factor of an indicator gives it no other penalty; otherwise empty."""
        return ""

    def wants_scaled(self) -> bool:
        """Whether the learner learns badly from values that are not about 1 in size."""
        return False


C = TypeVar("C", bound=LearnerSettings)


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class LearnerSpec(Generic[C]):
    """One learner: the `SPEC` of `riata.learn.<kind>`, found by its name in `riata.learn.kinds`.

    config          : its settings
    about           : its description, for the reference of settings: source, strengths, limits
    build           : makes an empty learner of values as they were sent from (config, bits, hash_key), with 2^bits slots; raises
                      `BadInput`
    build_classes   : makes a learner of several classes from (config, a `OneVsRest` of learners of the settings `of_class`,
                      hash_key)
    declared        : the values that settings set apart, from (config, hash_key); None for none
    adopt           : the frozen state of a learner that continues from a solution, from (config, bits of the encoder, solution);
                      raises `BadInput` if it cannot
    penalty         : name of the setting that is its L1 penalty
    adjustable      : settings that may change while the model learns
    real_labels     : settings under which it accepts any number as a label; None if it accepts two classes only
    takes_many      : whether one call of its kernel learns many small batches faster than one joined batch
    keeps_curvature : whether it has a sketch, so that predictions carry standard errors and a path can be computed
    keeps_posterior : whether its weights come with draws from their posterior distribution
    slot_lists      : names of the frozen arrays that hold lines of its table of 2^bits; the first is missing if a state has no
                      table. Empty: a checkpoint is checked with a table of full size
    older           : settings that documents of older versions lack, and what they do without: such a model goes on as it was
    formerly        : settings that were named otherwise, with their former names: those of documents that are stored or exported
    advice          : what to set against a warning, by its code (`riata.watch.warnings`): a sentence
    """

    config: type[C]
    about: str
    build: Callable[[C, int, int], Learner]
    adopt: Callable[[C, int, Adopted], Arrays]
    build_classes: Callable[[C, OneVsRest, int], Learner] = lambda _config, several, _hash_key: several
    declared: Callable[[C, int], Apart | None] = lambda _config, _hash_key: None
    penalty: str = "gamma"
    adjustable: frozenset[str] = frozenset()
    real_labels: Mapping[str, Any] | None = field(default=None)
    takes_many: bool = False
    keeps_curvature: bool = False
    keeps_posterior: bool = False
    slot_lists: tuple[str, ...] = ()
    older: Mapping[str, Any] = field(default_factory=dict)
    formerly: Mapping[str, str] = field(default_factory=dict)
    advice: Mapping[str, str] = field(default_factory=dict)

    def takes_real_labels(self, config: C) -> bool:
        """Tell whether a model with this configuration may have labels of any number."""
        needed = self.real_labels
        return needed is not None and all(getattr(config, name) == value for name, value in needed.items())
