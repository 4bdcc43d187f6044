"""Coverage of the standard errors of margins on raw tables, with labels drawn from known weights.

The truth is the logistic regression of a table's own labels, with a prior of variance 1 on each standardised column and margins
within 8. Labels are drawn from it, learnt, and the 95 % intervals of all rows are compared with it. `tests.bench.coverage`
runs it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
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
from tests.bench.sketch_runs import spread, write_csv
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


@lru_cache(1)
def prepared(table: str) -> tuple[Batch, F64]:
    """The rows of a table, and their true margins."""
    batch = read(table)
    return batch, truth(batch)


def held(job: tuple[str, str, int]) -> list[str]:
    """Table, mode and seed; share of the rows that have a standard error; of them, share of the intervals that hold the truth;
    why none has one."""
    table, mode, seed = job
    batch, margin = prepared(table)
    label = (np.random.default_rng(seed).random(batch.n) < expit(margin)).astype(np.float64)
    learner = build_learner(TaylorSketchConfig(**MODES[mode]), 22)
    learner.step(replace(batch, label=label))
    sketch = learner.sketch()
    covariance = Covariance.of(sketch) if sketch is not None else None
    if covariance is None or covariance.why_not:
        return [table, mode, str(seed), "0", "nan", "none" if covariance is None else covariance.why_not]
    scores = make_model(ORIGIN, learner.weights(), 0, 1, covariance).score(batch)
    served = float(np.isfinite(scores.std_error).mean())
    return [table, mode, str(seed), f"{served:.4f}", f"{coverage(scores.margin - margin, scores.std_error, 0.95):.4f}", ""]


def measure(processes: int) -> None:
    """Measure, and write raw_tables.csv."""
    jobs = [(table, mode, seed) for table in TABLES for mode in MODES for seed in range(SEEDS)]
    heads = ["table", "mode", "seed", "served", "held", "why_not", "measured"]
    write_csv("raw_tables", heads, [[*row, report.today()] for row in spread(held, jobs, processes, "raw tables")])


def section(numbers: Sequence[Mapping[str, str]]) -> str:
    """The part of the page about raw tables."""
    rows = [
        [table, *(_cell([one for one in numbers if (one["table"], one["mode"]) == (table, mode)]) for mode in MODES)]
        for table in TABLES
    ]
    return f"{ABOUT}\n{report.table(['table', *MODES], rows)}"


def _cell(of: Sequence[Mapping[str, str]]) -> str:
    shares, served = [float(one["held"]) for one in of if one["held"] != "nan"], [float(one["served"]) for one in of]
    return f"{100.0 * np.mean(shares):.0f} of {100.0 * np.mean(served):.0f}" if shares else "none"


ABOUT: Final = f"""## Raw tables

Labels of at most {ROWS:,} rows are drawn from weights that are fitted to the table's own, {SEEDS} times. 95 % intervals that
hold the true margin, in % of the rows with a standard error, and how many have one.
[raw_tables.csv](raw_tables.csv) has each stream, and the reasons.

Two corrections need the sample of rows of `relinearise`; without it columns with limits have no standard errors. The smallest
curvature of an event makes the curvature larger than the information: up to a quarter for rare labels. And the prior of a
column with heavy tails, whose size is that of its largest value, pulls its weight far towards zero.
"""
