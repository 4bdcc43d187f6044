"""Keep a service busy: so many connections, each sending its next request once the last is answered.

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
import socket
import sys
import time
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

FEATURES: Final = 20
NAMES: Final = 10_000
NDJSON: Final = "application/x-ndjson"
BODIES: Final = 8  # different ones, taken in turn
SEED: Final = 751
REFUSED_WAIT_S: Final = 0.02
_KEY_BYTES: Final = 16
_LENGTH: Final = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_ACCEPTED: Final = re.compile(rb'"accepted": *(\d+)')


def drawn(rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Names i64[BODIES, rows, FEATURES], values f64 likewise, labels i64[BODIES, rows], always the same."""
    rng = np.random.default_rng([SEED, rows])
    shape = (BODIES, rows, FEATURES)
    name = np.minimum((NAMES ** rng.random(shape)).astype(np.int64), NAMES - 1)
    return name, rng.integers(1, 100, shape) / 100.0, rng.integers(0, 2, shape[:2])


@functools.cache
def bodies(rows: int) -> list[bytes]:
    """NDJSON of so many rows each."""
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
class Lane:
    """One connection and what is under way on it."""

    link: socket.socket
    asked_at: float = 0.0
    answer: bytearray = field(default_factory=bytearray)
    unsent: memoryview = field(default_factory=lambda: memoryview(b""))
    wait_until: float = 0.0


@dataclass(slots=True)
class Told:
    """What came back."""

    requests: int = 0
    rows: int = 0
    refused: int = 0
    latency_s: list[float] = field(default_factory=list)


class Load:
    """Closed loop over `connections` lanes."""

    def __init__(self, port: int, path: str, made: list[bytes], connections: int) -> None:
        self._parts = [
            (f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: {NDJSON}\r\nIdempotency-Key: ".encode(),
             f"\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
            for body in made
        ]  # fmt: skip
        self._sent = 0
        self._selector = selectors.DefaultSelector()
        self._lanes = [Lane(socket.create_connection(("127.0.0.1", port), 30)) for _ in range(connections)]
        for lane in self._lanes:
            lane.link.setblocking(False)
            lane.link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._selector.register(lane.link, selectors.EVENT_READ, lane)
        self.told = Told()

    def run(self, seconds: float) -> float:
        """Ask once on each lane, which is not counted; then send until `seconds` are over, and wait for the answers under way.

        Returns the time from the first counted byte to the last answer.
        """
        self._keep_asking(0.0)
        self.told = Told()
        return self._keep_asking(seconds)

    def _keep_asking(self, seconds: float) -> float:
        start = time.perf_counter()
        until = start + seconds
        busy = len(self._lanes)
        for lane in self._lanes:
            self._ask(lane)
        while busy:
            for key, events in self._selector.select(0.01):
                lane = key.data
                if events & selectors.EVENT_WRITE:
                    self._push(lane)
                if events & selectors.EVENT_READ and self._hear(lane):
                    if time.perf_counter() < until:
                        self._ask_soon(lane)
                    else:
                        busy -= 1
            for lane in self._lanes:
                if lane.wait_until and time.perf_counter() >= lane.wait_until:
                    lane.wait_until = 0.0
                    self._ask(lane)
        return time.perf_counter() - start

    def close(self) -> None:
        for lane in self._lanes:
            lane.link.close()
        self._selector.close()

    def _ask_soon(self, lane: Lane) -> None:
        if lane.wait_until == 0.0:
            self._ask(lane)

    def _ask(self, lane: Lane) -> None:
        head, tail = self._parts[self._sent % len(self._parts)]
        self._sent += 1
        lane.asked_at = time.perf_counter()
        lane.answer.clear()
        lane.unsent = memoryview(head + secrets.token_hex(_KEY_BYTES).encode() + tail)
        self._push(lane)

    def _push(self, lane: Lane) -> None:
        while lane.unsent:
            try:
                lane.unsent = lane.unsent[lane.link.send(lane.unsent) :]
            except BlockingIOError:
                self._selector.modify(lane.link, selectors.EVENT_READ | selectors.EVENT_WRITE, lane)
                return
        self._selector.modify(lane.link, selectors.EVENT_READ, lane)

    def _hear(self, lane: Lane) -> bool:
        """Take what came; true once an answer is whole."""
        piece = lane.link.recv(65536)
        if not piece:
            raise RuntimeError(f"the service closed a connection: {bytes(lane.answer[:400])!r}")
        lane.answer += piece
        end = lane.answer.find(b"\r\n\r\n")
        if end < 0:
            return False
        length = _LENGTH.search(lane.answer, 0, end + 2)
        if length is None:
            raise RuntimeError(f"an answer without a length: {bytes(lane.answer[:400])!r}")
        if len(lane.answer) < end + 4 + int(length[1]):
            return False
        self._count(lane, int(lane.answer[9:12]))
        return True

    def _count(self, lane: Lane, status: int) -> None:
        if status in (429, 503):
            self.told.refused += 1
            lane.wait_until = time.perf_counter() + REFUSED_WAIT_S
            return
        accepted = _ACCEPTED.search(lane.answer)
        if status != 202 or accepted is None:
            raise RuntimeError(f"answered {bytes(lane.answer[:600])!r}")
        self.told.requests += 1
        self.told.rows += int(accepted[1])
        self.told.latency_s.append(time.perf_counter() - lane.asked_at)


def answer(port: int, command: dict[str, Any]) -> dict[str, float]:
    """Do what a line of the caller's asks: {"connections", "rows", "seconds"}."""
    load = Load(port, "/observe", bodies(command["rows"]), command["connections"])
    taken = load.run(command["seconds"])
    load.close()
    told = load.told
    p50, p99 = np.percentile(told.latency_s or [float("nan")], [50, 99])
    figures = {"requests": told.requests, "rows": told.rows, "seconds": taken, "refused": told.refused}
    return {**figures, "p50_ms": 1e3 * float(p50), "p99_ms": 1e3 * float(p99)}


def main() -> int:
    """Answer each line of the standard input by a line, until it ends."""
    port = int(sys.argv[1])
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer(port, json.loads(line))) + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
