"""Ask for predictions at fixed moments, whether or not the last ones were answered: what a client notices of a pause.

Run as a process of its own, `python -m tests.bench.open_load PORT MODEL`, by `tests.bench.beside_learning`. Reads a line of JSON
{"rate": a second, "seconds": ...}, answers one: how many were asked, how many failed, and percentiles of the time from the
moment a request was due to the moment its answer was there, in microseconds. Requests take turns over CONNECTIONS connections;
a request whose connection is still busy waits for the other, and this time is counted.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Final

import numpy as np

CONNECTIONS: Final = 16
FEATURES: Final = 75
NAMES: Final = 100_000
SEED: Final = 500
BODIES: Final = 64
SPIN_S: Final = 0.0003  # sleeping is not exact: the last of a wait is spent awake
LATE_S: Final = 10.0  # what has not answered by then has failed
GOOD: Final = (b"HTTP/1.1 200 ", b"HTTP/1.1 202 ")


def requests(model: str, count: int = BODIES) -> list[bytes]:
    """POST /predict of one row with 75 features each."""
    rng = np.random.default_rng(SEED)
    made = []
    for _ in range(count):
        names = np.minimum((NAMES ** rng.random(FEATURES)).astype(np.int64), NAMES - 1)
        values = np.round(rng.uniform(0.01, 1.0, FEATURES), 2)
        features = {f"w{name}": value for name, value in zip(names.tolist(), values.tolist(), strict=True)}
        body = json.dumps({"features": features}).encode()
        lines = (f"POST /models/{model}/predict HTTP/1.1", "Host: localhost", "Content-Type: application/json")
        made.append("\r\n".join((*lines, f"Content-Length: {len(body)}", "", "")).encode() + body)
    return made


@dataclass(slots=True)
class Link:
    """One connection, and the due times of the requests under way on it."""

    socket: socket.socket
    due: deque[float] = field(default_factory=deque)
    received: bytes = b""

    def read_answers(self) -> list[tuple[float, bool]]:
        """Read answers: for every complete one the due time of its request, and whether it is a good one."""
        self.received += self.socket.recv(1 << 16)
        found = []
        while (end := self.received.find(b"\r\n\r\n")) >= 0:
            head = self.received[:end].lower()
            length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
            if len(self.received) < end + 4 + length:
                break
            found.append((self.due.popleft(), self.received.startswith(GOOD)))
            self.received = self.received[end + 4 + length :]
        return found


def ask(port: int, made: list[bytes], rate: float, seconds: float) -> dict[str, float]:
    """Send `rate` requests per second for `seconds`; see the module."""
    links = [Link(socket.create_connection(("127.0.0.1", port), timeout=60)) for _ in range(CONNECTIONS)]
    by_file = {link.socket.fileno(): link for link in links}
    for link in links:
        link.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    count = round(rate * seconds)
    took: list[float] = []
    bad = 0
    begun = time.perf_counter() + 0.05
    sent = 0
    while len(took) < count and time.perf_counter() < begun + seconds + LATE_S:
        due = begun + sent / rate
        now = time.perf_counter()
        if sent < count and now >= due:
            link = links[sent % CONNECTIONS]
            link.due.append(due)
            link.socket.sendall(made[sent % len(made)])
            sent += 1
            continue
        wait = max(0.0, due - now - SPIN_S) if sent < count else 0.1
        for file in select.select(list(by_file), [], [], wait)[0]:
            for was_due, good in by_file[file].read_answers():
                took.append(time.perf_counter() - was_due)
                bad += not good
    for link in links:
        link.socket.close()
    p50, p99, p999 = (float(1e6 * np.percentile(took, q)) for q in (50, 99, 99.9))
    return {"asked": count, "failed": bad + count - len(took), "p50_us": p50, "p99_us": p99, "p999_us": p999}


def main() -> int:
    """Execute lines until there are no more."""
    port, made = int(sys.argv[1]), requests(sys.argv[2])
    for line in sys.stdin:
        reported = json.loads(line)
        print(json.dumps(ask(port, made, reported["rate"], reported["seconds"])), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
