"""Random steps about pending predictions, for walks that compare several stores.

A walk draws a step, gives the same one to every store and wants one answer. `Store.remembered(model)` tells how many rows are
kept and their bytes: the sum of the lengths of `PendingPrediction.row`, as `bytes_max` counts them. A store does not
interpret the bytes. Of two rows with one key in the same call the last one counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from riata.store.store import PendingPrediction, Store

KEYS = 24  # few, so that rows are replaced, recalled and forgotten
BYTES_MAX = 400  # small, so that now and then there is no room
Step = Callable[[Store], Any]


def remembered_step(rng: np.random.Generator, model: str) -> list[Step]:
    """Draw the calls of one step; each is passed to every store in turn."""
    kind = int(rng.integers(0, 6))
    if kind <= 2:
        rows = [_row(rng) for _ in range(int(rng.integers(0, 5)))]
        bytes_max = int(rng.choice([0, 40, BYTES_MAX, 2**28], p=[0.05, 0.1, 0.65, 0.2]))
        return [lambda store: store.remember(model, rows, bytes_max), lambda store: store.remembered(model)]
    keys = [_key(rng) for _ in range(int(rng.integers(0, 6)))]
    if kind == 3:
        return [lambda store: store.recall(model, keys)]
    if kind == 4:
        return [lambda store: store.forget(model, keys), lambda store: store.remembered(model)]
    now_ms, rows_max = int(rng.integers(0, 60)), int(rng.integers(0, 8))
    return [lambda store: store.due(model, now_ms, rows_max)]


def remembered_dump(model: str) -> list[Step]:
    """The calls that read everything remembered for `model`."""
    return [
        lambda store: store.remembered(model),
        lambda store: store.due(model, 2**50, 10**6),
        lambda store: store.recall(model, [key.to_bytes(16, "big") for key in range(KEYS)]),
    ]


def _key(rng: np.random.Generator) -> bytes:
    return int(rng.integers(0, KEYS)).to_bytes(16, "big")


def _row(rng: np.random.Generator) -> PendingPrediction:
    size = int(rng.choice([0, 1, 17, 60, 200]))
    return PendingPrediction(_key(rng), int(rng.integers(0, 50)), rng.bytes(size))
