"""Truncated gradient: stochastic gradient steps, and periodically a small step of every weight towards zero."""

from __future__ import annotations

import math
from itertools import product
from typing import Any, Final

import numpy as np

from riata.base.arrays import Arrays
from riata.base.errors import Corrupt
from riata.learn.apart import EVERY, Apart, declare
from riata.learn.column_book import ColumnBook, no_columns
from riata.learn.feature_names import hashes_of
from riata.learn.frozen import check_counts, check_names, check_numbers, check_slots, merged
from riata.learn.learner import Learner, Weights, bounds_after
from riata.learn.mixed_gradient import COUNTED, MixedGradient, of_one_step
from riata.learn.one_vs_rest import OneVsRest
from riata.learn.second_order import SLOT as SECOND_SLOT
from riata.learn.shaped import Shaped
from riata.learn.shapes import FOUND, Wanted
from riata.learn.spec import Adopted, LearnerSpec, require_bits, require_logistic
from riata.learn.standardised import SLOTS, Standardised
from riata.learn.table_learner import LEARNT, TableLearner
from riata.learn.truncated_config import EVERY_FEATURE, DeclaredShapes, TruncatedGradientConfig
from riata.maths import links
from riata.maths.links import Link
from riata.native.library import core, struct

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

N_COLUMNS: Final = 3  # counts, after those of every table
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


_COLUMNS: Final = 10  # of a `riata_room`
_LINKS: Final[dict[str, Link]] = {"logistic": "logistic", "squared": "identity", "hinge": "hinge"}


class TruncatedGradient(TableLearner):
    """Langford, Li & Zhang 2009.

    Truncation of weights that no row has touched since is deferred, and evaluated when they are read.
    """

    config: TruncatedGradientConfig
    _kernel = staticmethod(core.learn_gradient)

    def __init__(self, config: TruncatedGradientConfig, bits: int) -> None:
        super().__init__(config, bits, kernel_settings(config), (_COLUMNS, 3))

    def weights(self, finalised: bool = False) -> Weights:
        """Return the non-zero weights, every truncation so far applied, without changing the state.

        finalised applies one more truncation event, of full size, as at the end of a stream. Otherwise rows after the last event
        leave small weights that were never truncated. For the subgradient rule, which has no events, it sets weights below a
        finite ceiling to zero. A served model is not finalised: its stream has not ended.
        """
        scalars = self._scalars
        clock = float(scalars[CLOCK] + scalars[CLOCK_LOST])
        if finalised and self.config.rule != "subgradient":
            norm, importance = (float(scalars[at]) for at in (NORM, IMPORTANCE))
            clock += core.event_size(self._settings, norm, importance, self.learnt)
        # A weight that truncation has made zero is written as zero, and its slot is removed from the list: no result changes.
        line, beta = self._collect(core.collect_gradient, self._present(), self._settings, clock, not finalised)
        slot = self._slots.slots_of(line)
        if not finalised:
            self._keep_alive(slot)
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
        scalars, line = self._scalars, self._slots.line
        clock = float(scalars[CLOCK] + scalars[CLOCK_LOST])
        at = self._slots.lines_of(self._alive.sorted())
        collected, beta = self._collect(core.collect_gradient, self._present(), self._settings, clock, True)
        line[collected, BETA], line[collected, TAU] = beta, clock
        line[self._slots.lines_of(self._seen.sorted()), SQUARES] *= keep
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
        self._begin(COUNTS, SCALARS, width)
        self._scalars[GAIN] = 1.0
        self._book = ColumnBook(self._counts, N_COLUMNS, self._settings.centred)
        self._take("riata_gradient", slot_of=self._slots.slot_of, column=self._book.column, mark=self._book.mark)

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
        "learns_again": False,
        "shapes": "off",
        "far_values": "off",
        "classes_shaped": False,
        "classes_second_order": False,
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
