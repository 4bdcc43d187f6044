"""What every bench of speed shares: contenders in turn, the same work asked of all, claims as ratios, a page and a picture.

A claim is a ratio of two sides measured in one run. `contest` lets every side do its work once untimed, has the bench compare
what came of it, and refuses to time sides that did not do the same. Then the sides alternate; where the order could matter
it is turned round every other time. Ratios are taken round by round, and of them the median, so that what other work on
the machine takes from one round it takes from both sides.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.progress import Progress

from tests.bench import report
from tests.bench.ratio_picture import draw_claims

TRIALS: Final = Path(__file__).resolve().parents[2] / "build" / "bench"  # a trial never takes the place of evidence


class UnequalWork(RuntimeError):
    """The sides did not do the same: nothing was timed."""


@dataclass(frozen=True, slots=True)
class Measure:
    """One run of one side: wall and CPU seconds for `units` of work, and additional figures such as log loss or p50_us."""

    seconds: float
    cpu_s: float
    units: int
    facts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Side:
    """A contender. `run` is one complete timed run; preparation happens before it, or outside of the measured time."""

    name: str
    run: Callable[[], Measure]


@dataclass(frozen=True, slots=True)
class Claim:
    """How many times faster `ours` is than `theirs` on `path`, and the ratio to reach; an upper bound if `at_most`."""

    path: str
    ours: str
    theirs: str
    ratio: float
    reach: float
    at_most: bool = False

    @property
    def reached(self) -> bool:
        """Whether the ratio is reached."""
        return self.ratio <= self.reach if self.at_most else self.ratio >= self.reach

    @property
    def wanted(self) -> str:
        """The target in words."""
        return f"{'at most' if self.at_most else 'at least'} {self.reach:g}"


Found = dict[str, list[Measure]]


def contest(sides: Sequence[Side], repeats: int, same: Callable[[dict[str, Measure]], str]) -> Found:
    """Run every side once, compare, then run all in turn `repeats` times.

    `same` is given the untimed first run of each side by name and returns why they did not do the same work, or nothing.
    Raises `UnequalWork` with its words, or where a later run of a side has other units than its first.
    """
    found: Found = {side.name: [] for side in sides}
    if len(found) != len(sides):
        raise ValueError("two sides have one name")
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("once untimed", total=len(sides) * (repeats + 1))
        first: dict[str, Measure] = {}
        for side in sides:
            first[side.name] = side.run()
            progress.advance(task)
        why = same(first)
        if why:
            raise UnequalWork(why)
        for repeat in range(repeats):
            for side in sides if repeat % 2 == 0 else reversed(sides):
                progress.update(task, description=f"round {repeat + 1} of {repeats}: {side.name}")
                measure = side.run()
                if measure.units != first[side.name].units:
                    raise UnequalWork(f"{side.name} did {measure.units:,} units, {first[side.name].units:,} at first")
                found[side.name].append(measure)
                progress.advance(task)
    return found


def per_unit(measures: Sequence[Measure], of: str = "seconds") -> float:
    """Median of seconds (or `cpu_s`) a unit."""
    return float(statistics.median(getattr(measure, of) / measure.units for measure in measures))


def fact(measures: Sequence[Measure], name: str) -> float:
    """Median of one of the side's additional figures."""
    return statistics.median(measure.facts[name] for measure in measures)


def times_faster(found: Found, ours: str, theirs: str, of: str = "seconds") -> float:
    """The seconds (or `cpu_s`) per unit of `theirs` over those of `ours`: the median over the rounds."""
    pairs = zip(found[ours], found[theirs], strict=True)
    return statistics.median(per_unit([them], of) / per_unit([us], of) for us, them in pairs)


def contenders(found: Found, unit: str, facts: Sequence[str] = (), ours: str | None = None) -> str:
    """The table of a contest: units a second with their range, wall and CPU time a unit, own figures, times `ours` is faster."""
    ours = ours or next(iter(found))
    heads = ["contender", f"{unit}s/s", "range", f"ns a {unit}", f"CPU ns a {unit}", *facts, f"{ours} is faster", "in CPU"]
    rows = []
    for name, measures in found.items():
        speeds = [measure.units / measure.seconds for measure in measures]
        own = [f"{fact(measures, label):.4g}" if label in measures[0].facts else "" for label in facts]
        wall, cpu = (per_unit(measures, of) * 1e9 for of in ("seconds", "cpu_s"))
        counted = all(measure.cpu_s > 0.0 for side in (ours, name) for measure in found[side])  # in ticks of 10 ms
        ratios = [f"{times_faster(found, ours, name, of):.2f}×" for of in ("seconds", "cpu_s")] if counted else ["", ""]
        spread = [f"{statistics.median(speeds):,.0f}", f"{min(speeds):,.0f}-{max(speeds):,.0f}"]
        rows.append([name, *spread, f"{wall:,.3g}", f"{cpu:,.3g}", *own, *ratios])
    return report.table(heads, rows)


def claim_table(claims: Sequence[Claim]) -> str:
    """The claims as a markdown table."""
    rows = [
        [claim.path, claim.ours, claim.theirs, f"**{claim.ratio:.2f}**", claim.wanted, "yes" if claim.reached else "**no**"]
        for claim in claims
    ]
    heads = ["path", "ours", "measured against", "ratio", "to reach", "reached"]
    lines = report.table(heads, rows).splitlines()
    lines[1] = "| --- | --- | --- | ---: | ---: | ---: |"
    return "\n".join(lines) + "\n"


def arguments(about: str) -> argparse.ArgumentParser:
    """The options of every speed bench."""
    parser = report.arguments(about)
    parser.add_argument("--quick", action="store_true", help="a trial of some seconds, written to build/bench instead")
    return parser


def folder(trial: bool) -> Path:
    """The folder of a page; that of a trial is not among the evidence."""
    return TRIALS if trial else report.EVIDENCE


def report_page(
    name: str,
    title: str,
    intro: str,
    claims: Sequence[Claim],
    tables: Sequence[str],
    notes: Sequence[str],
    command: str,
    packages: Sequence[str],
    write: bool,
    trial: bool = False,
) -> None:
    """Show a page; where `write`, leave it with a picture of its claims and a file of its results in `folder(trial)`.

    tables   : each a piece of markdown, its heading in it, from `contenders` or `report.table`
    notes    : paragraphs after the tables
    command  : what made it, as typed
    packages : distributions whose versions belong to the conditions
    """
    picture = [f"![ratios]({name}.svg)\n"] if claims and write else []
    warned = ["*A trial: short runs, few of them. Not evidence.*\n"] if trial else []
    conditions = report.conditions(command, packages)
    table = [claim_table(claims)] if claims else []
    parts = [
        f"# {title}\n",
        *warned,
        intro.strip() + "\n",
        *table,
        *picture,
        *tables,
        *(f"{note}\n" for note in notes),
        conditions,
    ]
    text = "\n".join(parts)
    sys.stdout.write(text)
    if not write:
        return
    at = folder(trial)
    at.mkdir(parents=True, exist_ok=True)
    (at / f"{name}.md").write_text(text, encoding="utf-8")
    if claims:
        draw_claims(claims, at / f"{name}.svg")
    result = {
        "name": name, "title": title, "trial": trial, "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "conditions": conditions, "claims": [asdict(claim) for claim in claims],
    }  # fmt: skip
    (at / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def read_result(name: str, trial: bool = False) -> dict[str, Any] | None:
    """The results that `report_page` wrote for a bench, its claims as `Claim`; None if it has not run."""
    path = folder(trial) / f"{name}.json"
    if not path.is_file():
        return None
    result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    result["claims"] = [Claim(**claim) for claim in result["claims"]]
    return result
