"""Which learners there are, and the one place where a configuration becomes one."""

from __future__ import annotations

from typing import Final

from riata.learn.learner import Learner
from riata.learn.truncated_gradient import TruncatedGradient, TruncatedGradientConfig

ALGO_VERSION: Final[int] = 1  # goes up with every change that could alter one bit of what a log replays to

LearnerConfig = TruncatedGradientConfig


def build_learner(config: LearnerConfig, bits: int) -> Learner:
    """Build the learner a configuration asks for, empty, with 2^bits slots. Raises `BadInput` where bits is out of range."""
    return TruncatedGradient(config, bits)
