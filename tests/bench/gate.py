"""How often the gate before a promotion is right, on simulated streams without and with drift.

Each stream has rows of 12 of 200 words, whose log-odds are linear in 30 of them. A learner takes PAST events in one pass, and
the batch optimum of the same events, under the learner's gamma or 1, is adopted by a learner of the same kind. The gate compares
both on the next TAIL events. Then both go on for FUTURE events, which no verdict has seen: the candidate is better if its loss is
lower there. A promotion is wrong if it was worse by more than two standard errors. With drift, the coefficients of half of the
words are drawn again at the beginning of the tail.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any, Final

import numpy as np

from riata.base.arrays import F64
from riata.batch.choose import auto
from riata.batch.data import in_memory
from riata.batch.pool import Serial
from riata.batch.problem import Problem
from riata.learn.learner import Learner
from riata.learn.one_pass import Weighed, one_pass
from riata.learn.registry import build_learner, spec_of
from riata.run.config import read_config
from riata.run.gate import Verdict, block_mean, judge, losses
from riata.wire.batch import Batch, slice_rows
from tests.bench import report

STREAMS: Final = 20
PAST, TAIL, FUTURE = 30_000, 10_000, 20_000
WORDS, WORDS_A_ROW, INFORMATIVE = 200, 12, 30
SCALE: Final = 1.2
BITS: Final = 16
LEARNERS: Final[dict[str, dict[str, Any]]] = {
    "truncated gradient": {"kind": "truncated_gradient"},
    "Taylor sketch, hybrid": {"kind": "taylor_sketch"},
    "FTRL-Proximal": {"kind": "ftrl_proximal"},
}
ERRORS: Final = 2.0


def stream(seed: int, drift: bool) -> Batch:
    """A stream of PAST + TAIL + FUTURE rows, in which the word w has the hash (w + 1) << 20."""
    rng = np.random.default_rng(seed)
    n = PAST + TAIL + FUTURE
    words = _rows_of_words(rng, n)
    truth = np.zeros(WORDS)
    truth[rng.choice(WORDS, INFORMATIVE, replace=False)] = rng.normal(0.0, SCALE, INFORMATIVE)
    later = truth.copy()
    if drift:
        again = np.flatnonzero(truth)[: INFORMATIVE // 2]
        later[again] = rng.normal(0.0, SCALE, len(again))
    margin = np.where(np.arange(n) < PAST, truth[words].sum(axis=1), later[words].sum(axis=1)) - 1.0
    label = (rng.random(n) < 1.0 / (1.0 + np.exp(-margin))).astype(np.float64)
    hashes = ((words.astype(np.uint32) + np.uint32(1)) << np.uint32(20)).reshape(-1)
    indptr = np.arange(0, n * WORDS_A_ROW + 1, WORDS_A_ROW, dtype=np.int64)
    ids = np.zeros((n, 16), np.uint8)
    return Batch(indptr, hashes, np.ones(len(hashes)), label, np.ones(n), ids, np.zeros(n, np.bool_))


def _rows_of_words(rng: np.random.Generator, n: int) -> Any:
    """Different words of each row, increasing: one of each of WORDS_A_ROW groups of about equal size."""
    edges = np.linspace(0, WORDS, WORDS_A_ROW + 1).astype(np.int64)
    return np.stack([rng.integers(low, high, n) for low, high in pairwise(edges)], axis=1)


def pair(document: dict[str, Any], past: Batch) -> tuple[Learner, Learner]:
    """A learner that has learnt the past online, and one that continues from its batch optimum."""
    config = read_config({"learner": document, "encoder": {"bits": BITS}})
    spec, learner = spec_of(config.learner), config.learner
    online = build_learner(learner, BITS)
    online.step(past)
    slot = past.hash >> np.uint32(32 - BITS)
    data = in_memory(past.indptr, slot, past.value, 2.0 * past.label - 1.0, past.weight, BITS)
    problem = Problem(data, "logistic", getattr(learner, "gamma", 1.0))
    solution = auto(problem, Serial()).solver.solve(problem, Serial())
    beta = problem.by_rank(solution.weights)
    at = Weighed(BITS, data.slots, beta, solution.weights.intercept, "logistic")
    members = np.argsort(beta == 0.0, kind="stable")[: spec.members(learner)]
    candidate = build_learner(learner, BITS)
    candidate.thaw(spec.adopt(learner, BITS, one_pass((part.load() for part in data.parts), at, members)))
    return online, candidate


def mean_losses(learner: Learner, rows: Batch) -> F64:
    """The loss of each event before it is learnt."""
    link = learner.weights().link
    return losses(link, learner.step(rows).margin, rows.label, False)


def tried(document: dict[str, Any], seed: int, drift: bool) -> tuple[Verdict, float, float]:
    """The verdict, and by how much the candidate is worse afterwards, with its standard error."""
    rows = stream(seed, drift)
    online, candidate = pair(document, slice_rows(rows, 0, PAST))
    verdict = judge(online, candidate, [slice_rows(rows, PAST, PAST + TAIL)])
    future = slice_rows(rows, PAST + TAIL, rows.n)
    worse, error = block_mean(mean_losses(candidate, future) - mean_losses(online, future), future.weight)
    return verdict, worse, error


def main() -> None:
    """Measure, and write the page."""
    options = report.arguments(__doc__ or "").parse_args()
    lines = []
    for name, document in LEARNERS.items():
        for drift in (False, True):
            found = [tried(document, seed, drift) for seed in range(STREAMS)]
            verdicts = Counter(verdict.decision for verdict, _, _ in found)
            wrong = sum(verdict.decision == "PROMOTE" and worse > ERRORS * error for verdict, worse, error in found)
            missed = sum(verdict.decision == "REJECT" and worse < -ERRORS * error for verdict, worse, error in found)
            gains = [-worse for verdict, worse, _ in found if verdict.decision == "PROMOTE"]
            cells = [str(verdicts[decision]) for decision in ("PROMOTE", "HOLD", "REJECT")]
            frozen = float(np.mean([verdict.frozen_difference for verdict, _, _ in found]))
            going = float(np.mean([verdict.difference for verdict, _, _ in found]))
            gain = f"{np.mean(gains):+.4f}" if gains else "-"
            counts = [*cells, str(wrong), str(missed)]
            lines.append([f"{name}{', drift' if drift else ''}", *counts, f"{going:+.4f}", f"{frozen:+.4f}", gain])
    heads = [
        "learner",
        "PROMOTE",
        "HOLD",
        "REJECT",
        "wrongly promoted",
        "wrongly rejected",
        "going on",
        "frozen",
        "gain afterwards",
    ]
    conditions = report.conditions("python -m tests.bench.gate", ["numpy"])
    title, _, about = (__doc__ or "").strip().partition(".\n")
    note = (
        "Losses of the candidate minus those of the online learner, means over the streams: on the tail with both going on, "
        "which decides, and with both frozen, which does not. A gain afterwards is that of promoted candidates.\n"
    )
    text = f"# {title}\n{about}\n\n{STREAMS} streams a line; {PAST:,} events past, {TAIL:,} tail, {FUTURE:,} future.\n\n"
    report.publish("gate", f"{text}{report.table(heads, lines)}\n{note}\n{conditions}", write=not options.no_write)


if __name__ == "__main__":
    main()
