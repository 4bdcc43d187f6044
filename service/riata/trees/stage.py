"""A tree as a stage of the encoder: it turns a curve into leaves, and travels in base64 inside a configuration."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from riata.base.arrays import F64
from riata.base.errors import BadInput, Malformed
from riata.trees.curves import Curves, CurveVariable, Prototypes, curve, nearer_left, prototypes_of
from riata.trees.tree import LEAF, Tree, draw_tree, read_tree
from riata.wire.encoder import POINTS_MAX

BYTES_MAX: Final = 2**20  # of a tree in a configuration
SPLITS_MAX: Final = 256  # that one curve meets, all trees of an output code together
VALUES_MAX: Final = 2**16  # of their prototypes
_DIGEST_BYTES: Final = 16
_ONLY: Final = np.zeros(1, np.int64)  # the number of the one curve


class Walk(NamedTuple):
    """A tree as lists: by node the left and the right child, and the prototypes, None at a leaf."""

    roots: list[int]
    children: list[tuple[int, int]]
    prototypes: list[Prototypes | None]


@dataclass(frozen=True, slots=True)
class TreeStage:
    """A tree of one curve. Equal if the digests are.

    digest : BLAKE2b of the file, 32 hexadecimal digits
    text   : the file in base64
    """

    digest: str
    text: str = field(compare=False, repr=False)
    tree: Tree = field(compare=False, repr=False)
    walk: Walk = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        tree, curves = self.tree, self.curve.curves
        inner = zip((tree.variable != LEAF).tolist(), (2 * tree.prototype).tolist(), strict=True)
        pairs = [
            prototypes_of(curve(curves, first), curve(curves, first + 1), curves.channels) if is_inner else None
            for is_inner, first in inner
        ]
        children = list(zip(tree.left.tolist(), tree.right.tolist(), strict=True))
        object.__setattr__(self, "walk", Walk(tree.root.tolist(), children, pairs))

    @property
    def curve(self) -> CurveVariable:
        """The variable of the tree, with its prototypes."""
        only = self.tree.variables[0]
        assert isinstance(only, CurveVariable)
        return only

    @property
    def channels(self) -> int:
        """Numbers of each point."""
        return self.curve.curves.channels

    @property
    def length(self) -> int | None:
        """The number of points that a curve needs, under the Euclidean distance; None: any."""
        lengths = self.curve.lengths
        return int(lengths[0]) if self.curve.distance == "euclid" and len(lengths) else None

    def leaves(self, points: F64) -> list[int]:
        """Return the leaf in which a curve ends, f64[points, channels]; of trees of an output code, one leaf of each.

        Equal to `Tree.leaves` of one row, without what that prepares for many.
        """
        own = self.curve
        given = Curves(np.array([0, len(points)]), points.T.ravel(), own.curves.channels)
        found = []
        for root in self.walk.roots:
            node = root
            while (pair := self.walk.prototypes[node]) is not None:
                is_left = nearer_left(given, _ONLY, pair, own.warp_window, own.distance == "dtw")[0]
                node = self.walk.children[node][0 if is_left else 1]
            found.append(node)
        return found

    def described(self, field: str) -> dict[str, Any]:
        """Return what the leaves of curves in `field` are, for people. `path` says which prototypes a curve of a leaf is nearer
        to."""
        own, tree = self.curve, self.tree
        labels = tree.classes if tree.code is None else (0, 1)
        leaves = [
            {
                "feature": f"{field}#{node}",
                "path": " and ".join(path) or "every curve",
                "rows": {str(label): int(n) for label, n in zip(labels, tree.counts[node], strict=True) if n},
            }
            for node, path in _paths(tree)
        ]
        shape = {"channels": self.channels, "length": self.length, "distance": own.distance, "window": own.window}
        drawn = {"drawing": draw_tree(tree), "file": self.text}
        return {"field": field, "digest": self.digest, **shape, "leaves": leaves, **drawn}


def read_stage(text: str, path: str) -> TreeStage:
    """Read a tree in base64. path : of the setting, for errors.

    Raises `BadInput`: `not_a_tree`, `tree_too_large`, and `not_one_curve` for a tree of several variables.
    """
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise BadInput(f"{path}: expected the file that `riata tree --out` writes, in base64", "not_a_tree") from None
    if len(content) > BYTES_MAX:
        raise BadInput(
            f"{path}: the tree has {len(content)} bytes, at most {BYTES_MAX} fit; grow it with --depth", "tree_too_large"
        )
    try:
        tree = read_tree(content)
    except Malformed as error:
        raise BadInput(f"{path}: {error.detail}", "not_a_tree") from None
    if len(tree.variables) != 1 or not isinstance(tree.variables[0], CurveVariable):
        names = ", ".join(one.name for one in tree.variables)
        raise BadInput(f"{path}: the tree needs one curve and no other variable; it has {names}", "not_one_curve")
    digest = hashlib.blake2b(content, digest_size=_DIGEST_BYTES).hexdigest()
    made = TreeStage(digest, base64.b64encode(content).decode(), tree)
    splits, values = _most_compared(tree, made.curve)
    if splits > SPLITS_MAX or values > VALUES_MAX or made.curve.lengths.max(initial=0) > POINTS_MAX:
        found = f"a curve meets up to {splits} splits and {values} values of prototypes"
        most = f"at most {SPLITS_MAX} and {VALUES_MAX}, of curves of {POINTS_MAX} points, fit"
        raise BadInput(f"{path}: {found}; {most}; grow the tree with --depth, or from shorter curves", "tree_too_large")
    return made


def _paths(tree: Tree) -> Iterator[tuple[int, list[str]]]:
    """Yield each leaf, in the order of the numbers of its inner nodes, and the sides that lead to it."""
    waiting: list[tuple[int, list[str]]] = [(root, []) for root in reversed(tree.root.tolist())]
    while waiting:
        node, path = waiting.pop()
        if tree.variable[node] == LEAF:
            yield node, path
            continue
        for child, side in ((tree.right, "right"), (tree.left, "left")):
            waiting.append((int(child[node]), [*path, f"nearer to the {side} curve of split {node}"]))


def _most_compared(tree: Tree, own: CurveVariable) -> list[int]:
    """Return how many splits and values of prototypes a curve meets at most, over all trees of an output code."""
    pairs = own.lengths[: len(own.lengths) // 2 * 2].reshape(-1, 2).sum(axis=1)
    most = np.zeros((len(tree.variable), 2), np.int64)
    for node in range(len(most) - 1, -1, -1):  # children come after their parents
        if tree.variable[node] != LEAF:
            here = np.array([1, own.curves.channels * pairs[tree.prototype[node]]])
            most[node] = here + np.maximum(most[tree.left[node]], most[tree.right[node]])
    found: list[int] = most[tree.root].sum(axis=0).tolist()
    return found
