"""The specification of a learner. Code outside the learner's folder uses the spec and never names the learner."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from riata.base.arrays import Arrays
from riata.learn.adopt import Adopted
from riata.learn.learner import Learner

C = TypeVar("C")


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerSpec(Generic[C]):
    """One learner: the `SPEC` of `riata.learn.<kind>.spec`, found by its name in `riata.learn.kinds`.

    config          : frozen dataclass of its settings; the field `kind` holds the name of the learner
    about           : its description, for the reference of settings: source, strengths, limits
    build           : makes an empty learner from (config, bits, hash_key), with 2^bits slots; raises `BadInput`. Imports the
                      learner inside the function: importing all learners takes longer than most commands need for one
    adopt           : the frozen state of a learner that continues from a solution, from (config, bits of the encoder, solution);
                      raises `BadInput` if it cannot
    members         : of how many features it adopts the cross curvature, at most
    penalty         : name of the setting that is its L1 penalty
    adjustable      : settings that may change while the model learns; `adjust` applies them
    can_forget      : whether `forget` has an effect under this configuration
    forget          : has a learner let the past count for a share, in (0, 1], of what it counted: its weights stay about where
                      they are, and later events move them further
    chosen          : settings that the learner has chosen by itself, and whether the choice has ended; empty if it chooses none
    rest            : frees what a learner keeps only for rows that follow at once; changes no later result
    candidates      : configurations for several classes: the one that does best on the first rows is that of the learner of each
                      class. One: it is that one
    real_labels     : settings under which it accepts any number as a label; None if it accepts two classes only
    too_much        : why one row of a model with this configuration could take far too long, and what to set: a sentence; empty
                      if none does. New models are refused for it, existing ones have a warning
    takes_many      : whether one call of its kernel learns many small batches faster than one joined batch
    keeps_curvature : whether it has a sketch, so that predictions carry standard errors and a path can be computed
    keeps_posterior : whether its weights come with draws from their posterior distribution
    slot_lists      : names of the frozen arrays that hold lines of its table of 2^bits; the first is missing if a state has no
                      table. Empty: a checkpoint is checked with a table of full size
    slot_bits       : bits of a hash that identify a feature, from (config, bits of the encoder): the bits of its weights
    undoes_scale    : what to set if, under this configuration, a factor of an indicator gives it no other penalty: a sentence;
                      otherwise empty
    wants_scaled    : whether it learns badly from values that are not about 1 in size, under this configuration
    older           : settings that documents of older versions lack, and what they do without: such a model goes on as it was
    advice          : what to set against a warning, by its code (`riata.watch.warnings`): a sentence
    """

    config: type[C]
    about: str
    build: Callable[[C, int, int], Learner]
    adopt: Callable[[C, int, Adopted], Arrays]
    members: Callable[[C], int] = lambda _config: 0
    penalty: str = "gamma"
    adjustable: frozenset[str] = frozenset()
    adjust: Callable[[Learner, C], None] = lambda _learner, _config: None
    can_forget: Callable[[C], bool] = lambda _config: False
    forget: Callable[[Learner, float], None] | None = None
    chosen: Callable[[Learner], Mapping[str, Any]] = lambda _learner: {}
    rest: Callable[[Learner], None] = lambda _learner: None
    candidates: Callable[[C], Sequence[C]] = lambda config: [config]
    real_labels: Mapping[str, Any] | None = field(default=None)
    too_much: Callable[[C], str] = lambda _config: ""
    takes_many: bool = False
    keeps_curvature: bool = False
    keeps_posterior: bool = False
    slot_lists: tuple[str, ...] = ()
    slot_bits: Callable[[C, int], int] = lambda _config, bits: bits
    undoes_scale: Callable[[C], str] = lambda _config: ""
    wants_scaled: Callable[[C], bool] = lambda _config: False
    older: Mapping[str, Any] = field(default_factory=dict)
    advice: Mapping[str, str] = field(default_factory=dict)

    def takes_real_labels(self, config: C) -> bool:
        """Tell whether a model with this configuration may have labels of any number."""
        needed = self.real_labels
        return needed is not None and all(getattr(config, name) == value for name, value in needed.items())
