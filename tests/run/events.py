"""Small streams of events and a way to log them, for the tests of this package."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

import numpy as np

from riata.run.state.config import Change, ModelConfig, read_config
from riata.store.payload import decode_batch
from riata.store.store import Append, Appended, Store
from riata.wire.batch import Batch

T = TypeVar("T")

CONFIG = read_config({"encoder": {"bits": 12}, "publish_every_ms": 1})


def random_batch(rng: np.random.Generator, n: int, features: int = 8, with_ids: bool = False) -> Batch:
    """Events with a few features each; labels follow one of them."""
    hashes = np.stack([np.sort(rng.choice(300, features, replace=False)) for _ in range(n)])
    label = ((hashes % 7 == 0).sum(axis=1) + rng.normal(size=n) > 1.2).astype(np.float64)
    return Batch(
        indptr=np.arange(0, (n + 1) * features, features, dtype=np.int64),
        hash=(hashes.astype(np.uint32) * np.uint32(14_316_557)).ravel(),
        value=rng.normal(size=n * features).round(2) + 3.0,
        label=label,
        weight=np.ones(n),
        event_id=rng.integers(0, 256, (n, 16), dtype=np.uint8) if with_ids else np.zeros((n, 16), np.uint8),
        has_id=np.full(n, with_ids),
    )


def here(store: Store) -> Callable[[Callable[[Store], Any]], Future[Any]]:
    """Run in this thread the calls that are meant for the log thread."""

    def call(work: Callable[[Store], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(work(store))
        except Exception as error:
            future.set_exception(error)
        return future

    return call


def create_model(store: Store, name: str = "m", config: ModelConfig = CONFIG) -> None:
    store.create(name, bytes(range(16)))
    store.append([Append(name, "config", 0, payload=Change(config).payload())])


def log_batch(store: Store, batch: Batch, name: str = "m") -> Appended:
    return store.append([Append(name, "observe", 0, batch)])[0]


def logged(store: Store, model: str = "m") -> list[Batch]:
    """The observe records of a log."""
    return [decode_batch(record.payload) for record in store.read(model, 0, 2**30) if record.kind == "observe"]


def labels(store: Store, model: str = "m") -> list[float]:
    """The labels of all events in a log, in the order of the log."""
    return [label for batch in logged(store, model) for label in batch.label.tolist()]
