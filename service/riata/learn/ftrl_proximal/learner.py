"""FTRL-Proximal: each weight minimises the loss so far, linearised, plus penalties; L1 keeps most of them at zero."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from riata.base.arrays import BOOL, F64, I64, U32, Arrays
from riata.base.errors import BadInput, Corrupt
from riata.base.limits import BITS_MAX, BITS_MIN
from riata.learn.adopt import Adopted, require_bits
from riata.learn.frozen import check_counts, check_names, check_numbers, check_slots
from riata.learn.ftrl_proximal import state
from riata.learn.ftrl_proximal.config import FtrlProximalConfig
from riata.learn.learner import Shadow, Sketch, Stepped, Weights, step_each
from riata.learn.slot_list import SlotList
from riata.learn.slot_table import SlotTable
from riata.native.library import core, struct
from riata.native.rows import Room, RowsArray
from riata.wire.batch import Batch

__all__ = ["FtrlProximal", "FtrlProximalConfig"]

_FEATURES_USUAL: Final = 128  # initial space for rows of this many features
_COLUMNS: Final = 5  # of a `riata_room`


def kernel_settings(config: FtrlProximalConfig) -> Any:
    """Return the configuration as a `riata_ftrl_settings`."""
    return struct(
        "riata_ftrl_settings",
        alpha=config.alpha,
        smoothing=config.beta,
        damping=float(config.beta + config.alpha * config.l2),
        l1=config.l1,
        intercept=config.intercept,
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
        self._settings = kernel_settings(config)
        self._room = Room(_FEATURES_USUAL, _COLUMNS)
        self._start_empty()
        self._scalars[state.INTERCEPT_Z] = 0.0 - start * self._settings.smoothing / self._settings.alpha

    @property
    def learnt(self) -> int:
        """Rows learnt so far; refused rows do not count."""
        return int(self._counts[state.LEARNT])

    def step(self, batch: Batch, skip: BOOL | None = None) -> Stepped:
        """Predict and learn the events of `batch` in order; rows with a true `skip` are predicted only."""
        skip = np.zeros(batch.n, np.bool_) if skip is None else np.ascontiguousarray(skip)
        rows = RowsArray([batch], skip, [self._slots.enter(batch.hash)])
        if batch.nnz > self._room.length:  # no row is longer than the batch
            longest = int(np.diff(batch.indptr).max(initial=0))
            if longest > self._room.length:
                self._room = Room(2 * longest, _COLUMNS)
        self._make_room(len(batch.hash))
        listed = len(self._alive), len(self._seen)
        margin, refused = np.empty(batch.n), np.empty(batch.n, np.bool_)
        if core.learn_ftrl(self._table, self._settings, rows, self._room.struct, margin, refused) < 0:
            raise ValueError("the rows of a batch are not inside of its features")
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
        listed = self._slots.lines_of(alive)
        kept = core.collect_ftrl(self._slots.line, self._settings, listed, len(listed), line, beta)
        line.resize(kept, refcheck=False)  # frees the rest without a copy
        beta.resize(kept, refcheck=False)
        slot = self._slots.slots_of(line)
        alive[:kept] = slot
        self._alive.keep(kept)
        intercept = core.ftrl_intercept(self._settings, *self._scalars.tolist())
        return Weights(slot, beta, intercept, "logistic", self.bits)

    def forget(self, keep: float) -> None:
        """Let the past count for `keep` of what it counted: multiply the sums of squared gradients, so that steps become larger.

        z changes with them, so that no weight does. Weights of zero keep their z.
        """
        settings, scalars = self._settings, self._scalars
        lines = self._slots.lines_of(self._seen.sorted())
        z, squares = self._slots.line[lines, state.Z], self._slots.line[lines, state.SQUARES]
        self._slots.line[lines, state.Z] = _z_with(z, squares, keep, settings.l1, settings.damping)
        self._slots.line[lines, state.SQUARES] = np.maximum(squares * keep, np.finfo(np.float64).tiny)
        base, sums = scalars[[state.INTERCEPT_Z]], scalars[[state.INTERCEPT_SQUARES]]
        scalars[state.INTERCEPT_Z] = _z_with(base, sums, keep, 0.0, settings.smoothing)[0]
        scalars[state.INTERCEPT_SQUARES] *= keep

    def freeze(self) -> Arrays:
        """Return copies of everything that determines later results.

        counts  : i64[1]  rows learnt
        scalars : f64[2]  z and sum of squared gradients of the intercept
        slot    : u32[m]  strictly increasing: slots that ever had a gradient, most of them of weight zero
        z       : f64[m]  sum of gradients minus the proximal terms
        squares : f64[m]  sum of squared gradients
        """
        slot = self._seen.sorted().copy()
        z, squares = self._slots.pick(slot, state.Z)
        return {"counts": self._counts[:1].copy(), "scalars": self._scalars.copy(), "slot": slot, "z": z, "squares": squares}

    def thaw(self, arrays: Arrays) -> None:
        """Restore a frozen state. Raises `Corrupt`, with the state unchanged, if `arrays` is not a valid state."""
        self._check(arrays)
        self._start_empty()
        slot = arrays["slot"].astype(np.uint32)
        at = self._slots.lines_of(slot)
        self._slots.line[at, state.Z] = arrays["z"]
        self._slots.line[at, state.SQUARES] = arrays["squares"]
        self._scalars[:] = arrays["scalars"]
        self._counts[state.LEARNT] = arrays["counts"][0]
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
        seen = self._seen.slot.itemsize + 2 * self._slots.line.itemsize
        return {
            "table": self._slots.nbytes,
            "growth": self._slots.growth,
            "lists": self._alive.slot.nbytes + self._seen.slot.nbytes,
            "scratch": self._room.nbytes,
            "checkpoint": self._counts[:1].nbytes + self._scalars.nbytes + len(self._seen) * seen,
        }

    def _start_empty(self) -> None:
        self._counts: I64 = np.zeros(state.COUNTS, np.int64)
        self._scalars: F64 = np.zeros(state.SCALARS)
        self._alive, self._seen = SlotList(self._counts, state.N_ALIVE), SlotList(self._counts, state.N_SEEN)
        self._slots = SlotTable(self.bits, state.COLUMNS)
        self._table = struct("riata_ftrl", counts=self._counts, scalars=self._scalars)
        self._held: tuple[Any, ...] = (None, None, None)  # the arrays that grow, as the structure has them

    def _make_room(self, features: int) -> None:
        """Make sure that the lists have space for every feature of a batch, and pass the present arrays to the kernel.

        Slots that became zero and then non-zero again are listed twice in `alive`, so that list is sorted before it grows. That
        pays, since it then has as much free space as entries.
        """
        if not self._alive.has_room(features):
            self.weights()
            self._alive.make_room(max(features, len(self._alive)))
        self._seen.make_room(features)
        held = line, alive, seen = self._slots.line, self._alive.slot, self._seen.slot
        if any(new is not old for new, old in zip(held, self._held, strict=True)):
            self._held, table = held, self._table
            table.line, table.lines, table.shift = line, len(line), self._slots.shift
            table.alive, table.alive_room, table.seen, table.seen_room = alive, len(alive), seen, len(seen)

    def _check(self, arrays: Arrays) -> None:
        """Raise `Corrupt` unless the names, shapes, types, order and range are those of a frozen state."""
        check_names(arrays, {"counts", "scalars", "slot", "z", "squares"})
        check_counts("counts", arrays["counts"])
        check_numbers("scalars", arrays["scalars"], state.SCALARS)
        check_slots("slot", arrays["slot"], self.bits)
        check_numbers("z", arrays["z"], len(arrays["slot"]))
        check_numbers("squares", arrays["squares"], len(arrays["slot"]), least=0.0)
        check_numbers("scalars", arrays["scalars"][state.INTERCEPT_SQUARES :], 1, least=0.0)
        if not bool(arrays["squares"].all()):
            raise Corrupt("learner state: squares is zero for a slot, but every stored slot has had a gradient")


def _z_with(z: F64, squares: F64, keep: float, l1: float, damping: float) -> F64:
    """Return the z with which `keep` of the sums of squared gradients gives the same weights.

    Source : McMahan et al. 2013, algorithm 1: |w| = (|z| - l1) alpha / (damping + root of the sum)
    """
    rest = np.maximum(np.abs(z) - l1, 0.0)
    less = (damping + np.sqrt(squares * keep)) / np.maximum(damping + np.sqrt(squares), np.finfo(np.float64).tiny)
    return np.where(rest > 0.0, np.copysign(l1 + rest * less, z), z)


# FTRL-Proximal around a solution.


def around(config: FtrlProximalConfig, bits: int, solution: Adopted) -> Arrays:
    """Return the frozen state whose weights are those of the solution, with the sums of squared gradients of a pass there.

    A weight is a function of z and of the sum of squares; z is chosen so that it is that of the solution. Every z within l1 gives
    the weight zero: there z is the sum of the gradients, as after a pass with all weights at the solution.
    """
    require_bits(solution, bits)
    sums, base = solution.features, solution.base
    at = np.argsort(solution.slot)
    at = at[sums.whole_squares[at] > 0.0]
    beta, squares = solution.beta[at], sums.whole_squares[at]
    damping = config.beta + config.alpha * config.l2
    idle = np.clip(-sums.gradient[at], -config.l1, config.l1)
    z = np.where(beta == 0.0, idle, -np.sign(beta) * config.l1 - beta * (damping + np.sqrt(squares)) / config.alpha)
    whole: F64 = base.whole_squares if config.intercept else np.zeros(1)
    scalars = np.concatenate([-solution.intercept * (config.beta + np.sqrt(whole)) / config.alpha, whole])
    return {
        "counts": np.array([solution.events], np.int64),
        "scalars": scalars if config.intercept else np.zeros(2),
        "slot": solution.slot[at].astype(np.uint32),
        "z": z,
        "squares": squares,
    }
