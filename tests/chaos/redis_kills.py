"""Kills the Redis under load while it rewrites its append-only file; measures what is lost, and when events are accepted again.

    python -m tests.chaos.redis_kills --times 60 [--directory DIR] [--picture FILE]

A rewrite is asked for again as soon as one has ended, so nearly every kill falls into one. The server is started again at once,
nothing else is touched. After the last kill INV is checked over everything.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import shutil
import tempfile
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import redis

from tests.chaos.assertions import histogram, say, summary, table
from tests.chaos.cluster import until
from tests.chaos.fleet import Fleet
from tests.redis_server import RedisServer


class Rewriting:
    """Keeps Redis rewriting its append-only file for the duration of the block."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.active = False

    def _run(self) -> None:
        while not self._over.wait(0.01):
            with contextlib.suppress(redis.RedisError, OSError), self._server.client() as client:
                while not self._over.wait(0.005):
                    self.active = bool(client.info("persistence")["aof_rewrite_in_progress"])
                    if not self.active:
                        client.bgrewriteaof()
            self.active = False

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()


def kills(directory: Path, times: int, seed: int) -> tuple[list[float], dict[str, int]]:
    """Run the whole; returns seconds from each kill to the acknowledgement of an event sent after it, and counts for the table.

    Raises `AssertionError` if INV does not hold."""
    rng = random.Random(seed)
    server = RedisServer(directory / "redis", "--auto-aof-rewrite-min-size", "64kb", "--auto-aof-rewrite-percentage", "10")
    server.start()
    try:
        with Fleet(directory, server) as fleet:
            took, during = _kill_all(fleet, times, rng)
            return took, {"kills": times, "of them during a rewrite": during, **fleet.tally()}
    finally:
        if server.alive():
            server.kill()


def _kill_all(fleet: Fleet, times: int, rng: random.Random) -> tuple[list[float], int]:
    fleet.begin(webs=1, writers=1, replicas=1)
    server, took, during = fleet.server, [], 0
    with fleet.load("--rows", "20", "--clients", "3", "--predict-ms", "20") as load:
        for number in range(times):
            with Rewriting(server) as rewriting:
                fleet.goes_on(load, 2)
                time.sleep(rng.uniform(0.0, 0.4))  # the moment of the kill is what is random here
                during += rewriting.active
                server.kill()
                began = time.monotonic()
                server.start(wait=False)
                until(lambda began=began: load.acked_since(began), 60, "an event sent since is acknowledged")  # type: ignore[misc]
                took.append(time.monotonic() - began)
            say(f"{number + 1}/{times}: events go on after {took[-1]:.2f} s")
        server.wait_until_ready()
        fleet.learnt()
    return took, during


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", type=Path)
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    directory = options.directory or Path(tempfile.mkdtemp(prefix="redis-kills-"))
    began = time.monotonic()
    took, counts = kills(directory, options.times, options.seed)
    say(f"\n{len(took)} kills in {time.monotonic() - began:.0f} s\n")
    say("| | least | median | 90 % | most |\n| --- | --- | --- | --- | --- |")
    say(f"| from the kill to the acknowledgement of an event sent after it, s | {summary(took)} |")
    say(table(counts))
    if options.picture:
        histogram({"SIGKILL of the Redis": took}, "seconds until an event is acknowledged again", options.picture, {})
    if options.directory is None:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
