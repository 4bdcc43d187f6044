"""Rows of one request each, and a load that sends them: the same rows as JSON over HTTP and as lines to the VW daemon.

Run as a process of its own, `python -m tests.bench.single_rows`, by `tests.bench.observe_single`: one thread, plain sockets,
every request made before the clock starts. Each line of its input is a command, see `Command`; it answers each by a line.
"""

from __future__ import annotations

import json
import re
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from tests.running import ROOT

NAMES: Final = 10_000
SEED: Final = 751
ANSWER_S_MAX: Final = 60.0
_LENGTH: Final = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_END: Final = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Command:
    """Send rows first..first + count, each once, over this many connections, the next one on each as soon as it is answered.

    kind   : "http", POST to `path`, or "vw", lines over TCP
    models : if not 0, requests go to /models/m0/observe, /models/m1/observe ... in turn, each with a trace id of its own
    """

    kind: str
    port: int
    connections: int
    features: int
    count: int
    path: str = "/observe"
    first: int = 0
    models: int = 0


@dataclass(frozen=True, slots=True)
class Told:
    """The results: seconds from the first byte to the last answer, latencies, CPU seconds of the load."""

    seconds: float
    p50_us: float
    p99_us: float
    client_cpu_s: float


@dataclass(frozen=True, slots=True)
class Row:
    """One event: names and values as Zipf's law has them, the label from a sparse linear model with noise."""

    features: dict[str, float]
    label: int

    def json(self) -> bytes:
        """As a body of POST /observe."""
        return json.dumps({"features": self.features, "label": self.label}).encode()

    def vw(self, labelled: bool = True) -> bytes:
        """As a line of VW text."""
        named = " ".join(f"{name}:{value}" for name, value in self.features.items())
        return f"{(1 if self.label else -1) if labelled else ''} |f {named}\n".encode()


def rows_of(features: int, count: int, first: int = 0) -> list[Row]:
    """Rows first..first + count of the single stream with this many features per row."""
    rng = np.random.default_rng([SEED, features])
    truth = rng.normal(0.0, 2.0, NAMES) * (rng.random(NAMES) < 0.3)
    end = first + count
    name = np.minimum((NAMES ** rng.random((end, features))).astype(np.int64), NAMES - 1)
    value = np.round(np.random.default_rng([SEED, features, 1]).uniform(0.01, 1.0, (end, features)), 2)
    noise = np.random.default_rng([SEED, features, 2]).logistic(0.0, 0.5, end)
    middle = float((truth / np.arange(1.0, NAMES + 1)).sum() * 0.5)  # about what a row adds up to
    found = []
    for names, values, error in zip(name[first:].tolist(), value[first:].tolist(), noise[first:].tolist(), strict=True):
        drawn = dict(zip(names, values, strict=True))  # a name drawn twice keeps its last value
        margin = sum(float(truth[at]) * x for at, x in drawn.items()) + error - middle
        found.append(Row({f"w{at}": x for at, x in drawn.items()}, int(margin > 0.0)))
    return found


def requests_of(command: Command) -> list[bytes]:
    """The bytes of every request."""
    rows = rows_of(command.features, command.count, command.first)
    if command.kind == "vw":
        return [row.vw() for row in rows]
    return [_request(command, at, row.json()) for at, row in enumerate(rows, command.first)]


def _request(command: Command, at: int, body: bytes) -> bytes:
    path = f"/models/m{at % command.models}/observe" if command.models else command.path
    trace = f"traceparent: 00-{at + 1:032x}-{at + 1:016x}-01\r\n" if command.models else ""
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{command.port}\r\n{trace}Content-Type: application/json\r\n"
    return head.encode() + b"Content-Length: %d" % len(body) + _END + body


def whole_http(answer: bytes) -> bool:
    """Whether an answer is complete. Raises `RuntimeError` if it does not accept the row."""
    end = answer.find(_END)
    if end < 0:
        return False
    found = _LENGTH.search(answer, 0, end + 2)
    if found is None or answer[9:11] != b"20":
        raise RuntimeError(f"answered {answer[:600]!r}")
    return len(answer) >= end + len(_END) + int(found[1])


def whole_line(answer: bytes) -> bool:
    """Whether a line has arrived."""
    return answer.endswith(b"\n")


def send(command: Command) -> Told:
    """Execute a command."""
    made = iter(requests_of(command))
    whole: Callable[[bytes], bool] = whole_line if command.kind == "vw" else whole_http
    poll = select.epoll()
    links: dict[int, socket.socket] = {}
    for _ in range(command.connections):
        link = socket.create_connection(("127.0.0.1", command.port), ANSWER_S_MAX)
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        links[link.fileno()] = link
        poll.register(link.fileno(), select.EPOLLIN)
    asked: dict[int, float] = {}
    parts: dict[int, bytes] = {}
    taken: list[float] = []
    cpu, start = time.process_time(), time.perf_counter()
    for number, link in links.items():
        request = next(made, None)
        if request is not None:
            asked[number] = time.perf_counter()
            link.sendall(request)
    while asked:
        ready = poll.poll(ANSWER_S_MAX)
        if not ready:
            raise RuntimeError(f"no answer for {ANSWER_S_MAX:.0f} s, {len(asked)} requests under way")
        for number, _ in ready:
            piece = links[number].recv(65536)
            if not piece:
                raise RuntimeError(f"a connection was closed after {parts.get(number, b'')[:400]!r}")
            answer = parts.pop(number, b"") + piece
            if not whole(answer):
                parts[number] = answer
                continue
            now = time.perf_counter()
            taken.append(now - asked.pop(number))
            request = next(made, None)
            if request is not None:
                asked[number] = now
                links[number].sendall(request)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    for link in links.values():
        link.close()
    poll.close()
    p50, p99 = np.percentile(taken, [50, 99])
    return Told(seconds, 1e6 * float(p50), 1e6 * float(p99), cpu)


@contextmanager
def load_process() -> Iterator[Callable[[Command], Told]]:
    """The load in a separate process; yields a function that sends it a command and waits."""
    command = [sys.executable, "-m", "tests.bench.single_rows"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        pipes = process.stdin, process.stdout

        def ask(command: Command) -> Told:
            if pipes[0] is None or pipes[1] is None:
                raise RuntimeError("the load has no pipes")
            pipes[0].write(json.dumps(asdict(command)) + "\n")
            pipes[0].flush()
            line = pipes[1].readline()
            if not line:
                raise RuntimeError("the load has ended, its reason is above")
            told: dict[str, Any] = json.loads(line)
            return Told(**told)

        yield ask
        if process.stdin is not None:
            process.stdin.close()


def main() -> int:
    """Answer each line of standard input with a line, until it ends."""
    for line in sys.stdin:
        sys.stdout.write(json.dumps(asdict(send(Command(**json.loads(line))))) + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
