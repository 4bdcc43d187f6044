"""How cost grows with what there is more of: features in a row, slots, rows in a body, models, log, weights, clients.

Each panel varies one quantity and keeps the others. The learner's panels use one thread over rows in memory. The service's
panels use the whole path over HTTP, durable, with the client on the same machine. There is no comparison with other programs
here, only slopes: how does the cost change if the number doubles? The figures in the text are of the same run; CPU times of a
service are those of its threads.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import matplotlib
from rich.console import Console
from rich.progress import Progress

from tests.bench import contest, report
from tests.bench.growth_panels import PANELS, REPEATS, Panel

matplotlib.use("Agg")  # there is no screen
from matplotlib import pyplot as plt

PART_MIN: Final = 0.05  # of all threads' time; who never takes as much is left out of a table


def draw(panels: Sequence[Panel], path: Path) -> None:
    """All panels in one picture."""
    with plt.rc_context({"svg.hashsalt": "riata", "svg.fonttype": "none"}):
        figure, grid = plt.subplots(2, 4, figsize=(15.0, 6.6), layout="constrained")
        for axes, panel in zip(grid.ravel(), panels, strict=False):
            for place, (name, points) in enumerate(panel.curves.items()):
                axes.plot(*zip(*points, strict=True), "o-", color=f"C{place}", label=name, linewidth=1.3, markersize=3.5)
            axes.set(title=panel.title, xlabel=panel.x, ylabel=panel.y, yscale="log")
            axes.set_xscale("linear" if panel.x.startswith("bits") else "log")
            axes.grid(alpha=0.3, which="both")
            axes.legend(fontsize=7.5)
        for axes in grid.ravel()[len(panels) :]:
            axes.set_visible(False)
        figure.savefig(path, format="svg", metadata={"Date": None})
        plt.close(figure)


def tables(panels: Sequence[Panel]) -> list[str]:
    """A table of each panel, with its sentence."""
    made = []
    for panel in panels:
        totals = [sum(y for _, y in points) for points in zip(*panel.parts.values(), strict=True)]
        parts = {
            name: points
            for name, points in panel.parts.items()
            if any(y >= PART_MIN * total for (_, y), total in zip(points, totals, strict=True))
        }
        names = [*panel.curves, *parts]
        values: dict[str, dict[float, float]] = {name: dict(points) for name, points in (panel.curves | parts).items()}
        places = sorted({x for points in values.values() for x in points})
        rows = [[f"{x:,.0f}", *(f"{values[name][x]:,.3g}" if x in values[name] else "" for name in names)] for x in places]
        heads = [panel.x, *(f"{name}, {panel.y}" for name in panel.curves), *(f"{name}, {panel.parts_unit}" for name in parts)]
        made.append(f"## {panel.title.capitalize()}\n\n{panel.limit}\n\n" + report.table(heads, rows))
    return made


def main() -> int:
    """Measure, draw and report."""
    parser = contest.arguments(__doc__ or "")
    options = parser.parse_args()
    share = 0.1 if options.quick else 1.0
    begun, panels = time.monotonic(), []
    with Progress(console=Console(stderr=True)) as progress:
        for measure in progress.track(PANELS, description="panels"):
            panels.append(measure(share))
    write = not options.no_write
    if write:
        contest.folder(options.quick).mkdir(parents=True, exist_ok=True)
        draw(panels, contest.folder(options.quick) / "growth_curves.svg")
    picture = ["![curves](growth_curves.svg)\n"] if write else []
    note = (
        f"Measured in {(time.monotonic() - begun) / 60:.1f} minutes; each point once over HTTP, the least of {REPEATS} in memory."
    )
    contest.report_page(
        "growth", "How cost grows", (__doc__ or "").split("\n", 1)[1], [], [*picture, *tables(panels)], [note],
        "python -m tests.bench.growth", ["numpy"], write, options.quick,
    )  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
