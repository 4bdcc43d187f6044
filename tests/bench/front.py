"""The HTTP front with heads as clients send them: the same head every time, and one with a trace and a request id of its own.

Proxies and tracing clients give each request its own `traceparent` and `x-request-id`. So each contender is measured with
identical heads and with such heads: GET /predict with ten features in the query, POST /predict with 75 as a JSON object, and
the same body in one chunk. With one connection a request is sent after the answer to the last one; with 64 each always has one
request under way (two processes drive them). The load comes from separate processes. Contenders alternate, so that other work
on the machine disturbs all of them. `--before` names another checkout with its own `.venv`, which is measured in the same
rounds.
"""

from __future__ import annotations

import functools
import json
import multiprocessing
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx

from tests.bench import report
from tests.bench.predict_speed import Rows, connect, first_of, make_rows, post, process_cpu_s, read_answer, vw_line
from tests.bench.rivals.fastapi_river import FastapiRiver
from tests.running import ROOT, free_port

ASKED: Final = 2048  # different requests, asked in turn
LEARNT: Final = 2000
CONNECTIONS: Final = 64
DRIVERS: Final = 2
BEFORE, NOW, NO_POLL, FASTAPI, VW = "before", "now", "now, busy_poll_us=0", "FastAPI + pydantic", "VW daemon"
GET, POST, CHUNKS = "GET, 10 features", "POST, 75 features", "POST, 75 features, in a chunk"
SAME, OWN = "same head", "own trace and id"
READY_S: Final = 900.0
DAEMON: Final = """
import sys, vowpalwabbit
options = "--daemon --foreground --num_children 1 --loss_function logistic -b 22 --quiet --port "
vowpalwabbit.Workspace(arg_str=options + sys.argv[1]).run_parser()
"""


@dataclass(frozen=True)
class Contender:
    """A server: its port, the end of its answers, its CPU seconds, and whether it uses HTTP."""

    port: int
    end: bytes
    cpu_s: Callable[[], float]
    http: bool = True


@dataclass(frozen=True)
class Figures:
    """Of one run: requests a second, median round trip in µs, CPU µs of the server for one request."""

    per_s: float
    p50_us: float
    cpu_us: float


def heads(own: bool) -> Iterator[str]:
    """The header lines that do not depend on the row."""
    draw = random.Random(5)
    first = "Host: 127.0.0.1\r\nAccept: */*\r\nAccept-Encoding: gzip, deflate\r\nUser-Agent: bench\r\n"
    while True:
        trace, span, at = draw.getrandbits(128), draw.getrandbits(64), uuid.UUID(int=draw.getrandbits(128))
        yield first + (f"traceparent: 00-{trace:032x}-{span:016x}-01\r\nx-request-id: {at}\r\n" if own else "")


def requests(rows: Rows, kind: str, own: bool) -> list[bytes]:
    """One request for each row."""
    made = []
    for features, head in zip(rows.features, heads(own), strict=False):
        if kind == GET:
            query = "&".join(f"{name}={value}" for name, value in first_of(features).items())
            made.append(f"GET /predict?{query} HTTP/1.1\r\n{head}\r\n".encode())
            continue
        body = json.dumps({"features": features})
        framed = f"{len(body):x}\r\n{body}\r\n0\r\n\r\n" if kind == CHUNKS else body
        length = "Transfer-Encoding: chunked" if kind == CHUNKS else f"Content-Length: {len(body)}"
        made.append(f"POST /predict HTTP/1.1\r\n{head}Content-Type: application/json\r\n{length}\r\n\r\n{framed}".encode())
    return made


def one(contender: Contender, asked: list[bytes], count: int) -> Figures:
    """Send requests one after another over one connection."""
    taken, clock = [], time.perf_counter_ns
    with connect(contender.port) as connection:
        cpu_s, begun = contender.cpu_s(), clock()
        for k in range(count):
            start = clock()
            connection.sendall(asked[k % len(asked)])
            read_answer(connection, contender.end)
            taken.append(clock() - start)
        seconds = (clock() - begun) / 1e9
    return Figures(count / seconds, statistics.median(taken) / 1e3, (contender.cpu_s() - cpu_s) / count * 1e6)


def drive(port: int, end: bytes, asked: list[bytes], count: int, ready: object, taken: object) -> None:
    """One process of the client: its share of the connections, each with one request under way."""
    connections = [connect(port) for _ in range(CONNECTIONS // DRIVERS)]
    ready.wait()  # type: ignore[attr-defined]
    clock, sent, times = time.perf_counter_ns, [0] * len(connections), []
    begun = clock()
    for k in range(count + len(connections)):
        at = k % len(connections)
        if k >= len(connections):
            read_answer(connections[at], end)
            times.append(clock() - sent[at])
        if k < count:
            sent[at] = clock()
            connections[at].sendall(asked[k % len(asked)])
    taken.put((begun, clock(), statistics.median(times)))  # type: ignore[attr-defined]


def many(contender: Contender, asked: list[bytes], count: int) -> Figures:
    """Send requests over CONNECTIONS connections."""
    context = multiprocessing.get_context("fork")
    ready, taken = context.Barrier(DRIVERS + 1), context.Queue()
    share = count // DRIVERS
    given = (contender.port, contender.end, asked, share, ready, taken)
    drivers = [context.Process(target=drive, args=given) for _ in range(DRIVERS)]
    for driver in drivers:
        driver.start()
    ready.wait()
    cpu_s = contender.cpu_s()
    found = [taken.get(timeout=600) for _ in drivers]
    cpu_s = contender.cpu_s() - cpu_s
    for driver in drivers:
        driver.join()
    seconds = (max(end for _, end, _ in found) - min(begun for begun, _, _ in found)) / 1e9
    return Figures(share * DRIVERS / seconds, statistics.median(p50 for _, _, p50 in found) / 1e3, cpu_s / share / DRIVERS * 1e6)


@contextmanager
def riata(checkout: Path, learnt: Rows, environment: dict[str, str]) -> Iterator[Contender]:
    """The service of a checkout, taught over HTTP."""
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "log").open("wb") as log:
        port = free_port()
        command = [str(checkout / ".venv" / "bin" / "python"), "-m", "riata", "serve", "--port", str(port)]
        paths = os.pathsep.join((str(checkout / "service"), str(checkout)))
        outside = {name: value for name, value in os.environ.items() if not name.startswith("RIATA_")}
        if checkout != ROOT:
            outside.pop("NUMBA_CACHE_DIR", None)  # a folder of machine code belongs to one checkout
        process = subprocess.Popen(
            [*command, "--data", f"{folder}/data"], stdout=log, stderr=log, env={**outside, "PYTHONPATH": paths, **environment}
        )
        try:
            until(lambda: httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=5).status_code == 200)
            lines = [json.dumps({"features": f, "label": y}) for f, y in zip(learnt.features, learnt.label, strict=True)]
            for at in range(0, len(lines), 500):
                post(port, "/observe?wait=applied", "\n".join(lines[at : at + 500]).encode(), "application/x-ndjson")
            yield Contender(port, b"}", functools.partial(process_cpu_s, process.pid))
        finally:
            process.terminate()
            process.wait(60)


@contextmanager
def fastapi(learnt: Rows) -> Iterator[Contender]:
    """FastAPI + pydantic + river, taught over HTTP."""
    with FastapiRiver() as rival:
        for features, label in zip(learnt.features[:500], learnt.label, strict=False):
            post(rival.port, "/observe", json.dumps({"features": features, "label": label}).encode(), "application/json")
        yield Contender(rival.port, b"}", rival.cpu_s)


@contextmanager
def daemon(learnt: Rows) -> Iterator[Contender]:
    """The daemon of the installed package `vowpalwabbit`, taught over TCP."""
    port = free_port()
    process = subprocess.Popen([sys.executable, "-c", DAEMON, str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: listens(port))
        with connect(port) as connection:
            for features, label in zip(learnt.features, learnt.label, strict=True):
                connection.sendall(vw_line(features, "1" if label else "-1"))
                read_answer(connection, b"\n")
        yield Contender(port, b"\n", functools.partial(process_cpu_s, process.pid), http=False)
    finally:
        process.kill()
        process.wait(30)


def listens(port: int) -> bool:
    """Whether a connection can be opened."""
    with socket.create_connection(("127.0.0.1", port), timeout=5):
        return True


def until(true: Callable[[], bool]) -> None:
    """Wait until a server answers."""
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        try:
            if true():
                return
        except (httpx.TransportError, OSError):
            pass
        time.sleep(0.1)
    raise TimeoutError("a server did not become ready")


Found = dict[tuple[str, str, str, int], list[Figures]]


def measure(contenders: dict[str, Contender], rows: Rows, counts: tuple[int, int], repeats: int) -> Found:
    """Run everything, contenders alternating; the key is contender, kind, head and number of connections."""
    found: Found = {}
    lines = {GET: [vw_line(first_of(f)) for f in rows.features], POST: [vw_line(f) for f in rows.features]}
    asked = {(kind, head): requests(rows, kind, head == OWN) for kind in (GET, POST, CHUNKS) for head in (SAME, OWN)}
    for repeat in range(repeats):
        for (kind, head), sent in asked.items():
            order = list(contenders) if repeat % 2 else list(contenders)[::-1]
            for name in order:
                contender = contenders[name]
                if not contender.http and (kind == CHUNKS or head == OWN):
                    continue
                given = sent if contender.http else lines[kind]
                slow = 8 if name == FASTAPI else 1
                found.setdefault((name, kind, head, 1), []).append(one(contender, given, counts[0] // slow))
                if contender.http:
                    found.setdefault((name, kind, head, CONNECTIONS), []).append(many(contender, given, counts[1] // slow))
    return found


def middle(runs: list[Figures], name: str) -> float:
    """The median of a figure."""
    return float(statistics.median(getattr(run, name) for run in runs))


def text_of(found: Found, contenders: dict[str, Contender]) -> str:
    """The tables and the claims."""
    text = ""
    for connections in (1, CONNECTIONS):
        for kind in (GET, POST, CHUNKS):
            cells = []
            for name in contenders:
                for head in (SAME, OWN):
                    runs = found.get((name, kind, head, connections))
                    if runs:
                        cells.append(
                            [name, head, f"{middle(runs, 'per_s'):,.0f}", f"{middle(runs, 'p50_us'):,.1f}",
                             f"{middle(runs, 'cpu_us'):.1f}"]
                        )  # fmt: skip
            text += f"## {kind}, {connections} connection{'s' if connections > 1 else ''}\n\n"
            text += (
                report.table(["server", "heads", "requests a second", "median round trip, µs", "server CPU, µs"], cells) + "\n"
            )
    return text + claims(found)


def ratio(found: Found, over: tuple[str, str, str, int], under: tuple[str, str, str, int], name: str) -> float:
    """Median over the rounds of the ratio of two figures of the same round."""
    pairs = zip(found[over], found[under], strict=True)
    return float(statistics.median(getattr(one, name) / getattr(other, name) for one, other in pairs))


def claims(found: Found) -> str:
    """The ratios to reach, as medians of the rounds."""
    cells = []
    for name in (BEFORE, NOW):
        for kind in (GET, POST):
            if (name, kind, OWN, 1) not in found:
                continue
            for connections in (1, CONNECTIONS):
                own, same = (name, kind, OWN, connections), (name, kind, SAME, connections)
                share = ratio(found, own, same, "per_s")
                cells.append([name, f"{kind}: own heads by the same head, {connections}", f"{share:.2f}", ">= 0.80"])
                spent = ratio(found, own, same, "cpu_us")
                words = f"{kind}: server CPU with own heads by that with the same, {connections}"
                cells.append([name, words, f"{spent:.2f}", "<= 1.20"])
            fastapi_key = (FASTAPI, kind, OWN, CONNECTIONS)
            times = ratio(found, (name, kind, OWN, CONNECTIONS), fastapi_key, "per_s")
            cells.append([name, f"{kind}: requests by those of {FASTAPI}, own heads, {CONNECTIONS}", f"{times:.1f}", ">= 7"])
            spent = ratio(found, fastapi_key, (name, kind, OWN, CONNECTIONS), "cpu_us")
            cells.append([name, f"{kind}: server CPU of {FASTAPI} by ours, own heads, {CONNECTIONS}", f"{spent:.1f}", ">= 7"])
            if (VW, kind, SAME, 1) in found:
                pairs = zip(found[name, kind, OWN, 1], found[VW, kind, SAME, 1], strict=True)
                trip = statistics.median(ours.p50_us / theirs.p50_us for ours, theirs in pairs)
                cells.append([name, f"{kind}: round trip by that of the {VW}, own heads", f"{trip:.2f}", "<= 0.50"])
    return "## Ratios within each round\n\n" + report.table(["server", "ratio", "found", "wanted"], cells)


def main() -> int:
    """Run and report."""
    parser = report.arguments(__doc__ or "")
    parser.add_argument("--before", type=Path, help="another checkout, measured in the same turns")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--trips", type=int, default=4000, help="requests of a run over one connection")
    parser.add_argument("--requests", type=int, default=30_000, help="requests of a run over 64 connections")
    options = parser.parse_args()
    learnt, rows = make_rows(LEARNT, 1), make_rows(ASKED, 2)
    with ExitStack() as stack:
        contenders = {}
        if options.before:
            contenders[BEFORE] = stack.enter_context(riata(options.before, learnt, {}))
        contenders[NOW] = stack.enter_context(riata(ROOT, learnt, {}))
        contenders[NO_POLL] = stack.enter_context(riata(ROOT, learnt, {"RIATA_BUSY_POLL_US": "0"}))
        contenders[FASTAPI] = stack.enter_context(fastapi(learnt))
        contenders[VW] = stack.enter_context(daemon(learnt))
        found = measure(contenders, rows, (options.trips, options.requests), options.repeats)
    text = (
        "# The HTTP front, with heads as clients send them\n\n"
        + (__doc__ or "").split("\n", 2)[2]
        + "\n"
        + text_of(found, contenders)
    )
    text += f"\nMedians of {options.repeats} rounds; {options.trips:,} requests of a run over one connection, "
    text += f"{options.requests:,} over {CONNECTIONS} ({FASTAPI}: an eighth of them).\n\n"
    text += report.conditions("python -m tests.bench.front", ["uvicorn", "uvloop", "httptools", "fastapi", "vowpalwabbit"])
    report.publish("front", text, write=not options.no_write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
