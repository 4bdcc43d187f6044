"""The streams, contenders and runs of `budgets`, kept as JSON lines so that a long series may be stopped and resumed.

Texts become unit-norm rows of 1 + log(count) for each lower-case word, computed from the row alone. Every contender reads the
same bytes of Vowpal Wabbit text.

A learner of this project learns over HTTP: a fresh model of a running service, events posted in order, the model's own metrics
read at each mark. Vowpal Wabbit learns in a separate process, `python -m tests.bench.budget_runs FILE MARKS OPTIONS`. MARKS are
numbers of events, by commas. It writes one line of JSON: the sum of the log losses up to each mark, and the non-zeros.
"""

from __future__ import annotations

import csv
import itertools
import json
import math
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from riata.base.arrays import F64
from riata.base.limits import FEATURES_PER_ROW_MAX
from tests.bench.peers import PROBABILITY_MIN, vowpal_wabbit_lines
from tests.bench.service import Connection, ServiceFailed
from tests.bench.streams import SHUFFLE_SEED, Event, Pairs, count_words, electricity, open_lines, read_svmlight, row_pairs
from tests.running import ROOT

DIGITS: Final = 9  # of a value; Vowpal Wabbit keeps no more
KDD_WORDS: Final = frozenset({"protocol_type", "service", "flag"})
_HEADER_END: Final = "\n\n"

Labelled = tuple[int, Pairs]
Document = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Lines:
    """A stream on disk.

    path      : VW text with the single namespace f, label -1 or 1
    rows      : number of events
    positives : how many of them have label 1
    features  : how many different names there are
    entries   : how many name-value pairs there are in all
    """

    name: str
    path: Path
    rows: int
    positives: int
    features: int
    entries: int

    def bodies(self, marks: Sequence[int], rows: int) -> Iterator[tuple[int, bytes]]:
        """Request bodies of at most `rows` events, each with the number of events up to its end; every mark ends a body."""
        due, done, held = list(marks), 0, []
        with self.path.open("rb") as lines:
            for line in lines:
                held.append(line)
                done += 1
                at_mark = bool(due) and done == due[0]
                if at_mark:
                    due.pop(0)
                if at_mark or len(held) == rows:
                    yield done, b"".join(held)
                    held = []
        if held:
            yield done, b"".join(held)


def write_lines(name: str, events: Iterable[Labelled], folder: Path) -> Lines:
    """Write a stream into `folder`."""
    path = folder / f"{name}.vw"
    rows = positives = entries = 0
    names: set[str] = set()
    with path.open("w", encoding="utf-8") as out:
        for label, pairs in events:
            words = " ".join(name if value == 1.0 else f"{name}:{value:.{DIGITS}g}" for name, value in pairs)
            out.write(f"{'1' if label else '-1'} |f {words}\n")
            rows += 1
            positives += label
            entries += len(pairs)
            names.update(name for name, _ in pairs)
    return Lines(name, path, rows, positives, len(names), entries)


def unit(pairs: Pairs) -> Pairs:
    """Divide a row by its Euclidean length; an empty row stays empty."""
    length = math.sqrt(math.fsum(value * value for _, value in pairs))
    return tuple((name, value / length) for name, value in pairs)


def log_counts(text: str) -> Pairs:
    """1 + log(count) of each word, in order of first appearance, up to the number of words that the service accepts in a row."""
    return tuple((word, 1.0 + math.log(count)) for word, count in count_words(text)[:FEATURES_PER_ROW_MAX])


def weigh(documents: Sequence[Document]) -> Iterator[Labelled]:
    """Unit-norm rows of 1 + log(count)."""
    for label, text in documents:
        yield label, unit(log_counts(text))


def reuters(topic: str) -> list[Document]:
    """Newswire in the order of time, ModApte train, then test; label: whether `topic` is among the topics."""
    parts: dict[str, list[Document]] = {"train": [], "test": [], "unused": []}
    for line in open_lines("reuters21578_modapte.jsonl.gz"):
        row = json.loads(line)
        parts[row["split"]].append((int(topic in row["topics"]), f"{row.get('title') or ''}\n{row.get('body') or ''}"))
    return parts["train"] + parts["test"]


def newsgroups() -> list[Document]:
    """Messages without their headers, which name the group; label: a group comp.* or another.

    The set is split by date, so train comes before test; within each half the file is sorted by group, hence shuffled.
    """
    parts: dict[str, list[Document]] = {"train": [], "test": []}
    for line in open_lines("newsgroups20_bydate.jsonl.gz"):
        row = json.loads(line)
        _, _, body = row["text"].partition(_HEADER_END)
        parts[row["split"]].append((int(row["label"].startswith("comp.")), body))
    order = random.Random(SHUFFLE_SEED)
    return [document for part in parts.values() for document in order.sample(part, len(part))]


def lingspam() -> list[Document]:
    """Mails to a list, spam or not, shuffled: within each of its ten parts the spam comes last."""
    rows = [json.loads(line) for line in open_lines("lingspam_bare.jsonl.gz")]
    documents = [(int(row["label"] == "spam"), row["text"]) for row in rows]
    return random.Random(SHUFFLE_SEED).sample(documents, len(documents))


def kddcup() -> Iterator[Labelled]:
    """Connections in the order of the file, attack or not; log(1 + x) of numbers, an indicator for each word."""
    rows = csv.reader(open_lines("kddcup99_10pct.csv.gz"))
    *names, _ = next(rows)
    numeric = frozenset(names) - KDD_WORDS
    for row in rows:
        pairs = row_pairs(names, row[:-1], numeric)
        yield (
            int(row[-1] != "normal."),
            tuple((name, math.log1p(value) if name in numeric else value) for name, value in pairs),
        )


def plain(events: Iterable[Event]) -> Iterator[Labelled]:
    """Events of other benches, without their request format."""
    for event in events:
        yield event.label, event.pairs


def a9a() -> Iterator[Labelled]:
    """Census income, one-hot, train then test."""
    return plain(read_svmlight("a9a_train.svmlight.gz") + read_svmlight("a9a_test.svmlight.gz"))


def ipinyou() -> Iterator[Labelled]:
    """Advertisement impressions, one-hot, under 1 % clicks, train then test."""
    return plain(read_svmlight("ipinyou_train.svmlight.gz") + read_svmlight("ipinyou_test.svmlight.gz"))


BUDGET_STREAMS: Final[dict[str, Callable[[], Iterator[Labelled]]]] = {
    "acq": lambda: weigh(reuters("acq")),
    "earn": lambda: weigh(reuters("earn")),
    "newsgroups": lambda: weigh(newsgroups()),
    "lingspam": lambda: weigh(lingspam()),
    "a9a": a9a,
    "elec2": lambda: plain(electricity().events),
    "kddcup": kddcup,
    "ipinyou": ipinyou,
}


Settings = dict[str, Any]

BUDGETS: Final = (100, 300, 1000)
GAMMAS: Final = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
RHOS: Final = (0.95, 0.97, 0.98, 0.995, 0.999, 0.9999)
RHO_GAMMAS: Final = (0.001, 0.01, 0.1, 1.0)
RHO_PRIORS: Final = (1.0, 0.1)
ALPHAS: Final = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
L1: Final = (0.0, 0.1, 0.3, 1.0, 2.0, 5.0, 10.0, 20.0, 40.0)
ETAS: Final = (0.3, 1.0, 3.0, 10.0)
GRAVITIES: Final = (0.0, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
CONSTANT_ETAS: Final = (0.5, 2.0, 8.0)
CONSTANT_GRAVITIES: Final = (0.0, 1e-4, 1e-3, 1e-2)
CEILINGS: Final = ("infinite", 0.1)  # the second is the default
VW_RATES: Final = (0.5, 2.0, 8.0, 32.0)  # the first is the default
VW_L1: Final = (0.0, 1e-6, 1e-5, 1e-4, 3e-4, 6e-4, 1e-3, 2e-3)
VW_BITS: Final = 22  # as many weights as the service has


@dataclass(frozen=True, slots=True)
class Contender:
    """A learner and what it is tried with.

    default         : the setting of somebody who sets nothing else; one of `settings`
    settings        : documents of the service's `learner` setting; for Vowpal Wabbit its options by name
    bounded         : it never has more non-zeros than its budget, at any event
    vowpal_wabbit   : it is not one of the service's learners
    """

    name: str
    default: Settings
    settings: tuple[Settings, ...]
    bounded: bool = False
    vowpal_wabbit: bool = False


def sketch(name: str, bounded: bool = False, **fixed: Any) -> Contender:
    """The Taylor sketch, over GAMMAS."""
    settings = tuple({"kind": "taylor_sketch", **fixed, "gamma": gamma} for gamma in GAMMAS)
    default = next(setting for setting in settings if setting["gamma"] == 0.1)
    return Contender(name, default, settings, bounded)


def _forgetting() -> Iterator[Settings]:
    for rho, gamma, prior in itertools.product(RHOS, RHO_GAMMAS, RHO_PRIORS):
        yield {"kind": "taylor_sketch", "mode": "diag", "block": 1, "rho": rho, "gamma": gamma, "prior_curvature": prior}


def _truncated() -> Iterator[Settings]:
    yield {"kind": "truncated_gradient"}
    for eta, gravity, ceiling in itertools.product(ETAS, GRAVITIES, CEILINGS):
        if gravity or ceiling == CEILINGS[0]:  # without gravity the ceiling has nothing to say
            yield {"kind": "truncated_gradient", "eta": eta, "gravity": gravity, "ceiling": ceiling}
    plain = {"kind": "truncated_gradient", "rate": "constant", "normalised": False, "ceiling": CEILINGS[0]}
    for eta, gravity in itertools.product(CONSTANT_ETAS, CONSTANT_GRAVITIES):
        yield {**plain, "eta": eta, "gravity": gravity}


def _ftrl() -> Iterator[Settings]:
    yield {"kind": "ftrl_proximal"}
    for alpha, l1 in itertools.product(ALPHAS, L1):
        yield {"kind": "ftrl_proximal", "alpha": alpha, "l1": l1}


def _vowpal_wabbit() -> Iterator[Settings]:
    for rate, l1 in itertools.product(VW_RATES, VW_L1):
        yield {"bit_precision": VW_BITS, "learning_rate": rate, "l1": l1}


def contender(name: str, settings: tuple[Settings, ...], vowpal_wabbit: bool = False) -> Contender:
    """A contender whose first setting is its default."""
    return Contender(name, settings[0], settings, vowpal_wabbit=vowpal_wabbit)


CONTENDERS: Final[tuple[Contender, ...]] = (
    *(sketch(f"strict {k}", bounded=True, mode="strict", k=k) for k in BUDGETS),
    sketch("hybrid", mode="hybrid", k=300),
    sketch("diag", mode="diag"),
    Contender(
        "diag, rho",
        {"kind": "taylor_sketch", "mode": "diag", "block": 1, "rho": 0.9999, "gamma": 0.1, "prior_curvature": 1.0},
        tuple(_forgetting()),
    ),
    contender("ftrl", tuple(_ftrl())),
    contender("truncated", tuple(_truncated())),
    contender("vw", tuple(_vowpal_wabbit()), vowpal_wabbit=True),
)


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
