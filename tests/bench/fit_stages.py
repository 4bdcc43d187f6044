"""Where the processor time of `riata fit` goes: each stage of one thread by the thread's own clock, in this process."""

from __future__ import annotations

import gc
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

from riata.cli.blocks import BLOCK_BYTES, blocks, head_of
from riata.cli.fit_setup import fit_config, recognised
from riata.cli.source import CONTENT_TYPES, open_source
from riata.run.fit import Block, Fit, Read
from tests.bench import report

T = TypeVar("T")
TOTAL: Final = "all of it"


class Clock:
    """Seconds of processor time by stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    def draw(self, stage: str, items: Iterable[T]) -> Iterator[T]:
        """The same items; what drawing them takes belongs to `stage`."""
        items = iter(items)
        while True:
            start = time.thread_time()
            try:
                item = next(items)
            except StopIteration:
                return
            finally:
                self.seconds[stage] += time.thread_time() - start
            yield item

    def call(self, stage: str, work: Any) -> Any:
        """The same function; what its calls take belongs to `stage`."""

        def timed(*given: Any) -> Any:
            start = time.thread_time()
            try:
                return work(*given)
            finally:
                self.seconds[stage] += time.thread_time() - start

        return timed


class Watched:
    """An object some of whose methods are timed."""

    def __init__(self, clock: Clock, watched: Any, stages: dict[str, str]) -> None:
        self._watched = watched
        for name, stage in stages.items():
            setattr(self, name, clock.call(stage, getattr(watched, name)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._watched, name)


class WatchedFit(Fit):
    """A `Fit` whose reading is timed."""

    clock: Clock
    inside = False

    def _read(self, block: Block) -> list[Read]:
        if self.inside:  # the half of a block
            return super()._read(block)
        self.inside = True
        read: list[Read] = self.clock.call("parsing", super()._read)(block)
        self.inside = False
        return read


def stages(path: Path, bits: int) -> tuple[dict[str, float], WatchedFit]:
    """Learn a file in one thread; seconds by stage, and what was learnt."""
    clock = Clock()
    with open_source(str(path)) as source:
        head = head_of(source)
        known, rows = recognised(head, path.name, "auto")
        fit = WatchedFit(fit_config(rows, known, "auto", None, None, [f"encoder.bits={bits}"]), CONTENT_TYPES[known])
        fit.clock = clock
        learnt: Any = fit.state
        learnt.learner = Watched(
            clock, fit.state.learner, {"step_all": "learning", "weights": "counting weights that are not zero"}
        )
        learnt.progressive = Watched(clock, fit.state.progressive, {"observe": "figures of progressive validation"})
        start = time.thread_time()
        fit.run(clock.draw("reading the file, cutting it at newlines", blocks(source, fit.scratch, head)))
        clock.seconds[TOTAL] = time.thread_time() - start
    return dict(clock.seconds), fit


def read_alone(path: Path) -> float:
    """Seconds of processor time to read the file into one buffer: the limit beside the first stage."""
    room = bytearray(BLOCK_BYTES)
    start = time.thread_time()
    with path.open("rb", buffering=0) as source:
        while source.readinto(room):
            pass
    return time.thread_time() - start


def stage_table(path: Path, bits: int) -> str:
    """The stages of a second run over a file, as a table: the first one loads machine code, and leaves its memory to it."""
    stages(path, bits)
    gc.collect()
    alone, (found, fit) = read_alone(path), stages(path, bits)
    total = found.pop(TOTAL)
    found["names, dedupe, the rest"] = total - sum(found.values())
    rows = [(stage, seconds) for stage, seconds in sorted(found.items(), key=lambda item: -item[1])]
    rows += [(TOTAL, total), ("beside it: the same file read and thrown away", alone)]
    heads = ["stage of one thread", "CPU ns a row", "CPU ns a feature", "share"]
    cells = [[s, f"{t / fit.rows * 1e9:,.0f}", f"{t / fit.features * 1e9:.2f}", f"{t / total:.0%}"] for s, t in rows]
    return report.table(heads, cells)
