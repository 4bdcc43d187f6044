"""The specification of a learner. Code outside the learner's module uses the spec and never names the learner."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Self, TypeVar

from riata.base.arrays import Arrays
from riata.learn.adopt import Adopted
from riata.learn.learner import Learner


class LearnerSettings:
    """The settings of a learner are a frozen dataclass of this class. Its field `kind` holds the name of the learner."""

    __slots__ = ()

    @property
    def kind(self) -> str:
        """The name of the learner."""
        raise NotImplementedError

    def candidates_of_classes(self) -> Sequence[Self]:
        """Return configurations for several classes: the one that does best on the first rows is that of the learner of each
        class. One: it is that one."""
        return [self]

    def can_forget(self) -> bool:
        """Whether `Learner.forget` has an effect."""
        return False

    def members(self) -> int:
        """Return of how many features the learner adopts the cross curvature, at most."""
        return 0

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


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerSpec(Generic[C]):
    """One learner: the `SPEC` of `riata.learn.<kind>`, found by its name in `riata.learn.kinds`.

    config          : its settings
    about           : its description, for the reference of settings: source, strengths, limits
    build           : makes an empty learner from (config, bits, hash_key), with 2^bits slots; raises `BadInput`
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
    advice          : what to set against a warning, by its code (`riata.watch.warnings`): a sentence
    """

    config: type[C]
    about: str
    build: Callable[[C, int, int], Learner]
    adopt: Callable[[C, int, Adopted], Arrays]
    penalty: str = "gamma"
    adjustable: frozenset[str] = frozenset()
    real_labels: Mapping[str, Any] | None = field(default=None)
    takes_many: bool = False
    keeps_curvature: bool = False
    keeps_posterior: bool = False
    slot_lists: tuple[str, ...] = ()
    older: Mapping[str, Any] = field(default_factory=dict)
    advice: Mapping[str, str] = field(default_factory=dict)

    def takes_real_labels(self, config: C) -> bool:
        """Tell whether a model with this configuration may have labels of any number."""
        needed = self.real_labels
        return needed is not None and all(getattr(config, name) == value for name, value in needed.items())
