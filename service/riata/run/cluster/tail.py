"""Tailing a log that other processes write: every record once, in order, each verified to continue the one before.

A model is followed from the event of its current state. Each record's position and chain are verified before it is learnt.
A record that does not continue the log is a gap or a fork, and reading stops. This module never sleeps and starts no thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from riata.base.errors import Corrupt, LogFork, LogGap, NotFound
from riata.run.state.damage import Damage, event_of
from riata.store.records import next_chain
from riata.store.store import Record, Standing, Store

READ_BYTES = 2**22  # of one model at a time, so that a long tail does not delay other models


@dataclass(slots=True)
class _Place:
    lineage: bytes
    seq: int
    chain: bytes


class Tail:
    """Read positions in the logs of several models. For one thread."""

    def __init__(self) -> None:
        self._places: dict[str, _Place] = {}
        self._damaged: dict[str, bytes] = {}  # models that cannot be read, and their lineages

    def follow(self, model: str, lineage: bytes, seq: int, chain: bytes) -> None:
        """Read `model` starting after event `seq`, whose chain is `chain`."""
        self._places[model] = _Place(lineage, seq, chain)
        self._damaged.pop(model, None)

    def forget(self, model: str) -> None:
        """Stop reading `model`."""
        self._places.pop(model, None)
        self._damaged.pop(model, None)

    def leave_out(self, damage: Damage) -> None:
        """Do not read a damaged model, as long as its lineage is the same."""
        self.forget(damage.model)
        self._damaged[damage.model] = damage.lineage

    def give_up(self, model: str, error: Corrupt) -> Damage:
        """Stop reading `model` because of `error`. Returns the damage."""
        place = self._places[model]
        damage = Damage(model, place.lineage, event_of(error, place.seq), error.detail)
        self.leave_out(damage)
        return damage

    def is_another(self, store: Store, model: str) -> bool:
        """Return whether a model was dropped, and perhaps created again, since its standing was read."""
        try:
            return store.head(model).lineage != self.lineage(model)
        except NotFound:
            return True

    def names(self) -> list[str]:
        """Return the followed models and the ones left out as damaged."""
        return [*self._places, *self._damaged]

    def lineage(self, model: str) -> bytes | None:
        """Return the lineage of a model that is followed or left out; None for others."""
        place = self._places.get(model)
        return place.lineage if place else self._damaged.get(model)

    def places(self) -> dict[str, int]:
        """Return the last event read of each model."""
        return {name: place.seq for name, place in self._places.items()}

    def behind(self, standings: Mapping[str, Standing]) -> list[str]:
        """Return the models whose logs have unread events."""
        return [name for name, place in self._places.items() if name in standings and standings[name].head.seq > place.seq]

    def read(self, store: Store, model: str, bytes_max: int = READ_BYTES) -> list[Record]:
        """Return the next records of `model`, possibly none. Returned records count as read.

        Raises `LogGap` or `LogFork` if the log does not continue what was read; `NotFound` if the model no longer exists.
        """
        place = self._places.get(model)
        if place is None:
            raise NotFound(f"model {model} is not followed", "model_not_found")
        records = store.read(model, place.seq, bytes_max)
        seq, chain = place.seq, place.chain
        for record in records:
            if record.first != seq + 1:
                raise LogGap(f"{model}: expected event {seq + 1}, the log has {record.first}")
            if record.chain != next_chain(chain, record.digest):
                raise LogFork(f"{model}: the chain breaks at events {record.first} to {record.last}")
            seq, chain = record.last, record.chain
        place.seq, place.chain = seq, chain
        return records
