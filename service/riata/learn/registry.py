"""The registry of learners, from the specs of `riata.learn.kinds`: build a learner from its configuration."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Union

from riata.learn.kinds import KINDS
from riata.learn.learner import Learner
from riata.learn.spec import LearnerSettings, LearnerSpec

ALGO_VERSION: Final[int] = 8  # increased with every change that could alter one bit of the result of replaying a log

SPECS: Final[dict[str, LearnerSpec[Any]]] = {kind: import_module(f"riata.learn.{kind}").SPEC for kind in KINDS}

if TYPE_CHECKING:
    LearnerConfig = LearnerSettings
else:
    LearnerConfig = Union[tuple(spec.config for spec in SPECS.values())]  # noqa: UP007  documents are read by its members


def spec_of(config: LearnerConfig) -> LearnerSpec[Any]:
    """Return the spec of the learner of this configuration."""
    return SPECS[config.kind]


def default_learner() -> LearnerConfig:
    """Return the configuration of a model whose document names no learner."""
    config: LearnerConfig = SPECS[KINDS[0]].config()
    return config


def build_learner(config: LearnerConfig, bits: int, hash_key: int = 0) -> Learner:
    """Build the empty learner of a configuration, with 2^bits slots. Raises `BadInput` if bits is out of range.

    hash_key : of the encoder, for settings that name features
    """
    return spec_of(config).build(config, bits, hash_key)
