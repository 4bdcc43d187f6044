"""How cost grows with what there is more of: features in a row, slots, rows in a body, models, log, weights, clients.

Each panel moves one thing and holds the others. The learner's panels are one thread over rows in memory; the service's are the
whole path over HTTP, durable, with the client on the same machine. No peers here, only slopes: double the number, what happens?
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import matplotlib
import numpy as np
from rich.console import Console
from rich.progress import Progress

from riata.learn.registry import LearnerConfig, build_learner
from riata.learn.truncated_gradient import TruncatedGradient
from riata.learn.truncated_gradient_config import TruncatedGradientConfig
from riata.store import layout
from riata.wire.batch import Batch
from tests.bench import contest, report
from tests.bench.filling import VW_TEXT, bodies, fill, make_model, wait_served
from tests.bench.measured import cpu_s, service, start
from tests.bench.service import connect
from tests.running import ROOT, Running

matplotlib.use("Agg")  # there is no screen
from matplotlib import pyplot as plt

SEED: Final = 64
BITS: Final = 22
LEARNER_FEATURES: Final = 2_000_000  # of one timed step
SERVICE_FEATURES: Final = 1_500_000
REPEATS: Final = 3
KEEP_ALL: Final = {"RIATA_LOG_KEEP_EVENTS": str(10**9)}


@dataclass(slots=True)
class Panel:
    """One thing that grows, and a curve of what it costs; `limit` says what bounds it and what to set."""

    title: str
    x: str
    y: str
    limit: str
    curves: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def add(self, curve: str, x: float, y: float) -> None:
        self.curves.setdefault(curve, []).append((x, y))


def rows_of(features: int, count: int, slots: int = 2**BITS) -> Batch:
    """`count` rows of `features` each, drawn evenly over the slots; hashes increase within a row."""
    rng = np.random.default_rng([SEED, features])
    width = 32 - int(slots).bit_length() + 1
    drawn = np.sort(rng.integers(0, slots, (count, features)), axis=1).astype(np.uint64) << np.uint64(width)
    spread = drawn.astype(np.uint32) + np.arange(features, dtype=np.uint32)[None, :] % np.uint32(2**width)
    flat = np.sort(spread, axis=1).ravel()
    return Batch(
        indptr=np.arange(0, features * count + 1, features, dtype=np.int64),
        hash=flat,
        value=np.ones(len(flat)),
        label=rng.integers(0, 2, count).astype(np.float64),
        weight=np.ones(count),
        event_id=np.zeros((count, 16), np.uint8),
        has_id=np.zeros(count, np.bool_),
    )


def learner_ns(config: LearnerConfig, bits: int, batch: Batch) -> float:
    """Least CPU nanoseconds a feature of a step, over REPEATS, with the table's pages touched before."""
    learner = build_learner(config, bits)
    learner.step(batch)
    took = []
    for _ in range(REPEATS):
        begun = time.thread_time()
        learner.step(batch)
        took.append(time.thread_time() - begun)
    return 1e9 * min(took) / len(batch.hash)


def by_row_length(share: float) -> Panel:
    """Learner and service against features per example."""
    panel = Panel(
        "features in a row", "features in a row", "ns a feature",
        "Up to ten features the row itself costs more than they do (a margin, a loss, a step); beyond it is a walk over "
        "the table, some nanoseconds a feature whatever the row's length. Over HTTP the text comes on top: hashing and "
        "reading numbers. Nothing to set; rows may have up to 10,000 features.",
    )  # fmt: skip
    for features in (1, 10, 100, 1000, 10_000):
        count = max(1, int(LEARNER_FEATURES * share) // features)
        panel.add("learner", features, learner_ns(TruncatedGradientConfig(), BITS, rows_of(features, min(count, 200_000))))
    with tempfile.TemporaryDirectory() as folder, service(Path(folder) / "rows") as running:
        running.start()
        for features in (1, 10, 100, 1000, 10_000):
            rows = max(1, min(10_000, int(SERVICE_FEATURES * share) // features // 2))
            panel.add("service, bulk", features, 1e9 * bulk_s(running, f"f{features}", rows, features, 4) / (4 * rows * features))
    return panel


def text(rows: int, features: int, seed: int) -> bytes:
    """One body of Vowpal Wabbit text."""
    rng = np.random.default_rng([SEED, seed])
    drawn = rng.integers(0, 50_000, (rows, features)).astype(str)
    labels = rng.integers(0, 2, rows).tolist()
    return "".join(f"{y} |f n{' n'.join(row)}\n" for y, row in zip(labels, drawn.tolist(), strict=True)).encode()


def bulk_s(running: Running, model: str, rows: int, features: int, count: int) -> float:
    """Seconds from the first body to the last row being served, `count` bodies one after the other on one connection."""
    make_model(running.port, model)
    link = connect(running.port)
    made = [text(rows, features, k) for k in range(count)]
    link.call("POST", f"/models/{model}/observe", made[0], VW_TEXT)  # names are new once
    begun, seq = time.perf_counter(), 0
    for body in made:
        seq = int(link.call("POST", f"/models/{model}/observe", body, VW_TEXT)["seq"])
    wait_served(running.port, model, seq)
    return time.perf_counter() - begun


def by_table(share: float) -> Panel:
    """The learner against the size of its table."""
    panel = Panel(
        "slots of the table", "bits (2^bits slots)", "ns a feature",
        "While the table fits into the processor's caches a feature costs its arithmetic; beyond, the way to memory and "
        "its translation, most of which is hidden by touching the next rows' slots ahead. Set `encoder.bits` for "
        "collisions, not for speed: 22 holds a million names, and each bit more doubles the memory once the table is "
        "full.",
    )  # fmt: skip
    for bits in (18, 20, 22, 24, 26) if share == 1.0 else (18, 22):
        batch = rows_of(75, int(LEARNER_FEATURES * share) // 75, 2**bits)
        panel.add("adaptive", bits, learner_ns(TruncatedGradientConfig(), bits, batch))
        panel.add("constant", bits, learner_ns(TruncatedGradientConfig(rate="constant", normalised=False), bits, batch))
    return panel


def by_batch(share: float) -> Panel:
    """The service against rows in a body."""
    panel = Panel(
        "rows in a body", "rows in a request (75 features)", "µs a row",
        "A request with one row costs its own way through HTTP and a share of a sync of the disk; with a hundred rows "
        "both are small beside reading the text. Send 100 to 1000 rows a request where they can wait for each other; a "
        "request takes at most 10,000 rows, a million features and 16 MiB.",
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder, service(Path(folder) / "batch") as running:
        running.start()
        for rows in (1, 10, 100, 1000, 10_000):
            count = max(4, min(200, int(20_000 * share) // rows))
            panel.add("one connection", rows, 1e6 * bulk_s(running, f"b{rows}", rows, 75, count) / (count * rows))
    return panel


def by_models(share: float) -> Panel:
    """One row a request, over more and more models."""
    panel = Panel(
        "models", "models in the process", "CPU µs a request",
        "A request touches one model only, and models that rest cost the writer nothing; what grows a little is how cold "
        "a model's memory is, and that each one publishes and saves by itself. Set `checkpoint_every_s` higher where "
        "hundreds of models learn all the time.",
    )  # fmt: skip
    asked = int(2000 * share)
    with tempfile.TemporaryDirectory() as folder, service(Path(folder) / "models") as running:
        running.start()
        link, made = connect(running.port), 0
        for models in (1, 10, 100, 999) if share == 1.0 else (1, 10):
            while made < models:
                link.call("PUT", f"/models/m{made}", b"{}")
                made += 1
            for curve, method, path, body in (
                ("observe, one row", "POST", "observe", b"1 |f n1 n2 n3\n"),
                ("predict", "GET", "predict?n1=1&n2=1", b""),
            ):
                before = cpu_s(running.process.pid)
                for k in range(asked):
                    link.call(method, f"/models/m{k % models}/{path}", body, VW_TEXT)
                panel.add(curve, models, 1e6 * (cpu_s(running.process.pid) - before) / asked)
    return panel


def by_log(share: float) -> Panel:
    """How long a start takes against the events in the log, all behind a checkpoint or none."""
    panel = Panel(
        "log length", "events in the log", "s of a start",
        "A start reads the newest checkpoint and replays what lies behind it, at the speed of the learner and of reading "
        "records; what lies before it is not read. `checkpoint_every_events` and `checkpoint_every_s` bound what there is"
        " to replay (by default a million events or ten seconds).",
    )  # fmt: skip
    made = bodies(50_000)
    for events in (10_000, 100_000, 1_000_000) if share == 1.0 else (10_000, 50_000):
        with tempfile.TemporaryDirectory() as folder:
            data = Path(folder) / "log"
            with service(data, **KEEP_ALL) as running:
                running.start()
                make_model(running.port, "m", checkpoint=False)
                fill(running.port, "m", made, events)
                running.kill()
                panel.add("all to be replayed", events, start(running).seconds)
                running.stop()
                panel.add("behind a checkpoint", events, start(running).seconds)
                running.stop()
    return panel


def by_weights(share: float) -> Panel:
    """Publication, freezing and encoding a checkpoint against non-zero weights."""
    panel = Panel(
        "non-zero weights", "non-zero weights", "ms",
        "All three walk the list of slots that are in use, so they grow with the weights and not with the table; a "
        "checkpoint is encoded and written by a thread of its own. With many weights set `publish_every_ms` higher, or "
        "`gravity`, which brings weights to zero.",
    )  # fmt: skip
    for target in (1000, 10_000, 100_000, 1_000_000) if share == 1.0 else (1000, 10_000):
        learner = TruncatedGradient(TruncatedGradientConfig(gravity=0.0), BITS)
        learner.step(rows_of(100, max(1, int(target * 1.1) // 100)))
        found = len(learner.weights().slot)
        panel.add("publish", found, 1e3 * _least(learner.weights))
        frozen = learner.freeze()
        panel.add("freeze", found, 1e3 * _least(learner.freeze))
        panel.add("encode", found, 1e3 * _least(lambda frozen=frozen: layout.encode_checkpoint({}, frozen)))  # type: ignore[misc]
    return panel


def _least(work: Callable[[], object]) -> float:
    took = []
    for _ in range(REPEATS):
        begun = time.perf_counter()
        work()
        took.append(time.perf_counter() - begun)
    return min(took)


def by_clients(share: float) -> Panel:
    """Requests with one row, each durable, against concurrent connections."""
    panel = Panel(
        "concurrent clients", "connections", "requests/s",
        "With one connection every row waits for a sync of its own; with more, all that came meanwhile share the next "
        "one, until the process has no more time for HTTP. Clients that can should send several rows a request, or keep "
        "16 connections and more busy; `connections_max` bounds how many there may be.",
    )  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "service"), str(ROOT)))}
    with tempfile.TemporaryDirectory() as folder, service(Path(folder) / "clients") as running:
        running.start()
        command = [sys.executable, "-m", "tests.bench.load", str(running.port)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as load:
            if load.stdin is None or load.stdout is None:
                raise RuntimeError("the load has no pipes")
            for connections in (1, 4, 16, 64, 256) if share == 1.0 else (1, 16):
                load.stdin.write(json.dumps({"connections": connections, "rows": 1, "seconds": 2.5 * share}) + "\n")
                load.stdin.flush()
                told = json.loads(load.stdout.readline())
                panel.add("observe, one row, fsynced", connections, told["requests"] / told["seconds"])
            load.stdin.close()
    return panel


def draw(panels: Sequence[Panel], path: Path) -> None:
    """All panels in one picture."""
    with plt.rc_context({"svg.hashsalt": "riata", "svg.fonttype": "none"}):
        figure, grid = plt.subplots(2, 4, figsize=(15.0, 6.6), layout="constrained")
        for axes, panel in zip(grid.ravel(), panels, strict=False):
            for place, (name, points) in enumerate(panel.curves.items()):
                axes.plot(*zip(*points, strict=True), "o-", color=f"C{place}", label=name, linewidth=1.3, markersize=3.5)
            axes.set(title=panel.title, xlabel=panel.x, ylabel=panel.y, yscale="log")
            axes.set_xscale("linear" if panel.x.startswith("bits") else "log")
            axes.grid(alpha=0.3, which="both")
            axes.legend(fontsize=7.5)
        for axes in grid.ravel()[len(panels) :]:
            axes.set_visible(False)
        figure.savefig(path, format="svg", metadata={"Date": None})
        plt.close(figure)


def tables(panels: Sequence[Panel]) -> list[str]:
    """A table of each panel, with its sentence."""
    made = []
    for panel in panels:
        names = list(panel.curves)
        places = sorted({x for points in panel.curves.values() for x, _ in points})
        values: dict[str, dict[float, float]] = {name: dict(points) for name, points in panel.curves.items()}
        rows = [[f"{x:,.0f}", *(f"{values[name][x]:,.3g}" if x in values[name] else "" for name in names)] for x in places]
        heads = [panel.x, *(f"{name}, {panel.y}" for name in names)]
        made.append(f"## {panel.title.capitalize()}\n\n{panel.limit}\n\n" + report.table(heads, rows))
    return made


PANELS: Final[Sequence[Callable[[float], Panel]]] = (
    by_row_length, by_table, by_batch, by_models, by_log, by_weights, by_clients,
)  # fmt: skip


def main() -> int:
    """Measure, draw and report."""
    parser = contest.arguments(__doc__ or "")
    options = parser.parse_args()
    share = 0.1 if options.quick else 1.0
    begun, panels = time.monotonic(), []
    with Progress(console=Console(stderr=True)) as progress:
        for measure in progress.track(PANELS, description="panels"):
            panels.append(measure(share))
    write = not options.no_write
    if write:
        contest.folder(options.quick).mkdir(parents=True, exist_ok=True)
        draw(panels, contest.folder(options.quick) / "growth_curves.svg")
    picture = ["![curves](growth_curves.svg)\n"] if write else []
    note = (
        f"Measured in {(time.monotonic() - begun) / 60:.1f} minutes; each point once over HTTP, the least of {REPEATS} in memory."
    )
    contest.report_page(
        "growth", "How cost grows", (__doc__ or "").split("\n", 1)[1], [], [*picture, *tables(panels)], [note],
        "python -m tests.bench.growth", ["numpy", "numba"], write, options.quick,
    )  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
