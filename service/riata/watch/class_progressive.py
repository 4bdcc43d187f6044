"""Progressive validation of several classes: error, log loss, and recall and precision of each class."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from riata.base.arrays import F64, Arrays
from riata.base.errors import Corrupt
from riata.native.library import core
from riata.watch import figures, progressive
from riata.watch.figures import (
    CELL_EXAMPLES,
    CELL_OBSERVED,
    CELL_PREDICTED,
    CELL_WEIGHT,
    CELLS,
    CORRECT,
    CUMULATIVE,
    FADED,
    LOG_LOSS,
    PAST,
    PAST_BASE,
    PAST_LABEL,
    PAST_LOSS,
    PAST_MARGIN,
    PAST_WEIGHT,
    SCALE,
    SUMS,
    WEIGHT,
    Figures,
    calibration_cells,
    calibration_error,
    horizon_figures,
    ratio,
)
from riata.watch.progressive import NEW, RECENT, Progressive, ProgressiveConfig

# Columns of `by_class`, sums of weights over the events of a class, or that were given the class.
SUPPORT: Final = 0
GIVEN: Final = 1
HITS: Final = 2
COST: Final = 3  # times the log loss
PER_CLASS: Final = 4

# Of the window: PAST_MARGIN holds the probability of the winner, PAST_LABEL the class, PAST_BASE the loss of the base rate.
PAST_WINNER: Final = PAST
PAST_OF_CLASSES: Final = PAST + 1

HORIZONS: Final = ("cumulative", "faded", "window")


class ClassProgressive(Progressive):
    """`Progressive` for margins f64[n, k], one for each class, and labels that are numbers of classes.

    Accuracy, calibration and log loss are those of the class of the largest margin; there is no AUC and no base rate of a class.
    """

    past_rows = PAST_OF_CLASSES

    def __init__(self, config: ProgressiveConfig, names: Sequence[str]) -> None:
        self.names: tuple[str, ...] = tuple(names)
        self._by_class: F64 = np.zeros((2, len(self.names), PER_CLASS))
        super().__init__(config)

    def grow(self, names: Sequence[str]) -> None:
        """Have the classes `names`, of which those so far are the first."""
        more = len(names) - len(self.names)
        self.names = tuple(names)
        self._by_class = np.concatenate((self._by_class, np.zeros((2, more, PER_CLASS))), axis=1)
        self._core = self._made_core(self.examples)

    def figures(self) -> Figures:
        """Return what `Progressive.figures` returns, `classes` (figures of each class by horizon) and `macro` (their means over
        the classes that occurred)."""
        count, width = self._held, self.config.window
        columns = np.arange(self.examples - count, self.examples) % width
        sums, by_class, cells = self._of_window(columns)
        recent, _, of_recent = self._of_window(columns[-RECENT:])
        kept = [(self._sums[h], self._by_class[h]) for h in (CUMULATIVE, FADED)]
        of_horizon = dict(zip(HORIZONS, [*kept, (sums, by_class)], strict=True))
        told = {name: [_of_class(row) for row in rows.tolist()] for name, (_, rows) in of_horizon.items()}
        errors = [calibration_error(each) for each in (self._calibration, cells, of_recent)]
        found = {name: self._whole(whole) for name, (whole, _) in of_horizon.items()}
        newest = {"examples": len(columns[-RECENT:]), **self._whole(recent), "calibration_error": errors[2]}
        return {
            "cumulative": {"examples": self.examples, **found["cumulative"], "calibration_error": errors[0]},
            "faded": {"half_life": self.config.half_life, **found["faded"]},
            "window": {"examples": count, **found["window"], "calibration_error": errors[1]},
            "recent": newest,
            "calibration": calibration_cells(self._calibration, self._link),
            "window_calibration": calibration_cells(cells, self._link),
            "classes": [{"class": name, **{h: told[h][k] for h in HORIZONS}} for k, name in enumerate(self.names)],
            "macro": {h: _means(told[h]) for h in HORIZONS},
        }

    def freeze(self) -> Arrays:
        """Return copies of the state, which determine every later figure to the last bit."""
        return {**super().freeze(), "by_class": self._by_class.copy()}

    def thaw(self, arrays: Arrays, header: Mapping[str, Any] = NEW) -> None:
        """Restore the state from `freeze` and a header, with the same classes. Raises as `Observer.thaw` does, and then changes
        nothing."""
        rows = arrays.get("by_class")
        if rows is None or rows.dtype != np.float64 or rows.shape != self._by_class.shape:
            raise Corrupt(f"watch: by_class: expected the sums of {len(self.names)} classes")
        sums = rows.astype(np.float64)
        if not np.isfinite(sums).all() or bool((sums < 0.0).any()):
            raise Corrupt("watch: by_class has a number that is negative or not finite")
        window = arrays.get("window", np.zeros((PAST_OF_CLASSES, 0)))
        if window.ndim != 2 or len(window) != PAST_OF_CLASSES or not _are_classes(window, len(self.names)):
            raise Corrupt("watch: the window has an event of a class that the model does not have")
        super().thaw(arrays, header)
        self._by_class = sums
        self._core = self._made_core(self.examples)

    def memory(self) -> dict[str, int]:
        """Return bytes by part."""
        return {**super().memory(), "by_class": self._by_class.nbytes}

    def _leave_arrays(self) -> None:
        super()._leave_arrays()
        self._by_class = self._by_class.copy()

    def _arrays(self) -> dict[str, F64]:
        return {**super()._arrays(), "by_class": self._by_class, "chance": np.empty(len(self.names))}

    def _made_core(self, examples: int) -> Any:
        made = super()._made_core(examples)
        made.classes = len(self.names)
        return made

    def _tally(self, margin: F64, label: F64, weight: F64) -> None:
        if core.tally_classes(self._core, margin, label, weight, len(label)) < len(label):
            raise ValueError(f"a label is not the number of one of {len(self.names)} classes")

    def _point(self, seq: int) -> F64:
        point = super()._point(seq)
        point[progressive.AUC] = math.nan
        return point

    def _whole(self, sums: F64, auc: float = math.nan) -> Figures:
        return {**horizon_figures(sums, auc, self._link), "base_rate": None, "error": _error(sums)}

    def _of_window(self, columns: Any) -> tuple[F64, F64, F64]:
        """Return the sums, those by class, and the cells of the calibration of the events in the window."""
        past = self._window[:, columns]
        weight, cost, probability = past[PAST_WEIGHT], past[PAST_LOSS], past[PAST_MARGIN]
        label, winner, k = past[PAST_LABEL].astype(np.int64), past[PAST_WINNER].astype(np.int64), len(self.names)
        right = weight * (label == winner)
        sums, by_class, cells = np.zeros(SUMS), np.zeros((k, PER_CLASS)), np.zeros_like(self._calibration)
        sums[SCALE], sums[WEIGHT], sums[CORRECT], sums[figures.OBSERVED] = 1.0, weight.sum(), right.sum(), right.sum()
        sums[LOG_LOSS] = sums[figures.LOSS] = (weight * cost).sum()
        sums[figures.BASE_LOG_LOSS] = sums[figures.BASE_LOSS] = (weight * past[PAST_BASE]).sum()
        sums[figures.PREDICTED] = (weight * probability).sum()
        for column, at, share in (
            (SUPPORT, label, weight), (GIVEN, winner, weight), (HITS, label, right), (COST, label, weight * cost)
        ):  # fmt: skip
            by_class[:, column] = np.bincount(at, share, k)
        cell = np.minimum((probability * CELLS).astype(np.int64), CELLS - 1)
        cells[:, CELL_EXAMPLES] = np.bincount(cell, minlength=CELLS)
        for column, share in ((CELL_WEIGHT, weight), (CELL_PREDICTED, weight * probability), (CELL_OBSERVED, right)):
            cells[:, column] = np.bincount(cell, share, CELLS)
        return sums, by_class, cells


def _are_classes(window: Any, classes: int) -> bool:
    held = window[[PAST_LABEL, PAST_WINNER]]
    return bool(((held >= 0) & (held < max(classes, 1)) & (held == np.floor(held))).all())


def _error(sums: F64) -> float | None:
    accuracy = ratio(float(sums[CORRECT]), float(sums[WEIGHT]))
    return None if accuracy is None else 1.0 - accuracy


def _of_class(row: Sequence[float]) -> Figures:
    """Return the figures of one class from its sums, whose scale cancels out."""
    recall, precision = ratio(row[HITS], row[SUPPORT]), ratio(row[HITS], row[GIVEN])
    return {
        "recall": recall,
        "precision": precision,
        "f1": ratio(2.0 * row[HITS], row[SUPPORT] + row[GIVEN]),
        "log_loss": ratio(row[COST], row[SUPPORT]),
    }


def _means(classes: Sequence[Figures]) -> Figures:
    """Return the means over the classes that occurred. A class that was never given has precision 0."""
    found = [one for one in classes if one["recall"] is not None]
    names = ("recall", "precision", "f1", "log_loss")
    return {name: ratio(sum(one[name] or 0.0 for one in found), len(found)) for name in names}
