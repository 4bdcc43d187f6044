"""How well a stream is predicted with at most 100, 300 or 1000 non-zero weights: eight public streams, one pass each.

Contenders: the Taylor sketch in its bounded forms (strict with k = 100, 300, 1000; hybrid; diag; and a diag that forgets, for
labels that follow one another), FTRL-Proximal, truncated gradient and Vowpal Wabbit, each over a stated grid of settings. This
project's learners learn over HTTP; Vowpal Wabbit learns the same bytes in a separate process. Every run is appended to --runs
as one line of JSON as soon as it is done: started again with the same file, only what is missing is run, and the report is made
from everything that is there.

Needs RIATA_SHARED. Takes some hours. The page is written only if all streams and contenders were asked for.

    python -m tests.bench.budgets --runs budgets.jsonl --streams acq elec2 --contenders "strict 100" ftrl
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import Progress

from tests.bench import report
from tests.bench.budget_runs import (
    BUDGET_STREAMS,
    BUDGETS,
    CONTENDERS,
    Contender,
    Lines,
    Run,
    keep_run,
    missing,
    read_runs,
    run_task,
    write_lines,
)
from tests.bench.service import ServiceFailed, connect, running_service

NAMES: Final = tuple(one.name for one in CONTENDERS)
UNLIMITED: Final = math.inf
LIMITS: Final = (*(float(budget) for budget in BUDGETS), UNLIMITED)
STRICT: Final = tuple(f"strict {k}" for k in BUDGETS)
SKETCHES: Final = (*STRICT, "hybrid", "diag", "diag, rho")
OTHERS: Final = ("ftrl", "truncated", "vw")


@dataclass(frozen=True, slots=True)
class Field:
    """All runs over one stream: contenders in their fixed order, and what the stream is."""

    stream: str
    contenders: tuple[Contender, ...]
    runs: tuple[Run, ...]

    def of(self, contender: str) -> list[Run]:
        """The runs of one contender."""
        return [run for run in self.runs if run.contender == contender]


def best(runs: Sequence[Run], limit: float, whole: bool = False) -> Run | None:
    """The run with the lowest log loss, of the second half or of the whole stream, among those that end within the limit."""
    fit = [run for run in runs if run.non_zeros <= limit]
    return min(fit, key=lambda run: run.whole if whole else run.second_half, default=None)


def number(loss: float | None) -> str:
    """A log loss as tables show it."""
    return "-" if loss is None else f"{loss:.4f}"


def name_limit(limit: float) -> str:
    """A budget in words."""
    return "any" if math.isinf(limit) else f"{limit:.0f}"


def pair(field: Field, limit: float, whole: bool = False) -> tuple[Run | None, Run | None]:
    """The best run of the strict sketches, or of all sketches without a limit; and that of the other learners."""
    sketches = STRICT if math.isfinite(limit) else SKETCHES
    ours = best([run for run in field.runs if run.contender in sketches], limit, whole)
    return ours, best([run for run in field.runs if run.contender in OTHERS], limit, whole)


def summary_table(fields: Sequence[Field]) -> str:
    """For each stream and budget: the best sketch and the best learner of another kind."""
    asked = [(BUDGETS[0], True), *((limit, False) for limit in LIMITS)]
    rows = [[field.stream, *(_against(*pair(field, *one), one[1]) for one in asked)] for field in fields]
    return report.table(["stream", "n = 100, whole stream", *(f"n = {name_limit(limit)}" for limit in LIMITS)], rows)


def _against(ours: Run | None, other: Run | None, whole: bool) -> str:
    losses = [None if run is None else run.whole if whole else run.second_half for run in (ours, other)]
    least = min((loss for loss in losses if loss is not None), default=None)
    left, right = (f"**{number(loss)}**" if loss == least else number(loss) for loss in losses)
    kind = "" if ours is None or ours.contender in STRICT else f" {ours.contender}"
    return f"{left}{kind} : {right} {other.contender if other else ''}".rstrip()


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


def options_of() -> argparse.Namespace:
    """Read the command line."""
    parser = report.arguments(__doc__ or "")
    parser.add_argument(
        "--runs", type=Path, default=Path(tempfile.gettempdir()) / "riata-budgets.jsonl", metavar="FILE",
        help="where runs are kept, one JSON line each; what is in it is not run again (default: %(default)s)",
    )  # fmt: skip
    streams, names = list(BUDGET_STREAMS), list(NAMES)
    parser.add_argument("--streams", nargs="+", choices=streams, default=streams, metavar="STREAM", help="only these")
    parser.add_argument("--contenders", nargs="+", choices=names, default=names, metavar="CONTENDER", help="only these")
    return parser.parse_args()


def run(options: argparse.Namespace, chosen: Sequence[Contender]) -> tuple[list[Lines], list[str]]:
    """Make the missing runs. Returns the streams and the failures."""
    streams, failed = [], []
    made = read_runs(options.runs)
    with tempfile.TemporaryDirectory() as folder, Progress(console=Console(stderr=True)) as progress, running_service() as port:
        service = connect(port)
        for name in options.streams:
            lines = write_lines(name, BUDGET_STREAMS[name](), Path(folder))
            streams.append(lines)
            tasks = list(missing(lines, chosen, (lines.rows // 2, lines.rows), made))
            for task in progress.track(tasks, description=name):
                try:
                    keep_run(options.runs, run_task(task, service))
                except ServiceFailed as problem:
                    failed.append(f"{name}, {task.contender.name}, {task.settings}: {problem}")
    return streams, failed


def fields_of(streams: Sequence[Lines], chosen: Sequence[Contender], runs: Sequence[Run]) -> list[Field]:
    """The runs stream by stream, those of the chosen contenders and settings only."""
    fields = []
    for lines in streams:
        own = tuple(
            one for one in runs
            if one.stream == lines.name and any(one.contender == c.name and one.settings in c.settings for c in chosen)
        )  # fmt: skip
        fields.append(Field(lines.name, tuple(chosen), own))
    return fields


def what_was_run(fields: Sequence[Field], streams: Sequence[Lines]) -> str:
    """The streams, the grids and the runs."""
    rows = [
        [one.name, f"{one.rows:,}", f"{one.positives / one.rows:.2%}", f"{one.features:,}", f"{one.entries / one.rows:.1f}"]
        for one in streams
    ]
    grids = ", ".join(f"{len(one.settings)} of *{one.name}*" for one in CONTENDERS)
    runs = [one for field in fields for one in field.runs]
    minutes = sum(one.seconds for one in runs) / 60.0
    return (
        "## What was run\n\n" + report.table(["stream", "rows", "positive", "features", "features a row"], rows) + "\n"
        "- Texts (the first four streams) are unit-norm rows of 1 + log(count). *newsgroups* and *lingspam* are shuffled, the\n"
        "  others in the order of time or of the file. Numbers of *kddcup* are log(1 + x).\n"
        "- The intercept is not penalised and not counted, except with Vowpal Wabbit.\n"
        "- Settings in the grids (`CONTENDERS` in `tests/bench/budget_runs.py`): " + grids + ". All others have their defaults.\n"
        f"- {len(runs):,} runs, {minutes:.0f} minutes in total. The link is logistic.\n"
    )  # fmt: skip


def main() -> int:
    """Make the missing runs and the report; exit status 1 if a run failed."""
    options = options_of()
    chosen = [one for one in CONTENDERS if one.name in options.contenders]
    streams, failed = run(options, chosen)
    fields = fields_of(streams, chosen, read_runs(options.runs))
    write = len(chosen) == len(CONTENDERS) and len(streams) == len(BUDGET_STREAMS) and not options.no_write
    if write:
        write_csv(fields, report.EVIDENCE / "budgets.csv")
    text = (
        "# Log loss with a budget of non-zero weights\n\n"
        "One pass, test then train, over eight public streams: the mean log loss of the second half for the best setting of each "
        "contender's grid, among the runs that **end** with at most n non-zeros. Choosing the setting by the loss that is shown "
        "favours larger grids. Only the strict sketch keeps its bound at every event (k members with the intercept). "
        "[budgets.csv](budgets.csv) has the best run of each contender, stream and budget, and the most non-zeros it had.\n\n"
        "Best strict sketch : best of FTRL-Proximal, truncated gradient and Vowpal Wabbit, second half if not stated otherwise. "
        "The lower is in bold; *-* means that no run ended within the budget. The last column has no budget, and any sketch.\n\n"
        + summary_table(fields) + "\n" + what_was_run(fields, streams) + "\n"
        + report.conditions("python -m tests.bench.budgets", ["numpy", "vowpalwabbit"])
    )  # fmt: skip
    report.publish("budgets", text, write=write)
    for problem in failed:
        sys.stderr.write(f"failed: {problem}\n")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
