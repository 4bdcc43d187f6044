"""The registry of learners, from the specs of `riata.learn.kinds`: build a learner from its configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Annotated, Any, Final

from riata.base.document import ByKind
from riata.learn.kinds import KINDS
from riata.learn.learner import Learner
from riata.learn.limits import NEAR, WIDE, Limited, SettingApart
from riata.learn.one_vs_rest import OneVsRest
from riata.learn.spec import LearnerSettings, LearnerSpec

ALGO_VERSION: Final[int] = 10  # increased with every change that could alter one bit of the result of replaying a log


class Specs(Mapping[str, LearnerSpec[Any]]):
    """The specs by kind. A learner is imported when its spec is asked for."""

    def __getitem__(self, kind: str) -> LearnerSpec[Any]:
        """Return the spec of a learner."""
        if kind not in KINDS:
            raise KeyError(kind)
        spec: LearnerSpec[Any] = import_module(f"riata.learn.{kind}").SPEC
        return spec

    def __contains__(self, kind: object) -> bool:
        """Whether there is such a learner."""
        return kind in KINDS

    def __iter__(self) -> Iterator[str]:
        """Iterate over the kinds."""
        return iter(KINDS)

    def __len__(self) -> int:
        """Return how many learners there are."""
        return len(KINDS)


SPECS: Final = Specs()

LearnerConfig = Annotated[LearnerSettings, ByKind(KINDS, lambda kind: SPECS[kind].config)]


def spec_of(config: LearnerConfig) -> LearnerSpec[Any]:
    """Return the spec of the learner of this configuration."""
    return SPECS[config.kind]


def default_learner() -> LearnerConfig:
    """Return the configuration of a model whose document names no learner."""
    config: LearnerConfig = SPECS[KINDS[0]].config()
    return config


def build_learner(config: LearnerConfig, bits: int, hash_key: int = 0, classes: tuple[int, int] | None = None) -> Learner:
    """Build the empty learner of a configuration, with 2^bits slots. Raises `BadInput` if bits is out of range.

    hash_key : of the encoder, for settings that name features
    classes  : how many there are, and how many there may be; None for one margin
    """
    spec = spec_of(config)

    def build(own: LearnerConfig) -> Learner:
        if classes is None:
            return spec.build(own, bits, hash_key)
        return spec.build_classes(own, OneVsRest(lambda: spec.build(own.of_class(), bits, hash_key), *classes), hash_key)

    has_errors = classes is None and (spec.keeps_curvature or spec.keeps_posterior)
    limited = config.limits_values(classes is not None)
    learner = Limited(build, config, WIDE if has_errors else NEAR) if limited else build(config)
    declared = spec.declared(config, hash_key)
    return learner if declared is None else SettingApart(learner, declared)
