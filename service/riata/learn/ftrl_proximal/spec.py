"""The spec of FTRL-Proximal for the rest of the program."""

from __future__ import annotations

from typing import Final

from riata.base.arrays import Arrays
from riata.learn.adopt import Adopted
from riata.learn.ftrl_proximal.config import FtrlProximalConfig
from riata.learn.learner import Learner
from riata.learn.spec import LearnerSpec


def _build(config: FtrlProximalConfig, bits: int, _hash_key: int) -> Learner:
    from riata.learn.ftrl_proximal.learner import FtrlProximal

    return FtrlProximal(config, bits)


def _adopt(config: FtrlProximalConfig, bits: int, solution: Adopted) -> Arrays:
    from riata.learn.ftrl_proximal.adopt import around

    return around(config, bits, solution)


def _forget(learner: Learner, keep: float) -> None:
    from riata.learn.ftrl_proximal.learner import FtrlProximal

    if isinstance(learner, FtrlProximal):
        learner.forget(keep)


SPEC: Final = LearnerSpec(
    config=FtrlProximalConfig,
    about="McMahan et al. 2013. Logistic loss; few non-zero weights, little memory.",
    build=_build,
    adopt=_adopt,
    examples=lambda: [FtrlProximalConfig()],
    machine_code=lambda config: config.kind,
    eventful=lambda config: config,
    can_forget=lambda _config: True,
    forget=_forget,
    slot_lists=("slot", "seen"),
    wants_scaled=lambda _config: True,
    advice={
        "worse_than_base_rate": "Create it with a smaller alpha, such as 0.05, or with a larger l1.",
        "under_confident": "Create it with a larger alpha, such as 0.5, or with a smaller l1.",
        "over_confident": "Create it with a smaller alpha, such as 0.05, or with a larger l1.",
        "biased": "The rate of positives may have changed: restart it, or create it with the default learner.",
        "columns_not_scaled": "Scale them before they are sent, or create it with truncated_gradient, which scales by itself.",
    },
)
