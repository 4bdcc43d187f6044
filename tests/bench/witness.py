"""The cost of the witness of the last acknowledged event for an acknowledgement, with and without it alternately.

- the store alone: one row an append, synced; of every two appends one, by chance, without the witness, in the same store.
- over HTTP: one service that writes the witness in every second tenth of a second (`tests.bench.half_witnessed`): what is
  answered in such a slot against what is answered in the next. So whatever else the machine does falls on both. Single rows over
  1 and 64 connections, bodies of 1000 rows over 4.

"cost" is how much longer an acknowledgement takes with the witness: the median difference of a pair, over the median without;
its range is that of nine tenths of 2000 resamplings of the pairs. "by itself" is the processor time of writing the witness, over
the median without.
"""

from __future__ import annotations

import http.client
import json
import selectors
import socket
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from riata.store.sqlite.store import open_sqlite
from riata.store.store import Append
from tests.bench import load, report
from tests.bench.append_log import batch
from tests.bench.half_witnessed import SLOT_S, is_written
from tests.running import Running

APPENDS: Final = 4_000  # pairs
RESAMPLED: Final = 2000
LAG_S: Final = 2.0  # the pause of all connections after an answer that the learner lags
ROUTE: Final = "/models/m/observe"


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of an acknowledgement without and with the witness, and the ratio with its range."""

    name: str
    without_s: float
    with_s: float
    low: float
    high: float
    samples: int


def cost_of(name: str, without: Sequence[float], with_it: Sequence[float]) -> Cost:
    """Compare pairs of seconds per acknowledgement."""
    pairs = np.array([without, with_it])
    rng = np.random.default_rng(1)
    ratios = []
    for _ in range(RESAMPLED):
        drawn = pairs[:, rng.integers(0, pairs.shape[1], pairs.shape[1])]
        ratios.append(np.median(drawn[1] - drawn[0]) / np.median(drawn[0]))
    low, high = np.quantile(ratios, [0.05, 0.95])
    base = float(np.median(pairs[0]))
    return Cost(name, base, base + float(np.median(pairs[1] - pairs[0])), float(low), float(high), pairs.shape[1])


def store_alone(directory: Path) -> Cost:
    """One row an append, in one store."""
    store = open_sqlite(directory)
    store.create("m", bytes(16))
    rng = np.random.default_rng(2)
    requests = [Append("m", "observe", 7, batch=batch(rng, 1, 20, exact=True)) for _ in range(64)]
    witness, none = store._witness, type(store._witness)()
    taken: dict[bool, list[float]] = {True: [], False: []}
    for number in range(APPENDS):
        first = bool(rng.integers(0, 2))
        for on in (first, not first):
            store._witness = witness if on else none
            began = time.perf_counter()
            store.append([requests[number % len(requests)]])
            taken[on].append(time.perf_counter() - began)
    store._witness = witness
    store.close()
    return cost_of("the store alone, one row", taken[False], taken[True])


@contextmanager
def service(directory: Path) -> Iterator[int]:
    """A service that writes the witness by turns, with a model."""
    with Running(directory, module="tests.bench.half_witnessed") as running:
        running.start()
        link = http.client.HTTPConnection("127.0.0.1", running.port, timeout=60)
        link.request("PUT", "/models/m", b"{}", {"Content-Type": "application/json"})
        assert link.getresponse().status in (200, 201)
        yield running.port
        running.stop()


def over_http(name: str, port: int, body: Sequence[bytes], connections: int, seconds: float) -> Cost:
    """Keep this many connections busy, and compare neighbouring slots."""
    requests = [
        b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\nContent-Length: %d\r\n\r\n"
        % (ROUTE.encode(), len(each))
        + each
        for each in body
    ]
    answered: dict[int, list[float]] = defaultdict(list)  # by slot: seconds each answer took
    with selectors.DefaultSelector() as waiting:
        for number in range(connections):
            link = socket.create_connection(("127.0.0.1", port))
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link.sendall(requests[number % len(requests)])
            waiting.register(link, selectors.EVENT_READ, [number, time.monotonic()])
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for key, _ in waiting.select(1.0):
                answer = key.fileobj.recv(65536)  # type: ignore[union-attr]
                if answer.startswith(b"HTTP/1.1 503"):  # the learner lags: let it catch up, and time none of it
                    time.sleep(LAG_S)
                    for held in waiting.get_map().values():
                        held.data[1] = 0.0
                else:
                    assert answer.startswith((b"HTTP/1.1 200", b"HTTP/1.1 202")), answer[:300]
                now = time.monotonic()
                if int(key.data[1] / SLOT_S) == int(now / SLOT_S):
                    answered[int(now / SLOT_S)].append(now - key.data[1])
                key.data[:] = [key.data[0] + 1, now]
                key.fileobj.sendall(requests[key.data[0] % len(requests)])  # type: ignore[union-attr]
        for held in list(waiting.get_map().values()):
            held.fileobj.close()  # type: ignore[union-attr]
    without, with_it = [], []
    for slot in sorted(answered):
        if is_written((slot + 0.5) * SLOT_S) and slot + 1 in answered:
            with_it.append(float(np.mean(answered[slot])))
            without.append(float(np.mean(answered[slot + 1])))
    return cost_of(name, without, with_it)


def line(cost: Cost, alone_us: float) -> list[str]:
    return [
        cost.name,
        f"{1e6 * cost.without_s:,.1f}",
        f"{1e6 * cost.with_s:,.1f}",
        f"{cost.with_s / cost.without_s - 1:+.2%}",
        f"{cost.low:+.2%} to {cost.high:+.2%}",
        f"{alone_us / 1e6 / cost.without_s:.2%}",
        f"{cost.samples:,}",
    ]


def noted_us(directory: Path) -> float:
    """Microseconds that writing the witness once takes by itself."""
    store = open_sqlite(directory)
    store.create("m", bytes(16))
    head, count = store.head("m"), 200_000
    began = time.thread_time()
    for _ in range(count):
        store._witness.note("m", head)
    took = time.thread_time() - began
    store.close()
    return 1e6 * took / count


def main() -> int:
    parser = report.arguments(__doc__ or "")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each load over HTTP")
    options = parser.parse_args()
    single = [json.dumps(json.loads(each.splitlines()[0])).encode() for each in load.bodies(1)]
    with tempfile.TemporaryDirectory() as folder:
        alone_us = noted_us(Path(folder) / "noted")
        costs = [store_alone(Path(folder) / "alone")]
        with service(Path(folder) / "served") as port:
            costs.append(over_http("HTTP, single rows, 1 connection", port, single, 1, options.seconds))
            costs.append(over_http("HTTP, single rows, 64 connections", port, single, 64, options.seconds))
            costs.append(over_http("HTTP, 1000 rows a body, 4 connections", port, load.bodies(1000), 4, options.seconds))
    heads = ["acknowledgement", "without, µs", "with, µs", "cost", "range of nine tenths", "by itself", "pairs"]
    text = (
        "# Cost of the witness\n\n"
        + report.table(heads, [line(cost, alone_us) for cost in costs])
        + f"\nWriting the witness once takes {alone_us:.2f} µs of processor time. Every acknowledgement is synced. Both "
        "variants alternate in the same process. With the store alone, one of every two appends, chosen at random, writes the "
        "witness. Over HTTP the variants alternate every tenth of a second; answers that span two intervals are left out. "
        "*cost* is the median difference of a pair and *by itself* the processor time of the write, both over the median "
        "without the witness.\n\n"
        + report.conditions("python -m tests.bench.witness", ["numpy"])
    )  # fmt: skip
    report.publish("witness", text, write=not options.no_write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
