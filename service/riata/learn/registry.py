"""The registry of learners, from the specs of `riata.learn.kinds`: build a learner from its configuration."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol, Union

import numpy as np

from riata.learn.kinds import KINDS
from riata.learn.learner import Learner
from riata.learn.slot_table import SMALL_BITS
from riata.learn.spec import LearnerSpec
from riata.wire.batch import Batch

ALGO_VERSION: Final[int] = 8  # increased with every change that could alter one bit of the result of replaying a log

SPECS: Final[dict[str, LearnerSpec[Any]]] = {kind: import_module(f"riata.learn.{kind}.spec").SPEC for kind in KINDS}

if TYPE_CHECKING:

    class LearnerConfig(Protocol):
        """The settings of a learner: a frozen dataclass, whose `kind` is the name of the learner."""

        @property
        def kind(self) -> str: ...

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


def machine_code(config: LearnerConfig) -> str:
    """An identifier of the machine code that a learner runs: its kind, and the settings that it is compiled for."""
    return spec_of(config).machine_code(config)


def one_of_each() -> list[LearnerConfig]:
    """A configuration for each machine code that any learner runs."""
    return [config for spec in SPECS.values() for config in spec.examples()]


def warm_up(config: LearnerConfig | None = None, batch: Batch | None = None) -> Learner:
    """Compile everything that a learner of this kind calls, or load it from disk; return it after it has learnt `batch`.

    One configuration is enough for all with the same `machine_code`. Kernels are compiled for the types of the arrays in
    `batch`; the default batch of one event has the types that every parser produces.
    """
    config = default_learner() if config is None else config
    spec = spec_of(config)
    config = spec.eventful(config)
    learner = spec.build(config, SMALL_BITS + 1, 0)  # of a compact table, whose kernels direct tables do not call
    learner.step(_one_event() if batch is None else batch)
    learner.thaw(learner.freeze())
    spec.adjust(learner, config)
    if spec.forget is not None and spec.can_forget(config):
        spec.forget(learner, 0.5)
    learner.weights()
    learner.sketch()
    return learner


def _one_event() -> Batch:
    return Batch(
        indptr=np.array([0, 1], np.int64),
        hash=np.zeros(1, np.uint32),
        value=np.ones(1),
        label=np.ones(1),
        weight=np.ones(1),
        event_id=np.zeros((1, 16), np.uint8),
        has_id=np.zeros(1, np.bool_),
    )
