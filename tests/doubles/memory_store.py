"""The in-memory store with faults that tests inject, and with crashes."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from riata.base.errors import StoreFailed, Unavailable
from riata.base.limits import DEDUPE_EVENTS
from riata.store.store import Append, Appended, Owner
from tests.doubles.plain_store import PlainStore


@dataclass(slots=True)
class Faults:
    """Faults to inject. Each count falls by one when its fault occurs. `lossy`: nothing is durable before `MemoryStore.sync`."""

    appends_refused: int = 0  # appends that fail because the disk is full
    appends_lost: int = 0  # appends that fail at COMMIT and were not written; the store is dead afterwards
    appends_written: int = 0  # appends that fail at COMMIT although they were written; the store is dead afterwards
    stages_refused: int = 0
    lossy: bool = False

    def take(self, kind: str) -> bool:
        """Whether a fault of this kind occurs now."""
        left: int = getattr(self, kind)
        setattr(self, kind, max(left - 1, 0))
        return left > 0


class MemoryStore(PlainStore):
    """The in-memory store, which fails when told to, and of which a crash leaves what was synced."""

    def __init__(self, dedupe_events: int = DEDUPE_EVENTS, faults: Faults | None = None) -> None:
        super().__init__(dedupe_events)
        self.faults = faults or Faults()
        self._durable = copy.deepcopy(self._kept)

    def sync(self) -> None:
        """Make everything written so far survive `crash`, if `lossy`."""
        self._durable = copy.deepcopy(self._kept)

    def crash(self) -> MemoryStore:
        """Return the store as a new process would find it; this object cannot be used afterwards."""
        reborn = MemoryStore(self.dedupe_events, dataclasses.replace(self.faults))
        reborn._kept = copy.deepcopy(self._durable if self.faults.lossy else self._kept)
        reborn.sync()
        self.close()
        return reborn

    def subject_key(self, fresh: bytes) -> bytes:
        self._durable.subject_key = super().subject_key(fresh)
        return self._durable.subject_key

    def append(self, group: Sequence[Append]) -> list[Appended]:
        self._open()
        if self.faults.take("appends_refused"):
            raise Unavailable("no space left for events", "disk_reserve")
        before = copy.deepcopy(self._kept) if self.faults.appends_lost else self._kept
        appended = super().append(group)
        if self.faults.take("appends_lost"):
            self._kept = before
            self._fail()
        if self.faults.take("appends_written"):
            self._fail()
        return appended

    def stage(self, owner: Owner, model: str, gen: int, index: int, chunk: bytes) -> bool:
        if self._owns(owner) and self.faults.take("stages_refused"):
            raise Unavailable("no space left for a checkpoint", "disk_full")
        return super().stage(owner, model, gen, index, chunk)

    def _fail(self) -> None:
        self.close()
        raise StoreFailed("the outcome of the write is unknown; restart the process")
