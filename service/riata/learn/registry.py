"""Which learners there are, and the one place where a configuration becomes one."""

from __future__ import annotations

from typing import Final

import numpy as np

from riata.base.limits import BITS_MIN
from riata.learn.learner import Learner
from riata.learn.truncated_gradient import TruncatedGradient, TruncatedGradientConfig
from riata.wire.batch import Batch

ALGO_VERSION: Final[int] = 1  # goes up with every change that could alter one bit of what a log replays to

LearnerConfig = TruncatedGradientConfig


def build_learner(config: LearnerConfig, bits: int) -> Learner:
    """Build the learner a configuration asks for, empty, with 2^bits slots. Raises `BadInput` where bits is out of range."""
    return TruncatedGradient(config, bits)


def warm_up(config: LearnerConfig | None = None) -> None:
    """Compile everything a learner calls, or load it from disk, on one event that is thrown away.

    Kernels take their settings as arguments, so one configuration stands for all of its kind.
    """
    learner = build_learner(TruncatedGradientConfig() if config is None else config, BITS_MIN)
    learner.step(
        Batch(
            indptr=np.array([0, 1], np.int64),
            hash=np.zeros(1, np.uint32),
            value=np.ones(1),
            label=np.ones(1),
            weight=np.ones(1),
            event_id=np.zeros((1, 16), np.uint8),
            has_id=np.zeros(1, np.bool_),
        )
    )
    learner.thaw(learner.freeze())
    learner.weights()
