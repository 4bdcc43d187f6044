"""Whether memory grows under a steady mixed load of an hour or so.

One process of `riata serve` on a SQLite store answers, over and over, a round of what a day brings: a body of 2000 rows, rows one
by one with ids of their own, predictions by GET and by POST, explained ones, remembered ones whose labels come a round later,
the model's figures, `/metrics`, requests that are refused, a connection that is opened and closed; and every fiftieth round a
model that is made, taught, asked and dropped. Names are the same from round to round, but for as many new ones
as are asked for. Between rounds the bench waits so long that both processes together take the wanted share of one core.

Memory is the anonymous resident memory of the process (RssAnon), noted every few seconds; what grows shows as the difference
of the medians of the third and of the last quarter of the time.

What goes on growing for long and ends by itself is, by the look of it, the store's page caches, 32 MiB a connection, which fill
with what is stored: with nothing but bodies of 5000 rows with new ids the process took 150 MB after 100,000 of them, 174 after
300,000, 184 after 500,000 and 185 after 600,000, 700,000 and 800,000.
"""

from __future__ import annotations

import itertools
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import matplotlib

matplotlib.use("Agg")  # there is no screen
from matplotlib import pyplot as plt
from rich.console import Console
from rich.progress import Progress

from tests.bench import contest
from tests.bench.contest import Claim
from tests.bench.filling import VW_TEXT, bodies, make_model
from tests.bench.measured import MIB, cpu_s, memory, service
from tests.bench.ratio_picture import NUMBERS
from tests.bench.service import connect

MINUTES: Final = 60.0
MINUTES_MIN: Final = 10.0  # a process needs some minutes before it is steady: nothing is claimed of less
CORES: Final = 0.3
NOTE_EVERY_S: Final = 5.0
BULK_ROWS: Final = 2000
SINGLE: Final = 10
ASKED: Final = 40
POSTED: Final = 10
REMEMBERED: Final = 4
DROP_EVERY: Final = 50  # rounds
GROWTH_MAX: Final = 1.02  # of the last quarter over the third
JSON: Final = "application/json"
KEPT_EVENTS: Final = "100000"  # of the log, so that what is kept of events is at its bound soon


@dataclass(slots=True)
class Seen:
    """What was noted: minutes from the beginning and bytes; and how much was done."""

    minute: list[float] = field(default_factory=list)
    taken: list[int] = field(default_factory=list)
    rounds: int = 0
    requests: int = 0
    rows: int = 0
    cpu_s: float = 0.0

    def quarter(self, number: int) -> float:
        """Median bytes of a quarter of the time, from 0."""
        end = self.minute[-1]
        pairs = zip(self.minute, self.taken, strict=True)
        return statistics.median(taken for minute, taken in pairs if end * number / 4 <= minute <= end * (number + 1) / 4)


class Load:
    """The rounds, over one connection that stays."""

    def __init__(self, port: int, new_names: int) -> None:
        self._port = port
        self._new_names = new_names
        self._link = connect(port)
        text = bodies(20_000)
        lines = [line for body in text for line in body.splitlines(keepends=True)]
        self._bulk = itertools.cycle([b"".join(lines[at : at + BULK_ROWS]) for at in range(0, len(lines), BULK_ROWS)])
        self._number = itertools.count()
        self._asked: list[str] = []  # ids of predictions whose labels are yet to come
        self.requests = self.rows = 0

    def _call(self, method: str, path: str, body: bytes | dict[str, Any] = b"", kind: str = JSON) -> dict[str, Any]:
        self.requests += 1
        return self._link.call(method, path, body if isinstance(body, bytes) else json.dumps(body).encode(), kind)

    def _refused(self, method: str, path: str, body: bytes, status: int) -> None:
        self.requests += 1
        self._link.http.request(method, path, body, {"Content-Type": JSON})
        answer = self._link.http.getresponse()
        answer.read()
        if answer.status != status:
            raise RuntimeError(f"{method} {path}: {answer.status}, expected {status}")

    def round(self) -> None:
        """One round."""
        self.rows += BULK_ROWS + SINGLE + len(self._asked)
        self._call("POST", "/models/m/observe", next(self._bulk), VW_TEXT)
        for _ in range(SINGLE):
            number = next(self._number)
            row = {"features": {f"n{number % 20_000}": 1.5, "country": "de"}, "label": number % 2, "event_id": f"e{number}"}
            self._call("POST", "/models/m/observe", row)
        for k in range(ASKED):
            self._call("GET", f"/models/m/predict?n{k}=1&age=41.5&country=de")
        for k in range(POSTED):
            self._call("POST", "/models/m/predict", {"features": {f"n{k}": 0.5, "member": True}})
        self._call("POST", "/models/m/predict?explain=true", {"features": {"n1": 1, "n2": 2}})
        self._labels()
        for number in (next(self._number) for _ in range(self._new_names)):
            self._call("POST", "/models/m/observe", {"features": {f"new{number}": 1}, "label": 1})
        self._call("GET", "/models/m/metrics")
        self._refused("POST", "/models/m/observe", b'{"features": {"a": 1e999}, "label": 1}', 422)
        self._refused("POST", "/models/m/predict", b"{", 400)
        self._refused("GET", "/models/nobody/predict?a=1", b"", 404)
        other = connect(self._port)
        other.http.request("GET", "/metrics")
        other.http.getresponse().read()
        other.http.close()

    def _labels(self) -> None:
        """Label what was remembered a round ago, and have more remembered."""
        labels = [{"prediction_id": asked, "label": k % 2} for k, asked in enumerate(self._asked)]
        if labels:
            self._call("POST", "/models/m/observe", json.dumps(labels).encode())
        rows = [{"features": {f"n{k}": 1.0}} for k in range(REMEMBERED)]
        self.requests += 1
        self._link.http.request("POST", "/models/m/predict?remember=true", json.dumps(rows), {"Content-Type": JSON})
        self._asked = [answer["prediction_id"] for answer in json.loads(self._link.http.getresponse().read())]

    def make_and_drop(self) -> None:
        """A model that comes and goes."""
        name = f"gone{next(self._number)}"
        self._call("PUT", f"/models/{name}", {"encoder": {"bits": 16}})
        seq = self._call("POST", f"/models/{name}/observe", next(self._bulk), VW_TEXT)["seq"]
        self._call("GET", f"/models/{name}/predict?n1=1&_min_seq={seq}")
        self._call("DELETE", f"/models/{name}?confirm={name}")


def measure(folder: Path, minutes: float, cores: float, new_names: int) -> Seen:
    """Keep the load up for so long."""
    seen = Seen()
    with service(folder / "steady", RIATA_LOG_KEEP_EVENTS=KEPT_EVENTS) as running, Progress(console=Console(stderr=True)) as bar:
        running.start()
        make_model(running.port, "m")
        load, pid = Load(running.port, new_names), running.process.pid
        begun, before = time.monotonic(), cpu_s(pid) + time.process_time()
        task, noted = bar.add_task("steady load", total=60 * minutes), -NOTE_EVERY_S
        while (passed := time.monotonic() - begun) < 60 * minutes or len(seen.taken) < 5:
            load.round()
            seen.rounds += 1
            if seen.rounds % DROP_EVERY == 0:
                load.make_and_drop()
            if passed - noted >= min(NOTE_EVERY_S, minutes):
                noted = passed
                seen.minute.append(passed / 60)
                seen.taken.append(memory(pid))
                bar.update(task, completed=passed)
            seen.cpu_s = cpu_s(pid) + time.process_time() - before
            time.sleep(max(0.0, seen.cpu_s / cores - (time.monotonic() - begun)))
        seen.requests, seen.rows = load.requests, load.rows
        running.stop()
    return seen


def draw(seen: Seen, path: Path) -> None:
    """Memory against time."""
    with plt.rc_context(NUMBERS):
        figure, axes = plt.subplots(figsize=(8.0, 3.2), layout="constrained")
        axes.plot(seen.minute, [taken / MIB for taken in seen.taken], color="#2e8b57", linewidth=1.0)
        axes.set(xlabel="minutes of load", ylabel="MiB (RssAnon)", ylim=(0, None), xlim=(0, None))
        axes.grid(alpha=0.3)
        figure.savefig(path, format="svg", metadata={"Date": None})
        plt.close(figure)


def page(seen: Seen, cores: float, options: Any) -> None:
    """Write the report."""
    minutes = seen.minute[-1]
    quarters = [seen.quarter(number) / MIB for number in range(4)]
    claims: Sequence[Claim] = [
        Claim("memory after long load", f"{quarters[3]:,.0f} MiB, last quarter", f"{quarters[2]:,.0f} MiB, third quarter",
              quarters[3] / quarters[2], GROWTH_MAX, at_most=True)
    ]  # fmt: skip
    text = (
        f"{minutes:.0f} minutes, {seen.rounds:,} rounds: {seen.requests:,} requests, {seen.rows:,} rows learnt from, "
        f"{seen.cpu_s / (60 * minutes):.2f} of one core in both processes together (asked: {cores:g}). Memory after the first "
        f"round {seen.taken[0] / MIB:,.0f} MiB; medians of the quarters: {', '.join(f'{taken:,.1f}' for taken in quarters)} MiB. "
        f"Of what was added, {options.new_names * seen.rounds:,} names that were new are there by right, at the bytes of a "
        "non-zero weight that [memory](memory.md) tells."
    )
    notes = [text] if options.no_write else [text, "![memory against time](steady_curve.svg)"]
    command = f"python -m tests.bench.steady{' --quick' if options.quick else f' --minutes {options.minutes or MINUTES:g}'}"
    contest.report_page(
        "steady", "Memory under a steady load", (__doc__ or "").split("\n", 1)[1], claims if minutes >= MINUTES_MIN else [], [],
        notes, command, ["numpy", "numba"], not options.no_write, options.quick,
    )  # fmt: skip
    if not options.no_write:
        draw(seen, contest.folder(options.quick) / "steady_curve.svg")


def main() -> int:
    """Measure and report."""
    parser = contest.arguments(__doc__ or "")
    parser.add_argument("--minutes", type=float, help=f"of load (default {MINUTES:g}, of a trial 0.1)")
    parser.add_argument("--cores", type=float, default=CORES, help="share of one core that both processes take (default 0.3)")
    parser.add_argument("--new-names", type=int, default=0, help="names of each round that no round had before (default 0)")
    options = parser.parse_args()
    minutes = options.minutes or (0.1 if options.quick else MINUTES)
    with tempfile.TemporaryDirectory(prefix="riata-steady-") as name:
        seen = measure(Path(name), minutes, options.cores, options.new_names)
    page(seen, options.cores, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
