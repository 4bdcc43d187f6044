"""Rows whose variables are curves or numbers, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, get_args

import numpy as np

from riata.base.arrays import BOOL, F64, I64
from riata.base.errors import BadInput
from riata.native.library import core, struct

# Dynamic time warping of curves with any number of channels; the method is in `service/native/trees.c`.

NO_WINDOW: Final = -1


class Curves(NamedTuple):
    """Curves of any lengths.

    start    : i64[n + 1]   curve i has the points start[i] : start[i + 1], at least one
    value    : f64[channels start[n]]   channel by channel: first all points of channel 0 of a curve, then those of channel 1
    channels : int
    """

    start: I64
    value: F64
    channels: int


Prototypes = Any  # a `riata_prototypes`


def curve(curves: Curves, i: int) -> F64:
    """Return the values of a curve, channel by channel."""
    return curves.value[curves.channels * curves.start[i] : curves.channels * curves.start[i + 1]]


def warp_pairs(curves: Curves, window: int, first: int, end: int, out: F64) -> None:
    """Write the distances between the curves first : end and all before them; see `riata_warp_pairs`."""
    core.warp_pairs(_struct(curves), window, first, end, out, _scratch(curves, np.arange(end)))


def prototypes_of(left: F64, right: F64, channels: int) -> Prototypes:
    """Return two curves in the form that curves are compared with."""
    points = {"left_points": len(left) // channels, "right_points": len(right) // channels}
    return struct("riata_prototypes", left=left, right=right, **points)


def nearer_left(curves: Curves, at: I64, pair: Prototypes, window: int, is_warped: bool) -> BOOL:
    """Return whether the curves `at` are at least as near to the left prototype as to the right one; see `riata_nearer_left`.

    window : NO_WINDOW: any
    """
    found = np.empty(len(at), np.bool_)
    scratch = _scratch(curves, at, pair.left_points, pair.right_points)
    core.nearer_left(_struct(curves), at, len(at), pair, window, is_warped, found, scratch)
    return found


def _struct(curves: Curves) -> Any:
    return struct("riata_curves", start=curves.start, value=curves.value, n=len(curves.start) - 1, channels=curves.channels)


def _scratch(curves: Curves, at: I64, *others: int) -> F64:
    longest = max(int((curves.start[at + 1] - curves.start[at]).max(initial=0)), *others, 0)
    return np.empty((4 + curves.channels) * longest + 8)


Distance = Literal["dtw", "euclid"]
DISTANCES: Final = get_args(Distance)
MATRIX: Final = 2  # dimensions of a curve with channels


@dataclass(frozen=True, slots=True)
class CurveVariable:
    """A variable of curves.

    window : of the warping, in points; None: any
    """

    name: str
    curves: Curves
    distance: Distance
    window: int | None = None

    @property
    def rows(self) -> int:
        """How many curves."""
        return len(self.curves.start) - 1

    @property
    def lengths(self) -> I64:
        """i64[n]: points of each curve."""
        return np.diff(self.curves.start)

    @property
    def warp_window(self) -> int:
        """The window as the kernels take it."""
        return NO_WINDOW if self.window is None else self.window

    def widened(self) -> int:
        """The window that the most unlike lengths need, if it is more than the window; otherwise 0."""
        needed = int(np.ptp(self.lengths))
        return needed if self.window is not None and needed > self.window else 0


@dataclass(frozen=True, slots=True)
class NumberVariable:
    """A variable of numbers. value : f64[n]"""

    name: str
    value: F64

    @property
    def rows(self) -> int:
        """How many numbers."""
        return len(self.value)


Variable = CurveVariable | NumberVariable


def rows_of(variables: Sequence[Variable]) -> int:
    """Return how many rows variables have. Raises `BadInput` if they differ, or there is none."""
    if not variables:
        raise BadInput("there is no variable", "no_events")
    counts = {variable.name: variable.rows for variable in variables}
    if len(set(counts.values())) > 1:
        raise BadInput(f"variables have different numbers of rows: {counts}", "rows_differ")
    rows = next(iter(counts.values()))
    if not rows:
        raise BadInput("there are no rows", "no_events")
    return rows


def curve_variable(
    name: str, given: Sequence[Any], distance: str = "dtw", window: int | None = None, like: CurveVariable | None = None
) -> CurveVariable:
    """Check curves. Each is a sequence of numbers, or of points with several channels (points by channels).

    like : the variable of a tree that is to take them; they need its channels and, under "euclid", its length

    Raises `BadInput` that names the variable and the row: `empty_curve`, `not_finite`, `channels_differ`, `lengths_differ`
    (under "euclid"), `out_of_range` for a distance or window that is none.
    """
    if distance not in DISTANCES:
        raise BadInput(f"distance: {distance!r} is none of {', '.join(DISTANCES)}", "out_of_range")
    if window is not None and window < 0:
        raise BadInput(f"window: expected a number of points of at least 0, got {window}", "out_of_range")
    made = [_curve(name, row, one) for row, one in enumerate(given)]
    channels = like.curves.channels if like is not None else made[0].shape[1] if made else 1
    length = int(like.lengths[0]) if like is not None and len(like.lengths) else len(made[0]) if made else 1
    for row, one in enumerate(made):
        if one.shape[1] != channels:
            raise _refused(name, row, f"the curve has {one.shape[1]} channels, expected {channels}", "channels_differ")
        if distance == "euclid" and len(one) != length:
            detail = f"the curve has {len(one)} points, expected {length}: the Euclidean distance needs one length; use dtw"
            raise _refused(name, row, detail, "lengths_differ")
    start = np.concatenate([[0], np.cumsum([len(one) for one in made])]).astype(np.int64)
    value = np.concatenate([one.T.ravel() for one in made]) if made else np.empty(0)
    return CurveVariable(name, Curves(start, value, channels), _distance(distance), window)


def number_variable(name: str, given: Any) -> NumberVariable:
    """Check numbers. Raises `BadInput` (code `not_finite`) that names the row."""
    value = np.asarray(given, np.float64)
    wrong = np.flatnonzero(~np.isfinite(value))
    if len(wrong):
        raise _refused(name, int(wrong[0]), f"{value[wrong[0]]} is no finite number", "not_finite")
    return NumberVariable(name, value)


def numbers_of(labels: Sequence[Any], classes: Sequence[Any]) -> I64:
    """Return the number of each label among the classes."""
    number = {value: at for at, value in enumerate(classes)}
    return np.array([number[label] for label in labels], np.int64)


def variables_of(
    given: Mapping[str, Sequence[Any]], distance: str, window: int | None, like: Sequence[Variable] | None = None
) -> list[Variable]:
    """Return the variables of rows by name: those whose first row is a number are numbers, the others curves.

    like : the variables of a tree; then exactly those are taken, in its order and with its distances
    """
    if like is None:
        return [_variable(name, values, distance, window, None) for name, values in given.items()]
    missing = [variable.name for variable in like if variable.name not in given]
    if missing:
        raise BadInput(f"variable {missing[0]!r} is missing; the tree has {', '.join(one.name for one in like)}", "no_variable")
    return [_variable(one.name, given[one.name], distance, window, one) for one in like]


def _variable(name: str, values: Sequence[Any], distance: str, window: int | None, like: Variable | None) -> Variable:
    is_number = isinstance(like, NumberVariable) if like is not None else len(values) > 0 and np.ndim(values[0]) == 0
    if is_number:
        if any(np.ndim(one) for one in values):
            raise BadInput(f"variable {name!r}: expected a number in each row, got a curve", "channels_differ")
        return number_variable(name, values)
    if isinstance(like, CurveVariable):
        return curve_variable(name, values, like.distance, like.window, like)
    return curve_variable(name, values, distance, window)


def _distance(name: str) -> Distance:
    return "dtw" if name == "dtw" else "euclid"


def _curve(name: str, row: int, given: Any) -> F64:
    """Return a curve as f64[points, channels]."""
    try:
        points = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        raise _refused(name, row, "expected numbers, or points of equally many numbers", "channels_differ") from None
    if points.ndim == 1:
        points = points[:, np.newaxis]
    if points.ndim != MATRIX:
        raise _refused(name, row, "expected numbers, or points of equally many numbers", "channels_differ")
    if not points.size:
        raise _refused(name, row, "the curve is empty", "empty_curve")
    if not np.all(np.isfinite(points)):
        at = int(np.flatnonzero(~np.isfinite(points).all(axis=1))[0])
        raise _refused(name, row, f"point {at} is not finite", "not_finite")
    return points


def _refused(name: str, row: int, detail: str, code: str) -> BadInput:
    return BadInput(f"variable {name!r}, row {row}: {detail}", code)
