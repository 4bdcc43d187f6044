"""Settings of truncated gradient, and their form for the kernels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from annotated_types import Ge, Gt, Le, doc

from riata.base.errors import BadInput
from riata.learn.truncated_gradient.rate import Settings
from riata.maths import losses, truncation

_LOSSES: Final[dict[str, int]] = {"logistic": losses.LOGISTIC, "squared": losses.SQUARED, "hinge": losses.HINGE}
_RULES: Final[dict[str, int]] = {
    "truncate": truncation.TRUNCATE,
    "round": truncation.ROUND,
    "subgradient": truncation.SUBGRADIENT,
}


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
            "What a wrong margin costs. logistic gives probabilities; squared is (margin - label)^2; hinge gives margins only."
            " Default logistic: labels are mostly yes or no, and a probability is what is asked for."
        ),
    ] = "logistic"
    rate: Annotated[
        Literal["constant", "decaying", "adaptive"],
        doc(
            "constant: eta. decaying: eta (delay / (delay + i))^power at row i = 0, 1, ... adaptive: eta over the root of the"
            " sum of squared gradients of each feature. Default adaptive: rare features still learn when frequent ones have"
            " settled, and eta does not have to be tuned to the stream."
        ),
    ] = "adaptive"
    normalised: Annotated[
        bool,
        doc(
            "Divide each feature by the largest value seen of it, inside the update. Only with the adaptive rate. Gravity and"
            " ceiling then act on weight times scale. Default true: units do not matter and nobody has to scale the input."
        ),
    ] = True
    eta: Annotated[
        float,
        Gt(0),
        Le(1e6),
        doc(
            "Step size. Default 0.9: larger steps win where features say much, smaller ones where labels are noise. With 0.5"
            " the noisy stream is 3 % better and texts are 22 % worse; with 1.2 it is the other way round, 4 % and 8 %."
        ),
    ] = 0.9
    power: Annotated[
        float, Ge(0), Le(1), doc("How fast the decaying rate decays. Default 1/2: what theory asks for without strong convexity.")
    ] = 0.5
    delay: Annotated[
        float, Gt(0), Le(1e12), doc("Rows until the rate has begun to decay. Default 1: eta / sqrt(1 + i), the plain form.")
    ] = 1.0
    accumulator: Annotated[
        float,
        Ge(0),
        Le(1e12),
        doc(
            "What the adaptive rate starts its sum of squared gradients from, the intercept's too. From 0, the first step of a"
            " feature would be of full size however sure the model was. Default 0.03: that is a gradient of 0.17; with it a"
            " stream of rare clicks is not overfitted, and from 0.01 to 0.1 little changes."
        ),
    ] = 0.03
    reach: Annotated[
        float,
        Gt(1),
        doc(
            "Normalised only: a value counts in the step as at most this many times the largest one seen before it, so that"
            ' one wild value cannot deafen the learner to a feature for ever. "infinite" lets it. Default 2: a scale a thousand'
            " times too small is made up for in ten rows."
        ),
    ] = 2.0
    step: Annotated[
        Literal["invariant", "gradient"],
        doc(
            "invariant: importance is time spent on the row, so no importance overshoots. gradient: importance multiplies."
            " Default invariant: with it a large eta or importance cannot carry a margin past its label."
        ),
    ] = "invariant"
    rule: Annotated[
        Literal["truncate", "round", "subgradient"],
        doc(
            "truncate: shrink weights up to the ceiling by eta gravity period. round: set weights up to the ceiling to zero."
            " subgradient: shrink every weight by eta gravity at every row, past zero; hardly ever sparse. Default truncate: it"
            " is sparse, and a small weight that keeps growing is not thrown away."
        ),
    ] = "truncate"
    gravity: Annotated[
        float,
        Ge(0),
        Le(1e6),
        doc(
            "How strongly weights are pulled to zero for each row; the L1 penalty. Default 3e-5: half of the words of texts and"
            " nearly all values of click logs go, for less than 1 % of the log loss; noisy streams gain by it."
        ),
    ] = 3e-5
    period: Annotated[
        int,
        Ge(1),
        Le(2**31),
        doc(
            "Rows between truncations. Default 100: a feature of one row in a hundred has one row to outgrow a truncation, and"
            " rows of common features hardly ever find a debt to make up for."
        ),
    ] = 100
    ceiling: Annotated[
        float,
        Gt(0),
        doc(
            'Weights above it are left alone; "infinite" pulls at all. Default 0.1: weights that matter keep no bias, and those'
            " that move a margin by less than a tenth may go."
        ),
    ] = 0.1
    intercept: Annotated[
        bool,
        doc(
            "Learn an intercept: a feature that is always 1, is never truncated, and has a step of its own, however many"
            " features a row has. Default true: the share of ones is learnt at once, not by way of the features."
        ),
    ] = True
    grid: Annotated[
        bool,
        doc(
            "Round weights and truncations to multiples of 2^-40, which makes their sums exact. Not with normalised. Default"
            " false: float64 is near enough."
        ),
    ] = False

    def __post_init__(self) -> None:
        """Refuse settings that conflict (`BadInput`, code `conflicting_settings`)."""
        if self.normalised and self.rate != "adaptive":
            raise _conflict("normalised needs rate = 'adaptive'")
        if self.rule == "round" and math.isinf(self.ceiling):
            raise _conflict("rule = 'round' with an infinite ceiling would set every weight to zero; give a finite ceiling")
        if self.rule == "subgradient" and (self.normalised or self.rate == "decaying"):
            raise _conflict(
                "rule = 'subgradient' needs a step size that a row of other features leaves alone:"
                " rate 'constant', or 'adaptive' without normalised"
            )
        if self.grid and self.normalised:
            raise _conflict("grid needs truncations that are sums of equal parts; set normalised to false")


def _conflict(detail: str) -> BadInput:
    return BadInput(f"learner: {detail}", "conflicting_settings")


def kernel_settings(config: TruncatedGradientConfig, bits: int) -> Settings:
    """The kernels' settings. Numbers are converted to floats, as another type would compile every kernel once more."""
    rule = _RULES[config.rule]
    decaying = config.rate == "decaying"
    return Settings(
        loss=_LOSSES[config.loss],
        rule=rule,
        adaptive=True if config.rate == "adaptive" else None,
        normalised=True if config.normalised else None,
        odd=True if config.grid or rule != truncation.TRUNCATE else None,
        invariant=config.step == "invariant",
        grid=config.grid,
        intercept=config.intercept,
        counting=not decaying and not config.normalised,
        eta=float(config.eta),
        power=float(config.power) if decaying else 0.0,
        delay=float(config.delay),
        gravity=float(config.gravity),
        period=config.period,
        ceiling=float(config.ceiling),
        accumulator=float(config.accumulator),
        reach=float(config.reach),
        shift=32 - bits,
    )
