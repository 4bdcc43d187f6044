"""Promotions for the tests of this package: other states of the same log, and what the log must give after them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from riata.base.arrays import Arrays
from riata.run.state.model_state import LEARNER, Frozen, ModelState
from riata.run.state.replay import replay
from riata.store import records
from riata.store.payload import decode_batch
from riata.store.store import Append, Record, Store
from riata.wire.batch import select_rows


def another_state(store: Store, through: int, model: str = "m") -> Frozen:
    """A state of event `through` with a learner that has learnt the same events in another order."""
    frozen = replay(store, model, to=through).state
    other = ModelState.thaw(*_thawable(frozen.freeze()))
    batches = [decode_batch(record.payload) for record in store.read(model, 0, 2**30) if record.kind == "observe"]
    rows = [select_rows(batch, np.arange(batch.n) == i) for batch in batches for i in range(batch.n)]
    other._start_over(other.config)
    for row in reversed(rows[: frozen.progressive.examples]):
        other.learner.step(row)
    learner = {LEARNER + name: array for name, array in other.learner.freeze().items()}
    made = frozen.freeze()
    return Frozen(made.header, {**made.arrays, **learner})


def _thawable(frozen: Frozen) -> tuple[dict[str, Any], Arrays]:
    return frozen.header, frozen.arrays


def promotion(state: Frozen, model: str = "m", source: dict[str, Any] | None = None) -> Append:
    """The append that promotes a state."""
    through = records.Through(state.header["applied"], bytes.fromhex(state.header["chain"]))
    return Append(model, "restore", 0, payload=records.encode_restore(source or {"refit": 1}, state.encode(), through))


def promote(store: Store, state: Frozen) -> Record:
    """Log a promotion; returns its record."""
    record = store.append([promotion(state)])[0].record
    assert record is not None
    return record


def straight(state: Frozen, log: Collection[Record], skips: frozenset[int] = frozenset()) -> dict[str, bytes]:
    """The learner that `state` becomes by learning the observe records among `log` that come after it, one after the other."""
    reached = ModelState.of(state.encode())
    for record in log:
        if record.first > reached.applied and record.kind == "observe":
            reached.apply(record, None, skips)
    return learnt(reached)


def learnt(state: ModelState) -> dict[str, bytes]:
    """All bits of a learner."""
    return {name: array.tobytes() for name, array in state.learner.freeze().items()}
