"""Reads a decoded JSON value as a curve."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np

from riata.base.arrays import F64
from riata.wire.codes import BAD_CURVE, CHANNELS_DIFFER, CURVE_LENGTH, CURVE_NOT_FINITE, CURVE_TOO_LONG, EMPTY_CURVE, OK
from riata.wire.curves import CURVE_ABS_MAX, POINTS_MAX, CurveTree


def points_of(value: Any, tree: CurveTree) -> tuple[F64, int]:
    """Read a decoded JSON value as a curve: a list of numbers, or of points that are lists of one number for each channel.

    Returns f64[points, channels] and OK; otherwise a code of `wire.codes`.
    """
    nothing = np.empty((0, tree.channels))
    if type(value) is not list:
        return nothing, BAD_CURVE
    if not value:
        return nothing, EMPTY_CURVE
    if len(value) > POINTS_MAX:
        return nothing, CURVE_TOO_LONG
    kinds = set(map(type, value))
    if kinds == {list}:
        widths, kinds = set(map(len, value)), set(map(type, chain.from_iterable(value)))
    else:
        widths = {1}
    if kinds - {float}:
        return nothing, BAD_CURVE
    if widths != {tree.channels}:
        return nothing, CHANNELS_DIFFER
    points = np.array(value, np.float64).reshape(len(value), tree.channels)
    if not bool((np.abs(points) <= CURVE_ABS_MAX).all()):
        return nothing, CURVE_NOT_FINITE
    return (points, OK) if tree.length in (None, len(points)) else (nothing, CURVE_LENGTH)
