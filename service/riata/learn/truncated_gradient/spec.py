"""The spec of truncated gradient for the rest of the program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from riata.base.arrays import Arrays
from riata.learn.adopt import Adopted
from riata.learn.learner import Learner
from riata.learn.spec import LearnerSpec
from riata.learn.standardised import SLOTS, Standardised
from riata.learn.truncated_gradient.config import TruncatedGradientConfig, candidates, candidates_of_classes
from riata.learn.tuned import Tuned, settled


def _build(config: TruncatedGradientConfig, bits: int, _hash_key: int) -> Learner:
    from riata.learn.truncated_gradient.learner import TruncatedGradient

    if config.scaled_label and config.loss == "squared" and config.rate == "adaptive":
        return Standardised(lambda own, _rate: TruncatedGradient(own, bits), config, columns=config.intercept, labels=True)
    tried = candidates(config)
    if len(tried) > 1:
        return Tuned(lambda own: TruncatedGradient(own, bits), tried)
    return TruncatedGradient(config, bits)


def _adopt(config: TruncatedGradientConfig, bits: int, solution: Adopted) -> Arrays:
    from riata.learn.truncated_gradient.learner import around

    arrays = around(config, bits, solution)
    return settled(arrays) if len(candidates(config)) > 1 else arrays


def _forget(learner: Learner, keep: float) -> None:
    from riata.learn.truncated_gradient.learner import TruncatedGradient

    if isinstance(learner, (Standardised, Tuned)):
        learner.forget(keep, _forget)
    elif isinstance(learner, TruncatedGradient):
        learner.forget(keep)


def _chosen(learner: Learner) -> Mapping[str, Any]:
    if not isinstance(learner, Tuned):
        return {}
    own = learner.chosen
    return {"eta": own.eta, "accumulator": own.accumulator, "scale": own.scale, "ended": learner.ended}


def _undoes_scale(config: TruncatedGradientConfig) -> str:
    divides = config.normalised and config.scale == "largest"
    return 'it divides features by their largest value: set learner.scale to "counts"' if divides else ""


def _rest(learner: Learner) -> None:
    if isinstance(learner, Tuned):
        learner.rest()


SPEC: Final = LearnerSpec(
    config=TruncatedGradientConfig,
    about="Langford, Li & Zhang 2009. The default learner; the only one that accepts any number as a label.",
    build=_build,
    adopt=_adopt,
    penalty="gravity",
    real_labels={"loss": "squared"},
    takes_many=True,
    can_forget=lambda config: config.rate == "adaptive",
    forget=_forget,
    chosen=_chosen,
    rest=_rest,
    candidates=candidates_of_classes,
    slot_lists=("slot", "seen", "column_slot", SLOTS),
    undoes_scale=_undoes_scale,
    wants_scaled=lambda config: not config.normalised,
    older={"centred": False, "calibrated": False, "scaled_label": False, "scale": "largest", "tuned": False},
    advice={
        "worse_than_base_rate": "If consecutive labels depend on each other, create it with rate constant, normalised false and "
        "eta 2; otherwise with a smaller eta, such as 0.3.",
        "under_confident": "Create it with calibrated and tuned true, the default, or with a larger eta, such as 3.",
        "over_confident": "Create it with calibrated and tuned true, the default, or with a smaller eta, such as 0.3.",
        "biased": "The rate of positives may have changed: create it with rate constant and normalised false.",
        "columns_not_scaled": "Create it with normalised true and rate adaptive, or scale them before they are sent.",
    },
)
