"""Twelve hard streams, and every learner on each: progressive log loss over that of the base rate. Then public streams, with
values as they are sent and standardised.

The streams are synthetic: ten numbers and three categories a row, labels drawn from a logistic model of some of them, and one
difficulty each. The base rate is that of all labels before, so a learner above 1 would better not be asked.

Takes about five minutes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np

from riata.base.arrays import F64, U32
from riata.learn.ftrl_proximal.config import FtrlProximalConfig
from riata.learn.registry import build_learner
from riata.learn.taylor_sketch.config import TaylorSketchConfig
from riata.learn.truncated_gradient.config import TruncatedGradientConfig
from riata.wire.batch import Batch, slice_rows
from tests.bench import report
from tests.bench.columns import base_loss
from tests.bench.defaults import encode
from tests.bench.held_out import HELD_OUT
from tests.bench.peers import log_loss
from tests.bench.streams import STREAMS as PUBLIC_STREAMS

BITS: Final = 22
ROWS: Final = 20_000
NUMBERS: Final = 10
CATEGORIES: Final = 3
LEVELS: Final = 12
LEARNERS: Final[dict[str, Any]] = {
    "truncated gradient": TruncatedGradientConfig(),
    "FTRL-Proximal": FtrlProximalConfig(),
    "hybrid": TaylorSketchConfig(gamma=1.0),
    "diag": TaylorSketchConfig(mode="diag", gamma=1.0),
    "strict": TaylorSketchConfig(mode="strict", k=100, gamma=1.0),
    "exact": TaylorSketchConfig(mode="exact", gamma=1.0),
}
RARE: Final = "rare: 0.2 % positive"
REVERSED: Final = "labels reversed half-way"

PUBLIC: Final = ("sms_spam", "reuters_earn", "a9a", "uci_spambase", "churn", "magic04", "adult", "criteo", "elec2")
PUBLIC_LEARNERS: Final = ("FTRL-Proximal", "hybrid", "strict")
TEXTS: Final = 0.1  # gamma that the guide advises for texts

Made = tuple[F64, list[dict[int, float]], F64]  # numbers, other features by number, labels


def _hash(feature: int) -> int:
    return (feature * 0x9E3779B1 + 0x7F4A7C15) & 0xFFFFFFFF


def batch_of(numbers: F64, others: list[dict[int, float]], label: F64) -> Batch:
    """Rows as the readers make them: hashed, sorted, without zeros."""
    indptr, hashes, values = [0], [], []
    for line, other in zip(numbers.tolist(), others, strict=True):
        row = {_hash(j): x for j, x in enumerate(line) if x != 0.0} | {_hash(name): x for name, x in other.items()}
        for name in sorted(row):
            hashes.append(name)
            values.append(row[name])
        indptr.append(len(hashes))
    n = len(label)
    found: U32 = np.array(hashes, np.uint32)
    return Batch(
        np.array(indptr, np.int64), found, np.array(values), label, np.ones(n), np.zeros((n, 16), np.uint8), np.zeros(n, np.bool_)
    )


def plain(seed: int = 16, intercept: float = -0.5) -> Made:
    """Numbers with mean 0 and spread 1, three categories, and labels of a logistic model of half of them."""
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(ROWS, NUMBERS))
    level = rng.integers(0, LEVELS, (ROWS, CATEGORIES))
    effect = rng.normal(size=(CATEGORIES, LEVELS))
    slope = np.where(np.arange(NUMBERS) < NUMBERS // 2, 0.5, 0.0)
    margin = intercept + numbers @ slope + 0.6 * effect[np.arange(CATEGORIES), level].sum(axis=1)
    label = (rng.random(ROWS) < 1.0 / (1.0 + np.exp(-margin))).astype(np.float64)
    others = [{1000 * (c + 1) + int(one): 1.0 for c, one in enumerate(row)} for row in level]
    return numbers, others, label


def zeros_first() -> Made:
    numbers, others, label = plain()
    label[:5000] = 0.0
    return numbers, others, label


def reversed_labels() -> Made:
    numbers, others, label = plain()
    label[ROWS // 2 :] = 1.0 - label[ROWS // 2 :]
    return numbers, others, label


def flipped() -> Made:
    numbers, others, label = plain()
    wrong = np.random.default_rng(1).random(ROWS) < 0.1
    return numbers, others, np.where(wrong, 1.0 - label, label)


def spikes() -> Made:
    numbers, others, label = plain()
    numbers[::500, 0] = 1e6
    return numbers, others, label


def repeated() -> Made:
    numbers, others, label = plain()
    again = [{10_000 * copy + name: x for copy in range(10) for name, x in row.items()} for row in others]
    return np.tile(numbers, 10), again, label


def fresh_ids() -> Made:
    numbers, others, label = plain()
    return numbers, [{**row, 1_000_000 + i: 1.0} for i, row in enumerate(others)], label


def rare() -> Made:
    return plain(intercept=-7.6)


def constant() -> Made:
    numbers, others, label = plain()
    return np.column_stack([numbers, np.full(ROWS, 1234.5)]), others, label


def time_stamp() -> Made:
    numbers, others, label = plain()
    return np.column_stack([numbers, 5e5 + np.arange(ROWS)]), others, label


def offsets() -> Made:
    numbers, others, label = plain()
    return numbers + 50.0, others, label


def lognormal() -> Made:
    numbers, others, label = plain()
    return np.exp(1.5 * numbers), others, label


def correlated() -> Made:
    numbers, others, label = plain()
    near = numbers[:, :1] + np.sqrt(1.0 - 0.999**2) * np.random.default_rng(2).normal(size=(ROWS, NUMBERS - 1))
    return np.column_stack([numbers[:, :1], near]), others, label


STREAMS: Final[dict[str, Callable[[], Made]]] = {
    "5,000 zeros first": zeros_first,
    REVERSED: reversed_labels,
    "10 % of the labels flipped": flipped,
    "1e6 in one row of 500": spikes,
    "each feature ten times": repeated,
    "a fresh id in each row": fresh_ids,
    RARE: rare,
    "a constant column": constant,
    "a slow time stamp": time_stamp,
    "offsets of 50 spreads": offsets,
    "lognormal columns": lognormal,
    "correlation 0.999": correlated,
}


def config_for(name: str, config: Any) -> Any:
    """The advised settings: the defaults, except where the guide to learners and the warnings of a model say otherwise."""
    if isinstance(config, TaylorSketchConfig):
        return replace(config, rho=0.999) if name == REVERSED else config
    return replace(config, calibrated=False) if name == RARE and isinstance(config, TruncatedGradientConfig) else config


def line(name: str, make: Callable[[], Made]) -> list[str]:
    """The cells of one stream."""
    batch = batch_of(*make())
    base = base_loss(batch.label)
    cells = []
    for config in LEARNERS.values():
        margin = build_learner(config_for(name, config), BITS).step(batch).margin
        probability = 1.0 / (1.0 + np.exp(-np.clip(margin, -50.0, 50.0)))
        cells.append(f"{log_loss(margin, batch.label) / base:.3f} ({probability.sum() / batch.label.sum():.2f})")
    return [name, f"{batch.label.mean():.4f}", f"{base:.4f}", *cells]


def public_line(name: str) -> list[str]:
    """The cells of one public stream: log loss of the first rows, with values as they are sent and standardised."""
    batch, _order = encode({**PUBLIC_STREAMS, **HELD_OUT}[name]())
    batch = slice_rows(batch, 0, min(batch.n, ROWS))
    cells = []
    for learner in PUBLIC_LEARNERS:
        config = LEARNERS[learner]
        if isinstance(config, TaylorSketchConfig) and name in ("sms_spam", "reuters_earn"):
            config = replace(config, gamma=TEXTS)
        for standardised in (False, True):
            margin = build_learner(replace(config, standardised=standardised), BITS).step(batch).margin
            cells.append(f"{log_loss(margin, batch.label):.4f}")
    return [name, f"{base_loss(batch.label):.4f}", *cells]


def main() -> int:
    """Make the tables."""
    options = report.arguments(__doc__ or "").parse_args()
    public = [public_line(name) for name in PUBLIC]
    columns = [f"{learner}{how}" for learner in PUBLIC_LEARNERS for how in (", as sent", ", standardised")]
    rows = []
    for name, make in STREAMS.items():
        rows.append(line(name, make))
        sys.stderr.write(f"{rows[-1]}\n")
    text = (
        "# Twelve hard streams\n\n"
        f"{ROWS:,} rows each. Progressive log loss over that of the base rate of the labels before; in brackets the sum of the "
        "predictions over the sum of the labels. Settings are the defaults and what the guide advises: gamma = 1 for sketches, "
        "k = 100 for strict, rho = 0.999 for sketches where labels are reversed, calibrated = false for truncated gradient on "
        "the rare label.\n\n" + report.table(["stream", "positive", "base rate", *LEARNERS], rows) + "\n"
        f"Progressive log loss of the first {ROWS:,} rows of public streams, with values as they are sent, "
        "`\"standardised\": false`, and standardised; gamma = 0.1 for the two texts.\n\n"
        + report.table(["stream", "base rate", *columns], public) + "\n"
        + report.conditions("python -m tests.bench.hard", ["numpy"])
    )  # fmt: skip
    report.publish("hard", text, write=not options.no_write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
