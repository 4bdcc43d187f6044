"""The cost of bounds and keys alone: the protocol with a transport that only counts, and the gate by itself.

`tests.bench.http_predict` measures the whole server. There the share of these parts is smaller than the disturbance by other
work on the machine. Here each part is run alone, and the minimum of many runs is taken.
"""

from __future__ import annotations

import asyncio
import sys
import time
import timeit
from pathlib import Path
from typing import Any, Final

import uvicorn
import uvloop
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from riata.base.clock import SystemClock
from riata.web.bounds import ListenerState
from riata.web.buckets import Buckets
from riata.web.connection import Connection
from riata.web.gate import Gate, KeysFile
from riata.web.keys import KeyEntry, digest_of, new_token, ring_of
from tests.bench import report
from tests.bench.http_predict import HEADERS
from tests.doubles.manual_clock import ManualClock
from tests.web.fake_service import FakeService

REQUESTS: Final = 3000
CHECKS: Final = 20_000


class Counting(asyncio.Transport):
    """Discards what is written; it is also its own socket."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0

    def write(self, _data: object) -> None:
        self.writes += 1

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def close(self) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self if name == "socket" else default

    def fileno(self) -> int:
        return 5

    def getsockname(self) -> tuple[str, int]:
        return ("127.0.0.1", 1)

    getpeername = getsockname
    family = 2


async def answer(_scope: Scope, _receive: Receive, send: Send) -> None:
    """The minimum of an application."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


async def protocol_s(kind: type[asyncio.Protocol], request: bytes, *first: ListenerState | None) -> float:
    """Return the CPU seconds of one request."""
    config = uvicorn.Config(answer, access_log=False, log_config=None, server_header=False, lifespan="off")
    config.load()
    made: Any = kind
    protocol = made(*first, config=config, server_state=ServerState(), app_state={}, _loop=asyncio.get_running_loop())
    transport = Counting()
    protocol.connection_made(transport)
    begun = time.process_time()
    for _ in range(REQUESTS):
        protocol.data_received(request)
        await asyncio.sleep(0)
    spent = time.process_time() - begun
    assert transport.writes == 2 * REQUESTS
    protocol.connection_lost(None)
    return spent / REQUESTS


def gate_s(buckets: Buckets, token: str, repeats: int) -> float:
    """Return the seconds of one check that lets a request through."""
    service = FakeService(ManualClock(0))
    file = KeysFile(Path("keys.toml"))
    file.ring = ring_of([KeyEntry("bench", digest_of(token), ["predict"], "*")])
    gate = Gate(SystemClock(), file, buckets)
    headers = [tuple(part.encode() for part in line.lower().split(": ", 1)) for line in HEADERS]
    scope = {"path": "/predict", "method": "GET", "headers": [*headers, (b"authorization", b"Bearer " + token.encode())]}
    assert gate.check(scope, service) is None
    return min(timeit.repeat(lambda: gate.check(scope, service), number=CHECKS, repeat=repeats)) / CHECKS


def main() -> int:
    """Run and report."""
    parser = report.arguments(__doc__ or "")
    parser.add_argument("--repeats", type=int, default=25)
    options = parser.parse_args()
    token = new_token("bench")
    lines = ["GET /predict?age=41&country=de&plan=pro HTTP/1.1", *HEADERS, f"Authorization: Bearer {token}", "", ""]
    request = "\r\n".join(lines).encode()
    plain, bounded = [], []
    for _ in range(options.repeats):
        plain.append(uvloop.run(protocol_s(HttpToolsProtocol, request)))
        bounded.append(uvloop.run(protocol_s(Connection, request, ListenerState(), None)))
    rows = {
        "uvicorn's protocol": min(plain),
        "with bounds, held by the connection": min(bounded),
        "the gate, with keys": gate_s(Buckets(), token, options.repeats),
        "the gate, with keys and rates": gate_s(Buckets(1e6, 1e6), token, options.repeats),
    }
    text = (
        "# Cost of bounds and keys alone\n\n"
        + report.table(["part", "µs a request"], [[name, f"{spent * 1e6:.1f}"] for name, spent in rows.items()])
        + f"\nThe minimum of {options.repeats} runs: of {REQUESTS:,} requests with six headers through the protocol, "
        f"of {CHECKS:,} checks of the gate.\n\n"
        + report.conditions("python -m tests.bench.http_alone", ["uvicorn", "uvloop", "httptools"])
    )
    report.publish("http_alone", text, write=not options.no_write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
