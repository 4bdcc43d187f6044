"""Truncated gradient: stochastic gradient steps, and periodically a small step of every weight towards zero."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Literal

import numpy as np
from annotated_types import Ge, Gt, Le, doc

from riata.base.arrays import BOOL, F64, I64, U32, Arrays
from riata.base.document import Exclusion, refuse
from riata.base.errors import BadInput, Corrupt
from riata.base.limits import BITS_MAX, BITS_MIN
from riata.learn.frozen import check_counts, check_names, check_numbers, check_slots, merged
from riata.learn.learner import Learner, Stepped, Weights
from riata.learn.slot_table import SlotList, SlotTable
from riata.learn.spec import Adopted, LearnerSettings, LearnerSpec, require_bits, require_logistic
from riata.learn.standardised import SLOTS, Standardised
from riata.learn.tuned import Tuned, settled
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

ENTRIES: Final = 2048  # of the book of columns (`numeric_columns.h`)
KEY: Final = 0  # numbers of an entry: the slot plus one, 0 for none
COUNT: Final = 1  # rows of the survey with the feature, rows before its first, sum, lowest and highest of its values
ENTRY: Final = 6
MARKS: Final = 1024
DENSE: Final = 1024  # rows that are all in the survey; then one in each BLOCK
BLOCK: Final = 16


_LOSSES: Final[dict[str, int]] = {"logistic": links.LOGISTIC, "squared": links.SQUARED, "hinge": links.HINGE}
_RULES: Final = {"truncate": TRUNCATE, "round": ROUND, "subgradient": SUBGRADIENT}
ETA: Final = 0.9
COUNTED: Final = 16.0  # a power of two, so that quotients are exact
ACCUMULATOR_MAX: Final = 1e12


EXCLUSIONS: Final[Sequence[Exclusion[TruncatedGradientConfig]]] = (
    Exclusion(
        "`normalised`",
        '`rate` other than "adaptive"',
        lambda config: config.normalised and config.rate != "adaptive",
        "learner: normalised needs rate = 'adaptive'",
    ),
    Exclusion(
        '`rule` "round"',
        "an infinite `ceiling`",
        lambda config: config.rule == "round" and math.isinf(config.ceiling),
        "learner: rule = 'round' with an infinite ceiling would set every weight to zero; give a finite ceiling",
    ),
    Exclusion(
        '`rule` "subgradient"',
        '`normalised`, and `rate` "decaying"',
        lambda config: config.rule == "subgradient" and (config.normalised or config.rate == "decaying"),
        "learner: rule = 'subgradient' needs a step size that does not change at rows without the feature: rate 'constant', or "
        "'adaptive' without normalised",
    ),
    Exclusion(
        "`grid`",
        "`normalised`",
        lambda config: config.grid and config.normalised,
        "learner: grid needs truncations that are sums of equal parts; set normalised to false",
    ),
)


@dataclass(frozen=True, slots=True)
class TruncatedGradientConfig(LearnerSettings):
    """Settings of truncated gradient.

    One set of defaults for every stream, chosen by progressive log loss on texts, categories, numbers without a common unit,
    clicks at a rate of one in a hundred, and a synthetic stream whose labels are mostly noise.
    """

    kind: Literal["truncated_gradient"] = "truncated_gradient"
    loss: Annotated[
        Literal["logistic", "squared", "hinge"],
        doc(
            "logistic gives probabilities; squared is (margin - label)^2; hinge gives margins only. Default logistic: most "
            "labels are binary, and most clients need a probability."
        ),
    ] = "logistic"
    rate: Annotated[
        Literal["constant", "decaying", "adaptive"],
        doc(
            "constant: eta. decaying: eta (delay / (delay + i))^power at row i = 0, 1, ... adaptive: for each feature eta / "
            "root of the sum of its squared gradients. Default adaptive: rare features still learn after frequent ones have "
            "converged."
        ),
    ] = "adaptive"
    normalised: Annotated[
        bool,
        doc(
            "Divide each feature by its largest value so far, inside the update. Only with the adaptive rate. Gravity and "
            "ceiling then apply to weight times scale. Default true: units do not matter."
        ),
    ] = True
    eta: Annotated[
        float,
        Gt(0),
        Le(1e6),
        doc(
            "Step size. Default 0.9: larger steps are better if features are informative, smaller ones if labels are noisy. "
            "With 0.5 the noisy stream is 3 % better and texts are 22 % worse; with 1.2 it is 4 % worse and texts are 8 % "
            "better."
        ),
    ] = ETA
    power: Annotated[
        float, Ge(0), Le(1), doc("Exponent of the decaying rate. Default 1/2: the value from theory without strong convexity.")
    ] = 0.5
    delay: Annotated[float, Gt(0), Le(1e12), doc("Rows before the rate decays noticeably. Default 1: eta / sqrt(1 + i).")] = 1.0
    accumulator: Annotated[
        float,
        Ge(0),
        Le(ACCUMULATOR_MAX),
        doc(
            "Initial value of the sums of squared gradients of the adaptive rate, also for the intercept. With 0 the first "
            "step of a feature would have full size. Default 0.03: a stream of rare clicks is not overfitted, and values from "
            "0.01 to 0.1 give similar results."
        ),
    ] = 0.03
    reach: Annotated[
        float,
        Gt(1),
        doc(
            "Only with normalised: a value counts in the step as at most this many times the largest one before, so that one "
            'outlier cannot disable a feature. "infinite": no limit. Default 2: a scale a thousand times too small is '
            "corrected within ten rows."
        ),
    ] = 2.0
    scale: Annotated[
        Literal["largest", "counts"],
        doc(
            "Only with normalised: what a feature that is not a numeric column is divided by. largest: its largest value seen. "
            "counts: nothing while its values are at most 16, then a sixteenth of the largest one. Default largest: units do "
            "not matter. counts is better for words, of which one long text would make the steps smaller for good."
        ),
    ] = "largest"
    tuned: Annotated[
        bool,
        doc(
            "Choose the step from the first 4096 rows, or fewer if these have many features. At 64 rows, and whenever their "
            "number has doubled, eight learners learn them again, and the one with the lowest progressive log loss goes on, if "
            "it is 1 % better than with eta 0.9: with eta 0.3, 2.7, 8.1, and 24.3 (this with ten times the accumulator); with "
            "scale counts and eta 2.7, 8.1 and 24.3. Only with the logistic loss and with normalised; an eta that is set to "
            "another value than 0.9 stays. Several classes have one choice, made from 256 rows on, and ten times the "
            "accumulator with scale counts. Default true: the best eta of public streams is between 0.3 and 24. False: every "
            "setting stays."
        ),
    ] = True
    step: Annotated[
        Literal["invariant", "gradient"],
        doc(
            "invariant: the update of an importance-weighted row is the limit of many small steps. gradient: importance "
            "multiplies the gradient. Default invariant: a large eta or importance cannot move a margin past its label."
        ),
    ] = "invariant"
    rule: Annotated[
        Literal["truncate", "round", "subgradient"],
        doc(
            "truncate: shrink weights up to the ceiling by eta * gravity * period. round: set weights up to the ceiling to "
            "zero. subgradient: shrink every weight by eta * gravity at every row, even past zero; hardly ever sparse. Default "
            "truncate: weights are sparse, and a small weight that keeps growing survives."
        ),
    ] = "truncate"
    gravity: Annotated[
        float,
        Ge(0),
        Le(1e6),
        doc(
            "L1 penalty: how strongly each row pulls weights towards zero. Default 3e-5: half of the words of texts and nearly "
            "all values of click logs get weight zero, for less than 1 % of the log loss; noisy streams improve."
        ),
    ] = 3e-5
    period: Annotated[
        int,
        Ge(1),
        Le(2**31),
        doc("Rows between truncations. Default 100: a feature in one row of a hundred has one row to outgrow a truncation."),
    ] = 100
    ceiling: Annotated[
        float,
        Gt(0),
        doc(
            'Weights above it are not truncated; "infinite": all are. Default 0.1: large weights stay unbiased, and weights '
            "that move a margin by less than a tenth may become zero."
        ),
    ] = 0.1
    intercept: Annotated[
        bool,
        doc(
            "Learn an intercept: a feature that is always 1, never truncated, with a step size of its own. Default true: the "
            "base rate is learnt directly."
        ),
    ] = True
    centred: Annotated[
        bool,
        doc(
            "Steps of numeric columns are those of the value less its running mean; the intercept moves against them. Numeric "
            "columns are features in more than half of the rows with values other than 1. Weights stay in the units of the "
            "input. Only with normalised and an intercept. Default true: on streams of numbers the log loss is 0 to 16 % less, "
            "and up to 28 % if they are far from zero. False: as in the paper."
        ),
    ] = True
    calibrated: Annotated[
        bool,
        doc(
            "Multiply margins by a number, and add one, both learnt online and folded into the weights that are served. Only "
            "with the logistic loss, and with normalised. Default true: on texts the log loss is 12 to 22 % less; elsewhere it "
            "differs by at most 1 %. False: as in the paper."
        ),
    ] = True
    scaled_label: Annotated[
        bool,
        doc(
            "Learn labels less their mean and over their spread, both of the first 1024 rows; predictions are in the units of "
            "the label. Only with the squared loss and the adaptive rate. Default true: steps have the size of eta whatever "
            "the label. False: as in the paper."
        ),
    ] = True
    grid: Annotated[
        bool,
        doc(
            "Round weights and truncations to multiples of 2^-40, so that their sums are exact. Not with normalised. Default "
            "false: float64 is accurate enough."
        ),
    ] = False

    exclusions = EXCLUSIONS

    def __post_init__(self) -> None:
        """Refuse settings that conflict (`BadInput`, code `conflicting_settings`)."""
        refuse(self, self.exclusions)

    def candidates(self) -> list[TruncatedGradientConfig]:
        """The configurations that `tuned` chooses from, the given one first; that one alone if it does not choose."""
        own = replace(self, tuned=False)
        if not self.tuned or self.eta != ETA or self.loss != "logistic" or not self.normalised:
            return [own]
        found = [replace(own, eta=ETA * times) for times in (1.0, 1.0 / 3.0, 3.0, 9.0)]
        found.append(replace(own, eta=27.0 * ETA, accumulator=min(10.0 * self.accumulator, ACCUMULATOR_MAX)))
        if self.scale == "largest":
            found += [replace(own, eta=ETA * times, scale="counts") for times in (3.0, 9.0, 27.0)]
        return found

    def candidates_of_classes(self) -> list[TruncatedGradientConfig]:
        """The same for several classes: those with the scale of counts have ten times the accumulator, as rows of a class are
        few."""
        accumulator = min(10.0 * self.accumulator, ACCUMULATOR_MAX)
        return [one if one.scale == self.scale else replace(one, accumulator=accumulator) for one in self.candidates()]

    def can_forget(self) -> bool:
        return self.rate == "adaptive"

    def undoes_scale(self) -> str:
        divides = self.normalised and self.scale == "largest"
        return 'it divides features by their largest value: set learner.scale to "counts"' if divides else ""

    def wants_scaled(self) -> bool:
        return not self.normalised


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
        return Weights(slot, beta, gain * float(scalars[INTERCEPT]) + offset, _LINKS[self.config.loss], self.bits)

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
        arrays: dict[str, F64 | I64 | U32] = {
            "counts": self._counts[:1].copy(),
            "scalars": self._scalars[:GAIN].copy(),
            "slot": slot,
        }
        if self._settings.calibrated:
            arrays["calibration"] = self._scalars[GAIN:].copy()
        if self._settings.centred:
            arrays["entry"] = entry = np.flatnonzero(self._column[KEY]).astype(np.uint32)
            arrays["column_slot"] = self._column[KEY, entry].astype(np.int64) - 1
            arrays["survey"] = self._column[COUNT:, entry].T.ravel()
        arrays["beta"], arrays["tau"] = self._slots.pick(slot, BETA)
        if self._settings.adaptive:
            arrays["seen"] = seen = self._seen.sorted().copy()
            arrays["squares"], scale = self._slots.pick(seen, SQUARES)
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
        if self._settings.centred:
            entry = arrays["entry"]
            self._column[KEY, entry] = arrays["column_slot"].astype(np.int64) + 1
            self._column[COUNT:, entry] = arrays["survey"].reshape(-1, ENTRY - 1).T
            self._counts[N_COLUMNS] = len(arrays["entry"])
        self._counts[LEARNT] = arrays["counts"][0]
        self._alive.hold(slot)
        self._seen.hold(seen)

    def memory(self) -> dict[str, int]:
        """Return bytes by part, in O(1).

        checkpoint is exact right after `weights` or `freeze`; between them it also counts weights that have become zero since.
        """
        lists = self._alive.slot.nbytes + self._seen.slot.nbytes
        counters = self._counts[:1].nbytes + self._scalars[: None if self._settings.calibrated else GAIN].nbytes
        entry = self._alive.slot.itemsize + ENTRY * self._column.itemsize
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
            + int(self._counts[N_COLUMNS]) * entry,
        }

    def _start_empty(self) -> None:
        width = 4 if self._settings.adaptive else 2  # a power of two, so that no line crosses two cache lines
        self._counts: I64 = np.zeros(COUNTS, np.int64)
        self._scalars: F64 = np.zeros(SCALARS)
        self._scalars[GAIN] = 1.0
        self._column: F64 = np.zeros((ENTRY, ENTRIES if self._settings.centred else 0))
        self._alive, self._seen = SlotList(self._counts, N_ALIVE), SlotList(self._counts, N_SEEN)
        self._slots = SlotTable(self.bits, width)
        mark = np.ones(MARKS, np.uint8)
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
        check_numbers("scalars", arrays["scalars"], GAIN)
        if self._settings.calibrated:
            check_numbers("calibration", arrays["calibration"], SCALARS - GAIN)
            gain, _, *sums = arrays["calibration"].tolist()
            if not GAIN_MIN <= gain <= GAIN_MAX or min(sums) < 0.0:
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
        check_slots("entry", entry, ENTRIES.bit_length() - 1)
        if slot.dtype != np.int64 or slot.shape != entry.shape:
            raise Corrupt("learner state: the columns have no slots")
        check_numbers("the numbers of columns", column, (ENTRY - 1) * len(entry))
        count, since, _, low, high = column.reshape(-1, ENTRY - 1).T
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


def _build(config: TruncatedGradientConfig, bits: int, _hash_key: int) -> Learner:

    if config.scaled_label and config.loss == "squared" and config.rate == "adaptive":
        return Standardised(lambda own, _rate: TruncatedGradient(own, bits), config, columns=config.intercept, labels=True)
    tried = config.candidates()
    if len(tried) > 1:
        return Tuned(lambda own: TruncatedGradient(own, bits), tried)
    return TruncatedGradient(config, bits)


def _adopt(config: TruncatedGradientConfig, bits: int, solution: Adopted) -> Arrays:

    arrays = around(config, bits, solution)
    return settled(arrays) if len(config.candidates()) > 1 else arrays


SPEC: Final = LearnerSpec(
    config=TruncatedGradientConfig,
    about="Langford, Li & Zhang 2009. The default learner; the only one that accepts any number as a label.",
    build=_build,
    adopt=_adopt,
    penalty="gravity",
    real_labels={"loss": "squared"},
    takes_many=True,
    slot_lists=("slot", "seen", "column_slot", SLOTS),
    older={"centred": False, "calibrated": False, "scaled_label": False, "scale": "largest", "tuned": False},
    advice={
        "worse_than_base_rate": "If consecutive labels depend on each other, create it with rate constant, normalised false and "
        "eta 2; otherwise with a smaller eta, such as 0.3.",
        "under_confident": "Create it with calibrated and tuned true, the default, or with a larger eta, such as 3.",
        "over_confident": "Create it with calibrated and tuned true, the default, or with a smaller eta, such as 0.3.",
        "biased": "The rate of positives may have changed: create it with rate constant and normalised false.",
        "columns_not_scaled": "Create it with normalised true and rate adaptive, or scale them before they are sent.",
    },
)
