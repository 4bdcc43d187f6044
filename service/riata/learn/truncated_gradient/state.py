"""Names of the numbers in the state of truncated gradient; `service/native/truncated_gradient.c` has the same."""

from __future__ import annotations

from typing import Final

TRUNCATE: Final = 0  # rules, as in truncation.h
ROUND: Final = 1
SUBGRADIENT: Final = 2
GRID: Final = 2.0**-40  # sums of multiples of this below 2^13 are exact in float64

BETA: Final = 0  # columns of the table
TAU: Final = 1
SQUARES: Final = 2
SCALE: Final = 3
RATE: Final = 3

CLOCK: Final = 0  # scalars
CLOCK_LOST: Final = 1  # the accumulated rounding error of CLOCK (Neumaier)
INTERCEPT: Final = 2
INTERCEPT_SQUARES: Final = 3
NORM: Final = 4  # sum over learnt rows of importance * sum_j (x_j / scale_j)^2
IMPORTANCE: Final = 5  # sum of the importance of the learnt rows
GAIN: Final = 6  # calibration: a margin is gain * (intercept + weights . x) + offset
OFFSET: Final = 7
GAIN_SQUARES: Final = 8
OFFSET_SQUARES: Final = 9
SCALARS: Final = 10

GAIN_MIN: Final = 0.1
GAIN_MAX: Final = 10.0

LEARNT: Final = 0  # counts: rows learnt so far
N_ALIVE: Final = 1
N_SEEN: Final = 2
N_COLUMNS: Final = 3
COUNTS: Final = 4

ENTRIES: Final = 2048  # of the book of columns (`numeric_columns.h`)
KEY: Final = 0  # numbers of an entry: the slot plus one, 0 for none
COUNT: Final = 1  # rows of the survey with the feature, rows before its first, sum, lowest and highest of its values
ENTRY: Final = 6
MARKS: Final = 1024
DENSE: Final = 1024  # rows that are all in the survey; then one in each BLOCK
BLOCK: Final = 16
