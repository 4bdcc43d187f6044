"""Whether memory grows under a steady mixed load of an hour or so.

One process of `riata serve` on a SQLite store answers rounds of typical requests. A round has a body of 2000 rows, single rows
with ids, predictions by GET and by POST, predictions with explanations, remembered predictions whose labels arrive in the next
round, the model's metrics, `/metrics`, refused requests, and a connection that is opened and closed. Every fiftieth round also
creates a model, trains it, requests predictions of it and drops it. Names are the same in every round, except for an optional
number of new ones. Between rounds the bench waits so that both processes together use the wanted share of one core.

Memory is the anonymous resident memory of the process (RssAnon), read every few seconds. Growth is the difference between the
medians of the third and of the last quarter of the time. The holders of the memory are read five times: from the process
itself, in which an additional thread reports the allocations of SQLite, of the C library and of Python, and from the kernel.

Two caches grow for a long time up to a bound: the newest event ids, of which the store holds up to 100,000 in memory, and
SQLite's page cache of 32 MiB. The bench fills both before the time begins, with rows that have ids and the names of the load.
Log and ids are kept for fewer events than by default, so that their bounds are reached too. Without this, memory grows by 7 MiB
per quarter of an hour's load (291.9, 298.8 and 305.7 MiB in the last three), because an hour sends only 91,000 ids and labels;
it would have stopped growing some minutes later.
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
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import matplotlib

matplotlib.use("Agg")  # there is no screen
from matplotlib import pyplot as plt
from rich.console import Console
from rich.progress import Progress

from tests.bench import contest, report
from tests.bench.contest import Claim
from tests.bench.filling import VW_TEXT, bodies, make_model, wait_served
from tests.bench.measured import MIB, cpu_s, memory
from tests.bench.ratio_picture import NUMBERS
from tests.bench.service import ServiceFailed, connect
from tests.bench.telling_service import Telling

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
AGAIN_S: Final = 0.5  # before what was answered with 503 is sent again
GROWTH_MAX: Final = 1.02  # of the last quarter over the third
JSON: Final = "application/json"
KEPT: Final = {"RIATA_LOG_KEEP_EVENTS": "100000", "RIATA_DEDUPE_EVENTS": "1000000"}  # so that both are at their bounds soon
IDS_HELD: Final = 100_000  # in memory by the store
IDS_MAX: Final = 1_000_000  # sent before the time begins, if the page cache is not full sooner
PAGES_FULL: Final = 30 * MIB  # of SQLite's 32
WARM_ROWS: Final = 5000
HOLDERS: Final = {
    "python": "Python's small objects", "python_free": "free in Python's arenas", "sqlite_pages": "SQLite's page cache",
    "sqlite_rest": "SQLite, the rest", "table": "the model's table", "others": "compiled code, arrays, buffers, stacks",
    "all": "all (RssAnon)", "c_rest": "allocated from the C library except by SQLite, touched or not",
    "c_free": "free in the C library",
}  # fmt: skip
TABLE_MIN: Final = 100 * MIB  # of address space: the table of 2^22 slots is the one mapping of such a size


@dataclass(slots=True)
class Seen:
    """Observations: minutes from the beginning and bytes; and the amount of work done."""

    minute: list[float] = field(default_factory=list)
    taken: list[int] = field(default_factory=list)
    rounds: int = 0
    requests: int = 0
    again: int = 0
    rows: int = 0
    cpu_s: float = 0.0
    warmed: int = 0  # rows sent before the time began
    id_bytes: float = 0.0  # of Python's objects, one more id that is held
    held: list[tuple[float, dict[str, int]]] = field(default_factory=list)  # minute, bytes by holder

    def quarter(self, number: int) -> float:
        """Median bytes of a quarter of the time, from 0."""
        end = self.minute[-1]
        pairs = zip(self.minute, self.taken, strict=True)
        return statistics.median(taken for minute, taken in pairs if end * number / 4 <= minute <= end * (number + 1) / 4)


class Load:
    """The rounds, over one persistent connection."""

    def __init__(self, port: int, new_names: int) -> None:
        self._port = port
        self._new_names = new_names
        self._link = connect(port)
        text = bodies(20_000)
        lines = [line for body in text for line in body.splitlines(keepends=True)]
        self._bulk = itertools.cycle([b"".join(lines[at : at + BULK_ROWS]) for at in range(0, len(lines), BULK_ROWS)])
        self._number = itertools.count()
        self._asked: list[str] = []  # ids of predictions whose labels are yet to come
        self.requests = self.rows = self.again = 0

    def _call(self, method: str, path: str, body: bytes | dict[str, Any] = b"", kind: str = JSON) -> Any:
        """One request; repeated if the answer is 503, as after a pause of the machine that exceeds a time limit."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        while True:
            self.requests += 1
            self._link.http.request(method, path, data, {"Content-Type": kind})
            answer = self._link.http.getresponse()
            text = answer.read()
            if answer.status < HTTPStatus.BAD_REQUEST:
                return json.loads(text) if text else None
            if answer.status != HTTPStatus.SERVICE_UNAVAILABLE:
                raise ServiceFailed(f"{method} {path}: {answer.status} {text[:500].decode(errors='replace')}")
            self.again += 1
            time.sleep(AGAIN_S)

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
        """Send labels for the predictions of the previous round, and remember new ones."""
        labels = [{"prediction_id": asked, "label": k % 2} for k, asked in enumerate(self._asked)]
        if labels:
            self._call("POST", "/models/m/observe", json.dumps(labels).encode())
        rows = [{"features": {f"n{k}": 1.0}} for k in range(REMEMBERED)]
        answers = self._call("POST", "/models/m/predict?remember=true", json.dumps(rows).encode())
        self._asked = [answer["prediction_id"] for answer in answers]

    def make_and_drop(self) -> None:
        """Create a model, use it and drop it."""
        name = f"gone{next(self._number)}"
        self._call("PUT", f"/models/{name}", {"encoder": {"bits": 16}})
        seq = self._call("POST", f"/models/{name}/observe", next(self._bulk), VW_TEXT)["seq"]
        self._call("GET", f"/models/{name}/predict?n1=1&_min_seq={seq}")
        self._call("DELETE", f"/models/{name}?confirm={name}")


def holders(running: Telling) -> dict[str, int]:
    """Bytes by holder (keys of HOLDERS)."""
    reported, taken, table = running.ask("memory"), memory(running.process.pid), table_memory(running.process.pid)
    parts = {
        "python": reported["python"], "python_free": reported["python_free"], "sqlite_pages": reported["sqlite_pages"],
        "sqlite_rest": reported["sqlite"] - reported["sqlite_pages"], "table": table,
    }  # fmt: skip
    given_out = {"c_rest": reported["c_in_use"] - reported["sqlite"], "c_free": reported["c_free"]}
    return parts | {"others": taken - sum(parts.values()), "all": taken} | given_out


def table_memory(pid: int) -> int:
    """Anonymous bytes of the mappings of TABLE_MIN and more."""
    size, taken = 0, 0
    for line in Path(f"/proc/{pid}/smaps").read_text(encoding="utf-8").splitlines():
        label, _, value = line.partition(":")
        if label == "Size":
            size = 1024 * int(value.split()[0])
        elif label == "Anonymous" and size >= TABLE_MIN:
            taken += 1024 * int(value.split()[0])
    return taken


def warm(running: Telling, load: Load, seen: Seen, ids: int) -> None:
    """Send up to `ids` rows with ids until the caches are full; then the load of some minutes."""
    link, before, few = connect(running.port), 0, min(IDS_HELD, ids) // 2
    while seen.warmed < ids:
        rows = [
            {"features": {f"n{k % 20_000}": 1.5, "country": "de"}, "label": k % 2, "event_id": f"w{k}"}
            for k in range(seen.warmed, seen.warmed + WARM_ROWS)
        ]
        answer = link.call("POST", "/models/m/observe", "\n".join(map(json.dumps, rows)).encode(), "application/x-ndjson")
        wait_served(running.port, "m", answer["seq"])
        seen.warmed += WARM_ROWS
        held = holders(running)
        if seen.warmed == few:
            before = held["python"]
        if seen.warmed == 2 * few:
            seen.id_bytes = (held["python"] - before) / few
        if seen.warmed >= 2 * IDS_HELD and held["sqlite_pages"] >= PAGES_FULL:
            break
    for _ in range(3):
        load.make_and_drop()
        load.round()


def measure(folder: Path, minutes: float, cores: float, new_names: int, ids: int) -> Seen:
    """Run the load for so long."""
    seen = Seen()
    with Telling(folder / "steady", **KEPT) as running, Progress(console=Console(stderr=True)) as bar:
        running.start()
        make_model(running.port, "m")
        load, pid = Load(running.port, new_names), running.process.pid
        task, noted = bar.add_task("steady load", total=60 * minutes), -NOTE_EVERY_S
        warm(running, load, seen, ids)
        begun, before = time.monotonic(), cpu_s(pid) + time.process_time()
        while (passed := time.monotonic() - begun) < 60 * minutes or len(seen.taken) < 5:
            if passed >= 15 * minutes * len(seen.held):
                seen.held.append((passed / 60, holders(running)))
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
        seen.held.append(((time.monotonic() - begun) / 60, holders(running)))
        seen.requests, seen.rows, seen.again = load.requests, load.rows, load.again
        running.stop()
    return seen


def draw(seen: Seen, path: Path) -> None:
    """Memory against time."""
    with plt.rc_context(NUMBERS):
        figure, axes = plt.subplots(figsize=(8.0, 3.2), layout="constrained")
        taken = [bytes_taken / MIB for bytes_taken in seen.taken]
        axes.plot(seen.minute, taken, color="#2e8b57", linewidth=1.0)
        axes.set(xlabel="minutes of load", ylabel="MiB (RssAnon)", ylim=(0, 1.1 * max(taken)), xlim=(0, None))
        axes.grid(alpha=0.3)
        figure.savefig(path, format="svg", metadata={"Date": None})
        plt.close(figure)


def holder_table(seen: Seen) -> str:
    """The memory of each holder over time."""
    (_, first), (_, last) = seen.held[0], seen.held[-1]
    rows = [
        [label, *(f"{parts[key] / MIB:,.1f}" for _, parts in seen.held), f"{(last[key] - first[key]) / MIB:+,.1f}"]
        for key, label in HOLDERS.items()
    ]
    heads = ["MiB held by", *(f"minute {minute:.0f}" for minute, _ in seen.held), "more at the end"]
    return "## Holders\n\n" + report.table(heads, rows)


def page(seen: Seen, cores: float, options: Any) -> None:
    """Write the report."""
    minutes = seen.minute[-1]
    quarters = [seen.quarter(number) / MIB for number in range(4)]
    claims: Sequence[Claim] = [
        Claim("memory after long load", f"{quarters[3]:,.0f} MiB, last quarter", f"{quarters[2]:,.0f} MiB, third quarter",
              quarters[3] / quarters[2], GROWTH_MAX, at_most=True)
    ]  # fmt: skip
    text = (
        f"{minutes:.0f} minutes, {seen.rounds:,} rounds: {seen.requests:,} requests ({seen.again} sent again), "
        f"{seen.rows:,} rows learnt from, "
        f"{seen.cpu_s / (60 * minutes):.2f} of one core in both processes together (wanted: {cores:g}); before them "
        f"{seen.warmed:,} rows with ids, of which each of the newest {IDS_HELD:,} took {seen.id_bytes:,.0f} bytes. "
        f"Medians of the quarters: {', '.join(f'{taken:,.1f}' for taken in quarters)} MiB. "
        f"The growth includes {options.new_names * seen.rounds:,} new names, each of which takes the bytes of a non-zero weight "
        "([memory](memory.md))."
    )
    notes = [text] if options.no_write else [text, "![memory against time](steady_curve.svg)"]
    command = f"python -m tests.bench.steady{' --quick' if options.quick else f' --minutes {options.minutes or MINUTES:g}'}"
    contest.report_page(
        "steady", "Memory under a steady load", (__doc__ or "").split("\n", 1)[1], claims if minutes >= MINUTES_MIN else [],
        [holder_table(seen)], notes, command, ["numpy"], not options.no_write, options.quick,
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
        seen = measure(Path(name), minutes, options.cores, options.new_names, 2 * WARM_ROWS if options.quick else IDS_MAX)
    page(seen, options.cores, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
