"""The spec of the particle filter for the rest of the program."""

from __future__ import annotations

from typing import Final

from riata.base.arrays import Arrays
from riata.learn.adopt import Adopted
from riata.learn.learner import Learner
from riata.learn.particle_filter.config import ParticleFilterConfig, too_much
from riata.learn.spec import LearnerSpec

_HASH_BITS: Final = 32


def _build(config: ParticleFilterConfig, bits: int, _hash_key: int) -> Learner:
    from riata.learn.particle_filter.learner import ParticleFilter

    return ParticleFilter(config, bits)


def _adopt(config: ParticleFilterConfig, _bits: int, solution: Adopted) -> Arrays:
    from riata.learn.particle_filter.learner import around

    return around(config, solution)


SPEC: Final = LearnerSpec(
    config=ParticleFilterConfig,
    about="1PFS, the one-pass particle filter with shrinkage (Balakrishnan 2007). Logistic regression of up to 16 features, with "
    "the posterior distribution of every weight, so predictions have intervals (`?level=0.95`). It forgets nothing.",
    build=_build,
    adopt=_adopt,
    members=lambda config: config.features_max,
    too_much=too_much,
    keeps_posterior=True,
    slot_bits=lambda _config, _bits: _HASH_BITS,
    wants_scaled=lambda _config: True,
    advice={
        "worse_than_base_rate": "It forgets nothing: if the stream changes, create it with taylor_sketch and rho 0.9999.",
        "columns_not_scaled": "Scale them before they are sent, so that its prior fits.",
    },
)
