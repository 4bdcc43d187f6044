"""Truncated gradient with centred columns and calibrated margins, on sixteen public streams and a synthetic one.

One pass, test then train; both are on by default. Five of the streams are shown again with each numeric column that is in nine
rows of ten moved by five of its standard deviations, and so with one of its values in twenty left out; three with their
indicators in other units. The learner runs in this process over the hashed features that the service
would give it.

Needs RIATA_SHARED. Takes about two minutes.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import Final

import numpy as np

from riata.base.arrays import F64
from riata.learn.truncated_gradient.learner import TruncatedGradient, TruncatedGradientConfig
from riata.wire.batch import Batch
from tests.bench import report
from tests.bench.defaults import BITS, encode
from tests.bench.held_out import HELD_OUT
from tests.bench.peers import log_loss
from tests.bench.streams import STREAMS

PLAIN: Final = TruncatedGradientConfig(centred=False, calibrated=False)
CONFIGS: Final = {
    "neither": PLAIN,
    "centred": replace(PLAIN, centred=True),
    "calibrated": replace(PLAIN, calibrated=True),
    "both": replace(PLAIN, centred=True, calibrated=True),
}
MOVED: Final = ("uci_spambase", "elec2", "churn", "magic04", "adult")
INDICATORS: Final = ("a9a", "ipinyou", "mushrooms")
SPREADS: Final = 5.0
LEFT_OUT: Final = 0.05
COMMON: Final = 0.9
RUNS: Final = 3
CELLS: Final = 20


def moved(batch: Batch) -> Batch:
    """The same rows with the columns that are in most rows, and have more than three values, moved."""
    value = batch.value.copy()
    for name in np.unique(batch.hash):
        inside = batch.hash == name
        if inside.sum() > COMMON * batch.n and len(np.unique(value[inside])) > 3:
            value[inside] += SPREADS * value[inside].std()
    return replace(batch, value=value)


def left_out(batch: Batch) -> Batch:
    """The same rows without some of the values of the features that are in most rows."""
    names, counts = np.unique(batch.hash, return_counts=True)
    common = np.isin(batch.hash, names[counts > COMMON * batch.n])
    kept = ~common | (np.random.default_rng(1).random(batch.nnz) >= LEFT_OUT)
    indptr = np.concatenate(([0], np.cumsum(kept)))[batch.indptr]
    return replace(batch, indptr=indptr, hash=batch.hash[kept], value=batch.value[kept])


def calibration_error(margin: F64, label: F64) -> float:
    """The expected calibration error of the second half, in cells of equal width."""
    half = len(label) // 2
    probability = 1.0 / (1.0 + np.exp(-np.clip(margin[half:], -50.0, 50.0)))
    cell = np.minimum((probability * CELLS).astype(np.int64), CELLS - 1)
    return float(abs(np.bincount(cell, probability - label[half:], CELLS)).sum() / len(probability))


def base_loss(label: F64) -> float:
    """Log loss of a predictor that knows the labels before."""
    before = np.arange(len(label))
    rate = (np.cumsum(label) - label + 0.5) / (before + 1.0)
    return float(-np.log(np.where(label == 1.0, rate, 1.0 - rate)).mean())


def line(name: str, batch: Batch) -> list[str]:
    """The cells of one stream: losses, calibration errors, and the time of a row."""
    margins: dict[str, F64] = {}
    times = dict.fromkeys(CONFIGS, np.inf)
    for _ in range(RUNS):
        for kind, config in CONFIGS.items():
            learner = TruncatedGradient(config, BITS)
            start = time.thread_time()
            margins[kind] = learner.step(batch).margin
            times[kind] = min(times[kind], (time.thread_time() - start) / batch.n)
    losses = {kind: log_loss(margin, batch.label) for kind, margin in margins.items()}
    errors = [calibration_error(margins[kind], batch.label) for kind in ("neither", "both")]
    return [
        name,
        f"{base_loss(batch.label):.4f}",
        *(f"{loss:.4f}" for loss in losses.values()),
        f"{losses['both'] / losses['neither']:.3f}",
        *(f"{error:.3f}" for error in errors),
        f"{times['both'] / times['neither']:.2f}",
    ]


def main() -> int:
    """Make the table."""
    options = report.arguments(__doc__ or "").parse_args()
    rows = []
    for name, read in {**STREAMS, **HELD_OUT}.items():
        batch, _ = encode(read())
        rows.append(line(name, batch))
        if name in MOVED:
            rows.append(line(f"{name}, moved", moved(batch)))
            rows.append(line(f"{name}, moved, with gaps", left_out(moved(batch))))
        if name in INDICATORS:
            rows.append(line(f"{name}, halved", replace(batch, value=0.5 * batch.value)))
        sys.stderr.write(f"{rows[-1]}\n")
    heads = ["stream", "base rate", *CONFIGS, "both / neither", "error, neither", "error, both", "time, both / neither"]
    text = (
        "# Centred columns and calibrated margins\n\n"
        "Progressive log loss of truncated gradient, and the expected calibration error of the second half in 20 cells. *moved*: "
        "each numeric column in nine rows of ten is moved by five of its standard deviations; *with gaps*: one of its values in "
        "twenty is left out too, so that it is zero there. *halved*: indicators are 0.5 in place of 1. Times are processor time, "
        "the least of three passes.\n\n" + report.table(heads, rows) + "\n"
        + report.conditions("python -m tests.bench.columns", ["numpy"])
    )  # fmt: skip
    report.publish("columns", text, write=not options.no_write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
