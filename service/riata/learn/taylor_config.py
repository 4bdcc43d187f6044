"""Settings of the Taylor sketch: the configuration that users write, with the reason for every default.

This module imports no kernel, because it is loaded for every configuration, whichever learner the configuration chooses.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from annotated_types import Ge, Gt, Le, MaxLen, doc

from riata.base.document import Exclusion, refuse
from riata.base.errors import BadInput
from riata.base.limits import NAME_BYTES_MAX
from riata.learn.spec import FarValues, LearnerSettings

WARM_UP_MAX = 100_000
MEMBERS_MAX = 4096  # the block of cross curvature is dense: at 4096 members it takes 128 MiB
SHADOWS_MAX = 8
OWN_GAMMAS_MAX = 256

SOLVE_MAX: Final = 10**11  # multiplications of one solve, about ten seconds
HELD_SQUARES_MAX: Final = 2 * 10**11  # rows held times the square of their features: of one pass over the held rows
TOLERANCE_LEAST: Final = 1e-10  # below it rounding decides when a solve ends: it makes all its sweeps
SWEEPS_UNTOLD: Final = 10_000  # that such a solve may make

HASH_BITS: Final = 32
_WARM_UP: Final = 1000


@dataclass(frozen=True, slots=True)
class FeatureGamma:
    """The penalty of a single feature. The name is as in explanations: `age`, `country=de`, `subject:free`."""

    feature: Annotated[str, MaxLen(NAME_BYTES_MAX)]
    gamma: Annotated[float, Ge(0), Le(1e12)]


EXCLUSIONS: Final[Sequence[Exclusion[TaylorSketchConfig]]] = (
    Exclusion(
        "`reexpand`",
        '`mode` other than "exact"',
        lambda config: bool(config.reexpand) and config.mode != "exact",
        "learner: reexpand needs mode = 'exact'",
    ),
    Exclusion(
        '`beyond` other than "refuse"',
        '`mode` other than "exact"',
        lambda config: config.beyond != "refuse" and config.mode != "exact",
        "learner: beyond needs mode = 'exact'",
    ),
    Exclusion(
        '`gamma_schedule` other than "fixed"',
        "`gamma` 0",
        lambda config: config.gamma_schedule != "fixed" and config.gamma == 0.0,
        "learner: gamma_schedule needs a gamma above 0 to grow to",
    ),
)


@dataclass(frozen=True, slots=True)
class TaylorSketchConfig(LearnerSettings):
    """Settings of the Taylor sketch (Balakrishnan & Madigan 2008, Online) and of its forms with bounded memory."""

    kind: Literal["taylor_sketch"] = "taylor_sketch"
    mode: Annotated[
        Literal["exact", "strict", "hybrid", "diag"],
        doc(
            "exact: every feature is in the block of cross curvature, up to features_max. strict: k selected features are in "
            "the block, and no other has a weight. hybrid: k features are in the block, and all others are updated one by one. "
            "diag: only the intercept is in the block. Default hybrid: any number of features, bounded memory."
        ),
    ] = "hybrid"
    link: Annotated[Literal["logistic", "probit"], doc("From margin to probability. Default logistic: weights are log-odds.")] = (
        "logistic"
    )
    gamma: Annotated[
        float, Ge(0), Le(1e12), doc("L1 penalty of every weight, on the sum of the log-likelihoods of all events.")
    ] = 0.1
    gamma_schedule: Annotated[
        Literal["fixed", "linear", "sqrt"],
        doc(
            "fixed: gamma. linear, sqrt: at event i gamma times i / gamma_events, or times its root, at least gamma_floor "
            "times gamma. With linear the number of non-zero weights stays about constant as the stream grows; with fixed the "
            "penalty loses influence."
        ),
    ] = "fixed"
    gamma_events: Annotated[int, Ge(1), Le(10**12), doc("The event at which a growing penalty reaches gamma.")] = 10_000
    gamma_floor: Annotated[
        float,
        Gt(0),
        Le(1),
        doc("Smallest fraction of gamma while the penalty grows. Default 0.05: a penalty that starts from zero diverges."),
    ] = 0.05
    gamma_intercept: Annotated[float, Ge(0), Le(1e12), doc("Penalty of the intercept. Default 0: it is not penalised.")] = 0.0
    gamma_of: Annotated[
        tuple[FeatureGamma, ...],
        MaxLen(OWN_GAMMAS_MAX),
        doc("Penalties of single features instead of gamma, with the same schedule. 0: not penalised."),
    ] = ()
    k: Annotated[
        int,
        Ge(1),
        Le(MEMBERS_MAX),
        doc("Features in the block in the bounded modes, including the intercept."),
    ] = 300
    features_max: Annotated[int, Ge(1), Le(MEMBERS_MAX), doc("exact: maximum number of features, including the intercept.")] = (
        MEMBERS_MAX
    )
    beyond: Annotated[
        Literal["refuse", "strict", "hybrid"],
        doc(
            "exact: what happens to a feature beyond features_max. refuse: its row is refused. strict, hybrid: it is treated "
            "like a feature outside the block in that mode. Default refuse: the result stays exact."
        ),
    ] = "refuse"
    block: Annotated[int, Ge(1), Le(10**6), doc("Events between two solves.")] = 100
    ramp: Annotated[
        float,
        Ge(0),
        Le(1),
        doc(
            "Bounded modes: while this fraction of the events so far is less than a block, a solve and a round come after that "
            "many events, at the start after every event. 0: every block is full. Default 0.05: without it no feature has a "
            "weight before the first round, and over the first thousand events of a text stream the log loss of strict is "
            "twice as high."
        ),
    ] = 0.05
    rounds: Annotated[int, Ge(1), Le(10**6), doc("Bounded modes: solves between two rounds of eviction and admission.")] = 4
    admit: Annotated[
        float, Gt(0), Le(10), doc("A feature may enter the block if its |Omega| reaches this fraction of its gamma.")
    ] = 0.8
    hysteresis: Annotated[
        float,
        Ge(1),
        Le(100),
        doc("strict: factor by which a feature must be stronger than a member of the block to replace it."),
    ] = 1.1
    prior_curvature: Annotated[
        float,
        Ge(0),
        Le(1e12),
        doc(
            "Prior curvature of every feature, in units of its largest x^2. Default 1: without it a feature seen twice "
            "overshoots."
        ),
    ] = 1.0
    prior_by_row: Annotated[
        bool,
        doc(
            "hybrid, diag: measure the prior curvature of a feature outside the block by 0.3 |x|^1.5 (sum of |x| of the "
            "row)^0.5 instead of x^2. Default true: with it a gamma that is thirty times too small costs little on texts; "
            "without it the log loss doubles."
        ),
    ] = True
    curvature_floor: Annotated[
        float,
        Ge(0),
        Le(1),
        doc("Smallest curvature of an event as a fraction of its |residual|; bounds the step of a confident mistake."),
    ] = 0.25
    rho: Annotated[
        float,
        Gt(0),
        Le(1),
        doc("Factor by which each later event reduces the weight of an event. Default 1: nothing is forgotten."),
    ] = 1.0
    burn_in: Annotated[
        int,
        Ge(0),
        Le(2**62),
        doc("Events during which early events are forgotten polynomially. Default 0: no burn-in."),
    ] = 0
    burn_in_power: Annotated[float, Gt(0), Le(10), doc("An event s weighs (s / i)^power at event i of the burn-in.")] = 2.0
    warm_up: Annotated[
        int | None,
        doc(
            "First events that are held and linearised again until they fit, so that errors of the first predictions do not "
            "remain. At most 100,000, and in a new model 2*10^11 over the square of features_max (exact) or k. Default null: "
            "1000; 0 in the bounded modes without relinearise, which have ramp instead."
        ),
    ] = None
    relinearise: Annotated[
        bool,
        doc(
            "Keep a sample of rows, which shows whether standard errors can be trusted. In the bounded modes hold the rows of "
            "the warm-up too, and linearise them again at its end. Default true: without it margins can stay five standard "
            "errors from the optimum. Models from before this setting have false."
        ),
    ] = True
    reexpand: Annotated[
        int, Ge(0), Le(10_000), doc("exact: events that are held and then linearised again together. Default 0: none.")
    ] = 0
    tolerance: Annotated[
        float,
        Gt(0),
        Le(1),
        doc(
            "A solve ends when no optimality condition is violated by more than this fraction of gamma, or of 0.001 if gamma "
            "is smaller. Default 0.01: a smaller value changes the weights by less than the next events do."
        ),
    ] = 0.01
    sweeps_max: Annotated[
        int,
        Ge(1),
        Le(10**6),
        doc(
            "Maximum number of sweeps of a solve; the next solve continues from there. In a new model at most 10^11 over the "
            "square of features_max (exact) or k, and at most 10,000 with a tolerance below 1e-10. Default 10: more did not "
            "change any log loss."
        ),
    ] = 10
    intercept: Annotated[bool, doc("Learn an intercept: a feature that is 1 in every event.")] = True
    standardised: Annotated[
        bool,
        doc(
            "Learn values other than 1 in units of their own, as with ftrl_proximal. gamma and prior_curvature are in these "
            "units; weights are shown in those of the input. Default true: units and origins of columns do not matter."
        ),
    ] = True
    far_values: FarValues = "auto"
    shadow: Annotated[
        tuple[Annotated[float, Gt(0), Le(1e12)], ...],
        MaxLen(SHADOWS_MAX),
        doc("Other penalties to try on the same sketch, each with its own progressive loss."),
    ] = ()

    exclusions = EXCLUSIONS

    def __post_init__(self) -> None:
        """Refuse combinations that have no meaning (`BadInput`, code `conflicting_settings`)."""
        refuse(self, self.exclusions)
        if self.warm_up is not None and not 0 <= self.warm_up <= WARM_UP_MAX:
            raise BadInput(f"learner.warm_up: {self.warm_up} is not in 0..{WARM_UP_MAX}", "out_of_range")
        names = [own.feature for own in self.gamma_of]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise BadInput(f"learner: gamma_of has two entries for the feature {twice!r}; remove one", "conflicting_settings")

    def block_limit(self) -> int:
        """Return the largest number of positions of the block. Position 0 is for the intercept; it is empty if there is none."""
        most = {"exact": self.features_max, "diag": 1}.get(self.mode, self.k)
        return most if self.intercept else most + 1

    def warm_up_rows(self) -> int:
        """Return how many rows the warm-up holds."""
        if self.warm_up is None:
            return _WARM_UP if self.mode == "exact" or self.relinearise else 0
        return self.warm_up

    def too_much(self) -> str:
        """Return why one row of a model with these settings could take far too long, and what to set; empty if none does."""
        members, held = self.block_limit(), max(self.warm_up_rows(), self.reexpand)
        named = "features_max" if self.mode == "exact" else "k"
        if self.sweeps_max * members**2 > SOLVE_MAX:
            return (
                f"sweeps_max {self.sweeps_max} with {members} features ({named}): one solve could take "
                f"{self.sweeps_max * members**2:.0e} multiplications, and {SOLVE_MAX:.0e} are allowed; set sweeps_max to "
                f"{SOLVE_MAX // members**2} or less, or a smaller {named}"
            )
        if self.tolerance < TOLERANCE_LEAST and self.sweeps_max > SWEEPS_UNTOLD:
            return (
                f"tolerance {self.tolerance:g} with sweeps_max {self.sweeps_max}: rounding prevents that a solve gets there, so "
                f"each would make all its sweeps; set tolerance to {TOLERANCE_LEAST:g} or more, or sweeps_max to {SWEEPS_UNTOLD} "
                "or less"
            )
        if held * members**2 > HELD_SQUARES_MAX:
            setting = "warm_up" if held == self.warm_up_rows() else "reexpand"
            return (
                f"{setting} {held} with {members} features ({named}): one pass over the held rows could take "
                f"{held * members**2:.0e} multiplications, and {HELD_SQUARES_MAX:.0e} are allowed; set {setting} to "
                f"{HELD_SQUARES_MAX // members**2} or less, or a smaller {named}"
            )
        return ""

    def slot_bits(self, bits: int) -> int:
        """Return how many top bits of a hash identify a feature: all of them if no table of slots is needed."""
        return HASH_BITS if self.mode == "exact" and self.beyond == "refuse" else bits

    def can_forget(self) -> bool:
        return True

    def members(self) -> int:
        return self.block_limit() - 1

    def room(self) -> int:
        return self.members() if self.mode == "exact" and self.beyond == "refuse" else sys.maxsize

    def wants_scaled(self) -> bool:
        return self.mode in ("hybrid", "diag") and not self.standardised
