"""The default learner with shapes and without: log loss and cost of a row, over one pass of public streams; with several classes
too; and its accuracy beside that of forests of river.

Needs RIATA_SHARED. Takes about half an hour.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice, product
from typing import Any, Final

import numpy as np
from river import datasets, forest
from sklearn.datasets import load_digits

from riata.base.arrays import F64
from riata.learn.registry import build_learner
from riata.learn.slot_table import HASH_BITS
from riata.learn.truncated_config import DeclaredShapes, TruncatedGradientConfig
from riata.maths.hashing import NUMBER
from riata.maths.links import LINKS, class_probabilities
from riata.native.reading import hash_of
from riata.wire.batch import Batch, slice_rows
from tests.bench import report
from tests.bench.own_step import BITS, encode
from tests.bench.peers import log_loss
from tests.bench.sketch_runs import write_csv
from tests.bench.streams import ASIDE, HELD_OUT, NDJSON, STREAMS, Event, Stream, open_lines, shuffled
from tests.learn.test_limits import drawn

BODY: Final = 1000  # rows learnt at a time
STEADY: Final = 8192  # rows after which intervals are found seldom: the cost of a row is that of the rest
ROUNDS: Final = 3


def learn(batch: Batch, shapes: Any, classes: int = 2, far: Any = "auto") -> tuple[Any, F64, float, float]:
    """A learner after all rows, the margins before each, and microseconds a row: of all, and of those after STEADY."""
    whole, rest = [], []
    config = TruncatedGradientConfig(shapes=shapes, far_values=far)
    for _ in range(ROUNDS):
        learner: Any = build_learner(config, BITS, classes=None if classes == 2 else (classes, classes + 1))
        margins, spent = [], []
        for start in range(0, batch.n, BODY):
            begin = time.thread_time()
            margins.append(learner.step(slice_rows(batch, start, min(batch.n, start + BODY))).answered)
            spent.append(time.thread_time() - begin)
        late = spent[STEADY // BODY + 1 :]
        whole.append(1e6 * sum(spent) / batch.n)
        rest.append(1e6 * sum(late) / (BODY * len(late)) if late else float("nan"))
    return learner, np.concatenate(margins), min(whole), min(rest)


def stream_of(name: str, rows: Iterable[tuple[Mapping[str, Any], Any]], shuffle: bool = False) -> Stream:
    """A stream of rows of a table. Its labels are numbers of classes, in the order in which they come."""
    numbers: dict[Any, int] = {}
    events = [Event(numbers.setdefault(label, len(numbers)), tuple(pairs(row)), "") for row, label in rows]
    return Stream(name, NDJSON, shuffled(events) if shuffle else events, "")


def pairs(row: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """The features of a row of a table, without zeros."""
    for name, value in row.items():
        try:
            found = name, float(value)
        except ValueError:
            found = f"{name}={value}", 1.0
        if found[1] != 0.0:
            yield found


def attacks() -> Stream:
    """The first 60,000 connections of KDD Cup 99, with the kind of attack, in time order."""
    rows = islice(csv.DictReader(open_lines("kddcup99_10pct.csv.gz")), 60_000)
    return stream_of("KDD Cup 99", ((dict(list(row.items())[:-1]), list(row.values())[-1]) for row in rows))


def digits() -> Stream:
    """Written digits of scikit-learn: 64 numbers of 0 to 16."""
    found = load_digits()
    rows = ({f"pixel{at}": x for at, x in enumerate(row)} for row in found.data.tolist())
    return stream_of("digits", zip(rows, found.target.tolist(), strict=True), shuffle=True)


def segments() -> Stream:
    """Pieces of pictures of river: 18 numbers."""
    return stream_of("image segments", datasets.ImageSegments(), shuffle=True)


def prices() -> Iterator[tuple[dict[str, float], bool]]:
    """The rows of Elec2, in time order, as river takes them."""
    for row in csv.DictReader(open_lines("elec2.csv.gz")):
        *numbers, label = row
        yield {name: float(row[name]) for name in numbers}, row[label] == "1"


CLASS_HEADS: Final = (
    "stream", "rows", "classes", "log loss, off", "auto", "error, off", "auto", "off, µs", "auto, µs", "columns", "pairs",
)  # fmt: skip
RIVER_HEADS: Final = ("stream", "rows", "off", "auto", "ARF", "AMF", "off, µs", "auto, µs", "ARF, µs", "AMF, µs")
CLASSES: Final[tuple[Callable[[], Stream], ...]] = (attacks, digits, segments)
RIVER: Final[dict[str, Callable[[], Iterable[tuple[Mapping[str, Any], Any]]]]] = {
    "Bananas": datasets.Bananas,
    "Phishing": datasets.Phishing,
    "Elec2": lambda: prices(),
}
FORESTS: Final[dict[str, Callable[[], Any]]] = {
    "ARF": lambda: forest.ARFClassifier(seed=1),
    "AMF": lambda: forest.AMFClassifier(seed=1),
}


def class_line(stream: Stream) -> list[str]:
    """Log loss, error and cost of several classes."""
    batch, _ = encode(stream)
    classes, label = int(batch.label.max()) + 1, batch.label.astype(np.int64)
    cells = []
    for shapes in ("off", "auto"):  # the last learner is the one with shapes
        learner, margin, whole, _ = learn(batch, shapes, classes)
        probability, winner = class_probabilities(margin, LINKS["logistic"].code)
        loss = -np.log(np.maximum(probability[np.arange(batch.n), label], 1e-15)).mean()
        cells.append((f"{loss:.4f}", f"{np.mean(winner != label):.4f}", f"{whole:.1f}"))
    found = learner.weights().cells
    counts = ["-", "-"] if found is None else [str(len(found.column)), str(len(found.pair))]
    return [stream.name, f"{batch.n:,}", str(classes), *(cell for both in zip(*cells, strict=True) for cell in both), *counts]


def accuracy(make: Callable[[], Any], rows: list[tuple[Mapping[str, Any], Any]]) -> tuple[float, float]:
    """The accuracy of predictions before learning of a model of river, and microseconds a row."""
    model, right, begin = make(), 0, time.thread_time()
    for row, label in rows:
        right += bool(model.predict_one(row)) == label
        model.learn_one(row, label)
    return right / len(rows), 1e6 * (time.thread_time() - begin) / len(rows)


def river_line(name: str, rows: list[tuple[Mapping[str, Any], Any]]) -> list[str]:
    """Accuracy and cost of the default learner and of forests."""
    batch, _ = encode(stream_of(name, rows))
    cells = []
    for shapes in ("off", "auto"):
        _, margin, whole, _ = learn(batch, shapes)
        cells.append((float(np.mean((margin > 0.0) == (batch.label > 0.5))), whole))
    cells += [accuracy(make, rows) for make in FORESTS.values()]
    return [name, f"{batch.n:,}", *(f"{right:.4f}" for right, _ in cells), *(f"{spent:,.1f}" for _, spent in cells)]


def far_line(name: str, spoilt: str) -> list[str]:
    """Log loss of columns with far values over that of the clean ones, and cost of a row, without the search and with it."""
    cells, spent = [], []
    for middle in (0.0, 40.0):
        ratios: dict[str, list[float]] = {"off": [], "auto": []}
        for seed in range(FAR_SEEDS):
            clean, rows = (drawn(kind, FAR_ROWS, seed, middle) for kind in ("clean", spoilt))
            base = log_loss(learn(clean, "auto", far="off")[1], clean.label)
            for how in FAR:
                _, margin, whole, _ = learn(rows, "auto", far=how)
                ratios[how].append(log_loss(margin, rows.label) / base)
                spent.append((how, whole))
        cells += [f"{np.mean(ratios[how]):.3f}" for how in FAR]
    return [name, *cells, *(f"{np.median([whole for one, whole in spent if one == how]):.2f}" for how in FAR)]


def linear(columns: int, rows: int) -> Batch:
    """Normal columns, and labels with the probabilities of a linear model of them."""
    rng = np.random.default_rng(columns)
    x = rng.normal(size=(rows, columns))
    beta = 2.0 * rng.normal(size=columns) / np.sqrt(columns)
    label = (rng.random(rows) < 1.0 / (1.0 + np.exp(-x @ beta))).astype(np.float64)
    hashes = np.sort(rng.choice(2**32, columns, replace=False)).astype(np.uint32)
    nothing = np.zeros((rows, 16), np.uint8), np.zeros(rows, np.bool_)
    return Batch(np.arange(rows + 1) * columns, np.tile(hashes, rows), x.ravel(), label, np.ones(rows), *nothing)


def line_of(name: str, batch: Batch) -> list[str]:
    (_, off, off_us, off_rest), (learner, on, on_us, on_rest) = (learn(batch, shapes) for shapes in ("off", "auto"))
    without, shaped = log_loss(off, batch.label), log_loss(on, batch.label)
    shapes = learner.weights().shapes
    found = ["-", "-"] if shapes is None else [str(len(shapes.column)), str(len(shapes.pair))]
    rest = "-" if np.isnan(off_rest) else f"{on_rest / off_rest:.2f}"
    times = [f"{off_us:.1f}", f"{on_us:.1f}", rest]
    return [name, f"{batch.n:,}", f"{without:.4f}", f"{shaped:.4f}", f"{shaped / without:.3f}", *found, *times]


NAMED_HEADS: Final = ("stream", "auto", "the same pairs, named", "with indicators", "pairs")
NAMED: Final = {
    "churn": product(
        ("number_customer_service_calls", "total_day_minutes", "total_eve_minutes", "total_intl_calls", "total_intl_minutes"),
        ("international_plan=yes", "voice_mail_plan=yes"),
    ),
    "adult": product(
        ("age", "capital-gain", "capital-loss", "education-num", "hours-per-week"), ("marital-status=Married-civ-spouse",)
    ),
}


def named_line(name: str, stream: Stream, indicators: Iterable[tuple[str, str]]) -> list[str]:
    """Log loss with the pairs that are found, with these named from the first row on, and with pairs of indicators too."""
    batch, _ = encode(stream)
    names = {hash_of(name.encode(), 0, NUMBER) >> HASH_BITS: name for event in stream.events for name, _ in event.pairs}
    learner, auto, *_ = learn(batch, "auto")
    shapes = learner.weights().shapes
    found = [[names[hash_] for hash_ in shapes.column[pair].tolist()] for pair in shapes.pair]
    wanted = [DeclaredShapes.from_document({"pairs": pairs}, "shapes") for pairs in (found, [*found, *indicators])]
    losses = [auto, *(learn(batch, one)[1] for one in wanted)]
    return [name, *(f"{log_loss(margin, batch.label):.4f}" for margin in losses), str(len(wanted[-1].pairs or ()))]


FAR: Final = ("off", "auto")
FAR_SEEDS: Final = 4
FAR_ROWS: Final = 10_000
FAR_HEADS: Final = ("spoilt", "off, 0", "auto, 0", "off, 40", "auto, 40", "off, µs", "auto, µs")
SPOILT: Final = {
    "nothing": "clean",
    "one column: 999 in the first row": "first",
    "one column: 999 in 1 %": "0.01",
    "one column: 999 in 5 %": "0.05",
    "all columns: 999 in 5 %": "all0.05",
    "0.05 % of the values times 10,000": "outliers",
}


def far_text() -> str:
    """The part of the page about far values."""
    return (
        f"\n## Far values\n\nFour normal columns with means of 0 or 40, {FAR_ROWS:,} rows, means over {FAR_SEEDS} seeds: log "
        "loss over that of the clean rows, with `far_values` off and auto, and cost of a row.\n\n"
        + report.table(FAR_HEADS, [far_line(*one) for one in SPOILT.items()])
    )


def main() -> int:
    """Run all streams, and write the page."""
    asked = report.arguments(__doc__ or "").parse_args()
    lines = [line_of(name, encode(read())[0]) for name, read in {**STREAMS, **HELD_OUT, **ASIDE}.items()]
    lines += [line_of(f"linear, {columns} columns (made up)", linear(columns, 20_000)) for columns in (10, 200)]
    heads = ["stream", "rows", "off", "auto", "ratio", "columns", "pairs", "off, µs", "auto, µs", "ratio of late rows"]
    shaped = sorted(float(line[4]) for line in lines if line[5] != "-")
    several = [class_line(make()) for make in CLASSES]
    named = [named_line(name, {**STREAMS, **HELD_OUT}[name](), indicators) for name, indicators in NAMED.items()]
    beside = [river_line(name, list(make())) for name, make in RIVER.items()]
    text = (
        "# Shapes: loss and cost\n\n"
        "Progressive log loss over one pass of the default learner with `shapes` off and auto, and processor time of a row that "
        f"is ready in memory (the least of {ROUNDS} runs). *Late rows* are those after row {STEADY:,}.\n\n"
        f"Of {len(lines)} streams {len(shaped)} have shapes: ratio of losses {shaped[0]:.3f} to {shaped[-1]:.3f}, median "
        f"{np.median(shaped):.3f}. The constants were chosen on magic04, churn, adult, spambase, elec2 and made-up streams.\n\n"
        "[shapes.csv](shapes.csv) has all streams. Those with shapes:\n\n"
        + report.table(heads, [line for line in lines if line[5] != "-"])
        + "\n## Several classes\n\n"
        + report.table(CLASS_HEADS, several)
        + "\n## Named pairs\n\nLog loss with the pairs that are found, with the same named beforehand, and with indicators, "
        "chosen in hindsight: both plans of churn, `marital-status=Married-civ-spouse`.\n\n"
        + report.table(NAMED_HEADS, named)
        + "\n## Beside forests of river\n\nAccuracy of predictions before learning, one pass, and processor time of a row. ARF "
        "and AMF have river's defaults, and read dictionaries.\n\n"
        + report.table(RIVER_HEADS, beside)
        + far_text()
        + "\n"
        + report.conditions("python -m tests.bench.shapes", ["numpy"])
    )
    report.publish("shapes", text, write=not asked.no_write)
    if not asked.no_write:
        write_csv("shapes", heads, lines)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
