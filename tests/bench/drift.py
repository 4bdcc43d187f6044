"""The benefit of forgetting if the truth changes: a synthetic stream of texts, half of whose coefficients are redrawn midway.

200,000 events, 50,000 words, 77 of them in a row, unit norm; 1,500 words carry the label. The best possible log loss is known
for every event; the tables show the excess over it. Contenders: the Taylor sketch (strict k = 1000, hybrid k = 300, diag) with
rho = 1 (nothing is forgotten), 1 - 2e-5 and 1 - 5e-5; FTRL-Proximal; truncated gradient, at its adaptive rate and at a constant
one; each over a stated grid, all over HTTP, one pass. The same stream without the change is the control and shows the cost of
forgetting.

Runs are kept as in `budgets`. About ten minutes with --jobs 3 on four cores.

Examples
  python -m tests.bench.drift --runs drift.jsonl --jobs 3
  python -m tests.bench.drift --runs drift.jsonl --jobs 0               # nothing run, the report made again
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import matplotlib
import numpy as np
from rich.console import Console
from rich.progress import Progress

from riata.base.arrays import F64
from tests.bench import report
from tests.bench.budget_grid import Contender, Settings, contender
from tests.bench.budget_runs import Run, Task, compile_first, keep_run, missing, read_runs, run_all
from tests.bench.drift_stream import DRIFT_AT, INFORMATIVE, ROWS, TOPICS, WORDS, ZIPF, MadeUp, make_stream

matplotlib.use("Agg")  # there is no screen
from matplotlib import pyplot as plt

STREAMS: Final = {"drift": True, "steady": False}
WINDOW: Final = 5_000
MARKS: Final = tuple(range(WINDOW, ROWS + 1, WINDOW))
LAST: Final = 50_000
AFTER: Final = 20_000
GAMMAS: Final = (0.3, 1.0, 3.0)
RHOS: Final = (1.0, 1.0 - 2e-5, 1.0 - 5e-5)
MODES: Final[dict[str, Settings]] = {
    "strict 1000": {"mode": "strict", "k": 1000},
    "hybrid 300": {"mode": "hybrid", "k": 300},
    "diag": {"mode": "diag"},
}
COLOURS: Final = dict(zip((*MODES, "ftrl", "truncated"), ("#08306b", "#2ca25f", "#e7298a", "#d95f02", "#756bb1"), strict=True))
STYLES: Final = dict(zip(RHOS, ("-", "--", ":"), strict=True))


def name_rho(rho: float) -> str:
    """rho as the tables show it."""
    return "1" if rho == 1.0 else f"1 - {1.0 - rho:.0e}".replace("e-0", "e-")


def _sketches() -> list[Contender]:
    return [
        contender(
            f"{name}, rho = {name_rho(rho)}",
            "",
            tuple({"kind": "taylor_sketch", **mode, "rho": rho, "gamma": gamma} for gamma in GAMMAS),
        )
        for (name, mode), rho in itertools.product(MODES.items(), RHOS)
    ]


def _ftrl() -> Iterator[Settings]:
    for alpha, l1 in itertools.product((0.3, 1.0, 3.0, 10.0), (0.1, 0.5, 2.0)):
        yield {"kind": "ftrl_proximal", "alpha": alpha, "l1": l1}


def _truncated() -> Iterator[Settings]:
    for eta, gravity in itertools.product((0.3, 0.9, 2.7), (0.0, 3e-5, 3e-4)):
        yield {"kind": "truncated_gradient", "eta": eta, "gravity": gravity}


def _constant() -> Iterator[Settings]:
    for eta, gravity in itertools.product((0.1, 0.5, 2.0), (0.0, 3e-5)):
        yield {"kind": "truncated_gradient", "rate": "constant", "normalised": False, "eta": eta, "gravity": gravity}


CONTENDERS: Final[tuple[Contender, ...]] = (
    *_sketches(),
    contender("ftrl", "", tuple(_ftrl())),
    contender("truncated", "", tuple(_truncated())),
    contender("truncated, constant rate", "", tuple(_constant())),
)


def last(run: Run) -> float:
    """Mean log loss of the last events of a run."""
    return run.mean(ROWS - LAST)


def best(runs: Sequence[Run], stream: str, name: str) -> Run | None:
    """The setting with the lowest loss at the end."""
    return min((run for run in runs if run.stream == stream and run.contender == name), key=last, default=None)


def excess(run: Run, bayes: F64) -> F64:
    """Mean log loss of each window minus that of the truth, f64[windows]."""
    loss = np.diff(np.array((0.0, *run.loss)))
    return np.asarray((loss - bayes.reshape(-1, WINDOW).sum(axis=1)) / WINDOW)


def table(runs: Sequence[Run], stream: str, made: MadeUp) -> str:
    """One line a contender, for its best setting."""
    heads = ["contender", "best setting", "last 50,000", "excess", "excess just after", "non-zeros, end / most", "seconds"]
    rows = []
    for one in CONTENDERS:
        run = best(runs, stream, one.name)
        if run is not None:
            after = excess(run, made.bayes)[DRIFT_AT // WINDOW :][: AFTER // WINDOW].mean()
            losses = [f"{last(run):.4f}", f"{excess_at_end(run, made):.4f}", f"{after:.4f}"]
            counts = f"{run.non_zeros:,} / {run.non_zeros_most:,}"
            rows.append([one.name, _brief(run.settings), *losses, counts, f"{run.seconds:.1f}"])
    return report.table(heads, rows)


def _brief(settings: Settings) -> str:
    return ", ".join(f"{name} {settings[name]:g}" for name in ("gamma", "alpha", "l1", "eta", "gravity") if name in settings)


def excess_at_end(run: Run, made: MadeUp) -> float:
    """Mean log loss of the last events minus that of the truth."""
    return last(run) - float(made.bayes[-LAST:].mean())


def said(runs: Sequence[Run], made: dict[str, MadeUp]) -> str:
    """In words: the contenders with the least excess at the end of each stream, and the gain and cost of forgetting for the
    sketches.
    """
    lines = []
    for stream, one in made.items():
        found = {c.name: run for c in CONTENDERS if (run := best(runs, stream, c.name)) is not None}
        ranked = sorted(found, key=lambda name: last(found[name]))
        if ranked:
            shown = ", ".join(f"{name} {excess_at_end(found[name], one):.4f}" for name in ranked[:3])
            lines.append(f"- *{stream}*, excess over the last {LAST:,}, the least three: {shown}.\n")
        for mode in MODES:
            of = [(name_rho(rho), found.get(f"{mode}, rho = {name_rho(rho)}")) for rho in RHOS]
            shown = ", ".join(f"{excess_at_end(run, one):.4f} with rho = {rho}" for rho, run in of if run is not None)
            if shown:
                lines.append(f"- *{stream}*, {mode}: {shown}.\n")
    return "".join(lines)


def draw(runs: Sequence[Run], made: dict[str, MadeUp], path: Path) -> None:
    """Excess over the truth along both streams, in windows; the best setting of each contender."""
    figure, panels = plt.subplots(1, len(STREAMS), figsize=(13.0, 5.0), layout="constrained", sharey=True)
    at = np.array(MARKS) / 1000.0
    for axes, stream in zip(panels, STREAMS, strict=True):
        for one in CONTENDERS:
            run = best(runs, stream, one.name)
            if run is not None:
                family = one.name.split(", ")[0]
                style = "--" if "rate" in run.settings else STYLES[run.settings.get("rho", 1.0)]
                axes.plot(at, excess(run, made[stream].bayes), style, color=COLOURS[family], label=one.name, linewidth=1.3)
        axes.set(xlabel="events, thousands", title=stream, ylim=(0.0, 0.3))
        axes.grid(alpha=0.3)
    panels[0].axvline(DRIFT_AT / 1000.0, color="0.6", linewidth=0.8)
    panels[0].set_ylabel("log loss over that of the truth, windows of 5,000")
    panels[1].legend(fontsize=8)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def options_of(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = report.arguments(__doc__ or "")
    parser.add_argument(
        "--runs", type=Path, default=Path(tempfile.gettempdir()) / "riata-drift.jsonl", metavar="FILE",
        help="where runs are kept, one JSON line each; what is in it is not run again (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--jobs", type=int, default=1, metavar="N",
        help="services that work side by side; 0 runs nothing and makes the report from what --runs holds (default: 1)",
    )  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="every third setting of each grid: for a look, not for evidence")
    return parser.parse_args(arguments)


def run(options: argparse.Namespace, chosen: Sequence[Contender]) -> tuple[dict[str, MadeUp], list[str]]:
    """Make the missing runs. Returns the streams and the failures."""
    with tempfile.TemporaryDirectory() as folder, Progress(console=Console(stderr=True)) as progress:
        made = {
            name: make_stream(name, drifts, Path(folder))
            for name, drifts in progress.track(list(STREAMS.items()), description="making the streams")
        }
        if not options.jobs:
            return made, []
        kept_runs = read_runs(options.runs)
        tasks: list[Task] = []
        for one in made.values():
            tasks += missing(one.lines, chosen, MARKS, kept_runs)
        bar = progress.add_task("compiling", total=len(tasks))
        compile_first(chosen)

        def kept(one: Run) -> None:
            keep_run(options.runs, one)
            progress.update(bar, advance=1, description=f"{one.stream}, {one.contender}")

        return made, run_all(tasks, options.jobs, kept)


def _text(runs: Sequence[Run], made: dict[str, MadeUp]) -> str:
    bayes = ", ".join(
        f"{name}: {one.bayes[:DRIFT_AT].mean():.4f} in the first half, {one.bayes[-LAST:].mean():.4f} over the last {LAST:,}"
        for name, one in made.items()
    )
    entries = made["drift"].lines.entries / ROWS
    refused = sum(one.refused for one in runs)
    return (
        "# Forgetting, with and without drift\n\n"
        f"{ROWS:,} synthetic texts over {WORDS:,} words (Zipf {ZIPF}, {TOPICS} topics, {entries:.1f} different words each,\n"
        f"unit-norm rows of 1 + log(count)); the log-odds are linear in {INFORMATIVE:,} of them, mostly common ones.\n"
        f"*drift*: half of these coefficients are redrawn at {DRIFT_AT:,}. *steady*: the same rows, nothing redrawn.\n"
        f"Log loss of the truth: {bayes}.\n\n"
        "![excess over the truth](drift.png)\n\n"
        "One pass over HTTP, test then train. The tables show the setting of each contender's grid with the lowest loss over\n"
        f"the last 50,000, chosen by the figure that is shown. *Just after*: the {AFTER:,} events from {DRIFT_AT:,} on.\n\n"
        + "".join(f"**{name}**\n\n{table(runs, name, one)}\n" for name, one in made.items()) + said(runs, made)
        + f"- Sketches: gamma {GAMMAS}, each rho by itself. `ftrl_proximal`: alpha (0.3, 1, 3, 10) x l1 (0.1, 0.5, 2).\n"
        "  `truncated_gradient`: eta (0.3, 0.9, 2.7) x gravity (0, 3e-5, 3e-4); at a constant rate, not normalised,\n"
        "  eta (0.1, 0.5, 2) x gravity (0, 3e-5).\n"
        "- With rho = 1 - 2e-5 the weight of an event is halved after 35,000 more events, with 1 - 5e-5 after 14,000. - "
        "Seconds are those of the whole pass through the service, including posting and parsing; other runs went on at the "
        "same time.\n"
        f"- {refused:,} events refused in {len(runs):,} runs.\n\n"
        + report.conditions("python -m tests.bench.drift", ["numpy", "matplotlib"])
    )  # fmt: skip


def main() -> int:
    """Make the missing runs and the report; exit status 1 if a run failed."""
    options = options_of()
    chosen = [replace(one, settings=one.settings[1::3]) if options.quick else one for one in CONTENDERS]
    write = not options.quick and not options.no_write
    made, failed = run(options, chosen)
    tried = [(one.name, settings) for one in chosen for settings in one.settings]
    runs = [one for one in read_runs(options.runs) if (one.contender, one.settings) in tried and one.stream in STREAMS]
    if write:
        report.EVIDENCE.mkdir(parents=True, exist_ok=True)
        draw(runs, made, report.EVIDENCE / "drift.png")
    report.publish("drift", _text(runs, made), write=write)
    for problem in failed:
        sys.stderr.write(f"failed: {problem}\n")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
