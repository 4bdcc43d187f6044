"""Whether memory that a burst of long bodies needed is returned to the system.

A service that has learnt a few rows (`before`) is given three loads, each in a separate process: 48 bodies of 15 MB of which
the end never comes; as many in chunks, so that their lengths are not announced; and bodies of 15 MB with rows of 90 features,
over 16 connections at once, as fast as they are answered or refused. Its resident anonymous memory (RssAnon) is
noted four times a second, from the beginning of the load to 30 s after its end, when every connection is closed.

The rows of the third load are made of the names that the service has met before, so that the model does not grow by it.
"""

from __future__ import annotations

import contextlib
import http.client
import random
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import matplotlib

matplotlib.use("Agg")  # there is no screen
from matplotlib import pyplot as plt

from tests.bench import contest
from tests.bench.contest import Claim
from tests.bench.measured import MIB, memory
from tests.bench.ratio_picture import NUMBERS
from tests.running import Running

UNFINISHED: Final = 48
BODY_BYTES: Final = 15 * MIB
MISSING_BYTES: Final = 200_000  # of each unfinished body
CONNECTIONS: Final = 16
BULK_S: Final = 12.0
FEATURES: Final = 90
NAMES: Final = 100_000
WARM_ROWS: Final = 200
REST_S: Final = 30.0
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


def measure(running: Running, load: Callable[[int], Counter[str]], rest_s: float = REST_S) -> Curve:
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


def bulk(port: int, bodies: Sequence[bytes], seconds: float = BULK_S) -> Counter[str]:
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


def curves(folder: Path) -> dict[str, Curve]:
    """All three loads, each on a separate service."""
    bodies = bulk_bodies()
    loads: dict[str, tuple[Callable[[int], Counter[str]], list[bytes]]] = {
        f"{UNFINISHED} unfinished bodies": (unfinished, [rows(WARM_ROWS, 9)]),
        f"{UNFINISHED} unfinished bodies in chunks": (lambda port: unfinished(port, chunked=True), [rows(WARM_ROWS, 9)]),
        f"bulk over {CONNECTIONS} connections": (lambda port: bulk(port, bodies), bodies),
    }
    found = {}
    for number, (name, (load, first)) in enumerate(loads.items()):
        with Running(folder / str(number)) as running:
            running.start()
            warm(running, first)
            found[name] = measure(running, load)
            running.stop()
    return found


def draw(found: dict[str, Curve], path: Path) -> None:
    """Memory against time."""
    with plt.rc_context(NUMBERS):
        figure, axes = plt.subplots(figsize=(8.0, 3.6), layout="constrained")
        for name, curve in found.items():
            (line,) = axes.plot(curve.second, [taken / MIB for taken in curve.taken], linewidth=1.0, label=name)
            axes.axvline(curve.end_s, color=line.get_color(), linewidth=0.6, linestyle=":")
            axes.axhline(RATIO_MAX * curve.before / MIB, color=line.get_color(), linewidth=0.4)
        axes.set(xlabel="s since the load began; dotted: its end", ylabel="MiB (RssAnon)", ylim=(0, None), xlim=(0, None))
        axes.legend(fontsize=7)
        axes.grid(alpha=0.3)
        figure.savefig(path, format="svg", metadata={"Date": None})
        plt.close(figure)


def main() -> int:
    """Measure and report."""
    options = contest.arguments(__doc__ or "").parse_args()
    with tempfile.TemporaryDirectory(prefix="riata-memory-") as name:
        found = curves(Path(name))
    claims = [
        Claim(name, f"{curve.taken[-1] / MIB:,.0f} MiB, {REST_S:.0f} s after", f"{curve.before / MIB:,.0f} MiB before",
              curve.ratio, RATIO_MAX, at_most=True)
        for name, curve in found.items()
    ]  # fmt: skip
    notes = [
        f"{name}: {curve.before / MIB:,.0f} MiB before, {curve.peak / MIB:,.0f} at most, {curve.taken[-1] / MIB:,.0f} at the end;"
        f" the load took {curve.end_s:.0f} s; answers: {', '.join(f'{code} {n}' for code, n in sorted(curve.answers.items()))}."
        for name, curve in found.items()
    ]
    if not options.no_write:
        notes.append("![memory against time](memory-given-back-curves.svg)")
    contest.report_page(
        "memory-given-back", "Memory is given back", (__doc__ or "").split("\n", 1)[1], claims, [], notes,
        "python -m tests.bench.memory_given_back", ["numpy", "uvicorn"], not options.no_write, options.quick,
    )  # fmt: skip
    if not options.no_write:
        draw(found, contest.folder(options.quick) / "memory-given-back-curves.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())
