"""Truncated gradient with three step sizes side by side, mixed by likelihood: the default learner, which needs no step size.

Each of three members learns every row as `TruncatedGradient` does, with its own step size. What is served is one linear model:
the sum of the members' weights, each times its share. A share is multiplied by the probability that its member gave the label,
so the best step prevails within a few rows, and another one can come back when the stream changes. A further member is
`SecondOrder` while there are few features, and otherwise the base rate of the labels: rare clicks that no feature explains are
predicted by it until the others have made the labels much likelier.

The members share what does not depend on the step: the largest value of each feature, the centres of numeric columns, and the
clock of truncation. Their numbers are in one cache line for each feature.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from riata.base.arrays import F64, U32, Arrays
from riata.base.errors import Corrupt
from riata.learn.column_book import ColumnBook
from riata.learn.frozen import check_counts, check_names, check_numbers, check_slots, merged
from riata.learn.held_rows import NAMES as FIRST_ROWS
from riata.learn.learner import ColumnRange, Weights, bounds_after
from riata.learn.second_order import GIVEN, SecondOrder, check_second_order, no_second_order, scaled_second_order
from riata.learn.second_order import STATE as SECOND_STATE
from riata.learn.slot_table import HASH_BITS
from riata.learn.table_learner import LEARNT, TableLearner
from riata.learn.truncated_config import TruncatedGradientConfig
from riata.native.library import core, struct
from riata.wire.batch import Batch

MEMBERS: Final = 3
LANES: Final = 4  # of the kernel's vectors: one for each member, the last for none
STEPS: Final = (2.0 / 3.0, 3.0, 27.0)  # times eta
ACCUMULATORS: Final = (1.0, 10.0, 10.0)  # times accumulator
BY_COUNTS: Final = (False, True, True)  # members that take values up to COUNTED as they are
COUNTED: Final = 16.0  # a power of two, so that quotients are exact
SHARES: Final = (0.8, 0.15, 0.05)  # at first: a large step misleads in the first rows
OTHER: Final = 3  # lane of the base rate, or of second order
SHARE_BASE: Final = 0.1  # at first
STRETCHED: Final = 1.5  # times the scale of a column: values that it does not have any more have made it so large
FIXED: Final = 1e-4  # part of the shares that each row gives to all members equally, so that one can come back

BETA: Final = 0  # columns of the table
TAU: Final = 3
SQUARES: Final = 4
LARGEST: Final = 7
WIDTH: Final = 8  # one cache line

CLOCK: Final = 0  # scalars
CLOCK_LOST: Final = 1  # the accumulated rounding error of CLOCK (Neumaier)
NORM: Final = 2  # sum over learnt rows of importance * sum_j (x_j / largest_j)^2
IMPORTANCE: Final = 3  # sum of the importance of the learnt rows
POSITIVES: Final = 4  # labels that the base rate counts
NEGATIVES: Final = 5
SCALARS: Final = 4  # without those

SHARE: Final = 0  # numbers of members
INTERCEPT: Final = 1
INTERCEPT_SQUARES: Final = 2
GAIN: Final = 3  # calibration: a member's margin is gain * (intercept + weights . x) + offset
OFFSET: Final = 4
GAIN_SQUARES: Final = 5
OFFSET_SQUARES: Final = 6
MEMBER: Final = 7
GAIN_MIN: Final = 0.1
GAIN_MAX: Final = 10.0

N_COLUMNS: Final = 3  # counts, after those of every table
SECOND: Final = 4
COUNTS: Final = 5

STATE: Final = {"counts", "scalars", "member", "slot", "beta", "tau", "seen", "squares", "scale"}  # of `freeze`
NEVER: Final = 2.0**900  # a clock that is never reached: that of centred columns, which are not truncated

_RULES: Final = {"truncate": 0, "round": 1}  # of truncation.h
_COLUMNS: Final = 8 + 3 * LANES  # of a `riata_room`


class MixedGradient(TableLearner):
    """Three members in the line of a slot. Only for the logistic loss, normalised.

    Truncation of weights that no row has touched since is deferred, and evaluated when they are read.
    """

    config: TruncatedGradientConfig
    _kernel = staticmethod(core.learn_mixture)

    def __init__(self, config: TruncatedGradientConfig, bits: int) -> None:
        super().__init__(config, bits, mixture_settings(config, MEMBERS), (_COLUMNS, 1))

    def weights(self, finalised: bool = False) -> Weights:
        """Return the non-zero weights of the mixture, every truncation so far applied, without changing the state.

        finalised applies one more truncation event, as at the end of a stream.
        """
        clock = self._clock()
        if finalised:
            norm, importance = (float(self._scalars[at]) for at in (NORM, IMPORTANCE))
            clock += core.mixture_event(self._settings, norm, importance)
        slot, beta = self._mixed(clock, None, not finalised)
        if not finalised:
            self._keep_alive(slot)
        slot, beta = self._second.added(slot, beta, float(self._member[SHARE, OTHER]), self._slots)
        if not beta.all():  # the weights of the members cancel
            slot, beta = slot[beta != 0.0], beta[beta != 0.0]
        bounds = bounds_after(self.learnt, self.config.is_bounded())
        return Weights(slot, beta, intercept_of(self._member), "logistic", self.bits, bounds=bounds)

    def chosen(self) -> Mapping[str, Any]:
        """Return the step sizes of the members and their shares, and the share of second order or of the base rate."""
        told = {"eta": list(steps_of(self.config)), "share": self._member[SHARE, :MEMBERS].tolist()}
        if self._has_base():
            told["second_order" if self._second.size else "base_rate"] = float(self._member[SHARE, OTHER])
        return told

    def forget(self, keep: float) -> None:
        """Let the past count for `keep` of what it counted: multiply the sums of squared gradients, so that steps become larger.

        Weights stay as they are; truncations that were deferred until now are applied with the steps of before.
        """
        clock, line = self._clock(), self._slots.line
        members = np.empty((MEMBERS, len(self._alive)))
        slot, _ = self._mixed(clock, members, True)
        at = self._slots.lines_of(slot)
        line[at, BETA : BETA + MEMBERS] = members[:, : len(slot)].T
        held = line[at, TAU]
        line[at, TAU] = np.where(held >= NEVER, held, clock)
        line[self._slots.lines_of(self._seen.sorted()), SQUARES : SQUARES + MEMBERS] *= keep
        self._member[[INTERCEPT_SQUARES, GAIN_SQUARES, OFFSET_SQUARES]] *= keep
        self._scalars[[POSITIVES, NEGATIVES]] *= keep
        self._second.forget(keep)

    def mend(self, ranges: Mapping[int, ColumnRange]) -> None:
        """Take the scales of columns from ranges. The sums of squared gradients become about what such values would have left:
        the variance of the column times the sum of the squared slopes, which is that of the intercept."""
        for hash_, found in ranges.items():
            slot = hash_ >> (HASH_BITS - self.bits)
            centred = found.share > 0.5 and self._book.has(slot)
            peak = max(abs(found.low), abs(found.high))
            scale = max(found.high - found.mean, found.mean - found.low) if centred else peak
            at = int(self._slots.lines_of(np.array([slot], np.uint32))[0])
            line = self._slots.line[at]
            less = scale / line[LARGEST] if line[LARGEST] > 0.0 else 1.0
            if less * STRETCHED >= 1.0 or scale == 0.0:
                continue
            self._book.mend(slot, found)
            energy = found.share * (found.variance + (0.0 if centred else found.mean**2))
            sums = line[SQUARES : SQUARES + MEMBERS]
            sums[:] = np.clip(energy * self._member[INTERCEPT_SQUARES, :MEMBERS], less**2 * sums, sums)
            self._scalars[NORM] += self._scalars[IMPORTANCE] * energy * (1.0 - less**2) / scale**2
            line[LARGEST] = scale
            self._second.mend(at, peak, found.share * found.mean)
        if self._second.size:
            self._member[INTERCEPT, OTHER] = self._second.intercept

    def learn_again(self, rows: Batch, ranges: Mapping[int, ColumnRange], far: bool) -> None:
        """Let second order begin anew with weights in units of the deviations of columns; without it all members, if values were
        far. Nothing if `rows` are not all that was learnt."""
        if rows.n != self.learnt or not (self._second.size or far):
            return
        if not self._second.size:
            self._start_empty()
            self.step(rows)
            return
        anew = MixedGradient(self.config, self.bits)
        anew._hold_second(scaled_second_order({hash_ >> (HASH_BITS - self.bits): found for hash_, found in ranges.items()}))
        anew.step(rows)
        if anew._second.size:
            self._hold_second(anew._second.freeze(anew._slots))
            self._member[INTERCEPT, OTHER] = self._second.intercept

    def freeze(self) -> Arrays:
        """Return copies of everything that determines later results.

        counts  : i64[1]   rows learnt
        scalars : f64[4]   clock, its rounding error, norm, importance
        member  : f64[21]  of each member: share, intercept, its sum of squares, gain, offset, and their sums of squares
        base    : f64[4]   share and margin of the base rate, and the positives and negatives that it counts, if it is a member
        second_... : as in `SecondOrder`, with the setting `second_order`
        entry, column_slot, survey : centred only: as in `ColumnBook`
        slot    : u32[m]   strictly increasing: slots of which a member has a weight now
        beta    : f64[3 m] weights at the last touch, member by member: with `tau`, truncation stays deferred, so no bit changes
        tau     : f64[m]   clock at the last touch
        seen    : u32[s]   slots that ever had a gradient; strictly increasing
        squares : f64[3 s] sums of squared gradients, member by member
        scale   : f64[s]   largest |x|

        A weight that truncation has made zero is left out: at its next touch it would be evaluated to zero.
        """
        slot, _ = self._mixed(self._clock(), None, True)
        self._keep_alive(slot)
        seen = self._seen.sorted().copy()
        beta, squares = (self._slots.line[self._slots.lines_of(these)] for these in (slot, seen))
        return {
            "counts": self._counts[:1].copy(),
            "scalars": self._scalars[:SCALARS].copy(),
            "member": self._member[:, :MEMBERS].ravel(),
            **({"base": np.append(self._member[[SHARE, INTERCEPT], OTHER], self._scalars[SCALARS:])} if self._has_base() else {}),
            **(self._second.freeze(self._slots) if self.config.has_second_order() else {}),
            **self._book.freeze(),
            "slot": slot,
            "beta": beta[:, BETA : BETA + MEMBERS].T.ravel(),
            "tau": beta[:, TAU].copy(),
            "seen": seen,
            "squares": squares[:, SQUARES : SQUARES + MEMBERS].T.ravel(),
            "scale": squares[:, LARGEST].copy(),
        }

    def thaw(self, arrays: Arrays) -> None:
        """Restore a frozen state. Raises `Corrupt`, with the state unchanged, if `arrays` is not a valid state."""
        if "member" not in arrays:
            arrays = of_one_step(self.config, arrays)
        self._check(arrays)
        self._start_empty()
        slot, seen = arrays["slot"].astype(np.uint32), arrays["seen"].astype(np.uint32)
        self._slots.lines_of(merged(seen, slot))
        at, at_seen, line = self._slots.lines_of(slot), self._slots.lines_of(seen), self._slots.line
        line[at, BETA : BETA + MEMBERS] = arrays["beta"].reshape(MEMBERS, -1).T
        line[at_seen, SQUARES : SQUARES + MEMBERS] = arrays["squares"].reshape(MEMBERS, -1).T
        line[at, TAU], line[at_seen, LARGEST] = arrays["tau"], arrays["scale"]
        self._scalars[:SCALARS] = arrays["scalars"]
        self._member[:, :MEMBERS] = arrays["member"].reshape(MEMBER, MEMBERS)
        if self._has_base():
            self._member[[SHARE, INTERCEPT], OTHER], self._scalars[SCALARS:] = np.split(arrays["base"], 2)
        self._counts[LEARNT] = arrays["counts"][0]
        self._book.thaw(arrays, self._slots)
        if self.config.has_second_order():
            self._hold_second(arrays)
        self._alive.hold(slot)
        self._seen.hold(seen)

    def memory(self) -> dict[str, int]:
        """Return bytes by part, in O(1).

        checkpoint is exact right after `weights` or `freeze`; between them it also counts weights that have become zero since.
        """
        number = self._slots.line.itemsize
        weight, accumulator = 4 + (MEMBERS + 1) * number, 4 + (MEMBERS + 1) * number
        counters = number * (1 + SCALARS + MEMBER * MEMBERS + 4 * self._has_base())
        return {
            "table": self._slots.nbytes,
            "lists": self._alive.nbytes + self._seen.nbytes,
            "columns": self._book.nbytes,
            "second_order": self._second.nbytes,
            "scratch": self._room.nbytes,
            "checkpoint": counters
            + len(self._alive) * weight
            + len(self._seen) * accumulator
            + self._book.checkpoint_nbytes
            + self._second.checkpoint_nbytes,
        }

    def _start_empty(self) -> None:
        self._begin(COUNTS, SCALARS + 2, WIDTH)
        self._member: F64 = np.zeros((MEMBER, LANES))
        self._member[SHARE, :MEMBERS] = SHARES
        if self._has_base():
            self._member[SHARE] *= 1.0 - SHARE_BASE
            self._member[SHARE, OTHER] = SHARE_BASE
        self._member[GAIN] = 1.0
        self._book = ColumnBook(self._counts, N_COLUMNS, self._settings.centred)
        self._second = SecondOrder(self._counts, SECOND, self.config.has_second_order(), self.config.scales_second_order())
        book, second = self._book, self._second.native
        more = {"member": self._member, "column": book.column, "mark": book.mark, "second": second}
        self._take("riata_mixture", slot_of=self._slots.slot_of, **more)

    def _hold_second(self, arrays: Arrays) -> None:
        self._second.thaw(arrays, self._slots)
        self._table.second = self._second.native

    def _has_base(self) -> bool:
        return self.config.has_base_rate()

    def _clock(self) -> float:
        return float(self._scalars[CLOCK] + self._scalars[CLOCK_LOST])

    def _mixed(self, clock: float, members: F64 | None, forget: bool) -> tuple[U32, F64]:
        """Return the slots of which a member has a weight, and the weights of the mixture.

        members : f64[3, m]   takes those of each member; as many as are returned
        forget  : write zeros where truncation has made all three zero, before slots leave the list
        """
        given = self._present(), self._settings, clock, forget
        line, beta = self._collect(core.collect_mixture, *given, members=[members])
        return self._slots.slots_of(line), beta

    def _make_room(self, features: int) -> Any:
        """As of every table, and space for second order."""
        if self._second.make_room(self._slots.used):
            self._table.second = self._second.native
        return super()._make_room(features)

    def _check(self, arrays: Arrays) -> None:
        """Raise `Corrupt` unless the names, shapes, types, order and range are those of a frozen state."""
        has_base, share = self._has_base(), 0.0
        second = SECOND_STATE if self.config.has_second_order() else set()
        second = second | {GIVEN} if self.config.scales_second_order() else second
        check_names(arrays, STATE | self._book.freeze().keys() | ({"base"} if has_base else set()) | second)
        if has_base:
            check_numbers("base", arrays["base"], 4)
            share, _, *labels = arrays["base"].astype(np.float64).tolist()
            if min(share, *labels) < 0.0:
                raise Corrupt("learner state: the share or the counts of the base rate are negative")
        if second:
            check_second_order(arrays, self.bits, share)
        check_mixture(arrays, 2**self.bits, share)
        self._book.check(arrays, self.bits)


def check_mixture(arrays: Arrays, slots: int, below: float = 0.0) -> None:
    """Raise `Corrupt` unless the arrays of STATE are those of members with at most so many slots.

    below : a share that is not theirs
    """
    check_counts("counts", arrays["counts"])
    check_numbers("scalars", arrays["scalars"], SCALARS)
    check_numbers("member", arrays["member"], MEMBER * MEMBERS)
    member = arrays["member"].reshape(MEMBER, MEMBERS).astype(np.float64)
    gains = member[GAIN]
    if bool((gains < GAIN_MIN).any() or (gains > GAIN_MAX).any() or (member[[GAIN_SQUARES, OFFSET_SQUARES]] < 0.0).any()):
        raise Corrupt("learner state: the calibration is out of range")
    if bool((member[SHARE] <= 0.0).any()) or not math.isclose(float(member[SHARE].sum()) + below, 1.0, rel_tol=1e-9):
        raise Corrupt("learner state: the shares of the members do not add up to 1")
    for key in ("slot", "seen"):
        check_slots(key, arrays[key], (slots - 1).bit_length())
        if bool((arrays[key].astype(np.uint32) >= slots).any()):
            raise Corrupt(f"learner state: {key} has numbers that are too large")
    own, met = arrays["slot"].astype(np.uint32), arrays["seen"].astype(np.uint32)
    check_numbers("beta", arrays["beta"], MEMBERS * len(own))
    check_numbers("tau", arrays["tau"], len(own), least=0.0)
    check_numbers("squares", arrays["squares"], MEMBERS * len(met), least=0.0)
    check_numbers("scale", arrays["scale"], len(met), least=0.0)
    if bool((arrays["scale"] == 0.0).any()) or len(merged(met, own)) > len(met):
        raise Corrupt("learner state: a weight has no scale")


def mixture_settings(config: TruncatedGradientConfig, lanes: int) -> Any:
    """The `riata_mixture_settings` of members; cells give a share back to the fourth lane, and have no base rate."""
    return struct(
        "riata_mixture_settings",
        eta=(*steps_of(config), 0.0),
        accumulator=(*(times * config.accumulator for times in ACCUMULATORS), 1.0),
        part=(*(1.0 / COUNTED if by_counts else 1.0 for by_counts in by_counts_of(config)), 0.0),
        least=(*(1.0 if by_counts else 0.0 for by_counts in by_counts_of(config)), 0.0),
        rule=_RULES[config.rule],
        period=config.period,
        invariant=config.step == "invariant",
        intercept=config.intercept,
        centred=config.centred and config.intercept,
        calibrated=config.calibrated,
        base_rate=config.has_base_rate() and lanes == MEMBERS,
        gravity=config.gravity,
        ceiling=config.ceiling,
        reach=config.reach,
        fixed=FIXED,
        back=(*(FIXED / lanes for _ in range(lanes)), *(0.0 for _ in range(LANES - lanes))),
    )


def intercept_of(member: F64) -> float:
    """The intercept of the mixture, from the numbers of its members."""
    share, intercept, _, gain, offset, *_ = member.tolist()
    base = [share[k] * (gain[k] * intercept[k] + offset[k]) for k in range(LANES)]
    return float(base[0] + base[1] + base[2] + base[3])


def steps_of(config: TruncatedGradientConfig) -> tuple[float, ...]:
    """The step sizes of the members."""
    return tuple(times * config.eta for times in STEPS)


def by_counts_of(config: TruncatedGradientConfig) -> tuple[bool, ...]:
    """Which members take values up to COUNTED as they are."""
    return tuple(by_counts or config.scale == "counts" for by_counts in BY_COUNTS)


# The state of the mixture from that of one truncated gradient: of a solution, or of ALGO_VERSION 8 and before, when one of
# eight settings was chosen from the first rows. All members begin at the weights of the one.

_CHOICE: Final = "tuned_counts"
_TRIED: Final = 8
_LARGER_ACCUMULATOR: Final = 4
_BY_COUNTS_FROM: Final = 5


def of_one_step(config: TruncatedGradientConfig, arrays: Arrays) -> Arrays:
    """Return the state that goes on from the frozen state of one truncated gradient, with every truncation that is due.

    Raises `Corrupt` if it lacks an array, or if its choice is not one of those that there were.
    """
    needed = {"counts", "scalars", "slot", "beta", "tau", "seen", "squares", "scale"}
    if not needed <= arrays.keys():
        raise Corrupt(f"learner state: expected arrays {sorted(needed)} among {sorted(arrays)}")
    choice = 0
    if _CHOICE in arrays:
        check_counts(_CHOICE, arrays[_CHOICE], 2)
        choice = int(arrays[_CHOICE].astype(np.int64)[0])
    if choice >= _TRIED:
        raise Corrupt("learner state: the choice is not one of the candidates")
    slot, seen = arrays["slot"], arrays["seen"].astype(np.uint32)
    check_numbers("scalars", arrays["scalars"], 6)
    check_numbers("beta", arrays["beta"], len(slot))
    check_numbers("tau", arrays["tau"], len(slot), least=0.0)
    check_numbers("squares", arrays["squares"], len(seen), least=0.0)
    check_numbers("scale", arrays["scale"], len(seen), least=0.0)
    at = np.searchsorted(seen, slot)
    if bool((at == len(seen)).any()) or not np.array_equal(seen[at], slot) or bool((arrays["scale"] == 0.0).any()):
        raise Corrupt("learner state: a weight has no scale")
    beta, tau, squares, scale = (arrays[name].astype(np.float64) for name in ("beta", "tau", "squares", "scale"))
    clock, lost, intercept, intercept_squares, norm, importance = arrays["scalars"].tolist()
    accumulator = config.accumulator * (ACCUMULATORS[-1] if choice == _LARGER_ACCUMULATOR else 1.0)
    with np.errstate(divide="ignore"):
        pull = np.maximum(clock + lost - tau, 0.0) / np.sqrt(squares[at] + accumulator * scale[at] ** 2)
    small = (np.abs(beta) * scale[at] <= config.ceiling) & (tau < clock + lost)
    left = 0.0 if config.rule == "round" else np.sign(beta) * np.maximum(np.abs(beta) - pull, 0.0)
    beta = np.where(small, left, beta)
    if choice >= _BY_COUNTS_FROM or config.scale == "counts":
        is_column = np.isin(seen, arrays.get("column_slot", np.zeros(0, np.int64)))
        scale = np.where(is_column, scale, np.where(scale > 1.0, COUNTED * scale, 1.0))
    gain, offset, *sums = arrays["calibration"].tolist() if "calibration" in arrays else (1.0, 0.0, 0.0, 0.0)
    alive = beta != 0.0
    return {
        **{name: array for name, array in arrays.items() if name not in {_CHOICE, *FIRST_ROWS, "calibration"}},
        "scalars": np.array([0.0, 0.0, norm, importance]),
        "member": np.concatenate([SHARES, np.repeat([intercept, intercept_squares, gain, offset, *sums], MEMBERS)]),
        "slot": slot[alive],
        "beta": np.tile(beta[alive], MEMBERS),
        "tau": np.where(tau >= NEVER, NEVER, 0.0)[alive],
        "squares": np.tile(squares, MEMBERS),
        "scale": scale,
        **({"base": np.zeros(4)} if config.has_base_rate() else {}),
        **(no_second_order(config.scales_second_order()) if config.has_second_order() else {}),
    }
