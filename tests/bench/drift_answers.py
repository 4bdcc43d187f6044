"""The drift detector: delay to the alarm, false alarms, and what forgetting after an alarm is worth.

Learners with their defaults run in this process over hashed features, 100 events at a time, with the detector behind them as in a
service. An alarm is answered after the 100 events that completed it; a service answers within its turn, some events later.

Needs RIATA_SHARED. Takes a few minutes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from rich.console import Console
from rich.progress import Progress

from riata.base.arrays import BOOL, F64, I64
from riata.learn.ftrl_proximal.config import FtrlProximalConfig
from riata.learn.registry import LearnerConfig, build_learner, spec_of
from riata.learn.taylor_sketch.config import TaylorSketchConfig
from riata.learn.truncated_gradient.config import TruncatedGradientConfig
from riata.run.drift import KEEP, forget
from riata.run.gate import losses
from riata.watch.drift import Alarm, DriftDetector
from riata.wire.batch import Batch, slice_rows
from tests.bench import report
from tests.bench.defaults import BITS, encode
from tests.bench.drift_stream import CHUNK, INTERCEPT, SEED, TOPIC_WORDS, TOPICS, WORDS, make_rows, truths
from tests.bench.held_out import electricity, last_column, table_rows
from tests.bench.streams import NDJSON, Stream

STEP: Final = 100
REST: Final = 10_000
LEARNERS: Final[dict[str, LearnerConfig]] = {
    "truncated_gradient": TruncatedGradientConfig(),
    "taylor_sketch": TaylorSketchConfig(),
    "ftrl_proximal": FtrlProximalConfig(),
}
FIELDS: Final = (50, 200, 2000, 1000, 20, 7)  # values of the fields of clicks


@dataclass(frozen=True, slots=True)
class Made:
    """A stream with the event of its drift, the log loss of each event under the truth, and the same stream without drift."""

    batch: Batch
    at: int
    bayes: F64
    steady: tuple[Batch, F64] | None


@dataclass(frozen=True, slots=True)
class Run:
    """Log loss of each event, and the alarms."""

    loss: F64
    alarms: list[Alarm]


def hashed(indptr: I64, name: I64, value: F64, label: F64) -> Batch:
    """Events whose features have numbers for names; each number has a random hash."""
    hashes = np.random.default_rng(1).integers(0, 2**32, int(name.max()) + 1, dtype=np.uint64).astype(np.uint32)[name]
    n = len(label)
    order = np.lexsort((hashes, np.repeat(np.arange(n), np.diff(indptr))))
    blank: BOOL = np.zeros(n, np.bool_)
    return Batch(indptr, hashes[order], value[order], label, np.ones(n), np.zeros((n, 16), np.uint8), blank)


def drawn(rng: np.random.Generator, margin: F64) -> tuple[F64, F64]:
    """Labels for margins of the truth, and its log loss."""
    label = (rng.random(len(margin)) < 1.0 / (1.0 + np.exp(-margin))).astype(np.float64)
    return label, losses("logistic", margin, label, False)


def texts(drifts: bool, rows: int = 200_000) -> tuple[Batch, F64]:
    """The texts of `drift_stream`: half of the informative coefficients are redrawn midway."""
    rng = np.random.default_rng(SEED)
    topics = np.argsort(rng.random((TOPICS, WORDS)), axis=1)[:, :TOPIC_WORDS].astype(np.int64)
    parts, labels, bayes = [], [], []
    for start in range(0, rows, CHUNK):
        made = make_rows(rng, CHUNK, topics)
        truth = truths()[int(drifts and start >= rows // 2)]
        sums = np.concatenate(([0.0], np.cumsum(made.value * truth[made.word])))
        label, loss = drawn(rng, INTERCEPT + sums[made.indptr[1:]] - sums[made.indptr[:-1]])
        parts.append(made)
        labels.append(label)
        bayes.append(loss)
    indptr = np.concatenate(([0], np.cumsum(np.concatenate([np.diff(made.indptr) for made in parts]))))
    word, value = (np.concatenate([getattr(made, part) for made in parts]) for part in ("word", "value"))
    return hashed(indptr, word, value, np.concatenate(labels)), np.concatenate(bayes)


def numbers(drifts: bool, rows: int = 200_000) -> tuple[Batch, F64]:
    """Ten normal columns; all coefficients are redrawn midway."""
    rng = np.random.default_rng(11)
    truth = rng.normal(0.0, 1.2, (2, 10))
    x = rng.normal(size=(rows, 10))
    turned = drifts & (np.arange(rows) >= rows // 2)
    label, bayes = drawn(rng, np.where(turned, x @ truth[1], x @ truth[0]) - 0.5)
    return hashed(np.arange(0, 10 * rows + 1, 10), np.tile(np.arange(10), rows), x.ravel(), label), bayes


def clicks(drifts: str, rows: int = 300_000) -> tuple[Batch, F64]:
    """Six fields of up to 2,000 values. Midway: "rate", the log-odds of a click grow by 1.5; "names", two fields are renamed."""
    rng = np.random.default_rng(7)
    start = np.concatenate(([0], np.cumsum(FIELDS)))
    late = np.arange(rows) >= rows // 2
    margin, columns = np.where(late & (drifts == "rate"), -1.5, -3.0), []
    for field, size in enumerate(FIELDS):
        share = np.arange(1.0, size + 1) ** -1.1
        value = rng.choice(size, rows, p=share / share.sum())
        margin = margin + rng.normal(0.0, 0.8, size)[value]
        columns.append(value + start[field] + int(start[-1]) * (late & (drifts == "names") & (field in (2, 3))))
    label, bayes = drawn(rng, margin)
    name = np.stack(columns, axis=1).ravel().astype(np.int64)
    return hashed(np.arange(0, 6 * rows + 1, 6), name, np.ones(6 * rows), label), bayes


def real(stream: Stream) -> Made:
    """A public stream in the order of its file."""
    batch, _ = encode(stream)
    return Made(batch, 0, np.zeros(batch.n), None)


def kddcup() -> Stream:
    """Connections: attack or not, in the order of the file."""
    file = "kddcup99_10pct.csv.gz"
    return Stream("kddcup99", NDJSON, table_rows(file, last_column(file), "normal."), "")


DRIFTING: Final[dict[str, Callable[[], Made]]] = {
    "texts": lambda: Made(*_midway(texts(True)), texts(False)),
    "numbers": lambda: Made(*_midway(numbers(True)), numbers(False)),
    "click rate": lambda: Made(*_midway(clicks("rate")), clicks("")),
    "renamed fields": lambda: Made(*_midway(clicks("names")), clicks("")),
    "elec2": lambda: real(electricity()),
    "kddcup99": lambda: real(kddcup()),
}
STEADY: Final[dict[str, Callable[[], tuple[Batch, F64]]]] = {
    "texts": lambda: texts(False),
    "numbers": lambda: numbers(False, 1_000_000),
    "clicks": lambda: clicks("", 1_000_000),
}


def _midway(made: tuple[Batch, F64]) -> tuple[Batch, int, F64]:
    return made[0], made[0].n // 2, made[1]


def run(config: LearnerConfig, batch: Batch, keep: float | None) -> Run:
    """One pass, test then train. keep: what is kept of the past after a costly alarm; None for all; 0 for a new learner."""
    learner, detector, margins = build_learner(config, BITS), DriftDetector("logistic", REST), []
    alarms: list[Alarm] = []
    for start in range(0, batch.n, STEP):
        rows = slice_rows(batch, start, min(start + STEP, batch.n))
        stepped = learner.step(rows)
        margins.append(stepped.margin)
        detector.observe([rows], (stepped.margin, stepped.label, stepped.weight), stepped.refused, start + 1)
        if (alarm := detector.unanswered) is not None:
            detector.answer(alarm.seq)
            alarms.append(alarm)
            if keep is None or not alarm.is_costly:
                continue
            if keep == 0.0:
                learner = build_learner(config, BITS)
            else:
                forget(spec_of(config), learner, keep)
    return Run(losses("logistic", np.concatenate(margins), batch.label, False), alarms)


def drifting_rows(name: str, made: Made) -> list[list[str]]:
    """A line for each learner: alarms, delay, and the loss after the drift with each answer."""
    lines = []
    for kind, config in LEARNERS.items():
        noted, forgot, begun = (run(config, made.batch, keep) for keep in (None, KEEP, 0.0))
        after = [one.loss[made.at :].mean() for one in (noted, forgot, begun)]
        first = next((alarm for alarm in forgot.alarms if alarm.seq > made.at), None)
        owed = [""] * 5
        if made.steady is not None:
            steady = run(config, made.steady[0], None).loss[made.at :].mean() - made.steady[1][made.at :].mean()
            excess = [loss - made.bayes[made.at :].mean() - steady for loss in after]
            owed = [f"{one:.4f}" for one in excess] + [f"{one / excess[0]:.2f}" for one in excess[1:]]
        delay = "" if first is None or made.steady is None else f"{first.seq - made.at:,}"
        signals = "" if first is None else f"{first.signal}{'' if first.is_costly else ', not costly'}"
        lines.append([f"{name}, {kind}", str(len(forgot.alarms)), signals, delay, *(f"{one:.4f}" for one in after), *owed])
    return lines


def text(progress: Progress) -> str:
    """The report."""
    drifting, steady = [], []
    for name, make in progress.track(list(DRIFTING.items()), description="drifting"):
        drifting += drifting_rows(name, make())
    for name, quiet in progress.track(list(STEADY.items()), description="steady"):
        batch, _ = quiet()
        for kind, config in LEARNERS.items():
            noted, forgot = run(config, batch, None), run(config, batch, KEEP)
            worse = forgot.loss.mean() / noted.loss.mean() - 1.0
            millions = batch.n / 1e6
            counts = [f"{batch.n:,}", str(len(noted.alarms)), f"{len(noted.alarms) / millions:.2f}", f"{100.0 * worse:.2f} %"]
            steady.append([f"{name}, {kind}", *counts])
    heads = ["stream, learner", "alarms", "first after the drift", "delay", "loss, note", "loss, forget", "loss, begin again"]
    heads += ["excess owed to the drift, note", "forget", "begin again", "forget : note", "begin again : note"]
    return (
        "# Detecting drift, and forgetting after an alarm\n\n"
        "Learners with their defaults, one pass, test then train, 100 events at a time. *note*: nothing follows an alarm.\n"
        f"*forget*: the learner keeps {KEEP:g} of its past if the loss has risen. *begin again*: a new learner takes its place;\n"
        "it shows what the new truth costs a learner that has nothing to unlearn. Losses are means of the log loss from the\n"
        "drift to the end; of the public streams, of the whole. *Excess owed to the drift*: loss less that of the truth, less\n"
        "the same difference on the same stream without drift. *Delay*: events from the drift to the alarm.\n\n"
        "- *texts*: 200,000, half of the informative coefficients redrawn at 100,000 ([the same stream](drift.md)). *numbers*:\n"
        "  200,000 rows of ten columns, all coefficients redrawn. *click rate*: 300,000 rows of six fields, log-odds + 1.5 at\n"
        "  150,000. *renamed fields*: two of the six fields have new names. *elec2*, *kddcup99*: the order of the file, values\n"
        "  as they are; those of kddcup99 are far larger than taylor_sketch and ftrl_proximal can learn from.\n\n"
        + report.table(heads, drifting)
        + "\nStreams that do not drift, but improve as the learner does:\n\n"
        + report.table(["stream, learner", "events", "alarms", "a million", "loss with forget"], steady)
        + "\n"
        + report.conditions("python -m tests.bench.drift_answers", ["numpy"])
    )


def main() -> int:
    arguments = report.arguments("The drift detector and forgetting.").parse_args()
    with Progress(console=Console(stderr=True)) as progress:
        made = text(progress)
    report.publish("drift_answers", made, write=not arguments.no_write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
