"""POST /observe with one row a request, on the disk before its answer, compared with the usual alternatives.

Every side gets the same rows in the same order, one row a request, the next on each connection after the last is answered; the
load is a separate process (`tests.bench.single_rows`), and its cost is part of the measured time of every side.

- riata: one process, the embedded store, every answer after the fsync of its group.
- riata, store in memory: the same without the log on a disk, which is its own limit.
- FastAPI + pydantic + river + SQLite: commit (synchronous = FULL) before each answer.
- VW daemon: a line over TCP for each row, answered by a prediction; it stores nothing on the disk. It uses one process per
  connection, so it gets as many processes as there are connections; they share their weights without locks.
- a fixed answer: uvloop that writes one answer to every request, parses nothing and stores nothing. No server with this
  interpreter and loop answers faster.
- the store alone: rows that were parsed before, each appended and synced alone, in a thread that does nothing else: no request,
  no change of thread, and nothing is learnt.
- the disk: as many bytes as a row has in riata's log, written and synced one after another, one sync a row.
- the disk, two pages: the writes of a transaction of riata's database, two of its pages over older ones, and a sync.
"""

from __future__ import annotations

import http.client
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import psutil

from riata.predict.name_book import NameBook
from riata.store.payload import encode_batch
from riata.store.sqlite.schema import PAGE_BYTES
from riata.store.sqlite.store import open_sqlite, read_sqlite
from riata.store.store import Append
from riata.wire.encoder import EncoderConfig
from riata.wire.parse import Context, parse_examples
from tests.bench.contest import (
    Claim,
    Found,
    Measure,
    Side,
    arguments,
    contenders,
    contest,
    fact,
    per_unit,
    report_page,
    times_faster,
)
from tests.bench.rivals.fastapi_river import FastapiRiver
from tests.bench.rivals.fixed import UvloopFixed
from tests.bench.rivals.vw import VwDaemon
from tests.bench.service import connect
from tests.bench.single_rows import Command, Told, load_process, rows_of
from tests.running import Running

OURS: Final = "riata"
MEMORY: Final = "riata, store in memory"
FASTAPI: Final = "FastAPI + pydantic + river + SQLite"
VW: Final = "VW daemon"
FIXED: Final = "a fixed answer"
STORE: Final = "the store alone, a row an append"
DISK: Final = "the disk, a sync a row"
PAGES: Final = "the disk, two pages a sync"
COUNTS: Final = {1: 2000, 16: 6000, 64: 12_000}  # connections: requests of a run
QUICK: Final = {64: 1500}
UNTIMED: Final = 4  # before each timed run, the first of this many parts of it, untimed
TAUGHT: Final = 6000  # rows, before anything is timed
HELD_OUT: Final = 500
HELD_OUT_FROM: Final = 50_000  # beyond the rows that anybody learns
LOSS_DIFFERENCE_MAX: Final = 0.05  # each learns by its own rule: near, not equal
REACH: Final = {64: {FASTAPI: 8.0, VW: 2.0}, 1: {FASTAPI: 2.0}}  # connections: rival: ratio
JSON: Final = {"Content-Type": "application/json"}
Ask = Callable[[Command], Told]


def log_loss(probability: list[float], label: list[int]) -> float:
    """Mean log loss."""
    inside = np.clip(np.array(probability), 1e-6, 1 - 1e-6)
    y = np.array(label)
    return float(-(y * np.log(inside) + (1 - y) * np.log(1 - inside)).mean())


@dataclass(slots=True)
class Peer:
    """A side: where it listens, what it has used, what it predicts for rows that nobody learnt, how many events it holds.

    predict : probabilities of rows, by a body of each
    events  : how many events it has acknowledged; None if it does not count
    """

    name: str
    command: Command
    cpu_s: Callable[[], float]
    predict: Callable[[int], list[float]]
    events: Callable[[], int] | None
    sent: int = 0
    loss: float | None = None  # held-out log loss after `teach`

    def teach(self, ask: Ask) -> None:
        """Let it learn TAUGHT rows, and predict rows that no side has learnt."""
        ask(replace(self.command, count=TAUGHT, first=0, connections=min(self.command.connections, 16)))
        self.sent += TAUGHT
        y = [row.label for row in rows_of(self.command.features, HELD_OUT, HELD_OUT_FROM)]
        self.loss = log_loss(self.predict(self.command.features), y)

    def run(self, ask: Ask) -> Measure:
        """One timed run after one that is not timed, because other sides have used the machine meanwhile."""
        warming = before_timing(self.command)
        ask(warming)
        before = self.cpu_s()
        reported = ask(self.command)
        cpu_s = self.cpu_s() - before
        self.sent += warming.count + self.command.count
        facts = {"p50 µs": reported.p50_us, "p99 µs": reported.p99_us, "load's CPU": reported.client_cpu_s / reported.seconds}
        if self.loss is not None:
            facts["held-out log loss"] = self.loss
        if self.events is not None:
            facts["events"] = float(self.events())
            if int(facts["events"]) != self.sent:
                raise RuntimeError(f"{self.name} holds {facts['events']:.0f} events of {self.sent} that it acknowledged")
        return Measure(reported.seconds, cpu_s, self.command.count, facts)


def before_timing(command: Command) -> Command:
    """A part of a run, after which caches and memory are those of this side again."""
    return replace(command, count=command.count // UNTIMED)


def cpu_of(pid: int) -> float:
    """User and system seconds of a process."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def riata_peer(name: str, running: Running, model: str, connections: int, features: int, count: int) -> Peer:
    """A new model of a running service."""
    control = connect(running.port)
    control.call("PUT", f"/models/{model}", b"{}")
    command = Command("http", running.port, connections, features, count, f"/models/{model}/observe", TAUGHT)

    def logged() -> int:
        return int(control.call("GET", f"/models/{model}")["log"]["last_seq"]) - 1  # the first says how to learn

    def predict(features: int) -> list[float]:
        seq = logged() + 1
        path = f"/models/{model}/predict?min_seq={seq}"
        bodies = [json.dumps({"features": row.features}).encode() for row in rows_of(features, HELD_OUT, HELD_OUT_FROM)]
        return [float(control.call("POST", path, body)["probability"]) for body in bodies]

    return Peer(name, command, lambda: cpu_of(running.process.pid), predict, logged)


def fastapi_peer(rival: FastapiRiver, connections: int, features: int, count: int) -> Peer:
    """The peer over HTTP."""

    def predict(features: int) -> list[float]:
        link = http.client.HTTPConnection("127.0.0.1", rival.port, timeout=60)
        found = []
        for row in rows_of(features, HELD_OUT, HELD_OUT_FROM):
            link.request("POST", "/predict", json.dumps({"features": row.features}), JSON)
            found.append(float(json.loads(link.getresponse().read())["probability"]))
        link.close()
        return found

    return Peer(
        FASTAPI, Command("http", rival.port, connections, features, count, first=TAUGHT), rival.cpu_s, predict, rival.events
    )


def vw_peer(daemon: VwDaemon, connections: int, features: int, count: int) -> Peer:
    """The peer over TCP."""

    def predict(features: int) -> list[float]:
        with daemon.connect() as link:
            margins = [float(link.ask(row.vw(labelled=False)).split()[0]) for row in rows_of(features, HELD_OUT, HELD_OUT_FROM)]
        return [1.0 / (1.0 + math.exp(-margin)) for margin in margins]

    return Peer(VW, Command("vw", daemon.port, connections, features, count, first=TAUGHT), daemon.cpu_s, predict, None)


def one_row_bytes(features: int) -> int:
    """Length of a row in riata's log."""
    rows = b"\n".join(row.json() for row in rows_of(features, 100))
    return len(encode_batch(parse_examples(rows, "application/x-ndjson", Context(EncoderConfig()), labelled=True).batch)) // 100


def store_side(path: Path, features: int, count: int) -> Side:
    """The embedded store, one row an append."""
    book, appends = NameBook(), []
    for row in rows_of(features, TAUGHT):
        context = Context(EncoderConfig(), "0/1", book.seen)
        parsed = parse_examples(row.json(), "application/json", context, labelled=True)
        book.add_all(parsed.names)
        appends.append(Append("rows", "observe", 1, parsed.batch, names=parsed.names, only_if_all_new=True))

    def run() -> Measure:
        store, took = open_sqlite(path), []
        if not store.models():
            store.create("rows", bytes(16))
        cpu, start = time.process_time(), time.perf_counter()
        for append in appends[-count:]:  # after most names were met
            begun = time.perf_counter()
            store.append([append])
            took.append(time.perf_counter() - begun)
        seconds, cpu_s = time.perf_counter() - start, time.process_time() - cpu
        store.close()
        p50, p99 = (1e6 * float(part) for part in np.quantile(took, (0.5, 0.99)))
        return Measure(seconds, cpu_s, count, {"p50 µs": p50, "p99 µs": p99})

    return Side(STORE, run)


def disk_side(name: str, path: Path, size: int, count: int, over: bool = False) -> Side:
    """Write and sync `size` bytes, `count` times; with `over` in a file that is there already, else at the end of a new one."""
    one = bytes(size)

    def run() -> Measure:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | (0 if over else os.O_TRUNC), 0o600)
        if over:
            for _ in range(count):
                os.write(file, one)
            os.fsync(file)
            os.lseek(file, 0, os.SEEK_SET)
        took = []
        cpu, start = time.process_time(), time.perf_counter()
        for _ in range(count):
            begun = time.perf_counter()
            os.write(file, one)
            os.fdatasync(file)
            took.append(time.perf_counter() - begun)
        seconds, cpu_s = time.perf_counter() - start, time.process_time() - cpu
        os.close(file)
        p50, p99 = (1e6 * float(part) for part in np.quantile(took, (0.5, 0.99)))
        return Measure(seconds, cpu_s, count, {"p50 µs": p50, "p99 µs": p99})

    return Side(name, run)


def fixed_side(fixed: UvloopFixed, command: Command, ask: Ask) -> Side:
    """The limit of a server that does nothing, with the same requests."""

    def run() -> Measure:
        here = replace(command, port=fixed.port)
        ask(before_timing(here))
        before = fixed.cpu_s()
        reported = ask(here)
        facts = {"p50 µs": reported.p50_us, "p99 µs": reported.p99_us, "load's CPU": reported.client_cpu_s / reported.seconds}
        return Measure(reported.seconds, fixed.cpu_s() - before, command.count, facts)

    return Side(FIXED, run)


def same_work(first: dict[str, Measure]) -> str:
    """The reason why the sides did not learn the same; empty if they did. Events are counted in every run."""
    losses = {name: measure.facts["held-out log loss"] for name, measure in first.items() if "held-out log loss" in measure.facts}
    reported = ", ".join(f"{name} {loss:.4f}" for name, loss in losses.items())
    if max(losses.values()) >= math.log(2.0):
        return f"a side has learnt nothing: held-out log loss {reported}"
    worst = max(loss for name, loss in losses.items() if name.startswith(OURS))
    if worst > min(losses.values()) + LOSS_DIFFERENCE_MAX:
        return f"held-out log losses are not comparable: {reported}"
    return ""


def compete(connections: int, features: int, count: int, repeats: int, folder: Path, ask: Ask) -> Found:
    """All sides with this many connections and features a row; afterwards every acknowledged row has to be in riata's log."""
    with ExitStack() as stack:
        disk = Running(folder / f"disk-{connections}-{features}")
        memory = Running(folder / f"memory-{connections}-{features}", arguments=("--store", "memory:"))
        for running in (stack.enter_context(disk), stack.enter_context(memory)):
            running.start()
        shape = (connections, features, count)
        daemon = stack.enter_context(VwDaemon(("--loss_function", "logistic", "-b", "22"), connections + 1))
        peers = [
            riata_peer(OURS, disk, "rows", *shape),
            riata_peer(MEMORY, memory, "rows", *shape),
            fastapi_peer(stack.enter_context(FastapiRiver()), *shape),
            vw_peer(daemon, *shape),
        ]
        for peer in peers:
            peer.teach(ask)
        sides = [Side(peer.name, lambda peer=peer: peer.run(ask)) for peer in peers]  # type: ignore[misc]
        sides.append(fixed_side(stack.enter_context(UvloopFixed()), peers[0].command, ask))
        syncs = min(count, 1000)
        sides.append(store_side(folder / f"store-{connections}-{features}", features, syncs))
        sides.append(disk_side(DISK, folder / "plain", one_row_bytes(features), syncs))
        sides.append(disk_side(PAGES, folder / "pages", 2 * PAGE_BYTES, syncs, over=True))
        found = contest(sides, repeats, same_work)
        if disk.stop() != 0:
            raise RuntimeError("the service did not end well")
        require_logged(disk.directory, peers[0].sent)
    return found


def require_logged(directory: Path, events: int) -> None:
    """Raise `RuntimeError` unless the log holds these events; its chain is checked as it is read."""
    store = read_sqlite(directory)
    held = after = 0
    while records := store.read("rows", after):
        held += sum(record.count for record in records if record.kind == "observe")
        after = records[-1].last
    store.close()
    if held != events:
        raise RuntimeError(f"{events} rows were acknowledged, the log holds {held}")


def main() -> int:
    """Run and report."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--repeats", type=int, default=5, help="timed runs of each side (default 5)")
    options = parser.parse_args()
    counts, repeats = (QUICK, 1) if options.quick else (COUNTS, options.repeats)
    shapes = [(connections, 75) for connections in counts] + ([] if options.quick else [(64, 20)])
    claims, tables = [], []
    with tempfile.TemporaryDirectory() as folder, load_process() as ask:
        for connections, features in shapes:
            found = compete(connections, features, counts[connections], repeats, Path(folder), ask)
            path = f"one row of {features} features a request, {connections} connection{'s' if connections > 1 else ''}"
            for rival, reach in REACH.get(connections, {}).items() if features == 75 else ():
                claims.append(Claim(path, OURS, rival, times_faster(found, OURS, rival), reach))
            facts = ["p50 µs", "p99 µs", "load's CPU"]
            table = contenders(found, "row", facts, OURS)
            tables.append(f"## {path.capitalize()}\n\n{table}\n{busy(found, connections)}\n{limit(found, connections)}")
    report_page(
        "observe_single", "One row a request, durable", __doc__ or "", claims, tables, [NOTE],
        "python -m tests.bench.observe_single", ["numpy", "uvicorn", "fastapi", "pydantic", "river"],
        write=not options.no_write, trial=options.quick,
    )  # fmt: skip
    return 0


def busy(found: Found, connections: int) -> str:
    """The number of processors that the sides kept busy, in a sentence."""
    parts = []
    for name, measures in found.items():
        if name not in (STORE, DISK, PAGES):
            share = float(np.median([measure.cpu_s / measure.seconds for measure in measures]))
            parts.append(f"{name} {share:.2f}")
    load = fact(found[OURS], "load's CPU")
    ours, sync = fact(found[OURS], "p50 µs"), fact(found[PAGES], "p50 µs")
    return (
        f"Processors kept busy with {connections} under way: {', '.join(parts)}; by the load of riata {load:.2f}."
        f" The p50 of riata is {ours:.0f} µs, that of a sync of two pages {sync:.0f} µs.\n"
    )


def limit(found: Found, connections: int) -> str:
    """The lower bound for any server with this loop and this database, compared with the target, in a sentence."""
    if connections == 1:
        answer, sync, append = (fact(found[name], "p50 µs") for name in (FIXED, PAGES, STORE))
        theirs, rest = per_unit(found[FASTAPI], "seconds") * 1e6, fact(found[OURS], "p50 µs") - answer - append
        others = (
            f" The other {rest:.0f} µs of riata are parsing of the row, two thread changes (to the log thread and back), and"
            " cold caches in a thread that was just woken."
        )
        return (
            f"The limit: a fixed answer ({answer:.0f} µs) and a sync of two pages ({sync:.0f} µs), one after the other and "
            f"without any other work, take {answer + sync:.0f} µs. That would be {theirs / (answer + sync):.1f} times the rows "
            "of"
            f" {FASTAPI}. With all the work of the store for an append ({append:.0f} µs) it would be"
            f" {theirs / (answer + append):.1f} times.{others if rest > 0 else ''}\n"
        )
    over = times_faster(found, FIXED, VW)
    return (
        f"The limit: a fixed answer, which parses, learns and stores no row, has {over:.2f} times the rows of the {VW}, whose"
        f" {connections + 1} processes share the cores; riata is one process.\n"
    )


NOTE: Final = (
    "Before the timing each side learns the same rows and predicts rows that no side has seen; their log losses have to be "
    "close. A run of a quarter of the length, which is not timed, precedes each timed run. Events are counted before and after "
    "every run. After the last run the log is read from the disk, its chain is checked, and every acknowledged row has to be "
    "in it. Figures are medians over the rounds; ratios are computed round by round. If the load generator keeps a whole "
    "processor busy, it is the limit, and not the server."
)


if __name__ == "__main__":
    sys.exit(main())
