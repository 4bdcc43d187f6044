"""Rows for the benches of the batch solvers: public sets, and text-like rows that are generated."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from riata.base.arrays import F64, I64, U32
from riata.lab.batch.data import DataInMemory, in_memory
from tests.bench.streams import count_words, open_lines

ZIPF: Final = 0.9  # word frequency falls with this power of the rank
TOPIC_WORDS: Final = 600


@dataclass(frozen=True, slots=True)
class Matrix:
    """Compressed rows: indptr i64[n + 1], column u32[nnz], value f64[nnz]; label f64[n] is -1 or 1."""

    name: str
    indptr: I64
    column: U32
    value: F64
    label: F64

    def data(self) -> DataInMemory:
        """The rows as the solvers take them."""
        return in_memory(self.indptr, self.column, self.value, self.label, np.ones(len(self.label)))


def of_rows(name: str, rows: list[dict[int, float]], labels: list[float]) -> Matrix:
    """A matrix of rows that are given as dictionaries."""
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    column = np.array([j for row in rows for j in row], np.uint32)
    value = np.array([x for row in rows for x in row.values()])
    return Matrix(name, indptr, column, value, np.array(labels))


def reuters_acq() -> Matrix:
    """ModApte, training part, category acq: one plus the logarithm of the count of each word of title and body."""
    words: dict[str, int] = {}
    rows, labels = [], []
    for line in open_lines("reuters21578_modapte.jsonl.gz"):
        story = json.loads(line)
        if story["split"] == "train":
            counts = count_words(f"{story['title'] or ''}\n{story['body'] or ''}")
            rows.append({words.setdefault(word, len(words)): 1.0 + math.log(n) for word, n in counts})
            labels.append(1.0 if "acq" in story["topics"] else -1.0)
    return of_rows("reuters", rows, labels)


def uci(name: str, file: str, target: Callable[[dict[str, str]], bool], label: str) -> Matrix:
    """A table of numbers; columns are divided by their largest absolute value; zeros and what is missing are left out."""
    table = list(csv.DictReader(open_lines(file)))
    names = [column for column in table[0] if column != label]
    x = np.array([[0.0 if row[column].strip() in ("?", "") else float(row[column]) for column in names] for row in table])
    x /= np.maximum(np.abs(x).max(axis=0), 1e-300)
    rows = [dict(zip(np.flatnonzero(row).tolist(), row[row != 0.0].tolist(), strict=True)) for row in x]
    return of_rows(name, rows, [1.0 if target(row) else -1.0 for row in table])


def dense_design(n: int = 5000, d: int = 500) -> Matrix:
    """Standard normal columns, of which every tenth matters."""
    rng = np.random.default_rng(17)
    x = rng.standard_normal((n, d))
    margin = x @ np.where(np.arange(d) % 10 == 0, rng.standard_normal(d), 0.0)
    label = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-margin)), 1.0, -1.0)
    return Matrix("dense", np.arange(n + 1) * d, np.tile(np.arange(d, dtype=np.uint32), n), x.ravel(), label)


class Block(NamedTuple):
    """Consecutive rows of a matrix; see `Matrix`."""

    indptr: I64
    column: U32
    value: F64
    label: F64


def rcv1_blocks(n: int, d: int, per_row: int) -> Iterator[Block]:
    """Text-like rows, up to 10,000 at once: words by Zipf's law, a fifth of them of the row's topic; weights like tf-idf.

    Rows have length 1. The label is drawn by a logistic model of a few thousand words.
    """
    rng = np.random.default_rng(23)
    share = np.cumsum((np.arange(d) + 10.0) ** -ZIPF)
    share /= share[-1]
    rank_of, topics = rng.permutation(d), rng.integers(0, d, (100, TOPIC_WORDS))
    truth = np.where(rng.random(d) < 0.06, 3.0 * rng.standard_normal(d), 0.0)
    for first in range(0, n, 10_000):
        count = min(10_000, n - first)
        length = np.maximum(rng.poisson(per_row, count), 5)
        word = np.searchsorted(share, rng.random(int(length.sum())))
        row = np.repeat(np.arange(count), length)
        of_topic = rng.random(len(word)) < 0.2
        topic = topics[rng.integers(0, len(topics), count)[row], rng.integers(0, TOPIC_WORDS, len(word))]
        word = np.where(of_topic, topic, word)
        key, times = np.unique(row * d + word, return_counts=True)
        row, word = key // d, key % d
        x = (1.0 + np.log(times)) * np.log(1.0 + n / (1.0 + per_row * n * (word + 10.0) ** -ZIPF / 50.0))
        length_of = np.sqrt(np.bincount(row, x * x, count))
        x /= length_of[row]
        margin = 6.0 * np.bincount(row, x * truth[word], count)
        label = np.where(rng.random(count) < 1.0 / (1.0 + np.exp(-margin)), 1.0, -1.0)
        indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=count))])
        yield Block(indptr, rank_of[word].astype(np.uint32), x, label)


def like_rcv1(n: int = 200_000, d: int = 47_236, per_row: int = 75) -> Matrix:
    """Such rows as one matrix."""
    blocks = list(rcv1_blocks(n, d, per_row))
    lengths = np.concatenate([np.diff(block.indptr) for block in blocks])
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    column, value, label = (np.concatenate([block[a] for block in blocks]) for a in (1, 2, 3))
    return Matrix("rcv1-like", indptr, column, value, label)
