"""Pictures of an online estimate beside the batch optimum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np

from riata.base.arrays import F64
from tests.bench import report

matplotlib.use("Agg")  # there is no screen
from matplotlib import pyplot as plt


def draw_distances(l1: Mapping[float, Mapping[str, F64]], grid: Sequence[int], printed: Mapping[int, float]) -> None:
    """L1 distance to batch against t: one panel a penalty; l1[gamma][learner] is f64[seeds, len(grid)], a band from 10 to 90 %.

    printed : distances by t that the paper prints for the first penalty
    """
    figure, panels = plt.subplots(1, len(l1), figsize=(5.6 * len(l1), 5.4), layout="constrained", sharey=True)
    for axes, (gamma, learners) in zip(panels, l1.items(), strict=True):
        for place, (name, of) in enumerate(learners.items()):
            low, high = np.percentile(of, (10.0, 90.0), axis=0)
            axes.plot(grid, of.mean(axis=0), color=f"C{place}", label=name, linewidth=1.4)
            axes.fill_between(grid, low, high, color=f"C{place}", alpha=0.15, linewidth=0)
        axes.set(xscale="log", yscale="log", xlabel="t, events learnt", title=f"gamma = {gamma:g}", ylim=(2e-3, 2.0))
        axes.grid(alpha=0.3, which="both")
    panels[0].plot(list(printed), list(printed.values()), "k*", label="printed, one run")
    panels[0].set_ylabel("L1 distance of Online to the batch optimum")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=9)
    figure.savefig(report.EVIDENCE / "paper_tables_distance.png", dpi=100)
    plt.close(figure)


def draw_paths(online: Mapping[float, F64], batch: Mapping[float, F64], grid: Sequence[int], truth: F64) -> None:
    """Coefficients along the stream, solid online and dashed batch, one panel a penalty; f64[len(grid), d] by penalty."""
    figure, panels = plt.subplots(1, len(online), figsize=(5.6 * len(online), 4.6), layout="constrained", sharey=True)
    for axes, gamma in zip(panels, online, strict=True):
        for j, true in enumerate(truth):
            name = {0: "Online", 1: "batch"}
            for which, (path, style) in enumerate(((online[gamma], "-"), (batch[gamma], "--"))):
                axes.plot(grid, path[:, j], style, color=f"C{j % 10}", linewidth=1.2, label=name[which] if j == 1 else None)
            axes.plot(grid[-1] * 1.15, true, "<", color=f"C{j % 10}", markersize=5, label="true" if j == 1 else None)
        axes.set(xscale="log", xlabel="t, events learnt", title=f"gamma = {gamma:g}")
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("coefficient")
    panels[0].legend(loc="lower left", fontsize=8)
    figure.savefig(report.EVIDENCE / "paper_tables_paths.png", dpi=100)
    plt.close(figure)


def draw_calibration(
    name: str, panels: Mapping[tuple[str, int], Mapping[str, F64]], nominal: F64, styles: Mapping[str, tuple[str, str]]
) -> None:
    """Nominal against achieved coverage: a row of panels for each t, a column for each design, a line for each learner.

    panels : by (design, t), the achieved coverage f64[len(nominal)] of each learner
    styles : colour and line style of each learner
    """
    designs, times = (list(dict.fromkeys(key[part] for key in panels)) for part in (0, 1))
    figure, grid = plt.subplots(
        len(times), len(designs), figsize=(3.5 * len(designs), 3.4 * len(times)), layout="constrained", sharex=True, sharey=True
    )
    for (design, t), learners in panels.items():
        axes = grid[times.index(t)][designs.index(design)]
        axes.plot([0.0, 1.0], [0.0, 1.0], color="0.7", linewidth=1.0)
        for learner, achieved in learners.items():
            colour, style = styles[learner]
            axes.plot(nominal, achieved, style, color=colour, linewidth=1.3, label=learner)
        axes.set(title=f"{design}, t = {t:,}", xlim=(0.0, 1.0), ylim=(0.0, 1.0))
        axes.grid(alpha=0.3)
    for axes in grid[-1]:
        axes.set_xlabel("nominal")
    for row in grid:
        row[0].set_ylabel("achieved")
    handles = {label: line for axes in grid.ravel() for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, fontsize=9)
    figure.savefig(report.EVIDENCE / f"{name}.png", dpi=85)
    plt.close(figure)
