"""The state of a particle filter, as arrays; `service/native/particle_filter.c` learns with it."""

from __future__ import annotations

from typing import Final, NamedTuple

from riata.base.arrays import F64, I64

LEARNT, COLUMNS, MOVES, TEMPERED, STREAM, HELD, DEPENDENT = range(7)
COUNTS: Final = 7
INTERCEPT: Final = -1  # its key


class State(NamedTuple):
    """C columns, M particles, and the rows held.

    theta : f64[C, M], weight : f64[M], key : i64[C]
    x : f64[C, start], label : f64[start], importance : f64[start]   of the rows held; without rows once they are dropped
    counts : i64[COUNTS]   rows learnt, columns in use, moves, rows tempered, streams of random numbers used, rows held, and 1 +
                           the column that depends on those before it in the first rows, 0 if none
    halt : i64[1]          once another thread has set it, the state is not wanted any more, and rows are left unlearnt
    """

    theta: F64
    weight: F64
    key: I64
    x: F64
    label: F64
    importance: F64
    counts: I64
    halt: I64
