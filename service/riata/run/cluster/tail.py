"""Tailing a log that several processes write: every record once, in order, each verified to continue the one before.

A model is followed from the event of its current state. Each record's position and chain are verified before it is learnt.
A record that does not continue the log is a gap or a fork, and reading stops. This module never sleeps and starts no thread.

A record that this process has appended need not be read: the store's answer says where it is, and its chain covers every record
before it. If it continues what was handed over, it is the next record of the log, and a read would return the same bytes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from riata.base.errors import Corrupt, LogFork, LogGap, NotFound
from riata.run.state.damage import Damage, event_of
from riata.store.records import next_chain
from riata.store.store import Record, Standing, Store
from riata.wire.batch import Batch

READ_BYTES = 2**22  # of one model at a time, so that a long tail does not delay other models


@dataclass(slots=True)
class _Place:
    lineage: bytes
    seq: int
    chain: bytes


class Tail:
    """Read positions in the logs of several models. `hand_over` is for any thread, everything else for one.

    put : gets each record once, in the order of the log of its model, with its rows if they are known
    """

    def __init__(self, put: Callable[[Record, Batch | None], None]) -> None:
        self._put = put
        self._lock = threading.Lock()  # held while the places change and while `put` is called
        self._places: dict[str, _Place] = {}
        self._damaged: dict[str, bytes] = {}  # models that cannot be read, and their lineages

    def follow(self, model: str, lineage: bytes, seq: int, chain: bytes) -> None:
        """Read `model` starting after event `seq`, whose chain is `chain`. After event 0 nothing is handed over: the first event
        makes the model."""
        with self._lock:
            self._places[model] = _Place(lineage, seq, chain)
        self._damaged.pop(model, None)

    def forget(self, model: str) -> None:
        """Stop reading `model`."""
        with self._lock:
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
        """Return the next records of `model`, possibly none. They count as read when they were handed over.

        Raises `LogGap` or `LogFork` if the log does not continue what was read; `NotFound` if the model no longer exists.
        """
        with self._lock:
            place = self._places.get(model)
            if place is None:
                raise NotFound(f"model {model} is not followed", "model_not_found")
            seq, chain = place.seq, place.chain
        records = store.read(model, seq, bytes_max)
        for record in records:
            if record.first != seq + 1:
                raise LogGap(f"{model}: expected event {seq + 1}, the log has {record.first}")
            if record.chain != next_chain(chain, record.digest):
                raise LogFork(f"{model}: the chain breaks at events {record.first} to {record.last}")
            seq, chain = record.last, record.chain
        return records

    def hand_over(self, model: str, records: Sequence[Record], batch: Batch | None = None) -> bool:
        """Put the records that continue what was handed over; return whether all were put, now or before.

        batch : the rows of the record, if it is one
        """
        with self._lock:
            place = self._places.get(model)
            for record in records:
                if place is None or place.seq == 0 or not _continues(place, record):
                    return False
                if record.last > place.seq:
                    place.seq, place.chain = record.last, record.chain
                    self._put(record, batch)
        return True


def _continues(place: _Place, record: Record) -> bool:
    """Whether a record is the next after a place, or was handed over as far as the place tells."""
    if record.last <= place.seq:
        return record.last < place.seq or record.chain == place.chain
    return record.first == place.seq + 1 and record.chain == next_chain(place.chain, record.digest)
