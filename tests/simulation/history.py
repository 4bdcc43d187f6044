"""One seed, one history: a period of faults, then quiet; the promises are checked all along."""

from __future__ import annotations

import contextlib
import logging
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from riata.run.cluster import store_identity
from riata.run.log import log_thread
from riata.store.store import SharedStore
from tests.simulation.clients import Client
from tests.simulation.cluster import CONFIG, MODEL, Cluster, SimulatedNode
from tests.simulation.link import Link, SimulatedCalls, Weather
from tests.simulation.lua_host import Scripts
from tests.simulation.opening import open_simulated
from tests.simulation.oracle import Oracle, Violation
from tests.simulation.promoter import Promoter
from tests.simulation.releases import several_releases
from tests.simulation.restorer import Restorer
from tests.simulation.scribe import Scribe
from tests.simulation.server import Mode, Server
from tests.simulation.shims import installed, load_note, running, save_note
from tests.simulation.toy import learning_toys
from tests.simulation.world import Process, Stuck, World

CLIENTS: Final = 3
CALM_MS: Final = 60_000.0  # virtual time in which everything must be well again once the faults end
EMPTY_MS: Final = 20_000.0
STEPS_MAX: Final = 200_000
IDLE_S: Final = 2.0  # housekeeping comes less often than in production: it would be a quarter of all that happens


@dataclass(slots=True)
class Outcome:
    """The result of a history."""

    seed: int
    mode: Mode
    violation: str = ""
    trace: str = ""
    steps: int = 0
    virtual_ms: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    events: int = 0
    generations: int = 0
    editions: int = 0
    losses: int = 0
    upgrades: int = 0  # upgrade events that count
    promotions: int = 0  # promotions that count
    restores: int = 0
    again: int = 0  # events of ids that restores had freed
    ends: Counter[str] = field(default_factory=Counter)


@contextlib.contextmanager
def simulating() -> Iterator[None]:
    """Replaces everything that must be simulated, for any number of histories."""
    module: Any = log_thread
    notes: Any = store_identity
    files = notes.load, notes.save
    notes.load, notes.save = load_note, save_note
    disabled, idle_s = logging.root.manager.disable, module.IDLE_S
    logging.disable(logging.CRITICAL)
    module.IDLE_S = IDLE_S
    try:
        with installed(), learning_toys(), several_releases():
            yield
    finally:
        module.IDLE_S = idle_s
        notes.load, notes.save = files
        logging.disable(disabled)


def simulate(seed: int, mode: Mode, scripts: Scripts, promotes: bool | None = None, restores: bool = False) -> Outcome:
    """Run the history of `seed`. Never raises because of the history; `violation` has the error.

    promotes : whether states of the log are promoted; by default in half of the histories of each mode
    restores : whether states of the log are restored in place of that, by processes of one release
    """
    world = World(seed, STEPS_MAX)
    with running(world):
        history = History(world, mode, scripts, seed // 3 % 2 == 1 if promotes is None else promotes, restores)
        outcome = Outcome(seed, mode)
        try:
            history.play()
        except (Violation, Stuck) as error:
            outcome.violation = f"{type(error).__name__}: {error}"
        if world.failures and not outcome.violation:
            process, actor, failure = world.failures[0]
            outcome.violation = f"{process}, {actor}: {type(failure).__name__}: {failure}"
        history.end()
        history.report(outcome)
    return outcome


class History:
    """The parts of one history."""

    def __init__(self, world: World, mode: Mode, scripts: Scripts, promotes: bool, restores: bool = False) -> None:
        self.world = world
        self.mode = mode
        self.oracle = Oracle(lossless=mode == "always", restores=restores)
        self.server = Server(world, scripts, mode)
        self.scribe = Scribe(self.oracle, lambda: self.server.redis)
        self.server.received = self.scribe.received
        self.server.fell_back = self._fell_back
        self.weather = Weather()
        self.links: list[Link] = []
        self.cluster = Cluster(world, self._opener, self.oracle)
        self.clients = [Client(world, i, self.cluster.fronts, self.oracle) for i in range(CLIENTS)]
        self.senders: list[Client | Promoter | Restorer] = [*self.clients]
        if restores:
            self.senders.append(Restorer(world, self._opener, MODEL))
        elif promotes:
            self.senders.append(Promoter(world, self._opener, MODEL, CONFIG))
        self.faults = Faults(self)
        self._is_well = False

    def play(self) -> None:
        """Run the history. Raises `Violation` or `Stuck`."""
        world = self.world
        world.calm = True
        founder = Process(world, "founder")
        founded = founder.spawn(self.cluster.found)
        world.run(stop=lambda: founded.done)
        self._check()
        self.server.floor = len(self.server.file)
        for one in self.senders:
            one.start()
        world.calm = False
        self.faults.begin()
        world.run(until=world.now + self.faults.storm_ms, stop=self._failed)
        self._check()
        self.faults.end()
        world.run(until=world.now + CALM_MS, stop=lambda: self._failed() or self._well())
        self._check()
        if not self._well():
            raise Violation(self._unwell())
        scrubbed = self.cluster.scrubs + 2  # one that had begun before tells nothing
        world.run(until=world.now + CALM_MS, stop=lambda: self._failed() or (self.cluster.scrubs >= scrubbed and self._well()))
        self._check()
        if self.cluster.scrubs < scrubbed or not self._well():
            raise Violation(f"{self.cluster.scrubs - scrubbed + 2} scrubs of 2, {self._unwell()}")
        looks = self.cluster.looks()  # what was taken back last may be younger than the last look of some
        world.run(until=world.now + CALM_MS, stop=lambda: self._failed() or self.cluster.looked_again(looks))
        self._check()
        self.cluster.check_noticed(self.scribe.first_seq())
        self.scribe.check_newest()
        self._empty()

    def _empty(self) -> None:
        """All processes are killed and the store is emptied; no restarted process may take it for a new one. Raises
        `Violation`.
        """
        world = self.world
        lost = [node.lost() for node in self.cluster.houses]
        if max(lost) > self.oracle.taken_back:
            raise Violation(f"{max(lost)} events are said to be lost, and {self.oracle.taken_back} were taken back")
        world.run(until=world.now + 3000, stop=self._failed)  # what was learnt last is in the notes
        self.cluster.kill_all()
        self.server.empty()
        world.run(until=world.now + EMPTY_MS, stop=lambda: self._failed() or self.cluster.refused())
        self._check()
        if not self.cluster.refused():
            raise Violation(
                f"an emptied store is used: {[(h.process.name, h.strange(), h.leads()) for h in self.cluster.houses]}"
            )

    def end(self) -> None:
        """Discard all processes."""
        self.cluster.kill_all()
        for one in self.senders:
            one.process.kill()

    def report(self, outcome: Outcome) -> None:
        """Make the outcome."""
        outcome.trace = self.world.trace()
        outcome.steps, outcome.virtual_ms = self.world.steps, self.world.now
        outcome.faults = self.faults.counts + self.weather.faults
        outcome.events, outcome.losses = self.oracle.seq, self.oracle.losses
        outcome.generations, outcome.editions = len(self.oracle.generations), self.scribe.editions
        outcome.upgrades = len(self.oracle.upgrades)
        outcome.promotions = sum(told.promoted is not None for told in self.oracle.history)
        outcome.restores = sum(told.restored is not None for told in self.oracle.history)
        outcome.again = self.oracle.again
        outcome.ends = Counter(reason[:60] for _, reason in self.cluster.ends)

    def _failed(self) -> bool:
        return bool(self.world.failures)

    def _check(self) -> None:
        if self.world.failures:
            process, actor, error = self.world.failures[0]
            if isinstance(error, Violation):
                raise error
            raise Violation(f"{process}, {actor}: {type(error).__name__}: {error}") from error

    def _well(self) -> bool:
        """Checked only at intervals, because it takes longer than a step."""
        if self.world.steps % 16 == 0:
            self._is_well = all(one.done for one in self.senders) and self.cluster.settled()
        return self._is_well

    def _unwell(self) -> str:
        waiting = [one.process.name for one in self.senders if not one.done]
        places = {node.process.name: (node.alive, node.leads(), node.applied()) for node in self.cluster.houses}
        newest = self.oracle.generations[-1] if self.oracle.generations else None
        return f"not well after the faults ended: log {self.oracle.seq}, {places}, clients waiting {waiting}, newest {newest}"

    def _opener(self, process: Process) -> Callable[[], SharedStore]:
        def open_store() -> SharedStore:
            link = Link(self.world, process, self.server, self.weather)
            self.links.append(link)
            return open_simulated(SimulatedCalls(link), self.world)

        return open_store

    def _fell_back(self, effects: int) -> None:
        gone = self.oracle.fell_back(effects)
        self.scribe.fell_back()
        if gone:
            self.cluster.forgot(gone)


class Faults:
    """The faults and their rates, drawn once for each seed; many rates are zero."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.world = history.world
        self.counts: Counter[str] = Counter()
        rng = self.world.rng
        self.storm_ms = rng.uniform(2000, 5000)
        kinds: dict[str, tuple[Callable[[], bool], float]] = {
            "writer killed": (self._kill_writer, 2.0),
            "web killed": (self._kill_web, 1.0),
            "process paused": (self._pause, 2.0),
            "link clogged": (self._clog, 3.0),
            "server crashed": (self._crash, 2.0),
            "failover": (self._fail_over, 3.0 if history.mode == "failover" else 0.0),
            "clock jumped": (self._jump, 1.0),
            "server's clock jumped": (self._jump_server, 0.3),
            "checkpoint rotted": (self._rot, 5.0),
            "server full": (self._fill, 1.0),
        }
        self._kinds = {name: (work, rate * rng.choice((0.0, 0.0, 0.5, 1.0, 2.0))) for name, (work, rate) in kinds.items()}
        self._total = sum(rate for _, rate in self._kinds.values())
        weather = history.weather
        self._storm = (
            rng.choice((0.0, 0.0, 0.01, 0.05, 0.15)), rng.choice((0.0, 0.0, 0.01, 0.05, 0.15)), rng.choice((0.0, 0.0, 0.01, 0.05))
        )  # fmt: skip
        weather.latency_ms = rng.choice((1.0, 3.0, 10.0))
        self._rotten_at = -1
        # Other failovers hardly ever fall between what a new leader reads and the upgrade event that it appends. This chance is
        # drawn apart, so that the other histories stay what they are.
        if history.mode == "failover" and random.Random(history.world.seed).random() < 0.25:
            history.server.upgrading = self._overtake

    def begin(self) -> None:
        weather = self.history.weather
        weather.lose_request, weather.lose_reply, weather.late_request = self._storm
        self._next()

    def end(self) -> None:
        """End all faults."""
        world, server, weather = self.world, self.history.server, self.history.weather
        world.calm = True
        weather.lose_request = weather.lose_reply = weather.late_request = 0.0
        weather.latency_ms = 3.0
        server.restart()
        server.full = False
        for link in self.history.links:
            link.clogged_until = 0.0
        for node in self.history.cluster.houses:
            node.process.paused_until = 0.0

    def _next(self) -> None:
        if self._total:
            self.world.after(self.world.rng.expovariate(self._total / 3000.0), self._strike)

    def _strike(self) -> None:
        if self.world.calm:
            return
        rng = self.world.rng
        draw = rng.random() * self._total
        for name, (work, rate) in self._kinds.items():
            draw -= rate
            if draw < 0:
                if work():
                    self.counts[name] += 1
                break
        self._next()

    def _some(self, role: str | None = None) -> SimulatedNode | None:
        houses = [node for node in self.history.cluster.houses if node.alive and role in (None, node.role)]
        return self.world.rng.choice(houses) if houses else None

    def _kill_writer(self) -> bool:
        node = self.history.cluster.leader() if self.world.rng.random() < 0.6 else self._some("writer")
        if node is None:
            return False
        node.process.kill()
        return True

    def _kill_web(self) -> bool:
        node = self._some("web")
        if node is None:
            return False
        node.process.kill()
        return True

    def _pause(self) -> bool:
        rng = self.world.rng
        node = self.history.cluster.leader() if rng.random() < 0.5 else self._some()
        if node is None:
            return False
        node.process.paused_until = self.world.now + rng.choice((50, 300, 2000, 5000)) * rng.random()
        return True

    def _clog(self) -> bool:
        rng = self.world.rng
        alive = [link for link in self.history.links if link.process.alive]
        if not alive:
            return False
        victim = rng.choice(alive).process
        until = self.world.now + rng.choice((100, 1000, 4000)) * rng.random()
        for link in alive:
            if link.process is victim and rng.random() < 0.7:
                link.clogged_until = until
        return True

    def _crash(self) -> bool:
        server = self.history.server
        if not server.up:
            return False
        self.counts["effects lost"] += server.crash()
        self.world.after(self.world.rng.uniform(10, 800), server.restart)
        return True

    def _fail_over(self) -> bool:
        if not self.history.server.up:
            return False
        self.counts["effects lost"] += self.history.server.fail_over()
        return True

    def _overtake(self) -> None:
        """A failover while the first upgrade event is on its way."""
        self.history.server.upgrading = lambda: None
        self.counts["failover before an upgrade"] += self._fail_over()

    def _jump(self) -> bool:
        node = self._some()
        if node is None:
            return False
        node.process.wall_offset_ms = self.world.rng.choice((-3_600_000, 0, 3_600_000, 10 * 365 * 86_400_000))
        return True

    def _jump_server(self) -> bool:
        self.history.server.clock_offset_ms += self.world.rng.choice((-5000, -500, 500, 5000))
        return True

    def _rot(self) -> bool:
        """Change a byte of the newest checkpoint; not again before a leader has polled it since."""
        server, generations = self.history.server, self.history.oracle.generations
        scrubs = self.history.cluster.scrubs
        if not server.up or not generations or scrubs == self._rotten_at:
            return False
        self._rotten_at = scrubs
        suffix = b":c:%d" % generations[-1].gen
        for key in [key for key in server.redis.data if key.endswith(suffix)]:
            field, chunk = next(iter(server.redis.data[key].items()))
            at = self.world.rng.randrange(len(chunk))
            flipped = chunk[:at] + bytes([chunk[at] ^ 1 << self.world.rng.randrange(8)]) + chunk[at + 1 :]
            server.rewrite("HSET", key, field, flipped)
            return True
        return False

    def _fill(self) -> bool:
        server = self.history.server
        server.full = True

        def drain() -> None:
            server.full = False

        self.world.after(self.world.rng.uniform(50, 2000), drain)
        return True
