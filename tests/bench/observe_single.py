"""POST /observe with one row a request, on the disk before its answer, compared with the usual alternatives.

Every side gets the same rows in the same order, one row a request, the next on each connection after the last is answered; the
load is a separate process (`tests.bench.single_rows`), and its cost is part of the measured time of every side.

- riata: one process, the embedded store, every answer after the fsync of its group.
- riata, store in memory: the same without the log on a disk, which is its own limit.
- FastAPI + pydantic + river + SQLite: commit (synchronous = FULL) before each answer.
- VW daemon: a line over TCP for each row, answered by a prediction; it stores nothing on the disk. It uses one process per
  connection, so it gets as many processes as there are connections; they share their weights without locks.

Before the timing each side learns the same rows and predicts rows that no side has seen; their log losses have to be close. A
run of a quarter of the length, which is not timed, precedes each timed run. Events are counted before and after every run.
After the last run the log is read from the disk, and every acknowledged row has to be in it.
"""

from __future__ import annotations

import http.client
import json
import math
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import psutil

from riata.store.sqlite.store import read_sqlite
from tests.bench.contest import Found, Measure, Side, arguments, contenders, contest, publish
from tests.bench.rivals.fastapi_river import FastapiRiver
from tests.bench.rivals.vw import VwDaemon
from tests.bench.service import connect
from tests.bench.single_rows import Command, Told, load_process, rows_of
from tests.running import Running

OURS: Final = "riata"
MEMORY: Final = "riata, store in memory"
FASTAPI: Final = "FastAPI + pydantic + river + SQLite"
VW: Final = "VW daemon"
COUNTS: Final = {1: 2000, 64: 12_000}  # connections: requests of a run
QUICK: Final = {64: 1500}
FEATURES: Final = 75
UNTIMED: Final = 4  # before each timed run, the first of this many parts of it, untimed
TAUGHT: Final = 6000  # rows, before anything is timed
HELD_OUT: Final = 500
HELD_OUT_FROM: Final = 50_000  # beyond the rows that anybody learns
LOSS_DIFFERENCE_MAX: Final = 0.05  # each learns by its own rule: near, not equal
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
    connect(running.port).call("PUT", f"/models/{model}", b"{}")  # a new connection for each use: one that idles is closed
    command = Command("http", running.port, connections, features, count, f"/models/{model}/observe", TAUGHT)

    def logged() -> int:
        model_now = connect(running.port).call("GET", f"/models/{model}")
        return int(model_now["log"]["last_seq"]) - 1  # the first says how to learn

    def predict(features: int) -> list[float]:
        seq, control = logged() + 1, connect(running.port)
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
        found = contest([Side(peer.name, partial(peer.run, ask)) for peer in peers], repeats, same_work)
        if disk.stop() != 0:
            raise RuntimeError("the service did not end well")
        require_logged(disk.directory, peers[0].sent)
    return found


def main() -> int:
    """Run and report."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--repeats", type=int, default=5, help="timed runs of each side (default 5)")
    options = parser.parse_args()
    counts, repeats = (QUICK, 1) if options.quick else (COUNTS, options.repeats)
    tables = []
    with tempfile.TemporaryDirectory() as folder, load_process() as ask:
        for connections, count in counts.items():
            found = compete(connections, FEATURES, count, repeats, Path(folder), ask)
            table = contenders(found, "row", ["p50 µs", "p99 µs"], OURS)
            tables.append(f"{connections} connection{'s' * (connections > 1)}:\n\n{table}")
    packages = ["uvicorn", "fastapi", "pydantic", "river"]
    publish("One row a request, durable", tables, "python -m tests.bench.observe_single", packages, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
