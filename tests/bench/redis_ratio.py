"""POST /observe on a shared Redis against the embedded store: bodies of a thousand rows, and one row a request.

Both services are one process of the role `all`, and get the same requests in turn. The embedded store syncs each group of
requests before it answers; Redis runs on the same machine with `appendfsync always`. So the service over Redis shares the
processors with one process more, and its processor time counts.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

import psutil

from tests.bench.bulk_service import NDJSON, Served, make_rows
from tests.bench.contest import Found, Measure, Side, arguments, contenders, contest, publish
from tests.bench.observe_single import Ask, riata_peer
from tests.bench.single_rows import load_process
from tests.redis_server import RedisServer
from tests.running import Running

OURS: Final = "riata, Redis"
EMBEDDED: Final = "riata, embedded store"
BODIES: Final = 60
CONNECTIONS: Final = 8  # of the bodies
COUNTS: Final = {1: 2000, 64: 12_000}  # connections: requests of a run
QUICK: Final = {1: 300}
FEATURES: Final = 75


class WithServer(Served):
    """A service and the Redis server that it uses."""

    def __init__(self, running: Running, server: psutil.Process) -> None:
        super().__init__(running)
        self._server = server

    def cpu_s(self) -> float:
        """User and system seconds of both."""
        return super().cpu_s() + spent_s(self._server)


def spent_s(process: psutil.Process) -> float:
    """User and system seconds of a process."""
    times = process.cpu_times()
    return float(times.user + times.system)


def bulk(services: dict[str, Running], redis: RedisServer, bodies: int, repeats: int) -> Found:
    """Bodies to a new model each time, all names met in the pass before."""
    rows = make_rows(bodies)
    served = {OURS: WithServer(services[OURS], psutil.Process(redis.pid)), EMBEDDED: Served(services[EMBEDDED])}
    sides = [Side(name, lambda one=one: one.learn(rows.bodies, NDJSON, CONNECTIONS, 2)) for name, one in served.items()]  # type: ignore[misc]
    return contest(sides, repeats, same_loss)


def same_loss(first: dict[str, Measure]) -> str:
    """Both learn by the same program; the bodies of several connections are logged in an order that differs."""
    losses = {name: measure.facts["log_loss"] for name, measure in first.items()}
    return "" if max(losses.values()) - min(losses.values()) < 0.01 else f"log losses differ: {losses}"


def single(services: dict[str, Running], redis: RedisServer, shape: tuple[int, int], repeats: int, ask: Ask) -> Found:
    """One row a request. shape: connections, requests of a run."""
    connections, count = shape
    peers = [riata_peer(name, running, f"rows-{connections}", connections, FEATURES, count) for name, running in services.items()]
    server, own = psutil.Process(redis.pid), peers[0].cpu_s
    peers[0] = replace(peers[0], cpu_s=lambda: own() + spent_s(server))
    for peer in peers:
        peer.teach(ask)
    sides = [Side(peer.name, lambda peer=peer: peer.run(ask)) for peer in peers]  # type: ignore[misc]
    return contest(sides, repeats, lambda _first: "")


def main() -> int:
    """Run and report."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--repeats", type=int, default=7, help="timed runs of each side (default 7)")
    options = parser.parse_args()
    bodies, counts, repeats = (6, QUICK, 1) if options.quick else (BODIES, COUNTS, options.repeats)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ask = stack.enter_context(load_process())
        redis = stack.enter_context(RedisServer(folder / "redis"))
        shared = Running(folder / "shared", arguments=("--store", redis.url))
        services = {OURS: stack.enter_context(shared), EMBEDDED: stack.enter_context(Running(folder / "alone"))}
        for running in services.values():
            running.start()
        found = bulk(services, redis, bodies, repeats)
        tables = ["Bodies of 1000 rows of 75 features, again:\n\n" + contenders(found, "row")]
        for connections, count in counts.items():
            found = single(services, redis, (connections, count), repeats, ask)
            path = f"One row of {FEATURES} features a request, {connections} connection{'s' * (connections > 1)}"
            tables.append(f"{path}:\n\n" + contenders(found, "row", ("p50 µs", "p99 µs")))
    packages = ["redis", "uvicorn"]
    publish("A shared Redis and the embedded store", tables, "python -m tests.bench.redis_ratio", packages, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
