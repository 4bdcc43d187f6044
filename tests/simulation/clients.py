"""Clients: each sends its events, and repeats them until they are answered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import numpy as np

from riata.base.errors import Corrupt, RiataError, Unavailable
from riata.store.store import Appended
from riata.wire.batch import Batch
from tests.simulation.oracle import Content, Oracle, Violation
from tests.simulation.world import Process, World

Answer = Appended | RiataError
EVENTS: Final = 12
AGAIN: Final = 40  # events sent again, and corrected, in histories with restores
PATIENCE_MS: Final = (150.0, 1500.0)


class Front(Protocol):
    """A process that accepts events."""

    process: Process

    def observe(self, batch: Batch, done: Callable[[Answer], None]) -> None:
        """Take one request; `done` is called once, or never if the process dies."""
        ...


def batch_of(events: Sequence[tuple[bytes, Content]]) -> Batch:
    """One request: events of one feature, each with its id."""
    n = len(events)
    return Batch(
        indptr=np.arange(n + 1, dtype=np.int64),
        hash=np.array([content[0] for _, content in events], np.uint32),
        value=np.array([content[1] for _, content in events]),
        label=np.array([float(content[2]) for _, content in events]),
        weight=np.ones(n),
        event_id=np.frombuffer(b"".join(key for key, _ in events), np.uint8).reshape(n, 16),
        has_id=np.ones(n, np.bool_),
    )


def outcome_of(answer: Any) -> str:
    """The outcome that a refused request reports for its events, as `web` reports it to clients."""
    if isinstance(answer, Unavailable):
        return answer.outcome
    return "unknown" if isinstance(answer, Corrupt) else "not_accepted"


class Client:
    """One client. It uses any process that is alive, sends a few events at a time, and sometimes sends an old one again."""

    def __init__(self, world: World, number: int, fronts: Callable[[], Sequence[Front]], oracle: Oracle) -> None:
        self.world = world
        self.oracle = oracle
        self.fronts = fronts
        self.process = Process(world, f"client {number}")
        rng = world.rng
        self.events: list[tuple[bytes, Content]] = [
            (b"event%5d%5d!" % (number, i), (1000 * number + i, rng.randint(1, 999) / (3 if i % 3 == 0 else 4), i % 2))
            for i in range(EVENTS)
        ]
        self.done = False
        self.repeats = 0

    def start(self) -> None:
        self.process.spawn(self._live)

    def _live(self) -> None:
        rng = self.world.rng
        left = list(self.events)
        told: list[tuple[bytes, Content]] = []
        while left:
            size = rng.choice((1, 1, 2, 3))
            some, left = left[:size], left[size:]
            self._tell(some)
            told += some
            if rng.random() < 0.3:
                self.repeats += 1
                self._tell([rng.choice(told)])
            self.world.sleep(rng.expovariate(1 / 60))
        for _ in range(AGAIN if self.oracle.restores else 0):
            key, content = rng.choice(told)
            corrected = (content[0], content[1], 1 - content[2])
            self._tell([(key, corrected if rng.random() < 0.3 else content)])
            self.world.sleep(rng.expovariate(1 / 60))
        self.done = True

    def _tell(self, events: list[tuple[bytes, Content]]) -> None:
        while events:
            events = self._ask(events)
            if events:
                self.world.sleep(self.world.rng.uniform(5, 120))

    def _ask(self, events: list[tuple[bytes, Content]]) -> list[tuple[bytes, Content]]:
        """Send one request; returns the events that are not known to be accepted yet."""
        world, oracle = self.world, self.oracle
        alive = self.fronts()
        if not alive:
            return events
        front = world.rng.choice(alive)
        actor, ticket = world.here(), world.ticket()
        answers: list[Answer] = []

        def done(answer: Answer) -> None:
            answers.append(answer)
            world.wake(actor, ticket, world.rng.uniform(0.1, 3.0))

        def arrive() -> None:
            if front.process.alive:
                front.observe(batch_of(events), done)

        since = len(oracle.history)
        for key, content in events:
            oracle.sending(key, content)
        world.after(world.rng.uniform(0.1, 3.0), arrive)
        received = world.park(world.rng.uniform(*PATIENCE_MS), ticket)
        return self._note(events, answers[0] if received else Unavailable("no answer", outcome="unknown"), since)

    def _note(self, events: list[tuple[bytes, Content]], answer: Any, since: int) -> list[tuple[bytes, Content]]:
        oracle = self.oracle
        if isinstance(answer, RiataError) or answer.refused is not None:
            outcome = outcome_of(answer)
            for key, _ in events:
                oracle.answered(key, outcome)
            return events
        again = []
        for i, (key, content) in enumerate(events):
            if answer.reused[i] or answer.duplicate[i]:
                oracle.was_known(key, content if answer.duplicate[i] else None, since)
            if answer.reused[i]:
                if not oracle.restores:
                    raise Violation("an event was refused as one of other content")
                oracle.fates[key].open -= 1
                continue
            taken = bool(answer.accepted[i] or answer.duplicate[i])
            oracle.answered(key, "accepted" if taken else "not_accepted", answer.seq)
            again += [] if taken else [(key, content)]
        return again
