"""Loads of long bodies, and the memory that a service takes under them: resident anonymous bytes (RssAnon) over time."""

from __future__ import annotations

import contextlib
import http.client
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.bench.service import MIB, memory
from tests.running import Running

UNFINISHED: Final = 48
BODY_BYTES: Final = 15 * MIB
MISSING_BYTES: Final = 200_000  # of each unfinished body
CONNECTIONS: Final = 16
FEATURES: Final = 90
NAMES: Final = 100_000
WARM_ROWS: Final = 200
NOTE_EVERY_S: Final = 0.25
HELD_S: Final = 3.0  # for which unfinished bodies are held
RATIO_MAX: Final = 1.3
NDJSON: Final = "application/x-ndjson"
HEAD: Final = b"POST /observe HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-ndjson\r\n"


@dataclass(slots=True)
class Curve:
    """Resident memory of a process: seconds since the load began, and bytes; `end_s` is when the load ended."""

    before: int
    second: list[float] = field(default_factory=list)
    taken: list[int] = field(default_factory=list)
    end_s: float = 0.0
    answers: Counter[str] = field(default_factory=Counter)

    @property
    def peak(self) -> int:
        """Maximum of the bytes."""
        return max(self.taken)

    @property
    def ratio(self) -> float:
        """Bytes at the end over those before."""
        return self.taken[-1] / self.before


def rows(count: int, seed: int) -> bytes:
    """This many rows of NDJSON, always the same for a seed."""
    rng = random.Random(seed)
    made = []
    for _ in range(count):
        features = ", ".join(f'"w{rng.randrange(NAMES)}": {rng.random():.4f}' for _ in range(FEATURES))
        made.append(f'{{"features": {{{features}}}, "label": {rng.randrange(2)}}}\n')
    return "".join(made).encode()


def warm(running: Running, bodies: Sequence[bytes]) -> None:
    """Have the service learn every row that the load will bring, in short bodies."""
    link = http.client.HTTPConnection("127.0.0.1", running.port, timeout=120)
    for body in bodies:
        lines = body.splitlines(keepends=True)
        for at in range(0, len(lines), WARM_ROWS):
            part = b"".join(lines[at : at + WARM_ROWS])
            link.request("POST", "/observe?wait=applied", part, {"Content-Type": NDJSON})
            answer = link.getresponse()
            answer.read()
            if answer.status >= http.HTTPStatus.BAD_REQUEST:
                raise RuntimeError(f"the service refuses its first rows: {answer.status}")
    link.close()


def measure(running: Running, load: Callable[[int], Counter[str]], rest_s: float) -> Curve:
    """Run the load and record memory, also after the load."""
    pid = running.process.pid
    curve = Curve(memory(pid))
    begun, ended = time.monotonic(), threading.Event()

    def note() -> None:
        while not ended.wait(NOTE_EVERY_S):
            curve.second.append(time.monotonic() - begun)
            curve.taken.append(memory(pid))

    noting = threading.Thread(target=note)
    noting.start()
    try:
        curve.answers = load(running.port)
        curve.end_s = time.monotonic() - begun
        time.sleep(rest_s)
    finally:
        ended.set()
        noting.join()
    return curve


def at_once(count: int, work: Callable[[int], None]) -> None:
    """`work(k)` in a thread for each k."""
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def unfinished(port: int, chunked: bool = False, meanwhile: Callable[[], None] = lambda: None) -> Counter[str]:
    """Send bodies without their ends, hold them, then close all connections; counts how many were refused before that."""
    line = b'{"features": {"a": 1.5, "country": "de"}, "label": 1}\n'
    body = (line * (BODY_BYTES // len(line) + 1))[: BODY_BYTES - MISSING_BYTES]
    size = 64 * 2**10
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for at in range(0, len(body), size) if (part := body[at : at + size]))
    sent = HEAD + (
        b"Transfer-Encoding: chunked\r\n\r\n" + chunks if chunked else b"Content-Length: %d\r\n\r\n" % BODY_BYTES + body
    )
    links: list[socket.socket] = []

    def send(_number: int) -> None:
        link = socket.create_connection(("127.0.0.1", port), timeout=120)
        links.append(link)
        with contextlib.suppress(OSError):  # refused
            link.sendall(sent)

    at_once(UNFINISHED, send)
    meanwhile()
    time.sleep(HELD_S)
    told: Counter[str] = Counter()
    for link in links:
        link.settimeout(0)
        try:
            said = link.recv(4096)
            told[code_of(said.partition(b"\r\n\r\n")[2]) if said else "closed"] += 1
        except BlockingIOError:
            told["held"] += 1
        except OSError:
            told["closed"] += 1
        link.close()
    return told


def code_of(problem: bytes) -> str:
    """The code in a problem document."""
    return problem.partition(b'"code":"')[2].partition(b'"')[0].decode() or "unknown"


def bulk(port: int, bodies: Sequence[bytes], seconds: float) -> Counter[str]:
    """Send long bodies over several connections at once for so long; counts the answers."""
    until = time.monotonic() + seconds
    told: Counter[str] = Counter()

    def send(number: int) -> None:
        link = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        at = number
        while time.monotonic() < until:
            try:
                link.request("POST", "/observe", bodies[at % len(bodies)], {"Content-Type": NDJSON})
                answer = link.getresponse()
                body = answer.read()
            except (OSError, http.client.HTTPException):
                link.close()
                told["closed"] += 1
                continue
            refused = answer.status >= http.HTTPStatus.BAD_REQUEST
            told[code_of(body) if refused else str(answer.status)] += 1
            time.sleep(0.05 if refused else 0.0)
            at += 1
        link.close()

    at_once(CONNECTIONS, send)
    return told


def bulk_bodies() -> list[bytes]:
    """Three bodies of about BODY_BYTES."""
    count = BODY_BYTES // (len(rows(100, 0)) // 100 + 1)
    return [rows(count, seed) for seed in range(3)]
