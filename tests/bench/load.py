"""Keep a service busy: this many connections, each sending its next request once the last is answered.

Run as a process of its own, `python -m tests.bench.load PORT`, by `tests.bench.durable`: one thread over plain sockets, so that
the load costs little and none of it is in the process that is measured. Requests are made before the clock starts, but for the
Idempotency-Key, which is another in each. Answers a line of JSON by one: requests and rows acknowledged, seconds, latencies,
refusals.
"""

from __future__ import annotations

import functools
import json
import re
import secrets
import selectors
import sys
import time
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from tests.bench.connections import Answer, Link, links, post_head

FEATURES: Final = 20
NAMES: Final = 10_000
NDJSON: Final = "application/x-ndjson"
BODIES: Final = 8  # different ones, taken in turn
SEED: Final = 751
REFUSED_WAIT_S: Final = 0.02
_KEY_BYTES: Final = 16
_ACCEPTED: Final = re.compile(rb'"accepted": *(\d+)')


def drawn(rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Names i64[BODIES, rows, FEATURES], values f64 likewise, labels i64[BODIES, rows], always the same."""
    rng = np.random.default_rng([SEED, rows])
    shape = (BODIES, rows, FEATURES)
    name = np.minimum((NAMES ** rng.random(shape)).astype(np.int64), NAMES - 1)
    return name, rng.integers(1, 100, shape) / 100.0, rng.integers(0, 2, shape[:2])


@functools.cache
def bodies(rows: int) -> list[bytes]:
    """NDJSON of this many rows each."""
    names, values, labels = drawn(rows)
    made = []
    for body in zip(names.tolist(), values.tolist(), labels.tolist(), strict=True):
        lines = [
            json.dumps({"features": dict(zip((f"w{j}" for j in name), value, strict=True)), "label": label})
            for name, value, label in zip(*body, strict=True)
        ]
        made.append("\n".join(lines).encode() + b"\n")
    return made


@dataclass(slots=True)
class Told:
    """The results of a run."""

    requests: int = 0
    rows: int = 0
    refused: int = 0
    latency_s: list[float] = field(default_factory=list)


class Load:
    """A closed loop over `connections` connections."""

    def __init__(self, port: int, path: str, made: list[bytes], connections: int) -> None:
        self._port, self._path, self._bodies, self._connections = port, path, made, connections
        self._sent = 0
        self._asked_at: dict[Link, float] = {}
        self._wait_until: dict[Link, float] = {}  # of links that were refused
        self.told = Told()

    def run(self, seconds: float) -> float:
        """Ask once on each link, which is not counted; then send until `seconds` are over, and wait for the answers under way.

        Returns the time from the first counted byte to the last answer.
        """
        with links(self._port, self._connections) as (selector, made):
            self._keep_asking(selector, made, 0.0)
            self.told = Told()
            return self._keep_asking(selector, made, seconds)

    def _keep_asking(self, selector: selectors.BaseSelector, made: list[Link], seconds: float) -> float:
        start = time.perf_counter()
        busy = len(made)
        for link in made:
            self._ask(link)
        while busy:
            for key, events in selector.select(0.01):
                answer = key.data.turn(events)
                if answer is None:
                    continue
                self._count(key.data, answer)
                if time.perf_counter() >= start + seconds:
                    self._wait_until.pop(key.data, None)
                    busy -= 1
                elif key.data not in self._wait_until:
                    self._ask(key.data)
            for link in [link for link, until in self._wait_until.items() if time.perf_counter() >= until]:
                del self._wait_until[link]
                self._ask(link)
        return time.perf_counter() - start

    def _ask(self, link: Link) -> None:
        body = self._bodies[self._sent % len(self._bodies)]
        self._sent += 1
        self._asked_at[link] = time.perf_counter()
        key = f"Idempotency-Key: {secrets.token_hex(_KEY_BYTES)}\r\n"
        link.ask(post_head(self._port, self._path, NDJSON, len(body), key), body)

    def _count(self, link: Link, answer: Answer) -> None:
        if answer.status in (429, 503):
            self.told.refused += 1
            self._wait_until[link] = time.perf_counter() + REFUSED_WAIT_S
            return
        accepted = _ACCEPTED.search(answer.body)
        if answer.status != 202 or accepted is None:
            raise RuntimeError(f"answered {answer}")
        self.told.requests += 1
        self.told.rows += int(accepted[1])
        self.told.latency_s.append(time.perf_counter() - self._asked_at[link])


def answer(port: int, command: dict[str, Any]) -> dict[str, float]:
    """Execute one command of the caller: {"connections", "rows", "seconds"}."""
    load = Load(port, "/observe", bodies(command["rows"]), command["connections"])
    taken = load.run(command["seconds"])
    told = load.told
    p50, p99 = np.percentile(told.latency_s or [float("nan")], [50, 99])
    figures = {"requests": told.requests, "rows": told.rows, "seconds": taken, "refused": told.refused}
    return {**figures, "p50_ms": 1e3 * float(p50), "p99_ms": 1e3 * float(p99)}


def main() -> int:
    """Answer each line of standard input with a line, until it ends."""
    port = int(sys.argv[1])
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer(port, json.loads(line))) + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
