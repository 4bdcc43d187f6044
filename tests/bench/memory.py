"""What models take of memory: at rest, for each non-zero weight, a thousand of them in one process, and under a steady load.

Figures are the anonymous resident memory of the process (RssAnon), which counts what was written and not the files it reads.

- At rest: a model that has learnt nothing beyond what a service without it takes.
- A non-zero weight: one model under a growing number of them; the slope, in the process that learns, and in a replica, which is
  counted by the arrays of what is served (slots, weights and the index over them), since that is all that it holds of a model.
- A thousand models of the default configuration (tables of 2^22 slots), each with a hundred rows learnt: memory, how long a new
  start takes, what a prediction and a single row take beside one model.
- Steady load: predictions and bulk rows over the same names for some minutes; the slope of the memory over its second half.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from rich.console import Console
from rich.progress import Progress

from tests.bench import contest, report
from tests.bench.contest import Claim
from tests.bench.filling import VW_TEXT, bodies, fill, make_model, non_zeros
from tests.bench.measured import MIB, cpu_s, memory, service, start
from tests.bench.service import Connection, connect
from tests.running import Running

NAMES: Final = (100_000, 300_000, 1_000_000)
MODELS: Final = 999  # with the one that is there from the beginning: the most there can be
SMALL: Final = "".join(f"{j % 2} |f n{j} n{j + 7} n{3 * j}\n" for j in range(100)).encode()
ASKED: Final = 1000
STEADY_MINUTES_MIN: Final = 1.0
SLOPE_MAX: Final = 1.0  # MiB a minute, of a process that grows no more
WHY: Final = (
    "What decides it: a table of 2^22 slots is 128 MiB of address space, of which a page of 4 KiB takes memory once a feature "
    "falls on it, so a small model takes 4 KiB for each of its first features. With more than 8192 features a table goes over to "
    "pages of 2 MiB, which are faster, and is then wholly in memory. For many small models set `encoder.bits` to 16: their "
    "tables are then 2 MiB at most. The rest of a process that has learnt much are buffers for bodies under way, which are kept."
)


@dataclass(slots=True)
class Found:
    """What was measured, in bytes and seconds."""

    base: int = 0
    at_rest: float = 0.0
    served: float = 0.0  # bytes a non-zero weight of what is served
    weights: list[tuple[int, int]] = field(default_factory=list)  # non-zeros, memory of the process
    many: dict[int, tuple[int, float, float, float, float]] = field(default_factory=dict)
    steady: list[tuple[float, int]] = field(default_factory=list)  # minutes, memory

    @property
    def a_weight(self) -> float:
        """Bytes of the learning process for one more non-zero weight."""
        count, taken = (np.array(column, dtype=np.float64) for column in zip(*self.weights, strict=True))
        return float(np.polyfit(count, taken, 1)[0])

    @property
    def slope(self) -> float:
        """MiB a minute over the second half of the steady load."""
        minute, taken = (np.array(column, dtype=np.float64) for column in zip(*self.steady, strict=True))
        late = minute >= minute[-1] / 2
        return float(np.polyfit(minute[late], taken[late], 1)[0]) / MIB


def measure_weights(folder: Path, found: Found, share: float) -> None:
    """Memory by number of weights, one process each; what is served is counted by its arrays."""
    for names in NAMES:
        with service(folder / f"weights-{names}") as running:
            running.start()
            found.base = found.base or memory(running.process.pid)
            make_model(running.port, "m")
            fill(running.port, "m", bodies(int(names * share)), int(names * share))
            count = non_zeros(running.port, "m")
            time.sleep(1.0)  # what the last bodies took is given back
            found.weights.append((count, memory(running.process.pid)))
            parts = connect(running.port).call("GET", "/models/m")["memory_bytes"]
            found.served = parts["served"] / count
            running.stop()


def ask(link: Connection, models: int) -> float:
    """Median seconds of a prediction, over all models in turn."""
    took = []
    for k in range(ASKED):
        begun = time.perf_counter()
        link.call("GET", f"/models/m{k % models}/predict?n1=1&n2=1")
        took.append(time.perf_counter() - begun)
    return statistics.median(took)


def learn_single(running: Running, link: Connection, models: int) -> float:
    """CPU seconds of a request with one row, over all models in turn."""
    before = cpu_s(running.process.pid)
    for k in range(ASKED):
        link.call("POST", f"/models/m{k % models}/observe", b"1 |f n1 n2 n3\n", VW_TEXT)
    return (cpu_s(running.process.pid) - before) / ASKED


def measure_many(folder: Path, found: Found, models: int) -> None:
    """So many small models in one process."""
    data = folder / f"models-{models}"
    with service(data) as running:
        running.start()
        before = memory(running.process.pid)
        link = connect(running.port)
        for k in range(models):
            link.call("PUT", f"/models/m{k}", b"{}")
        if not found.at_rest:
            found.at_rest = (memory(running.process.pid) - before) / models
        for k in range(models):
            link.call("POST", f"/models/m{k}/observe", SMALL, VW_TEXT)
        for k in range(models):
            link.call("GET", f"/models/m{k}/predict?n1=1&_min_seq=101")
        taken = memory(running.process.pid) - before
        asked = ask(link, models)
        single = learn_single(running, link, models)
        running.stop()
        begun = start(running)
        found.many[models] = (taken, asked, single, begun.seconds, begun.cpu_s)
        running.stop()


def measure_steady(folder: Path, found: Found, minutes: float) -> None:
    """One bulk body and a hundred predictions, again and again."""
    with service(folder / "steady", RIATA_LOG_KEEP_EVENTS="100000") as running:
        running.start()
        make_model(running.port, "m")
        made = bodies(50_000)
        link, begun = connect(running.port), time.monotonic()
        turn = 0
        while (minute := (time.monotonic() - begun) / 60) < minutes or len(found.steady) < 5:
            fill(running.port, "m", made[turn % len(made) :][:1], 1)
            for k in range(100):
                link.call("GET", f"/models/m/predict?n{k}=1")
            found.steady.append((minute, memory(running.process.pid)))
            turn += 1
        running.stop()


def page(found: Found, minutes: float, options: Any) -> None:
    """Write the report."""
    rows = [[f"{count:,}", f"{taken / MIB:,.0f}"] for count, taken in found.weights]
    weights = "## Non-zero weights\n\n" + report.table(["non-zero weights", "MiB of the process"], rows)
    rows = [
        [f"{count:,}", f"{taken / MIB:,.0f}", f"{taken / count / 1024:,.0f}", f"{1e6 * asked:,.0f}", f"{1e3 * single:.2f}",
         f"{seconds:.2f}", f"{cpu:.2f}"]
        for count, (taken, asked, single, seconds, cpu) in sorted(found.many.items())
    ]  # fmt: skip
    heads = ["small models", "MiB", "KiB each", "µs a prediction", "CPU ms a single row", "s of a new start", "CPU s of it"]
    many = "## Many models\n\n" + report.table(heads, rows)
    first, last = found.steady[0][1], found.steady[-1][1]
    whole = statistics.median(taken for _, taken in found.steady) / MIB
    ratio = max(found.slope, 0.01) / SLOPE_MAX
    slope, most = f"{found.slope:.2f} MiB a minute", f"{SLOPE_MAX:g} MiB a minute"
    growth = Claim("growth under steady load", slope, most, ratio, 1.0, at_most=True)
    claims = [growth] if minutes >= STEADY_MINUTES_MIN else []  # a process needs a moment before it is steady
    rest = (
        f"A model at rest takes **{found.at_rest / 1024:,.0f} KiB**. One more non-zero weight takes "
        f"**{found.a_weight:.0f} bytes** where it is learnt and **{found.served:.0f} bytes** in a replica, which holds two "
        f"of each while an edition changes. The service before any event takes {found.base / MIB:,.0f} MiB."
    )
    steady = (
        f"Steady load for {minutes:g} minutes, {len(found.steady)} rounds: {first / MIB:,.0f} MiB after the first round, "
        f"{last / MIB:,.0f} after the last, median {whole:,.0f}; slope {found.slope:+.2f} MiB a minute over its second half."
    )
    notes = [rest, steady, WHY]
    contest.report_page(
        "memory", "Memory", (__doc__ or "").split("\n", 1)[1], claims, [weights, many], notes,
        "python -m tests.bench.memory", ["numpy", "numba"], not options.no_write, options.quick,
    )  # fmt: skip


def main() -> int:
    """Measure and report."""
    parser = contest.arguments(__doc__ or "")
    parser.add_argument("--minutes", type=float, help="of steady load (default 2, of a trial 0.05; 60 for the full figure)")
    parser.add_argument("--models", type=int, help=f"small models in one process (default {MODELS}, of a trial 50)")
    options = parser.parse_args()
    minutes = options.minutes or (0.05 if options.quick else 2.0)
    models = min(options.models or (50 if options.quick else MODELS), MODELS)
    found = Found()
    with tempfile.TemporaryDirectory(prefix="riata-memory-") as name, Progress(console=Console(stderr=True)) as progress:
        folder = Path(name)
        task = progress.add_task("weights", total=4)
        measure_weights(folder, found, 0.05 if options.quick else 1.0)
        for count in (models, 1):
            progress.update(task, description=f"{count} models", advance=1)
            measure_many(folder, found, count)
        progress.update(task, description="steady load", advance=1)
        measure_steady(folder, found, minutes)
        progress.advance(task)
    page(found, minutes, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
