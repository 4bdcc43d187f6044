"""What a challenger costs: events that a service accepts and learns in a second, by the number of models that follow.

An engine on an embedded store in a directory, in one process without HTTP. Requests of ROWS rows are sent AT_ONCE at a time, and
the clock stops when the model and all that follow it have learnt and serve every event. The best of REPEATS.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from pathlib import Path
from typing import Final

import numpy as np

from riata.base.clock import SystemClock
from riata.run.admin import Admin
from riata.run.checkpointer import Retention
from riata.run.engine_alone import AloneEngine
from riata.run.engine_settings import EngineSettings
from riata.run.service import Service
from riata.store.sqlite.store import SqliteSettings, open_sqlite
from riata.wire.parse import parse_examples
from tests.bench import report

FOLLOWERS: Final = (0, 1, 4)
REQUESTS: Final = {1: 4000, 1000: 200}  # by rows of a request
AT_ONCE: Final = 64
REPEATS: Final = 3
FIELDS, WORDS = 10, 1000
SETTINGS: Final = SqliteSettings(ballast_bytes=0, reserve_bytes=0)


def body(rows: int, rng: np.random.Generator) -> bytes:
    """Rows with one of WORDS words in each of FIELDS fields."""
    words = rng.integers(0, WORDS, (rows, FIELDS))
    made = ({"features": {f"f{j}": f"w{word}" for j, word in enumerate(row)}, "label": int(row[0] % 3 == 0)} for row in words)
    return b"\n".join(json.dumps(one).encode() for one in made)


async def rate(directory: Path, followers: int, rows: int, bodies: list[bytes]) -> float:
    """Return events per second."""
    engine = AloneEngine(
        lambda: open_sqlite(directory, SETTINGS),
        EngineSettings("bench", Retention(3, 10**6), "fsync"),
        SystemClock(),
        lambda size: np.random.default_rng().bytes(size),
        lambda reason: print(reason),
    )
    service, admin = Service(engine), Admin(engine)
    await service.start()
    try:
        await admin.put_model("a", {})
        for number in range(followers):
            await admin.put_model(f"b{number}", {"follow": "a", "learner": {"eta": 0.1 + 0.1 * number}})
        await engine.led("the bench").settle()
        began = time.perf_counter()
        for start in range(0, len(bodies), AT_ONCE):
            sent = []
            for one in bodies[start : start + AT_ONCE]:
                if rows == 1:
                    sent.append(service.observe_small("a", one, "application/x-ndjson", None))
                else:
                    parsed = parse_examples(one, "application/x-ndjson", service.context("a", True), labelled=True)
                    sent.append(service.observe("a", parsed))
            await asyncio.gather(*sent)
        await engine.led("the bench").settle()
        return rows * len(bodies) / (time.perf_counter() - began)
    finally:
        await service.stop()


def main() -> None:
    options = report.arguments(__doc__ or "").parse_args()
    rng = np.random.default_rng(0)
    found: dict[tuple[int, int], float] = {}
    for rows, requests in REQUESTS.items():
        bodies = [body(rows, rng) for _ in range(requests)]
        for _ in range(REPEATS):
            for followers in FOLLOWERS:
                with tempfile.TemporaryDirectory() as directory:
                    new = asyncio.run(rate(Path(directory), followers, rows, bodies))
                found[rows, followers] = max(new, found.get((rows, followers), 0.0))
    lines = []
    for rows in REQUESTS:
        cells = [f"{found[rows, n]:,.0f} ({found[rows, n] / found[rows, 0]:.2f})" for n in FOLLOWERS]
        lines.append([f"{rows:,}", *cells])
    title, _, about = (__doc__ or "").strip().partition(".\n")
    conditions = report.conditions("python -m tests.bench.challengers", ["numpy"])
    heads = ["rows of a request", *(f"{n} follow" for n in FOLLOWERS)]
    told = f"# {title}\n{about}\n\nEvents per second; in brackets, relative to a model that none follows.\n\n"
    report.publish("challengers", f"{told}{report.table(heads, lines)}\n{conditions}", write=not options.no_write)


if __name__ == "__main__":
    main()
