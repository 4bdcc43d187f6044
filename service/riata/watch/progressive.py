"""Progressive validation (test-then-train): every event is predicted and scored before it is learnt."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from copy import copy
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Final, NamedTuple, TypeVar

import numpy as np
from annotated_types import Ge, Le

from riata.base.arrays import BOOL, F64, I64, Arrays
from riata.base.errors import Corrupt
from riata.base.frozen_dataclass import frozen_dataclass
from riata.learn.learner import Stepped, Weights
from riata.learn.slot_table import zero_table
from riata.maths.links import LINKS, REAL, Answers
from riata.native.library import core
from riata.watch import figures
from riata.watch.figures import (
    BINS,
    CUMULATIVE,
    FADED,
    MARGIN_HELD,
    PAST,
    PAST_LABEL,
    PAST_MARGIN,
    PAST_WEIGHT,
    SCALE,
    SUMS,
    WEIGHT,
    Figures,
    calibration_cells,
    calibration_error,
    has_probability,
    histogram_auc,
    horizon_figures,
    ranked_auc,
)
from riata.watch.observer import Observer, Rows

# The learning curve: metrics at chosen events, thinned out so that there are at most a few hundred points.
#
# Counting the non-zero weights reads every weight, which is far more expensive than the rest of a point. So after a count of n,
# the next count is at the first point that is at least n / REST events later. The points between have no count. So for any number
# of weights, counting takes a small share of the time that learning takes.
#
# The faded loss of the base rate was added to points later. A checkpoint has it beside the points, so that the points have the
# same bytes as before; of a point from an older checkpoint it is NaN.
#
# A point has the number of the event after which it was made, in the log in which it was made. If a state was moved to another
# log, those numbers mean nothing there, and may be larger than those of later points. Only the number of examples orders points.

POINTS_MAX: Final = 512
EARLY: Final = (10, 20, 50, 100, 200, 500)  # never thinned out; later points are at the multiples of a spacing
SPACING: Final = 1000  # initial value; doubled whenever POINTS_MAX is reached
REST: Final = 4  # counting one weight costs about a hundredth of learning a row

# Columns of a point.
SEQ: Final = 0
EXAMPLES: Final = 1
LOSS: Final = 2
FADED_LOSS: Final = 3
WINDOW_LOSS: Final = 4
BASE_LOSS: Final = 5
AUC: Final = 6
NON_ZEROS: Final = 7
FADED_BASE_LOSS: Final = 8
POINT: Final = 9
STORED: Final = 8  # the first columns, as in a checkpoint


class Carried(NamedTuple):
    """Which points of a curve were made in another log: those of up to `examples` events. Event `seq` brought them into this
    one."""

    seq: int
    examples: int


NOTHING_CARRIED: Final = Carried(0, 0)


class Curve:
    """Points of a learning curve. Which events have a point depends only on the number of events."""

    def __init__(self) -> None:
        self.carried = NOTHING_CARRIED
        self.spacing = SPACING
        self._points: F64 = np.zeros((0, POINT))
        self._noted = 0  # points whose number of non-zeros was set, or that never get one
        self._rested = 0  # number of events from which non-zeros may be counted again; a function of the points alone

    def next_after(self, examples: int) -> int:
        """Return the first number of events above `examples` that has a point."""
        regular = (examples // self.spacing + 1) * self.spacing
        return next((early for early in EARLY if early > examples), regular)

    def next_count_after(self, examples: int) -> int:
        """Return a number of events above `examples` before which no point needs a count of non-zeros.

        It is that of the next point that needs one, or of an earlier point at which points are dropped, since that may change it.
        """
        if examples < EARLY[-1]:
            return self.next_after(examples)
        dropping = (examples // self.spacing + 1 + POINTS_MAX - len(self._points)) * self.spacing
        return min(self.next_after(max(examples, self._rested - 1)), dropping)

    def add(self, point: F64) -> None:
        """Append a point (f64[POINT], non-zeros NaN). If there is no room, first drop every second regular point."""
        while len(self._points) >= POINTS_MAX:
            self.spacing *= 2
            keep = self._belongs(self._points[:, EXAMPLES])
            self._noted = int(keep[: self._noted].sum())
            self._points = self._points[keep]
            self._look_for_rest()
        examples = int(point[EXAMPLES])
        if examples % self.spacing == 0 or examples in EARLY:
            is_passed_over = not self.awaits_non_zeros and examples < self._rested
            self._points = np.vstack((self._points, point))
            self._noted += is_passed_over

    def note_non_zeros(self, non_zeros: int) -> None:
        """Set the number of non-zero weights of the points added since the last call."""
        self._points[self._noted :, NON_ZEROS] = non_zeros
        self._noted = len(self._points)
        self._look_for_rest()

    @property
    def awaits_non_zeros(self) -> bool:
        """Whether points were added that need a `note_non_zeros`."""
        return self._noted < len(self._points)

    def since(self, seq: int) -> F64:
        """Return the points of events after `seq`, oldest first, as f64[n, POINT]; NaN where a figure is not defined.

        A point that was made in another log has the number of the event that brought it into this one.
        """
        points = self._points.copy()
        points[points[:, EXAMPLES] <= self.carried.examples, SEQ] = self.carried.seq
        return points[points[:, SEQ] > seq]

    def carry(self, seq: int, examples: int) -> None:
        """Note that event `seq` of a new log brought this curve, of `examples` events, into that log."""
        self.carried = Carried(seq, examples)

    def freeze(self) -> tuple[F64, list[int]]:
        """Return the points, f64[n, STORED], and the spacing and the number of noted points."""
        return self._points[:, :STORED].copy(), [self.spacing, self._noted]

    def faded_bases(self) -> list[float | None]:
        """Return the faded loss of the base rate at each point; None where it is not known."""
        return [None if math.isnan(loss) else loss for loss in self._points[:, FADED_BASE_LOSS].tolist()]

    def thaw(
        self, points: F64, spacing: int, noted: int, carried: Carried = NOTHING_CARRIED, bases: Sequence[float | None] = ()
    ) -> None:
        """Restore the curve from what `freeze` returned, `carried` and `faded_bases`; these may be missing. Raises `Corrupt`."""
        doublings = spacing // SPACING
        if points.ndim != 2 or points.shape[1] != STORED or len(points) > POINTS_MAX or not 0 <= noted <= len(points):
            raise Corrupt(f"learning curve: shape {points.shape} for {noted} points")
        if spacing < SPACING or spacing % SPACING or doublings & (doublings - 1):
            raise Corrupt(f"learning curve: spacing {spacing} is not {SPACING} times a power of two")
        if not np.isfinite(points[:, :LOSS]).all() or np.isinf(points).any():
            raise Corrupt("learning curve: a point is not finite")
        own = points[points[:, EXAMPLES] > carried.examples, SEQ]  # event numbers of other logs mean nothing
        if not _rises(points[:, EXAMPLES]) or not _rises(own) or (own <= carried.seq).any():
            raise Corrupt("learning curve: points are out of order")
        self.carried = carried
        faded = np.array([math.nan if base is None else base for base in bases] or [math.nan] * len(points), np.float64)
        if len(faded) != len(points) or np.isinf(faded).any():
            raise Corrupt(f"learning curve: {len(faded)} losses of the base rate for {len(points)} points")
        self.spacing, self._noted, self._points = spacing, noted, np.column_stack((points, faded))
        if not self._belongs(points[:, EXAMPLES]).all():
            raise Corrupt(f"learning curve: a point is at an event that spacing {spacing} does not include")
        self._look_for_rest()

    def copy(self) -> Curve:
        """Return a copy that later points do not change."""
        found = copy(self)
        found._points = self._points.copy()
        return found

    def memory(self) -> int:
        """Return bytes."""
        return self._points.nbytes

    def _look_for_rest(self) -> None:
        """Set from which number of events non-zeros may be counted again, according to the last count among the points."""
        counted = np.flatnonzero(self._points[:, NON_ZEROS] >= 0.0)  # not NaN
        last = self._points[counted[-1]] if len(counted) else np.zeros(POINT)
        self._rested = int(last[EXAMPLES]) + int(last[NON_ZEROS]) // REST

    def _belongs(self, examples: F64) -> BOOL:
        of_spacing: BOOL = examples % self.spacing == 0
        early: BOOL = (examples[:, np.newaxis] == EARLY).any(axis=1)
        return of_spacing | early


def _rises(numbers: F64) -> bool:
    return bool((np.diff(numbers) > 0).all())


# What is read from the header of a checkpoint, and its arrays by prefix.

T = TypeVar("T")
CARRIED: Final = "carried"
FADED_BASES: Final = "faded_bases"  # beside the arrays, so that states have the digests that they had before it was kept
NEW: Final[Mapping[str, Any]] = MappingProxyType({"applied": 0, CARRIED: NOTHING_CARRIED})  # of a state that was never moved
EVENTS_MAX: Final = 2**62  # no log is longer; sums with it still fit into 64 bits


def carried(header: Mapping[str, Any]) -> Carried:
    """Return which points of the learning curve were made in another log. Raises `ValueError`."""
    applied = number(header["applied"])
    seq, examples = (number(one) for one in header[CARRIED])
    if seq > applied:
        raise ValueError(f"event {seq} of the log carried the state, but the state is at event {applied}")
    return Carried(seq, examples)


def faded_bases(header: Mapping[str, Any]) -> list[float | None]:
    """Return the faded loss of the base rate at each point of the learning curve; an older checkpoint has none. Raises
    `ValueError`."""
    return [None if one is None else typed(one, float) for one in typed(header.get(FADED_BASES, []), list)]


def typed(value: object, kind: type[T]) -> T:
    """Return `value` if its type is exactly `kind`, without conversion. Raises `ValueError`."""
    if type(value) is not kind:
        raise ValueError(f"expected {kind.__name__}, got {type(value).__name__}")
    return value


def number(value: object) -> int:
    """Return `value` if it can be a count of events or an event number. Raises `ValueError`."""
    found = typed(value, int)
    if not 0 <= found <= EVENTS_MAX:
        raise ValueError("a number of events is out of range")
    return found


def part(arrays: Arrays, prefix: str) -> Arrays:
    """Return the arrays whose names begin with `prefix`, without it."""
    return {key[len(prefix) :]: value for key, value in arrays.items() if key.startswith(prefix)}


RECENT: Final = 1000  # events of the shortest horizon
COARSE: Final = 256  # bins of a tally: 16 of the histogram, 1/12 wide where nearly all margins are
_FINE: Final = BINS // COARSE
_ONES: Final[F64] = np.ones(_FINE)
_EXAMPLES_MAX: Final = 2**62  # no log is longer; sums with it still fit into 64 bits


class Tally(NamedTuple):
    """What all events so far add up to. sums : f64[SUMS]; histogram : f64[2, COARSE], as that of `accumulate_rows`"""

    examples: int
    sums: F64
    histogram: F64


@frozen_dataclass(frozen=True, slots=True)
class ProgressiveConfig:
    """What is measured. `answers` is the learner's link, or "real" if labels are any number."""

    answers: Answers = "logistic"
    half_life: Annotated[
        int, Ge(1), Le(10**9), "number of events after which the weight of an event in the faded figures is halved"
    ] = 10_000
    window: Annotated[
        int, Ge(1), Le(10**6), "number of events in the window; each takes 40 bytes in memory and in a snapshot"
    ] = 10_000


class Progressive(Observer):
    """Metrics of the margins predicted before learning: cumulative, exponentially faded, and over a window of the last events.

    A pure function of the events in order: the split into batches changes no bit. For one thread, including `figures` and
    `history`.
    """

    past_rows: ClassVar[int] = PAST

    def __init__(self, config: ProgressiveConfig) -> None:
        self.config = config
        self._link = LINKS[config.answers].code
        self._refused = 0
        self._sums: F64 = np.zeros((2, SUMS))
        self._sums[:, SCALE] = 1.0
        self._histogram: F64 = np.zeros((2, 2, BINS))
        self._calibration: F64 = np.zeros((figures.CELLS, figures.CELL))
        self._window: F64 = zero_table(self.past_rows, config.window)  # takes memory as events come
        self._core = self._made_core(0)
        self._curve = Curve()
        self._is_shared = False  # whether a copy has the same arrays and the same curve
        self._window_is_shared = False  # or the same window: until it is full, events are written behind those of the copy
        self._told: list[tuple[bytes, list[Figures]]] = [(b"", [])]  # the last points of `history`; copies have the same list

    @property
    def examples(self) -> int:
        """Number of events in the figures."""
        return int(self._core.examples)

    @property
    def log_loss(self) -> float:
        """Mean log loss of all events so far, or the learner's own loss if there is no probability; NaN before the first."""
        loss = figures.LOG_LOSS if has_probability(self._link) else figures.LOSS
        weight = float(self._sums[CUMULATIVE, WEIGHT])
        return float(self._sums[CUMULATIVE, loss]) / weight if weight > 0.0 else math.nan

    @property
    def refused(self) -> int:
        """Number of events that are not in the figures because they were not learnt."""
        return self._refused

    @property
    def until_count(self) -> int:
        """Number of events, at least one, up to and including the next point of the learning curve that needs a non-zero count.

        It may be less. A caller that observes at most this many events at a time can count the non-zeros exactly at the event of
        each such point.
        """
        return self._curve.next_count_after(self.examples) - self.examples

    @property
    def awaits_count(self) -> bool:
        """Whether the learning curve has a new point that needs `count`."""
        return self._curve.awaits_non_zeros

    def observe(self, rows: Rows, stepped: Stepped) -> None:
        """Add the events of `rows`."""
        self.add(stepped.answered, stepped.label, stepped.weight, stepped.refused, rows.first)

    def add(self, margin: F64, label: F64, weight: F64, refused: BOOL, first_seq: int) -> None:
        """Add the learner's predictions for the events first_seq, first_seq + 1, ..., made before it learnt them.

        margin, label, weight : f64[n], labels 0 or 1 (or any number if `answers` is "real"), importance positive
        refused               : bool[n], events that were not learnt; they are counted and skipped
        """
        self._own(len(label))
        margin, label, weight = (np.ascontiguousarray(part) for part in (margin, label, weight))
        kept: I64 | None = None  # which of them were learnt; None for all, the common case
        if refused.any() or not (np.abs(margin) <= MARGIN_HELD).all():
            kept = np.flatnonzero(~refused)
            self._refused += len(refused) - len(kept)
            margin, label, weight = margin[kept], label[kept], weight[kept]
            margin = np.clip(np.where(np.isnan(margin), 0.0, margin), -MARGIN_HELD, MARGIN_HELD)
        start = 0
        while start < len(margin):
            due = self._curve.next_after(self.examples)
            stop = min(len(margin), start + due - self.examples)
            self._tally(margin[start:stop], label[start:stop], weight[start:stop])
            if self.examples == due:
                self._curve.add(self._point(first_seq + (stop - 1 if kept is None else int(kept[stop - 1]))))
            start = stop

    def count(self, examples: int, weights: Weights) -> None:  # noqa: ARG002
        """Note the number of non-zero weights."""
        self.note_non_zeros(weights.non_zeros)

    def note_non_zeros(self, non_zeros: int) -> None:
        """Set the current number of non-zero weights; it applies to the points of the curve added since the last call."""
        self._own()
        self._curve.note_non_zeros(non_zeros)

    def figures(self) -> Figures:
        """Return `cumulative`, `faded`, `window`, `recent`, `calibration` of all events and `window_calibration`; None where
        undefined.

        recent : the last RECENT events, or those of the window if it has fewer
        There is no calibration error of faded sums, as they have no cells.
        """
        count = self._held
        window, cells = self._last(count)
        recent, of_recent = self._last(min(count, RECENT))
        errors = [
            calibration_error(each) if has_probability(self._link) else None for each in (self._calibration, cells, of_recent)
        ]
        return {
            "cumulative": {"examples": self.examples, **self._horizon(CUMULATIVE), "calibration_error": errors[0]},
            "faded": {"half_life": self.config.half_life, **self._horizon(FADED)},
            "window": {"examples": count, **window, "calibration_error": errors[1]},
            "recent": {"examples": min(count, RECENT), **recent, "calibration_error": errors[2]},
            "calibration": calibration_cells(self._calibration, self._link),
            "window_calibration": calibration_cells(cells, self._link),
        }

    def tally(self) -> Tally:
        """Return what all events so far add up to, for `since`."""
        histogram = self._histogram[CUMULATIVE].reshape(2, COARSE, _FINE) @ _ONES  # `sum` takes four times as long
        return Tally(self.examples, self._sums[CUMULATIVE].copy(), histogram)

    def since(self, before: Tally, now: Tally) -> Figures:
        """Return the figures of the events between two tallies. The AUC is that of COARSE bins."""
        sums = np.maximum(now.sums - before.sums, 0.0)  # rounding may leave less than nothing
        sums[SCALE] = 1.0
        auc = histogram_auc(*np.maximum(now.histogram - before.histogram, 0.0))
        return {"examples": now.examples - before.examples, **self._whole(sums, auc)}

    def window_losses(self) -> Figures:
        """Return the figures of the window that are sums: those without its AUC, which takes longest."""
        sums, _ = figures.window_sums(self._core, self._held)
        return {"examples": self._held, **self._whole(sums, math.nan)}

    def copy(self) -> Progressive:
        """As of an `Observer`. The copy has the same arrays until this one changes: it costs an idle model no memory."""
        self._is_shared = self._window_is_shared = True
        return copy(self)

    def _own(self, more: int = 0) -> None:
        """Before anything is changed, and `more` events are added: leave the arrays to the copy that has them too."""
        overwrites = self._window_is_shared and self.examples + more > self.config.window
        if overwrites:
            self._window, self._window_is_shared = self._window.copy(), False
        if self._is_shared:
            self._is_shared = False
            self._leave_arrays()
        elif not overwrites:
            return
        self._core = self._made_core(self.examples)

    def _leave_arrays(self) -> None:
        self._sums, self._calibration = self._sums.copy(), self._calibration.copy()
        self._histogram, self._curve = self._histogram.copy(), self._curve.copy()

    def past(self) -> F64:
        """Return the events of the window, f64[PAST, n], in no order: a view, valid until the next event."""
        return self._window[:, : self._held]

    def history(self, since: int = 0) -> list[Figures]:
        """Return the points of the learning curve after event `since`, oldest first. The list is shared: do not change it.

        Keys: seq, examples, then the loss in the three horizons and that of the base rate (log_loss, faded_log_loss,
        window_log_loss, base_log_loss; without "log_" if there is no probability), auc, non_zeros, and the loss of the base
        rate, faded like that of the model (faded_base_log_loss); None where unknown.
        """
        before, told = self._told[0]
        found = self._curve.since(since)
        content = found.tobytes()
        if content != before:  # usually points were appended, rarely changed
            told = told if content.startswith(before) else []
            told = [*told, *self._as_documents(found[len(told) :])]
            self._told[0] = content, told
        return told

    def _as_documents(self, found: F64) -> list[Figures]:
        loss = "log_loss" if has_probability(self._link) else "loss"
        names = (
            "seq",
            "examples",
            loss,
            f"faded_{loss}",
            f"window_{loss}",
            f"base_{loss}",
            "auc",
            "non_zeros",
            f"faded_base_{loss}",
        )
        whole = {"seq", "examples", "non_zeros"}
        points = []
        for point in found.tolist():
            known = {name: number for name, number in zip(names, point, strict=True) if not math.isnan(number)}
            points.append({name: int(known[name]) if name in known and name in whole else known.get(name) for name in names})
        return points

    def memory(self) -> dict[str, int]:
        """Return bytes by part."""
        return {
            "sums": self._sums.nbytes + self._calibration.nbytes,
            "histograms": self._histogram.nbytes,
            "window": self._window.nbytes,
            "curve": self._curve.memory(),
        }

    def freeze(self) -> Arrays:
        """Return copies of the state, which determine every later figure to the last bit."""
        points, curve = self._curve.freeze()
        return {
            "counts": np.array([self.examples, self._refused, *curve], dtype=np.int64),
            "sums": self._sums.copy(),
            "histogram": self._histogram.copy(),
            "calibration": self._calibration.copy(),
            "window": self._window[:, : self._held].copy(),
            "curve": points,
        }

    def header(self) -> dict[str, Any]:
        """Return which points of the learning curve were made in another log, and what the arrays do not have of the points."""
        return {CARRIED: list(self._curve.carried), FADED_BASES: self._curve.faded_bases()}

    def carry(self, seq: int) -> None:
        """Note that event `seq` of a new log brought everything observed so far into that log."""
        self._own()
        self._curve.carry(seq, self.examples)

    def thaw(self, arrays: Arrays, header: Mapping[str, Any] = NEW) -> None:
        """Restore the state from `freeze` and a header, under the same configuration. Raises as `Observer.thaw` does, and then
        changes nothing."""
        counts = _require(arrays, "counts", np.dtype(np.int64), (4,))
        examples, refused, spacing, noted = (int(number) for number in counts)
        if not 0 <= examples <= _EXAMPLES_MAX or not 0 <= refused <= _EXAMPLES_MAX:
            raise Corrupt(f"watch: {examples} examples, {refused} refused")
        count = min(examples, self.config.window)
        real = np.dtype(np.float64)
        sums = _require(arrays, "sums", real, (2, SUMS))
        histogram = _require(arrays, "histogram", real, (2, 2, BINS))
        calibration = _require(arrays, "calibration", real, (figures.CELLS, figures.CELL))
        window = _require(arrays, "window", real, (self.past_rows, count))
        for name, array in (("sums", sums), ("histogram", histogram), ("calibration", calibration), ("window", window)):
            if not np.isfinite(array).all():
                raise Corrupt(f"watch: {name} has a number that is not finite")
        if sums[CUMULATIVE, SCALE] != 1.0 or not 1.0 <= sums[FADED, SCALE] <= figures.RENORMALISE_ABOVE:
            raise Corrupt("watch: the scale of the sums is out of range")
        if (sums[:, WEIGHT] < 0.0).any() or (histogram < 0.0).any() or (window[PAST_WEIGHT] <= 0.0).any():
            raise Corrupt("watch: a weight is negative")
        points = arrays.get("curve")
        if points is None or points.dtype != real:
            raise Corrupt("watch: no learning curve")
        curve = Curve()
        curve.thaw(points.astype(np.float64), spacing, noted, carried(header), faded_bases(header))
        self._curve, self._refused = curve, refused
        self._is_shared = self._window_is_shared = False
        self._sums, self._histogram, self._calibration = sums, histogram, calibration
        self._window = zero_table(self.past_rows, self.config.window)
        self._window[:, :count] = window
        self._core = self._made_core(examples)

    def _made_core(self, examples: int) -> Any:
        """Return the `riata_tally` of the present arrays."""
        made = figures.tally_of(self._link, self.config.half_life, **self._arrays())
        made.examples = examples
        return made

    def _arrays(self) -> dict[str, F64]:
        """Return what `_tally` changes."""
        kept = {"sums": self._sums, "calibration": self._calibration, "window": self._window}
        return {**kept, "histogram": self._histogram}

    def _tally(self, margin: F64, label: F64, weight: F64) -> None:
        figures.tally_rows(self._core, margin, label, weight)

    @property
    def _held(self) -> int:
        """The number of events in the window."""
        return min(self.examples, self.config.window)

    def _horizon(self, horizon: int) -> Figures:
        auc = histogram_auc(self._histogram[horizon, 0], self._histogram[horizon, 1])
        return self._whole(self._sums[horizon], auc)

    def _whole(self, sums: F64, auc: float) -> Figures:
        return horizon_figures(sums, auc, self._link)

    def _last(self, count: int) -> tuple[Figures, F64]:
        """Return the figures and the calibration cells of the last `count` events, at most those of the window."""
        width = self.config.window
        start = (self.examples - count) % width
        sums, cells = figures.window_sums(self._core, count)
        past = self.past() if count == self._held else self._window[:, np.arange(start, start + count) % width]
        order = np.argsort(past[PAST_MARGIN], kind="stable")
        exact = ranked_auc(past[PAST_MARGIN][order], past[PAST_LABEL][order], past[PAST_WEIGHT][order])
        return self._whole(sums, exact), cells

    def _point(self, seq: int) -> F64:
        """Return the point of the learning curve at this moment."""
        probability = has_probability(self._link)
        loss = figures.LOG_LOSS if probability else figures.LOSS
        base = figures.BASE_LOG_LOSS if probability else figures.BASE_LOSS
        point = np.full(POINT, np.nan)
        point[SEQ] = seq
        point[EXAMPLES] = self.examples
        point[LOSS] = self._sums[CUMULATIVE, loss] / self._sums[CUMULATIVE, WEIGHT]
        point[FADED_LOSS] = self._sums[FADED, loss] / self._sums[FADED, WEIGHT]
        point[WINDOW_LOSS] = core.window_loss(self._core, self._held)
        point[BASE_LOSS] = self._sums[CUMULATIVE, base] / self._sums[CUMULATIVE, WEIGHT]
        point[FADED_BASE_LOSS] = self._sums[FADED, base] / self._sums[FADED, WEIGHT]
        if self._link != REAL:
            point[AUC] = histogram_auc(self._histogram[CUMULATIVE, 0], self._histogram[CUMULATIVE, 1])
        return point


def _require(arrays: Arrays, name: str, dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> F64:
    """Return a copy of an array of exactly this type and shape. Raises `Corrupt`."""
    array = arrays.get(name)
    if array is None or array.dtype != dtype or array.shape != shape:
        found = "nothing" if array is None else f"{array.dtype}{list(array.shape)}"
        raise Corrupt(f"watch: {name}: expected {dtype}{list(shape)}, found {found}")
    return np.array(array, order="C")


# The figures of the last minute. They depend on the clock, so they are no part of a state: a process has those of what it
# learns.
#
# The log has no ticks, so the sums of all events so far are noted at the steps of the clock; the figures of a minute are those of
# their differences. A step without events is not noted: nothing had changed at it since the one before.

STEP_MS: Final = 5000
SPAN_MS: Final = 60_000


class Noted(NamedTuple):
    """What was learnt up to one moment. known_ms : since when it is known; steps : how long ago, and what all events added up to
    then, oldest first; the last is the moment itself"""

    known_ms: int
    steps: tuple[tuple[int, Tally], ...]

    def figures(self, progressive: Progressive) -> Figures:
        """Return the figures from each step up to the moment, for `of_last_minute`: `known_ms`, and `steps`, each with `ago_ms`
        and figures. progressive : what was noted, or a copy of it"""
        now = self.steps[-1][1]
        steps = [{"ago_ms": ago_ms, **progressive.since(tally, now)} for ago_ms, tally in self.steps]
        return {"known_ms": self.known_ms, "steps": steps}


class Minute:
    """Notes what one model has learnt at the steps of the clock. For the thread that learns."""

    def __init__(self) -> None:
        self._of: Progressive | None = None
        self._began_ms = 0
        self._noted: deque[tuple[int, Tally]] = deque()
        self._before: Tally | None = None

    def note(self, progressive: Progressive, now_ms: int) -> Noted:
        """Note what was learnt up to now. Call it whenever events were learnt, with a clock that never goes back. Another object
        than before is another past, of which nothing is known."""
        now = progressive.tally()
        if progressive is not self._of or self._before is None:
            self._of, self._began_ms, self._before = progressive, now_ms, now
            self._noted.clear()
            self._noted.append((now_ms, now))
        elif (step_ms := now_ms - now_ms % STEP_MS) > self._noted[-1][0]:
            self._noted.append((step_ms, self._before))
        self._before = now
        while self._noted[0][0] < now_ms - SPAN_MS - STEP_MS:
            self._noted.popleft()
        return Noted(now_ms - self._began_ms, (*((now_ms - at_ms, tally) for at_ms, tally in self._noted), (0, now)))


def of_last_minute(told: Mapping[str, Any], age_ms: int) -> Figures:
    """Return the figures of the last 60 to 65 s.

    told   : of `Minute.figures`
    age_ms : how long ago that was; no event was learnt since
    """
    longest_ms = SPAN_MS + STEP_MS
    step = next((step for step in told["steps"] if step["ago_ms"] + age_ms <= longest_ms), told["steps"][-1])
    span_ms = min(max(step["ago_ms"] + age_ms, SPAN_MS), longest_ms, told["known_ms"] + age_ms)
    return {"seconds": span_ms / 1000, **{name: figure for name, figure in step.items() if name != "ago_ms"}}
