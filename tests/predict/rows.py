"""Random batches and models for the tests of this package."""

from __future__ import annotations

import numpy as np

from riata.learn.learner import Weights
from riata.maths.links import Link
from riata.predict.explain import NamedWeight, top_weights
from riata.predict.linear_model import LinearModel
from riata.predict.model import Labels, Model, Origin
from riata.predict.name_book import NameBook
from riata.wire.batch import Batch
from riata.wire.encoder import EncoderConfig


def batch_of(rows: list[list[tuple[int, float]]]) -> Batch:
    """Make a batch of rows of (hash, value), which must be sorted."""
    n = len(rows)
    entries = [entry for row in rows for entry in row]
    return Batch(
        indptr=np.cumsum([0, *(len(row) for row in rows)]).astype(np.int64),
        hash=np.array([h for h, _ in entries], dtype=np.uint32),
        value=np.array([x for _, x in entries], dtype=np.float64),
        label=np.zeros(n),
        weight=np.ones(n),
        event_id=np.zeros((n, 16), np.uint8),
        has_id=np.zeros(n, np.bool_),
    )


def random_rows(rng: np.random.Generator, n: int, features: int) -> list[list[tuple[int, float]]]:
    """Rows of up to `features` features each, with values of very different sizes."""
    rows = []
    for _ in range(n):
        hashes = np.unique(rng.integers(0, 2**32, rng.integers(0, features + 1), dtype=np.int64))
        rows.append([(int(h), float(rng.normal() * 10.0 ** rng.integers(-8, 6))) for h in hashes])
    return rows


def random_batch(rng: np.random.Generator, n: int, features: int) -> Batch:
    return batch_of(random_rows(rng, n, features))


def origin(labels: Labels = "0/1") -> Origin:
    return Origin(name="default", lineage=bytes(16), encoder=EncoderConfig(), labels=labels)


def model_of(weights: Weights, labels: Labels = "0/1") -> LinearModel:
    return LinearModel(origin(labels), weights, gen=3, seq=42)


def top_of(model: Model, top: int, prefix: str, book: NameBook) -> list[NamedWeight]:
    return top_weights(model.weights, model.weight_errors(), top, prefix, book)


def random_weights(rng: np.random.Generator, non_zeros: int, bits: int, link: Link = "logistic") -> Weights:
    slot = np.sort(rng.choice(2**bits, non_zeros, replace=False)).astype(np.uint32)
    return Weights(slot, rng.normal(size=non_zeros), float(rng.normal()), link, bits)
