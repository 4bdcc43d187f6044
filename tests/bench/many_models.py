"""One row a request over many small models: rows a second by number of models, processor time when idle, a start, memory.

One service holds all models. The load is a separate process (`tests.bench.single_rows`): 64 connections, the next row on each
after the last is answered, the models in turn, heads that differ. Every answer comes after the fsync of its group.

- Rows a second over the first 1, 10, 100 ... of the models. Each run is preceded by an untimed one of a quarter of its length.
- After the last run: processor time of the process in each of the seconds that follow, in shares of a core.
- After a kill: seconds from exec to the first prediction, and until every model is served and has learnt its log.
- Memory that a model with THOUSAND texts takes.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from riata.base.limits import MODELS_MAX
from tests.bench import contest, report
from tests.bench.filling import VW_TEXT
from tests.bench.service import MIB, ServiceFailed, connect, cpu_s, memory, service
from tests.bench.single_rows import Command, load_process
from tests.running import Running

CONNECTIONS: Final = 64
FEATURES: Final = 10
IDLE_S: Final = (5, 10, 15, 20, 30, 60)
THOUSAND: Final = 1000
WORDS: Final = 60  # of a text
TEXT_MODELS: Final = 8
PROBE_S: Final = 0.004
START_S_MAX: Final = 120.0


@dataclass(slots=True)
class Found:
    """The results.

    rates      : rows a second, by number of models
    idle       : until which second, share of a core
    first_s    : from exec to a prediction; ready_s : to ready; all_s : until all models have learnt their logs
    text_bytes : of a model of a thousand texts
    """

    rates: dict[int, list[float]] = field(default_factory=dict)
    cpu_us: dict[int, list[float]] = field(default_factory=dict)
    idle: list[tuple[int, float]] = field(default_factory=list)
    first_s: float = 0.0
    ready_s: float = 0.0
    all_s: float = 0.0
    start_cpu_s: float = 0.0
    text_bytes: float = 0.0


def make_models(port: int, count: int) -> None:
    """Create m0, m1 ..."""
    link = connect(port)
    for k in range(count):
        link.call("PUT", f"/models/m{k}", b"{}")


def measure_rates(running: Running, found: Found, counts: list[int], rows: int, repeats: int) -> None:
    """Rows a second by number of models; the numbers take turns."""
    sent = 0
    with load_process() as ask:
        for _ in range(repeats):
            for count in counts:
                for amount in (rows // 4, rows):
                    before = cpu_s(running.process.pid)
                    told = ask(Command("http", running.port, CONNECTIONS, FEATURES, amount, first=sent, models=count))
                    spent = cpu_s(running.process.pid) - before
                    sent += amount
                found.rates.setdefault(count, []).append(rows / told.seconds)
                found.cpu_us.setdefault(count, []).append(1e6 * spent / rows)


def measure_idle(running: Running, found: Found, until: tuple[int, ...]) -> None:
    """Processor time of the process while nobody asks for anything."""
    begun, before, last = time.monotonic(), cpu_s(running.process.pid), 0
    for second in until:
        time.sleep(max(0.0, begun + second - time.monotonic()))
        now = cpu_s(running.process.pid)
        found.idle.append((second, (now - before) / (second - last)))
        before, last = now, second


def _answer(port: int, path: str) -> bytes:
    """The body of an answer; empty if it is none with status 200."""
    with contextlib.suppress(OSError, http.client.HTTPException):
        link = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            link.request("GET", path)
            answer = link.getresponse()
            text = answer.read()
            return text if answer.status == http.HTTPStatus.OK else b""
        finally:
            link.close()
    return b""


def measure_start(running: Running, found: Found, models: int) -> None:
    """A start after a kill, with rows in the logs after the newest checkpoints."""
    begun = time.monotonic()
    running.start(wait=False)
    waits: dict[str, Callable[[], object]] = {
        "first_s": lambda: _answer(running.port, f"/models/m{models - 1}/predict?w1=1"),
        "ready_s": lambda: _answer(running.port, "/readyz"),
        "all_s": lambda: not json.loads(_answer(running.port, "/readyz")).get("replaying"),
    }
    for name, is_there in waits.items():
        while not is_there():
            if running.process.poll() is not None or time.monotonic() - begun > START_S_MAX:
                raise ServiceFailed(f"the service did not start: {name}\n{running.output()}")
            time.sleep(PROBE_S)
        setattr(found, name, time.monotonic() - begun)
    found.start_cpu_s = cpu_s(running.process.pid)


def measure_texts(folder: Path, found: Found, models: int) -> None:
    """Memory of models of a thousand texts, whose words follow Zipf's law."""
    rng = np.random.default_rng(8)
    with service(folder) as running:
        running.start()
        link = connect(running.port)
        for name in ("warm", *(f"t{k}" for k in range(models))):
            drawn = (20_000 ** rng.random((THOUSAND, WORDS))).astype(np.int64)
            text = "".join(f"{i % 2} |w " + " ".join(f"w{at}" for at in row) + "\n" for i, row in enumerate(drawn.tolist()))
            link.call("PUT", f"/models/{name}", b"{}")
            if name == "t0":
                time.sleep(1.0)
                before = memory(running.process.pid)
            link.call("POST", f"/models/{name}/observe?wait=applied", text.encode(), VW_TEXT)
        time.sleep(1.0)
        found.text_bytes = (memory(running.process.pid) - before) / models
        running.stop()


def page(found: Found, options: Any) -> None:
    """Write the section."""
    one = statistics.median(found.rates[1])
    rows = []
    for count, seen in found.rates.items():
        middle, spent = statistics.median(seen), statistics.median(found.cpu_us[count])
        spread = f"{middle:,.0f} ({min(seen):,.0f}-{max(seen):,.0f})"
        rows.append([f"{count:,}", spread, f"{spent:,.0f}", f"{middle / one:.2f}"])
    rates = report.table(["models", "rows/s (range)", "CPU µs a row", "times one model"], rows)
    idle = ", ".join(f"{100 * share:.1f} % until second {second}" for second, share in found.idle)
    start = (
        f"After a kill the first prediction came {found.first_s:.2f} s after exec, ready after {found.ready_s:.2f} s, and all "
        f"logs were learnt after {found.all_s:.2f} s ({found.start_cpu_s:.2f} s of processor time)."
    )
    text = f"A model of {THOUSAND:,} texts of {WORDS} words takes {found.text_bytes / MIB:.1f} MiB."
    about = [rates, f"Of a core, after the last answer: {idle}.", start, text]
    contest.publish("Many small models", about, "python -m tests.bench.many_models", ["numpy"], options)


def main() -> int:
    """Measure and report."""
    parser = contest.arguments(__doc__ or "")
    parser.add_argument("--models", type=int, help=f"how many there are (default {MODELS_MAX - 1}, of a trial 100)")
    parser.add_argument("--rows", type=int, default=10_000, help="of a timed run")
    parser.add_argument("--repeats", type=int, help="runs of each number of models (default 3, of a trial 1)")
    options = parser.parse_args()
    models = min(options.models or (100 if options.quick else MODELS_MAX - 1), MODELS_MAX - 1)
    counts = sorted({count for count in (1, 10, 100) if count < models} | {models})
    found = Found()
    with tempfile.TemporaryDirectory(prefix="riata-models-") as name:
        with service(Path(name) / "many") as running:
            running.start()
            make_models(running.port, models)
            measure_rates(running, found, counts, options.rows, options.repeats or (1 if options.quick else 3))
            measure_idle(running, found, IDLE_S[:3] if options.quick else IDLE_S)
            running.kill()
            measure_start(running, found, models)
            running.kill()
        measure_texts(Path(name) / "texts", found, TEXT_MODELS)
    page(found, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
