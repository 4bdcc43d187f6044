"""What acknowledgements and predictions notice of a refit of the same model.

One service with the embedded store and a model that has learnt EVENTS rows of 75 features. Two client processes send requests at
fixed times, whether or not earlier ones were answered: predictions of one row, and observations of one row, each acknowledged
after its fsync. In turns of SECONDS: as long as a refit of all events runs (reading the log, solving in a child process, the
gate, the service's own passes), then as many without one, and again. Latency is counted from the moment when a request was due.
The figures are medians over the turns, and a ratio is the median of the ratios of a turn beside a refit and the one without that
has the same number.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import httpx
import numpy as np

from tests.bench import open_load, report
from tests.bench.bulk_rows import NDJSON, ROWS, make_rows
from tests.running import ROOT, Running

EVENTS: Final = 20_000
BODIES: Final = 20
SECONDS: Final = 4.0
ROUNDS: Final = 2
PREDICTIONS: Final = 200  # a second
OBSERVATIONS: Final = 50
MODEL: Final = "m"
KINDS: Final = ("predict", "observe")


def observations(model: str, count: int = 512) -> list[bytes]:
    """POST /observe of one labelled row with 75 features each."""
    made = []
    labels = np.random.default_rng(7).integers(0, 2, count)
    for body, label in zip(open_load.requests(model, count), labels.tolist(), strict=True):
        row = json.loads(body.partition(b"\r\n\r\n")[2])
        content = json.dumps({**row, "label": label}).encode()
        lines = (f"POST /models/{model}/observe HTTP/1.1", "Host: localhost", "Content-Type: application/json")
        made.append("\r\n".join((*lines, f"Content-Length: {len(content)}", "", "")).encode() + content)
    return made


def load(kind: str, port: int) -> None:
    """The client process: for each line with a number of seconds, send requests, and answer with percentiles."""
    made = open_load.requests(MODEL) if kind == "predict" else observations(MODEL)
    rate = PREDICTIONS if kind == "predict" else OBSERVATIONS
    for line in sys.stdin:
        print(json.dumps(open_load.ask(port, made, rate, float(line))), flush=True)


class Clients:
    """Both client processes."""

    def __init__(self, port: int) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "service"), str(ROOT)))}
        self._processes = {
            kind: subprocess.Popen(
                [sys.executable, "-m", "tests.bench.refit_load", "load", kind, str(port)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
            )
            for kind in KINDS
        }  # fmt: skip

    def ask(self, seconds: float) -> dict[str, dict[str, float]]:
        """Send requests of both kinds at the same time."""
        for process in self._processes.values():
            assert process.stdin is not None
            process.stdin.write(f"{seconds}\n")
            process.stdin.flush()
        return {kind: json.loads((process.stdout or sys.stdin).readline()) for kind, process in self._processes.items()}

    def end(self) -> None:
        """End both."""
        for process in self._processes.values():
            process.kill()
            process.wait()


class Refitting:
    """Starts refits, and notes in which stages they were seen."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http
        self.stages: list[str] = []  # in which each turn began
        self.ended: list[dict[str, Any]] = []
        self._path = ""

    def start(self) -> None:
        """Start a refit."""
        begun = self._http.post(f"/models/{MODEL}/refits", json={"gamma": 10.0})
        begun.raise_for_status()
        self._path = begun.headers["location"]

    def runs(self) -> bool:
        """Return whether it still runs."""
        found = self._http.get(self._path).json()
        if found["state"] != "running":
            assert found["state"] == "done", found["error"]
            self.ended.append(found)
            return False
        self.stages.append(found["stage"])
        return True


def fill(http: httpx.Client) -> None:
    """Have the model learn EVENTS rows."""
    http.put(f"/models/{MODEL}", json={"encoder": {"bits": 18}}).raise_for_status()
    bodies = make_rows(BODIES).bodies
    for number in range(EVENTS // ROWS):
        http.post(
            f"/models/{MODEL}/observe", content=bodies[number % BODIES], headers={"Content-Type": NDJSON}
        ).raise_for_status()


def measured(seconds: float, rounds: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]], Refitting]:
    """Return what the clients found in each turn: with a refit, and without."""
    with tempfile.TemporaryDirectory() as folder, Running(Path(folder) / "data") as running:
        running.start()
        with httpx.Client(base_url=running.url, timeout=300) as http:
            fill(http)
            refitting, clients = Refitting(http), Clients(running.port)
            beside: list[dict[str, Any]] = []
            without: list[dict[str, Any]] = []
            try:
                clients.ask(1.0)  # the first requests open connections and load kernels
                for _ in range(rounds):
                    refitting.start()
                    while refitting.runs():
                        beside.append(clients.ask(seconds))
                    while len(without) < len(beside):
                        without.append(clients.ask(seconds))
                return beside, without, refitting
            finally:
                clients.end()


def main() -> int:
    """Measure, and write the page."""
    if sys.argv[1:2] == ["load"]:
        load(sys.argv[2], int(sys.argv[3]))
        return 0
    parser = report.arguments(__doc__ or "")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    options = parser.parse_args()
    beside, without, refitting = measured(options.seconds, options.rounds)
    lines: list[list[str]] = []
    by_stage: list[list[str]] = []
    for kind, name, limit in (("observe", "acknowledgements", 1.3), ("predict", "predictions", 1.2)):
        for figure in ("p50_us", "p99_us"):
            pairs = [(one[kind][figure], other[kind][figure]) for one, other in zip(beside, without, strict=True)]
            ratio = statistics.median(one / other for one, other in pairs)
            cells = [f"{statistics.median(column) / 1000:.2f}" for column in zip(*pairs, strict=True)]
            wanted = f"{limit:.1f}" if figure == "p99_us" else ""
            lines.append([f"{name}, {figure[:3]}", cells[1], cells[0], f"{ratio:.2f}", wanted])
    for stage in dict.fromkeys(refitting.stages):
        turns = [one for one, at in zip(beside, refitting.stages, strict=True) if at == stage]
        figures = [f"{statistics.median(one[kind]['p99_us'] for one in turns) / 1000:.2f}" for kind in KINDS]
        by_stage.append([f"{stage}, {len(turns)} turns", figures[1], figures[0]])
    over = [line[0] for line in lines if line[4] and float(line[3]) > float(line[4])]
    verdict = f"Beyond the limit in this run: {'; '.join(over)}." if over else "Both limits hold in this run."
    command = f"python -m tests.bench.refit_load --rounds {options.rounds} --seconds {options.seconds:g}"
    failed = sum(int(one[kind]["failed"]) for one in [*beside, *without] for kind in KINDS)
    one = refitting.ended[-1]
    heads = ["milliseconds", "without, ms", "beside a refit, ms", "ratio", "limit"]
    text = (
        f"# Requests beside a refit\n\n{(__doc__ or '').partition(chr(10))[2].strip()}\n\n{report.table(heads, lines)}\n"
        f"{verdict}\n\n"
        "The p99 of the turns by the stage in which each began:\n\n"
        f"{report.table(['stage', 'acknowledgements, ms', 'predictions, ms'], by_stage)}\n"
        f"{options.rounds} refits, {len(beside)} turns of {options.seconds:g} s beside them, as many without; {EVENTS:,} events "
        f"at the beginning, {PREDICTIONS} predictions and {OBSERVATIONS} observations a second; {failed} requests failed. "
        f"The last refit took {one['seconds']:.1f} s: {one['features']:,} features, "
        f"{len(one['trace'])} passes.\n\n"
        f"{report.conditions(command, ['numpy'])}"
    )
    report.publish("refit_load", text, write=not options.no_write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
