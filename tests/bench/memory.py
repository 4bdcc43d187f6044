"""What models take of memory: at rest, for each non-zero weight, a thousand at once.

Figures are the anonymous resident memory of the process (RssAnon), which counts written memory and not the files that the
process reads.

- At rest: the memory that one model adds to a service before it has learnt anything.
- A non-zero weight: one model with a growing number of them. The size of the served model is as reported by the service.
- A thousand models of the default configuration (tables of 2^22 slots), each with a hundred rows learnt: memory, the time of a
  new start, and the cost of a prediction and of a single row compared with one model.
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
from tests.bench.filling import VW_TEXT, bodies, fill, make_model, non_zeros
from tests.bench.service import MIB, Connection, connect, cpu_s, memory, service, start
from tests.running import Running

NAMES: Final = (100_000, 300_000, 1_000_000)
MODELS: Final = 999  # with the one that is there from the beginning: the most there can be
SMALL: Final = "".join(f"{j % 2} |f n{j} n{j + 7} n{3 * j}\n" for j in range(100)).encode()
ASKED: Final = 1000
AT_REST_S: Final = 3.0  # memory that has not changed by a MiB for so long is at rest
AT_REST_S_MAX: Final = 60.0


@dataclass(slots=True)
class Found:
    """The results, in bytes and seconds."""

    base: int = 0
    at_rest: float = 0.0
    served: float = 0.0  # bytes a non-zero weight of what is served
    weights: list[tuple[int, int]] = field(default_factory=list)  # non-zeros, memory of the process
    many: dict[int, tuple[int, float, float, float, float]] = field(default_factory=dict)

    @property
    def a_weight(self) -> float:
        """Bytes for one more non-zero weight of the process that learns."""
        count, taken = np.array(self.weights, dtype=np.float64).T
        return float(np.polyfit(count, taken, 1)[0])


def at_rest(pid: int) -> int:
    """Memory of a process after it stops changing."""
    deadline, begun, seen = time.monotonic() + AT_REST_S_MAX, time.monotonic(), memory(pid)
    while time.monotonic() - begun < AT_REST_S and time.monotonic() < deadline:
        time.sleep(0.1)
        if abs(memory(pid) - seen) > MIB:
            begun, seen = time.monotonic(), memory(pid)
    return memory(pid)


def measure_weights(folder: Path, found: Found, share: float) -> None:
    """Memory by number of weights, a process each."""
    for names in NAMES:
        with service(folder / f"weights-{names}") as running:
            running.start()
            found.base = found.base or memory(running.process.pid)
            make_model(running.port, "m")
            fill(running.port, "m", bodies(int(names * share)), int(names * share))
            count = non_zeros(running.port, "m")
            taken = at_rest(running.process.pid)  # what the last bodies took is given back
            parts = connect(running.port).call("GET", "/models/m")["memory_bytes"]
            found.served = parts["served"] / count
            running.stop()
            found.weights.append((count, taken))


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
    """This many small models in one process."""
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


def page(found: Found, options: Any) -> None:
    """Write the section."""
    rows = [[f"{count:,}", f"{taken / MIB:,.0f}"] for count, taken in found.weights]
    weights = report.table(["non-zero weights", "MiB"], rows)
    rows = [
        [f"{count:,}", f"{taken / MIB:,.0f}", f"{1e6 * asked:,.0f}", f"{1e3 * single:.2f}", f"{seconds:.2f}"]
        for count, (taken, asked, single, seconds, _) in sorted(found.many.items())
    ]
    many = report.table(["small models", "MiB", "µs a prediction", "CPU ms a single row", "s of a new start"], rows)
    rest = (
        f"Before any event the service takes {found.base / MIB:,.0f} MiB. A model takes {found.at_rest / 1024:,.0f} KiB at rest. "
        f"One more non-zero weight takes {found.a_weight:.0f} bytes, of which {found.served:.0f} are the served model."
    )
    contest.publish("Memory", [rest, weights, many], "python -m tests.bench.memory", ["numpy"], options)


def main() -> int:
    """Measure and report."""
    parser = contest.arguments(__doc__ or "")
    parser.add_argument("--models", type=int, help=f"small models in one process (default {MODELS}, of a trial 60)")
    options = parser.parse_args()
    models = min(options.models or (60 if options.quick else MODELS), MODELS)
    found = Found()
    with tempfile.TemporaryDirectory(prefix="riata-memory-") as name, Progress(console=Console(stderr=True)) as progress:
        folder = Path(name)
        task = progress.add_task("weights", total=3)
        measure_weights(folder, found, 0.05 if options.quick else 1.0)
        for count in (models, 1):
            progress.update(task, description=f"{count} models", advance=1)
            measure_many(folder, found, count)
        progress.advance(task)
    page(found, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
