"""How often the interval of a paired difference covers the truth, and how often it names the better of two settings.

Streams of EVENTS rows with one word of each of 6 groups; a word stays for the next row with probability STAY, so neighbouring
events depend on each other, and so do the differences of two losses. The log-odds are linear in the words. Two learners learn the
same stream, and the interval is that of `riata replay --set` (`run/paired.py`): two standard errors over blocks of events.

Equal settings: the penalty of one of two words is raised. Both words have the same coefficient and the same law, so the expected
losses are equal, while those of a stream differ. Different settings: the expected difference is the mean over REFERENCE further
streams.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from rich.console import Console
from rich.progress import track

from riata.base.arrays import F64
from riata.learn.registry import build_learner
from riata.maths.hashing import NUMBER
from riata.native.reading import hash_of
from riata.run.config import read_config
from riata.run.gate import losses
from riata.run.paired import ERRORS, BlockSums
from riata.wire.batch import Batch
from tests.bench import report

PAIRS: Final = 20  # of each kind
EVENTS: Final = 20_000
REFERENCE: Final = 40
GROUPS, WORDS, STAY = 6, 16, 0.9  # groups, words of each
BITS: Final = 16
TWINS: Final = 1.0  # coefficient of the two words with the same law
RAISED: Final = 30.0
SKETCH: Final[dict[str, Any]] = {"kind": "taylor_sketch", "mode": "hybrid"}
OWN: Final[dict[str, Any]] = {"kind": "truncated_gradient"}
OTHERS: Final[dict[str, dict[str, Any]]] = {
    "eta=0.1": {**OWN, "eta": 0.1},
    "eta=0.5": {**OWN, "eta": 0.5},
    "eta=3": {**OWN, "eta": 3.0},
    "gravity=0.001": {**OWN, "gravity": 1e-3},
    "gravity=0.01": {**OWN, "gravity": 1e-2},
    "calibrated=false": {**OWN, "calibrated": False},
    "kind=ftrl_proximal": {"kind": "ftrl_proximal"},
    "kind=taylor_sketch": SKETCH,
    "kind=taylor_sketch,gamma=30": {**SKETCH, "gamma": 30.0},
    "kind=taylor_sketch,gamma=300": {**SKETCH, "gamma": 300.0},
}
NAMES: Final = [f"w{word}" for word in range(GROUPS * WORDS)]
HASHES: Final = np.array([hash_of(name.encode(), 0, NUMBER) >> 32 for name in NAMES], np.uint32)


def coefficients() -> F64:
    """Of each word; the first two are equal."""
    truth = np.random.default_rng(0).normal(0.0, 0.7, len(NAMES))
    truth[:2] = TWINS
    return truth


def stream(seed: int) -> Batch:
    """One stream; the words of a row are in the order of their hashes."""
    rng = np.random.default_rng(seed)
    words = rng.integers(0, WORDS, (EVENTS, GROUPS))
    stays = rng.random((EVENTS, GROUPS)) < STAY
    stays[0] = False
    since = np.maximum.accumulate(np.where(stays, 0, np.arange(EVENTS)[:, None]), axis=0)
    words = np.take_along_axis(words, since, axis=0) + WORDS * np.arange(GROUPS)
    margin = coefficients()[words].sum(axis=1) - 1.0
    label = (rng.random(EVENTS) < 1.0 / (1.0 + np.exp(-margin))).astype(np.float64)
    hashes = np.sort(HASHES[words], axis=1).reshape(-1)
    indptr = np.arange(0, EVENTS * GROUPS + 1, GROUPS, dtype=np.int64)
    ids = np.zeros((EVENTS, 16), np.uint8)
    return Batch(indptr, hashes, np.ones(len(hashes)), label, np.ones(EVENTS), ids, np.zeros(EVENTS, np.bool_))


def learnt(document: dict[str, Any], rows: Batch) -> F64:
    """The loss of each event before it is learnt."""
    learner = build_learner(read_config({"learner": document, "encoder": {"bits": BITS}}).learner, BITS)
    return losses(learner.weights().link, learner.step(rows).margin, rows.label, False)


def estimated(difference: F64) -> tuple[float, float, float]:
    """Mean difference, its standard error, and what that would be if events were independent."""
    paired = BlockSums()
    paired.add(difference, np.ones(len(difference)))
    mean, error = paired.estimate() or (np.nan, np.nan)
    return mean, error, float(difference.std(ddof=1) / np.sqrt(len(difference)))


def equal_pairs() -> Iterator[tuple[float, float, float]]:
    """The estimates of pairs of equal settings."""
    one, other = ({**SKETCH, "gamma_of": [{"feature": name, "gamma": RAISED}]} for name in NAMES[:2])
    for seed in track(range(PAIRS), "equal settings", console=Console(stderr=True), transient=True):
        rows = stream(seed)
        yield estimated(learnt(other, rows) - learnt(one, rows))


def main() -> None:
    """Measure, and write the page."""
    options = report.arguments(__doc__ or "").parse_args()
    equal = list(equal_pairs())
    covered = sum(abs(mean) <= ERRORS * error for mean, error, _ in equal)
    naive = sum(abs(mean) <= ERRORS * error for mean, _, error in equal)
    wide = np.mean([error / of_independent for _, error, of_independent in equal])
    seeds = range(1000, 1000 + REFERENCE)
    references = [stream(seed) for seed in track(seeds, "streams", console=Console(stderr=True), transient=True)]
    own = [learnt(OWN, rows) for rows in references]
    each = PAIRS // len(OTHERS)
    lines, totals = [], [0, 0, 0]
    for at, (name, document) in enumerate(track(OTHERS.items(), "settings", console=Console(stderr=True), transient=True)):
        means = [float((learnt(document, rows) - base).mean()) for rows, base in zip(references, own, strict=True)]
        truth, error_of_truth = float(np.mean(means)), float(np.std(means, ddof=1) / np.sqrt(REFERENCE))
        found = []
        for seed in range(100 + each * at, 100 + each * (at + 1)):
            rows = stream(seed)
            found.append(estimated(learnt(document, rows) - learnt(OWN, rows)))
        covers = sum(abs(mean - truth) <= ERRORS * error for mean, error, _ in found)
        right = sum(abs(mean) > ERRORS * error and mean * truth > 0 for mean, error, _ in found)
        wrong = sum(abs(mean) > ERRORS * error and mean * truth < 0 for mean, error, _ in found)
        totals = [total + more for total, more in zip(totals, (covers, right, wrong), strict=True)]
        error = float(np.mean([error for _, error, _ in found]))
        counts = [f"{covers} of {each}", f"{right} of {each}", str(wrong)]
        lines.append([f"`{name}`", f"{truth:+.5f} ± {error_of_truth:.5f}", f"{error:.5f}", *counts])
    heads = [
        "settings against the default learner",
        "expected difference",
        "standard error",
        "covers",
        "better one named",
        "wrong one named",
    ]
    title, _, about = (__doc__ or "").strip().partition(".\n")
    text = (
        f"# {title}\n{about}\n\n{EVENTS:,} events a stream, STAY {STAY}, REFERENCE {REFERENCE}.\n\n"
        f"{PAIRS} pairs of equal settings: the interval covers 0 for {covered}. With the standard error of independent events it "
        f"would for {naive}; that of blocks is {wide:.2f} times as large.\n\n"
        f"{PAIRS} pairs of different settings, {each} a line: {totals[0]} cover the expected difference, {totals[1]} name the "
        f"better one, {totals[2]} the wrong one, and the others name none.\n\n"
    )
    conditions = report.conditions("python -m tests.bench.pairs", ["numpy"])
    report.publish("pairs", f"{text}{report.table(heads, lines)}\n{conditions}", write=not options.no_write)


if __name__ == "__main__":
    main()
