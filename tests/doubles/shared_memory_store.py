"""In-memory implementation of `SharedStore`: several store objects in one process."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from riata.base.clock import Clock, SystemClock
from riata.base.errors import Conflict, Corrupt, Unavailable
from riata.base.limits import DEDUPE_EVENTS
from riata.store.append_plan import Planned
from riata.store.records import ACCEPT_LOSS
from riata.store.retention import same_chain
from riata.store.store import DAMAGED, Append, Appended, Edition, Head, Holder, Owner, Process, Record, Standing, Verdict
from tests.doubles import plain_store
from tests.doubles.plain_store import PlainStore

F = TypeVar("F", bound=Callable[..., Any])

EDITIONS_KEPT = 2


@dataclass(slots=True)
class _SharedModel(plain_store._Model):
    editions: list[tuple[Edition, bytes]] = field(default_factory=list)  # newest first
    accepted: bytes = b""  # payload of the last repair by which a loss was accepted


@dataclass(slots=True)
class _Shared(plain_store._Kept):
    models: dict[str, _SharedModel] = field(default_factory=dict)  # type: ignore[assignment]
    changes: int = 0  # models created and dropped
    notes: dict[str, tuple[int, int, bytes]] = field(default_factory=dict)  # by host: when it was noted, when it lapses
    used: dict[tuple[int, str, str], tuple[int, int]] = field(default_factory=dict)  # events and bytes by day, key and process
    lapses_ms: int | None = None  # end of the lease by the store's clock; None: no end


def _locked(call: F) -> F:
    @functools.wraps(call)
    def under_the_lock(self: SharedMemoryStore, *arguments: Any, **named: Any) -> Any:
        with self._changed:
            return call(self, *arguments, **named)

    return cast(F, under_the_lock)


class SharedMemoryStore(PlainStore):
    """One store object on content that several threads share. Every call takes the same lock."""

    def __init__(self, dedupe_events: int = DEDUPE_EVENTS, clock: Clock | None = None) -> None:
        super().__init__(dedupe_events)
        self._clock = clock or SystemClock()
        self._changed = threading.Condition(threading.RLock())
        self._kept: _Shared = _Shared()
        self.gone = ""  # if not empty, every call raises `Unavailable` with this text

    subject_key = _locked(PlainStore.subject_key)
    read = _locked(PlainStore.read)
    stage = _locked(PlainStore.stage)
    commit = _locked(PlainStore.commit)
    mark_verified = _locked(PlainStore.mark_verified)
    trim = _locked(PlainStore.trim)
    remember = _locked(PlainStore.remember)
    recall = _locked(PlainStore.recall)
    remembered = _locked(PlainStore.remembered)
    due = _locked(PlainStore.due)
    forget = _locked(PlainStore.forget)
    idle = _locked(PlainStore.idle)

    def another(self) -> SharedMemoryStore:
        """Return another store object on the same content."""
        other = SharedMemoryStore(self.dedupe_events, self._clock)
        other._kept, other._changed = self._kept, self._changed
        return other

    def acquire(self, nonce: bytes, algo_version: int, host: str, now_ms: int, ttl_ms: int | None = None) -> Owner:
        with self._changed:
            kept = self._open()
            holder = self.holder()
            if ttl_ms is not None and holder is not None:
                if kept.nonce != nonce:
                    raise Conflict(f"{holder.host} owns the store for another {holder.remaining_ms} ms", "owned")
                self._kept.lapses_ms = self._clock.monotonic_ms() + ttl_ms
                return Owner(kept.epoch, kept.nonce)
            owner = super().acquire(nonce, algo_version, host, now_ms)
            self._kept.lapses_ms = None if ttl_ms is None else self._clock.monotonic_ms() + ttl_ms
            return owner

    def heartbeat(self, owner: Owner, ttl_ms: int) -> Mapping[str, Standing] | None:
        with self._changed:
            if not self._owns(owner):
                return None
            self._kept.lapses_ms = self._clock.monotonic_ms() + ttl_ms
            return self.standings()

    def standings(self) -> Mapping[str, Standing]:
        with self._changed:
            return {name: self._standing(name) for name in self.models()}

    def changes(self) -> int:
        with self._changed:
            return self._open().changes

    def chains_at(self, model: str, seqs: Sequence[int]) -> list[bytes | None]:
        with self._changed:
            entry = self._model(model)
            first = entry.head.first_seq
            return [None if seq < first - 1 else self._chain_at(entry, seq) or b"" for seq in seqs]

    def announce(self, host: str, ttl_ms: int, said: bytes) -> list[Process]:
        with self._changed:
            self._open()
            now_ms, notes = self._clock.monotonic_ms(), self._kept.notes
            notes[host] = (now_ms, now_ms + ttl_ms, said)
            self._kept.notes = {host: note for host, note in notes.items() if note[1] > now_ms}
            return sorted(Process(host, now_ms - at, said) for host, (at, _, said) in self._kept.notes.items())

    def use(self, day: int, source: str, used: Mapping[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
        with self._changed:
            self._open()
            kept = self._kept.used
            kept.update({(day, key, source): each for key, each in used.items()})
            for old in [one for one in kept if one[0] < day - 1]:
                del kept[old]
            of_day = [(key, each) for (when, key, of), each in kept.items() if when == day and of != source]
            return {
                key: (sum(e[0] for k, e in of_day if k == key), sum(e[1] for k, e in of_day if k == key)) for key, _ in of_day
            }

    def holder(self) -> Holder | None:
        with self._changed:
            kept = self._open()
            lapses_ms = self._kept.lapses_ms
            left = 2**53 if lapses_ms is None else lapses_ms - self._clock.monotonic_ms()
            return Holder(kept.epoch, kept.host, left, kept.algo_version) if kept.nonce and left > 0 else None

    def create(self, model: str, lineage: bytes) -> Head:
        with self._changed:
            head = super().create(model, lineage)
            self._kept.changes += 1
            return head

    def drop(self, owner: Owner, model: str) -> None:
        with self._changed:
            super().drop(owner, model)
            self._kept.changes += 1

    def append(self, group: Sequence[Append]) -> list[Appended]:
        with self._changed:
            appended = super().append(group)
            self._changed.notify_all()
            return appended

    def await_log(self, after: Mapping[str, int], timeout_ms: int) -> Mapping[str, Sequence[Record]]:
        def reached() -> dict[str, list[Record]]:
            models = self._open().models
            ahead = [name for name, seq in after.items() if name in models and models[name].head.seq > seq]
            return {name: [record for record in models[name].log if record.last > after[name]][:1] for name in ahead}

        with self._changed:
            self._changed.wait_for(reached, timeout_ms / 1000)
            return reached()

    def publish(self, owner: Owner, model: str, edition: Edition, content: bytes) -> Verdict:
        with self._changed:
            entry = self._model(model)
            if not self._owns(owner):
                return Verdict.FENCED
            newest = entry.editions[0][0] if entry.editions else None
            verdict = self._verdict(entry, edition, newest)
            if verdict is Verdict.OK:
                number = newest.number + 1 if newest else 1
                numbered = dataclasses.replace(edition, number=number, epoch=owner.epoch)
                entry.editions = [(numbered, content), *entry.editions[: EDITIONS_KEPT - 1]]
            return verdict

    def _verdict(self, entry: _SharedModel, edition: Edition, newest: Edition | None) -> Verdict:
        if edition.lineage != entry.head.lineage:
            return Verdict.FORK
        if newest and edition.applied < newest.applied:
            return Verdict.BEHIND
        return same_chain(edition.applied, edition.chain, entry.head, entry.generations, self._chain_at(entry, edition.applied))

    def open_edition(self, model: str) -> tuple[Edition, bytes] | None:
        with self._changed:
            editions = self._model(model).editions
            if not editions:
                return None
            edition, content = editions[0]
            if hashlib.blake2b(content, digest_size=32).digest() != edition.digest:
                raise Corrupt(f"the digest of edition {edition.number} of {model!r} does not match", "edition_corrupt")
            return edition, content

    def _open(self) -> _Shared:
        if self.gone:
            raise Unavailable(self.gone, "store_unreachable")
        super()._open()
        return self._kept

    def _model(self, model: str) -> _SharedModel:
        return cast(_SharedModel, super()._model(model))

    def _new(self, head: Head) -> _SharedModel:
        return _SharedModel(head, head.chain)

    def _write(self, plan: Planned) -> None:
        super()._write(plan)
        record = plan.appended.record
        if record is not None and _accepts_loss(record):
            self._kept.models[record.model].accepted = record.payload

    def _standing(self, name: str) -> Standing:
        entry = self._model(name)
        newest = entry.generations[0] if entry.generations else None
        edition = entry.editions[0][0] if entry.editions else None
        return Standing(
            entry.head,
            newest.gen if newest else 0,
            newest.applied if newest else 0,
            edition.number if edition else 0,
            edition.applied if edition else 0,
            entry.inflight[1] if entry.inflight[0] == DAMAGED else 0,
            entry.accepted,
        )


def _accepts_loss(record: Record) -> bool:
    """Whether a record is a `repair` that accepts the loss of missing events, found as the Lua script finds it."""
    return record.kind == "repair" and b'"action":"%b"' % ACCEPT_LOSS.encode() in record.payload
