"""One seed, one history of models that follow another in a service that is killed at any moment, checked at each write.

The reference for each log is computed from its records alone, in the simplest way. A follower's log must have the rows of its
leader from the event that names it to the event that no longer does, each once and in order. A promotion must carry what the
challenger has learnt from these rows, bit for bit, and nothing else.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from riata.base.errors import NotFound, RiataError, StoreFailed
from riata.run.admin import Admin
from riata.run.candidates.pairs import OWN
from riata.run.engine_alone import AloneEngine
from riata.run.state.config import Change, ModelConfig, change_from_payload, read_config, read_stored
from riata.run.state.replay import replay
from riata.store import records
from riata.store.layout import decode_checkpoint
from riata.store.store import Append, Appended, Generation, Owner, Record, Verdict
from riata.wire.batch import Batch
from tests.doubles.plain_store import PlainStore
from tests.settings import SERVICE, engine_settings
from tests.simulation.clients import Answer, Client
from tests.simulation.cluster import MODEL
from tests.simulation.loop import LOOP, EventLoop, simulated_locks
from tests.simulation.oracle import Content, Lesson, Oracle, Violation, decode_events, learnt, lesson_in
from tests.simulation.releases import BASE, several_releases
from tests.simulation.shims import Clock, finish, installed, running
from tests.simulation.toy import BITS, SLOTS, learning_toys
from tests.simulation.world import Process, Stuck, World

CLIENTS: Final = 3
CHALLENGERS: Final = {"b": 0.125, "c": 0.25}  # the step that each has
OPERATIONS: Final = 10
CONFIG: Final = read_config(
    {"encoder": {"bits": BITS, "names_max": 10}, "publish_every_ms": 200, "checkpoint_every_s": 1, "checkpoint_every_events": 40}
)
STORM_MS: Final = 2500.0
CALM_MS: Final = 60_000.0
STEPS_MAX: Final = 100_000
NOTHING: Final = Lesson((0.0,) * SLOTS, bytes(16), 0)
Events = list[tuple[bytes, Content]]


def keep_of_config(learner: Any) -> float:
    """The share of a weight that a toy keeps at each event: another one for each step."""
    return 1.0 - float(learner.eta)


read_change = functools.cache(change_from_payload)


@dataclass(slots=True)
class Log:
    """The records of one model, and the model that they must give after each."""

    records: list[Record] = field(default_factory=list)
    lessons: list[Lesson] = field(default_factory=list)
    config: ModelConfig = field(default_factory=lambda: CONFIG)
    changed: int = 0  # the last event that set the configuration or the state
    spans: dict[str, list[int]] = field(default_factory=dict)  # by follower: its first event, and the last once it has ended
    learnt_to: int = 0  # the event of the leader that a backfill has learnt
    follows_at: int = 0  # the event from which on its rows are copies
    promotions: int = 0

    def rows(self, first: int = 1, last: int = 2**62) -> list[Record]:
        """The records of rows between two events, both included."""
        return [one for one in self.records if one.kind == "observe" and first <= one.first and one.last <= last]

    def after(self, applied: int) -> Lesson:
        """The model after event `applied`."""
        return next(lesson for one, lesson in zip(self.records, self.lessons, strict=True) if one.last == applied)


def taught(lesson: Lesson, rows: Sequence[Record], config: ModelConfig) -> Lesson:
    """The model after more records of rows."""
    for record in rows:
        for key, content in decode_events(record.payload):
            lesson = learnt(lesson, key, content, keep_of_config(config.learner))
    return lesson


@dataclass(slots=True)
class Books(Oracle):
    """The oracle of a store of several models, one of which has clients."""

    logs: dict[str, Log] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def written(self, record: Record) -> None:
        """A record was appended. Raises `Violation`."""
        log = self.logs[record.model]
        if record.first != (log.records[-1].last if log.records else 0) + 1:
            raise Violation(f"the log of {record.model} goes on with event {record.first}")
        lesson = log.lessons[-1] if log.lessons else NOTHING
        if record.kind == "observe":
            events = decode_events(record.payload)
            if record.model == MODEL:
                for place, (key, content) in enumerate(events, record.first):
                    self._told(place, key, content)
            lesson = taught(lesson, [record], log.config)
        elif record.kind == "config":
            self._configured(record, log)
        elif record.kind == "restore":
            lesson = self._taken_up(record, log, lesson)
        log.records.append(record)
        log.lessons.append(lesson)

    def was_known(self, key: bytes, content: Content | None, since: int) -> None:  # noqa: ARG002  nothing is undone here
        """A client was told that an id was known. Raises `Violation` if the log of its model never had it with this content."""
        self.known += 1
        if key not in self.places or (content is not None and content not in self.fates[key].contents):
            raise Violation("an id was said to be known, which the log never had")

    def check(self, there: Callable[[str], Sequence[Record]]) -> None:
        """The logs have what was written, and each follower the rows of its leader. Raises `Violation`."""
        leader = self.logs[MODEL]
        for name, log in self.logs.items():
            if [one.chain for one in there(name)] != [one.chain for one in log.records]:
                raise Violation(f"the log of {name} is not what was written")
            if name == MODEL or name not in leader.spans:
                continue
            wanted = [one.digest for one in leader.rows(*leader.spans[name])]
            found = [one.digest for one in log.rows(log.follows_at)]
            if found != wanted:
                raise Violation(f"{name} has {len(found)} records of rows, its leader {len(wanted)} since it follows")
            before = contents(log.rows(1, log.follows_at))
            if log.learnt_to and before != contents(leader.rows(log.learnt_to + 1, leader.spans[name][0] - 1)):
                raise Violation(f"{name} has taken {len(before)} rows that came after its backfill")
            if log.learnt_to == 0 and before:
                raise Violation(f"{name} has rows from before it follows")

    def check_state(self, name: str, applied: int, content: bytes) -> None:
        """A checkpoint has what the log gives, and has counted each shared event once. Raises `Violation`."""
        log, (header, arrays) = self.logs[name], decode_checkpoint(content)
        if lesson_in(arrays) != log.after(applied):
            raise Violation(f"a checkpoint of {name} at event {applied} is not what the log teaches")
        for other in header.get("pairs", {}).get("answers", ()):
            span = log.spans[other] if other != OWN else [log.follows_at]
            rows = log.rows(span[0], min(applied, *span[1:], 2**62))
            if int(arrays[f"pairs.{other}.counts"][1]) != sum(one.count for one in rows):
                raise Violation(f"{name} has counted other events than it shares with {other or 'its leader'}")

    def _configured(self, record: Record, log: Log) -> None:
        change = read_change(record.payload)
        log.config, log.changed = change.config, record.last
        if change.follow is not None:
            log.follows_at = record.last
        if change.challengers is not None:
            going_on = {name for name, span in log.spans.items() if len(span) == 1}
            for name in set(change.challengers) - going_on:
                log.spans[name] = [record.last + 1]
            for name in going_on - set(change.challengers):
                log.spans[name].append(record.last)

    def _taken_up(self, record: Record, log: Log, before: Lesson) -> Lesson:
        """The leader after a promotion: what the challenger has learnt, then the rows that came after."""
        source, content = records.decode_restore(record.payload)
        if "backfill" in source:
            return self._backfilled(record, log, source["through"], content)
        through = records.decode_through(record.payload)
        if through is None or log.changed > through.seq:
            self.counts["void promotions"] += 1
            return before
        header, arrays = decode_checkpoint(content)
        name = source["challenger"]
        config = read_stored(header["config"])
        ours = self.logs[name]
        carried = taught(ours.after(ours.follows_at), log.rows(log.spans[name][0], through.seq), ours.config)
        if lesson_in(arrays) != carried or config.learner != self.logs[name].config.learner:
            raise Violation(f"event {record.first} promotes another state than {name} has after the events up to {through.seq}")
        log.config, log.changed = config, record.last
        log.promotions += 1
        self.counts["promotions"] += 1
        self.counts["events learnt again"] += record.first - 1 - through.seq
        return taught(carried, log.rows(through.seq + 1, record.first), config)

    def _backfilled(self, record: Record, log: Log, through: int, content: bytes) -> Lesson:
        """A challenger after it has learnt the log of its leader."""
        rows = self.logs[MODEL].rows(1, through)
        lesson = taught(NOTHING, rows, log.config)
        if lesson_in(decode_checkpoint(content)[1]) != lesson:
            raise Violation(f"event {record.first} of {record.model} is not what its leader's log teaches up to event {through}")
        log.learnt_to = through
        self.counts["backfills"] += 1
        return lesson


def contents(rows: Sequence[Record]) -> list[Content]:
    """The events of these records, without ids."""
    return [content for record in rows for _, content in decode_events(record.payload)]


class Disk(PlainStore):
    """An embedded store. Writing takes time, and a process that is killed meanwhile has written all or nothing."""

    def __init__(self, world: World, books: Books, content: Any = None) -> None:
        super().__init__(SERVICE.dedupe_events)
        self.world, self.books = world, books
        if content is not None:
            self._kept = content

    @property
    def content(self) -> Any:
        return self._kept

    def create(self, model: str, lineage: bytes) -> Any:
        head = super().create(model, lineage)
        self.books.logs[model] = Log()
        return head

    def drop(self, owner: Owner, model: str) -> None:
        super().drop(owner, model)
        del self.books.logs[model]
        self.books.logs[MODEL].spans.pop(model, None)

    def append(self, group: Sequence[Append]) -> list[Appended]:
        rng = self.world.rng
        self.world.sleep(rng.expovariate(1 / 5))
        if self.fails():
            raise StoreFailed("the outcome of the write is unknown")
        appended = self.commit_group(group)
        self.check()
        self.world.sleep(rng.expovariate(1 / 5))
        if self.fails():
            raise StoreFailed("the outcome of the write is unknown")
        return appended

    def commit_group(self, group: Sequence[Append]) -> list[Appended]:
        """The transaction."""
        return super().append(group)

    def fails(self) -> bool:
        return not self.world.calm and self.world.rng.random() < 0.004

    def check(self) -> None:
        """The content has what it must have now. Raises `Violation`."""
        with self._noticing():
            self.books.check(lambda name: self._kept.models[name].log)

    def commit(self, owner: Owner, model: str, base_gen: int, generation: Generation) -> Verdict:
        verdict = super().commit(owner, model, base_gen, generation)
        if verdict is Verdict.OK:
            with self._noticing():
                self.books.check_state(model, generation.applied, self.open_generation(model, generation.gen))
        return verdict

    def _write(self, plan: Any) -> None:
        super()._write(plan)
        if plan.appended.record is not None:
            with self._noticing():
                self.books.written(plan.appended.record)

    @contextlib.contextmanager
    def _noticing(self) -> Iterator[None]:
        """A violation counts even if production code takes it for an error of the store."""
        try:
            yield
        except Violation as error:
            self.world.failures.append(("store", "write", error))
            raise


class Service:
    """One process, from its start to its end, with the people who operate it."""

    def __init__(self, history: ChallengerHistory, disk: Disk) -> None:
        self.history, self.disk = history, disk
        self.process = Process(history.world, "service")
        self.process.release = BASE
        self.ready = False
        self.engine = AloneEngine(
            lambda: disk,
            engine_settings(host="host", durability="fsync", scrub_every_s=1e6, observe_timeout_ms=2000),
            Clock(), history.world.rng.randbytes, self._end,
        )  # fmt: skip
        self.admin: Admin | None = None
        self.process.spawn(self._live)

    def observe(self, batch: Batch, done: Callable[[Answer], None]) -> None:
        """Take a request as the service does."""
        try:
            self.engine.require_accepting(self.engine.served_model(MODEL))
        except RiataError as error:
            done(error)
            return
        self.engine.append_soon(Append(MODEL, "observe", Clock().unix_ms(), batch), done)

    def _live(self) -> None:
        self.disk.check()
        self.engine.loop = EventLoop()  # type: ignore[assignment]
        finish(self.engine._start())
        self.admin = Admin(self.engine)
        self.admin._challengers.relating = vars(LOOP)["Lock"]()
        self.ready = True
        while self.history.operations_left:
            self.history.world.sleep(self.history.world.rng.expovariate(1 / 50))
            self.history.operations_left -= 1
            with contextlib.suppress(RiataError):
                self._operate()

    def _operate(self) -> None:
        rng, books, admin = self.history.world.rng, self.history.books, self.admin
        assert admin is not None
        name = rng.choice(list(CHALLENGERS))
        what = rng.choice(("follow", "promote", "promote", "promote", "drop") if name in books.logs else ("follow",))
        if what == "follow":
            document = {"follow": MODEL, "backfill": rng.random() < 0.5, "learner": {"eta": CHALLENGERS[name]}}
            finish(admin.put_model(name, document))
        elif what == "drop":
            finish(admin.drop_model(name))
        else:
            before = books.logs[MODEL].promotions
            told = finish(admin.promote(MODEL, name, True))
            if books.logs[MODEL].promotions != before + 1 or books.logs[MODEL].changed != told["seq"]:
                raise Violation(f"a promotion was reported as event {told['seq']}, and the log has another")
        books.counts[f"{what} answered"] += 1

    def _end(self, _reason: str) -> None:
        self.process.kill()


class ChallengerHistory:
    """The parts of one history. `disk` makes the store's object for each start."""

    def __init__(self, world: World, disk: type[Disk] = Disk) -> None:
        self.world = world
        self.books = Books(lossless=True)
        self.operations_left = OPERATIONS
        self.kills = 0
        self._disk = disk
        self._content: Any = None
        self.service: Service | None = None
        self.clients = [Client(world, i, self._fronts, self.books) for i in range(CLIENTS)]

    def play(self) -> None:
        """Run the history. Raises `Violation` or `Stuck`."""
        world, founding = self.world, Process(self.world, "founder")
        founded = founding.spawn(self._found)
        world.run(stop=lambda: founded.done)
        self._look_after()
        for client in self.clients:
            client.start()
        self._kill_later()
        world.run(until=world.now + STORM_MS, stop=self._failed)
        world.calm = True
        world.run(until=world.now + CALM_MS, stop=lambda: self._failed() or self._well())
        if self._failed():
            process, actor, error = world.failures[0]
            raise error if isinstance(error, Violation) else Violation(f"{process}, {actor}: {type(error).__name__}: {error}")
        if not self._well():
            raise Violation(f"not well after the faults ended: {self.operations_left} operations left")
        self._check_end()

    def end(self) -> None:
        """Discard all processes."""
        for process in (*(client.process for client in self.clients), *([self.service.process] if self.service else [])):
            process.kill()

    def _found(self) -> None:
        disk = self._disk(self.world, self.books)
        disk.create(MODEL, self.world.rng.randbytes(16))
        PlainStore.append(disk, [Append(MODEL, "config", 0, payload=Change(CONFIG, after=0).payload())])
        self._content = disk.content

    def _fronts(self) -> list[Service]:
        return [self.service] if self.service is not None and self.service.ready and self.service.process.alive else []

    def _look_after(self) -> None:
        """Start the service again after it ended."""
        if self.service is None or not self.service.process.alive:
            starter = Process(self.world, "starter")
            starter.spawn(self._start)
        self.world.after(50, self._look_after)

    def _start(self) -> None:
        if self.service is None or not self.service.process.alive:
            self.service = Service(self, self._disk(self.world, self.books, self._content))

    def _kill_later(self) -> None:
        def kill() -> None:
            if not self.world.calm and self.service is not None:
                self.kills += self.service.process.alive
                self.service.process.kill()
                self._kill_later()

        self.world.after(self.world.rng.expovariate(1 / 300), kill)

    def _failed(self) -> bool:
        return bool(self.world.failures)

    def _well(self) -> bool:
        service = self.service
        return (
            all(client.done for client in self.clients) and self.operations_left == 0 and service is not None
            and service.process.alive and service.ready
            and all(self._served(service, name) for name in self.books.logs)
        )  # fmt: skip

    def _served(self, service: Service, name: str) -> bool:
        served = service.engine.served_models.get(name)
        return served is not None and served.published is not None and served.served == self.books.logs[name].records[-1].last

    def _check_end(self) -> None:
        """What is served, and what a replay of each log gives, is what the books say. Raises `Violation`."""
        assert self.service is not None
        leader = self.service.engine.published(MODEL)
        for name, log in self.books.logs.items():
            served = self.service.engine.published(name)
            beta = [0.0] * SLOTS
            for slot, weight in zip(served.model.weights.slot.tolist(), served.model.weights.beta.tolist(), strict=True):
                beta[slot] = weight
            if tuple(beta) != log.lessons[-1].beta:
                raise Violation(f"{name} is served with other weights than its log teaches")
            if name in leader.pairs.challengers:
                ours, theirs = served.pairs.shared[OWN], leader.pairs.shared[name]
                if (ours.losses.events, ours.chain) != (theirs.losses.events, theirs.chain):
                    raise Violation(f"{name} and its leader have counted other events")
            self._check_replay(name, log)

    def _check_replay(self, name: str, log: Log) -> None:
        report = replay(Disk(self.world, self.books, self._content), name)
        arrays = {f"learner.{key}": value for key, value in report.state.learner.freeze().items()}
        if not report.equal or lesson_in(arrays) != log.lessons[-1]:
            raise Violation(f"the replay of {name} differs from what its log teaches")


@dataclass(slots=True)
class Outcome:
    """The result of a history."""

    seed: int
    violation: str = ""
    steps: int = 0
    kills: int = 0
    counts: Counter[str] = field(default_factory=Counter)


@contextlib.contextmanager
def simulating_challengers() -> Iterator[None]:
    """Replaces everything that must be simulated, for any number of histories."""
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with installed(LOOP), learning_toys(keep_of_config), several_releases(), simulated_locks(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "coroutine .* was never awaited")  # its process was killed first
            yield
    finally:
        logging.disable(disabled)


def simulate_challengers(seed: int, disk: type[Disk] = Disk) -> Outcome:
    """Run the history of `seed`. Never raises because of the history; `violation` has the error."""
    world, outcome = World(seed, STEPS_MAX), Outcome(seed)
    with running(world):
        history = ChallengerHistory(world, disk)
        try:
            history.play()
        except (Violation, Stuck, NotFound) as error:
            outcome.violation = f"{type(error).__name__}: {error}"
        history.end()
    outcome.steps, outcome.kills, outcome.counts = world.steps, history.kills, history.books.counts
    return outcome
