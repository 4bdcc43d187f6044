"""This version beside another one, whose checkout has a `.venv` of its own: figures of the front and of bulk.

    python -m tests.bench.before ../before

Both services run, and do the same work in turn. The ratios are medians over the rounds. A body counts once its rows are learnt.
Rows are learnt by the default learner of each version, and by FTRL-Proximal, which is the same in both.
"""

from __future__ import annotations

import gzip
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.bench import contest, report
from tests.bench.bulk_service import NDJSON, closed_loop, make_rows, post_head
from tests.bench.contest import Found, Measure, Side
from tests.bench.front import serving
from tests.bench.service import connect, memory
from tests.bench.streams import SVMLIGHT

BEFORE, NOW = "before", "now"
JSON: Final = "application/json"
LEARNERS: Final[dict[str, dict[str, Any]]] = {"default": {}, "FTRL": {"learner": {"kind": "ftrl_proximal"}}}
BULK_CONNECTIONS: Final = 4
REST_S: Final = 3.0
Requests = Sequence[tuple[bytes, bytes]]


class Version:
    """The running service of a checkout, and the number of models it has had."""

    def __init__(self, port: int, pid: int) -> None:
        self.port, self.pid, self.models = port, pid, 0

    def cpu_s(self) -> float:
        """Processor time of all threads, in seconds."""
        return time.clock_gettime(~self.pid << 3 | 2)  # the clock of another process, as clock_getcpuclockid(3) makes it

    def ask(self, requests: Requests, connections: int) -> Measure:
        """Have requests answered."""
        cpu_s, begun = self.cpu_s(), time.perf_counter()
        answers = closed_loop(self.port, connections, requests)
        if bad := [answer for answer in answers if answer.status >= 300]:
            raise RuntimeError(f"{bad[0].status}: {bad[0].body[:300]!r}")
        return Measure(time.perf_counter() - begun, self.cpu_s() - cpu_s, len(requests))

    def learn(self, bodies: Sequence[bytes], kind: str, rows: int, connections: int, config: dict[str, Any]) -> Measure:
        """Have a new model learn all rows of the bodies."""
        control, self.models = connect(self.port), self.models + 1
        path = f"/models/m{self.models}"
        control.call("PUT", path, json.dumps(config).encode())
        cpu_s, begun = self.cpu_s(), time.perf_counter()
        closed_loop(self.port, connections, [(post_head(self.port, f"{path}/observe", kind, len(body)), body) for body in bodies])
        while (learnt := control.call("GET", f"{path}/metrics")["cumulative"]["examples"]) < rows:
            time.sleep(0.01)
        seconds, cpu_s = time.perf_counter() - begun, self.cpu_s() - cpu_s
        control.call("DELETE", f"{path}?confirm={path.rpartition('/')[2]}")
        return Measure(seconds, cpu_s, learnt)


def work(quick: bool) -> dict[str, Callable[[Version], Measure]]:
    """What both versions do, by name."""
    made = make_rows(2 if quick else 20)
    rows = [line for body in made.bodies for line in body.splitlines()]
    features = [json.loads(row)["features"] for row in rows[: 200 if quick else 4000]]
    shared = Path(os.environ["RIATA_SHARED"]) / "data"
    with gzip.open(shared / "newsgroups20_bydate.jsonl.gz", "rt", encoding="utf-8") as file:
        posts = [json.loads(line) for _, line in zip(range(len(features)), file, strict=False)]
    texts = [json.dumps({"features": {"text": one["text"]}, "label": int("comp." in one["label"])}).encode() for one in posts]
    with gzip.open(shared / "a9a_train.svmlight.gz") as file:
        svmlight = [line.rstrip() for _, line in zip(range(len(rows)), file, strict=False)]
    gets = [("/predict?" + "&".join(f"{k}={v}" for k, v in list(one.items())[:10])) for one in features]
    get: Requests = [(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode(), b"") for path in gets]
    bodies = [json.dumps({"features": one}).encode() for one in features]
    post: Requests = [(post_head(0, "/predict", JSON, len(body)), body) for body in bodies]
    models: Requests = [(b"GET /models HTTP/1.1\r\nHost: localhost\r\n\r\n", b"")] * (len(get) // 10)
    asked = {
        "GET /predict, 10 features, 1 connection": (get, 1),
        "the same, 64 connections": (get, 64),
        "POST /predict, 75 features, 1 connection": (post, 1),
        "the same, 64": (post, 64),
        "GET /models": (models, 1),
    }
    arrays = [b"[" + b",".join(rows[at : at + 1000]) + b"]" for at in range(0, len(rows), 1000)]
    text: dict[str, Any] = {"encoder": {"text": ["text"]}}
    learnt: dict[str, tuple[Sequence[bytes], str, int, int, dict[str, Any]]] = {
        "one row a request, 1 connection": (rows[: len(get) // 4], JSON, len(get) // 4, 1, {}),
        "one row a request, 64 connections": (rows[: len(get)], JSON, len(get), 64, {}),
        "JSON, 1000 rows a request": (arrays, JSON, len(rows), BULK_CONNECTIONS, {}),
        "NDJSON": (made.bodies, NDJSON, len(rows), BULK_CONNECTIONS, {}),
        "texts, 500 a request": (_joined(texts, 500), NDJSON, len(texts), BULK_CONNECTIONS, text),
        "svmlight": (_joined(svmlight, 1000), SVMLIGHT, len(svmlight), BULK_CONNECTIONS, {"labels": "-1/+1"}),
    }
    return {
        **{name: partial(Version.ask, requests=what, connections=n) for name, (what, n) in asked.items()},
        **{
            f"{name}, {learner}": partial(
                Version.learn, bodies=what, kind=kind, rows=count, connections=n, config={**config, **setting}
            )
            for name, (what, kind, count, n, config) in learnt.items()
            for learner, setting in LEARNERS.items()
        },
    }


def _joined(lines: Sequence[bytes], size: int) -> list[bytes]:
    return [b"\n".join(lines[at : at + size]) + b"\n" for at in range(0, len(lines), size)]


def started(checkout: Path) -> Measure:
    """From exec to the first prediction, over a new directory; and the memory in MiB some seconds later."""
    begun = time.perf_counter()
    with serving(checkout) as (port, pid):
        connect(port).call("GET", "/predict?age=40")
        seconds, cpu_s = time.perf_counter() - begun, Version(port, pid).cpu_s()
        time.sleep(REST_S)
        return Measure(seconds, cpu_s, 1, {"MiB": memory(pid) / 2**20})


def row(name: str, found: Found) -> list[str]:
    """A line of the table: medians of now, and how many times as fast it is as before."""
    faster = [contest.times_faster(found, NOW, BEFORE, of) for of in ("seconds", "cpu_s")]
    now_us = [1e6 * contest.per_unit(found[NOW], of) for of in ("seconds", "cpu_s")]
    return [name, *(f"{us:,.1f}" for us in now_us), *(f"{ratio:.2f}" for ratio in faster)]


def main() -> int:
    """Run and report."""
    parser = report.arguments(__doc__ or "")
    parser.add_argument("before", type=Path, help="the other checkout")
    parser.add_argument("--now", type=Path, default=Path(__file__).resolve().parents[2], help="this one")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a trial of some seconds")
    options = parser.parse_args()
    repeats = 1 if options.quick else options.repeats
    checkouts = {BEFORE: options.before.resolve(), NOW: options.now.resolve()}
    starts = contest.contest([Side(name, partial(started, at)) for name, at in checkouts.items()], repeats, lambda _: "")
    memories = {name: statistics.median(one.facts["MiB"] for one in measures) for name, measures in starts.items()}
    rows = [row("start to the first prediction", starts)]
    with ExitStack() as stack:
        versions = {name: Version(*stack.enter_context(serving(at))) for name, at in checkouts.items()}
        for version in versions.values():  # the model that predicts
            connect(version.port).call("POST", "/observe?wait=applied", make_rows(2).bodies[0], NDJSON)
        for name, run in work(options.quick).items():
            sides = [Side(side, partial(run, version)) for side, version in versions.items()]
            rows.append(row(name, contest.contest(sides, repeats, lambda _: "")))
    sys.stdout.write(report.table(["", "µs now", "CPU µs now", "before : now", "CPU, before : now"], rows))
    sys.stdout.write(f"Memory at rest, MiB: {memories[BEFORE]:.0f} before, {memories[NOW]:.0f} now. {repeats} rounds.\n")
    sys.stdout.write(report.conditions("python -m tests.bench.before CHECKOUT", ["numpy"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
