"""A functional decision tree, or several: nodes as arrays, which way rows go, and the file.

Node 0 is the root of the first tree; children come after their parent. A row with a curve goes left if it is at least as near to
the left prototype as to the right one, a row with a number if that is at most the threshold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, SupportsInt

import numpy as np

from riata.base.arrays import BOOL, F64, I32, I64
from riata.base.errors import BadInput, Corrupt, Malformed
from riata.base.svg import COLOURS, Svg, curve_points
from riata.native.library import core
from riata.store.layout import decode_checkpoint, encode_checkpoint
from riata.trees.curves import (
    DISTANCES,
    Curves,
    CurveVariable,
    NumberVariable,
    Variable,
    curve,
    nearer_left,
    prototypes_of,
    rows_of,
)

# Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror & Shaw 2011), from `service/native/arithmetic.h`.
#
# Theory of operation
#     A number is a pure function of a key and a counter, so there is no state to keep, to seed, or to share between threads:
#
#         seed    the key: which sequence of all
#         stream  the upper half of the counter, such as the number of an event or of a round
#         draw    the lower half, which of the numbers of that stream
#
#     The same three give the same 64 bits on every machine.

_UNIT: Final = 2.0**-53


def random_bits(seed: SupportsInt, stream: SupportsInt, draw: SupportsInt) -> int:
    """Return 64 random bits. The arguments are in 0 .. 2^64 - 1."""
    return int(core.random(int(seed), int(stream), int(draw), False))


def below(seed: SupportsInt, stream: SupportsInt, draw: SupportsInt, n: int) -> int:
    """Return a number in 0 .. n - 1; no number is likelier than another by more than a share of n / 2^53."""
    return int((random_bits(seed, stream, draw) >> 11) * _UNIT * n)


# Output codes: several classes as several questions with two answers, one tree each (Dietterich & Bakiri 1995).
#
# Up to four classes get every question, those of opposite answers once. 5 to 15 classes get 15 questions whose code words are the
# rotations of a sequence of maximum length: any two words differ in 8 bits, so 3 trees may be wrong. More classes get random
# words with a fixed seed.

SEQUENCE: Final = (1, 0, 0, 1, 1, 0, 1, 0, 1, 1, 1, 1, 0, 0, 0)
EVERY: Final = 4
CLASSES_MAX: Final = 1000
SEED: Final = 15
WORD_BITS: Final = 64


def code_words(classes: int) -> I64:
    """Return the code words, i64[classes, bits]; columns are distinct, and none is constant. Raises `BadInput`."""
    if not 2 <= classes <= CLASSES_MAX:
        raise BadInput(f"an output code needs 2 to {CLASSES_MAX} classes, got {classes}", "out_of_range")
    if classes <= EVERY:
        questions = np.arange(1, 2 ** (classes - 1))
        found: I64 = (questions >> np.arange(classes)[:, np.newaxis]) & 1
        return found
    if classes <= len(SEQUENCE):
        return np.array([np.roll(SEQUENCE, shift) for shift in range(classes)])
    bits = 8 * int(np.ceil(np.log2(classes)))
    columns: dict[bytes, I64] = {}
    draw = 0
    while len(columns) < bits:
        words = [random_bits(SEED, draw, i) for i in range(-(-classes // WORD_BITS))]
        column = np.unpackbits(np.array(words, "<u8").view(np.uint8))[:classes].astype(np.int64)
        column ^= column[0]  # opposite answers are one question
        if column.any():
            columns.setdefault(column.tobytes(), column)
        draw += 1
    return np.stack(list(columns.values()), axis=1)


def decode(bits: I64, code: I64) -> I64:
    """Return the class with the nearest code word for each row of answers, i64[rows, bits]; the first of several."""
    found: I64 = np.argmin((bits[:, np.newaxis, :] != code[np.newaxis]).sum(axis=2), axis=1)
    return found


KIND: Final = "functional_tree"
VERSION: Final = 1
LEAF: Final = -1
WINDOW_STOP: Final = 2**31


@dataclass(frozen=True, slots=True)
class Tree:
    """One tree, or one for each bit of an output code.

    classes   : labels, sorted: all text, all whole numbers, or all numbers
    code      : i64[classes, bits]  which classes the trees tell apart; None: one tree tells all
    variables : of the rows. Those of curves hold the prototypes: node i has the curves 2 p and 2 p + 1, p = prototype[i]
    root      : i32[trees]
    variable  : i32[nodes]   LEAF, or a variable
    left, right, prototype : i32[nodes]
    threshold : f64[nodes]
    counts    : i64[nodes, c]   rows of each class that were learnt at the node; of bits 0 and 1 if there is a code
    """

    classes: tuple[Any, ...]
    code: I64 | None
    variables: tuple[Variable, ...]
    root: I32
    variable: I32
    left: I32
    right: I32
    prototype: I32
    threshold: F64
    counts: I64

    def leaves(self, rows: Sequence[Variable]) -> I64:
        """Return the node in which each row ends in each tree, i64[rows, trees]. Rows have the tree's variables, in its order."""
        n = rows_of(rows)
        self._require_alike(rows)
        found = np.empty((n, len(self.root)), np.int64)
        for tree, root in enumerate(self.root.tolist()):
            waiting = [(root, np.arange(n))]
            while waiting:
                node, at = waiting.pop()
                if self.variable[node] == LEAF or not len(at):
                    found[at, tree] = node
                    continue
                is_left = self.goes_left(node, rows[self.variable[node]], at)
                waiting += [(int(self.left[node]), at[is_left]), (int(self.right[node]), at[~is_left])]
        return found

    def _require_alike(self, rows: Sequence[Variable]) -> None:
        """Raise `BadInput` for curves that the kernels cannot compare with the prototypes."""
        for own, given in zip(self.variables, rows, strict=True):
            alike = isinstance(given, type(own))
            if isinstance(own, CurveVariable) and isinstance(given, CurveVariable):
                alike = own.curves.channels == given.curves.channels
                if own.distance == "euclid" and len(own.lengths):
                    alike = alike and bool(np.all(given.lengths == own.lengths[0]))
            if not alike:
                raise BadInput(f"variable {own.name!r}: its rows are unlike those that the tree learnt", "channels_differ")

    def goes_left(self, node: int, rows: Variable, at: I64) -> BOOL:
        """Return which of some rows go left at an inner node."""
        if isinstance(rows, NumberVariable):
            found: BOOL = rows.value[at] <= self.threshold[node]
            return found
        own = self.variables[self.variable[node]]
        assert isinstance(own, CurveVariable)
        first = 2 * int(self.prototype[node])
        return sides(rows.curves, at, (curve(own.curves, first), curve(own.curves, first + 1)), own)

    def predict(self, rows: Sequence[Variable]) -> I64:
        """Return the class of each row, as its number."""
        best = np.argmax(self.counts[self.leaves(rows)], axis=2)
        return best[:, 0] if self.code is None else decode(best, self.code)

    def probabilities(self, rows: Sequence[Variable]) -> F64:
        """Return the share of each class in the leaf of each row, f64[rows, classes]. Raises `BadInput` if there is a code."""
        if self.code is not None:
            raise BadInput("trees of an output code give no probabilities", "not_for_this_loss")
        counts = self.counts[self.leaves(rows)[:, 0]].astype(np.float64)
        found: F64 = counts / counts.sum(axis=1, keepdims=True)
        return found

    def encode(self) -> bytes:
        """Return the file: a container of numbers with digests, `store/layout.py`. Nothing in it is executed."""
        arrays = {name: getattr(self, name) for name in ("root", "variable", "left", "right", "prototype", "threshold", "counts")}
        listed: list[dict[str, Any]] = []
        for number, one in enumerate(self.variables):
            if isinstance(one, NumberVariable):
                listed.append({"name": one.name, "kind": "number"})
                continue
            kept = {"channels": one.curves.channels, "distance": one.distance, "window": one.window}
            listed.append({"name": one.name, "kind": "curve", **kept})
            arrays |= {f"prototype.{number}.start": one.curves.start, f"prototype.{number}.value": one.curves.value}
        if self.code is not None:
            arrays["code"] = self.code
        return encode_checkpoint({"kind": KIND, "version": VERSION, "classes": list(self.classes), "variables": listed}, arrays)


def sides(curves: Curves, at: I64, prototypes: tuple[F64, F64], like: CurveVariable) -> BOOL:
    """Return which of some curves are at least as near to the first prototype as to the second."""
    pair = prototypes_of(*prototypes, curves.channels)
    return nearer_left(curves, at, pair, like.warp_window, like.distance == "dtw")


def read_tree(content: bytes) -> Tree:
    """Return the tree in a file. Raises `Malformed` (code `not_a_tree`, or `newer_format`) for anything that `encode` did not
    write."""
    try:
        header, arrays = decode_checkpoint(content)
    except Corrupt as error:
        raise Malformed(f"not a file of a tree, or damaged: {error.detail}", "not_a_tree") from None
    if header.get("kind") != KIND:
        raise Malformed("not a file of a tree: it holds something else", "not_a_tree")
    if header.get("version") != VERSION:
        raise Malformed(f"this file of a tree has version {header.get('version')}; this program reads {VERSION}", "newer_format")
    try:
        variables = tuple(_read_variable(number, one, arrays) for number, one in enumerate(header["variables"]))
        nodes = {name: arrays[name] for name in ("root", "variable", "left", "right", "prototype", "threshold", "counts")}
        made = Tree(tuple(header["classes"]), arrays.get("code"), variables, **nodes)  # type: ignore[arg-type]
        _check(made)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise Malformed(f"not a file of a tree: {type(error).__name__} {error}", "not_a_tree") from None
    return made


def _read_variable(number: int, one: dict[str, Any], arrays: dict[str, Any]) -> Variable:
    if one["kind"] == "number":
        return NumberVariable(str(one["name"]), np.empty(0))
    start, value, channels = arrays[f"prototype.{number}.start"], arrays[f"prototype.{number}.value"], int(one["channels"])
    _need(one["distance"] in DISTANCES)
    _need(one["window"] is None or (type(one["window"]) is int and 0 <= one["window"] < WINDOW_STOP))
    _need(one["distance"] == "dtw" or len(set(np.diff(start).tolist())) <= 1)
    _need(channels >= 1)
    _need(start.dtype == np.int64)
    _need(value.dtype == np.float64)
    _need(start.ndim == value.ndim == 1)
    _need(len(start) >= 1)
    _need(start[0] == 0)
    _need(np.all(np.diff(start) > 0))
    _need(len(value) == channels * start[-1])
    _need(np.all(np.isfinite(value)))
    return CurveVariable(str(one["name"]), Curves(start, value, channels), one["distance"], one["window"])


def _need(condition: Any) -> None:
    if not condition:
        raise ValueError("its arrays are not those of a tree")


def _check(tree: Tree) -> None:
    """Raise an error if the nodes are not those of trees: a damaged file must not make an endless loop or read elsewhere."""
    n = len(tree.variable)
    width = len(tree.classes) if tree.code is None else 2
    _need(len(tree.classes) >= 1)
    for array in (tree.root, tree.variable, tree.left, tree.right, tree.prototype):
        _need(array.dtype == np.int32)
        _need(array.ndim == 1)
    _need({len(one) for one in (tree.left, tree.right, tree.prototype, tree.threshold, tree.counts)} == {n})
    _need(tree.threshold.dtype == np.float64)
    _need(tree.counts.dtype == np.int64)
    _need(tree.counts.shape == (n, width))
    _need(np.all(tree.counts >= 0))
    _need(np.all(tree.counts.sum(axis=1) > 0))
    _need(len(tree.root) >= 1)
    _need(np.all((tree.root >= 0) & (tree.root < n)))
    if tree.code is None:
        _need(len(tree.root) == 1)
    else:
        _need(tree.code.dtype == np.int64)
        _need(tree.code.shape == (len(tree.classes), len(tree.root)))
        _need(np.isin(tree.code, (0, 1)).all())
    for node in np.flatnonzero(tree.variable != LEAF).tolist():
        own = tree.variables[tree.variable[node]]
        _need(tree.variable[node] >= 0)
        _need(node < tree.left[node] < n)
        _need(node < tree.right[node] < n)
        if isinstance(own, CurveVariable):
            _need(0 <= tree.prototype[node] < (len(own.curves.start) - 1) // 2)
        else:
            _need(np.isfinite(tree.threshold[node]))


# Draws functional decision trees: each split with its two prototype curves, each leaf with its rows by class.

BOX: Final = (150.0, 96.0)
GAP: Final = (14.0, 44.0)
MARGIN: Final = 20.0
LEFT, RIGHT = COLOURS[0], COLOURS[1]
CLASSES_SHOWN: Final = 4
CHANNELS_SHOWN: Final = 6
POINTS_SHOWN: Final = 2 * int(BOX[0])

Place = dict[int, tuple[float, float]]


def draw_tree(tree: Tree) -> str:
    """Return an SVG of the tree, or of all trees of an output code below each other. Left prototypes are blue, right ones red."""
    svg, top, width = Svg(), MARGIN, 0.0
    for number, root in enumerate(tree.root.tolist()):
        if tree.code is not None:
            svg.text((MARGIN, top + 4.0), f"question {number + 1}: {_question(tree, number)}")
            top += 14.0
        places: Place = {}
        columns, depth = _layout(tree, root, places, 0, 0)
        for node in places:
            _node(svg, tree, node, places, top)
        width = max(width, columns * (BOX[0] + GAP[0]))
        top += (depth + 1) * (BOX[1] + GAP[1]) + MARGIN
    return svg.render(max(width, 2 * BOX[0]) + 2 * MARGIN, top, "functional decision tree")


def _question(tree: Tree, number: int) -> str:
    assert tree.code is not None
    names = [[str(name) for name, bit in zip(tree.classes, tree.code[:, number], strict=True) if bit == side] for side in (1, 0)]
    return f"1 = {', '.join(names[0])}; 0 = {', '.join(names[1])}"


def _layout(tree: Tree, node: int, places: Place, column: int, depth: int) -> tuple[int, int]:
    """Place a subtree from a column on: leaves side by side, parents above the middle of their children. Returns the next free
    column, and the depth that was reached."""
    x, y = MARGIN + column * (BOX[0] + GAP[0]), depth * (BOX[1] + GAP[1])
    if tree.variable[node] == LEAF:
        places[node] = (x, y)
        return column + 1, depth
    left, right = int(tree.left[node]), int(tree.right[node])
    column, deep = _layout(tree, left, places, column, depth + 1)
    column, deeper = _layout(tree, right, places, column, depth + 1)
    places[node] = (0.5 * (places[left][0] + places[right][0]), y)
    return column, max(deep, deeper)


def _node(svg: Svg, tree: Tree, node: int, places: Place, top: float) -> None:
    x, y = places[node][0], places[node][1] + top
    rows = int(tree.counts[node].sum())
    if tree.variable[node] == LEAF:
        svg.box((x, y), BOX, "#f6f8fa", "#d0d7de")
        labels = tree.classes if tree.code is None else (0, 1)
        order = np.argsort(-tree.counts[node], kind="stable")
        held = [at for at in order.tolist() if tree.counts[node][at]]
        svg.text((x + 8.0, y + 18.0), f"#{node}: {labels[held[0]]}")
        for line, at in enumerate(held[:CLASSES_SHOWN]):
            svg.text((x + 8.0, y + 38.0 + 14.0 * line), f"{labels[at]}: {tree.counts[node][at]} of {rows}", colour=COLOURS[-1])
        return
    for child, colour in ((int(tree.left[node]), LEFT), (int(tree.right[node]), RIGHT)):
        start = (x + BOX[0] / 2.0, y + BOX[1])
        svg.line(start, (places[child][0] + BOX[0] / 2.0, places[child][1] + top), colour, 1.5)
    svg.box((x, y), BOX, "#ffffff", "#8c959f")
    variable = tree.variables[tree.variable[node]]
    if not isinstance(variable, CurveVariable):
        svg.text((x + 8.0, y + 18.0), f"{node}: {variable.name} <= {tree.threshold[node]:.4g}")
        svg.text((x + 8.0, y + 38.0), f"{rows} rows", colour=COLOURS[-1])
        return
    svg.text((x + 8.0, y + 14.0), f"{node}: {variable.name}, {rows} rows")
    first = 2 * int(tree.prototype[node])
    shown = [_channels(curve(variable.curves, first + side), variable.curves.channels) for side in (0, 1)]
    limits = min(float(one.min()) for one in shown), max(float(one.max()) for one in shown)
    for one, colour in zip(shown, (LEFT, RIGHT), strict=True):
        for channel in one[:CHANNELS_SHOWN]:
            svg.polyline(
                curve_points(_thinned(channel).tolist(), (x + 8.0, y + 20.0), (BOX[0] - 16.0, BOX[1] - 28.0), limits), colour
            )


def _channels(values: F64, channels: int) -> F64:
    found: F64 = values.reshape(channels, -1)
    return found


def _thinned(channel: F64) -> F64:
    """Return a curve with at most two points for each pixel, the least and the greatest of each part."""
    if len(channel) <= POINTS_SHOWN:
        return channel
    ends = np.linspace(0, len(channel), POINTS_SHOWN // 2 + 1).astype(np.int64)[:-1]
    low, high = np.minimum.reduceat(channel, ends), np.maximum.reduceat(channel, ends)
    found: F64 = np.sort(np.column_stack([low, high]), axis=1).ravel()
    return found


def outline(tree: Tree) -> list[str]:
    """Return the tree as lines of text, indented by depth."""
    lines = []
    for number, root in enumerate(tree.root.tolist()):
        if tree.code is not None:
            lines.append(f"question {number + 1}: {_question(tree, number)}")
        waiting = [(root, 0, "")]
        while waiting:
            node, depth, side = waiting.pop()
            lines.append("  " * depth + side + _told(tree, node))
            if tree.variable[node] != LEAF:
                waiting += [(int(tree.right[node]), depth + 1, "else: "), (int(tree.left[node]), depth + 1, "then: ")]
    return lines


def _told(tree: Tree, node: int) -> str:
    counts, labels = tree.counts[node], tree.classes if tree.code is None else (0, 1)
    if tree.variable[node] == LEAF:
        best = int(np.argmax(counts))
        return f"{labels[best]} ({counts[best]} of {counts.sum()} rows)"
    variable = tree.variables[tree.variable[node]]
    if not isinstance(variable, CurveVariable):
        return f"{variable.name} <= {tree.threshold[node]:.6g} ({counts.sum()} rows)"
    pair = int(tree.prototype[node]) + 1
    return f"{variable.name} nearer to left prototype {pair} than to right prototype {pair} ({counts.sum()} rows)"
