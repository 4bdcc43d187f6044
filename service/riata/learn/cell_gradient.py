"""Numbers for the cells of rows (`learn.shapes`), learnt as `learn.mixed_gradient` learns weights.

Three members with different steps learn a number for each cell, and each margin is added to that of the model below. That model
by itself is a fourth member, so if cells add nothing, they lose their shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from riata.base.arrays import BOOL, F64, I32, I64, U32, Arrays
from riata.learn.frozen import check_names, check_numbers
from riata.learn.mixed_gradient import (
    BETA,
    CLOCK,
    CLOCK_LOST,
    COUNTS,
    GAIN,
    GAIN_SQUARES,
    INTERCEPT_SQUARES,
    LANES,
    LARGEST,
    LEARNT,
    MEMBER,
    MEMBERS,
    OFFSET_SQUARES,
    SCALARS,
    SHARE,
    SHARES,
    SQUARES,
    STATE,
    TAU,
    WIDTH,
    check_mixture,
    intercept_of,
    mixture_settings,
)
from riata.learn.shapes import Shapes
from riata.learn.slot_table import zero_table
from riata.learn.truncated_config import TruncatedGradientConfig
from riata.native.library import StructArray, core, struct
from riata.native.rows import RowsArray
from riata.wire.batch import Batch

BELOW: Final = 3  # lane of the share of the model below
SHARE_BELOW: Final = 0.8  # at first
_BEFORE: Final = slice(BETA, BETA + MEMBERS)
_SUMS: Final = slice(SQUARES, SQUARES + MEMBERS)


class CellGradient:
    """The numbers of the cells of one head; zero at first."""

    def __init__(self, config: TruncatedGradientConfig, cells: int) -> None:
        self._config, self.settings = config, mixture_settings(config, LANES)
        self._counts: I64 = np.zeros(COUNTS, np.int64)
        self._scalars: F64 = np.zeros(SCALARS)
        self._member: F64 = np.zeros((MEMBER, LANES))
        self._member[SHARE, :MEMBERS] = SHARES
        self._member[SHARE] *= 1.0 - SHARE_BELOW
        self._member[SHARE, BELOW] = SHARE_BELOW
        self._member[GAIN] = 1.0
        self._hold(zero_table(cells, WIDTH))

    @property
    def cells(self) -> int:
        """Number of cells."""
        return len(self._line)

    @property
    def shares(self) -> tuple[float, ...]:
        """The shares of the members."""
        return tuple(self._member[SHARE].tolist())

    @property
    def share_below(self) -> float:
        """That of the model below by itself."""
        return self.shares[BELOW]

    def copy(self) -> CellGradient:
        """Return a copy."""
        made = CellGradient(self._config, self.cells)
        made.thaw(self.freeze())
        return made

    def numbers(self) -> tuple[F64, float]:
        """Return the number of each cell, and the intercept."""
        kept, beta, _ = self._collect(False)
        value = np.zeros(self.cells)
        value[kept] = beta
        return value, intercept_of(self._member)

    def forget(self, keep: float) -> None:
        """As `MixedGradient.forget`."""
        self._settle()
        self._line[:, _SUMS] *= keep
        self._member[[INTERCEPT_SQUARES, GAIN_SQUARES, OFFSET_SQUARES]] *= keep

    def move(self, before: I32, after: I32, cells: int) -> None:
        """Have other cells: the numbers of a cell become the means over its places in `after` of those of the cells in `before`.
        Cells that are not in `after` become new. Deferred truncations are applied.

        before, after : i32[c, n]  cells; -1 for one in `before` that has no numbers, and for a place in `after` that none gets
        """
        self._settle()
        moved, line = np.zeros((cells, WIDTH + 1)), zero_table(cells, WIDTH)
        core.move_cells(before, after, before.size, self._line, moved)
        for numbers in (_BEFORE, _SUMS):
            line[:, numbers] = moved[:, numbers] / np.maximum(moved[:, WIDTH:], 1.0)
        line[:, LARGEST] = moved[:, LARGEST] > 0.0
        line[(line[:, _BEFORE] != 0.0).any(axis=1), TAU] = self._clock()
        self._hold(line)

    def freeze(self) -> Arrays:
        """Return what `MixedGradient.freeze` does, whose slots are cells; and

        below : f64[1]  the share of the model below
        """
        kept, _, _ = self._collect(True)
        seen = np.flatnonzero(self._line[:, LARGEST]).astype(np.uint32)
        return {
            "counts": self._counts[:1].copy(),
            "scalars": self._scalars.copy(),
            "member": self._member[:, :MEMBERS].ravel(),
            "below": np.array([self.share_below]),
            "slot": kept,
            "beta": self._line[kept, _BEFORE].T.ravel(),
            "tau": self._line[kept, TAU],
            "seen": seen,
            "squares": self._line[seen, _SUMS].T.ravel(),
            "scale": self._line[seen, LARGEST],
        }

    def thaw(self, arrays: Arrays) -> None:
        """Restore a frozen state with as many cells. Raises `Corrupt`, with nothing changed, if the arrays are none."""
        check_names(arrays, STATE | {"below"})
        check_numbers("below", arrays["below"], 1, least=0.0)
        check_mixture(arrays, self.cells, float(arrays["below"].astype(np.float64)[0]))
        slot, seen, line = arrays["slot"].astype(np.uint32), arrays["seen"].astype(np.uint32), zero_table(self.cells, WIDTH)
        line[slot, _BEFORE], line[slot, TAU] = arrays["beta"].reshape(MEMBERS, -1).T, arrays["tau"]
        line[seen, _SUMS], line[seen, LARGEST] = arrays["squares"].reshape(MEMBERS, -1).T, arrays["scale"]
        self._scalars[:] = arrays["scalars"]
        self._member[:, :MEMBERS] = arrays["member"].reshape(MEMBER, MEMBERS)
        self._member[SHARE, BELOW] = arrays["below"][0]
        self._counts[LEARNT] = arrays["counts"][0]
        self._hold(line)

    def memory(self) -> dict[str, int]:
        """Return bytes by part; `checkpoint` as of `MixedGradient`."""
        number = self._line.itemsize
        listed = np.count_nonzero((self._line[:, _BEFORE] != 0.0).any(axis=1)) + np.count_nonzero(self._line[:, LARGEST])
        own = number * (2 + SCALARS + MEMBER * MEMBERS)
        return {"table": self._line.nbytes, "checkpoint": own + int(listed) * (4 + (MEMBERS + 1) * number)}

    def _hold(self, line: F64) -> None:
        self._line = line
        self.table = struct("riata_mixture", line=line, counts=self._counts, scalars=self._scalars, member=self._member)

    def _clock(self) -> float:
        return float(self._scalars[CLOCK] + self._scalars[CLOCK_LOST])

    def _collect(self, forget: bool) -> tuple[U32, F64, F64]:
        """Return the cells of which a member has a number now, the numbers of the mixture, and those of each member, f64[3, m].
        forget: write zeros where truncation has made all three zero."""
        cells = np.arange(self.cells, dtype=np.uint32)
        kept, beta, members = np.empty(self.cells, np.uint32), np.empty(self.cells), np.empty((MEMBERS, self.cells))
        found = core.collect_mixture(self.table, self.settings, self._clock(), forget, cells, len(cells), kept, beta, members)
        return kept[:found], beta[:found], members[:, :found]

    def _settle(self) -> None:
        """Apply every truncation that was deferred."""
        kept, _, members = self._collect(True)
        self._line[kept, _BEFORE], self._line[kept, TAU] = members.T, self._clock()


def learn_cells(shapes: Shapes, heads: Sequence[CellGradient], rows: Batch, skip: BOOL, below: F64, present: BOOL) -> F64:
    """Predict rows, and learn their cells in one call of the kernel.

    heads   : one; or of several classes one for each, and perhaps one of no class behind them
    skip    : bool[n, heads]  what is predicted only
    below   : f64[n, heads]   margins of the model below
    present : bool[heads]     which of several classes have had a row; changed

    Returns the margins before learning, f64[n, heads], those of the model below included.
    """
    margin = np.empty(below.shape)
    tables = heads[0].table if len(heads) == 1 else StructArray("riata_mixture", [head.table for head in heads])
    known = RowsArray([rows], np.ascontiguousarray(skip).ravel(), [rows.hash])
    if not core.learn_cells(shapes.native, tables, len(heads), heads[0].settings, known, below, present, margin):
        raise ValueError("the rows of a batch are not inside of its features")
    return margin
