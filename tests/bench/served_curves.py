"""Curves over HTTP: rows a second that a service accepts and predicts, with the curve, and with its leaf found beforehand.

One service on an empty directory, one connection. Bodies of 500 rows of NDJSON, each row a curve and a number, synced to disk
and learnt before the clock stops; then single predictions one after another. Beside it the same rows with `ecg#7` in place of the
curve, which every client that has the tree could send: the difference is what a curve costs. Control chart is the UCI file, 60
points, Euclidean distance; cylinder, bell and funnel are simulated, 128 points, warping. Medians of runs, interleaved.

Writes served_curves.md and served_curves.png. Needs RIATA_SHARED.
"""

from __future__ import annotations

import base64
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib
import numpy as np

from riata.base.arrays import F64, I64
from riata.client import Riata
from riata.trees.curves import DISTANCES, curve_variable
from riata.trees.growing import Growth, grow
from riata.trees.stage import TreeStage, read_stage
from tests.bench import report
from tests.bench.curves_data import control_chart, of_kinds
from tests.running import Running
from tests.trees.hand_made import text_of, two_splits

matplotlib.use("Agg")  # there is no screen
from matplotlib import pyplot as plt

ROWS: Final = 500
RUNS: Final = 5
SINGLE: Final = 200
LENGTHS: Final = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
REPEATS: Final = 15
LENGTH_TEXT: Final = (
    "A curve alone, without HTTP: a tree of two splits made by hand, of which the curve meets one or two, with prototypes as long"
    " as the curve, and no window. A path of warping may visit as many"
    " cells as the square of the length."
)


def stage_of(x: Sequence[F64], y: I64, distance: str) -> TreeStage:
    """A tree of half of the curves."""
    tree = grow([curve_variable("ecg", x[::2], distance)], y[::2], sorted(set(y.tolist())), Growth())
    return read_stage(base64.b64encode(tree.encode()).decode(), "ecg")


def timed(riata: Riata, model: str, rows: list[dict[str, Any]]) -> tuple[float, float]:
    """Microseconds a row to learn, and a single prediction."""
    began = time.perf_counter()
    answer = riata.observe(rows, model=model, wait_applied=True)
    learnt = time.perf_counter() - began
    assert answer.accepted == len(rows), answer
    asked = [{"features": row["features"]} for row in rows[:SINGLE]]
    began = time.perf_counter()
    for one in asked:
        riata.predict([one], model=model)
    return 1e6 * learnt / len(rows), 1e6 * (time.perf_counter() - began) / len(asked)


def measured(riata: Riata, name: str, x: Sequence[F64], y: I64, distance: str) -> list[str]:
    """A row of the table."""
    stage, chance = stage_of(x, y, distance), np.random.default_rng(0)
    riata.create_model(f"{name}-curves", {"encoder": {"curves": {"ecg": stage.text}}})
    riata.create_model(f"{name}-leaves", {})
    held = [x[at] for at in range(1, len(x), 2)]
    began = time.process_time()
    leaves = [stage.leaves(one[:, np.newaxis]) for one in held]
    alone = 1e6 * (time.process_time() - began) / len(held)
    found: dict[str, list[tuple[float, float]]] = {"curves": [], "leaves": []}
    for _ in range(RUNS + 1):
        pick = chance.integers(0, len(held), ROWS).tolist()
        ages = chance.integers(20, 80, ROWS).tolist()
        labels = [int(y[2 * at + 1] == y[1]) for at in pick]
        told = list(zip(pick, ages, labels, strict=True))
        curves = [{"features": {"ecg": held[at].round(4).tolist(), "age": age}, "label": label} for at, age, label in told]
        plain = [
            {"features": {**{f"ecg#{leaf}": True for leaf in leaves[at]}, "age": age}, "label": label} for at, age, label in told
        ]
        for kind, rows in (("curves", curves), ("leaves", plain)):
            found[kind].append(timed(riata, f"{name}-{kind}", rows))
    body = len(json.dumps(curves[0]))
    cells = [name, distance, str(len(held[0])), f"{body}", f"{alone:.0f}"]
    for at in (0, 1):
        each = [statistics.median(run[at] for run in found[kind][1:]) for kind in ("curves", "leaves")]
        cells += [f"{each[0]:.0f}", f"{each[1]:.0f}"]
    print(" | ".join(cells), flush=True)
    return cells


def by_length() -> str:
    """Microseconds of a curve in a tree whose two prototypes have as many points as the curve, by distance; draws them."""
    chance, found = np.random.default_rng(1), dict[str, list[float]]()
    for distance in DISTANCES:
        for points in LENGTHS:
            curves = chance.standard_normal((5, points)).cumsum(axis=1)
            stage = read_stage(text_of(two_splits(distance, list(curves[:4]))), "ecg")
            times = []
            for _ in range(REPEATS + 1):  # the first one fills caches
                began = time.perf_counter()
                stage.leaves(curves[4][:, np.newaxis])
                times.append(1e6 * (time.perf_counter() - began))
            found.setdefault(distance, []).append(statistics.median(times[1:]))
    figure, axes = plt.subplots(figsize=(5.0, 3.2), layout="constrained")
    for distance, times in found.items():
        axes.loglog(LENGTHS, times, "o-", label=distance)
    axes.set(xlabel="points of a curve and of the prototypes", ylabel="µs a curve, one thread", title="Encoding a curve")
    axes.legend()
    figure.savefig(report.EVIDENCE / "served_curves.png", dpi=100)
    rows = [[f"{points:,}", *(f"{found[distance][at]:.0f}" for distance in DISTANCES)] for at, points in enumerate(LENGTHS)]
    return report.table(["points", *(f"{distance}, us" for distance in DISTANCES)], rows)


def main() -> None:
    """Run and report."""
    options = report.arguments(__doc__ or "").parse_args()
    chart, kinds = control_chart(), of_kinds((0, 1, 2), 100, np.random.default_rng(0))
    cases = (("control-chart", chart, "euclid"), ("cbf", kinds, "dtw"))
    with tempfile.TemporaryDirectory() as folder, Running(Path(folder) / "data") as served:
        served.start()
        with Riata(served.url) as riata:
            rows = [measured(riata, name, list(x), y, distance) for name, (x, y), distance in cases]
    heads = ["curves", "distance", "points", "bytes a row", "leaf alone, us", "learn a row, us", "leaf sent, us"]
    heads += ["predict one, us", "leaf sent, us"]
    text = "# Curves in the service\n\n" + " ".join((__doc__ or "").split("\n\n")[1].split("\n")) + "\n\n"
    text += report.table(heads, rows)
    text += f"\n## By length\n\n{LENGTH_TEXT}\n\n{by_length()}\n![time of a curve by its length](served_curves.png)\n\n"
    text += report.conditions("python -m tests.bench.served_curves", ["numpy"])
    report.publish("served_curves", text, write=not options.no_write)


if __name__ == "__main__":
    main()
