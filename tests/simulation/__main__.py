"""`python -m tests.simulation`: runs many seeds, and writes the page with the results.

--seeds 200000    how many histories
--first 0         the first seed
--mutants 1000    also play this many seeds of each mutant, for the table
--write PATH      write the page there
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import sys
from pathlib import Path

from tests.simulation.mutants import MUTANTS
from tests.simulation.runner import FOREVER_S, Summary, run_many
from tests.simulation.server import MODES


def main(arguments: list[str] | None = None) -> int:
    """Run, print, and write the results. Returns 1 if a guarantee was violated."""
    parser = argparse.ArgumentParser(prog="tests.simulation")
    parser.add_argument("--seeds", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--budget-s", type=float, default=FOREVER_S)
    parser.add_argument("--mutants", type=int, default=0)
    parser.add_argument("--write", type=Path)
    asked = parser.parse_args(arguments)
    summary = run_many(asked.first, asked.seeds, asked.budget_s, asked.processes)
    lines = page(summary, asked.processes)
    if asked.mutants:
        lines += mutant_table(asked.mutants, asked.processes)
    text = "\n".join(lines) + "\n"
    sys.stdout.write(text)
    if asked.write:
        asked.write.write_text(text, encoding="utf-8")
    for outcome in summary.failed[:20]:
        sys.stdout.write(f"seed {outcome.seed} ({outcome.mode}): {outcome.violation}\n")
    return 1 if summary.failed else 0


def page(summary: Summary, processes: int) -> list[str]:
    """The results of many histories, in Markdown."""
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    seeds = max(summary.seeds, 1)
    return [
        "# Deterministic simulation",
        "",
        "Production engines, stores and Lua scripts on simulated threads, clocks, network and disk (ADR 0024). One seed is one",
        "history: 3 clients with 12 events each, 2 web processes, 2 candidates for the writer, a storm of faults, then quiet.",
        "Every write of every script is checked as it is made. Command: `python -m tests.simulation --seeds N --mutants M`.",
        "",
        f"Measured {day}, Python {platform.python_version()}, {processes} processes on {os.cpu_count()} cores.",
        "",
        "| what | count |",
        "|---|---|",
        f"| seeds | {summary.seeds:,} ({', '.join(f'{mode} {summary.by_mode[mode]:,}' for mode in MODES)}) |",
        f"| **violations** | **{len(summary.failed)}** |",
        f"| seeds a second, wall clock | {summary.seeds / max(summary.wall_s, 1e-9):.1f} |",
        f"| seeds a second of processor time | {summary.seeds / max(summary.cpu_s, 1e-9):.1f} |",
        f"| steps of the agenda | {summary.steps:,} ({summary.steps / seeds:.0f} a seed) |",
        f"| virtual time | {summary.virtual_ms / 3.6e6:.1f} hours |",
        f"| events in the logs at the end | {summary.events:,} |",
        f"| generations in the histories at the end | {summary.generations:,} |",
        f"| editions published | {summary.editions:,} |",
        f"| states promoted | {summary.promotions:,} |",
        f"| states restored | {summary.restores:,} |",
        f"| events of ids that restores had freed | {summary.again:,} |",
        f"| acknowledged events taken back by everysec or failover, and noticed | {summary.losses:,} |",
        "",
        "| fault | injected |",
        "|---|---|",
        *(f"| {name} | {count:,} |" for name, count in summary.faults.most_common()),
        "",
    ]


def mutant_table(seeds: int, processes: int) -> list[str]:
    """How often each removed safeguard is detected."""
    lines = [
        f"Seeds that fail when one safeguard is removed, of about {seeds // len(MODES)} in each mode:",
        "",
        "| removed safeguard | " + " | ".join(MODES) + " |",
        "|---|" + "---|" * len(MODES),
    ]
    for name, mutant in MUTANTS.items():
        summary = run_many(0, seeds, FOREVER_S, processes, name)
        failed = [sum(outcome.mode == mode for outcome in summary.failed) for mode in MODES]
        shares = [f"{count}" for count in failed]
        lines.append(f"| {mutant.row} | " + " | ".join(shares) + " |")
    return [*lines, ""]


if __name__ == "__main__":
    raise SystemExit(main())
