"""Draws functional decision trees: each split with its two prototype curves, each leaf with its rows by class."""

from __future__ import annotations

from typing import Final

import numpy as np

from riata.base.arrays import F64
from riata.base.svg import COLOURS, Svg, curve_points
from riata.lab.trees.curves import CurveVariable, curve
from riata.lab.trees.tree import LEAF, Tree

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
