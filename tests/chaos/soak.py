"""Random mixed faults against a whole service under load, for a given time; INV is checked over everything at the end.

    python -m tests.chaos.soak --minutes 10 [--seed 1] [--directory DIR] [--fault NAME ...]

A fault at a time, or two at once; then the service has to go on by itself before the next one comes.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import redis

from tests.chaos.cluster import Load, Member
from tests.chaos.fleet import Fleet
from tests.redis_server import RedisServer

PAUSE_S = 5.0  # longer than the lease
PARTITION_S = 4.0


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


class Faults:
    """The possible faults by name; each one ends what it began."""

    def __init__(self, fleet: Fleet, rng: random.Random) -> None:
        self._fleet, self._rng = fleet, rng
        self.all: dict[str, Callable[[], None]] = {
            "kill of a web process": lambda: self._one(fleet.webs).kill(),
            "kill of a writer": lambda: self._one(fleet.writers).kill(),
            "kill of the replica": lambda: self._one(fleet.replicas).kill(),
            "sleep of a writer": lambda: self._sleep(self._one(fleet.writers)),
            "sleep of a web process": lambda: self._sleep(self._one(fleet.webs)),
            "kill of the Redis in a rewrite": self._kill_redis,
            "the Redis is paused": lambda: self._redis("CLIENT", "PAUSE", 2000, "ALL"),
            "connections are closed": lambda: self._redis("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"),
            "scripts are forgotten": lambda: self._redis("SCRIPT", "FLUSH"),
            "nothing passes a link": lambda: self._link("frozen"),
            "answers do not pass a link": lambda: self._link("drop_replies"),
            "requests are held back": lambda: self._link("hold_requests"),
            "a link is cut": lambda: self._link("refuse"),
            "a slow link": self._slow,
            "a setting is spoilt": self._setting,
            "a process is restarted": self._restart,
        }

    def _one(self, members: list[Member]) -> Member:
        return self._rng.choice([member for member in members if member.lives()] or members)

    def _wait(self, most_s: float) -> None:
        time.sleep(self._rng.uniform(0.2, 1.0) * most_s)  # how long a fault lasts is what is random here

    def _sleep(self, member: Member) -> None:
        member.pause()
        self._wait(PAUSE_S)
        member.resume()

    def _kill_redis(self) -> None:
        server = self._fleet.server
        with Rewriting(server):
            self._wait(0.3)
            server.kill()
            self._wait(1.0)
            server.start()

    def _redis(self, *command: str | int) -> None:
        self._fleet.server.cli(*command)

    def _link(self, how: str) -> None:
        link = self._rng.choice(list(self._fleet.links.values()))
        setattr(link, how, True)
        if how == "refuse":
            link.cut()
        self._wait(PARTITION_S)
        link.heal()

    def _slow(self) -> None:
        link = self._rng.choice(list(self._fleet.links.values()))
        link.delay_s = self._rng.uniform(0.01, 0.2)
        self._wait(PARTITION_S)
        link.heal()

    def _setting(self) -> None:
        self._redis("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        self._wait(PARTITION_S)
        self._redis("CONFIG", "SET", "maxmemory-policy", "noeviction")

    def _restart(self) -> None:
        member = self._rng.choice([*self._fleet.webs, *self._fleet.writers, *self._fleet.replicas])
        if member.lives():
            member.stop()
            member.kept = True
            member.start()


def soak(
    directory: Path, minutes: float, seed: int, only: Sequence[str] = ()
) -> tuple[Counter[str], list[float], dict[str, int]]:
    """Run the whole, with the faults of these names, or with all. Returns the faults, the seconds from the end of each to the
    third acknowledgement after it, and counts.

    Raises `AssertionError` if the service does not go on within a minute, or INV does not hold."""
    rng = random.Random(seed)
    server = RedisServer(directory / "redis", "--auto-aof-rewrite-min-size", "256kb")
    server.start()
    try:
        with Fleet(directory, server) as fleet:
            fleet.begin(webs=2, writers=2, replicas=1)
            injected: Counter[str] = Counter()
            with fleet.load("--rows", "5", "--pause-ms", "10", "--predict-ms", "20", "--timeout-s", "15") as load:
                faults = Faults(fleet, rng).all
                chosen = {name: faults[name] for name in only or faults}
                took = _inject(fleet, load, rng, time.monotonic() + 60 * minutes, chosen, injected)
                fleet.active()
                fleet.learnt()
            ended = {f"exits with code {code}": count for code, count in sorted(_exits(fleet).items())}
            tally = fleet.tally()
            urls = {member.url for member in [*fleet.webs, *fleet.replicas]}
            failed = sum(one["url"] in urls for one in fleet.cluster.history().failed)
            return injected, took, {"faults injected": injected.total(), **tally, "predictions that failed": failed, **ended}
    finally:
        if server.alive():
            server.resume()
            server.kill()


def _inject(
    fleet: Fleet, load: Load, rng: random.Random, until_s: float, faults: dict[str, Callable[[], None]], injected: Counter[str]
) -> list[float]:
    took = []
    while time.monotonic() < until_s:
        names = rng.sample(list(faults), min(len(faults), rng.choice([1, 1, 2])))
        for name in names:
            faults[name]()
            injected[name] += 1
        began = time.monotonic()
        fleet.goes_on(load, 3, 60)
        took.append(time.monotonic() - began)
        say(f"{injected.total()}: {', '.join(names)}; goes on after {took[-1]:.2f} s, {load.acked()} requests acknowledged")
    return took


def _exits(fleet: Fleet) -> Counter[int]:
    return Counter(code for member in fleet.cluster.members.values() for code in member.exits)


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def summary(times: Sequence[float]) -> str:
    """Minimum, median, 90th percentile and maximum, as cells of a table."""
    ordered = sorted(times)
    at = [0, len(ordered) // 2, int(0.9 * (len(ordered) - 1)), len(ordered) - 1]
    return " | ".join(f"{ordered[i]:.2f}" for i in at)


def table(counts: Mapping[str, int]) -> str:
    """Counts, one per line."""
    return "\n".join(["", "| | |", "| --- | --- |", *(f"| {name} | {count} |" for name, count in counts.items())])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", type=Path)
    parser.add_argument("--fault", action="append", default=[], help="of `Faults`; all if none is named")
    options = parser.parse_args()
    directory = options.directory or Path(tempfile.mkdtemp(prefix="soak-"))
    began = time.monotonic()
    injected, took, counts = soak(directory, options.minutes, options.seed, options.fault)
    say(f"\nsoak of {time.monotonic() - began:.0f} s, seed {options.seed}\n")
    say("| | least | median | 90 % | most |\n| --- | --- | --- | --- | --- |")
    say(f"| from the end of a fault to the third acknowledgement after it, s | {summary(took)} |")
    say(table(counts))
    say(table(injected))
    if options.directory is None:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
