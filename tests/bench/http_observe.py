"""Durable learning through POST /observe against Vowpal Wabbit reading the same rows as text in its own process.

The service runs as a process of its own with its embedded store, acknowledging every request only after its fsync. This process
sends NDJSON bodies of 1000 rows x 75 features over keep-alive connections and waits for each answer; the clock stops when the
last answer has come and a prediction model that includes every row is served. Vowpal Wabbit gets the same rows as lines of its
own text format, one `learn` call a line through its Python binding; as a second figure, reads them from a file by itself (-d).
Neither side's rows are prepared inside the clock. Contenders alternate; the figures are medians over the repeats.

The first pass over a new model meets every feature name for the first time and keeps it, which Vowpal Wabbit does not do; the
figure of a second pass over the same model, names known, is beside it (its log loss is over both passes).

Rows are made from a fixed seed: 75 features a row drawn from 100,000 names with Zipf-like frequencies, values of two decimals,
labels from a sparse linear model with noise.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from rich.console import Console
from rich.progress import Progress
from vowpalwabbit import Workspace

from riata.base.arrays import F64
from tests.bench import report
from tests.bench.peers import log_loss
from tests.bench.service import ServiceFailed, connect, running_service

ROWS: Final = 1000
FEATURES: Final = 75
NAMES: Final = 100_000
SEED: Final = 75
LOSS_DIFFERENCE_MAX: Final = 0.05  # both learn the same rows, each by its own rule: their losses are near, not equal
NDJSON: Final = "application/x-ndjson"


@dataclass(frozen=True, slots=True)
class Rows:
    """The same rows for both sides."""

    bodies: list[bytes]
    lines: list[str]
    label: F64


@dataclass(frozen=True, slots=True)
class Run:
    """One timed run: events, seconds until all were acknowledged (where that is a thing), until all were learnt, log loss."""

    events: int
    acknowledged_s: float
    learnt_s: float
    log_loss: float


def make_rows(bodies: int) -> Rows:
    """Generate bodies * ROWS rows from SEED."""
    rng = np.random.default_rng(SEED)
    n = bodies * ROWS
    truth = rng.normal(0.0, 1.0, NAMES) * (rng.random(NAMES) < 0.3)  # drawn first: more bodies are more of the same stream
    name = np.minimum((NAMES ** rng.random((n, FEATURES))).astype(np.int64), NAMES - 1)  # density 1/rank, as Zipf's law
    value = np.round(rng.uniform(0.01, 1.0, (n, FEATURES)), 2)
    margin = (truth[name] * value).sum(axis=1)
    label = (margin + rng.logistic(0.0, 0.5, n) > 0.0).astype(np.float64)
    objects, lines = [], []
    for names, values, y in zip(name.tolist(), value.tolist(), label.tolist(), strict=True):
        features = dict(zip((f"w{j}" for j in names), values, strict=True))  # a name drawn twice keeps its last value
        objects.append(json.dumps({"features": features, "label": int(y)}))
        lines.append(f"{1 if y else -1} |f " + " ".join(f"{k}:{v}" for k, v in features.items()))
    packed = ["\n".join(objects[at : at + ROWS]).encode() + b"\n" for at in range(0, n, ROWS)]
    return Rows(packed, lines, label)


def run_service(port: int, rows: Rows, model: str, connections: int, passes: int = 1) -> Run:
    """Send every body `passes` times to a new model, body k over connection k modulo `connections`; the last pass is timed."""
    control = connect(port)
    control.call("PUT", f"/models/{model}", b"{}")
    for _ in range(passes):
        accepted = [0] * connections
        last_seq = [0] * connections

        def send(c: int, accepted: list[int] = accepted, last_seq: list[int] = last_seq) -> None:
            lane = connect(port)
            for body in rows.bodies[c::connections]:
                answer = lane.call("POST", f"/models/{model}/observe", body, NDJSON)
                accepted[c] += answer["accepted"]
                last_seq[c] = answer["seq"]

        senders = [threading.Thread(target=send, args=(c,)) for c in range(connections)]
        start = time.perf_counter()
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()
        acknowledged_s = time.perf_counter() - start
        control.call("GET", f"/models/{model}/predict?w1=1&_min_seq={max(last_seq)}")  # answered by a model that has learnt all
        learnt_s = time.perf_counter() - start
    figures = control.call("GET", f"/models/{model}/metrics")["cumulative"]
    if figures["examples"] != passes * len(rows.lines):
        raise ServiceFailed(f"{figures['examples']} events learnt of {passes * len(rows.lines)}")
    loss = figures["log_loss"]
    control.call("DELETE", f"/models/{model}?confirm={model}")
    return Run(sum(accepted), acknowledged_s, learnt_s, loss)


def run_vw_binding(rows: Rows) -> Run:
    """One `learn` call for each line, as text. The loss is its own running sum."""
    learner = Workspace("--loss_function logistic --quiet")
    start = time.perf_counter()
    for line in rows.lines:
        learner.learn(line)
    learnt_s = time.perf_counter() - start
    loss = learner.get_sum_loss() / len(rows.lines)
    learner.finish()
    return Run(len(rows.lines), learnt_s, learnt_s, loss)


def run_vw_file(rows: Rows) -> Run:
    """Vowpal Wabbit's own reader over a file of the same lines (parser thread and learner thread), through the binding."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.vw"
        path.write_text("\n".join(rows.lines) + "\n", encoding="utf-8")
        start = time.perf_counter()
        learner = Workspace(f"--loss_function logistic --quiet -d {path}")
        learnt_s = time.perf_counter() - start
        loss = learner.get_sum_loss() / len(rows.lines)
        learner.finish()
    return Run(len(rows.lines), learnt_s, learnt_s, loss)


def check_same_work(runs: dict[str, list[Run]], rows: Rows) -> list[str]:
    """What makes the comparison unfair, in words; empty where nothing does."""
    base = log_loss(np.full(len(rows.label), np.log(rows.label.mean() / (1.0 - rows.label.mean()))), rows.label)
    wrong = []
    for name, found in runs.items():
        if any(run.events != len(rows.lines) for run in found):
            wrong.append(f"{name} did not learn every row: {[run.events for run in found]} of {len(rows.lines)}")
        if found[0].log_loss >= base:
            wrong.append(f"{name} has learnt nothing: log loss {found[0].log_loss:.4f}, base rate {base:.4f}")
    ours, theirs = runs["riata"][0].log_loss, runs["vw learn(line)"][0].log_loss
    if ours > theirs + LOSS_DIFFERENCE_MAX:
        wrong.append(f"log loss {ours:.4f} is not comparable with Vowpal Wabbit's {theirs:.4f}")
    return wrong


def compare(rows: Rows, repeats: int, connections: int) -> dict[str, list[Run]]:
    """Run all contenders in turn, `repeats` times, after one run of each that is thrown away."""
    runs: dict[str, list[Run]] = {}
    with running_service() as port, Progress(console=Console(stderr=True)) as progress:
        for repeat in progress.track(range(repeats + 1), description="repeats"):
            turn: dict[str, Callable[[], Run]] = {
                "riata": lambda repeat=repeat: run_service(port, rows, f"bench-{repeat}", connections),  # type: ignore[misc]
                "riata, second pass": lambda repeat=repeat: run_service(port, rows, f"again-{repeat}", connections, 2),  # type: ignore[misc]
                "vw learn(line)": lambda: run_vw_binding(rows),
                "vw -d file": lambda: run_vw_file(rows),
            }
            for name, contend in turn.items():
                run = contend()
                if repeat > 0:
                    runs.setdefault(name, []).append(run)
    return runs


def main() -> int:
    """Run, report; exit status 1 where the service is slower than the binding or the work was not the same."""
    parser = report.arguments(__doc__ or "")
    parser.add_argument("--bodies", type=int, default=60, help="requests of 1000 rows in one run (default 60)")
    parser.add_argument("--repeats", type=int, default=5, help="timed runs of each contender (default 5)")
    parser.add_argument("--connections", type=int, default=4, help="concurrent keep-alive connections (default 4)")
    options = parser.parse_args()
    rows = make_rows(options.bodies)
    runs = compare(rows, options.repeats, options.connections)
    speed = {name: statistics.median(run.events / run.learnt_s for run in found) for name, found in runs.items()}
    cells = []
    for name, found in runs.items():
        acknowledged = statistics.median(run.events / run.acknowledged_s for run in found)
        low, high = (f(run.events / run.learnt_s for run in found) for f in (min, max))
        cells.append([name, f"{speed[name]:,.0f}", f"{low:,.0f}-{high:,.0f}", f"{acknowledged:,.0f}", f"{found[0].log_loss:.4f}",
                      f"{speed['riata'] / speed[name]:.2f}"])  # fmt: skip
    wrong = check_same_work(runs, rows)
    ratio = speed["riata"] / speed["vw learn(line)"]
    text = (
        "# Durable learning over HTTP against Vowpal Wabbit in process\n\n"
        f"**{ratio:.2f}** times the events per second of the Vowpal Wabbit binding, every row fsynced before its answer.\n\n"
        + report.table(["contender", "events/s learnt", "range", "events/s answered", "log loss", "riata / it"], cells)
        + f"\n{options.bodies} bodies of {ROWS} rows x {FEATURES} draws, "
        f"{sum(map(len, rows.bodies)) / len(rows.lines):.0f} bytes a row of NDJSON, "
        f"{sum(map(len, rows.lines)) / len(rows.lines):.0f} of VW text; median of {options.repeats} alternating repeats; "
        f"{options.connections} connections; the client runs on the same machine and its cost is inside the clock.\n"
        + "".join(f"\n**Not comparable:** {line}\n" for line in wrong) + "\n"
        + report.conditions("python -m tests.bench.http_observe", ["numpy", "numba", "vowpalwabbit"])
    )  # fmt: skip
    report.publish("http_observe", text, write=not options.no_write)
    return int(bool(wrong) or ratio < 1.0)


if __name__ == "__main__":
    sys.exit(main())
