"""Truncated gradient: stochastic gradient steps, and periodically a small step of every weight towards zero."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from riata.base.arrays import BOOL, F64, I64, U32, Arrays
from riata.base.errors import BadInput, Corrupt
from riata.base.limits import BITS_MAX, BITS_MIN
from riata.learn.adopt import Adopted, require_bits, require_logistic
from riata.learn.frozen import check_counts, check_names, check_numbers, check_slots, merged
from riata.learn.learner import Shadow, Sketch, Stepped, Weights
from riata.learn.slot_list import SlotList
from riata.learn.slot_table import SlotTable
from riata.learn.truncated_gradient import state
from riata.learn.truncated_gradient.config import TruncatedGradientConfig, kernel_settings
from riata.learn.truncated_gradient.state import BLOCK, DENSE, GRID
from riata.maths.links import Link
from riata.native.library import core, struct
from riata.native.rows import Room, RowsArray, joined
from riata.wire.batch import Batch

__all__ = ["TruncatedGradient", "TruncatedGradientConfig"]

_ROWS_JOINED_MAX: Final = 1024  # copying more costs more than the calls
_FEATURES_USUAL: Final = 128  # initial space for rows of this many features
_COLUMNS: Final = 10  # of a `riata_room`
_LINKS: Final[dict[str, Link]] = {"logistic": "logistic", "squared": "identity", "hinge": "hinge"}


class TruncatedGradient:
    """Langford, Li & Zhang 2009, with one line of a table (`SlotTable`) for each slot.

    Truncation of weights that no row has touched since is deferred, and evaluated when they are read.
    """

    def __init__(self, config: TruncatedGradientConfig, bits: int) -> None:
        if not BITS_MIN <= bits <= BITS_MAX:
            raise BadInput(f"bits: {bits} is not in {BITS_MIN}..{BITS_MAX}", "out_of_range")
        self.config = config
        self.bits = bits
        self._settings = kernel_settings(config)
        self._room, self._told = Room(_FEATURES_USUAL, _COLUMNS, 3), struct("riata_told")
        self._start_empty()

    @property
    def learnt(self) -> int:
        """Rows learnt so far; refused rows do not count."""
        return int(self._counts[state.LEARNT])

    def step(self, batch: Batch, skip: BOOL | None = None) -> Stepped:
        """Predict and learn the events of `batch` in order; rows with a true `skip` are predicted only."""
        return self.step_all([batch], skip)

    def step_all(self, batches: Sequence[Batch], skip: BOOL | None = None) -> Stepped:
        """Predict and learn the events of all batches in order, in one kernel call as long as nothing has to grow."""
        n = sum([len(batch.label) for batch in batches])
        learnt: Sequence[Any] = [joined(batches)] if len(batches) > 1 and n <= _ROWS_JOINED_MAX else batches
        skip = np.zeros(n, np.bool_) if skip is None else np.ascontiguousarray(skip)
        numbers, refused = np.empty((3, n)), np.empty(n, np.bool_)
        told = self._told
        told.number, told.refused, told.n, told.refusals = numbers, refused, n, 0
        hashes = self._slots.enter_all([batch.hash for batch in learnt])
        rows = RowsArray(learnt, skip, hashes)
        done = 0
        while done < len(learnt):
            table = self._make_room(len(hashes[done]))
            listed = len(self._alive), len(self._seen)
            done = core.learn_gradient(table, self._settings, rows, len(learnt), done, self._room.struct, told)
            self._alive.rename(listed[0], self._slots)
            self._seen.rename(listed[1], self._slots)
            if done < 0:
                raise ValueError("the rows of a batch are not inside of its features")
            if told.longest:
                self._room = Room(2 * told.longest, _COLUMNS, 3)
        return Stepped(numbers[0], refused, numbers[1], numbers[2], told.refusals)

    def weights(self, finalised: bool = False) -> Weights:
        """Return the non-zero weights, every truncation so far applied, without changing the state.

        finalised applies one more truncation event, of full size, as at the end of a stream. Otherwise rows after the last event
        leave small weights that were never truncated. For the subgradient rule, which has no events, it sets weights below a
        finite ceiling to zero. A served model is not finalised: its stream has not ended.
        """
        table, scalars = self._present(), self._scalars
        clock = float(scalars[state.CLOCK] + scalars[state.CLOCK_LOST])
        if finalised and self.config.rule != "subgradient":
            norm, importance = (float(scalars[at]) for at in (state.NORM, state.IMPORTANCE))
            clock += core.event_size(self._settings, norm, importance, self.learnt)
        # A weight that truncation has made zero is written as zero, and its slot is removed from the list: no result changes.
        alive = self._alive.sorted()
        line, beta = np.empty(len(alive), np.uint32), np.empty(len(alive))
        listed = self._slots.lines_of(alive)
        kept = core.collect_gradient(table, self._settings, clock, not finalised, listed, len(listed), line, beta)
        line.resize(kept, refcheck=False)  # frees the rest without a copy
        beta.resize(kept, refcheck=False)
        slot = self._slots.slots_of(line)
        if not finalised:
            alive[:kept] = slot
            self._alive.keep(kept)
        elif self.config.rule == "subgradient" and math.isfinite(self.config.ceiling):
            large = np.abs(beta) >= self.config.ceiling
            slot, beta = slot[large], beta[large]
        gain, offset = float(scalars[state.GAIN]), float(scalars[state.OFFSET])
        beta *= gain
        return Weights(slot, beta, gain * float(scalars[state.INTERCEPT]) + offset, _LINKS[self.config.loss], self.bits)

    def forget(self, keep: float) -> None:
        """Let the past count for `keep` of what it counted: multiply the sums of squared gradients, so that steps become larger.

        Weights stay as they are; truncations that were deferred until now are applied with the steps of before.
        """
        table, scalars = self._present(), self._scalars
        clock = float(scalars[state.CLOCK] + scalars[state.CLOCK_LOST])
        alive, seen = self._alive.sorted(), self._seen.sorted()
        slot, beta = np.empty(len(alive), np.uint32), np.empty(len(alive))
        at = self._slots.lines_of(alive)
        kept = core.collect_gradient(table, self._settings, clock, True, at, len(at), slot, beta)
        line = self._slots.line
        line[slot[:kept], state.BETA], line[slot[:kept], state.TAU] = beta[:kept], clock
        line[self._slots.lines_of(seen), state.SQUARES] *= keep
        if not self._settings.normalised:
            total = line[at, state.SQUARES] + self._settings.accumulator
            line[at, state.RATE] = 1.0 / np.sqrt(np.where(total > 0.0, total, math.inf))
        scalars[[state.INTERCEPT_SQUARES, state.GAIN_SQUARES, state.OFFSET_SQUARES]] *= keep

    def freeze(self) -> Arrays:
        """Return copies of everything that determines later results.

        counts  : i64[1]  rows learnt
        scalars : f64[6]  clock, its rounding error, intercept, its sum of squares, norm, importance
        calibration : f64[4]  calibrated only: gain, offset, and their sums of squared gradients
        entry   : u32[c]  centred only: places in the book of columns; strictly increasing
        column_slot : i64[c]  centred only: their slots
        survey  : f64[5 c]    centred only: rows of the survey, those before, sum, lowest and highest value of each
        slot    : u32[m]  strictly increasing: slots whose weight is not zero now
        beta    : f64[m]  weight at the last touch: with `tau`, truncation stays deferred, so no bit changes
        tau     : f64[m]  clock at the last touch
        seen    : u32[s]  adaptive only: slots that ever had a gradient; strictly increasing
        squares : f64[s]  adaptive only: sum of squared gradients
        scale   : f64[s]  normalised only: largest |x|

        A weight that truncation has made zero is left out: at its next touch it would be evaluated to zero.
        """
        slot = self.weights().slot
        arrays: dict[str, F64 | I64 | U32] = {
            "counts": self._counts[:1].copy(),
            "scalars": self._scalars[: state.GAIN].copy(),
            "slot": slot,
        }
        if self._settings.calibrated:
            arrays["calibration"] = self._scalars[state.GAIN :].copy()
        if self._settings.centred:
            arrays["entry"] = entry = np.flatnonzero(self._column[state.KEY]).astype(np.uint32)
            arrays["column_slot"] = self._column[state.KEY, entry].astype(np.int64) - 1
            arrays["survey"] = self._column[state.COUNT :, entry].T.ravel()
        arrays["beta"], arrays["tau"] = self._slots.pick(slot, state.BETA)
        if self._settings.adaptive:
            arrays["seen"] = seen = self._seen.sorted().copy()
            arrays["squares"], scale = self._slots.pick(seen, state.SQUARES)
            if self._settings.normalised:
                arrays["scale"] = scale
        return dict(arrays)

    def thaw(self, arrays: Arrays) -> None:
        """Restore a frozen state. Raises `Corrupt`, with the state unchanged, if `arrays` is not a valid state."""
        self._check(arrays)
        if "column" in arrays:
            arrays = {**arrays, "survey": counted_in_survey(arrays["column"].astype(np.float64), int(arrays["counts"][0]))}
        self._start_empty()
        slot, seen = arrays["slot"].astype(np.uint32), arrays.get("seen", np.empty(0)).astype(np.uint32)
        self._slots.lines_of(merged(seen, slot))
        at, at_seen, line = self._slots.lines_of(slot), self._slots.lines_of(seen), self._slots.line
        line[at, state.BETA] = arrays["beta"]
        line[at, state.TAU] = arrays["tau"]
        if self._settings.adaptive:
            line[at_seen, state.SQUARES] = arrays["squares"]
        if self._settings.normalised:
            line[at_seen, state.SCALE] = arrays["scale"]
        elif self._settings.adaptive:
            total = line[at, state.SQUARES] + self._settings.accumulator
            line[at, state.RATE] = 1.0 / np.sqrt(np.where(total > 0.0, total, math.inf))
        self._scalars[: state.GAIN] = arrays["scalars"]
        if self._settings.calibrated:
            self._scalars[state.GAIN :] = arrays["calibration"]
        if self._settings.centred:
            entry = arrays["entry"]
            self._column[state.KEY, entry] = arrays["column_slot"].astype(np.int64) + 1
            self._column[state.COUNT :, entry] = arrays["survey"].reshape(-1, state.ENTRY - 1).T
            self._counts[state.N_COLUMNS] = len(arrays["entry"])
        self._counts[state.LEARNT] = arrays["counts"][0]
        self._alive.hold(slot)
        self._seen.hold(seen)

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
        """Return bytes by part, in O(1).

        checkpoint is exact right after `weights` or `freeze`; between them it also counts weights that have become zero since.
        """
        lists = self._alive.slot.nbytes + self._seen.slot.nbytes
        counters = self._counts[:1].nbytes + self._scalars[: None if self._settings.calibrated else state.GAIN].nbytes
        entry = self._alive.slot.itemsize + state.ENTRY * self._column.itemsize
        weight = self._alive.slot.itemsize + 2 * self._slots.line.itemsize
        width = 2 if self._settings.normalised else 1
        accumulator = self._seen.slot.itemsize + width * self._slots.line.itemsize if self._settings.adaptive else 0
        return {
            "table": self._slots.nbytes,
            "growth": self._slots.growth,
            "lists": lists,
            "columns": self._column.nbytes,
            "scratch": self._room.nbytes,
            "checkpoint": counters
            + len(self._alive) * weight
            + len(self._seen) * accumulator
            + int(self._counts[state.N_COLUMNS]) * entry,
        }

    def _start_empty(self) -> None:
        width = 4 if self._settings.adaptive else 2  # a power of two, so that no line crosses two cache lines
        self._counts: I64 = np.zeros(state.COUNTS, np.int64)
        self._scalars: F64 = np.zeros(state.SCALARS)
        self._scalars[state.GAIN] = 1.0
        self._column: F64 = np.zeros((state.ENTRY, state.ENTRIES if self._settings.centred else 0))
        self._alive, self._seen = SlotList(self._counts, state.N_ALIVE), SlotList(self._counts, state.N_SEEN)
        self._slots = SlotTable(self.bits, width)
        mark = np.ones(state.MARKS, np.uint8)
        self._table = struct("riata_gradient", counts=self._counts, scalars=self._scalars, column=self._column, mark=mark)
        self._held: tuple[Any, ...] = (None, None, None)  # the arrays that grow, as the structure has them

    def _make_room(self, features: int) -> Any:
        """Return the table for kernels, with space in the lists for every feature of a batch.

        Slots that became zero and then non-zero again are listed twice, so the first list is sorted before it grows. That pays,
        since it then has as much free space as entries.
        """
        if not self._alive.has_room(features):
            self.weights()
            self._alive.make_room(max(features, len(self._alive)))
        if self._settings.adaptive:
            self._seen.make_room(features)
        return self._present()

    def _present(self) -> Any:
        """The `riata_gradient` with the present arrays, which are others after they have grown."""
        held = line, alive, seen = self._slots.line, self._alive.slot, self._seen.slot
        if any(new is not old for new, old in zip(held, self._held, strict=True)):
            self._held, table = held, self._table
            table.line, table.lines, table.shift = line, len(line), self._slots.shift
            table.alive, table.alive_room, table.seen, table.seen_room = alive, len(alive), seen, len(seen)
            table.slot_of = None if self._slots.is_direct else self._slots.slot_of
        return self._table

    def _check(self, arrays: Arrays) -> None:
        """Raise `Corrupt` unless the names, shapes, types, order and range are those of a frozen state."""
        groups: dict[str, tuple[str, ...]] = {"slot": ("beta", "tau")}
        if self._settings.adaptive:
            groups["seen"] = ("squares", "scale") if self._settings.normalised else ("squares",)
        names = {"counts", "scalars", *groups, *(name for members in groups.values() for name in members)}
        names |= {"calibration"} if self._settings.calibrated else set()
        numbers = "column" if "column" in arrays else "survey"  # of ALGO_VERSION 4 and before, or of later ones
        names |= {"entry", "column_slot", numbers} if self._settings.centred else set()
        check_names(arrays, names)
        check_counts("counts", arrays["counts"])
        check_numbers("scalars", arrays["scalars"], state.GAIN)
        if self._settings.calibrated:
            check_numbers("calibration", arrays["calibration"], state.SCALARS - state.GAIN)
            gain, _, *sums = arrays["calibration"].tolist()
            if not state.GAIN_MIN <= gain <= state.GAIN_MAX or min(sums) < 0.0:
                raise Corrupt("learner state: the calibration is out of range")
        if self._settings.centred:
            self._check_columns(arrays["entry"], arrays["column_slot"], arrays[numbers], int(arrays["counts"][0]))
        for key, members in groups.items():
            check_slots(key, arrays[key], self.bits)
            for name in members:
                check_numbers(name, arrays[name], len(arrays[key]), least=-math.inf if name == "beta" else 0.0)
        if self._settings.normalised:
            seen, slot = arrays["seen"].astype(np.uint32), arrays["slot"].astype(np.uint32)
            if bool((arrays["scale"] == 0.0).any()) or len(merged(seen, slot)) > len(seen):
                raise Corrupt("learner state: a weight has no scale")

    def _check_columns(self, entry: Any, slot: Any, column: Any, learnt: int) -> None:
        """Raise `Corrupt` unless these are entries of the book of columns after `learnt` rows."""
        check_slots("entry", entry, state.ENTRIES.bit_length() - 1)
        if slot.dtype != np.int64 or slot.shape != entry.shape:
            raise Corrupt("learner state: the columns have no slots")
        check_numbers("the numbers of columns", column, (state.ENTRY - 1) * len(entry))
        count, since, _, low, high = column.reshape(-1, state.ENTRY - 1).T
        good = (slot >= 0) & (slot < 2**self.bits) & (count >= 1.0) & (since >= 0.0) & (since <= learnt) & (low <= high)
        if not bool(good.all()):
            raise Corrupt("learner state: an entry of the columns is out of range")


# Truncated gradient around a solution.


def around(config: TruncatedGradientConfig, bits: int, solution: Adopted) -> Arrays:
    """Return the frozen state with the weights of the solution, the scales of its rows, and the sums of squared gradients of a
    pass there. No truncation is due."""
    require_bits(solution, bits)
    require_logistic(config.kind, config.loss)
    sums = solution.features
    at = np.argsort(solution.slot)
    slot, beta, intercept = solution.slot[at].astype(np.uint32), solution.beta[at], solution.intercept
    if config.grid:
        beta, intercept = np.rint(beta / GRID) * GRID, float(np.rint(intercept / GRID) * GRID)
    alive = beta != 0.0
    norm = float((sums.energy / sums.peak**2).sum()) if config.normalised else 0.0
    squares = float(solution.base.squares[0]) if config.intercept else 0.0
    arrays: Arrays = {
        "counts": np.array([solution.events], np.int64),
        "scalars": np.array([0.0, 0.0, intercept if config.intercept else 0.0, squares, norm, solution.importance]),
        "slot": slot[alive],
        "beta": beta[alive],
        "tau": np.zeros(int(alive.sum())),
    }
    settings = kernel_settings(config)
    if settings.calibrated:  # the optimum is calibrated
        arrays = {**arrays, "calibration": np.array([1.0, 0.0, squares, squares])}
    if settings.centred:  # columns are found again by the next rows
        arrays = {**arrays, "entry": np.zeros(0, np.uint32), "column_slot": np.zeros(0, np.int64), "survey": np.zeros(0)}
    if config.rate == "adaptive":
        arrays = {**arrays, "seen": slot, "squares": sums.squares[at]}
    if config.normalised:
        arrays = {**arrays, "scale": sums.peak[at]}
    return arrays


# States of ALGO_VERSION 4 and before, whose book of columns counted all rows: as if it had counted those of the survey.


def counted_in_survey(column: F64, learnt: int) -> F64:
    """The numbers of entries with rows of the survey in place of all rows; shares, means, lowest and highest values stay.

    column : f64[5 c]   rows, rows before, sum, lowest and highest value of each entry
    learnt : int        rows learnt
    """
    count, since, total, low, high = column.reshape(-1, 5).T
    before = _surveyed(since)
    fewer = np.maximum(1.0, count * (_surveyed(np.float64(learnt)) - before) / np.maximum(learnt - since, 1.0))
    return np.column_stack([fewer, before, total * (fewer / count), low, high]).ravel()


def _surveyed(learnt: F64 | np.float64) -> F64:
    """How many of the first rows are in the survey, or one fewer."""
    return np.minimum(learnt, DENSE + (learnt - DENSE) // BLOCK)
