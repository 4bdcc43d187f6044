"""Calls every kernel of functional trees once: compiles them, or loads their machine code."""

from __future__ import annotations

import numpy as np

from riata.trees.curves import DISTANCES, curve_variable
from riata.trees.growing import Growth, grow


def grow_two_rows() -> None:
    """Grow a tree from two rows, under each distance, and predict them."""
    for distance in DISTANCES:
        variables = [curve_variable("x", [[0.0, 1.0], [1.0, 0.0]], distance)]
        grow(variables, np.array([0, 1]), [0, 1], Growth(restarts=1, prune=0.0)).predict(variables)
