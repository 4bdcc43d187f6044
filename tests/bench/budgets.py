"""How well a stream is predicted with at most 100, 300 or 1000 non-zero weights: eight public streams, one pass each.

Contenders: the Taylor sketch in its bounded forms (strict with k = 100, 300, 1000; hybrid; diag; and a diag that forgets, for
labels that follow one another), FTRL-Proximal, truncated gradient and Vowpal Wabbit, each over a stated grid of settings. This
project's learners learn over HTTP, in a service of their own; Vowpal Wabbit learns the same bytes in a separate process. Every
run is appended to --runs as one line of JSON as soon as it is done: started again with the same file, only what is missing is
run, and the report is made from everything that is there.

Needs RIATA_SHARED. About half an hour with --jobs 3 on four cores; --quick takes a third of it. The pages under
service/docs/evidence are written only where nothing was left out.

Examples
  python -m tests.bench.budgets --runs budgets.jsonl --jobs 3
  python -m tests.bench.budgets --runs budgets.jsonl --streams acq elec2 --contenders "strict 100" ftrl
  python -m tests.bench.budgets --runs budgets.jsonl --jobs 0      # nothing run, the report made anew
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import Progress

from tests.bench import report
from tests.bench.budget_grid import CONTENDERS, Contender, thinned
from tests.bench.budget_report import (
    Field,
    budget_table,
    draw,
    most_table,
    spread_table,
    summary_table,
    tally,
    write_csv,
)
from tests.bench.budget_runs import Run, Task, compile_first, keep_run, missing, read_runs, run_all
from tests.bench.budget_streams import BUDGET_STREAMS, OTHER_STREAMS, Lines, write_lines

ALL_STREAMS: Final = {**BUDGET_STREAMS, **OTHER_STREAMS}
NAMES: Final = tuple(one.name for one in CONTENDERS)


def halves(rows: int) -> tuple[int, int]:
    """The marks at which the loss is read: the half and the end."""
    return rows // 2, rows


def options_of(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = report.arguments(__doc__ or "")
    parser.add_argument(
        "--runs", type=Path, default=Path(tempfile.gettempdir()) / "riata-budgets.jsonl", metavar="FILE",
        help="where runs are kept, one JSON line each; what is in it is not run again (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--jobs", type=int, default=1, metavar="N",
        help="services that work side by side, each keeping about a core and a half busy; 0 runs nothing and makes the report"
        " from what --runs holds (default: 1)",
    )  # fmt: skip
    parser.add_argument(
        "--streams", nargs="+", choices=sorted(ALL_STREAMS), default=list(BUDGET_STREAMS), metavar="STREAM",
        help=f"only these of {', '.join(BUDGET_STREAMS)}; {', '.join(OTHER_STREAMS)} are there for comparison and run only"
        " where they are named",
    )  # fmt: skip
    parser.add_argument(
        "--contenders", nargs="+", choices=NAMES, default=list(NAMES), metavar="CONTENDER",
        help=f"only these of {', '.join(NAMES)}; quote names with a blank",
    )  # fmt: skip
    parser.add_argument(
        "--quick", action="store_true", help="every third setting of each grid, and the defaults: for a look, not for evidence"
    )
    return parser.parse_args(arguments)


def pending(options: argparse.Namespace, chosen: Sequence[Contender], streams: list[Lines], folder: Path) -> Iterator[Task]:
    """Write one stream after another and yield the runs still to make over it; `streams` receives the streams."""
    made = read_runs(options.runs)
    for name in options.streams:
        lines = write_lines(name, ALL_STREAMS[name](), folder)
        streams.append(lines)
        if options.jobs:
            yield from missing(lines, chosen, halves(lines.rows), made)


def run(options: argparse.Namespace, chosen: Sequence[Contender]) -> tuple[list[Lines], list[str]]:
    """Make the missing runs. Returns the streams and the failures."""
    streams: list[Lines] = []
    with tempfile.TemporaryDirectory() as folder, Progress(console=Console(stderr=True)) as progress:
        bar = progress.add_task("runs", total=0)
        expected = 0

        def counted() -> Iterator[Task]:
            nonlocal expected
            for task in pending(options, chosen, streams, Path(folder)):
                expected += 1
                progress.update(bar, total=expected)
                yield task

        def kept(one: Run) -> None:
            keep_run(options.runs, one)
            progress.update(bar, advance=1, description=f"{one.stream}, {one.contender}")

        if options.jobs:
            progress.update(bar, description="compiling")
            compile_first(chosen)
            return streams, run_all(counted(), options.jobs, kept)
        list(pending(options, chosen, streams, Path(folder)))
    return streams, []


def fields_of(streams: Sequence[Lines], chosen: Sequence[Contender], runs: Sequence[Run]) -> list[Field]:
    """The runs stream by stream, those of the chosen contenders and settings only."""
    fields = []
    for lines in streams:
        own = tuple(
            one for one in runs
            if one.stream == lines.name and any(one.contender == c.name and one.settings in c.settings for c in chosen)
        )  # fmt: skip
        fields.append(Field(lines.name, lines.rows, lines.positives, lines.features, tuple(chosen), own))
    return fields


def _about(fields: Sequence[Field], chosen: Sequence[Contender], streams: Sequence[Lines]) -> str:
    rows = [
        [one.name, f"{one.rows:,}", f"{one.positives / one.rows:.2%}", f"{one.features:,}", f"{one.entries / one.rows:.1f}"]
        for one in streams
    ]
    grids = "".join(f"- **{one.name}**: {one.about} ({len(one.settings)} settings)\n" for one in chosen)
    runs = [one for field in fields for one in field.runs]
    minutes = sum(one.seconds for one in runs) / 60.0
    refused = sum(one.refused for one in runs)
    return (
        "## What was run\n\n" + report.table(["stream", "rows", "positive", "features", "features a row"], rows) + "\n"
        "- *acq*, *earn*: Reuters-21578, ModApte train, then test, each in the order of time. *newsgroups*: 20 Newsgroups\n"
        "  without headers (they name the group), comp.* against the rest; train before test, because the set is split by date,\n"
        "  and each of the two shuffled once with a fixed seed, because the files are sorted by group. *lingspam*: shuffled.\n"
        "  *a9a*, *ipinyou*: train, then test. *elec2*, *kddcup* (10 % sample; attack or not): the order of the file.\n"
        "- Texts are unit-norm rows of 1 + log(count): a function of the row alone. Numbers of *kddcup* are log(1 + x); the\n"
        "  others are unchanged. The values are written once, with nine digits, and every contender reads the same bytes.\n"
        "- Every event is predicted before it is learnt. The intercept is not penalised and not counted, except with Vowpal "
        "Wabbit, whose constant is penalised and counted like any weight.\n"
        "- All other settings have their defaults. The link is logistic.\n" + grids
        + f"- {len(runs):,} runs, {minutes:.0f} minutes in total, {refused:,} events refused.\n"
    )  # fmt: skip


def _text(fields: Sequence[Field], chosen: Sequence[Contender], streams: Sequence[Lines]) -> str:
    tables = ""
    for field in fields:
        tables += (
            f"\n### {field.stream}\n\nAlways the share of ones: {field.entropy:.4f}.\n\nSecond half:\n\n"
            + budget_table(field, whole=False) + "\nWhole stream:\n\n" + budget_table(field, whole=True)
        )  # fmt: skip
    return (
        "# Log loss with a budget of non-zero weights\n\n"
        "One pass, test then train, over eight public streams. The tables show the mean log loss of the second half for the "
        "best setting of each contender's grid, among the runs that **end** with at most n non-zeros. Choosing the setting by "
        "the loss that is shown favours every contender, and most of all those with larger grids: the sketches have one "
        "setting in the grid, the others two or three.\n\n"
        "Only the strict sketch keeps its bound at every event: k members including the intercept, so at most k - 1 weights if "
        "n = k. The others are within the budget at the end, and may have had many more before (last table).\n\n"
        "![log loss against non-zeros](budgets.png)\n\n"
        "## The strict sketch and the best of FTRL-Proximal, truncated gradient and Vowpal Wabbit\n\n"
        "Best strict sketch : best other learner, second half. The lower is in bold; *-* means that no run ended within the "
        "budget. The last column has no budget, and any sketch.\n\n"
        + summary_table(fields) + "\n" + tally(fields) + "\n## Stream by stream\n" + tables
        + "\n## Without a budget: the best setting, the median of the grid, the defaults\n\n"
        "Second half. A grid that reaches down to 100 non-zeros includes settings that are bad without a budget. Medians "
        "therefore show the spread of a grid, not the quality of a learner. The third figure is the result if only the kind of "
        "learner is set (and here the mode and k; for *diag, rho* also rho = 0.9999, gamma = 0.1).\n\n"
        + spread_table(fields, chosen) + "\n## Non-zeros of the best run within 100: at the end, and the maximum before\n\n"
        + most_table(fields, chosen) + "\n" + _about(fields, chosen, streams) + "\n"
        + report.conditions("python -m tests.bench.budgets", ["numpy", "vowpalwabbit", "matplotlib"])
    )  # fmt: skip


def main() -> int:
    """Make the missing runs and the report; exit status 1 if a run failed."""
    options = options_of()
    chosen = [thinned(one) if options.quick else one for one in CONTENDERS if one.name in options.contenders]
    streams, failed = run(options, chosen)
    fields = fields_of(streams, chosen, read_runs(options.runs))
    whole = not options.quick and len(chosen) == len(CONTENDERS) and options.streams == list(BUDGET_STREAMS)
    write = whole and not options.no_write
    if write:
        report.EVIDENCE.mkdir(parents=True, exist_ok=True)
        draw(fields, report.EVIDENCE / "budgets.png")
        write_csv(fields, report.EVIDENCE / "budgets.csv")
    report.publish("budgets", _text(fields, chosen, streams), write=write)
    for problem in failed:
        sys.stderr.write(f"failed: {problem}\n")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
