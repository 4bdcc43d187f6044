"""Streams of events for tests of learners, made from a seed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from riata.wire.batch import Batch, select_rows
from tests.twins.truncated_step import Event


def to_batch(events: Sequence[Event]) -> Batch:
    """Events as compressed sparse rows."""
    pairs = [pair for event in events for pair in event.features]
    n = len(events)
    return Batch(
        indptr=np.cumsum([0, *(len(event.features) for event in events)]).astype(np.int64),
        hash=np.array([name for name, _ in pairs], np.uint32),
        value=np.array([value for _, value in pairs], np.float64),
        label=np.array([event.label for event in events], np.float64),
        weight=np.array([event.weight for event in events], np.float64),
        event_id=np.zeros((n, 16), np.uint8),
        has_id=np.zeros(n, np.bool_),
    )


def sparse_events(
    n: int, seed: int, features: int = 40, weighted: bool = True, spread: float = 2.0, longest: int = 8
) -> list[Event]:
    """n rows of up to `longest` of `features` names; a fifth of the names decide the label.

    Their scales are 10^-spread to 10^spread. Importances are 1/4, 1 and 3. With a table of 2^4 slots many names of one row
    share a slot.
    """
    rng = np.random.default_rng(seed)
    names = np.sort(rng.integers(0, 2**32, features, dtype=np.uint32))
    truth = np.where(rng.random(features) < 0.2, rng.normal(0.0, 2.0, features), 0.0)
    scale = 10.0 ** rng.uniform(-spread, spread, features)
    events = []
    for _ in range(n):
        at = np.sort(rng.choice(features, rng.integers(0, longest + 1), replace=False))
        x = np.round(rng.normal(0.0, 1.0, len(at)), 3)
        label = float(rng.random() < 1.0 / (1.0 + np.exp(-float(truth[at] @ x))))
        weight = float(rng.choice([0.25, 1.0, 3.0])) if weighted else 1.0
        pairs = [(int(names[j]), float(v * scale[j])) for j, v in zip(at, x, strict=True) if v != 0.0]
        events.append(Event(pairs, label, weight))
    return events


def cut(batch: Batch, start: int, stop: int) -> Batch:
    """Rows start..stop of a batch."""
    keep = np.zeros(batch.n, np.bool_)
    keep[start:stop] = True
    return select_rows(batch, keep)
