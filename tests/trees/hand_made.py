"""Trees of curves that are made by hand, without growing them."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np

from riata.trees.curves import curve_variable
from riata.trees.tree import LEAF, Tree

UP, DOWN, FLAT = [0.0, 1.0, 2.0, 3.0], [3.0, 2.0, 1.0, 0.0], [2.0, 1.0, 1.0, 1.0]


def two_splits(distance: str = "dtw", curves: Sequence[Any] = (UP, DOWN, DOWN, FLAT)) -> Tree:
    """Node 0 sends curves nearer to UP to leaf 1; node 2 sends those nearer to DOWN to leaf 3, and the others to leaf 4."""
    i32 = np.int32
    return Tree(
        classes=("up", "down", "flat"),
        code=None,
        variables=(curve_variable("x", list(curves), distance),),
        root=np.zeros(1, i32),
        variable=np.array([0, LEAF, 0, LEAF, LEAF], i32),
        left=np.array([1, -1, 3, -1, -1], i32),
        right=np.array([2, -1, 4, -1, -1], i32),
        prototype=np.array([0, -1, 1, -1, -1], i32),
        threshold=np.zeros(5),
        counts=np.array([[4, 3, 3], [4, 0, 0], [0, 3, 3], [0, 3, 0], [0, 0, 3]]),
    )


def text_of(tree: Tree) -> str:
    """The file of a tree, as a configuration carries it."""
    return base64.b64encode(tree.encode()).decode()
