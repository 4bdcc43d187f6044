"""Growing and pruning of functional decision trees.

Restarts are drawn by counter: from the seed, the tree and the path to the node. Nothing depends on threads or on the order in
which nodes are grown.

All distances between the curves of a variable are computed once, at the root, and serve every node of every tree. If they do
not fit into the bound, a node with too many rows takes prototypes among a random sample of them, and all its rows are parted
by these; nodes below that fit compute their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from riata.base.arrays import BOOL, F64, I64, U64
from riata.base.errors import BadInput
from riata.native.library import core, struct
from riata.trees.curves import Curves, CurveVariable, NumberVariable, Variable, curve, rows_of, warp_pairs
from riata.trees.tree import LEAF, Tree, below, code_words, random_bits, sides

RESTARTS: Final = 50
MEMORY_BYTES_MAX: Final = 2**30
LEAST_FALL: Final = 1e-12  # of impurity: less is rounding
NUMBER_BYTES: Final = 8
CHUNKS: Final = 16  # of lines of distances, for each thread: later lines are longer
HOLD_OUT: Final = np.uint64(1)  # streams of random numbers beside the paths, which begin at 2^32
FIRST_PATH: Final = 2**32


@dataclass(frozen=True, slots=True)
class Growth:
    """How to grow.

    restarts         : pairs of curves tried for each variable of curves in each node
    prune            : share of the rows held out, by which subtrees are pruned; 0: none
    code             : one tree for each bit of an output code, if there are more than two classes
    leaf             : least rows of a leaf
    depth            : most splits from the root to a leaf; None: any
    memory_bytes_max : of the distances between curves
    """

    restarts: int = RESTARTS
    prune: float = 0.1
    code: bool = False
    leaf: int = 1
    depth: int | None = None
    seed: int = 0
    memory_bytes_max: int = MEMORY_BYTES_MAX
    threads: int = 1

    def __post_init__(self) -> None:
        """Raise `BadInput` (code `out_of_range`)."""
        for name, least in (("restarts", 1), ("leaf", 1), ("seed", 0), ("memory_bytes_max", 1), ("threads", 1)):
            if getattr(self, name) < least:
                raise BadInput(f"{name}: expected at least {least}, got {getattr(self, name)}", "out_of_range")
        if not 0.0 <= self.prune < 1.0:
            raise BadInput(f"prune: expected a share from 0 to below 1, got {self.prune}", "out_of_range")
        if self.depth is not None and self.depth < 0:
            raise BadInput(f"depth: expected at least 0, got {self.depth}", "out_of_range")


def grow(variables: Sequence[Variable], label: I64, classes: Sequence[Any], growth: Growth) -> Tree:
    """Grow and prune a tree, or one for each bit of an output code.

    label : i64[rows], numbers of `classes`. Raises `BadInput` if rows do not fit together.
    """
    n = rows_of(variables)
    if len(label) != n:
        raise BadInput(f"there are {n} rows and {len(label)} labels", "rows_differ")
    code = code_words(len(classes)) if growth.code and len(classes) > 2 else None
    held, kept = held_out(n, growth)
    with ThreadPoolExecutor(growth.threads, "riata-trees") as pool:
        whole = _Distances(variables, growth, pool.map if growth.threads > 1 else map).of(kept)
        questions = [label] if code is None else [code[label, bit] for bit in range(code.shape[1])]
        width = len(classes) if code is None else 2

        def one(number: int) -> _Growing:
            made = _Growing(variables, questions[number], width, growth, number)
            made.grow(kept, whole)
            if len(held):
                made.prune(held)
            return made

        grown = list((pool.map if growth.threads > 1 else map)(one, range(len(questions))))
    return _joined(grown, variables, tuple(classes), code)


def held_out(n: int, growth: Growth) -> tuple[I64, I64]:
    """Return the rows that are held out for pruning and the others, both increasing."""
    size = round(growth.prune * n)
    drawn = np.array([random_bits(growth.seed, HOLD_OUT, row) for row in range(n)], np.uint64)
    order = np.argsort(drawn, kind="stable")
    return np.sort(order[:size]), np.sort(order[size:])


@dataclass(frozen=True, slots=True)
class _Matrix:
    """Distances between some rows. rows : i64[m], increasing. distance : f64[m, m]"""

    rows: I64
    distance: F64

    def among(self, rows: I64) -> F64:
        """The distances between some of its rows."""
        if len(rows) == len(self.rows):
            return self.distance
        at = np.searchsorted(self.rows, rows)
        found: F64 = self.distance[np.ix_(at, at)]
        return found


Held = dict[int, _Matrix]  # by the number of the variable


@dataclass(frozen=True, slots=True)
class _Distances:
    """Computes distances within the bound."""

    variables: Sequence[Variable]
    growth: Growth
    run: Callable[..., Any]

    def of(self, rows: I64) -> Held:
        """Those of all variables, as far as they fit."""
        warped = [v for v, one in enumerate(self.variables) if isinstance(one, CurveVariable) and one.distance == "dtw"]
        if len(rows) > room(self.variables, self.growth):
            return {}
        return {v: _Matrix(rows, pair_distances(self.variables[v], rows, self.run, self.growth.threads)) for v in warped}


def room(variables: Sequence[Variable], growth: Growth) -> int:
    """Return how many rows may have their distances kept."""
    warped = sum(isinstance(one, CurveVariable) and one.distance == "dtw" for one in variables)
    return math.isqrt(growth.memory_bytes_max // (NUMBER_BYTES * max(warped, 1)))


def pair_distances(variable: Variable, rows: I64, run: Callable[..., Any] = map, threads: int = 1) -> F64:
    """Return the distances between all pairs of some rows, f64[m, m]."""
    assert isinstance(variable, CurveVariable)
    some = taken(variable.curves, rows)
    m = len(rows)
    distance = np.zeros((m, m))
    cuts = np.unique(np.round(m * np.sqrt(np.linspace(0.0, 1.0, CHUNKS * threads + 1))).astype(np.int64))

    def chunk(bounds: tuple[int, int]) -> None:
        warp_pairs(some, variable.warp_window, *bounds, distance)

    list(run(chunk, zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)))
    distance += distance.T
    return distance


def taken(curves: Curves, rows: I64) -> Curves:
    """Return some curves as curves of their own."""
    pieces = [curve(curves, int(row)) for row in rows]
    start = np.concatenate([[0], np.cumsum([len(piece) // curves.channels for piece in pieces])]).astype(np.int64)
    return Curves(start, np.concatenate(pieces) if pieces else np.empty(0), curves.channels)


@dataclass(slots=True)
class _Node:
    rows: I64
    path: int
    depth: int
    counts: I64
    variable: int = LEAF
    left: int = LEAF
    right: int = LEAF
    threshold: float = math.nan
    prototypes: tuple[F64, F64] | None = None


@dataclass(frozen=True, slots=True)
class _Split:
    decrease: float
    variable: int = LEAF
    threshold: float = math.nan
    prototypes: tuple[F64, F64] | None = None


@dataclass(slots=True)
class _Growing:
    """One tree."""

    variables: Sequence[Variable]
    label: I64
    classes: int
    growth: Growth
    number: int
    nodes: list[_Node] = field(default_factory=list)

    def grow(self, rows: I64, held: Held) -> None:
        """Grow from all rows."""
        self.nodes = [self._node(rows, FIRST_PATH + self.number, 0)]
        waiting = [(0, held)]
        while waiting:
            at, distances = waiting.pop()
            node = self.nodes[at]
            if np.count_nonzero(node.counts) < 2 or node.depth == self.growth.depth:
                continue
            if not distances and len(node.rows) <= room(self.variables, self.growth):
                distances = _Distances(self.variables, self.growth, map).of(node.rows)
            best = self._best(node, distances)
            if best.decrease <= LEAST_FALL:
                continue
            is_left = self._side(best, node.rows)
            parts = node.rows[is_left], node.rows[~is_left]
            if min(map(len, parts)) < self.growth.leaf:
                continue
            node.variable, node.threshold, node.prototypes = best.variable, best.threshold, best.prototypes
            node.left, node.right = len(self.nodes), len(self.nodes) + 1
            for side, part in enumerate(parts):
                path = random_bits(self.growth.seed, node.path, 2**63 + side) | FIRST_PATH
                waiting.append((len(self.nodes), distances))
                self.nodes.append(self._node(part, path, node.depth + 1))

    def prune(self, rows: I64) -> None:
        """Replace subtrees by leaves where that gives strictly fewer errors on rows that were held out."""
        reached: list[I64] = [np.empty(0, np.int64)] * len(self.nodes)
        reached[0] = rows
        for at, node in enumerate(self.nodes):
            if node.variable != LEAF:
                is_left = self._side(_Split(0.0, node.variable, node.threshold, node.prototypes), reached[at])
                reached[node.left], reached[node.right] = reached[at][is_left], reached[at][~is_left]
        errors = [0] * len(self.nodes)
        for at in range(len(self.nodes) - 1, -1, -1):
            node = self.nodes[at]
            own = int((self.label[reached[at]] != np.argmax(node.counts)).sum())
            below_it = math.inf if node.variable == LEAF else errors[node.left] + errors[node.right]
            if own < below_it:
                node.variable, errors[at] = LEAF, own
            else:
                errors[at] = int(below_it)

    def _node(self, rows: I64, path: int, depth: int) -> _Node:
        return _Node(rows, path, depth, np.bincount(self.label[rows], minlength=self.classes).astype(np.int64))

    def _best(self, node: _Node, held: Held) -> _Split:
        """The split with the largest decrease of impurity, the first of several."""
        best = _Split(0.0)
        for v, variable in enumerate(self.variables):
            if isinstance(variable, NumberVariable):
                decrease, threshold = best_threshold(variable.value[node.rows], self.label[node.rows], self.classes)
                found = _Split(decrease, v, threshold)
            elif variable.distance == "euclid":
                found = self._means(node, v, variable)
            else:
                found = self._medoids(node, v, variable, held.get(v))
            best = found if found.decrease > best.decrease else best
        return best

    def _means(self, node: _Node, v: int, variable: CurveVariable) -> _Split:
        points = int(variable.lengths[0]) * variable.curves.channels
        x = variable.curves.value.reshape(-1, points)[node.rows]
        prototypes = np.empty((2, points))
        decrease = best_means(x, self.label[node.rows], self.classes, self._pairs(node, v, len(x)), prototypes)
        return _Split(float(decrease), v, math.nan, (prototypes[0], prototypes[1]))

    def _medoids(self, node: _Node, v: int, variable: CurveVariable, matrix: _Matrix | None) -> _Split:
        rows = node.rows
        if matrix is None:
            rows = self._sample(node, v)
            distance = pair_distances(variable, rows)
        else:
            distance = matrix.among(rows)
        decrease, left, right = best_medoids(distance, self.label[rows], self.classes, self._pairs(node, v, len(rows)))
        if decrease < 0.0:
            return _Split(-1.0)
        prototypes = curve(variable.curves, int(rows[left])).copy(), curve(variable.curves, int(rows[right])).copy()
        return _Split(float(decrease), v, math.nan, prototypes)

    def _pairs(self, node: _Node, v: int, n: int) -> I64:
        """Two different rows for each restart."""
        seed, path = self.growth.seed, node.path
        made = np.empty((self.growth.restarts, 2), np.int64)
        for restart in range(self.growth.restarts):
            draw = 2 * (v * self.growth.restarts + restart)
            first, second = below(seed, path, draw, n), below(seed, path, draw + 1, n - 1)
            made[restart] = first, second + (second >= first)
        return made

    def _sample(self, node: _Node, v: int) -> I64:
        """As many rows of a node as have room, increasing."""
        size = max(2, room(self.variables, self.growth))
        if size >= len(node.rows):
            return node.rows
        seed, path = self.growth.seed, node.path
        drawn: U64 = np.array([random_bits(seed, path, (v + 1) << 40 | i) for i in range(len(node.rows))], np.uint64)
        return np.sort(node.rows[np.argsort(drawn, kind="stable")[:size]])

    def _side(self, split: _Split, rows: I64) -> BOOL:
        variable = self.variables[split.variable]
        if isinstance(variable, NumberVariable):
            found: BOOL = variable.value[rows] <= split.threshold
            return found
        assert split.prototypes is not None
        return sides(variable.curves, rows, split.prototypes, variable)


def _joined(grown: Sequence[_Growing], variables: Sequence[Variable], classes: tuple[Any, ...], code: I64 | None) -> Tree:
    """The nodes of all trees that are still reached, one tree after another, and their prototypes."""
    kept: list[_Node] = []
    number: dict[int, int] = {}
    roots = []
    for tree in grown:
        reached = {0}
        roots.append(len(kept))
        for at, node in enumerate(tree.nodes):
            if at in reached:
                number[id(node)] = len(kept)
                kept.append(node)
                if node.variable != LEAF:
                    reached |= {node.left, node.right}
    child = {id(node): tree.nodes for tree in grown for node in tree.nodes}
    prototypes: list[list[F64]] = [[] for _ in variables]
    prototype = np.full(len(kept), LEAF, np.int32)
    for at, node in enumerate(kept):
        if node.variable != LEAF and node.prototypes is not None:
            prototype[at] = len(prototypes[node.variable]) // 2
            prototypes[node.variable] += node.prototypes
    inner = [node.variable != LEAF for node in kept]
    inside = [(node, child[id(node)]) if is_inner else None for node, is_inner in zip(kept, inner, strict=True)]
    sides_of = [
        [LEAF if one is None else number[id(one[1][getattr(one[0], side)])] for one in inside] for side in ("left", "right")
    ]
    return Tree(
        classes, code, tuple(_holding(one, curves) for one, curves in zip(variables, prototypes, strict=True)),
        np.array(roots, np.int32), np.array([node.variable for node in kept], np.int32),
        np.array(sides_of[0], np.int32), np.array(sides_of[1], np.int32), prototype,
        np.array([node.threshold for node in kept]), np.array([node.counts for node in kept], np.int64),
    )  # fmt: skip


def _holding(variable: Variable, prototypes: list[F64]) -> Variable:
    """A variable of the same kind that holds prototypes, or nothing."""
    if isinstance(variable, NumberVariable):
        return NumberVariable(variable.name, np.empty(0))
    channels = variable.curves.channels
    start = np.concatenate([[0], np.cumsum([len(one) // channels for one in prototypes])]).astype(np.int64)
    value = np.concatenate(prototypes) if prototypes else np.empty(0)
    return CurveVariable(variable.name, Curves(start, value, channels), variable.distance, variable.window)


# The best split of a node on one variable: two prototypes that part the curves (`service/native/trees.c`), or a threshold.


def gini(counts: F64) -> float:
    """Return 1 - sum p^2 of counts, 0 if there are none. Source: Breiman et al. 1984."""
    total = float(counts.sum())
    return 1.0 - float((counts * counts).sum()) / (total * total) if total > 0.0 else 0.0


def best_medoids(distance: F64, label: I64, classes: int, pairs: I64) -> tuple[float, int, int]:
    """Return the decrease of impurity by the best of several restarts of 2-medoids, and its prototypes.

    See `riata_best_medoids`.
    """
    prototypes = np.empty(2, np.int64)
    decrease = core.best_medoids(_split(label, classes, pairs), distance, prototypes)
    return decrease, int(prototypes[0]), int(prototypes[1])


def best_means(x: F64, label: I64, classes: int, pairs: I64, prototypes: F64) -> float:
    """Return the decrease of impurity by the best of several restarts of 2-means, and write its prototypes; see
    `riata_best_means`."""
    decrease: float = core.best_means(_split(label, classes, pairs, np.empty_like(prototypes)), x, x.shape[1], prototypes)
    return decrease


def _split(label: I64, classes: int, pairs: I64, means: F64 | None = None) -> Any:
    scratch = {"side": np.empty(len(label), np.bool_), "counts": np.empty((3, classes)), "means": means}
    sizes = {"n": len(label), "classes": classes, "restarts": len(pairs)}
    return struct("riata_split", label=label, pairs=pairs, **scratch, **sizes)


def best_threshold(value: F64, label: I64, classes: int) -> tuple[float, float]:
    """Return the decrease of impurity and the threshold of the best split on numbers, -1 if all are equal; the least of several.

    The threshold is half way between two neighbouring values (CART)."""
    order = np.argsort(value, kind="stable")
    ordered = value[order]
    cut = np.flatnonzero(ordered[1:] > ordered[:-1])
    if not len(cut):
        return -1.0, math.nan
    below = np.cumsum(np.eye(classes)[label[order]], axis=0)
    left, whole = below[cut], below[-1]
    right, n = whole - left, len(value)
    sizes = left.sum(axis=1)
    after = sizes - (left**2).sum(axis=1) / sizes + (n - sizes) - (right**2).sum(axis=1) / (n - sizes)
    best = int(np.argmin(after))
    low, high = float(ordered[cut[best]]), float(ordered[cut[best] + 1])
    middle = low + 0.5 * (high - low)
    return float(gini(whole) - after[best] / n), middle if middle < high else low
