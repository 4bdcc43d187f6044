"""A synthetic stream of texts whose best possible log loss is known, with or without a change of the truth midway.

Words come by Zipf's law, 40 % of them from the vocabulary of one of 40 topics; rows are unit-norm, 1 + log(count). The log-odds
are linear in them: an intercept, and the coefficients of some informative words, which are chosen by Zipf's law too, the
commonest left out. At the drift, half of these coefficients are redrawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from riata.base.arrays import F64, I64
from tests.bench.budget_streams import DIGITS, Lines
from tests.bench.budget_vw import losses

ROWS: Final = 200_000
DRIFT_AT: Final = ROWS // 2
WORDS: Final = 50_000
ZIPF: Final = 1.05
TOPICS: Final = 40
TOPIC_WORDS: Final = 2_000
TOPIC_SHARE: Final = 0.4
LENGTH: Final = 103.0  # mean number of words with repetitions; 77 different ones are left of them
LENGTH_SPREAD: Final = 0.5
INFORMATIVE: Final = 1_500
SCALE: Final = 5.8  # of the coefficients: makes the best possible log loss 0.42
STOP_WORDS: Final = 20  # the commonest words, which say nothing
INTERCEPT: Final = -1.0
SEED: Final = 2008
CHUNK: Final = 10_000


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of words: indptr i64[n + 1], word i64[nnz], value f64[nnz]."""

    indptr: I64
    word: I64
    value: F64


@dataclass(frozen=True, slots=True)
class MadeUp:
    """A stream on disk, and bayes f64[rows]: the log loss of each event under the truth."""

    lines: Lines
    bayes: F64


def zipf_sums(words: int) -> F64:
    """Running sums of Zipf's probabilities, f64[words], the last 1."""
    weight = np.arange(1, words + 1, dtype=np.float64) ** -ZIPF
    sums = np.cumsum(weight)
    return np.asarray(sums / sums[-1])


def make_rows(rng: np.random.Generator, n: int, topics: I64) -> Rows:
    """Draw n rows. topics : i64[TOPICS, TOPIC_WORDS], the words of each topic from the commonest on."""
    length = np.maximum(1, np.rint(rng.lognormal(np.log(LENGTH) - LENGTH_SPREAD**2 / 2, LENGTH_SPREAD, n))).astype(np.int64)
    row = np.repeat(np.arange(n), length)
    word = np.searchsorted(zipf_sums(WORDS), rng.random(len(row)))
    topic = rng.integers(0, TOPICS, n)[row]
    topical = rng.random(len(row)) < TOPIC_SHARE
    rank = np.searchsorted(zipf_sums(TOPIC_WORDS), rng.random(len(row)))
    word = np.where(topical, topics[topic, rank], word)
    pair, count = np.unique(row * WORDS + word, return_counts=True)
    row, word = pair // WORDS, pair % WORDS
    value = 1.0 + np.log(count)
    value /= np.sqrt(np.bincount(row, weights=value * value, minlength=n))[row]
    indptr = np.concatenate(([0], np.cumsum(np.bincount(row, minlength=n)))).astype(np.int64)
    return Rows(indptr, word, value)


def truths() -> tuple[F64, F64]:
    """Coefficients f64[WORDS] before and after the drift."""
    rng = np.random.default_rng((SEED, 1))
    chance = np.diff(zipf_sums(WORDS), prepend=0.0)
    chance[:STOP_WORDS] = 0.0
    informative = rng.choice(WORDS, INFORMATIVE, replace=False, p=chance / chance.sum())
    before = np.zeros(WORDS)
    before[informative] = SCALE * rng.standard_normal(INFORMATIVE)
    after = before.copy()
    redrawn = rng.choice(informative, INFORMATIVE // 2, replace=False)
    after[redrawn] = SCALE * rng.standard_normal(len(redrawn))
    return before, after


def _line(label: bool, word: list[int], value: list[str]) -> str:
    return f"{'1' if label else '-1'} |f " + " ".join(f"{w}:{v}" for w, v in zip(word, value, strict=True)) + "\n"


def _written(rows: Rows, label: F64) -> Iterator[str]:
    word = rows.word.tolist()
    value = [f"{v:.{DIGITS}g}" for v in rows.value.tolist()]
    for i, (start, stop) in enumerate(zip(rows.indptr[:-1].tolist(), rows.indptr[1:].tolist(), strict=True)):
        yield _line(bool(label[i]), word[start:stop], value[start:stop])


def make_stream(name: str, drifts: bool, folder: Path, rows: int = ROWS) -> MadeUp:
    """Write the stream into `folder`. With and without drift, the rows and the chances of the labels are the same draws.

    rows : only this many, in steps of CHUNK; the drift is still at DRIFT_AT
    """
    rng = np.random.default_rng(SEED)
    topics = np.argsort(rng.random((TOPICS, WORDS)), axis=1)[:, :TOPIC_WORDS].astype(np.int64)
    before, after = truths()
    path, bayes, positives, entries = folder / f"{name}.vw", [], 0, 0
    seen = np.zeros(WORDS, dtype=np.bool_)
    with path.open("w", encoding="utf-8") as out:
        for start in range(0, rows, CHUNK):
            made = make_rows(rng, CHUNK, topics)
            sums = np.concatenate(([0.0], np.cumsum(made.value * (after if drifts and start >= DRIFT_AT else before)[made.word])))
            margin = INTERCEPT + sums[made.indptr[1:]] - sums[made.indptr[:-1]]
            label = (rng.random(CHUNK) < 1.0 / (1.0 + np.exp(-margin))).astype(np.float64)
            out.writelines(_written(made, label))
            bayes.append(losses(margin, label))
            seen[made.word] = True
            positives += int(label.sum())
            entries += len(made.word)
    return MadeUp(Lines(name, path, rows, positives, int(seen.sum()), entries), np.concatenate(bayes))
