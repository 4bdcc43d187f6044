"""Converts numbers to labels and weights, by the same rules for every format."""

from __future__ import annotations

from typing import Final

import numpy as np

from riata.base.limits import LABEL_ABS_MAX, WEIGHT_MAX
from riata.jit.kernel import inline_kernel
from riata.wire.rows import Rules

_ZERO_OR_ONE: Final = 0  # Rules.labels
_SIGN: Final = 1


@inline_kernel
def label_of(number: float, rules: Rules) -> float:
    """The label that `number` is under the model's setting, with -1/+1 mapped to 0 and 1; NaN if it is not a label.

    Source: the HTTP contract.
    """
    good = abs(number) <= LABEL_ABS_MAX
    if rules.labels == _ZERO_OR_ONE:
        good = number == 0.0 or number == 1.0
    elif rules.labels == _SIGN:
        good = abs(number) == 1.0
    if not good:
        return np.nan
    if rules.labels == _SIGN:
        return 1.0 if number > 0.0 else 0.0
    return number + 0.0  # adding 0.0 turns -0.0 into 0.0


@inline_kernel
def is_weight(number: float) -> bool:
    """Return whether an event may have this weight. Source: the HTTP contract."""
    return 0.0 < number <= WEIGHT_MAX
