"""Settings of truncated gradient, and their form for the kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Literal

from annotated_types import Ge, Gt, Le, doc

from riata.base.exclusions import Exclusion, refuse
from riata.learn.truncated_gradient.state import ROUND, SUBGRADIENT, TRUNCATE
from riata.maths import links
from riata.native.library import struct

_LOSSES: Final[dict[str, int]] = {"logistic": links.LOGISTIC, "squared": links.SQUARED, "hinge": links.HINGE}
_RULES: Final = {"truncate": TRUNCATE, "round": ROUND, "subgradient": SUBGRADIENT}
ETA: Final = 0.9
COUNTED: Final = 16.0  # a power of two, so that quotients are exact
ACCUMULATOR_MAX: Final = 1e12


EXCLUSIONS: Final[Sequence[Exclusion[TruncatedGradientConfig]]] = (
    Exclusion(
        "`normalised`",
        '`rate` other than "adaptive"',
        lambda config: config.normalised and config.rate != "adaptive",
        "learner: normalised needs rate = 'adaptive'",
    ),
    Exclusion(
        '`rule` "round"',
        "an infinite `ceiling`",
        lambda config: config.rule == "round" and math.isinf(config.ceiling),
        "learner: rule = 'round' with an infinite ceiling would set every weight to zero; give a finite ceiling",
    ),
    Exclusion(
        '`rule` "subgradient"',
        '`normalised`, and `rate` "decaying"',
        lambda config: config.rule == "subgradient" and (config.normalised or config.rate == "decaying"),
        "learner: rule = 'subgradient' needs a step size that does not change at rows without the feature: rate 'constant', or "
        "'adaptive' without normalised",
    ),
    Exclusion(
        "`grid`",
        "`normalised`",
        lambda config: config.grid and config.normalised,
        "learner: grid needs truncations that are sums of equal parts; set normalised to false",
    ),
)


@dataclass(frozen=True, slots=True)
class TruncatedGradientConfig:
    """Settings of truncated gradient.

    One set of defaults for every stream, chosen by progressive log loss on texts, categories, numbers without a common unit,
    clicks at a rate of one in a hundred, and a synthetic stream whose labels are mostly noise.
    """

    kind: Literal["truncated_gradient"] = "truncated_gradient"
    loss: Annotated[
        Literal["logistic", "squared", "hinge"],
        doc(
            "Loss function. logistic gives probabilities; squared is (margin - label)^2; hinge gives margins only. Default "
            "logistic: most labels are binary, and most clients need a probability."
        ),
    ] = "logistic"
    rate: Annotated[
        Literal["constant", "decaying", "adaptive"],
        doc(
            "constant: eta. decaying: eta (delay / (delay + i))^power at row i = 0, 1, ... adaptive: for each feature eta / root "
            "of the sum of its squared gradients. Default adaptive: rare features still learn after frequent ones have "
            "converged, and eta needs no tuning to the stream."
        ),
    ] = "adaptive"
    normalised: Annotated[
        bool,
        doc(
            "Divide each feature by its largest value seen so far, inside the update. Only with the adaptive rate. Gravity and "
            "ceiling then apply to weight times scale. Default true: units do not matter and the input needs no scaling."
        ),
    ] = True
    eta: Annotated[
        float,
        Gt(0),
        Le(1e6),
        doc(
            "Step size. Default 0.9: larger steps are better if features are informative, smaller ones if labels are noisy. With "
            "0.5 the noisy stream is 3 % better and texts are 22 % worse; with 1.2 the noisy stream is 4 % worse and texts are 8 "
            "% better."
        ),
    ] = ETA
    power: Annotated[
        float, Ge(0), Le(1), doc("Exponent of the decaying rate. Default 1/2: the value from theory without strong convexity.")
    ] = 0.5
    delay: Annotated[
        float, Gt(0), Le(1e12), doc("Number of rows before the rate decays noticeably. Default 1: eta / sqrt(1 + i).")
    ] = 1.0
    accumulator: Annotated[
        float,
        Ge(0),
        Le(ACCUMULATOR_MAX),
        doc(
            "Initial value of the sums of squared gradients of the adaptive rate, including that of the intercept. With 0 the "
            "first step of a feature would have full size however confident the model is. Default 0.03: this is the square of a "
            "gradient of 0.17; a stream of rare clicks is not overfitted with it, and values from 0.01 to 0.1 give similar "
            "results."
        ),
    ] = 0.03
    reach: Annotated[
        float,
        Gt(1),
        doc(
            "Only with normalised: a value counts in the step as at most this many times the largest one seen before, so that "
            'one outlier cannot disable a feature for good. "infinite": no limit. Default 2: a scale a thousand times too small '
            "is corrected within ten rows."
        ),
    ] = 2.0
    scale: Annotated[
        Literal["largest", "counts"],
        doc(
            "Only with normalised: what a feature that is not a numeric column is divided by. largest: its largest value seen. "
            "counts: nothing while its values are at most 16, then a sixteenth of the largest one. Default largest: units do not "
            "matter. counts is better for words, of which one long text would make the steps smaller for good."
        ),
    ] = "largest"
    tuned: Annotated[
        bool,
        doc(
            "Choose the step from the first 4096 rows, or fewer if these have many features. At 64 rows, and whenever their "
            "number has doubled, eight learners learn them again, and the one with the lowest progressive log loss goes on, if "
            "it is 1 % better than with eta 0.9: with eta 0.3, 2.7, 8.1, and 24.3 (this with ten times the accumulator); with "
            "scale counts and eta 2.7, 8.1 and 24.3. Only with the logistic loss and with normalised; an eta that is set to "
            "another value than 0.9 stays. Several classes have one choice, made from 256 rows on, and ten times the "
            "accumulator with scale counts. Default true: the best eta of public streams is between 0.3 and 24. False: every "
            "setting stays."
        ),
    ] = True
    step: Annotated[
        Literal["invariant", "gradient"],
        doc(
            "invariant: the update of an importance-weighted row is the limit of many small steps and does not overshoot. "
            "gradient: importance multiplies the gradient. Default invariant: a large eta or importance cannot move a margin "
            "past its label."
        ),
    ] = "invariant"
    rule: Annotated[
        Literal["truncate", "round", "subgradient"],
        doc(
            "truncate: shrink weights up to the ceiling by eta * gravity * period. round: set weights up to the ceiling to zero. "
            "subgradient: shrink every weight by eta * gravity at every row, even past zero; hardly ever sparse. Default "
            "truncate: it gives sparse weights, and a small weight that keeps growing survives."
        ),
    ] = "truncate"
    gravity: Annotated[
        float,
        Ge(0),
        Le(1e6),
        doc(
            "L1 penalty: how strongly each row pulls weights towards zero. Default 3e-5: half of the words of texts and nearly "
            "all values of click logs get weight zero, at a cost of less than 1 % of the log loss; noisy streams improve."
        ),
    ] = 3e-5
    period: Annotated[
        int,
        Ge(1),
        Le(2**31),
        doc(
            "Rows between truncations. Default 100: a feature in one row of a hundred has one row to outgrow a truncation, and "
            "rows of common features rarely have an overdue truncation to apply."
        ),
    ] = 100
    ceiling: Annotated[
        float,
        Gt(0),
        doc(
            'Weights above it are not truncated; "infinite": all are. Default 0.1: large weights stay unbiased, and weights that '
            "move a margin by less than a tenth may become zero."
        ),
    ] = 0.1
    intercept: Annotated[
        bool,
        doc(
            "Learn an intercept: a feature that is always 1, is never truncated, and has its own step size, independent of the "
            "number of features of a row. Default true: the base rate is learnt directly and not through the features."
        ),
    ] = True
    centred: Annotated[
        bool,
        doc(
            "Steps of numeric columns, features in more than half of the rows with values other than 1, are those of the value "
            "less its running mean; the intercept moves against them. Weights stay in the units of the input. Only with "
            "normalised and an intercept. Default true: where zero lies does not matter. On streams of numbers the log loss is "
            "0 to 16 % less, and up to 28 % if they are far from zero. False: as in the paper."
        ),
    ] = True
    calibrated: Annotated[
        bool,
        doc(
            "Multiply margins by a number, and add one, both learnt online from the margins before learning, and fold them into "
            "the weights that are served. Only with the logistic loss, and with normalised. Default true: on "
            "texts, where the learner is under-confident, the log loss is 12 to 22 % less; elsewhere it differs by at most 1 %. "
            "False: as in the paper."
        ),
    ] = True
    scaled_label: Annotated[
        bool,
        doc(
            "Learn labels less their mean and over their spread, both taken from the first 1024 rows; weights and predictions "
            "are in the units of the label. Only with the squared loss and the adaptive rate. Default true: the step of the "
            "adaptive rate has the size of eta whatever the label, so a mean of thousands would be out of reach. False: as in "
            "the paper."
        ),
    ] = True
    grid: Annotated[
        bool,
        doc(
            "Round weights and truncations to multiples of 2^-40, which makes their sums exact. Not with normalised. Default "
            "false: float64 is accurate enough."
        ),
    ] = False

    exclusions = EXCLUSIONS

    def __post_init__(self) -> None:
        """Refuse settings that conflict (`BadInput`, code `conflicting_settings`)."""
        refuse(self, self.exclusions)


def candidates(config: TruncatedGradientConfig) -> list[TruncatedGradientConfig]:
    """The configurations that `tuned` chooses from, the given one first; that one alone if it does not choose."""
    own = replace(config, tuned=False)
    if not config.tuned or config.eta != ETA or config.loss != "logistic" or not config.normalised:
        return [own]
    found = [replace(own, eta=ETA * times) for times in (1.0, 1.0 / 3.0, 3.0, 9.0)]
    found.append(replace(own, eta=27.0 * ETA, accumulator=min(10.0 * config.accumulator, ACCUMULATOR_MAX)))
    if config.scale == "largest":
        found += [replace(own, eta=ETA * times, scale="counts") for times in (3.0, 9.0, 27.0)]
    return found


def candidates_of_classes(config: TruncatedGradientConfig) -> list[TruncatedGradientConfig]:
    """The same for several classes: those with the scale of counts have ten times the accumulator, as rows of a class are few."""
    accumulator = min(10.0 * config.accumulator, ACCUMULATOR_MAX)
    return [one if one.scale == config.scale else replace(one, accumulator=accumulator) for one in candidates(config)]


def kernel_settings(config: TruncatedGradientConfig) -> Any:
    """Return the configuration as a `riata_gradient_settings`."""
    decaying = config.rate == "decaying"
    return struct(
        "riata_gradient_settings",
        loss=_LOSSES[config.loss],
        rule=_RULES[config.rule],
        period=config.period,
        adaptive=config.rate == "adaptive",
        normalised=config.normalised,
        invariant=config.step == "invariant",
        grid=config.grid,
        intercept=config.intercept,
        centred=config.centred and config.normalised and config.intercept,
        calibrated=config.calibrated and config.loss == "logistic" and config.normalised,
        counting=not decaying and not config.normalised,
        counted=COUNTED if config.normalised and config.scale == "counts" else 0.0,
        eta=config.eta,
        power=config.power if decaying else 0.0,
        delay=config.delay,
        gravity=config.gravity,
        ceiling=config.ceiling,
        accumulator=config.accumulator,
        reach=config.reach,
    )
