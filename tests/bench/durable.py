"""Rows per second of POST /observe, each on disk before its answer, and what bounds them.

For each store and role, at 1, 16 and 64 connections, single rows and batches of 1000 (20 features a row, an id for every row by
Idempotency-Key): rows acknowledged per second and latencies, from a load generator in a separate process (`tests.bench.load`).
In the same rounds, alternating:

- the store: `store.append` of the same rows, parsed, in groups of as many requests as there are connections (at most 20,000
  rows), on a separate store that is new in each round; no HTTP, no parsing, no learning, no checkpoints.
- the disk: the same rows in the format of the log, written to a plain file with one sync (fdatasync) for each group.

Redis syncs its file before each answer (appendfsync always). Load, service, Redis and bench share one machine. The measured
time includes everything except the first request of each connection. Figures are medians over the rounds, after one that is
discarded. If other work keeps the machine busy (see `load average` below), the figures are unreliable, and their range shows
how much: the service, the load and Redis need processors, the disk hardly does.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import matplotlib as mpl
import numpy as np
from rich.console import Console
from rich.progress import Progress

from riata.store.payload import encode_batch
from riata.store.redis.store import open_redis
from riata.store.sqlite.store import open_sqlite
from riata.store.store import Append, Store
from riata.wire.batch import Batch
from riata.wire.encoder import EncoderConfig
from riata.wire.parse import Context, parse_examples
from tests.bench import load, report
from tests.redis_server import RedisServer, redis_version
from tests.running import ROOT, Running

mpl.use("Agg")
import matplotlib.pyplot as plt

CONNECTIONS: Final = (1, 16, 64)
ROWS: Final = (1, 1000)
SHAPES: Final = tuple((connections, rows) for rows in ROWS for connections in CONNECTIONS)
GROUP_ROWS_MAX: Final = 20_000  # 64 requests of 1000 rows would be one transaction of 15 MB
KEPT: Final = {"RIATA_LOG_KEEP_EVENTS": "100000"}  # the log of a bench need not be kept
DISK: Final = "disk"
ROUNDS: Final = 5
SQLITE: Final = "SQLite"
REDIS: Final = "Redis"
BY_ITSELF: Final = "store alone, "

Shape = tuple[int, int]  # connections, rows of a request


@dataclass(frozen=True, slots=True)
class Cell:
    """The result of one run: rows per second, median and 99th percentile of a request (of a group, for store and disk)."""

    rows_s: float
    p50_ms: float
    p99_ms: float
    refused: int = 0


Contend = Callable[[Shape, float], Cell]


@dataclass(frozen=True, slots=True)
class Contender:
    """One line of the table. `store` is the contender that bounds it, or itself if it is a bound."""

    name: str
    contend: Contend
    store: str


@contextmanager
def service_under_load(port: int) -> Iterator[Contend]:
    """POST /observe of a running service, asked from another process."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "service"), str(ROOT)))}
    command = [sys.executable, "-m", "tests.bench.load", str(port)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as process:

        def contend(shape: Shape, seconds: float) -> Cell:
            if process.stdin is None or process.stdout is None:
                raise RuntimeError("the load has no pipes")
            process.stdin.write(json.dumps({"connections": shape[0], "rows": shape[1], "seconds": seconds}) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
            if not line:
                raise RuntimeError("the load has ended, its reason is above")
            reported = json.loads(line)
            return Cell(reported["rows"] / reported["seconds"], reported["p50_ms"], reported["p99_ms"], reported["refused"])

        yield contend


@functools.cache
def batches(rows: int) -> list[Batch]:
    """The rows of the load, parsed."""
    context = Context(EncoderConfig())
    return [parse_examples(body, load.NDJSON, context, labelled=True).batch for body in load.bodies(rows)]


def groups(shape: Shape, rng: np.random.Generator) -> Iterator[list[Append]]:
    """Groups as they come about where all connections wait for the same sync, every row with a new id."""
    made = batches(shape[1])
    size = max(1, min(shape[0], GROUP_ROWS_MAX // shape[1]))
    at = 0
    while True:
        group = []
        for _ in range(size):
            batch = made[at % len(made)]
            at += 1
            ids = np.frombuffer(rng.bytes(16 * batch.n), np.uint8).reshape(batch.n, 16)
            rows = dataclasses.replace(batch, event_id=ids, has_id=np.ones(batch.n, np.bool_))
            group.append(Append("bench", "observe", 0, rows))
        yield group


def timed(shape: Shape, seconds: float, take: Callable[[list[Append]], float]) -> Cell:
    """Let `take` have groups until the seconds it says it took are `seconds`."""
    taken: list[float] = []
    rows = 0
    for group in groups(shape, np.random.default_rng(load.SEED)):
        taken.append(take(group))
        rows += len(group) * shape[1]
        if sum(taken) >= seconds:
            break
    p50, p99 = np.percentile(taken, [50, 99])
    return Cell(rows / sum(taken), 1e3 * float(p50), 1e3 * float(p99))


def append_timed(store: Store, group: list[Append]) -> float:
    """Seconds of one append. Raises `RuntimeError` if a row was not accepted: then something else was measured."""
    start = time.perf_counter()
    answers = store.append(group)
    seconds = time.perf_counter() - start
    if not all(answer.accepted.all() for answer in answers):
        raise RuntimeError("the store did not accept every row")
    return seconds


def store_alone(opened: Callable[[], AbstractContextManager[Store]]) -> Contend:
    """`store.append`, on the new store that `opened` gives."""

    def contend(shape: Shape, seconds: float) -> Cell:
        with opened() as store:
            store.create("bench", os.urandom(16))
            return timed(shape, seconds, lambda group: append_timed(store, group))

    return contend


@contextmanager
def new_sqlite(folder: Path) -> Iterator[Store]:
    """An embedded store on its own."""
    with tempfile.TemporaryDirectory(dir=folder) as inside, closing(open_sqlite(Path(inside) / "store")) as store:
        yield store


def disk_alone(folder: Path) -> Contend:
    """A plain file."""

    def contend(shape: Shape, seconds: float) -> Cell:
        file = os.open(folder / "plain", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)

        def take(group: list[Append]) -> float:
            content = b"".join(encode_batch(append.batch) for append in group if append.batch is not None)
            start = time.perf_counter()
            os.write(file, content)
            os.fdatasync(file)
            return time.perf_counter() - start

        cell = timed(shape, seconds, take)
        os.close(file)
        return cell

    return contend


def contenders(folder: Path, stack: ExitStack) -> list[Contender]:
    """Everything that is compared, running."""
    sqlite = stack.enter_context(Running(folder / "sqlite", KEPT))
    sqlite.start()
    found = [
        Contender(SQLITE, stack.enter_context(service_under_load(sqlite.port)), BY_ITSELF + SQLITE),
        Contender(BY_ITSELF + SQLITE, store_alone(lambda: new_sqlite(folder)), BY_ITSELF + SQLITE),
        Contender(DISK, disk_alone(folder), DISK),
    ]
    if redis_version() < (7,):
        return found
    together = stack.enter_context(RedisServer(folder / "redis-all"))
    one = stack.enter_context(of_role(folder / "all", "all", together.url))
    apart = stack.enter_context(RedisServer(folder / "redis-roles"))
    writer = stack.enter_context(of_role(folder / "writer", "writer", apart.url))
    web = stack.enter_context(of_role(folder / "web", "web", apart.url))
    for running in (one, writer, web):
        running.start()
    bound = BY_ITSELF + REDIS
    return [
        *found,
        Contender(f"{REDIS}, one process (all)", stack.enter_context(service_under_load(one.port)), bound),
        Contender(f"{REDIS}, web and writer", stack.enter_context(service_under_load(web.port)), bound),
        Contender(bound, store_alone(lambda: new_redis(folder)), bound),
    ]


def of_role(data: Path, role: str, url: str) -> Running:
    """A process on a shared store, with the settings of production but for how much of the log is kept."""
    return Running(data, KEPT, arguments=("--role", role, "--store", url))


@contextmanager
def new_redis(folder: Path) -> Iterator[Store]:
    """A shared store on a server of its own."""
    with (
        tempfile.TemporaryDirectory(dir=folder) as inside,
        RedisServer(Path(inside)) as server,
        closing(open_redis(server.url)) as store,
    ):
        yield store


Cells = dict[tuple[str, Shape], list[Cell]]


def measure(all_of_them: list[Contender], rounds: int, seconds: float) -> Cells:
    """Every contender at every shape, in turns, round by round; the first round is thrown away, the order turns each time."""
    found: Cells = {}
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("cells", total=(rounds + 1) * len(SHAPES) * len(all_of_them))
        for number in range(rounds + 1):
            for shape in SHAPES:
                for contender in all_of_them if number % 2 else reversed(all_of_them):
                    cell = contender.contend(shape, seconds)
                    if number:
                        found.setdefault((contender.name, shape), []).append(cell)
                    progress.advance(task)
    return found


def median(found: Cells, name: str, shape: Shape) -> Cell:
    """The medians of a cell, each figure by itself; refusals are summed."""
    cells = found[name, shape]
    return Cell(
        statistics.median(cell.rows_s for cell in cells),
        statistics.median(cell.p50_ms for cell in cells),
        statistics.median(cell.p99_ms for cell in cells),
        sum(cell.refused for cell in cells),
    )


def lines(found: Cells, all_of_them: list[Contender]) -> list[list[str]]:
    """The lines of the table."""
    out = []
    for connections, rows in SHAPES:
        shape = (connections, rows)
        disk = median(found, DISK, shape).rows_s
        for contender in all_of_them:
            cell = median(found, contender.name, shape)
            spread = [measured.rows_s for measured in found[contender.name, shape]]
            store = median(found, contender.store, shape).rows_s
            out.append([
                contender.name, str(connections), f"{rows:,}", f"{cell.rows_s:,.0f}", f"{min(spread):,.0f}-{max(spread):,.0f}",
                f"{cell.rows_s / rows:,.0f}", f"{cell.p50_ms:.2f}", f"{cell.p99_ms:.2f}",
                "" if contender.name == contender.store else f"{cell.rows_s / store:.2f}",
                "" if contender.name == DISK else f"{cell.rows_s / disk:.2f}", str(cell.refused or ""),
            ])  # fmt: skip
    return out


def draw(found: Cells, all_of_them: list[Contender], path: Path) -> None:
    """Rows a second over connections, one panel for single rows, one for batches."""
    figure, panels = plt.subplots(1, len(ROWS), figsize=(11, 4.2), layout="constrained")
    for panel, rows in zip(panels, ROWS, strict=True):
        for contender in all_of_them:
            speeds = [median(found, contender.name, (connections, rows)).rows_s for connections in CONNECTIONS]
            style = ":" if contender.name == DISK else "--" if contender.name == contender.store else "-"
            panel.plot(range(len(CONNECTIONS)), speeds, style, marker="o", label=contender.name)
        panel.set_xticks(range(len(CONNECTIONS)), [str(connections) for connections in CONNECTIONS])
        panel.set_yscale("log")
        panel.set_xlabel("connections")
        panel.set_ylabel("durable rows a second")
        panel.set_title("single rows" if rows == 1 else f"batches of {rows:,} rows")
        panel.grid(visible=True, alpha=0.3)
    panels[0].legend(fontsize=8)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> int:
    """Run and report."""
    parser = report.arguments(__doc__ or "")
    parser.add_argument("--directory", type=Path, help="on the disk to measure (default: the folder for temporary files)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"timed rounds (default {ROUNDS})")
    parser.add_argument("--seconds", type=float, default=0.5, help="of each contender at each shape, in each round (default 0.5)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as folder, ExitStack() as stack:
        all_of_them = contenders(Path(folder), stack)
        found = measure(all_of_them, options.rounds, options.seconds)
    heads = [
        "what", "connections", "rows a request", "rows/s", "range", "requests/s", "ms p50", "ms p99", "of its store",
        "of the disk", "reported to wait",
    ]  # fmt: skip
    text = (
        "# Durable POST /observe and its bounds\n\n"
        + (__doc__ or "").split("\n", 2)[2].strip() + "\n\n"
        + report.table(heads, lines(found, all_of_them))
        + f"\n`of its store` and `of the disk` are ratios of rows per second. {options.rounds} rounds of {options.seconds:g} s "
        "each, alternating. `reported to wait`: answers 429 and 503 in all rounds; these requests were not accepted.\n\n"
        "![Durable rows per second](durable.png)\n\n"
        + report.conditions("python -m tests.bench.durable", ["numpy", "redis"])
    )  # fmt: skip
    report.publish("durable", text, write=not options.no_write)
    if not options.no_write:
        draw(found, all_of_them, report.EVIDENCE / "durable.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
