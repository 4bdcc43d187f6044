"""Progressive validation (test-then-train): every event is predicted and scored before it is learnt."""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, NamedTuple

import numpy as np
from annotated_types import Ge, Le

from riata.base.arrays import BOOL, F64, I64, Arrays
from riata.base.errors import Corrupt
from riata.learn.learner import Stepped, Weights
from riata.learn.slot_table import zero_table
from riata.maths.auc import BINS, histogram_auc, ranked_auc
from riata.maths.links import LINKS, REAL, Answers
from riata.native.library import core
from riata.watch import accumulate, curves
from riata.watch.accumulate import CUMULATIVE, FADED, MARGIN_HELD, PAST, PAST_LABEL, PAST_MARGIN, PAST_WEIGHT, SCALE, SUMS, WEIGHT
from riata.watch.curves import Curve
from riata.watch.figures import Figures, calibration_cells, calibration_error, has_probability, horizon_figures
from riata.watch.header import CARRIED, FADED_BASES, NEW, carried, faded_bases
from riata.watch.observer import Observer, Rows

RECENT: Final = 1000  # events of the shortest horizon
COARSE: Final = 256  # bins of a tally: 16 of the histogram, 1/12 wide where nearly all margins are
_EXAMPLES_MAX: Final = 2**62  # no log is longer; sums with it still fit into 64 bits


class Tally(NamedTuple):
    """What all events so far add up to. sums : f64[SUMS]; histogram : f64[2, COARSE], as that of `accumulate_rows`"""

    examples: int
    sums: F64
    histogram: F64


@dataclass(frozen=True, slots=True)
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
        self._calibration: F64 = np.zeros((accumulate.CELLS, accumulate.CELL))
        self._window: F64 = zero_table(self.past_rows, config.window)  # takes memory as events come
        self._core = self._made_core(0)
        self._curve = Curve()
        self._is_shared = False  # whether a copy has the same arrays and the same curve
        self._told: list[tuple[bytes, list[Figures]]] = [(b"", [])]  # the last points of `history`; copies have the same list

    @property
    def examples(self) -> int:
        """Number of events in the figures."""
        return int(self._core.examples)

    @property
    def log_loss(self) -> float:
        """Mean log loss of all events so far, or the learner's own loss if there is no probability; NaN before the first."""
        loss = accumulate.LOG_LOSS if has_probability(self._link) else accumulate.LOSS
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
        self.add(stepped.margin, stepped.label, stepped.weight, stepped.refused, rows.first)

    def add(self, margin: F64, label: F64, weight: F64, refused: BOOL, first_seq: int) -> None:
        """Add the learner's predictions for the events first_seq, first_seq + 1, ..., made before it learnt them.

        margin, label, weight : f64[n], labels 0 or 1 (or any number if `answers` is "real"), importance positive
        refused               : bool[n], events that were not learnt; they are counted and skipped
        """
        self._own()
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
        histogram = self._histogram[CUMULATIVE].reshape(2, COARSE, -1).sum(axis=2)
        return Tally(self.examples, self._sums[CUMULATIVE].copy(), histogram)

    def since(self, before: Tally, now: Tally) -> Figures:
        """Return the figures of the events between two tallies. The AUC is that of COARSE bins."""
        sums = np.maximum(now.sums - before.sums, 0.0)  # rounding may leave less than nothing
        sums[SCALE] = 1.0
        auc = histogram_auc(*np.maximum(now.histogram - before.histogram, 0.0))
        return {"examples": now.examples - before.examples, **self._whole(sums, auc)}

    def window_losses(self) -> Figures:
        """Return the figures of the window that are sums: those without its AUC, which takes longest."""
        sums, _ = accumulate.window_sums(self._core, self._held)
        return {"examples": self._held, **self._whole(sums, math.nan)}

    def copy(self) -> Progressive:
        """As of an `Observer`. The copy has the same arrays until this one changes: it costs an idle model no memory."""
        self._is_shared = True
        return copy(self)

    def _own(self) -> None:
        """Before anything is changed: leave the arrays to the copy that has them too."""
        if self._is_shared:
            self._is_shared = False
            self._leave_arrays()
            self._core = self._made_core(self.examples)

    def _leave_arrays(self) -> None:
        self._sums, self._calibration = self._sums.copy(), self._calibration.copy()
        self._histogram, self._curve = self._histogram.copy(), self._curve.copy()
        if self._held == self.config.window:
            self._window = self._window.copy()
            return
        window = zero_table(self.past_rows, self.config.window)  # takes memory as events come
        window[:, : self._held] = self._window[:, : self._held]
        self._window = window

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
        calibration = _require(arrays, "calibration", real, (accumulate.CELLS, accumulate.CELL))
        window = _require(arrays, "window", real, (self.past_rows, count))
        for name, array in (("sums", sums), ("histogram", histogram), ("calibration", calibration), ("window", window)):
            if not np.isfinite(array).all():
                raise Corrupt(f"watch: {name} has a number that is not finite")
        if sums[CUMULATIVE, SCALE] != 1.0 or not 1.0 <= sums[FADED, SCALE] <= accumulate.RENORMALISE_ABOVE:
            raise Corrupt("watch: the scale of the sums is out of range")
        if (sums[:, WEIGHT] < 0.0).any() or (histogram < 0.0).any() or (window[PAST_WEIGHT] <= 0.0).any():
            raise Corrupt("watch: a weight is negative")
        points = arrays.get("curve")
        if points is None or points.dtype != real:
            raise Corrupt("watch: no learning curve")
        curve = Curve()
        curve.thaw(points.astype(np.float64), spacing, noted, carried(header), faded_bases(header))
        self._curve, self._refused, self._is_shared = curve, refused, False
        self._sums, self._histogram, self._calibration = sums, histogram, calibration
        self._window = zero_table(self.past_rows, self.config.window)
        self._window[:, :count] = window
        self._core = self._made_core(examples)

    def _made_core(self, examples: int) -> Any:
        """Return the `riata_tally` of the present arrays."""
        made = accumulate.tally_of(self._link, self.config.half_life, **self._arrays())
        made.examples = examples
        return made

    def _arrays(self) -> dict[str, F64]:
        """Return what `_tally` changes."""
        kept = {"sums": self._sums, "calibration": self._calibration, "window": self._window}
        return {**kept, "histogram": self._histogram}

    def _tally(self, margin: F64, label: F64, weight: F64) -> None:
        accumulate.tally_rows(self._core, margin, label, weight)

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
        sums, cells = accumulate.window_sums(self._core, count)
        past = self.past() if count == self._held else self._window[:, np.arange(start, start + count) % width]
        order = np.argsort(past[PAST_MARGIN], kind="stable")
        exact = ranked_auc(past[PAST_MARGIN][order], past[PAST_LABEL][order], past[PAST_WEIGHT][order])
        return self._whole(sums, exact), cells

    def _point(self, seq: int) -> F64:
        """Return the point of the learning curve at this moment."""
        probability = has_probability(self._link)
        loss = accumulate.LOG_LOSS if probability else accumulate.LOSS
        base = accumulate.BASE_LOG_LOSS if probability else accumulate.BASE_LOSS
        point = np.full(curves.POINT, np.nan)
        point[curves.SEQ] = seq
        point[curves.EXAMPLES] = self.examples
        point[curves.LOSS] = self._sums[CUMULATIVE, loss] / self._sums[CUMULATIVE, WEIGHT]
        point[curves.FADED_LOSS] = self._sums[FADED, loss] / self._sums[FADED, WEIGHT]
        point[curves.WINDOW_LOSS] = core.window_loss(self._core, self._held)
        point[curves.BASE_LOSS] = self._sums[CUMULATIVE, base] / self._sums[CUMULATIVE, WEIGHT]
        point[curves.FADED_BASE_LOSS] = self._sums[FADED, base] / self._sums[FADED, WEIGHT]
        if self._link != REAL:
            point[curves.AUC] = histogram_auc(self._histogram[CUMULATIVE, 0], self._histogram[CUMULATIVE, 1])
        return point


def _require(arrays: Arrays, name: str, dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> F64:
    """Return a copy of an array of exactly this type and shape. Raises `Corrupt`."""
    array = arrays.get(name)
    if array is None or array.dtype != dtype or array.shape != shape:
        found = "nothing" if array is None else f"{array.dtype}{list(array.shape)}"
        raise Corrupt(f"watch: {name}: expected {dtype}{list(shape)}, found {found}")
    return np.array(array, order="C")
