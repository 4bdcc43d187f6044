"""The spec of FTRL-Proximal for the rest of the program."""

from __future__ import annotations

import math
from typing import Final

from riata.base.arrays import Arrays
from riata.learn.adopt import Adopted
from riata.learn.ftrl_proximal.config import FtrlProximalConfig
from riata.learn.learner import Learner
from riata.learn.spec import LearnerSpec
from riata.learn.standardised import SLOTS, Standardised, settled


def _build(config: FtrlProximalConfig, bits: int, _hash_key: int) -> Learner:
    from riata.learn.ftrl_proximal.learner import FtrlProximal

    if config.standardised:
        return Standardised(
            lambda own, rate: FtrlProximal(own, bits, math.log(rate / (1.0 - rate)) if own.intercept else 0.0),
            config,
            columns=config.intercept,
            starts=config.intercept,
        )
    return FtrlProximal(config, bits)


def _adopt(config: FtrlProximalConfig, bits: int, solution: Adopted) -> Arrays:
    from riata.learn.ftrl_proximal.learner import around

    arrays = around(config, bits, solution)
    return settled(arrays) if config.standardised else arrays


def _forget(learner: Learner, keep: float) -> None:
    from riata.learn.ftrl_proximal.learner import FtrlProximal

    if isinstance(learner, Standardised):
        learner.forget(keep, _forget)
    elif isinstance(learner, FtrlProximal):
        learner.forget(keep)


SPEC: Final = LearnerSpec(
    config=FtrlProximalConfig,
    about="McMahan et al. 2013. Logistic loss; few non-zero weights, little memory.",
    build=_build,
    adopt=_adopt,
    penalty="l1",
    can_forget=lambda _config: True,
    forget=_forget,
    slot_lists=("slot", "seen", SLOTS),
    wants_scaled=lambda config: not config.standardised,
    older={"standardised": False},
    advice={
        "worse_than_base_rate": "Create it with a smaller alpha, such as 0.05, or with a larger l1.",
        "under_confident": "Create it with a larger alpha, such as 0.5, or with a smaller l1.",
        "over_confident": "Create it with a smaller alpha, such as 0.05, or with a larger l1.",
        "biased": "The rate of positives may have changed: restart it, or create it with the default learner.",
        "columns_not_scaled": "Create it with standardised true, the default.",
    },
)
