"""Predictions over HTTP, against the Vowpal Wabbit daemon over TCP, FastAPI + pydantic + river, and servers that do nothing.

Every server is a separate process and has learnt the same rows: 75 real-valued features each, names drawn by Zipf's law. There
are two requests: GET /predict with ten features in the query, and POST /predict with 75 as a JSON object; the daemon gets the
same rows as lines of its own format. The client is a plain socket. With one connection a request is sent when the last answer
has arrived, and every round trip is timed; with 64 every connection always has one request under way, driven by two processes,
so that the server always has work. The limits are an ASGI application with a fixed answer, and an event loop that hardly reads
the request. The event loop is also measured when it stays awake after an answer for as long as the service does, which decides
a round trip on a machine whose cores sleep, and when it also waits 3 or 6 µs before it answers: work may cost a round trip more
than the time that it takes. The service runs twice: without keys, and with keys required and rates counted. Limits and metrics
are active in both.

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

from riata.base.settings import Settings
from riata.web.auth.keys import KeyEntry, digest_of, entry_text, new_token
from tests.bench import contest
from tests.bench.contest import Claim, Found, Measure, Side, fact
from tests.bench.rivals.asgi import RawAsgi
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
BUSY_POLL_US: Final = int(Settings.model_fields["busy_poll_us"].default)  # as the service runs here
READ_BYTES: Final = 1 << 16
OK: Final = b"HTTP/1.1 200 "
PLAIN, KEYED, VW, FASTAPI, ASGI = "riata", "riata, keys and rates", "VW daemon, TCP", "FastAPI + river", "ASGI doing nothing"
FIXED, AWAKE = "limit: uvloop, a fixed answer", "limit: the same, awake"
WORKS_US: Final = (3, 6)  # of a limit that stays awake, before it answers
WORKING: Final = tuple(f"limit: awake, after {us} µs of work" for us in WORKS_US)
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
    asked: tuple[list[bytes], list[bytes]]
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
            request = requests[k % ASKED]
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
            connection.sendall(requests[k % ASKED])
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
    facts = {"p50_us": statistics.median(times) / 1e3, "p99_us": quantiles[98] / 1e3, "cpu_us": cpu_s / len(times) * 1e6}
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
            del document["model"]["age_s"]
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
def asgi(asked: Rows) -> Iterator[Server]:
    """The upper bound of uvicorn."""
    with RawAsgi() as rival:
        yield Server(rival.port, http_requests(asked), b"}", rival.cpu_s)


@contextmanager
def fixed(asked: Rows, busy_poll_us: int = 0, work_us: int = 0) -> Iterator[Server]:
    """The cost of an event loop and the kernel."""
    with UvloopFixed(busy_poll_us, work_us) as limit:
        yield Server(limit.port, http_requests(asked), b"}", limit.cpu_s)


def log_loss(server: Server, which: int, labels: Sequence[int]) -> float:
    """Mean log loss over the requested rows."""
    found = [probability_of(answer) for answer in answers_of(server, which)]
    return statistics.fmean(-math.log(p if y else 1.0 - p) for p, y in zip(found, labels, strict=True))


def why_unequal(servers: dict[str, Server], asked: Rows) -> tuple[str, str]:
    """The reason why contenders do not predict the same rows about as well, or nothing; and the losses as a sentence."""
    reported = []
    for which, words in ((0, "ten features"), (1, "75 features")):
        losses = {name: log_loss(servers[name], which, asked.label) for name in (PLAIN, KEYED, VW, FASTAPI)}
        reported.append(f"{words}: " + ", ".join(f"{name} {loss:.4f}" for name, loss in losses.items()))
        if losses[PLAIN] != losses[KEYED]:
            return "the service predicts otherwise where it asks for keys", ""
        if max(losses.values()) - min(losses.values()) > LOSS_DIFFERENCE_MAX:
            return f"log losses are too far apart: {reported[-1]}", ""
    return "", "Mean log loss over the requested rows, none of which was learnt. " + "; ".join(reported) + "."


def compare(servers: dict[str, Server], names: Sequence[str], run: Callable[[Server], Measure], repeats: int) -> Found:
    """Run `names` alternately."""
    return contest.contest([Side(name, partial(run, servers[name])) for name in names], repeats, lambda _: "")


def ratio(found: Found, ours: str, theirs: str, name: str) -> float:
    """A figure of `theirs` over that of `ours`: the median over the rounds."""
    return statistics.median(us.facts[name] / them.facts[name] for us, them in zip(found[ours], found[theirs], strict=True))


def measure(servers: dict[str, Server], quick: bool) -> tuple[list[Claim], list[str], list[str]]:
    """Run all contests; returns claims, tables, notes."""
    trips, many, repeats = (500, 2_000, 3) if quick else (10_000, 40_000, 7)
    claims, tables, notes = [], [], []
    for which, path in enumerate(("GET /predict, 10 features", "POST /predict, 75 features")):
        one = compare(
            servers,
            (PLAIN, KEYED, VW, FASTAPI, ASGI, FIXED, AWAKE, *WORKING),
            partial(round_trips, which=which, count=trips),
            repeats,
        )
        full = compare(servers, (PLAIN, KEYED, FASTAPI, ASGI, FIXED), partial(saturated, which=which, count=many), repeats)
        tables += [
            f"## {path}: one connection\n\n" + contest.contenders(one, "request", ("p50_us", "p99_us")),
            f"## {path}: {CONNECTIONS} connections\n\n" + contest.contenders(full, "request", ("p50_us", "p99_us", "cpu_us")),
        ]
        claims += [
            Claim(f"{path}, round trip, one connection", PLAIN, VW, ratio(one, PLAIN, VW, "p50_us"), 0.5, at_most=True),
            Claim(f"{path}, round trip, one connection", KEYED, VW, ratio(one, KEYED, VW, "p50_us"), 0.5, at_most=True),
            Claim(f"{path}, {CONNECTIONS} connections", PLAIN, FASTAPI, contest.times_faster(full, PLAIN, FASTAPI), 8.0),
            Claim(f"{path}, {CONNECTIONS} connections", KEYED, FASTAPI, contest.times_faster(full, KEYED, FASTAPI), 8.0),
        ]
        notes.append(
            f"{path}: keys and rates cost {fact(full[KEYED], 'cpu_us') - fact(full[PLAIN], 'cpu_us'):+.1f} µs of CPU a request. "
            f"ASGI doing nothing takes {fact(full[ASGI], 'cpu_us'):.1f} µs, the service {fact(full[PLAIN], 'cpu_us'):.1f} µs; "
            f"{fact(full[FIXED], 'cpu_us'):.1f} µs of these are the cost of an event loop that reads anything and writes a "
            f"fixed answer. Its round trip is {fact(one[FIXED], 'p50_us'):.1f} µs, {fact(one[AWAKE], 'p50_us'):.1f} µs if it "
            "stays awake, "
            f"the service's {fact(one[PLAIN], 'p50_us'):.1f} µs. Awake and with {WORKS_US[0]} µs of work it is "
            f"{fact(one[WORKING[0]], 'p50_us'):.1f} µs, with {WORKS_US[1]} µs {fact(one[WORKING[1]], 'p50_us'):.1f} µs. The "
            "excess over the work is the time to wake the client's core, which has gone to sleep meanwhile. So the best that a "
            "server and this client can reach through an event loop is "
            f"{ratio(one, FIXED, VW, 'p50_us'):.2f} of the daemon's round trip, {ratio(one, AWAKE, VW, 'p50_us'):.2f} awake, "
            f"and {contest.times_faster(full, FIXED, FASTAPI):.1f} times the requests of {FASTAPI}."
        )
    return claims, tables, notes


def main() -> int:
    """Run and report."""
    options = contest.arguments(__doc__ or "").parse_args()
    learnt, asked = make_rows(500 if options.quick else 4000, 1), make_rows(ASKED, 2)
    with ExitStack() as stack:
        servers = {
            PLAIN: stack.enter_context(riata(learnt, asked, keyed=False)),
            KEYED: stack.enter_context(riata(learnt, asked, keyed=True)),
            VW: stack.enter_context(vw(learnt, asked)),
            FASTAPI: stack.enter_context(fastapi(learnt, asked)),
            ASGI: stack.enter_context(asgi(asked)),
            FIXED: stack.enter_context(fixed(asked)),
            AWAKE: stack.enter_context(fixed(asked, BUSY_POLL_US)),
            **{name: stack.enter_context(fixed(asked, BUSY_POLL_US, us)) for name, us in zip(WORKING, WORKS_US, strict=True)},
        }
        why, losses = why_unequal(servers, asked)
        if why:
            raise contest.UnequalWork(why)
        claims, tables, notes = measure(servers, options.quick)
    contest.report_page(
        "predict_speed", "Predictions over HTTP", __doc__ or "", claims, tables, [*notes, losses],
        "python -m tests.bench.predict_speed", ["uvicorn", "uvloop", "httptools", "fastapi", "pydantic", "river"],
        write=not options.no_write, trial=options.quick,
    )  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
