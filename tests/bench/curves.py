"""Functional trees on published and simulated curves beside aeon's ProximityTree, and warped distances beside dtaidistance.

Errors: CBF is cylinder, bell and funnel simulated anew, 266 curves a class, warping, four folds of ten. Control chart is the
UCI file, 600 curves in 6 classes, Euclidean distance, likewise. Japanese vowels has 270 curves of 9 speakers to learn and 370
to test, 12 channels, 7 to 29 points, warping, an output code. In each fold a ninth of the rows that are learnt is held out
for pruning. aeon's tree has its defaults but for a fixed seed, and the same folds; it takes curves of one length only, so
vowels are padded with their last point for it. A ratio is our errors over its.

CBF-2: two curves a row; class a has a bell in the first, class b a funnel in the first and a bell in the second, class c a
funnel in both. A tree has to split on both.

Distances: all pairs of curves, squared costs, no window, one thread, processor time, runs interleaved, medians. dtaidistance
is its C code. Encoding: microseconds a row through a tree of the data.

Writes curves.md. aeon and dtaidistance are not among the packages of the tests, and are left out if they cannot be imported:
`pip install --no-deps --target DIR aeon dtaidistance deprecated wrapt`, and DIR in PYTHONPATH.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

from riata.base.arrays import F64, I64
from riata.maths.warping import NO_WINDOW, Curves, warp_pairs
from riata.trees.curves import CurveVariable, Variable, curve_variable
from riata.trees.growing import Growth, grow
from riata.trees.tree import Tree
from tests.bench import report
from tests.bench.curves_data import control_chart, cylinder_bell_funnel, japanese_vowels, of_kinds

FOLDS: Final = 10
TESTED: Final = 4  # of the folds
PRUNE: Final = 1.0 / 9.0
REPEATS: Final = 3
SIZES: Final = ((100, 60), (100, 128), (300, 128), (50, 512))


def aeon_errors(x: Sequence[F64], y: I64, train: I64, test: I64) -> int | None:
    """Errors of its ProximityTree, None without it."""
    if not find_spec("aeon"):
        return None
    from aeon.classification.distance_based import ProximityTree  # type: ignore[import-not-found]

    longest = max(len(one) for one in x)
    padded = np.array([np.pad(one.reshape(len(one), -1), ((0, longest - len(one)), (0, 0)), mode="edge").T for one in x])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ProximityTree(random_state=0).fit(padded[train], y[train])
        return int((tree.predict(padded[test]) != y[test]).sum())


def curves_in(x: Sequence[F64], rows: I64, distance: str) -> list[Variable]:
    """One variable of curves."""
    return [curve_variable("x", [x[row] for row in rows], distance)]


Case = tuple[str, Sequence[F64], I64, list[tuple[I64, I64]], str, bool]  # name, curves, classes, folds, distance, output code


def learnt(case: Case) -> tuple[list[str], int]:
    """A row of the table without aeon, and the errors."""
    name, x, y, folds, distance, code = case
    wrong, rows, spent, row_us = 0, 0, 0.0, 0.0
    for train, test in folds:
        began = time.process_time()
        tree = grow(curves_in(x, train, distance), y[train], sorted(set(y.tolist())), Growth(prune=PRUNE, code=code))
        spent += time.process_time() - began
        others, began = curves_in(x, test, distance), time.process_time()
        wrong += int((tree.predict(others) != y[test]).sum())
        row_us += time.process_time() - began
        rows += len(test)
    cells = [name, distance, "code" if code else "one tree", str(rows), f"{100.0 * wrong / rows:.2f}"]
    cells += [f"{spent / len(folds):.1f}", f"{1e6 * row_us / rows:.0f}"]
    print(" | ".join(cells), flush=True)
    return cells, wrong


def beside_aeon(case: Case, wrong: int) -> list[str]:
    """Its errors in percent, and the ratio."""
    _, x, y, folds, _, _ = case
    found = [aeon_errors(x, y, train, test) for train, test in folds]
    if None in found:
        return ["", ""]
    other = sum(one for one in found if one is not None)
    cells = [f"{100.0 * other / sum(len(test) for _, test in folds):.2f}", f"{wrong / max(other, 1):.2f}"]
    print(case[0], " | ".join(cells), flush=True)
    return cells


def folds_of(n: int) -> list[tuple[I64, I64]]:
    """Rows to learn and to test."""
    fold = np.random.default_rng(1).permutation(n) % FOLDS
    return [(np.flatnonzero(fold != one), np.flatnonzero(fold == one)) for one in range(TESTED)]


def cases() -> list[Case]:
    """The sets of curves."""
    made: list[Case] = []
    train, test = japanese_vowels("train"), japanese_vowels("test")
    labels = np.concatenate([train[1], test[1]])
    split = [(np.arange(len(train[1])), np.arange(len(train[1]), len(labels)))]
    made.append(("Japanese vowels", [*train[0], *test[0]], labels, split, "dtw", True))
    x, y = control_chart()
    made.append(("control chart", list(x), y, folds_of(len(y)), "euclid", False))
    x, y = of_kinds((0, 1, 2), 266, np.random.default_rng(0))
    return [*made, ("CBF", list(x), y, folds_of(len(y)), "dtw", False)]


def two_curves() -> str:
    """The sentence about CBF-2."""
    rng = np.random.default_rng(2)
    kinds = {"a": (1, 0), "b": (2, 1), "c": (2, 2)}
    label = np.repeat(np.arange(3), 100)
    pairs = [[cylinder_bell_funnel(kind, rng) for kind in kinds["abc"[at]]] for at in label]
    variables: list[Variable] = [curve_variable(f"curve {v + 1}", [pair[v] for pair in pairs]) for v in range(2)]
    tree: Tree = grow(variables, label, ["a", "b", "c"], Growth(prune=PRUNE))
    below = max(int(tree.left[0]), int(tree.right[0]), key=lambda node: int(tree.counts[node].sum()))
    names = [tree.variables[tree.variable[node]].name for node in (0, below)]
    errors_made = int((tree.predict(variables) != label).sum())
    told = f"the root splits on {names[0]}, the larger node below it on {names[1]}"
    return f"CBF-2: {told}; {errors_made} errors on the 300 rows learnt.\n"


def pairs() -> str:
    """The table of distances."""
    rows = []
    for n, points in SIZES:
        x = np.random.default_rng(n).standard_normal((n, points))
        variable: CurveVariable = curve_variable("x", list(x))
        curves: Curves = variable.curves
        out, cells = np.zeros((n, n)), 0.5 * n * (n - 1) * points**2
        times: dict[str, list[float]] = {"ours": [], "dtaidistance": []}
        found: Any = None
        for _ in range(REPEATS):
            began = time.process_time()
            warp_pairs(curves, NO_WINDOW, 0, n, out)
            times["ours"].append(time.process_time() - began)
            if find_spec("dtaidistance"):
                from dtaidistance import dtw  # type: ignore[import-not-found]

                began = time.process_time()
                found = dtw.distance_matrix_fast(x, parallel=False)
                times["dtaidistance"].append(time.process_time() - began)
        mine = statistics.median(times["ours"])
        row = [f"{n} of {points} points", f"{mine:.2f}", f"{1e9 * mine / cells:.2f}"]
        if found is not None:
            other = statistics.median(times["dtaidistance"])
            below = np.tril_indices(n, -1)
            unlike = float(np.abs(out[below] / found.T[below] ** 2 - 1.0).max())
            row += [f"{1e9 * other / cells:.2f}", f"{mine / other:.2f}", f"{unlike:.0e}"]
        rows.append(row)
        print(" | ".join(row), flush=True)
    return report.table(["curves", "s", "ns a cell", "dtaidistance", "ratio", "largest difference"][: len(rows[0])], rows)


HEADS: Final = ["data", "distance", "trees", "tested", "error %", "s to learn", "us a row", "aeon, error %", "ratio"]


def main() -> None:
    """Measure, and write the page after each step."""
    about = [text.replace("\n", " ") for text in (__doc__ or "").split("\n\n")[1:4]]
    distances, second = pairs(), two_curves()
    found = [(case, *learnt(case)) for case in cases()]
    beside = [["", ""] for _ in found]
    for number in range(-1, len(found) if find_spec("aeon") else 0):
        if number >= 0:
            beside[number] = beside_aeon(found[number][0], found[number][2])
        rows = [[*one[1], *other] for one, other in zip(found, beside, strict=True)]
        parts = ["# Functional trees", about[0], report.table(HEADS, rows), about[1], second, about[2], distances]
        parts.append(report.conditions("python -m tests.bench.curves", ["numpy"]))
        report.publish("curves", "\n\n".join(part.strip("\n") for part in parts) + "\n", write=True)


if __name__ == "__main__":
    main()
