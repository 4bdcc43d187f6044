"""A whole service: a Redis, and web, writer and replica processes, each with its own link that can be cut."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.chaos import invariants
from tests.chaos.cluster import Cluster, Load, Member, until
from tests.chaos.proxy import Proxy
from tests.chaos.stored import RedisSource
from tests.redis_server import RedisServer

LEASE_MS = 2000
SETTINGS: dict[str, object] = {"lease_ttl_ms": LEASE_MS, "store_timeout_ms": 1000, "follow_every_ms": 50}
EXIT_LOST = 75


class Fleet:
    """`webs` processes that accept events, `writers`, one of which learns, and `replicas` that predict, on one Redis.

    links : a proxy between a process and the Redis, by the name of the process
    """

    def __init__(self, directory: Path, server: RedisServer | None = None, **settings: object) -> None:
        self.directory = directory
        self.server = server or RedisServer(directory / "redis")
        self.cluster = Cluster(directory / "cluster")
        self.links: dict[str, Proxy] = {}
        self.settings = {**SETTINGS, **settings}
        self._stack = contextlib.ExitStack()
        self._owns_server = server is None

    def add(self, name: str, role: str, **settings: object) -> Member:
        """Add a process with its own link to the Redis."""
        link = self._stack.enter_context(Proxy(self.server.port))
        self.links[name] = link
        return self.cluster.add(name, role=role, store=link.url_of(), **{**self.settings, **settings})

    def begin(self, webs: int = 1, writers: int = 2, replicas: int = 1) -> None:
        """Start all processes, create the model, and wait until every process serves it."""
        found = [self.add(f"web{i}", "web") for i in range(webs)]
        found += [self.add(f"writer{i}", "writer") for i in range(writers)]
        found += [self.add(f"replica{i}", "replica") for i in range(replicas)]
        for member in found:
            member.kept = False  # the first start has to succeed
        self.webs[0].wait_ready()
        self.cluster.make_model(self.webs[0])
        for member in found:
            until(member.answers, 60, f"{member.name} predicts: {member.said()}")
            member.kept = True

    def _named(self, role: str) -> list[Member]:
        return [member for name, member in self.cluster.members.items() if name.startswith(role)]

    @property
    def webs(self) -> list[Member]:
        return self._named("web")

    @property
    def writers(self) -> list[Member]:
        return self._named("writer")

    @property
    def replicas(self) -> list[Member]:
        return self._named("replica")

    def active(self, within_s: float = 60) -> Member:
        """The writer that holds the lease."""
        found: list[Member] = []

        def there() -> bool:
            found[:] = [member for member in self.writers if member.lives() and member.metric("riata_lease_held") == 1]
            return bool(found)

        until(there, within_s, "one of the writers holds the lease")
        return found[0]

    def load(self, *options: str) -> Load:
        """Clients that send events to all web processes and predict with all processes that predict."""
        return self.cluster.load(*options, observe=self.webs, predict=[*self.webs, *self.writers, *self.replicas])

    def goes_on(self, load: Load, more: int = 5, within_s: float = 60) -> None:
        """Wait until that many more requests are acknowledged."""
        seen = load.acked()
        until(lambda: load.acked() >= seen + more, within_s, f"{more} more requests are acknowledged")

    def learnt(self, within_s: float = 60) -> None:
        """Wait until the replicas serve all events that the log has now; a load may go on meanwhile."""
        seq = RedisSource(self.server.url).top("m").seq

        def level() -> bool:
            return all(member.metric("riata_applied_seq", model="m") >= seq for member in self.replicas)

        until(level, within_s, "replicas serve the whole log")

    def require(self) -> invariants.Left:
        """Check INV after all processes of the service have ended."""
        self.cluster.stop()
        for link in self.links.values():
            link.heal()
        if not self.server.alive():
            self.server.start()
        return invariants.require(RedisSource(self.server.url), self.cluster.history())

    def tally(self) -> dict[str, int]:
        """End everything, check INV, and count for a table."""
        left = self.require()
        history = self.cluster.history()
        acked, lost, twice = invariants.positions(history, left.entries)
        unknown = {event_id for one in history.sent if one.outcome == "unknown" for event_id in one.ids}
        return {
            "events acknowledged": acked,
            "of them lost": lost,
            "of them twice": twice,
            "events of which some answer was `unknown`": len(unknown),
            "events in the log, configurations among them": left.top.seq,
            "predictions compared with the model they name": len(history.predicted),
            "violations of INV": 0,
        }

    def __enter__(self) -> Self:
        if self._owns_server:
            self.server.start()
        self.cluster.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.cluster.__exit__(kind, error, trace)
        self._stack.close()
        if self._owns_server and self.server.alive():
            self.server.resume()
            self.server.kill()
