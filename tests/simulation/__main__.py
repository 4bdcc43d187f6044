"""`python -m tests.simulation`: runs many seeds, and prints the results.

--seeds 200000    how many histories
--first 0         the first seed
--mutants 1000    also play this many seeds of each mutant, and print how many of them fail
"""

from __future__ import annotations

import argparse
import os
import sys

from tests.simulation.mutants import MUTANTS
from tests.simulation.runner import FOREVER_S, Summary, run_many
from tests.simulation.server import MODES


def main(arguments: list[str] | None = None) -> int:
    """Run, and print the results. Returns 1 if a guarantee was violated."""
    parser = argparse.ArgumentParser(prog="tests.simulation")
    parser.add_argument("--seeds", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--budget-s", type=float, default=FOREVER_S)
    parser.add_argument("--mutants", type=int, default=0)
    asked = parser.parse_args(arguments)
    summary = run_many(asked.first, asked.seeds, asked.budget_s, asked.processes)
    sys.stdout.write("\n".join([*counts(summary), *mutants(asked.mutants, asked.processes)]) + "\n")
    for outcome in summary.failed[:20]:
        sys.stdout.write(f"seed {outcome.seed} ({outcome.mode}): {outcome.violation}\n")
    return 1 if summary.failed else 0


def counts(summary: Summary) -> list[str]:
    """What many histories had, a line each."""
    sums = ("seeds", "steps", "events", "generations", "editions", "promotions", "restores", "again", "losses")
    lines = [f"{name}: {getattr(summary, name):,}" for name in sums]
    lines += [f"violations: {len(summary.failed)}", f"virtual time: {summary.virtual_ms / 3.6e6:.1f} hours"]
    lines += [f"seeds in mode {mode}: {summary.by_mode[mode]:,}" for mode in MODES]
    return [*lines, *(f"{name}: {count:,}" for name, count in summary.faults.most_common())]


def mutants(seeds: int, processes: int) -> list[str]:
    """How many seeds of each mode detect each removed safeguard, as CSV; nothing if no seed is to be played."""
    lines = ["removed_safeguard," + ",".join(MODES)]
    for name, mutant in MUTANTS.items() if seeds else ():
        failed = run_many(0, seeds, FOREVER_S, processes, name).failed
        lines.append(",".join([mutant.row, *(str(sum(outcome.mode == mode for outcome in failed)) for mode in MODES)]))
    return lines if seeds else []


if __name__ == "__main__":
    raise SystemExit(main())
