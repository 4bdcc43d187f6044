"""The leader's lease of a shared store: acquiring it, renewing it, and detecting a store that was rolled back or exchanged.

Theory of operation
    One process owns the store until another takes it, which none may before the lease has expired. Expiry is decided by the
    store's clock, never by that of a process. A lease that expired is renewed if no other process took it.
    Each renewal returns the standing of every model, and the owner compares it with its own position. The log must have at
    least the events that were learnt. If the log ends with the last of them, its chain must be the same. The newest generation
    must be no older than the last one committed. Otherwise the store was rolled back or is another one. The state of this
    process is then invalid: the process ends, and a new start loads what the store has.

        try_acquire ──► None: another process holds it ──► wait, try again
             │
             ▼ Owner
        renew, every ttl / 3 ──► Conflict `fenced`: another owns the store now       ──┐
             │               ──► Corrupt `log_fork`: the store was rolled back        ──┴──► end the process
             ▼
        standings of every model

    This module never sleeps and starts no thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TypeVar

from riata.base.clock import Clock
from riata.base.errors import Conflict, LogFork
from riata.base.frozen_dataclass import frozen_dataclass
from riata.learn import registry
from riata.store.store import Holder, Owner, SharedStore, Standing

T = TypeVar("T")
log = logging.getLogger("riata.run")


@frozen_dataclass(frozen=True, slots=True)
class WriterPosition:
    """What the owner knows of a model: learnt up to event `applied`, whose chain is `chain`; generation `gen` is committed."""

    lineage: bytes
    applied: int
    chain: bytes
    gen: int


class Lease:
    """The lease of one process. `call` runs work on a store object and returns what it returns."""

    def __init__(
        self, call: Callable[[Callable[[SharedStore], object]], object], nonce: bytes, host: str, ttl_ms: int, clock: Clock
    ) -> None:
        self.owner: Owner | None = None
        self.holder: Holder | None = None  # the holder found when the lease was last requested and not granted
        self.renewed_ms = 0  # monotonic clock, when the last successful renewal was sent
        self._call = call
        self._nonce = nonce
        self._host = host
        self._ttl_ms = ttl_ms
        self._clock = clock

    def try_acquire(self) -> Owner | None:
        """Acquire the lease, or return None if another process holds it; `holder` then names it. Raises `Unavailable`,
        `Conflict` (code `older_algorithm`)."""
        asked_ms = self._clock.monotonic_ms()
        try:
            version, now_ms = registry.ALGO_VERSION, self._clock.unix_ms()
            self.owner = self._do(lambda s: s.acquire(self._nonce, version, self._host, now_ms, self._ttl_ms))
        except Conflict as error:
            if error.code != "owned":
                raise
            before, self.holder = self.another_version(), self._do(lambda s: s.holder())
            if (now := self.another_version()) and now != before:
                log.warning("standing by: %s", now)
            return None
        self.holder = None
        self.renewed_ms = asked_ms
        return self.owner

    def another_version(self) -> str:
        """Return what a takeover would mean if the owner of the store has another version of the algorithms; otherwise empty."""
        mine, holder = registry.ALGO_VERSION, self.holder
        if holder is None or holder.algo_version == mine:
            return ""
        if holder.algo_version > mine:
            return (
                f"{holder.host} owns the store with algorithm version {holder.algo_version}, and this program has version "
                f"{mine}: it cannot take over; run the same version or a newer one"
            )
        return (
            f"{holder.host} owns the store with algorithm version {holder.algo_version}: if this process takes over, it writes "
            f"an upgrade event to version {mine} for every model, and processes of the older version can no longer lead"
        )

    def renew(self, positions: Callable[[], Mapping[str, WriterPosition]]) -> Mapping[str, Standing]:
        """Renew the lease for another term. Returns the standings of every model.

        `positions` is called before and after: a model dropped meanwhile is ignored. Raises `Conflict` (code `fenced`) if
        another process owns the store, `LogFork` if the store was rolled back or exchanged, `Unavailable` if it does not answer.
        """
        owner = self.owner
        if owner is None:
            raise Conflict("the lease was never acquired", "fenced")
        before = dict(positions())
        asked_ms = self._clock.monotonic_ms()
        standings = self._do(lambda s: s.heartbeat(owner, self._ttl_ms))
        lost = standings is None
        found = self._do(lambda s: s.standings()) if standings is None else standings
        now = positions()
        for name, position in before.items():
            if name in now and now[name].lineage == position.lineage:
                require_same(name, position, found.get(name))
        if lost:
            raise Conflict("another process owns the store now", "fenced")
        self.renewed_ms = asked_ms
        return found

    def release(self) -> None:
        """Release the lease, so that the next leader need not wait until it expires."""
        owner, self.owner = self.owner, None
        if owner is not None:
            self._do(lambda s: s.release(owner))

    def unrenewed_ms(self) -> int:
        """Return how long ago the last answered renewal was sent."""
        return self._clock.monotonic_ms() - self.renewed_ms

    def _do(self, work: Callable[[SharedStore], T]) -> T:
        return self._call(work)  # type: ignore[return-value]  # a call returns what its work returns


def require_same(name: str, position: WriterPosition, standing: Standing | None) -> None:
    """Raise `LogFork` if a model in the store does not continue `position`."""
    if standing is None:
        raise LogFork(f"model {name} is no longer in the store: the store was emptied or replaced")
    head = standing.head
    if head.lineage != position.lineage:
        raise LogFork(f"model {name} in the store is another one: it was created again, or the store was replaced")
    if head.seq < position.applied:
        raise LogFork(
            f"the log of {name} ends at event {head.seq}, but event {position.applied} was learnt: the log was rolled back"
        )
    if head.seq == position.applied and head.chain != position.chain:
        raise LogFork(f"event {head.seq} in the log of {name} differs from the one that was learnt")
    if standing.gen < position.gen:
        raise LogFork(
            f"the newest snapshot of {name} is {standing.gen}, but {position.gen} was committed: the store was rolled back"
        )
