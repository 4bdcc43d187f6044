"""What the benches of speed share: contenders in turn, the same work asked of all, one section of speed.md.

`contest` lets every side do its work once untimed, has the bench compare what came of it, and refuses to time sides that did
not do the same. Then the sides alternate; every other round has the reverse order. Ratios are taken round by round, and of
them the median, so that what other work on the machine takes from one round it takes from both sides.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from rich.console import Console
from rich.progress import Progress

from tests.bench import report

PAGE: Final = "speed.md"
TITLE: Final = (
    "# Speed\n\nBoth sides were measured alternately in one run on one machine, after a check that they do the same work.\n"
)


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
    """The table of a contest: units a second and their range, CPU time a unit, own figures, how many times `ours` is faster."""
    ours = ours or next(iter(found))
    heads = ["contender", f"{unit}s/s (range)", f"CPU ns a {unit}", *facts, f"{ours} is faster"]
    rows = []
    for name, measures in found.items():
        speeds = [measure.units / measure.seconds for measure in measures]
        own = [_short(fact(measures, label)) if label in measures[0].facts else "" for label in facts]
        spread = f"{statistics.median(speeds):,.0f} ({min(speeds):,.0f}-{max(speeds):,.0f})"
        cpu = _short(per_unit(measures, "cpu_s") * 1e9)
        rows.append([name, spread, cpu, *own, f"{times_faster(found, ours, name):.2f}×"])
    return report.table(heads, rows)


def _short(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 100.0 else f"{figure:.4g}"


def arguments(about: str) -> argparse.ArgumentParser:
    """The options of every bench of speed."""
    parser = report.arguments(about)
    parser.add_argument("--quick", action="store_true", help="a trial of some seconds, which is printed only")
    return parser


def publish(title: str, parts: Sequence[str], command: str, packages: Sequence[str], options: argparse.Namespace) -> None:
    """Show a section, and put it into speed.md in place of the one with its title, unless it is a trial."""
    section = "\n".join([f"## {title}\n", *(f"{part.rstrip()}\n" for part in parts), report.conditions(command, packages)])
    sys.stdout.write(section)
    if options.no_write or options.quick:
        return
    page = report.EVIDENCE / PAGE
    before = page.read_text(encoding="utf-8") if page.is_file() else TITLE
    head, *sections = re.split(r"^(?=## )", before, flags=re.MULTILINE)
    places = [at for at, one in enumerate(sections) if one.startswith(f"## {title}\n")] or [len(sections)]
    sections[places[0] : places[0] + 1] = [section]
    page.write_text("\n".join(one.rstrip() + "\n" for one in (head, *sections)), encoding="utf-8")
