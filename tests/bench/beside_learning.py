"""What a prediction notices of learning at full speed in the same process, and what learning loses by predictions.

One service, and a client process that requests 500 predictions a second (POST /predict, 75 features) at fixed times, whether or
not earlier ones were answered. In turns:

- idle: the service does nothing else.
- learning: the same, while the writer learns rows of 75 features from memory as fast as it can, either another model than the
  predicted one (`fed`) or the same one (`asked`). No requests are parsed or logged for it, so only the learner competes with
  the predictions.
- alone: the writer learns in the same way, without predictions.
- bulk: predictions beside bodies of 1000 rows over HTTP, sent over two connections as fast as they are acknowledged after their
  fsync. Here the event loop, the parsers, the store and the client of the bodies have work too.
- bulk at 70 %: the same bodies at fixed times, at 70 % of the speed that bulk had just before.
- bulk alone: the same bodies as fast as they are acknowledged, without predictions.
- another process, idle, beside learning and beside bulk: the same requests, sent to a separate process that writes one fixed
  answer to every request, while the service is idle, learns, or takes bodies. It shares only the machine with the service, so any
  server on it would be affected as much.

Latency is counted from the moment a request was due. A prediction that is not answered with 200 has failed. A body that is not
answered with 202 is refused: the client sends it again after 20 ms. Rows of bulk are counted when they are learnt.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import psutil

from tests.bench import contest, report
from tests.bench.bulk_service import NDJSON, ROWS, make_rows
from tests.bench.contest import Found, Measure, Side
from tests.bench.fed_service import CONFIG, CONTROL, FED, Control
from tests.bench.rivals.fixed import UvloopFixed
from tests.bench.service import ServiceFailed, connect
from tests.running import ROOT, Running, free_port

RATE: Final = 500
IDLE: Final = "idle"
LEARNING: Final = "learning"
ALONE: Final = "alone"
BULK: Final = "beside bulk"
PART: Final = "beside bulk at 70 %"
BULK_ALONE: Final = "bulk alone"
SHARE: Final = 0.7  # of the speed of bulk
OTHER_IDLE: Final = "another process, idle"
OTHER: Final = "another process, beside learning"
OTHER_BULK: Final = "another process, beside bulk"
BULK_MODEL: Final = "bulk"
SENDERS: Final = 2
BODIES: Final = 20
REFUSED_WAIT_S: Final = 0.02
SERVICE_BUSY_POLL_US: Final = 100  # as it is unless set otherwise


class Asking:
    """A process that requests predictions from one port; see `open_load`."""

    def __init__(self, port: int, model: str) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "service"), str(ROOT)))}
        command = [sys.executable, "-m", "tests.bench.open_load", str(port), model]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def ask(self, seconds: float) -> dict[str, float]:
        """Request RATE predictions per second."""
        if self._process.stdin is None or self._process.stdout is None:
            raise ServiceFailed("the load has no pipes")
        self._process.stdin.write(json.dumps({"rate": RATE, "seconds": seconds}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise ServiceFailed("the load has ended, its reason is above")
        told: dict[str, float] = json.loads(line)
        return told

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait(60)


class Node:
    """The service, its feeder and its load generator, and the load generator of the other process."""

    def __init__(self, running: Running, control: Control, asking: Asking, other: Asking, seconds: float) -> None:
        self.running = running
        self.seconds = seconds
        self._control = control
        self._asking = asking
        self._other = other
        self._pid = psutil.Process(running.process.pid)
        self._bodies = make_rows(BODIES).bodies
        self._full_rows_s = 0.0

    def ask(self) -> dict[str, float]:
        """Request predictions of the service."""
        return self._asking.ask(self.seconds)

    def ask_other(self) -> dict[str, float]:
        """Request predictions of the other process."""
        return self._other.ask(self.seconds)

    def idle(self) -> Measure:
        """Predictions of a service that does nothing else."""
        return self._measured(self.ask)

    def learning(self) -> Measure:
        """Predictions while it learns."""
        with self._fed() as rows:
            measure = self._measured(self.ask)
        return _with(measure, rows)

    def other_idle(self) -> Measure:
        """Answers of another process while nothing learns."""
        return self._measured(self.ask_other)

    def other(self) -> Measure:
        """Answers of another process while the service learns."""
        with self._fed() as rows:
            measure = self._measured(self.ask_other)
        return _with(measure, rows)

    def alone(self) -> Measure:
        """Learning, and no predictions."""
        with self._fed() as rows:
            measure = self._measured(self._wait)
        return _with(measure, rows)

    def bulk(self) -> Measure:
        """Predictions while bodies come in over HTTP as fast as they are acknowledged."""
        measure = self._beside_bulk(self.ask)
        self._full_rows_s = measure.facts["rows_s"]
        return measure

    def part(self) -> Measure:
        """Predictions while bodies come in at SHARE of the speed that they had when they were last sent at full speed."""
        return self._beside_bulk(self.ask, SHARE * self._full_rows_s)

    def other_bulk(self) -> Measure:
        """Answers of another process while bodies come in."""
        return self._beside_bulk(self.ask_other)

    def bulk_alone(self) -> Measure:
        """Bodies, and no predictions."""
        return self._beside_bulk(self._wait)

    def _beside_bulk(self, work: Callable[[], dict[str, float]], rows_s: float = 0.0) -> Measure:
        """Send bodies during `work`, `rows_s` rows a second or, if that is 0, as fast as they are acknowledged."""
        stop = threading.Event()
        refused = [0] * SENDERS

        def send(sender: int) -> None:
            connection = connect(self.running.port)
            begun = time.perf_counter()
            sent = 0
            while not stop.is_set():
                if rows_s:
                    time.sleep(max(0.0, begun + (sent * SENDERS + sender) * ROWS / rows_s - time.perf_counter()))
                body = self._bodies[(sent * SENDERS + sender) % BODIES]
                try:
                    connection.call("POST", f"/models/{BULK_MODEL}/observe", body, NDJSON)
                    sent += 1
                except ServiceFailed:  # a service whose learner is behind asks the client to wait
                    refused[sender] += 1
                    time.sleep(REFUSED_WAIT_S)

        senders = [threading.Thread(target=send, args=(sender,)) for sender in range(SENDERS)]
        first = self._learnt()
        for sender in senders:
            sender.start()
        begun = time.perf_counter()
        try:
            measure = self._measured(work)
        finally:
            stop.set()
            for sender in senders:
                sender.join()
        learnt, took = self._learnt() - first, time.perf_counter() - begun
        return _with(measure, {"rows_s": learnt / took, "refused": sum(refused)})

    def _learnt(self) -> int:
        """The number of events that the model of the bodies has learnt."""
        model = connect(self.running.port).call("GET", f"/models/{BULK_MODEL}")
        return int(model["seq_applied"])

    def _wait(self) -> dict[str, float]:
        time.sleep(self.seconds)
        return {"asked": round(RATE * self.seconds)}

    def _measured(self, work: Callable[[], dict[str, float]]) -> Measure:
        used = self._pid.cpu_times()
        begun = time.perf_counter()
        told = work()
        took = time.perf_counter() - begun
        after = self._pid.cpu_times()
        cpu_s = after.user + after.system - used.user - used.system
        return Measure(took, cpu_s, round(told["asked"]), {key: value for key, value in told.items() if key != "asked"})

    @contextmanager
    def _fed(self) -> Iterator[dict[str, float]]:
        """Learn during the block; afterwards `rows_s` is the speed."""
        rows: dict[str, float] = {}
        self._control.tell("feed")
        time.sleep(0.3)
        begun, first = time.perf_counter(), self._control.tell("applied")
        yield rows
        rows["rows_s"] = (self._control.tell("applied") - first) / (time.perf_counter() - begun)
        self._control.tell("rest")
        time.sleep(0.3)


def _with(measure: Measure, rows: dict[str, float]) -> Measure:
    return Measure(measure.seconds, measure.cpu_s, measure.units, {**measure.facts, **rows})


@contextmanager
def node(asked: str, seconds: float) -> Iterator[Node]:
    """A service with the models that are fed, asked and sent to."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        port = free_port()
        kept = {CONTROL: str(port), "RIATA_LOG_KEEP_EVENTS": "100000"}
        running = stack.enter_context(Running(Path(folder) / "data", kept, module="tests.bench.fed_service"))
        running.start()
        connection = connect(running.port)
        connection.call("PUT", f"/models/{FED}", json.dumps(CONFIG).encode())
        connection.call("PUT", f"/models/{BULK_MODEL}", b"{}")
        body = make_rows(1).bodies[0]
        connection.call("POST", f"/models/{BULK_MODEL}/observe", body, NDJSON)
        fixed = stack.enter_context(UvloopFixed(SERVICE_BUSY_POLL_US))
        asking, other = (Asking(at, asked) for at in (running.port, fixed.port))
        stack.callback(asking.end)
        stack.callback(other.end)
        yield Node(running, Control(port), asking, other, seconds)
        running.kill()  # what was fed is in no log: there is nothing to save


def same(first: dict[str, Measure]) -> str:
    """The reason why the sides did not do the same work; empty if they did."""
    failed = {name: measure.facts["failed"] for name, measure in first.items() if measure.facts.get("failed")}
    if failed:
        return f"predictions failed before anything was timed: {failed}"
    if len({measure.units for measure in first.values()}) > 1:
        return "the sides were not asked for the same number of predictions"
    if any(measure.facts["rows_s"] <= 0 for name, measure in first.items() if name in (LEARNING, ALONE, OTHER)):
        return "nothing was learnt"
    return ""


def table(found: Found) -> str:
    """Latencies and speed of every side: medians over the rounds, and the range of p99."""
    rows = []
    for name, measures in found.items():
        facts = measures[0].facts

        def middle(fact: str, measures: list[Measure] = measures) -> float:
            return contest.fact(measures, fact)

        asked = ["", "", "", ""]
        if "p99_us" in facts:
            p99 = [measure.facts["p99_us"] for measure in measures]
            failed = sum(measure.facts["failed"] for measure in measures)
            asked = [f"{middle('p50_us'):,.0f}", f"{middle('p99_us'):,.0f}", f"{min(p99):,.0f}-{max(p99):,.0f}"]
            asked.append(f"{failed:.0f}")
        learnt = f"{middle('rows_s'):,.0f}" if "rows_s" in facts else ""
        refused = f"{sum(measure.facts['refused'] for measure in measures):.0f}" if "refused" in facts else ""
        rows.append([name, *asked, learnt, refused])
    head = ["side", "p50 µs", "p99 µs", "range", "failed", "rows learnt a second", "bodies refused"]
    return report.table(head, rows)


def main() -> int:
    """Run and report."""
    parser = contest.arguments(__doc__ or "")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each side in each round")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    seconds, repeats = (0.5, 1) if options.quick else (options.seconds, options.repeats)
    tables = []
    for asked, what in ((BULK_MODEL, "a model beside the one that learns"), (FED, "the model that learns")):
        with node(asked, seconds) as at:
            sides = [Side(IDLE, at.idle), Side(LEARNING, at.learning), Side(ALONE, at.alone)]
            sides += [Side(OTHER_IDLE, at.other_idle), Side(OTHER, at.other)]
            if asked == BULK_MODEL:
                sides += [
                    Side(BULK, at.bulk),
                    Side(PART, at.part),
                    Side(BULK_ALONE, at.bulk_alone),
                    Side(OTHER_BULK, at.other_bulk),
                ]
            tables.append(f"Asked: {what}.\n\n{table(contest.contest(sides, repeats, same))}")
    tables.append(f"{RATE} predictions a second, {seconds:g} s a side, {repeats} rounds.")
    packages = ["uvicorn", "uvloop", "numpy"]
    contest.publish("Predictions beside learning", tables, "python -m tests.bench.beside_learning", packages, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
