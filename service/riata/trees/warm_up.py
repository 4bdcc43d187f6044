"""Calls the kernels of functional trees once: compiles them, or loads their machine code."""

from __future__ import annotations

import numpy as np

from riata.maths.warping import curve
from riata.trees.curves import DISTANCES, curve_variable
from riata.trees.growing import Growth, grow
from riata.trees.tree import sides


def grow_two_rows() -> None:
    """Grow a tree from two rows, under each distance, and predict them."""
    for distance in DISTANCES:
        variables = [curve_variable("x", [[0.0, 1.0], [1.0, 0.0]], distance)]
        grow(variables, np.array([0, 1]), [0, 1], Growth(restarts=1, prune=0.0)).predict(variables)


def find_leaves() -> None:
    """Compare two curves with two prototypes, which is all that finding leaves needs."""
    own = curve_variable("x", [[0.0, 1.0], [1.0, 0.0]])
    sides(own.curves, np.arange(2), (curve(own.curves, 0), curve(own.curves, 1)), own)
