"""Durable learning in bodies of 1000 rows, against Vowpal Wabbit and the same path without a log.

The service runs as a separate process with its embedded store and acknowledges every request only after its sync. The time is
measured from the first byte that is sent until the last answer has arrived and a model that has learnt every row is served. The
client is one thread on the same machine, over keep-alive connections, each of which waits for an answer before it sends the
next body.

Vowpal Wabbit learns the same rows in the same order: as a program that reads them from a file of its text format, start-up
included; and as a daemon on a fresh model, all lines sent at once over one TCP connection while its answers are read. Neither
stores anything.

Both sides have a table of 2^22 slots, the default of a model. A first pass over a new model reads every feature name for the
first time and stores it, which Vowpal Wabbit does not do, and allocates the memory of its table. `again` is a second pass over
the same model, the usual work of a service. Before each side some memory is used and freed: in a virtual machine the host may
have to provide memory again that was free for a while.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from tests.arrow_stream import examples, stream
from tests.bench import contest
from tests.bench.bulk_service import BITS, NDJSON, VW_TEXT, Rows, Served, give_memory, make_rows
from tests.bench.contest import Measure, Side
from tests.bench.peers import log_loss
from tests.bench.rivals.vw import VwDaemon, vw_run
from tests.bench.service import ServiceFailed
from tests.running import Running

CONNECTIONS: Final = 8
LOSS_DIFFERENCE_MAX: Final = 0.05  # both learn the same rows, each by its own rule: their losses are near, not equal
FIRST, AGAIN = "riata, NDJSON", "riata, NDJSON, again"
VW_FIRST, VW_AGAIN = "riata, VW text", "riata, VW text, again"
ARROW: Final = "application/vnd.apache.arrow.stream"
ARROW_FIRST, ARROW_AGAIN = "riata, Arrow", "riata, Arrow, again"
MEMORY, FILE, DAEMON = "riata, no log, again", "vw from a file", "vw daemon, pipelined"


def with_memory(run: Callable[[], Measure]) -> Measure:
    """`run`, after free memory has just been in use, so that finding memory is not part of the measured time."""
    give_memory()
    return run()


def arrow_body(body: bytes) -> bytes:
    """The rows of an NDJSON body as a stream of Arrow columns."""
    rows = [json.loads(line) for line in body.splitlines()]
    names, values = [list(row["features"]) for row in rows], [list(row["features"].values()) for row in rows]
    return stream(examples(names, values, [row["label"] for row in rows]), len(rows))


def from_file(path: Path, rows: int) -> Measure:
    """Vowpal Wabbit as a program over the file of the rows, start-up included."""
    run = vw_run(["-b", str(BITS), "--loss_function", "logistic"], path)
    return Measure(run.seconds, run.cpu_s, rows, {"log_loss": run.progressive_loss})


def from_daemon(lines: bytes, rows: int) -> Measure:
    """Vowpal Wabbit's daemon, newly started, over one connection; its start is not measured. Raises `ServiceFailed`."""
    with VwDaemon(("-b", str(BITS), "--loss_function", "logistic")) as daemon, daemon.connect() as connection:
        cpu_s, begun = daemon.cpu_s(), time.perf_counter()
        answers = connection.pipeline(lines)
        seconds = time.perf_counter() - begun
        cpu_s = daemon.cpu_s() - cpu_s
    if answers != rows:
        raise ServiceFailed(f"the daemon gave {answers} answers to {rows} rows")
    return Measure(seconds, cpu_s, rows)


def unequal(first: dict[str, Measure], label: np.ndarray[tuple[int], np.dtype[np.float64]]) -> str:
    """The reason why the sides did not do the same work; empty if they did."""
    base = log_loss(np.full(len(label), np.log(label.mean() / (1.0 - label.mean()))), label)
    theirs = first[FILE].facts["log_loss"]
    for name, measure in first.items():
        if measure.units != len(label):
            return f"{name}: {measure.units} rows of {len(label)}"
        loss = measure.facts.get("log_loss", theirs)
        if loss >= base:
            return f"{name} has learnt nothing: log loss {loss:.4f}, base rate {base:.4f}"
        if loss > theirs + LOSS_DIFFERENCE_MAX:
            return f"{name}: log loss {loss:.4f} is not comparable with Vowpal Wabbit's {theirs:.4f}"
    return ""


def all_sides(durable: Served, forgetful: Served, rows: Rows, folder: Path) -> list[Side]:
    """Every contender."""
    columns = [arrow_body(body) for body in rows.bodies]
    n = len(rows.lines)
    text = rows.vw_bodies()
    lines = b"".join(text)
    path = folder / "rows.vw"
    path.write_bytes(lines)
    sides = [
        Side(FIRST, lambda: durable.learn(rows.bodies, NDJSON, CONNECTIONS)),
        Side(AGAIN, lambda: durable.learn(rows.bodies, NDJSON, CONNECTIONS, 2)),
        Side(VW_FIRST, lambda: durable.learn(text, VW_TEXT, CONNECTIONS)),
        Side(VW_AGAIN, lambda: durable.learn(text, VW_TEXT, CONNECTIONS, 2)),
        Side(ARROW_FIRST, lambda: durable.learn(columns, ARROW, CONNECTIONS)),
        Side(ARROW_AGAIN, lambda: durable.learn(columns, ARROW, CONNECTIONS, 2)),
        Side(MEMORY, lambda: forgetful.learn(rows.bodies, NDJSON, CONNECTIONS, 2)),
        Side(FILE, lambda: from_file(path, n)),
        Side(DAEMON, lambda: from_daemon(lines, n)),
    ]
    return [Side(side.name, partial(with_memory, side.run)) for side in sides]


def main() -> int:
    """Run and report."""
    parser = contest.arguments(__doc__ or "")
    parser.add_argument("--bodies", type=int, default=0, help="requests of 1000 rows in one run (default 100)")
    parser.add_argument("--repeats", type=int, default=0, help="timed rounds (default 5)")
    options = parser.parse_args()
    bodies = options.bodies or (10 if options.quick else 100)
    repeats = options.repeats or (1 if options.quick else 5)
    rows = make_rows(bodies)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        with Running(folder / "durable") as durable, Running(folder / "memory", arguments=("--store", "memory:")) as forgetful:
            durable.start()
            forgetful.start()
            sides = all_sides(Served(durable), Served(forgetful), rows, folder)
            found = contest.contest(sides, repeats, lambda first: unequal(first, rows.label))
            durable.stop()
            forgetful.stop()
    parts = [
        contest.contenders(found, "row", ["log_loss"], AGAIN),
        f"{bodies} bodies, {CONNECTIONS} connections, {repeats} rounds. CPU is that of the service or of Vowpal Wabbit.",
    ]
    title, command = "Bodies of 1000 rows, durable before the answer", "python -m tests.bench.observe_bulk"
    contest.publish(title, parts, command, ["numpy", "uvicorn"], options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
