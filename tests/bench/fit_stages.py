"""Where the processor time of `riata fit` goes: each stage of one thread by the thread's own clock, in this process.

The two stages that are a kernel's are timed around the kernel: what is left is Python, which runs between them, once a block.
"""

from __future__ import annotations

import dataclasses
import gc
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar
from unittest.mock import patch

from riata.cli.blocks import BLOCK_BYTES, blocks, head_of
from riata.cli.fit_setup import fit_config, recognised
from riata.cli.source import line_type, open_source
from riata.learn.truncated_gradient.learner import TruncatedGradient
from riata.native.library import core
from riata.run.files.fit import Fit
from riata.wire.read_body import FORMATS
from tests.bench import report

T = TypeVar("T")
TOTAL: Final = "all of it"
PYTHON: Final = "Python between them"
LEARNING: Final = "learning"
FIGURES: Final = "figures of progressive validation"
COUNTING: Final = "counting weights that are not zero"
IN_ORDER: Final = (LEARNING, FIGURES, COUNTING)  # one thread does these, however many there are


class Clock:
    """Seconds of processor time by stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    def draw(self, stage: str, items: Iterable[T]) -> Iterator[T]:
        """The same items; the time to draw them counts for `stage`."""
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
        """The same function; the time of its calls counts for `stage`."""

        def timed(*given: Any) -> Any:
            start = time.thread_time()
            try:
                return work(*given)
            finally:
                self.seconds[stage] += time.thread_time() - start

        return timed


class Watched:
    """An object with some timed methods."""

    def __init__(self, clock: Clock, watched: Any, stages: dict[str, str]) -> None:
        self._watched = watched
        for name, stage in stages.items():
            setattr(self, name, clock.call(stage, getattr(watched, name)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._watched, name)


def stages(path: Path, bits: int) -> tuple[dict[str, float], Fit]:
    """Learn a file in one thread; seconds by stage, and what was learnt."""
    clock = Clock()
    with ExitStack() as stack:
        source = stack.enter_context(open_source(str(path)))
        head = head_of(source)
        beginning = recognised(head, path.name, "auto")
        kind = line_type(beginning.form)
        settled = [f"encoder.bits={bits}", "learner.tuned=false"]  # as after the first rows, with which it chooses its step
        fit = Fit(fit_config(beginning, "auto", None, None, settled), kind)
        reader, learnt = FORMATS[kind], fit.state
        read = reader.functions
        assert read is not None
        if reader is None or not isinstance(learnt.learner, TruncatedGradient):
            raise TypeError("another reader or learner: its kernel is not the one that is timed")
        stack.enter_context(
            patch.dict(
                FORMATS, {kind: reader._replace(functions=dataclasses.replace(read, lines=clock.call("parsing", read.lines)))}
            )
        )
        learn = clock.call(LEARNING, core.learn_gradient)
        stack.enter_context(patch.object(core, "learn_gradient", learn))
        watched: Any = learnt
        watched.learner = Watched(clock, learnt.learner, {"weights": COUNTING})
        watched.progressive = Watched(clock, learnt.progressive, {"observe": FIGURES})
        start = time.thread_time()
        drawn = blocks(source, fit.scratch, head, is_long=True)
        fit.run(clock.draw("reading the file, cutting it at newlines", drawn))
        clock.seconds[TOTAL] = time.thread_time() - start
    return dict(clock.seconds), fit


def read_alone(path: Path) -> float:
    """Seconds of processor time to read the file into one buffer: the limit of the first stage."""
    room = bytearray(BLOCK_BYTES)
    start = time.thread_time()
    with path.open("rb", buffering=0) as source:
        while source.readinto(room):
            pass
    return time.thread_time() - start


@dataclass(frozen=True, slots=True)
class AtWork:
    """Seconds of processor time per row of all stages, and of those that must run in one thread, without the Python between
    them.
    """

    all_stages: float
    in_order: float


def stage_table(path: Path, bits: int) -> tuple[str, AtWork]:
    """The stages of a second run over a file, as a table. The first run loads machine code and leaves its memory."""
    stages(path, bits)
    gc.collect()
    alone, (found, fit) = read_alone(path), stages(path, bits)
    total = found.pop(TOTAL)
    at_work = AtWork(sum(found.values()) / fit.rows, sum(found[stage] for stage in IN_ORDER) / fit.rows)
    found[PYTHON] = total - sum(found.values())
    rows = [(stage, seconds) for stage, seconds in sorted(found.items(), key=lambda item: -item[1])]
    rows += [(TOTAL, total), ("beside it: the same file read and thrown away", alone)]
    heads = ["stage of one thread", "CPU ns a row", "CPU ns a feature", "share"]
    cells = [[s, f"{t / fit.rows * 1e9:,.0f}", f"{t / fit.features * 1e9:.2f}", f"{t / total:.0%}"] for s, t in rows]
    return report.table(heads, cells), at_work
