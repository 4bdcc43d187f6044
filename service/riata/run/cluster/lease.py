"""Who leads: taking and keeping the lease of a shared store, and noticing that the store is no longer what it was.

Theory of operation
    One process owns the store for as long as it renews its lease; by the store's clock, never by its own. Each renewal
    answers where every model stands, and the owner compares that with what it believes: the log has at least the events that
    were learnt, with the chain they had where it ends with them, and the newest generation is no older than the last one
    committed. A store of which that is not true was rolled back, or is another one. Then nothing of this process is worth
    keeping: it ends, and a new start takes what the store has.

        try_acquire ──► None: another holds it ──► wait, ask again
             │
             ▼ Owner
        renew, every ttl / 3 ──► Conflict `fenced`: another owns the store now       ──┐
             │               ──► Corrupt `log_fork`: the store was rolled back        ──┴──► end the process
             ▼
        where every model stands

    Nothing here waits, and nothing here is a thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from riata.base.clock import Clock
from riata.base.errors import Conflict, LogFork
from riata.learn import registry
from riata.store.store import Holder, Owner, SharedStore, Standing

T = TypeVar("T")
log = logging.getLogger("riata.run")
SharedCall = Callable[[Callable[[SharedStore], T]], T]


@dataclass(frozen=True, slots=True)
class WriterPosition:
    """What the owner knows of a model: learnt to event `applied` with that chain, generation `gen` committed."""

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
        self.holder: Holder | None = None  # who was met when the lease was last asked for and not given
        self.renewed_ms = 0  # by the monotonic clock, at the moment the last successful renewal was sent
        self._call = call
        self._nonce = nonce
        self._host = host
        self._ttl_ms = ttl_ms
        self._clock = clock

    def try_acquire(self) -> Owner | None:
        """Take the lease, or None where another holds it; `holder` then says who. Raises `Unavailable`, `Conflict` (code
        `older_algorithm`)."""
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
        """What a take-over would mean where the process that owns the store has another version of the algorithms; else empty."""
        mine, holder = registry.ALGO_VERSION, self.holder
        if holder is None or holder.algo_version == mine:
            return ""
        if holder.algo_version > mine:
            return (
                f"{holder.host} owns the store under algorithm {holder.algo_version}, and this program has algorithm {mine}: it "
                "cannot take over, start it as that version or a newer one"
            )
        return (
            f"{holder.host} owns the store under algorithm {holder.algo_version}: a take-over by this process writes an upgrade "
            f"event to algorithm {mine} for every model, and processes of the older version cannot lead any more"
        )

    def renew(self, positions: Callable[[], Mapping[str, WriterPosition]]) -> Mapping[str, Standing]:
        """Keep the lease for another term. Returns where every model stands.

        `positions` is asked before and after: a model dropped meanwhile proves nothing. Raises `Conflict` (code `fenced`) where
        another owns the store, `LogFork` where the store is not what it was, `Unavailable` where it does not answer.
        """
        owner = self.owner
        if owner is None:
            raise Conflict("the lease was never taken", "fenced")
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
        """Give the store up, so that the next one need not wait for the lease to lapse."""
        owner, self.owner = self.owner, None
        if owner is not None:
            self._do(lambda s: s.release(owner))

    def unrenewed_ms(self) -> int:
        """How long ago the last renewal that was answered was sent."""
        return self._clock.monotonic_ms() - self.renewed_ms

    def _do(self, work: Callable[[SharedStore], T]) -> T:
        return self._call(work)  # type: ignore[return-value]  # a call returns what its work returns


def require_same(name: str, position: WriterPosition, standing: Standing | None) -> None:
    """Raise `LogFork` where a model in the store does not continue what is believed of it."""
    if standing is None:
        raise LogFork(f"model {name} is no longer in the store: it was emptied, or is another one")
    head = standing.head
    if head.lineage != position.lineage:
        raise LogFork(f"model {name} in the store is another one: it was made again, or the store is another one")
    if head.seq < position.applied:
        raise LogFork(f"the log of {name} ends at event {head.seq}, and event {position.applied} was learnt: it was rolled back")
    if head.seq == position.applied and head.chain != position.chain:
        raise LogFork(f"the log of {name} has another event {head.seq} than the one that was learnt")
    if standing.gen < position.gen:
        raise LogFork(f"the newest generation of {name} is {standing.gen}, and {position.gen} was committed: it was rolled back")
