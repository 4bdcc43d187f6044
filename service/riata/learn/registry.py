"""Which learners there are, and the one place where a configuration becomes one.

A learner is loaded when it is asked for: to load all of them takes longer than most programs need for the one they use.
"""

from __future__ import annotations

from typing import Final, Literal

import numpy as np

from riata.base.limits import BITS_MIN
from riata.learn.ftrl_proximal.config import FtrlProximalConfig
from riata.learn.learner import Learner
from riata.learn.taylor_sketch.config import TaylorSketchConfig, key_bits
from riata.learn.truncated_gradient.config import TruncatedGradientConfig, kernel_settings
from riata.wire.batch import Batch

ALGO_VERSION: Final[int] = 2  # goes up with every change that could alter one bit of what a log replays to

LearnerConfig = TruncatedGradientConfig | TaylorSketchConfig | FtrlProximalConfig

# What a model may change later without learning anew.
_ADJUSTABLE: Final[dict[str, frozenset[str]]] = {"taylor_sketch": frozenset({"gamma"})}


def build_learner(config: LearnerConfig, bits: int, hash_key: int = 0) -> Learner:
    """Build the learner a configuration asks for, empty, with 2^bits slots. Raises `BadInput` where bits is out of range.

    hash_key : of the encoder, for settings that name features
    """
    if isinstance(config, TaylorSketchConfig):
        from riata.learn.taylor_sketch.learner import TaylorSketch

        return TaylorSketch(config, bits, hash_key)
    if isinstance(config, FtrlProximalConfig):
        from riata.learn.ftrl_proximal.learner import FtrlProximal

        return FtrlProximal(config, bits)
    from riata.learn.truncated_gradient.learner import TruncatedGradient

    return TruncatedGradient(config, bits)


def slot_lists(config: LearnerConfig) -> tuple[str, ...]:
    """Name the frozen arrays that name lines of a table of 2^bits. Where a learner has no table the first of them is missing."""
    return ("outside_slot", "member_key") if isinstance(config, TaylorSketchConfig) else ("slot", "seen")


def slot_bits(config: LearnerConfig, bits: int) -> int:
    """By how many bits of a hash this learner knows a feature, where the encoder asks for `bits`: the bits of its weights."""
    return key_bits(config, bits) if isinstance(config, TaylorSketchConfig) else bits


def adjustable(config: LearnerConfig) -> frozenset[str]:
    """Name the settings of this kind of learner that may change while it learns."""
    return _ADJUSTABLE.get(config.kind, frozenset())


def adjust(learner: Learner, config: LearnerConfig) -> None:
    """Have `learner` take up `config`, which differs from its own in `adjustable` settings only."""
    if isinstance(config, TaylorSketchConfig):
        from riata.learn.taylor_sketch.learner import TaylorSketch

        if isinstance(learner, TaylorSketch):
            learner.adjust(config)


def machine_code(config: LearnerConfig) -> str:
    """A name for the machine code that a learner runs: its kind, and the settings that it is compiled for."""
    if not isinstance(config, TruncatedGradientConfig):
        return config.kind
    settings = kernel_settings(config, BITS_MIN)
    flags = {"adaptive": settings.adaptive, "normalised": settings.normalised, "odd rule": settings.odd}
    return " ".join([config.kind, *(name for name, up in flags.items() if up)])


def takes_many(config: LearnerConfig) -> bool:
    """Whether a learner takes many batches of few rows, of which it would be longer to make one, in one call of its kernel."""
    return isinstance(config, TruncatedGradientConfig)


def one_of_each() -> list[LearnerConfig]:
    """A configuration for each machine code that any learner runs."""
    rates: list[tuple[Literal["constant", "adaptive"], bool]] = [("adaptive", True), ("adaptive", False), ("constant", False)]
    rules: list[Literal["truncate", "round"]] = ["truncate", "round"]
    gradients = [TruncatedGradientConfig(rate=rate, normalised=scaled, rule=rule) for rule in rules for rate, scaled in rates]
    return [*gradients, TaylorSketchConfig(), FtrlProximalConfig()]


def warm_up(config: LearnerConfig | None = None, batch: Batch | None = None) -> Learner:
    """Compile everything that a learner of this kind calls, or load it from disk; returns it after it has learnt `batch`.

    One configuration stands for all that are alike in `machine_code`. Kernels are compiled for the types of the arrays in
    `batch`, of which the parser makes no others than those of the one event that is taken by default.
    """
    config = _eventful(TruncatedGradientConfig() if config is None else config)
    learner = build_learner(config, BITS_MIN)
    learner.step(_one_event() if batch is None else batch)
    learner.thaw(learner.freeze())
    adjust(learner, config)
    learner.weights()
    learner.sketch()
    return learner


def _eventful(config: LearnerConfig) -> LearnerConfig:
    """A configuration of the same kind under which all that ever happens to a learner happens within two events."""
    if isinstance(config, TaylorSketchConfig):
        return TaylorSketchConfig(mode="exact", beyond="hybrid", block=1, warm_up=1, reexpand=1, shadow=(1.0,))
    return config


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
