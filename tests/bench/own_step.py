"""The default learner and one step by itself, beside the best of a grid of settings of Vowpal Wabbit and river.

One pass, test then train, over the first rows of public streams. The best of the grid is chosen in hindsight, for each stream.

Needs RIATA_SHARED, and `make vw`. Takes about twenty minutes.
"""

from __future__ import annotations

import csv
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
from river import linear_model, optim, preprocessing
from river.optim.base import Optimizer

from riata.base.arrays import F64
from riata.learn.registry import build_learner
from riata.learn.truncated_config import TruncatedGradientConfig
from riata.maths.hashing import NUMBER
from riata.native.reading import hash_of
from riata.wire.batch import Batch, slice_rows
from tests.bench import report
from tests.bench.peers import PROBABILITY_MIN, log_loss
from tests.bench.sketch_runs import write_csv
from tests.bench.streams import ASIDE, HELD_OUT, STREAMS, Event, Stream

VW: Final = Path(__file__).resolve().parents[2] / ".vw" / "vw"
ROWS: Final = 10_000
RIVER_FEATURES_MAX: Final = 1_000  # of a stream: some of its optimisers visit every weight in each row
BITS: Final = 22
HASH_SHIFT: Final = 32
HEADS: Final = (
    "streams", "stream", "base rate", "one step", "default", "best peer", "best setting", "one / best", "default / best",
    "one, µs a row", "default, µs a row", "largest share",
)  # fmt: skip
RATIOS, ONE_US, DEFAULT_US = 6, 8, 9  # cells of a line: the ratio of one step, before that of the default; times
ONE: Final = TruncatedGradientConfig(mixed=False, shapes="off", bounded=False)
WORSE: Final = 1.02  # times the loss of the best peer

VW_GRID: Final = (
    *(f"-l {rate:g}{more}" for rate in (0.1, 0.5, 1.5, 5, 15) for more in ("", " --power_t 0.3", " --l1 1e-5")),
    *(f"--ftrl --ftrl_alpha {alpha:g}" for alpha in (0.02, 0.1, 0.5, 2)),
    "--coin",
)
RIVER_GRID: Final = {
    f"{kind.__name__}({rate:g})": (kind, rate)
    for kind, rate in (
        (optim.SGD, 0.1),
        (optim.AdaGrad, 0.3),
        (optim.Adam, 0.003),
        (optim.Adam, 0.03),
        (optim.FTRLProximal, 0.1),
    )
}


def first(stream: Stream) -> list[Event]:
    return stream.events[:ROWS]


def vw_losses(events: list[Event], label: F64) -> dict[str, float]:
    """Log loss of each setting of Vowpal Wabbit."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        rows, margins = Path(folder) / "rows.vw", Path(folder) / "margins"
        rows.write_text("".join(event.vw() + "\n" for event in events), encoding="utf-8")
        for options in VW_GRID:
            where = ["-d", str(rows), "-p", str(margins), "-b", str(BITS)]
            subprocess.run([str(VW), "--quiet", "--loss_function", "logistic", *where, *options.split()], check=True)
            margin = np.array([float(line.split()[0]) for line in margins.read_text().splitlines()])
            found[f"VW {options}"] = log_loss(margin, label) if np.isfinite(margin).all() else math.inf
    return found


def river_loss(events: list[Event], label: F64, optimizer: Optimizer, scaled: bool) -> float:
    """Log loss of river's logistic regression; infinite if it leaves the finite numbers."""
    model = linear_model.LogisticRegression(optimizer=optimizer)
    pipeline = preprocessing.StandardScaler() | model if scaled else model
    margin = []
    for event in events:
        row = event.river()
        probability = pipeline.predict_proba_one(row).get(True, 0.5)
        if math.isnan(probability):
            return math.inf
        probability = min(max(probability, PROBABILITY_MIN), 1.0 - PROBABILITY_MIN)
        margin.append(math.log(probability / (1.0 - probability)))
        pipeline.learn_one(row, bool(event.label))
    return log_loss(np.array(margin), label)


def river_losses(events: list[Event], label: F64) -> dict[str, float]:
    """Log loss of each setting of river, with its scaler and without."""
    return {
        f"river {name}{', scaled' if scaled else ''}": river_loss(events, label, kind(rate), scaled)
        for name, (kind, rate) in RIVER_GRID.items()
        for scaled in (False, True)
    }


def encode(stream: Stream) -> tuple[Batch, int]:
    """Hash the names of a stream's events; a row's colliding features add up."""
    hashes: dict[str, int] = {}
    indptr, hash_, value = [0], [], []
    for event in stream.events:
        row: dict[int, float] = {}
        for name, x in event.pairs:
            if name not in hashes:
                hashes[name] = hash_of(name.encode(), 0, NUMBER) >> HASH_SHIFT
            row[hashes[name]] = row.get(hashes[name], 0.0) + x
        for key in sorted(row):
            hash_.append(key)
            value.append(row[key])
        indptr.append(len(hash_))
    n = stream.rows
    batch = Batch(
        indptr=np.array(indptr, dtype=np.int64),
        hash=np.array(hash_, dtype=np.uint32),
        value=np.array(value, dtype=np.float64),
        label=np.array([event.label for event in stream.events], dtype=np.float64),
        weight=np.ones(n),
        event_id=np.zeros((n, 16), dtype=np.uint8),
        has_id=np.zeros(n, dtype=np.bool_),
    )
    return batch, len(hashes)


def base_loss(label: F64) -> float:
    """Log loss of a predictor that knows the labels before."""
    before = np.arange(len(label))
    rate = (np.cumsum(label) - label + 0.5) / (before + 1.0)
    return float(-np.log(np.where(label == 1.0, rate, 1.0 - rate)).mean())


def own(batch: Batch, config: TruncatedGradientConfig) -> tuple[float, float, str]:
    """A learner over the first rows: its progressive loss, microseconds of processor time a row, largest share at the end."""
    rows, times = slice_rows(batch, 0, min(ROWS, batch.n)), []
    for _ in range(3):
        learner = build_learner(config, BITS)
        start = time.thread_time()
        margin = learner.step(rows).answered
        times.append(time.thread_time() - start)
    shares = learner.chosen()
    share, eta = max(zip(shares["share"], shares["eta"], strict=True)) if shares else (0.0, 0.0)
    return log_loss(margin, rows.label), 1e6 * min(times) / rows.n, f"{eta:.3g}: {share:.2f}"


def best_of(stream: Stream, features: int, label: F64) -> tuple[str, float]:
    """The best setting of the peers in hindsight, and its loss."""
    events = first(stream)
    river = river_losses(events, label) if features <= RIVER_FEATURES_MAX else {}
    return min({**vw_losses(events, label), **river}.items(), key=lambda pair: pair[1])


def line_of(name: str, stream: Stream, known: tuple[str, float] | None) -> list[str]:
    """The cells of one stream, after its name. known: the best setting of the peers and its loss, if they were measured before"""
    batch, features = encode(stream)
    (one, one_us, _), (default, default_us, share) = (own(batch, config) for config in (ONE, TruncatedGradientConfig()))
    label = batch.label[:ROWS]
    setting, best = known or best_of(stream, features, label)
    ratios = [f"{loss / best:.3f}" for loss in (one, default)]
    cells = [name, f"{base_loss(label):.4f}", f"{one:.4f}", f"{default:.4f}", f"{best:.4f}", setting, *ratios]
    return [*cells, f"{one_us:.1f}", f"{default_us:.1f}", share]


def measured(streams: dict[str, Callable[[], Stream]], done: Path, known: dict[str, tuple[str, float]]) -> list[list[str]]:
    """A line for each stream. Lines are kept in the file `done`."""
    lines: dict[str, list[str]] = json.loads(done.read_text()) if done.exists() else {}
    for name, read in streams.items():
        if name not in lines:
            lines[name] = line_of(name, read(), known.get(name))
            done.write_text(json.dumps(lines))
            sys.stderr.write(f"{lines[name]}\n")
    return [lines[name] for name in streams]


def said(lines: list[list[str]]) -> str:
    """The losses over those of the best peer, and where the default is worse."""
    ratios = np.array([[float(cell) for cell in line[RATIOS : RATIOS + 2]] for line in lines]).T
    worse = [f"{line[0]} {line[RATIOS + 1]}" for line in lines if float(line[RATIOS + 1]) > WORSE]
    one, default = (
        f"median {np.median(values):.3f}, at most {values.max():.3f}, above {WORSE} on {sum(values > WORSE)} of {len(values)}"
        for values in ratios
    )
    return f"one step {one}; default {default} ({', '.join(worse)})"


def page(seen: list[list[str]], aside: list[list[str]], conditions: str) -> str:
    """The report, whose lines are in a file beside it."""
    costs = np.array([float(line[DEFAULT_US]) / float(line[ONE_US]) for line in (*seen, *aside)])
    return (
        "# The default needs no step size\n\n"
        f"Progressive log loss over the first {ROWS:,} rows of the default (three steps, second order, [shapes](shapes.md), "
        "bounded margins) and of *one step* (none of them), as a multiple of that of the best peer: the best, chosen for each "
        "stream in "
        "hindsight, of "
        f"{len(VW_GRID)} settings of Vowpal Wabbit and, on streams of up to {RIVER_FEATURES_MAX:,} features, "
        f"{2 * len(RIVER_GRID)} of river.\n\n"
        f"- {len(seen)} streams on which the steps were chosen: {said(seen)}.\n"
        f"- {len(aside)} streams kept aside, named beforehand: {said(aside)}.\n\n"
        f"The default takes {np.median(costs):.1f} times the processor time of one step in the median, at most "
        f"{costs.max():.1f}: of learning rows that are ready in memory, the least of three runs.\n\n"
        "[own_step.csv](own_step.csv) has each stream.\n\n" + conditions
    )


def known_peers() -> dict[str, tuple[str, float]]:
    """By stream the best setting of the peers and its loss, from the table of the last run."""
    with (report.EVIDENCE / "own_step.csv").open(encoding="utf-8", newline="") as lines:
        return {line["stream"]: (line["best setting"], float(line["best peer"])) for line in csv.DictReader(lines)}


def main() -> int:
    """Run the grids, and write the page and its table."""
    parser = report.arguments(__doc__ or "")
    parser.add_argument("--done", type=Path, help="file with the lines of streams that an interrupted run has measured")
    parser.add_argument("--known-peers", action="store_true", help="take the losses of the peers from the table of the last run")
    asked = parser.parse_args()
    known = known_peers() if asked.known_peers else {}
    with tempfile.TemporaryDirectory() as folder:
        done = asked.done or Path(folder) / "done.json"
        seen, aside = (measured(streams, done, known) for streams in ({**STREAMS, **HELD_OUT}, ASIDE))
    conditions = report.conditions("python -m tests.bench.own_step", ["numpy", "vowpalwabbit", "river"])
    if known:
        conditions += "The losses of the peers are those of an earlier run on the same rows.\n"
    report.publish("own_step", page(seen, aside, conditions), write=not asked.no_write)
    if not asked.no_write:
        write_csv("own_step", HEADS, [*(["seen", *line] for line in seen), *(["aside", *line] for line in aside)])
    return 0


if __name__ == "__main__":
    sys.exit(main())
