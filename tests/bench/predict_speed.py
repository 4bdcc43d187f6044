"""Predictions over HTTP, against the Vowpal Wabbit daemon over TCP, FastAPI + pydantic + river, and a fixed answer.

Every server is a separate process and has learnt the same rows: 75 real-valued features each, names drawn by Zipf's law. The
request is GET /predict with ten features in the query; the daemon gets the same rows as lines of its own format. The client is a
plain socket. With one connection a request is sent when the last answer has arrived; with 64 every connection always has one
request under way, driven by two processes. The service runs twice: without keys, and with keys required and rates counted.

Before anything is timed: the service answers a request by itself as it answers the same rows as one body of lines, to the last
digit, with and without keys; and the mean log loss of all contenders over rows that none has learnt is compared.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import psutil

from riata.web.auth.keys import KeyEntry, digest_of, entry_text, new_token
from tests.bench import contest
from tests.bench.contest import Measure, Side
from tests.bench.rivals.fastapi_river import FastapiRiver
from tests.bench.rivals.fixed import UvloopFixed
from tests.bench.rivals.vw import VwDaemon
from tests.running import Running

SEED: Final = 17
NAMES: Final = 47_236
FEATURES: Final = 75
IN_QUERY: Final = 10
ASKED: Final = 256  # different requests, asked in turn; none of them was learnt
CONNECTIONS: Final = 64
DRIVERS: Final = 2
LOSS_DIFFERENCE_MAX: Final = 0.1
READ_BYTES: Final = 1 << 16
OK: Final = b"HTTP/1.1 200 "
PLAIN, KEYED, VW, FASTAPI, FIXED = "riata", "riata, keys and rates", "VW daemon, TCP", "FastAPI + river", "uvloop, a fixed answer"
HEAD: Final = "Host: 127.0.0.1\r\nAccept: */*\r\nUser-Agent: bench\r\n"


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows as names, values and labels."""

    features: list[dict[str, float]]
    label: list[int]


@dataclass(frozen=True, slots=True)
class Server:
    """A contender: its address, its requests (GET, then POST), the end of its answers, and the CPU seconds it has used."""

    port: int
    asked: Sequence[list[bytes]]
    end: bytes
    cpu_s: Callable[[], float]


def make_rows(count: int, seed: int) -> Rows:
    """Draw rows; their truth is the same for every seed."""
    truth = np.random.default_rng(SEED).normal(size=NAMES)
    rng = np.random.default_rng((SEED, seed))
    features, labels = [], []
    for _ in range(count):
        drawn = np.unique(np.minimum((NAMES ** rng.random(2 * FEATURES)).astype(np.int64), NAMES - 1))
        names = rng.permutation(drawn)[:FEATURES]
        values = np.round(rng.uniform(0.01, 0.5, len(names)), 4)
        features.append({f"f{j}": value for j, value in zip(names.tolist(), values.tolist(), strict=True)})
        labels.append(int(truth[names] @ values + rng.logistic(0.0, 0.5) > 0.0))
    return Rows(features, labels)


def first_of(features: dict[str, float]) -> dict[str, float]:
    """The part of a row that is sent in a query."""
    return dict(list(features.items())[:IN_QUERY])


def http_requests(rows: Rows, more: str = "") -> tuple[list[bytes], list[bytes]]:
    """The requests of an HTTP contender."""
    queries, posts = [], []
    for features in rows.features:
        query = "&".join(f"{name}={value}" for name, value in first_of(features).items())
        queries.append(f"GET /predict?{query} HTTP/1.1\r\n{HEAD}{more}\r\n".encode())
        body = json.dumps({"features": features})
        head = f"POST /predict HTTP/1.1\r\n{HEAD}{more}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        posts.append((head + body).encode())
    return queries, posts


def vw_line(features: dict[str, float], label: str = "") -> bytes:
    """A row as the daemon reads it."""
    return (f"{label} |f " + " ".join(f"{name}:{value}" for name, value in features.items()) + "\n").encode()


def connect(port: int) -> socket.socket:
    """Open a connection that sends at once."""
    found = socket.create_connection(("127.0.0.1", port), timeout=120)
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return found


def read_answer(connection: socket.socket, end: bytes) -> bytes:
    """Read one answer."""
    received = connection.recv(READ_BYTES)
    while not received.endswith(end):
        part = connection.recv(READ_BYTES)
        if not part:
            raise RuntimeError(f"the connection was closed after {received!r}")
        received += part
    return received


def answers_of(server: Server, which: int) -> list[bytes]:
    """Send every request once, over one connection."""
    found = []
    with connect(server.port) as connection:
        for request in server.asked[which]:
            connection.sendall(request)
            found.append(read_answer(connection, server.end))
    return found


def probability_of(answer: bytes) -> float:
    """Read a probability from an HTTP answer, or from the margin that the daemon sends."""
    if not answer.startswith(b"HTTP"):
        return 1.0 / (1.0 + math.exp(-float(answer.split()[0])))
    if not answer.startswith(OK):
        raise RuntimeError(answer.decode(errors="replace"))
    return float(json.loads(answer.partition(b"\r\n\r\n")[2])["probability"])


def round_trips(server: Server, which: int, count: int) -> Measure:
    """Send `count` requests one after another and time each."""
    requests, end, taken = server.asked[which], server.end, []
    clock = time.perf_counter_ns
    with connect(server.port) as connection:
        cpu_s, begun = server.cpu_s(), clock()
        for k in range(count):
            request = requests[k % len(requests)]
            start = clock()
            connection.sendall(request)
            read_answer(connection, end)
            taken.append(clock() - start)
        seconds = (clock() - begun) / 1e9
        cpu_s = server.cpu_s() - cpu_s
    quantiles = statistics.quantiles(taken, n=100)
    return Measure(seconds, cpu_s, count, {"p50_us": statistics.median(taken) / 1e3, "p99_us": quantiles[98] / 1e3})


def drive(server: Server, which: int, count: int, ready: object, taken: object) -> None:
    """One process of the client: its share of the connections, each with one request under way."""
    requests, end = server.asked[which], server.end
    connections = [connect(server.port) for _ in range(CONNECTIONS // DRIVERS)]
    ready.wait()  # type: ignore[attr-defined]
    clock, sent, times = time.perf_counter_ns, [0] * len(connections), []
    begun = clock()
    for k in range(count + len(connections)):
        at = k % len(connections)
        connection = connections[at]
        if k >= len(connections):
            read_answer(connection, end)
            times.append(clock() - sent[at])
        if k < count:
            sent[at] = clock()
            connection.sendall(requests[k % len(requests)])
    taken.put((begun, clock(), times))  # type: ignore[attr-defined]


def saturated(server: Server, which: int, count: int) -> Measure:
    """Send `count` requests over CONNECTIONS connections."""
    context = multiprocessing.get_context("fork")
    ready, taken = context.Barrier(DRIVERS + 1), context.Queue()
    share = count // DRIVERS
    drivers = [context.Process(target=drive, args=(server, which, share, ready, taken)) for _ in range(DRIVERS)]
    for driver in drivers:
        driver.start()
    ready.wait()
    cpu_s = server.cpu_s()
    found = [taken.get(timeout=300) for _ in drivers]
    cpu_s = server.cpu_s() - cpu_s
    for driver in drivers:
        driver.join()
    seconds = (max(end for _, end, _ in found) - min(begun for begun, _, _ in found)) / 1e9
    times = [nanoseconds for _, _, part in found for nanoseconds in part]
    quantiles = statistics.quantiles(times, n=100)
    facts = {"p50_us": statistics.median(times) / 1e3, "p99_us": quantiles[98] / 1e3}
    return Measure(seconds, cpu_s, share * DRIVERS, facts)


def process_cpu_s(pid: int) -> float:
    """User and system seconds of a process so far."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def post(port: int, path: str, body: bytes, kind: str, more: str = "") -> bytes:
    """Send one request; returns the body of the answer. Raises an error if it is refused."""
    head = f"POST {path} HTTP/1.1\r\n{HEAD}{more}Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    with connect(port) as connection:
        connection.sendall(head.encode() + body)
        received = b""
        while not (b"\r\n\r\n" in received and received.rstrip().endswith((b"}", b"]"))):
            received += connection.recv(READ_BYTES)
    if not received.startswith((OK, b"HTTP/1.1 202 ")):
        raise RuntimeError(received.decode(errors="replace"))
    return received.partition(b"\r\n\r\n")[2]


@contextmanager
def riata(learnt: Rows, asked: Rows, keyed: bool) -> Iterator[Server]:
    """The service on a fresh directory, taught over HTTP."""
    with tempfile.TemporaryDirectory() as folder:
        environment, more = {}, ""
        if keyed:
            token, file = new_token("bench"), Path(folder) / "keys.toml"
            file.write_text(entry_text(KeyEntry("bench", digest_of(token), ["observe", "predict"], ["default"])))
            file.chmod(0o640)
            environment = {"RIATA_KEYS_FILE": str(file), "RIATA_REQUESTS_PER_S_MAX": "1000000",
                           "RIATA_TOTAL_REQUESTS_PER_S_MAX": "1000000"}  # fmt: skip
            more = f"Authorization: Bearer {token}\r\n"
        with Running(Path(folder) / "data", environment) as running:
            running.start()
            lines = [json.dumps({"features": f, "label": y}) for f, y in zip(learnt.features, learnt.label, strict=True)]
            for at in range(0, len(lines), 500):
                body = "\n".join(lines[at : at + 500]).encode()
                post(running.port, "/observe?wait=applied", body, "application/x-ndjson", more)
            cpu_s = partial(process_cpu_s, running.process.pid)
            server = Server(running.port, http_requests(asked, more), b"}", cpu_s)
            agrees(server, asked, more)
            yield server
            running.stop()


def agrees(server: Server, asked: Rows, more: str) -> None:
    """Raise unless every row alone gets the same answer as in a body of many rows, which another path of the service gives."""
    for which, part in ((0, first_of), (1, dict)):
        body = b"[" + b",".join(json.dumps({"features": part(features)}).encode() for features in asked.features) + b"]"
        together = json.loads(post(server.port, "/predict", body, "application/json", more))
        alone = [json.loads(answer.partition(b"\r\n\r\n")[2]) for answer in answers_of(server, which)]
        for document in (*alone, *together):
            del document["model"]["age_s"], document["model"]["stale_s"]  # times
        if alone != together:
            raise contest.UnequalWork("the service answers a row by itself otherwise than among others")


@contextmanager
def vw(learnt: Rows, asked: Rows) -> Iterator[Server]:
    """The daemon, taught over TCP."""
    with VwDaemon(("--loss_function", "logistic", "-b", "22")) as daemon:
        lines = [vw_line(f, "1" if y else "-1") for f, y in zip(learnt.features, learnt.label, strict=True)]
        with daemon.connect() as connection:
            connection.pipeline(b"".join(lines))
        requests = [vw_line(first_of(f)) for f in asked.features], [vw_line(f) for f in asked.features]
        yield Server(daemon.port, requests, b"\n", daemon.cpu_s)


@contextmanager
def fastapi(learnt: Rows, asked: Rows) -> Iterator[Server]:
    """FastAPI + pydantic + river, taught over HTTP."""
    with FastapiRiver() as rival:
        for features, label in zip(learnt.features, learnt.label, strict=True):
            post(rival.port, "/observe", json.dumps({"features": features, "label": label}).encode(), "application/json")
        yield Server(rival.port, http_requests(asked), b"}", rival.cpu_s)


@contextmanager
def fixed(asked: Rows) -> Iterator[Server]:
    """The cost of an event loop and the kernel."""
    with UvloopFixed() as limit:
        yield Server(limit.port, http_requests(asked), b"}", limit.cpu_s)


def log_loss(server: Server, which: int, labels: Sequence[int]) -> float:
    """Mean log loss over the requested rows."""
    found = [probability_of(answer) for answer in answers_of(server, which)]
    return statistics.fmean(-math.log(p if y else 1.0 - p) for p, y in zip(found, labels, strict=True))


def why_unequal(servers: dict[str, Server], asked: Rows) -> str:
    """The reason why contenders do not predict the same rows about as well, or nothing."""
    for which in range(2):
        losses = {name: log_loss(server, which, asked.label) for name, server in servers.items() if name != FIXED}
        if losses[PLAIN] != losses[KEYED]:
            return "the service predicts otherwise where it asks for keys"
        if max(losses.values()) - min(losses.values()) > LOSS_DIFFERENCE_MAX:
            return f"log losses are too far apart: {losses}"
    return ""


def main() -> int:
    """Run and report."""
    options = contest.arguments(__doc__ or "").parse_args()
    trips, many, repeats = (500, 2_000, 3) if options.quick else (10_000, 40_000, 7)
    learnt, asked = make_rows(500 if options.quick else 4000, 1), make_rows(ASKED, 2)
    tables = []
    with ExitStack() as stack:
        servers = {
            PLAIN: stack.enter_context(riata(learnt, asked, keyed=False)),
            KEYED: stack.enter_context(riata(learnt, asked, keyed=True)),
            VW: stack.enter_context(vw(learnt, asked)),
            FASTAPI: stack.enter_context(fastapi(learnt, asked)),
            FIXED: stack.enter_context(fixed(asked)),
        }
        why = why_unequal(servers, asked)
        if why:
            raise contest.UnequalWork(why)
        for connections, run, count in ((1, round_trips, trips), (CONNECTIONS, saturated, many)):
            sides = [
                Side(name, partial(run, one, 0, count))
                for name, one in servers.items()
                if connections == 1 or name != VW  # its processes would need a connection each
            ]
            table = contest.contenders(contest.contest(sides, repeats, lambda _: ""), "request", ("p50_us", "p99_us"))
            tables.append(f"GET /predict, 10 features, {connections} connection{'s' * (connections > 1)}:\n\n{table}")
    packages = ["uvicorn", "uvloop", "fastapi", "pydantic", "river"]
    contest.publish("Predictions over HTTP", tables, "python -m tests.bench.predict_speed", packages, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
