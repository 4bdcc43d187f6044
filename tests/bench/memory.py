"""What models take of memory: at rest, for each non-zero weight, a thousand at once; in the writer and in a replica.

Figures are the anonymous resident memory of the process (RssAnon), which counts written memory and not the files that the
process reads.

- At rest: the memory that one model adds to a service before it has learnt anything.
- A non-zero weight: one model with a growing number of them. The page shows the slope in the process that learns, and the
  memory of the largest model in a replica, a separate process that follows the first through Redis. The size of the served
  model is as reported by the service (slots, weights and the index over them).
- A thousand models of the default configuration (tables of 2^22 slots), each with a hundred rows learnt: memory, the time of a
  new start, and the cost of a prediction and of a single row compared with one model; and the memory of a replica.

`python -m tests.bench.steady` measures [whether memory grows over time](steady.md).
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from rich.console import Console
from rich.progress import Progress

from tests.bench import contest, report
from tests.bench.filling import VW_TEXT, bodies, fill, make_model, non_zeros, wait_served
from tests.bench.measured import MIB, NORMAL, cpu_s, memory, service, start
from tests.bench.service import Connection, connect
from tests.redis_server import RedisServer
from tests.running import Running

NAMES: Final = (100_000, 300_000, 1_000_000)
MODELS: Final = 999  # with the one that is there from the beginning: the most there can be
SMALL: Final = "".join(f"{j % 2} |f n{j} n{j + 7} n{3 * j}\n" for j in range(100)).encode()
ASKED: Final = 1000
AT_REST_S: Final = 3.0  # memory that has not changed by a MiB for so long is at rest
AT_REST_S_MAX: Final = 60.0
FEW: Final = 50  # models of which one more is counted, besides the many
WHY: Final = (
    "A table has lines for the slots that were met and doubles when they are used up (ADR 60): a slot of the default "
    "learner takes 68 to 136 bytes. With 65,536 of 2^22 slots in use it gets a line for every slot, 128 MiB. With "
    "`encoder.bits` at 16 that is 2 MiB, from 4096 slots on. A process that has learnt much also holds buffers for request "
    "bodies, the store's page cache (up to 32 MiB) and the newest event ids (up to 100,000 of some 230 bytes each). [Memory"
    " under a steady load](steady.md) shows the parts.\n\nA start that finds no machine code keeps the memory of its "
    "compiler until the next start: 844 MiB in a start that compiled everything for the default learner, 86 in the next "
    "one. If that matters, run `riata warm` before the first start, as the image does."
)


@dataclass(slots=True)
class Found:
    """The results, in bytes and seconds."""

    base: int = 0
    at_rest: float = 0.0
    served: float = 0.0  # bytes a non-zero weight of what is served
    weights: list[tuple[int, int, int]] = field(default_factory=list)  # non-zeros, memory of the process, of a replica
    many: dict[int, tuple[int, float, float, float, float]] = field(default_factory=dict)
    copies: dict[int, int] = field(default_factory=dict)  # models, memory of a replica of them

    @property
    def a_weight(self) -> float:
        """Bytes for one more non-zero weight of the process that learns."""
        count, taken, _ = np.array(self.weights, dtype=np.float64).T
        return float(np.polyfit(count, taken, 1)[0])

    @property
    def a_copied_weight(self) -> float:
        """Bytes in a replica for a non-zero weight of the largest model, compared with an empty replica."""
        few, less = min(self.copies.items())
        count, _, taken = self.weights[-1]
        return (taken - (less - few * self.a_copy)) / count

    @property
    def a_copy(self) -> float:
        """Bytes of a replica for one more small model."""
        (few, less), (many, more) = sorted(self.copies.items())
        return (more - less) / (many - few)


@contextmanager
def fleet(folder: Path) -> Iterator[tuple[Running, Running]]:
    """A process that learns and its replica, on a separate Redis; the replica is not started yet."""
    # Redis syncs once a second here: how fast it is durable is another bench's subject.
    with RedisServer(folder / "redis", "--appendfsync", "everysec") as redis:
        given = {**NORMAL, "RIATA_DURABILITY_ATTESTED": "true"}
        learning = Running.of_role(folder / "learning", "all", redis.url, given)
        replica = Running.of_role(folder / "replica", "replica", redis.url, given)
        with learning, replica:
            learning.start()
            yield learning, replica
            replica.stop()
            learning.stop()


def at_rest(pid: int) -> int:
    """Memory of a process after it stops changing."""
    deadline, begun, seen = time.monotonic() + AT_REST_S_MAX, time.monotonic(), memory(pid)
    while time.monotonic() - begun < AT_REST_S and time.monotonic() < deadline:
        time.sleep(0.1)
        if abs(memory(pid) - seen) > MIB:
            begun, seen = time.monotonic(), memory(pid)
    return memory(pid)


def measure_weights(folder: Path, found: Found, share: float) -> None:
    """Memory by number of weights, two processes each."""
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
        with fleet(folder / f"fleet-{names}") as (running, replica):
            make_model(running.port, "m")
            last = fill(running.port, "m", bodies(int(names * share)), int(names * share))
            replica.start()
            wait_served(replica.port, "m", last)
            if non_zeros(replica.port, "m") != count:
                raise RuntimeError("the replica serves other weights than one process learnt from the same rows")
            found.weights.append((count, taken, at_rest(replica.process.pid)))


def measure_copies(folder: Path, found: Found, models: int) -> None:
    """This many small models in a replica."""
    with fleet(folder / f"copies-{models}") as (running, replica):
        link = connect(running.port)
        for k in range(models):
            link.call("PUT", f"/models/m{k}", b"{}")
            link.call("POST", f"/models/m{k}/observe", SMALL, VW_TEXT)
        replica.start()
        for k in range(models):
            wait_served(replica.port, f"m{k}", len(SMALL.splitlines()))
        found.copies[models] = at_rest(replica.process.pid)


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
    """Write the report."""
    rows = [[f"{count:,}", f"{taken / MIB:,.0f}", f"{copied / MIB:,.0f}"] for count, taken, copied in found.weights]
    heads = ["non-zero weights", "MiB of the process that learns", "MiB of a replica"]
    weights = "## Non-zero weights\n\n" + report.table(heads, rows)
    rows = [
        [f"{count:,}", f"{taken / MIB:,.0f}", f"{taken / count / 1024:,.0f}", f"{1e6 * asked:,.0f}", f"{1e3 * single:.2f}",
         f"{seconds:.2f}", f"{cpu:.2f}"]
        for count, (taken, asked, single, seconds, cpu) in sorted(found.many.items())
    ]  # fmt: skip
    heads = ["small models", "MiB", "KiB each", "µs a prediction", "CPU ms a single row", "s of a new start", "CPU s of it"]
    many = "## Many models\n\n" + report.table(heads, rows)
    rows = [[f"{count:,}", f"{taken / MIB:,.0f}"] for count, taken in sorted(found.copies.items())]
    copies = report.table(["small models", "MiB of a replica"], rows)
    rest = (
        f"A model takes **{found.at_rest / 1024:,.0f} KiB** at rest, a small one **{found.a_copy / 1024:,.0f} KiB** in a "
        f"replica. One more non-zero weight takes **{found.a_weight:.0f} bytes** in the process that learns. In a replica each "
        f"weight of the largest model takes **{found.a_copied_weight:.0f} bytes**, of which {found.served:.0f} are the served "
        "model. The rest is the name, and the memory used while an edition was received, which is kept for the next one. "
        f"Before any event the service takes {found.base / MIB:,.0f} MiB."
    )
    contest.report_page(
        "memory", "Memory", (__doc__ or "").split("\n", 2)[2], [], [weights, many, copies], [rest, WHY],
        "python -m tests.bench.memory", ["numpy"], not options.no_write, options.quick,
    )  # fmt: skip


def main() -> int:
    """Measure and report."""
    parser = contest.arguments(__doc__ or "")
    parser.add_argument("--models", type=int, help=f"small models in one process (default {MODELS}, of a trial 60)")
    options = parser.parse_args()
    models = min(options.models or (FEW + 10 if options.quick else MODELS), MODELS)
    found = Found()
    with tempfile.TemporaryDirectory(prefix="riata-memory-") as name, Progress(console=Console(stderr=True)) as progress:
        folder = Path(name)
        task = progress.add_task("weights", total=5)
        measure_weights(folder, found, 0.05 if options.quick else 1.0)
        for measure, count in ((measure_many, models), (measure_many, 1), (measure_copies, models), (measure_copies, FEW)):
            progress.update(task, description=f"{count} models", advance=1)
            measure(folder, found, count)
        progress.advance(task)
    page(found, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
