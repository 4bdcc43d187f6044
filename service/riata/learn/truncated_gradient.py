"""Truncated gradient: stochastic gradient steps, and periodically a small step of every weight towards zero."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any, Final

import numpy as np

from riata.base.arrays import BOOL, F64, I64, Arrays
from riata.base.errors import BadInput, Corrupt
from riata.base.limits import BITS_MAX, BITS_MIN
from riata.learn.apart import EVERY, Apart, declare
from riata.learn.column_book import ColumnBook, no_columns
from riata.learn.feature_names import hashes_of
from riata.learn.frozen import check_counts, check_names, check_numbers, check_slots, merged
from riata.learn.learner import Learner, Stepped, Weights, bounds_after, margin_bounds
from riata.learn.mixed_gradient import COUNTED, MixedGradient, of_one_step
from riata.learn.one_vs_rest import OneVsRest
from riata.learn.second_order import SLOT as SECOND_SLOT
from riata.learn.shaped import Shaped
from riata.learn.shapes import FOUND, Wanted
from riata.learn.slot_table import SlotList, SlotTable
from riata.learn.spec import Adopted, LearnerSpec, require_bits, require_logistic
from riata.learn.standardised import SLOTS, Standardised
from riata.learn.truncated_config import EVERY_FEATURE, DeclaredShapes, TruncatedGradientConfig
from riata.maths import links
from riata.maths.links import Link
from riata.native.library import core, struct
from riata.native.rows import Room, RowsArray, joined
from riata.wire.batch import Batch

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

_LOSSES: Final[dict[str, int]] = {"logistic": links.LOGISTIC, "squared": links.SQUARED, "hinge": links.HINGE}
_RULES: Final = {"truncate": TRUNCATE, "round": ROUND, "subgradient": SUBGRADIENT}


def kernel_settings(config: TruncatedGradientConfig) -> Any:
    """Return the configuration as a `riata_gradient_settings`."""
    decaying = config.rate == "decaying"
    return struct(
        "riata_gradient_settings",
        loss=_LOSSES[config.loss],
        rule=_RULES[config.rule],
        period=config.period,
        adaptive=config.rate == "adaptive",
        normalised=config.normalised,
        invariant=config.step == "invariant",
        grid=config.grid,
        intercept=config.intercept,
        centred=config.centred and config.normalised and config.intercept,
        calibrated=config.calibrated and config.loss == "logistic" and config.normalised,
        counting=not decaying and not config.normalised,
        counted=COUNTED if config.normalised and config.scale == "counts" else 0.0,
        eta=config.eta,
        power=config.power if decaying else 0.0,
        delay=config.delay,
        gravity=config.gravity,
        ceiling=config.ceiling,
        accumulator=config.accumulator,
        reach=config.reach,
    )


_ROWS_JOINED_MAX: Final = 1024  # copying more costs more than the calls
_FEATURES_USUAL: Final = 128  # initial space for rows of this many features
_COLUMNS: Final = 10  # of a `riata_room`
_LINKS: Final[dict[str, Link]] = {"logistic": "logistic", "squared": "identity", "hinge": "hinge"}


class TruncatedGradient(Learner):
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
        return int(self._counts[LEARNT])

    def step(self, batch: Batch, skip: BOOL | None = None) -> Stepped:
        """Predict and learn the events of `batch` in order; rows with a true `skip` are predicted only."""
        return self.step_all([batch], skip)

    def step_all(self, batches: Sequence[Batch], skip: BOOL | None = None) -> Stepped:
        """Predict and learn the events of all batches in order, in one kernel call as long as nothing has to grow."""
        learnt_before = self.learnt
        n = sum([len(batch.label) for batch in batches])
        learnt: Sequence[Any] = [joined(batches)] if len(batches) > 1 and n <= _ROWS_JOINED_MAX else batches
        skip = np.zeros(n, np.bool_) if skip is None else np.ascontiguousarray(skip)
        numbers, refused = np.empty((3, n)), np.empty(n, np.bool_)
        told = self._told
        told.number, told.refused, told.n, told.refusals = numbers, refused, n, 0
        hashes = [self._slots.enter(batch.hash) for batch in learnt]
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
        bound = margin_bounds(learnt_before, refused, self.config.is_bounded())
        return Stepped(numbers[0], refused, numbers[1], numbers[2], told.refusals, bound=bound)

    def weights(self, finalised: bool = False) -> Weights:
        """Return the non-zero weights, every truncation so far applied, without changing the state.

        finalised applies one more truncation event, of full size, as at the end of a stream. Otherwise rows after the last event
        leave small weights that were never truncated. For the subgradient rule, which has no events, it sets weights below a
        finite ceiling to zero. A served model is not finalised: its stream has not ended.
        """
        table, scalars = self._present(), self._scalars
        clock = float(scalars[CLOCK] + scalars[CLOCK_LOST])
        if finalised and self.config.rule != "subgradient":
            norm, importance = (float(scalars[at]) for at in (NORM, IMPORTANCE))
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
        gain, offset = float(scalars[GAIN]), float(scalars[OFFSET])
        beta *= gain
        intercept, bounds = gain * float(scalars[INTERCEPT]) + offset, bounds_after(self.learnt, self.config.is_bounded())
        return Weights(slot, beta, intercept, _LINKS[self.config.loss], self.bits, bounds=bounds)

    def forget(self, keep: float) -> None:
        """Let the past count for `keep` of what it counted: multiply the sums of squared gradients, so that steps become larger.

        Weights stay as they are; truncations that were deferred until now are applied with the steps of before.
        """
        table, scalars = self._present(), self._scalars
        clock = float(scalars[CLOCK] + scalars[CLOCK_LOST])
        alive, seen = self._alive.sorted(), self._seen.sorted()
        slot, beta = np.empty(len(alive), np.uint32), np.empty(len(alive))
        at = self._slots.lines_of(alive)
        kept = core.collect_gradient(table, self._settings, clock, True, at, len(at), slot, beta)
        line = self._slots.line
        line[slot[:kept], BETA], line[slot[:kept], TAU] = beta[:kept], clock
        line[self._slots.lines_of(seen), SQUARES] *= keep
        if not self._settings.normalised:
            total = line[at, SQUARES] + self._settings.accumulator
            line[at, RATE] = 1.0 / np.sqrt(np.where(total > 0.0, total, math.inf))
        scalars[[INTERCEPT_SQUARES, GAIN_SQUARES, OFFSET_SQUARES]] *= keep

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
        arrays: Arrays = {
            "counts": self._counts[:1].copy(),
            "scalars": self._scalars[:GAIN].copy(),
            "slot": slot,
        }
        if self._settings.calibrated:
            arrays["calibration"] = self._scalars[GAIN:].copy()
        arrays = {**arrays, **self._book.freeze()}
        arrays["beta"], arrays["tau"] = self._slots.pick(slot, BETA)
        if self._settings.adaptive:
            arrays["seen"] = seen = self._seen.sorted().copy()
            arrays["squares"], scale = self._slots.pick(seen, SQUARES)
            if self._settings.normalised:
                arrays["scale"] = scale
        return arrays

    def thaw(self, arrays: Arrays) -> None:
        """Restore a frozen state. Raises `Corrupt`, with the state unchanged, if `arrays` is not a valid state."""
        self._check(arrays)
        self._start_empty()
        self._counts[LEARNT] = arrays["counts"][0]
        slot, seen = arrays["slot"].astype(np.uint32), arrays.get("seen", np.empty(0)).astype(np.uint32)
        self._slots.lines_of(merged(seen, slot))
        at, at_seen, line = self._slots.lines_of(slot), self._slots.lines_of(seen), self._slots.line
        line[at, BETA] = arrays["beta"]
        line[at, TAU] = arrays["tau"]
        if self._settings.adaptive:
            line[at_seen, SQUARES] = arrays["squares"]
        if self._settings.normalised:
            line[at_seen, SCALE] = arrays["scale"]
        elif self._settings.adaptive:
            total = line[at, SQUARES] + self._settings.accumulator
            line[at, RATE] = 1.0 / np.sqrt(np.where(total > 0.0, total, math.inf))
        self._scalars[:GAIN] = arrays["scalars"]
        if self._settings.calibrated:
            self._scalars[GAIN:] = arrays["calibration"]
        self._book.thaw(arrays, self._slots)
        self._alive.hold(slot)
        self._seen.hold(seen)

    def memory(self) -> dict[str, int]:
        """Return bytes by part, in O(1).

        checkpoint is exact right after `weights` or `freeze`; between them it also counts weights that have become zero since.
        """
        lists = self._alive.nbytes + self._seen.nbytes
        counters = self._counts[:1].nbytes + self._scalars[: None if self._settings.calibrated else GAIN].nbytes
        weight = self._alive.slot.itemsize + 2 * self._slots.line.itemsize
        width = 2 if self._settings.normalised else 1
        accumulator = self._seen.slot.itemsize + width * self._slots.line.itemsize if self._settings.adaptive else 0
        return {
            "table": self._slots.nbytes,
            "lists": lists,
            "columns": self._book.nbytes,
            "scratch": self._room.nbytes,
            "checkpoint": counters + len(self._alive) * weight + len(self._seen) * accumulator + self._book.checkpoint_nbytes,
        }

    def _start_empty(self) -> None:
        width = 4 if self._settings.adaptive else 2  # a power of two, so that no line crosses two cache lines
        self._counts: I64 = np.zeros(COUNTS, np.int64)
        self._scalars: F64 = np.zeros(SCALARS)
        self._scalars[GAIN] = 1.0
        self._book = ColumnBook(self._counts, N_COLUMNS, self._settings.centred)
        self._alive, self._seen = SlotList(self._counts, N_ALIVE, self.bits), SlotList(self._counts, N_SEEN, self.bits)
        self._slots = SlotTable(self.bits, width)
        self._table = struct(
            "riata_gradient",
            line=self._slots.line,
            lines=len(self._slots.line),
            shift=self._slots.shift,
            slot_of=self._slots.slot_of,
            counts=self._counts,
            scalars=self._scalars,
            column=self._book.column,
            mark=self._book.mark,
        )
        self._lists: tuple[Any, ...] = (None, None)

    def _make_room(self, features: int) -> Any:
        """Return the table for kernels, with space in the lists for every feature of a batch.

        Slots that became zero and then non-zero again are listed twice in the first list, so it is sorted once half of it may be
        such entries. That pays, since as many rows as it is long have filled it.
        """
        if len(self._alive) > 2 * self._slots.used or not self._alive.has_room(features):
            self.weights()
        self._alive.make_room(features)
        if self._settings.adaptive:
            self._seen.make_room(features)
        return self._present()

    def _present(self) -> Any:
        """The `riata_gradient` with the present lists, which are others after they have grown."""
        table, alive, seen = self._table, self._alive.slot, self._seen.slot
        if alive is not self._lists[0] or seen is not self._lists[1]:  # to set a field takes longer than to compare
            self._lists = alive, seen
            table.alive, table.alive_room, table.seen, table.seen_room = alive, len(alive), seen, len(seen)
        return table

    def _check(self, arrays: Arrays) -> None:
        """Raise `Corrupt` unless the names, shapes, types, order and range are those of a frozen state."""
        groups: dict[str, tuple[str, ...]] = {"slot": ("beta", "tau")}
        if self._settings.adaptive:
            groups["seen"] = ("squares", "scale") if self._settings.normalised else ("squares",)
        names = {"counts", "scalars", *groups, *(name for members in groups.values() for name in members)}
        names |= {"calibration"} if self._settings.calibrated else set()
        names |= self._book.freeze().keys()
        check_names(arrays, names)
        check_counts("counts", arrays["counts"])
        check_numbers("scalars", arrays["scalars"], GAIN)
        if self._settings.calibrated:
            check_numbers("calibration", arrays["calibration"], SCALARS - GAIN)
            gain, _, *sums = arrays["calibration"].tolist()
            if not GAIN_MIN <= gain <= GAIN_MAX or min(sums) < 0.0:
                raise Corrupt("learner state: the calibration is out of range")
        self._book.check(arrays, self.bits)
        for key, members in groups.items():
            check_slots(key, arrays[key], self.bits)
            for name in members:
                check_numbers(name, arrays[name], len(arrays[key]), least=-math.inf if name == "beta" else 0.0)
        if self._settings.normalised:
            seen, slot = arrays["seen"].astype(np.uint32), arrays["slot"].astype(np.uint32)
            if bool((arrays["scale"] == 0.0).any()) or len(merged(seen, slot)) > len(seen):
                raise Corrupt("learner state: a weight has no scale")


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
        arrays = {**arrays, **no_columns()}
    if config.rate == "adaptive":
        arrays = {**arrays, "seen": slot, "squares": sums.squares[at]}
    if config.normalised:
        arrays = {**arrays, "scale": sums.peak[at]}
    return arrays


def _build(config: TruncatedGradientConfig, bits: int, hash_key: int) -> Learner:
    if config.scaled_label and config.loss == "squared" and config.rate == "adaptive":
        return Standardised(lambda own, _rate: TruncatedGradient(own, bits), config, columns=config.intercept, labels=True)
    linear = MixedGradient(config, bits) if config.is_mixed() else TruncatedGradient(config, bits)
    return linear if config.no_shapes() else Shaped(linear, config, wanted(config, hash_key))


def _build_classes(config: TruncatedGradientConfig, several: OneVsRest, hash_key: int) -> Learner:
    if config.no_shapes(classes=True):
        return several
    return Shaped(several, config, wanted(config, hash_key))


def wanted(config: TruncatedGradientConfig, hash_key: int) -> Wanted:
    """The columns and pairs that the setting `shapes` names."""
    if not isinstance(config.shapes, DeclaredShapes):
        return FOUND
    columns, pairs = config.shapes.columns, config.shapes.pairs
    hashes = {name: hashes_of(name, hash_key) for name in (*(columns or ()), *(name for pair in pairs or () for name in pair))}
    return Wanted(
        None if columns is None else frozenset(hash_ for name in columns for hash_ in hashes[name]),
        None if pairs is None else tuple(both for a, b in pairs for both in product(hashes[a], hashes[b])),
    )


def declared(config: TruncatedGradientConfig, hash_key: int) -> Apart | None:
    """The values that the setting `missing` names; None for none."""
    if not config.missing:
        return None
    pairs = [
        (hash_, value)
        for one in config.missing
        for hash_ in ([EVERY] if one.feature == EVERY_FEATURE else hashes_of(one.feature, hash_key))
        for value in one.values
    ]
    return declare([hash_ for hash_, _ in pairs], [value for _, value in pairs])


def _adopt(config: TruncatedGradientConfig, bits: int, solution: Adopted) -> Arrays:

    arrays = around(config, bits, solution)
    return of_one_step(config, arrays) if config.is_mixed() else arrays


SPEC: Final = LearnerSpec(
    config=TruncatedGradientConfig,
    about="Langford, Li & Zhang 2009. The default learner; the only one that accepts any number as a label.",
    build=_build,
    build_classes=_build_classes,
    declared=declared,
    adopt=_adopt,
    penalty="gravity",
    real_labels={"loss": "squared"},
    takes_many=True,
    slot_lists=("slot", "seen", "column_slot", SLOTS, SECOND_SLOT),
    older={
        "centred": False,
        "calibrated": False,
        "scaled_label": False,
        "scale": "largest",
        "mixed": False,
        "base_rate": False,
        "second_order": False,
        "second_order_scaled": False,
        "shapes": "off",
        "far_values": "off",
        "classes_shaped": False,
        "bounded": False,
        "missing": [],
    },
    formerly={"mixed": "tuned"},
    advice={
        "worse_than_base_rate": "If consecutive labels depend on each other, create it with rate constant, normalised false and "
        "eta 2; otherwise with a smaller eta, such as 0.3.",
        "under_confident": "Create it with calibrated and mixed true, the default, or with a larger eta, such as 3.",
        "over_confident": "Create it with calibrated and mixed true, the default, or with a smaller eta, such as 0.3.",
        "biased": "The rate of positives may have changed: create it with rate constant and normalised false.",
        "columns_not_scaled": "Create it with normalised true and rate adaptive, or scale them before they are sent.",
    },
)
