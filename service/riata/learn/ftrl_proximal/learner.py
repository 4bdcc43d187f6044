"""FTRL-Proximal: each weight minimises the loss so far, linearised, plus penalties; L1 keeps most of them at zero."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from riata.base.arrays import BOOL, F64, U32, Arrays
from riata.base.errors import BadInput, Corrupt
from riata.base.limits import BITS_MAX, BITS_MIN
from riata.learn.frozen import check_counts, check_names, check_numbers, check_slots
from riata.learn.ftrl_proximal import row
from riata.learn.ftrl_proximal.config import FtrlProximalConfig
from riata.learn.ftrl_proximal.row import FtrlTable, Scratch, Settings, intercept_of
from riata.learn.ftrl_proximal.step import collect, learn_rows
from riata.learn.learner import Shadow, Sketch, Stepped, Weights, step_each
from riata.learn.slot_list import SlotList
from riata.learn.slot_table import SlotTable
from riata.learn.table_rows import room_for
from riata.maths.rows import Rows
from riata.maths.slots import pick
from riata.wire.batch import Batch

__all__ = ["FtrlProximal", "FtrlProximalConfig"]

_FEATURES_USUAL: Final = 128  # initial space for rows of this many features
_COLUMNS: Final = len(Scratch._fields) - 1


def kernel_settings(config: FtrlProximalConfig, bits: int) -> Settings:
    """The kernels' settings. Numbers are converted to floats, as another type would compile every kernel once more."""
    return Settings(
        alpha=float(config.alpha),
        smoothing=float(config.beta),
        damping=float(config.beta + config.alpha * config.l2),
        l1=float(config.l1),
        intercept=config.intercept,
        shift=32 - bits,
    )


class FtrlProximal:
    """McMahan et al. 2013, algorithm 1: per-coordinate rates, L1 and L2, logistic loss.

    One line (z, sum of squared gradients) of a table (`SlotTable`) for each slot. The intercept has its own and no penalty.
    """

    def __init__(self, config: FtrlProximalConfig, bits: int, start: float = 0.0) -> None:
        """Make an empty learner. start : the intercept with which it begins"""
        if not BITS_MIN <= bits <= BITS_MAX:
            raise BadInput(f"bits: {bits} is not in {BITS_MIN}..{BITS_MAX}", "out_of_range")
        self.config = config
        self.bits = bits
        self._settings = kernel_settings(config, bits)
        self._room = room_for(_FEATURES_USUAL, _COLUMNS)
        self._start_empty()
        self._table.scalars[row.INTERCEPT_Z] = 0.0 - start * self._settings.smoothing / self._settings.alpha

    @property
    def learnt(self) -> int:
        """Rows learnt so far; refused rows do not count."""
        return int(self._table.counts[row.LEARNT])

    def step(self, batch: Batch, skip: BOOL | None = None) -> Stepped:
        """Predict and learn the events of `batch` in order; rows with a true `skip` are predicted only."""
        skip = np.zeros(batch.n, np.bool_) if skip is None else skip
        rows = Rows(batch.indptr, self._slots.enter(batch.hash), batch.value, batch.label, batch.weight, skip)
        if batch.nnz > self._room.columns.shape[1]:  # no row is longer than the batch
            longest = int(np.diff(batch.indptr).max(initial=0))
            if longest > self._room.columns.shape[1]:
                self._room = room_for(2 * longest, _COLUMNS)
        self._make_room(len(batch.hash))
        listed = len(self._alive), len(self._seen)
        margin = np.empty(batch.n)
        refused = np.empty(batch.n, np.bool_)
        learn_rows(self._table, self._settings, rows, self._room, margin, refused)
        self._alive.rename(listed[0], self._slots)
        self._seen.rename(listed[1], self._slots)
        return Stepped(margin, refused, batch.label, batch.weight, int(refused.sum()))

    def step_all(self, batches: Sequence[Batch], skip: BOOL | None = None) -> Stepped:
        """Learn the events of all batches, one batch at a time."""
        return step_each(self, batches, skip)

    def weights(self) -> Weights:
        """Return the non-zero weights, without changing the state."""
        alive = self._alive.sorted()
        line, beta = np.empty(len(alive), np.uint32), np.empty(len(alive))
        kept = collect(self._slots.line, self._settings, self._slots.lines_of(alive), line, beta)
        line.resize(kept, refcheck=False)  # frees the rest without a copy
        beta.resize(kept, refcheck=False)
        slot = self._slots.slots_of(line)
        alive[:kept] = slot
        self._alive.keep(kept)
        scalars = self._table.scalars
        at = float(scalars[row.INTERCEPT_Z]), float(scalars[row.INTERCEPT_SQUARES])
        return Weights(slot, beta, intercept_of(*at, self._settings), "logistic", self.bits)

    def forget(self, keep: float) -> None:
        """Let the past count for `keep` of what it counted: multiply the sums of squared gradients, so that steps become larger.

        z changes with them, so that no weight does. Weights of zero keep their z.
        """
        settings, scalars = self._settings, self._table.scalars
        lines = self._slots.lines_of(self._seen.sorted())
        z, squares = self._slots.line[lines, row.Z], self._slots.line[lines, row.SQUARES]
        self._slots.line[lines, row.Z] = _z_with(z, squares, keep, settings.l1, settings.damping)
        self._slots.line[lines, row.SQUARES] = np.maximum(squares * keep, np.finfo(np.float64).tiny)
        base, sums = scalars[[row.INTERCEPT_Z]], scalars[[row.INTERCEPT_SQUARES]]
        scalars[row.INTERCEPT_Z] = _z_with(base, sums, keep, 0.0, settings.smoothing)[0]
        scalars[row.INTERCEPT_SQUARES] *= keep

    def freeze(self) -> Arrays:
        """Return copies of everything that determines later results.

        counts  : i64[1]  rows learnt
        scalars : f64[2]  z and sum of squared gradients of the intercept
        slot    : u32[m]  strictly increasing: slots that ever had a gradient, most of them of weight zero
        z       : f64[m]  sum of gradients minus the proximal terms
        squares : f64[m]  sum of squared gradients
        """
        table = self._table
        slot = self._seen.sorted().copy()
        z, squares = np.empty(len(slot)), np.empty(len(slot))
        pick(self._slots.line, self._slots.lines_of(slot), row.Z, z, squares)
        return {"counts": table.counts[:1].copy(), "scalars": table.scalars.copy(), "slot": slot, "z": z, "squares": squares}

    def thaw(self, arrays: Arrays) -> None:
        """Restore a frozen state. Raises `Corrupt`, with the state unchanged, if `arrays` is not a valid state."""
        self._check(arrays)
        self._start_empty()
        table = self._table
        slot = arrays["slot"].astype(np.uint32)
        at = self._slots.lines_of(slot)
        self._slots.line[at, row.Z] = arrays["z"]
        self._slots.line[at, row.SQUARES] = arrays["squares"]
        table.scalars[:] = arrays["scalars"]
        table.counts[row.LEARNT] = arrays["counts"][0]
        self._seen.hold(slot)
        self._alive.hold(slot)
        self.weights()  # drops those of weight zero from the list

    def sketch(self) -> Sketch | None:
        """None: no curvature is kept."""
        return None

    def shadows(self) -> list[Shadow]:
        """Empty: no other penalties are tried."""
        return []

    def closed_vocabulary(self) -> U32 | None:
        """None: any feature may occur."""
        return None

    def memory(self) -> dict[str, int]:
        """Return bytes by part, in O(1)."""
        table = self._table
        seen = self._seen.slot.itemsize + 2 * self._slots.line.itemsize
        return {
            "table": self._slots.nbytes,
            "growth": self._slots.growth,
            "lists": self._alive.slot.nbytes + self._seen.slot.nbytes,
            "scratch": sum(array.nbytes for array in self._room),
            "checkpoint": table.counts[:1].nbytes + table.scalars.nbytes + len(self._seen) * seen,
        }

    def _start_empty(self) -> None:
        counts = np.zeros(row.COUNTS, np.int64)
        self._alive, self._seen = SlotList(counts, row.N_ALIVE), SlotList(counts, row.N_SEEN)
        self._slots = SlotTable(self.bits, row.COLUMNS)
        self._table = FtrlTable(
            line=self._slots.line,
            alive=self._alive.slot,
            seen=self._seen.slot,
            counts=counts,
            scalars=np.zeros(row.SCALARS, np.float64),
        )

    def _make_room(self, features: int) -> None:
        """Make sure that the lists have space for every feature of a batch, and pass the present arrays to the kernel.

        Slots that became zero and then non-zero again are listed twice in `alive`, so that list is sorted before it grows. That
        pays, since it then has as much free space as entries.
        """
        if not self._alive.has_room(features):
            self.weights()
            self._alive.make_room(max(features, len(self._alive)))
        self._seen.make_room(features)
        self._table = self._table._replace(line=self._slots.line, alive=self._alive.slot, seen=self._seen.slot)
        if self._settings.shift != self._slots.shift:
            self._settings = self._settings._replace(shift=self._slots.shift)

    def _check(self, arrays: Arrays) -> None:
        """Raise `Corrupt` unless the names, shapes, types, order and range are those of a frozen state."""
        check_names(arrays, {"counts", "scalars", "slot", "z", "squares"})
        check_counts("counts", arrays["counts"])
        check_numbers("scalars", arrays["scalars"], row.SCALARS)
        check_slots("slot", arrays["slot"], self.bits)
        check_numbers("z", arrays["z"], len(arrays["slot"]))
        check_numbers("squares", arrays["squares"], len(arrays["slot"]), least=0.0)
        check_numbers("scalars", arrays["scalars"][row.INTERCEPT_SQUARES :], 1, least=0.0)
        if not bool(arrays["squares"].all()):
            raise Corrupt("learner state: squares is zero for a slot, but every stored slot has had a gradient")


def _z_with(z: F64, squares: F64, keep: float, l1: float, damping: float) -> F64:
    """Return the z with which `keep` of the sums of squared gradients gives the same weights.

    Source : McMahan et al. 2013, algorithm 1: |w| = (|z| - l1) alpha / (damping + root of the sum)
    """
    rest = np.maximum(np.abs(z) - l1, 0.0)
    less = (damping + np.sqrt(squares * keep)) / np.maximum(damping + np.sqrt(squares), np.finfo(np.float64).tiny)
    return np.where(rest > 0.0, np.copysign(l1 + rest * less, z), z)
