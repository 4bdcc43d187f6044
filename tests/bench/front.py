"""The HTTP front with heads as clients send them: the same head every time, and one with a trace and a request id of its own.

Proxies and tracing clients give each request its own `traceparent` and `x-request-id`. So each contender is measured with
identical heads and with such heads: GET /predict with ten features in the query, POST /predict with 75 as a JSON object, and
the same body in one chunk. With one connection a request is sent after the answer to the last one; with 64 each always has one
request under way (two processes drive them). `--before` names another checkout with its own `.venv`, which is measured in the
same rounds.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import httpx

from tests.bench import contest
from tests.bench.contest import Side
from tests.bench.predict_speed import (
    CONNECTIONS,
    Rows,
    Server,
    fastapi,
    first_of,
    make_rows,
    post,
    process_cpu_s,
    round_trips,
    saturated,
)
from tests.running import ROOT, free_port

ASKED: Final = 2048  # different requests, asked in turn
LEARNT: Final = 2000
BEFORE, NOW, FASTAPI = "before", "now", "FastAPI + pydantic"
KINDS: Final = ("GET, 10 features", "POST, 75 features", "POST, 75 features, in a chunk")
HEADS: Final = {"same head": False, "own trace and id": True}
READY_S: Final = 900.0


def heads(own: bool) -> Iterator[str]:
    """The header lines that do not depend on the row."""
    draw = random.Random(5)
    first = "Host: 127.0.0.1\r\nAccept: */*\r\nAccept-Encoding: gzip, deflate\r\nUser-Agent: bench\r\n"
    while True:
        trace, span, at = draw.getrandbits(128), draw.getrandbits(64), uuid.UUID(int=draw.getrandbits(128))
        yield first + (f"traceparent: 00-{trace:032x}-{span:016x}-01\r\nx-request-id: {at}\r\n" if own else "")


def requests(rows: Rows, own: bool) -> tuple[list[bytes], list[bytes], list[bytes]]:
    """One request of each kind for each row."""
    made: tuple[list[bytes], list[bytes], list[bytes]] = ([], [], [])
    for features, head in zip(rows.features, heads(own), strict=False):
        query = "&".join(f"{name}={value}" for name, value in first_of(features).items())
        body = json.dumps({"features": features})
        line = f"POST /predict HTTP/1.1\r\n{head}Content-Type: application/json\r\n"
        made[0].append(f"GET /predict?{query} HTTP/1.1\r\n{head}\r\n".encode())
        made[1].append(f"{line}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        made[2].append(f"{line}Transfer-Encoding: chunked\r\n\r\n{len(body):x}\r\n{body}\r\n0\r\n\r\n".encode())
    return made


@contextmanager
def serving(checkout: Path) -> Iterator[tuple[int, int]]:
    """The service of a checkout, over a new directory: its port and process id."""
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "log").open("wb") as log:
        port = free_port()
        command = [str(checkout / ".venv" / "bin" / "python"), "-m", "riata", "serve", "--port", str(port)]
        paths = os.pathsep.join((str(checkout / "service"), str(checkout)))
        outside = {name: value for name, value in os.environ.items() if not name.startswith("RIATA_")}
        process = subprocess.Popen(
            [*command, "--data", f"{folder}/data"], stdout=log, stderr=log, env={**outside, "PYTHONPATH": paths}
        )
        try:
            wait_until_ready(port)
            yield port, process.pid
        finally:
            process.terminate()
            process.wait(60)


@contextmanager
def riata(checkout: Path, learnt: Rows) -> Iterator[Server]:
    """The service of a checkout, taught over HTTP."""
    with serving(checkout) as (port, pid):
        lines = [json.dumps({"features": f, "label": y}) for f, y in zip(learnt.features, learnt.label, strict=True)]
        for at in range(0, len(lines), 500):
            post(port, "/observe?wait=applied", "\n".join(lines[at : at + 500]).encode(), "application/x-ndjson")
        yield Server(port, [], b"}", partial(process_cpu_s, pid))


def wait_until_ready(port: int) -> None:
    """Wait until a service is ready. Raises `TimeoutError`."""
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        try:
            if httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=5).status_code == httpx.codes.OK:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.01)
    raise TimeoutError("the service did not become ready")


def main() -> int:
    """Run and report."""
    parser = contest.arguments(__doc__ or "")
    parser.add_argument("--before", type=Path, help="another checkout, measured in the same rounds")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--trips", type=int, default=4000, help="requests of a run over one connection")
    parser.add_argument("--requests", type=int, default=30_000, help="requests of a run over 64 connections")
    options = parser.parse_args()
    repeats, trips, many = (1, 200, 1000) if options.quick else (options.repeats, options.trips, options.requests)
    learnt, rows = make_rows(LEARNT, 1), make_rows(ASKED, 2)
    asked = {head: requests(rows, own) for head, own in HEADS.items()}
    tables = []
    with ExitStack() as stack:
        servers = {BEFORE: stack.enter_context(riata(options.before, learnt))} if options.before else {}
        servers[NOW] = stack.enter_context(riata(ROOT, learnt))
        servers[FASTAPI] = stack.enter_context(fastapi(learnt, rows))
        for which, kind in enumerate(KINDS):
            for connections, run, count in ((1, round_trips, trips), (CONNECTIONS, saturated, many)):
                sides = [
                    Side(
                        f"{name}, {head}",
                        partial(run, replace(server, asked=sent), which, count // (8 if name == FASTAPI else 1)),
                    )
                    for name, server in servers.items()
                    for head, sent in asked.items()
                ]
                found = contest.contest(sides, repeats, lambda _: "")
                table = contest.contenders(found, "request", ("p50_us",), f"{NOW}, own trace and id")
                tables.append(f"{kind}, {connections} connection{'s' * (connections > 1)}:\n\n{table}")
    tables.append(
        f"{repeats} rounds of {trips:,} requests over one connection, {many:,} over {CONNECTIONS}; {FASTAPI} an eighth."
    )
    packages = ["uvicorn", "uvloop", "httptools", "fastapi"]
    contest.publish("The HTTP front, with heads as clients send them", tables, "python -m tests.bench.front", packages, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
