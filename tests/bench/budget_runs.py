"""Runs of contenders over streams on disk, one pass each, kept as JSON lines so that a long series may be stopped and resumed.

A learner of this project learns over HTTP: a fresh model of a running service, events posted in order, the model's own metrics
read at each mark. Vowpal Wabbit learns in a separate process, `python -m tests.bench.budget_runs FILE MARKS OPTIONS`. MARKS are
numbers of events, by commas. It writes one line of JSON: the sum of the log losses up to each mark, and the non-zeros.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from riata.base.arrays import F64
from tests.bench.budget_grid import Contender, Settings
from tests.bench.budget_streams import Lines
from tests.bench.peers import PROBABILITY_MIN, vowpal_wabbit_lines
from tests.bench.service import Connection, ServiceFailed
from tests.running import ROOT

ROWS_PER_BODY: Final = 1000
BODIES_PER_WAIT: Final = 50  # so that what waits to be learnt stays far below what the service would hold
SETTLE_S_MAX: Final = 600.0
MODEL: Final = "/models/contender"


@dataclass(frozen=True, slots=True)
class Task:
    """One run to make. `marks`: numbers of events at which the loss is read; the last is the number of rows."""

    lines: Lines
    contender: Contender
    settings: Settings
    marks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """What one pass of one setting came to.

    marks, loss    : sum of the log losses of the first marks[i] events, each predicted before it was learnt
    non_zeros      : weights that were not zero at the end
    non_zeros_most : most of them at any point of the learning curve; None if nobody counted on the way
    refused        : events that the learner refused to learn
    """

    stream: str
    contender: str
    settings: Settings
    marks: tuple[int, ...]
    loss: tuple[float, ...]
    non_zeros: int
    non_zeros_most: int | None = None
    refused: int = 0
    seconds: float = 0.0

    def mean(self, since: int = 0) -> float:
        """Mean log loss of the events after the first `since`, which has to be 0 or a mark."""
        before = self.loss[self.marks.index(since)] if since else 0.0
        return (self.loss[-1] - before) / (self.marks[-1] - since)

    @property
    def whole(self) -> float:
        """Mean log loss of the stream."""
        return self.mean()

    @property
    def second_half(self) -> float:
        """Mean log loss of the events after the first mark."""
        return self.mean(self.marks[0])


def key_of(stream: str, contender: str, settings: Settings) -> str:
    """The identity of a run."""
    return json.dumps([stream, contender, settings], sort_keys=True)


def read_runs(path: Path) -> list[Run]:
    """Runs kept in `path`, none if there is no such file. An incomplete last line is ignored."""
    if not path.is_file():
        return []
    runs = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            found = json.loads(line)
        except ValueError:
            continue
        run = Run(**{**found, "marks": tuple(found["marks"]), "loss": tuple(found["loss"])})
        runs[key_of(run.stream, run.contender, run.settings)] = run
    return list(runs.values())


def keep_run(path: Path, run: Run) -> None:
    """Append one run with one write, so that processes that share the file do not split each other's lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps(asdict(run)) + "\n"
    with path.open("a", encoding="utf-8") as out:
        out.write(line)


def run_task(task: Task, service: Connection) -> Run:
    """Make one run."""
    began = time.monotonic()
    run = learn_apart(task) if task.contender.vowpal_wabbit else learn_over_http(task, service)
    return replace(run, seconds=round(time.monotonic() - began, 2))


def learn_apart(task: Task) -> Run:
    """One pass of Vowpal Wabbit in a separate process."""
    options = " ".join(f"--{name} {value:g}" for name, value in task.settings.items())
    marks = ",".join(str(mark) for mark in task.marks)
    command = [sys.executable, "-m", "tests.bench.budget_runs", str(task.lines.path), marks, options]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "service"), str(ROOT)))}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ServiceFailed(f"Vowpal Wabbit {options}: {done.stderr[-1000:]}")
    found = json.loads(done.stdout)
    return Run(task.lines.name, task.contender.name, task.settings, task.marks, tuple(found["loss"]), found["non_zeros"])


def learn_over_http(task: Task, service: Connection) -> Run:
    """Make a fresh model, post the stream, and read the model's metrics at every mark."""
    config = {"labels": "-1/+1", "learner": task.settings}
    service.http.close()  # it is opened again; runs of Vowpal Wabbit take longer than the service keeps an idle connection
    service.call("PUT", MODEL, json.dumps(config).encode())
    try:
        return _posted(task, service)
    finally:
        service.call("DELETE", f"{MODEL}?confirm={MODEL.rsplit('/', 1)[1]}")


def _posted(task: Task, service: Connection) -> Run:
    sums = []
    metrics: dict[str, Any] = {}
    for number, (done, body) in enumerate(task.lines.bodies(task.marks, ROWS_PER_BODY), 1):
        waits = "?wait=applied" if done in task.marks or number % BODIES_PER_WAIT == 0 else ""
        answer = service.call("POST", f"{MODEL}/observe{waits}", body, "text/x-vw")
        if answer["rejected"] or answer["duplicate"]:
            raise ServiceFailed(f"{task.lines.name}: {answer}")
        if done in task.marks:
            metrics = settle(service, answer["seq"])
            learnt = metrics["cumulative"]
            sums.append(learnt["log_loss"] * learnt["weight"])
    points = service.call("GET", f"{MODEL}/metrics?since=0")["history"]
    counts = [point["non_zeros"] for point in points if point["non_zeros"] is not None]
    return Run(
        task.lines.name, task.contender.name, task.settings, task.marks, tuple(sums),
        non_zeros=metrics["non_zeros"], non_zeros_most=max([*counts, metrics["non_zeros"]]),
        refused=task.lines.rows - metrics["cumulative"]["examples"],
    )  # fmt: skip


def settle(service: Connection, seq: int) -> dict[str, Any]:
    """Metrics of the model once it has learnt the log up to `seq`."""
    deadline = time.monotonic() + SETTLE_S_MAX
    while time.monotonic() < deadline:
        metrics = service.call("GET", f"{MODEL}/metrics")
        if metrics["model"]["seq"] >= seq:
            return metrics
        time.sleep(0.01)
    raise ServiceFailed(f"event {seq} was not learnt within {SETTLE_S_MAX:g} s")


def missing(lines: Lines, contenders: Sequence[Contender], marks: tuple[int, ...], runs: Sequence[Run]) -> Iterator[Task]:
    """The runs over one stream that have not been made yet."""
    made = {key_of(run.stream, run.contender, run.settings) for run in runs}
    for contender in contenders:
        for settings in contender.settings:
            if key_of(lines.name, contender.name, settings) not in made:
                yield Task(lines, contender, settings, marks)


def losses(margin: F64, label: F64) -> F64:
    """log(1 + exp(-s margin)), s = 2 label - 1, clipped as the service clips it; the clip value if a margin is not a number."""
    cost = -(2.0 * label - 1.0) * margin
    loss = np.logaddexp(0.0, np.where(np.isnan(cost), np.inf, cost))
    return np.minimum(loss, -math.log(PROBABILITY_MIN))


def main() -> int:
    """Learn the file and print the losses."""
    path, marks, options = sys.argv[1:]
    with Path(path).open(encoding="utf-8") as lines:
        label = np.array([not line.startswith("-1") for line in lines], dtype=np.float64)
    with Path(path).open(encoding="utf-8") as lines:
        margin, non_zeros = vowpal_wabbit_lines((line.rstrip("\n") for line in lines), options)
    loss = losses(np.array(margin), label)
    sums = [float(loss[: int(mark)].sum()) for mark in marks.split(",")]
    sys.stdout.write(json.dumps({"loss": sums, "non_zeros": non_zeros}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
