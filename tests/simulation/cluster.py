"""Processes on one store: production engines as web and writer processes, with simulated threads, clocks and network."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from riata.base.errors import RiataError
from riata.run.engine_settings import Role
from riata.run.engine_shared import SharedEngine
from riata.run.served_model import ServedModel
from riata.run.state.config import Change, read_config
from riata.run.state.provenance import Provenance
from riata.store.store import Append, SharedStore
from riata.wire.batch import Batch
from tests.settings import engine_settings, retention
from tests.simulation.clients import Answer
from tests.simulation.oracle import Oracle, Told, Violation
from tests.simulation.releases import BASE
from tests.simulation.shims import Clock, finish
from tests.simulation.toy import BITS
from tests.simulation.world import Process, World

MODEL: Final = "default"
TTL_MS: Final = 1500
FOLLOW_MS: Final = 600
SCRUB_MS: Final = 900
CONFIG: Final = read_config(
    {"encoder": {"bits": BITS, "names_max": 10}, "publish_every_ms": 200, "checkpoint_every_s": 1, "checkpoint_every_events": 5}
)
OpenStore = Callable[[], SharedStore]


class SimulatedNode:
    """One process: an engine in one of the roles of a shared store."""

    def __init__(
        self, world: World, name: str, role: Role, open_store: Callable[[Process], OpenStore], oracle: Oracle, release: Provenance
    ) -> None:
        self.world = world
        self.role = role
        self.oracle = oracle
        self.process = Process(world, name)
        self.process.release = release
        self.ended = ""  # why the process ended itself
        self.scrubs = 0  # passes over the stored generations, from beginning to end
        self.unnoticed: list[Told] = []  # records that this process knew and the store took back: it must notice
        self.served: tuple[bytes, int] = (b"", 0)
        older = 2**20 if oracle.restores else 0
        settings = engine_settings(
            host=name, retention=retention(events=0, older_bytes=older), durability="fsync", role=role, shared=True,
            lease_ttl_ms=TTL_MS, follow_every_ms=FOLLOW_MS, observe_timeout_ms=2000, note=Path(name),
            lost_events_max=0 if oracle.lossless else 10**9,
        )  # fmt: skip
        self._settings = settings
        self._open_store = open_store(self.process)
        self.engine: SharedEngine | None = None
        self.process.spawn(self._live)

    @property
    def alive(self) -> bool:
        return self.process.alive

    def observe(self, batch: Batch, done: Callable[[Answer], None]) -> None:
        """Take a request as the service does: refuse it at once, or pass it to the log thread."""
        engine = self.engine
        if engine is None:
            return
        try:
            engine.require_accepting(engine.served_model(MODEL))
        except RiataError as error:
            done(error)
            return
        engine.context.log_thread.submit(Append(MODEL, "observe", Clock().unix_ms(), batch), done)

    def served_model(self) -> ServedModel | None:
        return self.engine.served_models.get(MODEL) if self.engine is not None else None

    def leads(self) -> bool:
        return self.engine is not None and self.engine.leads and self.engine.fatal is None

    def applied(self) -> int:
        """The last event that this process serves."""
        served_model = self.served_model()
        return served_model.served if served_model is not None else 0

    def caught_up(self, seq: int) -> bool:
        """Whether this process serves event `seq`, the last; or knows that it serves a history that was rolled back, which it
        keeps until the log is as long again.
        """
        served_model = self.served_model()
        if served_model is None or served_model.published is None:
            return False
        return served_model.published.applied > seq if served_model.another else served_model.served == seq

    def noticed(self) -> int:
        """How often this process found that the store has changed."""
        engine = self.engine
        if engine is None or engine.following is None:
            return 0
        return engine.following.follower.counts.rolled_back

    def lost(self) -> int:
        """The number of acknowledged events that this process reports as lost."""
        return self.engine.context.ledger.lost().get(MODEL, 0) if self.alive and self.engine is not None else 0

    def strange(self) -> str:
        """The reason why this process does not use the store; empty if it does."""
        following = self.engine.following if self.alive and self.engine is not None else None
        return following.follower.strange_code if following is not None else ""

    def heard_ms(self) -> int | None:
        """When this process last compared the served model with the store; None if it leads, or has not compared yet."""
        engine = self.engine
        if not self.alive or self.leads() or engine is None or engine.following is None:
            return None
        return engine.following.follower.heard_ms

    def forgot(self, gone: list[Told]) -> None:
        """The store lost records: remember which of them this process knew."""
        engine, served_model = self.engine, self.served_model()
        if not self.alive or engine is None or served_model is None:
            return
        known = {served_model.acked[1], served_model.published.chain if served_model.published else b""}
        if engine.learning is not None:
            known |= {position.chain for position in engine.learning.writer.positions().values()}
        known |= {chain for _, chain in served_model.passed}
        self.unnoticed += [told for told in gone if told.chain in known]

    def _live(self) -> None:
        world = self.world
        engine = SharedEngine(self._open_store, self._settings, Clock(), world.rng.randbytes, self._end, self._end)
        engine.context.wake = self._serves
        self.engine = engine
        engine.context.log_thread.start()
        following, contender = engine.following, engine.contender
        engine.context.ledger.start()
        following.start()
        if contender is not None:
            contender.start()
        while True:
            world.sleep(SCRUB_MS)
            if engine.learning is not None:
                try:
                    finish(engine.learning.scrub())
                    self.scrubs += 1
                except RiataError:
                    continue

    def _serves(self, served_model: ServedModel) -> None:
        """A model was published: never of an earlier event than before. Raises `Violation`."""
        published = served_model.published
        if published is None:
            return
        lineage, applied = self.served
        if lineage == published.model.origin.lineage and published.applied < applied:
            self.world.failures.append((self.process.name, "serving", Violation(f"event {published.applied} after {applied}")))
        self.served = (published.model.origin.lineage, published.applied)

    def _end(self, reason: str) -> None:
        self.ended = reason
        self.process.kill()


class Cluster:
    """All processes, and the supervisor that restarts them."""

    def __init__(self, world: World, open_store: Callable[[Process], OpenStore], oracle: Oracle) -> None:
        self.world = world
        self.oracle = oracle
        self.ends: list[tuple[str, str]] = []
        self._open_store = open_store
        self._slots: list[tuple[str, Role]] = [("web 1", "web"), ("web 2", "web"), ("writer 1", "writer"), ("writer 2", "writer")]
        self.houses: list[SimulatedNode] = []
        self._waiting: dict[int, float] = {}
        self._scrubs_before = 0  # of processes that are no more
        rng = world.rng
        self._newer_at = world.now + rng.uniform(500, 4000) if rng.random() < 0.5 else None  # from then on a newer one is started
        self._arithmetic = [rng.choice("ab") if rng.random() < 0.3 else "a" for _ in self._slots]

    def found(self) -> None:
        """Create the model, then start the processes. Called by an actor."""
        store = self._open_store(self.world.here().process)()
        store.create(MODEL, self.world.rng.randbytes(16))
        store.append([Append(MODEL, "config", 0, payload=Change(CONFIG, after=0).payload())])
        store.close()
        self.houses = [self._start(i) for i in range(len(self._slots))]
        self.world.after(100, self._look_after)
        if self._newer_at is not None:
            for i, (_, role) in enumerate(self._slots):  # a rolling upgrade
                if role == "writer":
                    self.world.after(
                        self._newer_at - self.world.now + self.world.rng.uniform(0, 2000), partial(self._exchange, i)
                    )

    def fronts(self) -> list[SimulatedNode]:
        """The processes that take rows: in some histories the writers too."""
        by_all = self.world.seed % 4 == 3
        return [node for node in self.houses if node.alive and (by_all or node.role == "web")]

    def leader(self) -> SimulatedNode | None:
        """The process that leads according to its own state."""
        return next((node for node in self.houses if node.alive and node.leads()), None)

    @property
    def scrubs(self) -> int:
        return self._scrubs_before + sum(node.scrubs for node in self.houses)

    def forgot(self, gone: list[Told]) -> None:
        for node in self.houses:
            node.forgot(gone)

    def settled(self) -> bool:
        """Whether all processes have caught up with the log."""
        seq = self.oracle.seq
        alive = [node for node in self.houses if node.alive]
        newest = self.oracle.generations[-1].applied if self.oracle.generations else 0
        leader = self.leader()
        return (
            leader is not None and leader.applied() == seq and newest == seq
            and all(node.caught_up(seq) for node in alive if node.role == "web")
            and len(alive) == len(self._slots)
        )  # fmt: skip

    def refused(self) -> bool:
        """Whether no process uses the store: every process reports the reason, and none leads or serves."""
        return all(node.strange() == "store_strange" and not node.leads() and not node.applied() for node in self.houses)

    def looks(self) -> list[tuple[SimulatedNode, int | None]]:
        """Every process, and the time of its last poll of the store."""
        return [(node, node.heard_ms()) for node in self.houses]

    @staticmethod
    def looked_again(looks: list[tuple[SimulatedNode, int | None]]) -> bool:
        """Whether every process that followed then has polled once more, or no longer follows; and whether a process that was
        paused beyond its lease has found that out, because two processes that believe they lead are one too many.
        """
        leaders = sum(node.alive and node.leads() for node, _ in looks)
        return leaders <= 1 and all(before is None or node.heard_ms() != before for node, before in looks)

    def check_noticed(self, first_seq: int) -> None:
        """No process that knew events of a lost history continues without reporting it, unless the log is trimmed beyond them,
        when no process can detect it. Raises `Violation`.
        """
        there = {told.chain for told in self.oracle.history}  # a record sent again may be the same: nothing is gone
        for node in self.houses:
            known = [told for told in node.unnoticed if told.last >= first_seq and told.chain not in there]
            if node.alive and known and not node.noticed():
                raise Violation(f"{node.process.name} never noticed that events it knew were taken back")

    def kill_all(self) -> None:
        for node in self.houses:
            node.process.kill()

    def _start(self, i: int) -> SimulatedNode:
        newer = self._newer_at is not None and self.world.now >= self._newer_at
        release = BASE if self.oracle.restores else Provenance(BASE.algo_version + newer, self._arithmetic[i])
        return SimulatedNode(self.world, *self._slots[i], self._open_store, self.oracle, release)

    def _exchange(self, i: int) -> None:
        """End a process so that one of a newer release is started in its place."""
        self.houses[i].process.kill()

    def _look_after(self) -> None:
        """Restart a process a little later after it ended, or reports that it is not alive."""
        world = self.world
        for i, node in enumerate(self.houses):
            failed = node.engine is not None and node.engine.fatal is not None
            if node.alive and not failed:
                continue
            if i not in self._waiting:
                self._waiting[i] = world.now + world.rng.uniform(50, 1500)
                self.ends.append((node.process.name, node.ended or (str(node.engine.fatal) if node.engine else "")))
            elif self._waiting[i] <= world.now:
                del self._waiting[i]
                node.process.kill()
                self._scrubs_before += node.scrubs
                self.houses[i] = self._start(i)
        world.after(100, self._look_after)
