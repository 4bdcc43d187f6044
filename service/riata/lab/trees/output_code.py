"""Output codes: several classes as several questions with two answers, one tree each (Dietterich & Bakiri 1995).

Up to four classes get every question, those of opposite answers once. 5 to 15 classes get 15 questions whose code words are the
rotations of a sequence of maximum length: any two words differ in 8 bits, so 3 trees may be wrong. More classes get random
words with a fixed seed.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from riata.base.arrays import I64
from riata.base.errors import BadInput
from riata.maths.philox import random_bits

SEQUENCE: Final = (1, 0, 0, 1, 1, 0, 1, 0, 1, 1, 1, 1, 0, 0, 0)
EVERY: Final = 4
CLASSES_MAX: Final = 1000
SEED: Final = 15
WORD_BITS: Final = 64


def code_words(classes: int) -> I64:
    """Return the code words, i64[classes, bits]; columns are distinct, and none is constant. Raises `BadInput`."""
    if not 2 <= classes <= CLASSES_MAX:
        raise BadInput(f"an output code needs 2 to {CLASSES_MAX} classes, got {classes}", "out_of_range")
    if classes <= EVERY:
        questions = np.arange(1, 2 ** (classes - 1))
        found: I64 = (questions >> np.arange(classes)[:, np.newaxis]) & 1
        return found
    if classes <= len(SEQUENCE):
        return np.array([np.roll(SEQUENCE, shift) for shift in range(classes)])
    bits = 8 * int(np.ceil(np.log2(classes)))
    columns: dict[bytes, I64] = {}
    draw = 0
    while len(columns) < bits:
        words = [random_bits(SEED, draw, i) for i in range(-(-classes // WORD_BITS))]
        column = np.unpackbits(np.array(words, "<u8").view(np.uint8))[:classes].astype(np.int64)
        column ^= column[0]  # opposite answers are one question
        if column.any():
            columns.setdefault(column.tobytes(), column)
        draw += 1
    return np.stack(list(columns.values()), axis=1)


def decode(bits: I64, code: I64) -> I64:
    """Return the class with the nearest code word for each row of answers, i64[rows, bits]; the first of several."""
    found: I64 = np.argmin((bits[:, np.newaxis, :] != code[np.newaxis]).sum(axis=2), axis=1)
    return found
