"""The default learner with shapes and without: log loss and cost of a row, over one pass of public streams.

Needs RIATA_SHARED. Takes about ten minutes.
"""

from __future__ import annotations

import time
from typing import Any, Final

import numpy as np

from riata.base.arrays import F64
from riata.learn.registry import build_learner
from riata.learn.truncated_config import TruncatedGradientConfig
from riata.wire.batch import Batch, slice_rows
from tests.bench import report
from tests.bench.own_step import BITS, encode
from tests.bench.peers import log_loss
from tests.bench.sketch_runs import write_csv
from tests.bench.streams import ASIDE, HELD_OUT, STREAMS

BODY: Final = 1000  # rows learnt at a time
STEADY: Final = 8192  # rows after which intervals are found seldom: the cost of a row is that of the rest
ROUNDS: Final = 3


def learn(batch: Batch, shapes: str) -> tuple[Any, F64, float, float]:
    """A learner after all rows, the margins before each, and microseconds a row: of all, and of those after STEADY."""
    whole, rest = [], []
    for _ in range(ROUNDS):
        learner: Any = build_learner(TruncatedGradientConfig(shapes=shapes), BITS)  # type: ignore[arg-type]
        margins, spent = [], []
        for start in range(0, batch.n, BODY):
            begin = time.thread_time()
            margins.append(learner.step(slice_rows(batch, start, min(batch.n, start + BODY))).answered)
            spent.append(time.thread_time() - begin)
        late = spent[STEADY // BODY + 1 :]
        whole.append(1e6 * sum(spent) / batch.n)
        rest.append(1e6 * sum(late) / (BODY * len(late)) if late else float("nan"))
    return learner, np.concatenate(margins), min(whole), min(rest)


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


def main() -> int:
    """Run all streams, and write the page."""
    asked = report.arguments(__doc__ or "").parse_args()
    lines = [line_of(name, encode(read())[0]) for name, read in {**STREAMS, **HELD_OUT, **ASIDE}.items()]
    lines += [line_of(f"linear, {columns} columns (made up)", linear(columns, 20_000)) for columns in (10, 200)]
    heads = ["stream", "rows", "off", "auto", "ratio", "columns", "pairs", "off, µs", "auto, µs", "ratio of late rows"]
    shaped = sorted(float(line[4]) for line in lines if line[5] != "-")
    text = (
        "# Shapes: loss and cost\n\n"
        "Progressive log loss over one pass of the default learner with `shapes` off and auto, and processor time of a row that "
        f"is ready in memory (the least of {ROUNDS} runs). Finding intervals takes 5 to 30 ms, at row 128 and whenever the "
        f"number of rows has doubled; *late rows* are those after row {STEADY:,}.\n\n"
        f"Of {len(lines)} streams {len(shaped)} have shapes: ratio of losses {shaped[0]:.3f} to {shaped[-1]:.3f}, median "
        f"{np.median(shaped):.3f}. The constants were chosen on magic04, churn, adult, spambase, elec2 and made-up streams.\n\n"
        "[shapes.csv](shapes.csv) has all streams. Those with shapes:\n\n"
        + report.table(heads, [line for line in lines if line[5] != "-"])
        + report.conditions("python -m tests.bench.shapes", ["numpy"])
    )
    report.publish("shapes", text, write=not asked.no_write)
    if not asked.no_write:
        write_csv("shapes", heads, lines)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
