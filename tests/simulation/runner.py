"""Runs many seeds on several cores, until a time limit."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from tests.simulation.history import Outcome, simulate, simulating
from tests.simulation.lua_host import Scripts
from tests.simulation.mutants import MUTANTS, applied
from tests.simulation.server import MODES, Mode

SLICE: Final = 25  # seeds that a worker takes at a time
FOREVER_S: Final = 1e9


@dataclass(slots=True)
class Summary:
    """The results of many histories."""

    seeds: int = 0
    steps: int = 0
    events: int = 0
    generations: int = 0
    editions: int = 0
    losses: int = 0
    upgrades: int = 0
    promotions: int = 0
    restores: int = 0
    again: int = 0
    cpu_s: float = 0.0
    wall_s: float = 0.0
    virtual_ms: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    by_mode: Counter[str] = field(default_factory=Counter)
    failed: list[Outcome] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        """Count one history."""
        self.seeds += 1
        self.steps += outcome.steps
        self.events += outcome.events
        self.generations += outcome.generations
        self.editions += outcome.editions
        self.losses += outcome.losses
        self.upgrades += outcome.upgrades
        self.promotions += outcome.promotions
        self.restores += outcome.restores
        self.again += outcome.again
        self.virtual_ms += outcome.virtual_ms
        self.faults += outcome.faults
        self.ends += outcome.ends
        self.by_mode[outcome.mode] += 1
        if outcome.violation:
            self.failed.append(outcome)

    def merge(self, other: Summary) -> None:
        """Add the counts of another summary."""
        sums = ["seeds", "steps", "events", "generations", "editions", "losses", "upgrades", "promotions", "cpu_s", "virtual_ms"]
        sums += ["restores", "again"]
        for name in sums:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("faults", "ends", "by_mode", "failed"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


def mode_of(seed: int) -> Mode:
    """The mode of a seed: modes alternate."""
    return MODES[seed % len(MODES)]


def restored(seed: int) -> bool:
    """Whether states are restored in the history of a seed: in a third of those of each mode."""
    return seed // len(MODES) % 3 == 2


def run_slice(task: tuple[int, int, str]) -> Summary:
    """Run the seeds first..first+count-1, with the named mutant or none."""
    first, count, mutant = task
    summary = Summary()
    begun = time.process_time()
    chosen = MUTANTS[mutant] if mutant else None
    scripts = Scripts(chosen.scripts if chosen else {})
    with simulating(), applied(chosen) if chosen else contextlib.nullcontext():
        for seed in range(first, first + count):
            summary.add(simulate(seed, mode_of(seed), scripts, restores=chosen.restores if chosen else restored(seed)))
    summary.cpu_s = time.process_time() - begun
    return summary


def run_many(first: int, seeds_max: int, budget_s: float = FOREVER_S, processes: int | None = None, mutant: str = "") -> Summary:
    """Run seeds from `first` until there were `seeds_max` of them, or `budget_s` is over."""
    total = Summary()
    begun = time.monotonic()

    def tasks() -> Iterator[tuple[int, int, str]]:
        for start in range(first, first + seeds_max, SLICE):
            if time.monotonic() - begun > budget_s:
                return
            yield start, min(SLICE, first + seeds_max - start), mutant

    count = processes or os.cpu_count() or 1
    with multiprocessing.get_context("spawn").Pool(count) as pool:
        todo, waiting = tasks(), []
        for _ in range(2 * count):
            if (task := next(todo, None)) is not None:
                waiting.append(pool.apply_async(run_slice, (task,)))
        while waiting:
            total.merge(waiting.pop(0).get())
            if (task := next(todo, None)) is not None:
                waiting.append(pool.apply_async(run_slice, (task,)))
    total.wall_s = time.monotonic() - begun
    return total
