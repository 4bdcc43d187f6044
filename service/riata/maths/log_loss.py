"""The log loss, where a replay has to repeat it to the last bit."""

from __future__ import annotations

from typing import Final

import numpy as np

from riata.base.arrays import BOOL, F64
from riata.native.library import core

PROBABILITY_MIN: Final = 1e-15  # lower bound of the probability in the log loss, which is so at most 34.5 nats


def log_losses(margin: F64, refused: BOOL, label: F64, weight: F64) -> F64:
    """Return the log losses of margins, times the weights of their rows. See `riata_log_losses`."""
    losses = np.empty(len(margin))
    core.log_losses(margin, refused, label, weight, len(margin), losses)
    return losses
