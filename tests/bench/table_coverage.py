"""Coverage of the standard errors of margins on raw tables, with labels drawn from known weights.

The truth is the logistic regression of a table's own labels, with a prior of variance 1 on each standardised column and margins
within 8. Labels are drawn from it, learnt, and the 95 % intervals of all rows are compared with it. Prints a table.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from typing import Any, Final

import numpy as np
from scipy.special import expit

from riata.base.arrays import F64
from riata.learn.registry import build_learner
from riata.learn.taylor_config import TaylorSketchConfig
from riata.predict.factory import make_model
from riata.predict.uncertainty import Covariance
from riata.wire.batch import Batch, join_batches
from riata.wire.encoder import EncoderConfig
from riata.wire.parse import Context, parse_examples
from tests.bench import report, streams
from tests.learn.paper_design import ORIGIN, coverage

ROWS: Final = 20_000
SEEDS: Final = 3
TABLES: Final[dict[str, Callable[[], list[streams.Event]]]] = {
    "MAGIC": lambda: streams.shuffled(streams.table_rows("uci_magic04.csv.gz", "class", "g")),
    "Adult": lambda: streams.table_rows("uci_adult_train.csv.gz", "income", ">50K"),
    "churn": lambda: streams.table_rows("telecom_churn.csv.gz", "churned", "True.", frozenset({"phone_number"})),
    "spambase": lambda: streams.shuffled(streams.table_rows("uci_spambase.csv.gz", "spam", "1")),
    "KDD Cup 99": lambda: streams.table_rows("kddcup99_10pct.csv.gz", "label", "normal."),
    "elec2": lambda: streams.table_rows("elec2.csv.gz", "class", "1"),
}
MODES: Final[dict[str, dict[str, Any]]] = {
    "exact": {"mode": "exact"},
    "hybrid": {"mode": "hybrid"},
    "strict": {"mode": "strict"},
    "diag": {"mode": "diag"},
    "hybrid before": {"mode": "hybrid", "relinearise": False},
}


def read(table: str) -> Batch:
    """The first ROWS rows of a table, as the service reads them."""
    events = list(islice(TABLES[table](), ROWS))
    lines = [json.dumps({"features": dict(event.pairs), "label": event.label}).encode() for event in events]
    context = Context(EncoderConfig(), "0/1")
    parts = [
        parse_examples(b"\n".join(lines[i : i + 5000]), streams.NDJSON, context, True).batch for i in range(0, len(lines), 5000)
    ]
    return join_batches(parts)


def truth(batch: Batch) -> F64:
    """The margin of each row under the weights from which labels are drawn."""
    slot, at = np.unique(batch.hash, return_inverse=True)
    x = np.zeros((batch.n, len(slot)))
    x[np.repeat(np.arange(batch.n), np.diff(batch.indptr)), at] = batch.value
    spread = x.std(axis=0)
    z = np.column_stack([np.ones(batch.n), (x - x.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)])
    prior, beta = np.diag([1e-9, *np.ones(len(slot))]), np.zeros(len(slot) + 1)
    for _ in range(50):
        p = expit(np.clip(z @ beta, -30.0, 30.0))
        step = np.linalg.solve((z.T * (p * (1.0 - p))) @ z + prior, z.T @ (batch.label - p) - prior @ beta)
        beta += step * min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-9))
    return np.asarray(np.clip(z @ beta, -8.0, 8.0))


def held(batch: Batch, margin: F64, settings: dict[str, Any]) -> str:
    """How many 95 % intervals hold the truth, in %, or why there are none."""
    shares, why = [], ""
    for seed in range(SEEDS):
        label = (np.random.default_rng(seed).random(batch.n) < expit(margin)).astype(np.float64)
        learner = build_learner(TaylorSketchConfig(**settings), 22)
        learner.step(replace(batch, label=label))
        sketch = learner.sketch()
        covariance = None if sketch is None else Covariance.of(sketch)
        if covariance is None or covariance.why_not:
            why = "none" if covariance is None else covariance.why_not
            continue
        scores = make_model(ORIGIN, learner.weights(), 0, 1, covariance).score(batch)
        shares.append(100.0 * coverage(scores.margin - margin, scores.std_error, 0.95))
    return f"{np.mean(shares):.0f}" if shares else " ".join(why.split()[:4])


def main() -> int:
    """Measure and print."""
    rows = []
    for table in TABLES:
        batch = read(table)
        margin = truth(batch)
        rows.append([table, *(held(batch, margin, settings) for settings in MODES.values())])
    print(report.table(["table", *MODES], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
