"""Settings of the particle filter, with the reason for every default.

This module imports no kernel, because it is loaded for every configuration, whichever learner the configuration chooses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal

from annotated_types import Ge, Gt, Le, doc

from riata.base.errors import BadInput

FEATURES_ADVISED: Final = 16
FEATURES_MOST: Final = 32
PARTICLES_EACH: Final = 200  # particles for each parameter
PARTICLES_LEAST: Final = 1000
BANDWIDTH_MOST: Final = 0.95
NUMBERS_MAX: Final = 5 * 10**6  # particles times parameters: 40 MB, and four times as much to work with
CHAIN_MAX: Final = 10**10  # particles times parameters times rows held: the cost of drawing them anew


@dataclass(frozen=True, slots=True)
class ParticleFilterConfig:
    """Settings of 1PFS, the one-pass particle filter with shrinkage, for logistic regression."""

    kind: Literal["particle_filter"] = "particle_filter"
    features_max: Annotated[
        int,
        Ge(1),
        doc(
            "Maximum number of features, without the intercept, at most 32. A row with a further feature is refused "
            "(vocabulary_full). Default 16: above it the kernel by which particles move is hardly more than a normal "
            "distribution fitted to them, and the model says so in its description."
        ),
    ] = FEATURES_ADVISED
    gamma: Annotated[
        float,
        Gt(0),
        Le(1e6),
        doc(
            "Prior of every weight: a Laplace distribution with density proportional to exp(-gamma |weight|), so its scale is "
            "1 / gamma. Default 1: weakly informative, if features are of the order of one. Features of the order of 0.01 need "
            "a smaller gamma, or to be rescaled."
        ),
    ] = 1.0
    gamma_intercept: Annotated[float, Gt(0), Le(1e6), doc("Prior of the intercept, as gamma. Default 0.2.")] = 0.2
    particles: Annotated[
        int | None,
        doc(
            "Number of particles, 100 to 1,000,000; of a new model, times the number of parameters at most 5,000,000, and times "
            "start too at most 10^10. Time per event and memory are proportional to it. Default null: 200 for each "
            "feature of features_max and for the intercept, at least 1000. The error of a posterior mean falls about as their "
            "number grows."
        ),
    ] = None
    start: Annotated[
        int,
        Ge(1),
        Le(100_000),
        doc(
            "Number of first events that are held in memory. At 16, 32, 64, ... and start of them the particles are drawn anew "
            "from their exact posterior by a Markov chain; then the events are dropped. They should be typical of the stream. "
            "Default 2000: takes about a second."
        ),
    ] = 2000
    keep: Annotated[
        float,
        Gt(0),
        Le(0.9),
        doc(
            "The particles move when the effective sample size has fallen below this fraction of their number. Default 0.5; with "
            "a smaller one they move less often, from fewer of them, and means are less accurate."
        ),
    ] = 0.5
    widen: Annotated[
        float,
        Gt(0),
        Le(10),
        doc(
            "Bandwidth of the kernel in units of the rule b_M = (4 / ((d + 2) M))^(1 / (d + 4)); at most 0.95 as a whole. "
            "Default 1.5: a wider kernel keeps more of the particles distinct."
        ),
    ] = 1.5
    seed: Annotated[int, Ge(0), Le(2**63 - 1), doc("Key of the random numbers. The same log gives the same bits.")] = 0
    intercept: Annotated[bool, doc("Learn an intercept: a feature that is 1 in every event. Default true.")] = True

    def __post_init__(self) -> None:
        """Refuse more features or particles than the filter can have (`BadInput`, codes `too_many_features`, `out_of_range`)."""
        if self.features_max > FEATURES_MOST:
            raise BadInput(
                f"learner.features_max: {self.features_max} features are too many for a particle filter, which takes up to "
                f"{FEATURES_MOST}, better up to {FEATURES_ADVISED}; taylor_sketch in mode exact takes up to 4096",
                "too_many_features",
            )
        if self.particles is not None and not 100 <= self.particles <= 10**6:
            raise BadInput(f"learner.particles: {self.particles} is not in 100..1000000", "out_of_range")


def parameters_of(config: ParticleFilterConfig) -> int:
    """Return the largest number of parameters: the features, and the intercept."""
    return config.features_max + int(config.intercept)


def too_much(config: ParticleFilterConfig) -> str:
    """Return why one row of a model with these settings could take far too long, and what to set; empty if none does."""
    count, parameters = particles_of(config), parameters_of(config)
    most = min(NUMBERS_MAX // parameters, CHAIN_MAX // (parameters * config.start))
    if count <= most:
        return ""
    return (
        f"particles {count} with {parameters} parameters (features_max) and start {config.start}: particles times parameters may "
        f"be up to {NUMBERS_MAX:,}, and times start up to {CHAIN_MAX:,}; set particles to {most} or less, or a smaller "
        "features_max or start"
    )


def particles_of(config: ParticleFilterConfig) -> int:
    """Return the number of particles."""
    return max(PARTICLES_LEAST, PARTICLES_EACH * parameters_of(config)) if config.particles is None else config.particles
