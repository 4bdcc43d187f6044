"""Converts numbers to labels and weights, and names of classes, by the same rules for every format."""

from __future__ import annotations

from typing import Final

import numpy as np

from riata.base.arrays import U8
from riata.base.limits import LABEL_ABS_MAX, WEIGHT_MAX
from riata.jit.kernel import inline_kernel
from riata.wire.codes import OK
from riata.wire.rows import Rules
from riata.wire.scan.unicode import string_code

_ZERO_OR_ONE: Final = 0  # Rules.labels
_SIGN: Final = 1
CLASSES: Final = 3  # Rules.labels: labels are names of classes; a number is one too
CLASS_NAME_LENGTH_MAX: Final = 128  # characters


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


@inline_kernel
def is_plain_class(data: U8, start: int, stop: int) -> bool:
    """Whether the bytes start:stop are the name of a class, of at most 128 bytes and in normal form C; other names are left to
    the reference reader. Source: the HTTP contract.
    """
    return 0 < stop - start <= CLASS_NAME_LENGTH_MAX and string_code(data, start, stop) == OK
