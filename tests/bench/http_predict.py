"""The cost of bounds, checks and keys for a prediction: requests per second over keep-alive connections, one row each.

A server in a separate process answers GET /predict with a model of a few weights, so that the HTTP side is most of the work.
Four contenders alternate: the bounds of the service; the same with keys required; with keys and rates; and uvicorn's own
protocol, which has none of these. All use ASGI; `predict_speed` measures the fast path. One process sends `--pipelined`
requests at a time over each of `--connections` connections and reads the answers. The figures are the CPU time of the server
for one request. The minimum of the repeats is compared, because other work on the machine affects it least.
"""

from __future__ import annotations

import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import psutil

from riata.web.keys import KeyEntry, digest_of, entry_text, new_token
from tests.bench import report

CONTENDERS: Final = {"uvicorn": "no bounds", "bounds": "bounds", "keys": "bounds and keys", "rates": "bounds, keys and rates"}
ANSWER: Final = b"HTTP/1.1 200 "
HEADERS: Final = (
    "Host: 127.0.0.1:8080",
    "Accept: */*",
    "Accept-Encoding: gzip, deflate",
    "Connection: keep-alive",
    "User-Agent: python-httpx/0.28.1",
)


def serve(kind: str, keys_file: str) -> None:
    """Serve until told to stop; prints the port."""
    import functools

    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    from riata.base.clock import SystemClock
    from riata.web.app import create_app
    from riata.web.buckets import Buckets
    from riata.web.gate import Gate, KeysFile
    from riata.web.server import build_server, listen, run
    from riata.web.settings import WebSettings
    from tests.doubles.manual_clock import ManualClock
    from tests.web.fake_service import FakeService

    service = FakeService(ManualClock(10_000))
    published = service.published("default")
    service.published = functools.partial(lambda found, _model: found, published)  # type: ignore[method-assign]
    gate = None
    if kind in ("keys", "rates"):
        file = KeysFile(Path(keys_file))
        file.load()
        gate = Gate(SystemClock(), file, Buckets(1e6, 1e6) if kind == "rates" else Buckets())
    server = build_server(create_app(service, service, WebSettings(fast_path=False), SystemClock(), gate=gate), "127.0.0.1", 0, 1)
    if kind == "uvicorn":
        server.config.http = HttpToolsProtocol
    listener = listen("127.0.0.1", 0)
    print(listener.getsockname()[1], flush=True)
    run(server, [listener])


def ask(connections: list[socket.socket], request: bytes, pipelined: int, rounds: int) -> int:
    """Send `rounds` times `pipelined` requests over each connection; returns how many were answered."""
    answered = 0
    for _ in range(rounds):
        for connection in connections:
            connection.sendall(request * pipelined)
        for connection in connections:
            received = b""
            while received.count(ANSWER) < pipelined or not received.endswith(b"}"):
                received += connection.recv(1 << 20)
            answered += pipelined
    return answered


def measure(kind: str, keys_file: Path, token: str, options: tuple[int, int, int]) -> float:
    """Return the CPU seconds of the server for one request."""
    count, pipelined, rounds = options
    lines = ["GET /predict?age=41&country=de&plan=pro HTTP/1.1", *HEADERS, f"Authorization: Bearer {token}", "", ""]
    request = "\r\n".join(lines).encode()
    command = [sys.executable, "-m", "tests.bench.http_predict", "--serve", kind, "--keys", str(keys_file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        connections = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(count)]
        ask(connections, request, pipelined, max(1, rounds // 10))
        server = psutil.Process(process.pid)
        before = sum(server.cpu_times()[:2])
        answered = ask(connections, request, pipelined, rounds)
        spent = sum(server.cpu_times()[:2]) - before
        for connection in connections:
            connection.close()
        process.terminate()
        process.wait(30)
    return float(spent) / answered


def main() -> int:
    """Run and report."""
    parser = report.arguments(__doc__ or "")
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--pipelined", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=2500)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--serve", choices=list(CONTENDERS))
    parser.add_argument("--keys", default="")
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.keys)
        return 0
    runs: dict[str, list[float]] = {kind: [] for kind in CONTENDERS}
    with tempfile.TemporaryDirectory() as folder:
        keys_file, token = Path(folder) / "keys.toml", new_token("bench")
        keys_file.write_text(entry_text(KeyEntry("bench", digest_of(token), ["predict"], ["default"])))
        keys_file.chmod(0o640)
        begun = time.monotonic()
        for repeat in range(options.repeats):
            order = list(CONTENDERS)[repeat % 2 :: 1] + list(CONTENDERS)[: repeat % 2]
            for kind in order:
                runs[kind].append(measure(kind, keys_file, token, (options.connections, options.pipelined, options.rounds)))
        took = time.monotonic() - begun
    base = min(runs["uvicorn"])
    cells = []
    for kind, words in CONTENDERS.items():
        least, middle = min(runs[kind]), statistics.median(runs[kind])
        cells.append([words, f"{middle * 1e6:.1f}", f"{min(runs[kind]) * 1e6:.1f}-{max(runs[kind]) * 1e6:.1f}",
                      f"{(least - base) * 1e6:+.1f}", f"{least / base:.3f}"])  # fmt: skip
    text = (
        "# Cost of bounds, checks and keys for a prediction\n\n"
        + report.table(["contender", "CPU µs a request, median", "range", "least: more than none", "ratio of the least"], cells)
        + f"\n{options.connections} connections, {options.pipelined} requests at a time on each, "
        f"{options.rounds * options.connections * options.pipelined:,} requests a run, median of {options.repeats} alternating "
        f"repeats, {took:.0f} s in all. GET /predict with three features.\n\n"
        + report.conditions("python -m tests.bench.http_predict", ["uvicorn", "uvloop", "httptools"])
    )
    report.publish("http_predict", text, write=not options.no_write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
