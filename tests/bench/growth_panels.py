"""The panels of `tests.bench.growth`: what is moved, what is timed, and the figures that the sentence beside it rests on.

Where a service is timed, the CPU time of its threads is taken meanwhile: the event loop, the parsers, the store, the writer and
who writes checkpoints. What is neither is waiting: for a sync of the disk, for another thread, for the client.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from riata.learn.registry import LearnerConfig, build_learner
from riata.learn.slot_table import zero_table
from riata.learn.truncated_gradient.config import TruncatedGradientConfig
from riata.store import layout
from riata.wire.batch import Batch
from tests.bench.filling import VW_TEXT, bodies, fill, make_model, wait_served
from tests.bench.limits import touch
from tests.bench.measured import start
from tests.bench.service import connect
from tests.bench.snapshot_cost import Stand
from tests.bench.telling_service import ALL, Telling
from tests.running import ROOT

SEED: Final = 64
BITS: Final = 22
FEATURES: Final = 75
LEARNER_FEATURES: Final = 2_000_000  # of one timed step
SERVICE_FEATURES: Final = 1_500_000
REPEATS: Final = 3
LINE: Final = 4  # numbers of one slot of the table of the adaptive learner
KEEP_ALL: Final = {"RIATA_LOG_KEEP_EVENTS": str(10**9)}
ROLES: Final = {
    "MainThread": "event loop", "riata-parse": "parsers", "riata-store": "store", "riata-writer": "writer",
    "riata-checkpoint": "checkpoints", "uvloop": "helpers",
}  # fmt: skip
FEW_MODELS: Final = 10
SAVED_S: Final = 11.0  # a little longer than checkpoint_every_s
SYNCS: Final = 50
SYNC_BYTES: Final = 2**15


@dataclass(slots=True)
class Panel:
    """One thing that grows, and a curve of what it costs; `limit` says what bounds it and what to set. What is in `parts` goes
    into the table only: the CPU time of the service's threads."""

    title: str
    x: str
    y: str
    limit: str = ""
    curves: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    parts: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    parts_unit: str = ""

    def add(self, curve: str, x: float, y: float) -> None:
        """One point of a curve."""
        self.curves.setdefault(curve, []).append((x, y))

    def add_parts(self, x: float, seconds: dict[str, float], each: float) -> None:
        """CPU seconds of the threads, each in units of `each` seconds."""
        for role, took in seconds.items():
            self.parts.setdefault(role, []).append((x, took / each))

    def say(self, sentence: str, *figures: float, **named: Any) -> None:
        """The sentence, with the figures in its braces."""
        self.limit = sentence.format(*figures, **named)

    def at(self, curve: str, x: float) -> float:
        """One point of a curve."""
        return dict(self.curves[curve])[x]

    def parts_at(self, x: float) -> dict[str, float]:
        """The CPU time of each role at one point, the event loop called `loop`."""
        return {role.removeprefix("event "): dict(points)[x] for role, points in self.parts.items()}


@contextmanager
def busy(running: Telling) -> Iterator[dict[str, float]]:
    """CPU seconds by role of the work in the block; the mapping is filled at the end."""
    before, took = by_role(running), dict[str, float]()
    yield took
    took.update({role: spent - before[role] for role, spent in by_role(running).items()})


def by_role(running: Telling) -> dict[str, float]:
    """CPU seconds by role since the process began; `others` are the threads without a role, including those that have ended."""
    reported = running.ask("threads")
    took = {
        role: sum(spent for name, spent in reported.items() if name.startswith(prefix)) / 1e9 for prefix, role in ROLES.items()
    }
    return took | {"others": reported[ALL] / 1e9 - sum(took.values())}


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


def cpu_ns(work: Callable[[], object], count: int) -> float:
    """Minimum CPU nanoseconds for each of `count`, over REPEATS, after one run that does not count."""
    took = []
    for _ in range(REPEATS + 1):
        begun = time.thread_time()
        work()
        took.append(time.thread_time() - begun)
    return 1e9 * min(took[1:]) / count


def learner_ns(config: LearnerConfig, bits: int, batch: Batch) -> float:
    """CPU nanoseconds a feature of a step, with the table's pages touched before."""
    learner = build_learner(config, bits)
    return cpu_ns(lambda: learner.step(batch), len(batch.hash))


def by_row_length(share: float) -> Panel:
    """Learner and service against features per example."""
    panel = Panel("features in a row", "features in a row", "ns a feature", parts_unit="CPU ns a feature")
    lengths = (1, 10, 100, 1000, 10_000)
    for features in lengths:
        count = max(1, int(LEARNER_FEATURES * share) // features)
        panel.add("learner", features, learner_ns(TruncatedGradientConfig(), BITS, rows_of(features, min(count, 200_000))))
    with tempfile.TemporaryDirectory() as folder, Telling(Path(folder) / "rows") as running:
        running.start()
        for features in lengths:
            rows = max(1, min(10_000, int(SERVICE_FEATURES * share) // features // 2))
            seconds, parts = bulk_s(running, f"f{features}", rows, features, 4)
            panel.add("service, bulk", features, 1e9 * seconds / (4 * rows * features))
            panel.add_parts(features, parts, 4e-9 * rows * features)
    each = panel.at("learner", 100)
    row = panel.at("learner", 1) - each
    panel.say(
        "Each row costs the learner about {row:.0f} ns (a margin, a loss, a step), and each feature {each:.1f} ns of access to "
        "the table. From about {even:.0f} features on, the features cost more than the row. Over HTTP, with 100 features in "
        "a row, reading text takes {parsers:.1f} ns of CPU a feature, the log {store:.1f}, learning {writer:.1f}; the "
        "rest of {wall:.0f} is waiting, because one connection sends one body after the other. There is no setting for this. A "
        "row may have up to 10,000 features.",
        row=row,
        each=each,
        even=row / each,
        wall=panel.at("service, bulk", 100),
        **panel.parts_at(100),
    )
    return panel


def text(rows: int, features: int, seed: int) -> bytes:
    """One body of Vowpal Wabbit text."""
    rng = np.random.default_rng([SEED, seed])
    drawn = rng.integers(0, 50_000, (rows, features)).astype(str)
    labels = rng.integers(0, 2, rows).tolist()
    return "".join(f"{y} |f n{' n'.join(row)}\n" for y, row in zip(labels, drawn.tolist(), strict=True)).encode()


def bulk_s(running: Telling, model: str, rows: int, features: int, count: int) -> tuple[float, dict[str, float]]:
    """Seconds from the first body to the last row being served, `count` bodies one after the other on one connection; and the
    CPU seconds of the threads."""
    make_model(running.port, model)
    link = connect(running.port)
    made = [text(rows, features, k) for k in range(count)]
    for body in made:  # names are new once
        seq = int(link.call("POST", f"/models/{model}/observe", body, VW_TEXT)["seq"])
    wait_served(running.port, model, seq)
    with busy(running) as parts:
        begun = time.perf_counter()
        for body in made:
            seq = int(link.call("POST", f"/models/{model}/observe", body, VW_TEXT)["seq"])
        wait_served(running.port, model, seq)
        seconds = time.perf_counter() - begun
    return seconds, parts


def by_table(share: float) -> Panel:
    """The learner against the size of its table."""
    panel = Panel("slots of the table", "bits (2^bits slots)", "ns a feature")
    sizes = (18, 20, 22, 24, 26) if share == 1.0 else (18, 22)
    for bits in sizes:
        batch = rows_of(FEATURES, int(LEARNER_FEATURES * share) // FEATURES, 2**bits)
        line = zero_table(2**bits, LINE)
        panel.add("adaptive", bits, learner_ns(TruncatedGradientConfig(), bits, batch))
        panel.add("constant", bits, learner_ns(TruncatedGradientConfig(rate="constant", normalised=False), bits, batch))
        panel.add("touched only", bits, cpu_ns(partial(touch, line, batch.hash, 32 - bits), batch.nnz))
    small, large = sizes[0], sizes[-1]
    panel.say(
        "Only adding 1 to the same slots, with prefetching, takes {0:.1f} ns with 2^{small} slots, which fit into the "
        "processor's caches, and {1:.1f} with 2^{large}, which have to come from memory. Learning takes {2:.1f} and {3:.1f}: "
        "in a small table this is arithmetic; in a large one most of the arithmetic overlaps with waiting for memory. Choose "
        "`encoder.bits` by collisions, not by speed: 22 is enough for a million names, and each further bit doubles the memory "
        "of a full table.",
        *(panel.at(curve, bits) for curve in ("touched only", "adaptive") for bits in (small, large)), small=small, large=large,
    )  # fmt: skip
    return panel


def sync_us(folder: Path) -> float:
    """Median microseconds of a plain write of two pages and its sync, in a file that is overwritten like the store's log."""
    with (folder / "bare").open("wb", buffering=0) as file:
        file.write(bytes(SYNCS * SYNC_BYTES))
        os.fsync(file.fileno())
        file.seek(0)
        took = []
        for _ in range(SYNCS):
            begun = time.perf_counter()
            file.write(bytes(SYNC_BYTES))
            os.fdatasync(file.fileno())
            took.append(time.perf_counter() - begun)
    return 1e6 * statistics.median(took)


def by_batch(share: float) -> Panel:
    """The service against rows in a body, and the learner against rows in a call."""
    panel = Panel("rows in a body", f"rows in a request ({FEATURES} features)", "µs a row", parts_unit="CPU µs a row")
    for rows in (1, 10, 100, 1000, 10_000, 100_000):
        batch = rows_of(FEATURES, max(1, int(rows * share)))
        panel.add("learner alone", rows, 1e-3 * FEATURES * learner_ns(TruncatedGradientConfig(), BITS, batch))
    with tempfile.TemporaryDirectory() as folder, Telling(Path(folder) / "batch") as running:
        sync = sync_us(Path(folder))  # before anybody else writes
        running.start()
        for rows in (1, 10, 100, 1000, 10_000):
            count = max(4, min(200, int(20_000 * share) // rows))
            seconds, parts = bulk_s(running, f"b{rows}", rows, FEATURES, count)
            panel.add("one connection", rows, 1e6 * seconds / (count * rows))
            panel.add_parts(rows, parts, 1e-6 * count * rows)
    few, many = panel.parts_at(1), panel.parts_at(1000)
    panel.say(
        "A request with one row takes {wall:,.0f} µs: {few[loop]:.0f} are CPU of the event loop, {few[store]:.0f} of the "
        "store, {few[writer]:.0f} of the writer. A sync of two pages alone takes {sync:.0f} on this disk. The rest is waking "
        "threads. With 1000 rows a row takes {less:.1f}: {many[parsers]:.2f} reading, {many[store]:.2f} "
        "the log, {many[writer]:.2f} learning. Send 100 to 1000 rows per request if they can wait for each other. A request "
        "may have at most 10,000 rows, a million features and 16 MiB.",
        wall=panel.at("one connection", 1),
        less=panel.at("one connection", 1000),
        sync=sync,
        few=few,
        many=many,
    )
    return panel


def by_models(share: float) -> Panel:
    """One row per request, with more and more models."""
    panel = Panel("models", "models in the process", "CPU µs a request", parts_unit="CPU µs an observe")
    asked, counts = int(2000 * share), (1, 10, 100, 999) if share == 1.0 else (1, 10)
    with tempfile.TemporaryDirectory() as folder:
        for curve, config in (("observe, one row", {}), ("observe, checkpoint_every_s 600", {"checkpoint_every_s": 600})):
            with Telling(Path(folder) / f"models-{len(config)}") as running:
                running.start()
                _ask_models(running, panel, curve, (counts, asked), config)
                running.stop()
    last = counts[-1]
    panel.say(
        "Each request goes to the next model. From 1 to {last} of them the event loop takes {one[loop]:.0f} and "
        "{all[loop]:.0f} µs, the store {one[store]:.0f} and {all[store]:.0f}, the writer {one[writer]:.0f} and "
        "{all[writer]:.0f}, the thread that encodes checkpoints {one[checkpoints]:.0f} and {all[checkpoints]:.0f}. Each model "
        "is published and saved separately. With many models nearly every row causes a publication and soon a checkpoint, "
        "which takes four transactions. With `checkpoint_every_s` at 600 it is {seldom:,.0f} "
        "in total, with the default {often:,.0f}: set it higher if hundreds of models learn all the time.",
        last=last, one=panel.parts_at(1), all=panel.parts_at(last),
        seldom=panel.at("observe, checkpoint_every_s 600", last), often=panel.at("observe, one row", last),
    )  # fmt: skip
    return panel


def _ask_models(running: Telling, panel: Panel, curve: str, sizes: tuple[Sequence[int], int], config: dict[str, Any]) -> None:
    """Observe and predict over this many models in turn; with the default configuration into all curves."""
    link, made, (counts, asked) = connect(running.port), 0, sizes
    for models in counts:
        while made < models:
            link.call("PUT", f"/models/m{made}", json.dumps(config).encode())
            made += 1
        if models > FEW_MODELS:
            time.sleep(SAVED_S)  # so that what is learnt is due to be saved, as it is where models learn all the time
        for name, method, path, body in (
            (curve, "POST", "observe", b"1 |f n1 n2 n3\n"),
            ("predict", "GET", "predict?n1=1&n2=1", b""),
        ):
            with busy(running) as parts:
                for k in range(asked):
                    link.call(method, f"/models/m{k % models}/{path}", body, VW_TEXT)
            if name == curve or not config:
                panel.add(name, models, 1e6 * sum(parts.values()) / asked)
            if name == curve and not config:
                panel.add_parts(models, parts, 1e-6 * asked)


def by_log(share: float) -> Panel:
    """The time of a start against the events in the log, with all of them before a checkpoint or with no checkpoint."""
    panel = Panel("log length", "events in the log", "s of a start", parts_unit="CPU s, all to be replayed")
    made, stored = bodies(50_000), 0.0
    lengths = (10_000, 100_000, 1_000_000, 10_000_000) if share == 1.0 else (10_000, 50_000)
    for events in lengths:
        with tempfile.TemporaryDirectory() as folder:
            data = Path(folder) / "log"
            with Telling(data, **KEEP_ALL) as running:
                running.start()
                make_model(running.port, "m", checkpoint=False)
                fill(running.port, "m", made, events)
                running.kill()
                panel.add("all to be replayed", events, start(running).seconds)
                panel.add_parts(events, by_role(running), 1.0)
                running.stop()
                stored = (
                    sum(file.stat().st_size for name in ("riata.db", "riata.payloads.*") for file in data.glob(name)) / events
                )
                panel.add("after a checkpoint", events, start(running).seconds)
                running.stop()
    less, more = lengths[-2:]
    of_less, of_more, curve = panel.parts_at(less), panel.parts_at(more), "all to be replayed"
    each = {name: 1e6 * (of_more[name] - of_less[name]) / (more - less) for name in of_more}
    panel.say(
        "A start reads the newest checkpoint and replays the events after it. The log before the checkpoint is not read. From "
        "{less:,} to {more:,} events each additional event takes {wall:.2f} µs to replay: {each[store]:.2f} of CPU in the thread "
        "that reads records ({stored:.0f} bytes an event), {each[helpers]:.2f} in the one that decodes and learns them. "
        "`checkpoint_every_events` and `checkpoint_every_s` bound the number of events to replay (by default a million events "
        "or ten seconds).",
        less=less, more=more, each=each, stored=stored,
        wall=1e6 * (panel.at(curve, more) - panel.at(curve, less)) / (more - less),
    )  # fmt: skip
    return panel


def by_weights(share: float) -> Panel:
    """Publication, and the steps of a checkpoint, against non-zero weights."""
    panel = Panel("non-zero weights", "non-zero weights", "ms")
    for size in (10, 13, 17, 20, 22) if share == 1.0 else (10, 13):
        with tempfile.TemporaryDirectory() as folder:
            stand = Stand("truncated_gradient", size, Path(folder) / "store")
            found = stand.non_zeros
            panel.add("publish", found, 1e3 * _least(stand.publish))
            panel.add("freeze", found, 1e3 * _least(stand.state.freeze))
            frozen = stand.state.freeze()
            panel.add("encode", found, 1e3 * _least(partial(layout.encode_checkpoint, {}, frozen.arrays)))
            panel.add("checkpoint, whole", found, 1e3 * stand.save(frozen))
    each = [1e6 * points[-1][1] / points[-1][0] for points in panel.curves.values()]
    panel.say(
        "With the largest number of weights here, a weight costs {:.1f} ns in a publication. In a checkpoint it costs {:.1f} "
        "ns to freeze, in the writer's thread, {:.1f} to encode, and {:.1f} in total with writing, syncing and reading back, "
        "in other threads. All of these steps go over the list of slots in use, so their cost grows with the number of weights "
        "and not with the table. With many weights raise `publish_every_ms`, or raise `gravity`, which brings weights to zero.",
        *each,
    )
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
    panel = Panel("concurrent clients", "connections", "requests/s", parts_unit="CPU µs a request")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "service"), str(ROOT)))}
    counts, curve = (1, 4, 16, 64, 256) if share == 1.0 else (1, 16), "observe, one row, fsynced"
    with tempfile.TemporaryDirectory() as folder, Telling(Path(folder) / "clients") as running:
        running.start()
        command = [sys.executable, "-m", "tests.bench.load", str(running.port)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as load:
            if load.stdin is None or load.stdout is None:
                raise RuntimeError("the load has no pipes")
            for connections in counts:
                with busy(running) as parts:
                    load.stdin.write(json.dumps({"connections": connections, "rows": 1, "seconds": 2.5 * share}) + "\n")
                    load.stdin.flush()
                    reported = json.loads(load.stdout.readline())
                panel.add(curve, connections, reported["requests"] / reported["seconds"])
                panel.add_parts(connections, parts, 1e-6 * reported["requests"])
            load.stdin.close()
    few, many = panel.parts_at(counts[0]), panel.parts_at(counts[-1])
    panel.say(
        "With one connection every row has its own sync, and a request costs {few[loop]:.0f} µs of CPU in the "
        "event loop, {few[store]:.0f} in the store and {few[writer]:.0f} in the writer. With {count} connections all waiting "
        "requests share the next sync and the thread changes: {many[loop]:.0f}, {many[store]:.0f} and "
        "{many[writer]:.0f}. The threads together are busy {busy:.0%} of the time, and most of their work needs the "
        "interpreter's lock, which one thread has at a time. If possible, clients should send several rows per request, or "
        "keep 16 or more connections busy. `connections_max` bounds the number of connections.",
        few=few,
        many=many,
        count=counts[-1],
        busy=1e-6 * sum(many.values()) * panel.at(curve, counts[-1]),
    )
    return panel


PANELS: Final[Sequence[Callable[[float], Panel]]] = (
    by_row_length, by_table, by_batch, by_models, by_log, by_weights, by_clients,
)  # fmt: skip
