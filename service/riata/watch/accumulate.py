"""The arrays that progressive validation keeps, and what adds events to them: `service/native/figures.c` has the method."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from riata.base.arrays import F64
from riata.native.library import core, struct

MARGIN_HELD: Final = 1e9  # margins are clipped to this, so that one extreme row cannot make a sum infinite

# Rows of `sums` and of `histogram`.
CUMULATIVE: Final = 0
FADED: Final = 1

# Columns of `sums`: the first eight are sums over events of importance times the quantity.
WEIGHT: Final = 0
LOG_LOSS: Final = 1
BASE_LOG_LOSS: Final = 2
CORRECT: Final = 3
PREDICTED: Final = 4
OBSERVED: Final = 5
LOSS: Final = 6
BASE_LOSS: Final = 7
SCALE: Final = 8  # factor applied to the weight of the newest event; 1 in the cumulative row
SUMS: Final = 9

# Rows of `window`.
PAST_MARGIN: Final = 0
PAST_LABEL: Final = 1
PAST_WEIGHT: Final = 2
PAST_BASE: Final = 3  # what the base-rate predictor predicted
PAST_LOSS: Final = 4  # log loss, or the learner's own loss if there is no probability
PAST: Final = 5

# Columns of `calibration`.
CELLS: Final = 20
CELL_EXAMPLES: Final = 0
CELL_WEIGHT: Final = 1
CELL_PREDICTED: Final = 2
CELL_OBSERVED: Final = 3
CELL: Final = 4

RENORMALISE_ABOVE: Final = 2.0**32  # no scale is larger


def tally_of(link: int, half_life: float, **arrays: F64) -> Any:
    """Return a `riata_tally` of arrays, which it keeps and changes: sums, window, calibration and what else it documents."""
    growth = 2.0 ** (1.0 / half_life)
    return struct("riata_tally", link=link, growth=growth, width=arrays["window"].shape[1], **arrays)


def tally_rows(tally: Any, margin: F64, label: F64, weight: F64) -> None:
    """Add events in order; see `riata_tally_rows`."""
    core.tally_rows(tally, margin, label, weight, len(margin))


def window_sums(tally: Any, count: int) -> tuple[F64, F64]:
    """Return the sums and the calibration cells of the last `count` events; see `riata_window_sums`."""
    sums, calibration = np.empty(SUMS), np.empty((CELLS, CELL))
    core.window_sums(tally, count, sums, calibration)
    return sums, calibration
