"""The network between a process and the server: requests and replies that are late, lost, or executed after the caller timed
out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from riata.store.redis.link import Lost, NotSent, Refused, Reply
from tests.simulation.mini_redis import RedisError
from tests.simulation.server import Server
from tests.simulation.world import Process, World


@dataclass(slots=True)
class Weather:
    """The quality of the network: probabilities for each request."""

    latency_ms: float = 3.0
    lose_request: float = 0.0
    lose_reply: float = 0.0
    late_request: float = 0.0  # held back for up to `late_ms`, long after its sender gave up
    late_ms: float = 3000.0
    faults: Counter[str] = field(default_factory=Counter)


class Link:
    """The connection of one process to the server. If it is clogged, nothing passes until it is unclogged."""

    def __init__(self, world: World, process: Process, server: Server, weather: Weather) -> None:
        self.world = world
        self.process = process
        self.server = server
        self.weather = weather
        self.clogged_until = 0.0

    def ask(self, work: Callable[[], Any], timeout_ms: float) -> Any:
        """Have the server do `work`; one attempt. Raises `NotSent`, `Lost`, `Refused`.

        work : runs at the server when the request arrives
        """
        world, rng, weather = self.world, self.world.rng, self.weather
        actor = world.here()
        if not self.server.up:
            world.sleep(rng.random() * weather.latency_ms)
            raise NotSent("no server listens")
        answer: list[Any] = []
        ticket = world.ticket()
        life = self.server.life
        delay = self._delay()
        if not world.calm:
            if rng.random() < weather.lose_request:
                weather.faults["request lost"] += 1
                delay = -1.0
            elif rng.random() < weather.late_request:
                weather.faults["request late"] += 1
                delay += rng.random() * weather.late_ms

        def arrive() -> None:
            if self.clogged_until > world.now:
                world.after(self.clogged_until - world.now + self._delay(), arrive)
                return
            server = self.server
            if not server.up or (server.life != life and rng.random() < 0.5):
                return  # the connection went down with the server, unless the request was still on its way
            try:
                answer.append((True, work()))
            except RedisError as error:
                answer.append((False, error))
            synced, executed_in = len(server.file), server.life
            if not world.calm and rng.random() < weather.lose_reply:
                weather.faults["reply lost"] += 1
                return
            world.after(self._delay(), lambda: reply(synced, executed_in))

        def reply(synced: int, executed_in: int) -> None:
            server = self.server
            server.synced(synced, executed_in)
            if server.life != executed_in:
                return
            if self.clogged_until > world.now:
                world.after(self.clogged_until - world.now + self._delay(), lambda: reply(synced, executed_in))
                return
            world.wake(actor, ticket, 0.0)

        if delay >= 0.0:
            world.after(delay, arrive)
        if not world.park(timeout_ms, ticket):
            raise Lost("no answer in time")
        fine, value = answer[0]
        if not fine:
            raise Refused(str(value))
        return value

    def _delay(self) -> float:
        """Usually short, sometimes ten times longer."""
        draw = self.world.rng.random()
        return self.weather.latency_ms * (draw * draw if draw < 0.97 else 10 * draw)


class SimulatedCalls:
    """`Calls` of a `RedisStore` over a link."""

    address = "the simulated server"

    def __init__(self, link: Link) -> None:
        self._link = link

    def script(self, name: str, keys: Sequence[bytes], arguments: Sequence[bytes], timeout_ms: int) -> Reply:
        server = self._link.server
        found: Reply = self._link.ask(lambda: server.execute(name, list(keys), list(arguments)), timeout_ms)
        return found

    def command(self, parts: Sequence[bytes], timeout_ms: int) -> Reply:
        words = [part.upper() for part in parts]
        if words[0] == b"XREAD" and b"BLOCK" in words:
            return self._read_blocking(parts, words, timeout_ms)
        server = self._link.server
        found: Reply = self._link.ask(lambda: server.redis.call(words[0].decode(), *parts[1:]), timeout_ms)
        return found

    def close(self) -> None:
        return

    def _read_blocking(self, parts: Sequence[bytes], words: Sequence[bytes], timeout_ms: int) -> Reply:
        """Read at once, and again after an append or at the end of the time."""
        at = words.index(b"BLOCK")
        block_ms = float(parts[at + 1]) or 1e12
        rest = [*parts[1:at], *parts[at + 2 :]]
        world, server = self._link.world, self._link.server
        found: Reply = self._link.ask(lambda: server.redis.call("XREAD", *rest), timeout_ms)
        if found is None:
            actor, ticket = world.here(), world.ticket()
            server.watchers.append(lambda: world.wake(actor, ticket))
            world.park(min(block_ms, timeout_ms), ticket)
            found = self._link.ask(lambda: server.redis.call("XREAD", *rest), timeout_ms)
        return found
