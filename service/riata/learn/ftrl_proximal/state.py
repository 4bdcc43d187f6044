"""Names of the numbers in the state of FTRL-Proximal; `service/native/ftrl.c` has the same."""

from __future__ import annotations

from typing import Final

Z: Final = 0  # columns of the table
SQUARES: Final = 1
COLUMNS: Final = 2

INTERCEPT_Z: Final = 0  # scalars
INTERCEPT_SQUARES: Final = 1
SCALARS: Final = 2

LEARNT: Final = 0  # counts: rows learnt so far
N_ALIVE: Final = 1
N_SEEN: Final = 2
COUNTS: Final = 3
