"""Tables, picture and numbers of `budgets`, made from the runs that were kept."""

from __future__ import annotations

import csv
import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import matplotlib

from tests.bench import report
from tests.bench.budget_grid import BUDGETS, Contender
from tests.bench.budget_runs import Run

matplotlib.use("Agg")  # there is no screen
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

UNLIMITED: Final = math.inf
LIMITS: Final = (*(float(budget) for budget in BUDGETS), UNLIMITED)
STRICT: Final = tuple(f"strict {k}" for k in BUDGETS)
SKETCHES: Final = (*STRICT, "hybrid", "diag", "diag, rho")
OTHERS: Final = ("ftrl", "truncated", "vw")
COLUMNS: Final = 4
LINES: Final = {  # what is drawn: label, contenders and colour
    "strict (k = 100, 300, 1000)": (STRICT, "#08306b"),
    "hybrid": (("hybrid",), "#2ca25f"),
    "diag": (("diag",), "#66c2a4"),
    "diag, rho": (("diag, rho",), "#e7298a"),
    "ftrl": (("ftrl",), "#d95f02"),
    "truncated": (("truncated",), "#756bb1"),
    "vw": (("vw",), "#636363"),
}


@dataclass(frozen=True, slots=True)
class Field:
    """All runs over one stream: contenders in their fixed order, and what the stream is."""

    stream: str
    rows: int
    positives: int
    features: int
    contenders: tuple[Contender, ...]
    runs: tuple[Run, ...]

    def of(self, contender: str) -> list[Run]:
        """The runs of one contender."""
        return [run for run in self.runs if run.contender == contender]

    @property
    def entropy(self) -> float:
        """Log loss of a constant prediction of the share of ones."""
        share = self.positives / self.rows
        return -share * math.log(share) - (1.0 - share) * math.log(1.0 - share)


def best(runs: Sequence[Run], limit: float, whole: bool = False) -> Run | None:
    """The run with the lowest log loss, of the second half or of the whole stream, among those that end within the limit."""
    fit = [run for run in runs if run.non_zeros <= limit]
    return min(fit, key=lambda run: run.whole if whole else run.second_half, default=None)


def envelope(runs: Sequence[Run]) -> list[Run]:
    """Runs that no other beats in second-half log loss with as few or fewer non-zeros, by rising number of them."""
    kept: list[Run] = []
    for run in sorted(runs, key=lambda run: (run.non_zeros, run.second_half)):
        if not kept or run.second_half < kept[-1].second_half:
            kept.append(run)
    return kept


def number(loss: float | None) -> str:
    """A log loss as tables show it."""
    return "-" if loss is None else f"{loss:.4f}"


def name_limit(limit: float) -> str:
    """A budget in words."""
    return "any" if math.isinf(limit) else f"{limit:.0f}"


def budget_table(field: Field, whole: bool) -> str:
    """One line a contender, one column a budget; the lowest loss of a column is bold."""
    columns = []
    for limit in LIMITS:
        found = [best(field.of(one.name), limit, whole) for one in field.contenders]
        losses = [None if run is None else run.whole if whole else run.second_half for run in found]
        least = min((loss for loss in losses if loss is not None), default=None)
        columns.append([f"**{number(loss)}**" if loss is not None and loss == least else number(loss) for loss in losses])
    rows = [[one.name, *cells] for one, *cells in zip(field.contenders, *columns, strict=True)]
    return report.table(["at most n non-zeros", *(name_limit(limit) for limit in LIMITS)], rows)


def pair(field: Field, limit: float) -> tuple[Run | None, Run | None]:
    """The best run of the strict sketches, or of all sketches without a limit; and that of the other learners."""
    sketches = STRICT if math.isfinite(limit) else SKETCHES
    ours = best([run for run in field.runs if run.contender in sketches], limit)
    return ours, best([run for run in field.runs if run.contender in OTHERS], limit)


def summary_table(fields: Sequence[Field]) -> str:
    """For each stream and budget: the best sketch and the best learner of another kind."""
    rows = [[field.stream, *(_against(*pair(field, limit)) for limit in LIMITS)] for field in fields]
    return report.table(["stream", *(f"n = {name_limit(limit)}" for limit in LIMITS)], rows)


def tally(fields: Sequence[Field]) -> str:
    """In words: on how many streams the sketch is better, and on which it is not."""
    said = []
    for limit in LIMITS:
        behind = []
        for field in fields:
            ours, other = pair(field, limit)
            if ours and other and other.second_half <= ours.second_half:
                behind.append(f"{field.stream} ({ours.second_half / other.second_half:.2f} times the other's loss)")
        budget = "Without a budget" if math.isinf(limit) else f"Within {name_limit(limit)}"
        ahead = f"{budget} it is better on {len(fields) - len(behind)} of {len(fields)}"
        said.append(f"- {ahead}; worse on {', '.join(behind)}.\n" if behind else f"- {ahead}.\n")
    return "".join(said)


def _against(ours: Run | None, other: Run | None) -> str:
    if ours is None or other is None:
        return f"{number(ours.second_half) if ours else '-'} : {number(other.second_half) if other else '-'}"
    left, right = number(ours.second_half), number(other.second_half)
    if ours.second_half < other.second_half:
        left = f"**{left}**"
    else:
        right = f"**{right}**"
    kind = "" if ours.contender in STRICT else f" {ours.contender}"
    return f"{left}{kind} : {right} {other.contender}"


def spread_table(fields: Sequence[Field], contenders: Sequence[Contender]) -> str:
    """Without a budget: best, median of the grid and defaults of every contender, second half."""
    rows = []
    for field in fields:
        cells = []
        for one in contenders:
            runs = field.of(one.name)
            if not runs:
                cells.append("-")
                continue
            losses = [run.second_half for run in runs]
            default = next((run.second_half for run in runs if run.settings == one.default), None)
            cells.append(f"{number(min(losses))} / {number(statistics.median(losses))} / {number(default)}")
        rows.append([field.stream, *cells])
    return report.table(["stream", *(one.name for one in contenders)], rows)


def most_table(fields: Sequence[Field], contenders: Sequence[Contender]) -> str:
    """The best run within 100 non-zeros: non-zeros at the end, and the maximum before."""
    rows = []
    for field in fields:
        found = [best(field.of(one.name), BUDGETS[0]) for one in contenders]
        rows.append([field.stream, *("-" if run is None else f"{run.non_zeros} / {run.non_zeros_most or '?'}" for run in found)])
    return report.table(["stream", *(one.name for one in contenders)], rows)


def write_csv(fields: Sequence[Field], path: Path) -> None:
    """One line for each stream, contender and budget: the run with the lowest loss in the second half."""
    heads = ["stream", "contender", "budget", "second_half", "whole", "non_zeros", "non_zeros_most", "settings"]
    with path.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(heads)
        for field in fields:
            for one in field.contenders:
                for limit in LIMITS:
                    run = best(field.of(one.name), limit)
                    if run:
                        most = "" if run.non_zeros_most is None else run.non_zeros_most
                        losses = (f"{run.second_half:.5f}", f"{run.whole:.5f}")
                        settings = json.dumps({name: value for name, value in run.settings.items() if name != "kind"})
                        writer.writerow([field.stream, one.name, name_limit(limit), *losses, run.non_zeros, most, settings])


def draw(fields: Sequence[Field], path: Path) -> None:
    """One panel a stream: second-half log loss against non-zeros at the end, the best of each kind of learner with this many."""
    lines = math.ceil(len(fields) / COLUMNS)
    figure, panels = plt.subplots(lines, COLUMNS, figsize=(4.0 * COLUMNS, 3.4 * lines), layout="constrained", squeeze=False)
    for axes in panels.flat[len(fields) :]:
        axes.set_visible(False)
    handles: dict[str, Any] = {}
    for axes, field in zip(panels.flat, fields, strict=False):
        _panel(axes, field)
        shown, labels = axes.get_legend_handles_labels()
        handles |= dict(zip(labels, shown, strict=True))
    ordered = [label for label in LINES if label in handles]
    figure.legend([handles[label] for label in ordered], ordered, loc="outside lower center", ncols=len(LINES), frameon=False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _panel(axes: Axes, field: Field) -> None:
    most = max((run.non_zeros for run in field.runs), default=1) * 1.5
    for label, (contenders, colour) in LINES.items():
        runs = envelope([run for run in field.runs if run.contender in contenders])
        if runs:
            at = [max(run.non_zeros, 1) for run in runs]
            loss = [run.second_half for run in runs]
            style = "--" if contenders[0] in OTHERS else "-"
            axes.step([*at, most], [*loss, loss[-1]], style, where="post", label=label, color=colour, linewidth=1.4)
            axes.plot(at, loss, "o", color=colour, markersize=2.5)
    for budget in BUDGETS:
        axes.axvline(budget, color="0.85", linewidth=0.8, zorder=0)
    least = min((run.second_half for run in field.runs), default=field.entropy)
    axes.set(xscale="log", yscale="log", title=field.stream, xlabel="non-zeros at the end", ylabel="log loss, second half")
    low, high = least * 0.9, max(field.entropy * 1.1, least * 1.5)
    axes.set_ylim(low, high)
    shown = "125" if high > 5.0 * low else "123456789"  # first digits of the ticks that have a label
    for which in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
        which(FuncFormatter(lambda loss, _: f"{loss:g}" if f"{loss:e}"[0] in shown else ""))
    axes.tick_params(axis="y", which="both", labelsize=8)
    axes.grid(alpha=0.25, which="major")
