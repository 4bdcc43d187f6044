"""A service to do things to: one process on SQLite, or web and writer on Redis, each killed and started again as asked."""

from __future__ import annotations

import random
import sqlite3
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import httpx

from tests.chaos.stored import Entry, RedisSource, SqliteSource
from tests.redis_server import RedisServer
from tests.running import Running

NO_RESERVE = {"RIATA_DISK_RESERVE_BYTES": "0"}
WAIT_S = 900.0


class World(Protocol):
    """A running service. `learner_url` is that of the process that learns, which alone makes checkpoints."""

    url: str
    learner_url: str

    def kill(self, rng: random.Random) -> None:
        """SIGKILL to one process."""
        ...

    def stop(self) -> None:
        """SIGTERM to all processes."""
        ...

    def start(self) -> None:
        """Start the processes that do not run; returns when all are ready."""
        ...

    def entries(self, model: str) -> list[Entry] | None:
        """The stored log; None if it cannot be read while a process has it open."""
        ...

    def output(self) -> str:
        """The end of the logs."""
        ...

    def damage(self, model: str) -> None:
        """Change one byte of the newest checkpoint while no process runs."""
        ...


class OneProcess:
    """`riata serve` on SQLite."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self._directory = directory
        self._running = stack.enter_context(Running(directory / "data", NO_RESERVE))
        self.url = self.learner_url = self._running.url
        self._running.start()

    def kill(self, rng: random.Random) -> None:  # noqa: ARG002
        self._running.kill()

    def stop(self) -> None:
        assert self._running.stop() == 0, self._running.output()

    def start(self) -> None:
        if self._running.process.poll() is not None:
            self._running.start()

    def entries(self, model: str) -> list[Entry] | None:
        if self._running.process.poll() is None:
            return None
        return SqliteSource(self._running.directory, self._directory).entries(model)

    def output(self) -> str:
        return self._running.output()

    def damage(self, model: str) -> None:
        connection = sqlite3.connect(self._running.directory / "riata.db")
        with connection:
            (number,) = connection.execute("SELECT id FROM models WHERE name = ?", (model,)).fetchone()
            (newest,) = connection.execute("SELECT max(gen) FROM generations WHERE model = ?", (number,)).fetchone()
            at = (number, newest)
            chunk = bytearray(
                connection.execute("SELECT data FROM chunks WHERE model = ? AND gen = ? AND idx = 0", at).fetchone()[0]
            )
            chunk[len(chunk) // 2] ^= 1
            connection.execute("UPDATE chunks SET data = ? WHERE model = ? AND gen = ? AND idx = 0", (bytes(chunk), *at))
        connection.close()


class WebAndWriter:
    """A web process and a writer on Redis; the process to kill is drawn."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self.redis = stack.enter_context(RedisServer(directory / "redis"))
        self._web = stack.enter_context(Running.of_role(directory / "web", "web", self.redis.url))
        self._writer = stack.enter_context(Running.of_role(directory / "writer", "writer", self.redis.url))
        self.url, self.learner_url = self._web.url, self._writer.url
        self._all = [self._writer, self._web]
        for running in self._all:
            running.start(wait=False)
        for running in self._all:
            running.wait_until_ready()

    def kill(self, rng: random.Random) -> None:
        rng.choice(self._all).kill()

    def stop(self) -> None:
        for running in reversed(self._all):
            if running.process.poll() is None:
                assert running.stop() == 0, running.output()

    def start(self) -> None:
        for running in self._all:
            if running.process.poll() is not None:
                running.start(wait=False)
        for running in self._all:
            running.wait_until_ready()

    def entries(self, model: str) -> list[Entry] | None:
        return RedisSource(self.redis.url).entries(model)

    def output(self) -> str:
        return "\n".join(running.output() for running in self._all)

    def damage(self, model: str) -> None:
        with self.redis.client() as client:
            number = client.hget("{riata:riata}:models", model)
            assert isinstance(number, bytes)
            prefix = b"{riata:riata}:m:" + number
            newest = max(map(int, client.hgetall(prefix + b":gens")))
            key = prefix + b":c:%d" % newest
            chunk = bytearray(client.hget(key, "0") or b"")
            chunk[-1] ^= 1
            client.hset(key, "0", bytes(chunk))


def ready(url: str) -> bool:
    """Whether a process accepts requests."""
    try:
        return httpx.get(f"{url}/readyz", timeout=5).status_code == 200
    except httpx.TransportError:
        return False
