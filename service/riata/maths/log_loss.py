"""The log loss, where a replay has to repeat it to the last bit."""

from __future__ import annotations

import math
from typing import Final

from riata.base.arrays import BOOL, F64
from riata.jit.kernel import inline_kernel, kernel
from riata.maths.links import sigma

PROBABILITY_MIN: Final = 1e-15  # lower bound of the probability in the log loss, which is so at most 34.5 nats


@inline_kernel
def log_loss(probability: float) -> float:
    """Log loss of having predicted `probability` for the observed label.

    Source             logarithmic score, Good 1952; clipped at PROBABILITY_MIN
    """
    return -math.log(max(probability, PROBABILITY_MIN))


@kernel
def log_losses(margin: F64, refused: BOOL, label: F64, weight: F64, loss: F64) -> None:
    """Log losses of margins, times the weights of their rows.

    Parameters
    ----------
    margin : f64[n]        read only
    refused : bool[n]      read only: rows that count as if their label had been impossible, as those whose margin is not finite
    label : f64[n]         above 1/2: positive; read only
    weight : f64[n]        read only
    loss : f64[n]          overwritten

    Returns                nothing
    Cost                   one exponential and one logarithm for each row
    Source                 logarithmic score, Good 1952; clipped at PROBABILITY_MIN
    """
    for i in range(margin.shape[0]):
        towards = margin[i] if label[i] > 0.5 else -margin[i]
        probability = sigma(towards) if math.isfinite(towards) and not refused[i] else 0.0
        loss[i] = weight[i] * log_loss(probability)
