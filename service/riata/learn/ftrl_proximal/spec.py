"""The spec of FTRL-Proximal for the rest of the program."""

from __future__ import annotations

from typing import Final

from riata.learn.ftrl_proximal.config import FtrlProximalConfig
from riata.learn.learner import Learner
from riata.learn.spec import LearnerSpec


def _build(config: FtrlProximalConfig, bits: int, _hash_key: int) -> Learner:
    from riata.learn.ftrl_proximal.learner import FtrlProximal

    return FtrlProximal(config, bits)


SPEC: Final = LearnerSpec(
    config=FtrlProximalConfig,
    about="McMahan et al. 2013. Logistic loss; few non-zero weights, little memory.",
    build=_build,
    examples=lambda: [FtrlProximalConfig()],
    machine_code=lambda config: config.kind,
    eventful=lambda config: config,
    slot_lists=("slot", "seen"),
)
