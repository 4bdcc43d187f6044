"""The engine of an embedded store: one process, which learns. The store's thread passes logged records to its writer."""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Final

from riata.base.errors import Busy, Corrupt, LogFork, NotFound, RiataError, Stopped
from riata.base.process import BESIDE, lower_priority
from riata.learn import registry
from riata.run.candidates.pairs import Pairs, at_the_end, has_followed
from riata.run.cluster.store_watch import OWN_EVERY_S, OwnStore, StoreWatch
from riata.run.cluster.tail import Tail
from riata.run.engine import Engine
from riata.run.engine_context import EngineContext, aside, later
from riata.run.engine_settings import DEFAULT_MODEL
from riata.run.log.archive import Archive
from riata.run.log.log_reading import PACED_BYTES, Call, read_log
from riata.run.log.scrubbing import scrub_while_running
from riata.run.state.config import Change, ModelConfig
from riata.run.state.damage import Damage, harms_one_model
from riata.run.state.model_state import ModelState
from riata.run.state.recovery import Recovered
from riata.run.state.starting import StartHooks, Starting
from riata.run.writer.learning import Learning
from riata.run.writer.queue import Logged, PublishNow
from riata.run.writer.stopping import finish
from riata.store.segment import Origin
from riata.store.store import Append, Appended, Head, Owner, Record, Store
from riata.wire.batch import Batch
from riata.wire.encoder import fingerprint
from riata.wire.names import Names

AHEAD_BYTES: Final = 64 * 2**20  # of all records that wait in the writer; a model of which none waits may always have one slice
AHEAD_BYTES_EACH: Final = 8 * 2**20
TOGETHER: Final = 16  # models read by one call of the log thread: most have little to read, and events wait for a call
PAUSE_S: Final = 0.005

log = logging.getLogger("riata.run")

STOPPING_S: Final = 0.5  # for a thread that replays to end; one in a long step ends with the process
LOOK_S: Final = 0.05


# Has the writer of an embedded store learn, while its models are served, what their logs have after their checkpoints.
#
#      log   1 ... checkpoint │ ... given to the writer ... │ ... to be read ...  ◄── appended now
#                             └─ served: somewhere in here
#
# The thread reads a slice of one model after the other and puts it into the writer, as long as the writer keeps up: a model
# that is slow to learn holds up neither the others nor the memory. An append to a model that is not at the end of its log yet
# is not given to the writer when it is made: the thread finds it in the log. When it finds nothing more, it says so in the same
# call of the log thread, so that no append falls between.


class Replaying:
    """The thread, and which models are not at the end of their logs yet."""

    def __init__(
        self, context: EngineContext, damaged: Callable[[Damage], None], failed: Callable[[BaseException], None]
    ) -> None:
        self._context = context
        self._damaged = damaged
        self._failed = failed
        self._held: set[str] = set()  # appends to these are not given to the writer
        self._lock = threading.Lock()  # held while records are given to the writer, and while a model is dropped
        self._tail = Tail(self._put)
        self._ending, self._more = threading.Event(), threading.Event()
        self._learning: Learning | None = None
        self._ahead_bytes = 0  # of all records that wait in the writer
        self._thread = threading.Thread(target=self._run, name="riata-recover", daemon=True)

    def hold(self, name: str) -> None:
        """Do not give appends to a model to the writer, until the end of its log is reached. Before anything is appended."""
        self._held.add(name)

    def holds(self, name: str) -> bool:
        """Whether appends to a model are to be found in its log. Called in the log thread."""
        return name in self._held

    def start(self, learning: Learning) -> None:
        """Start the thread. learning : owner of the writer, which runs"""
        self._learning = learning
        self._thread.start()

    def follow(self, name: str, lineage: bytes, seq: int, chain: bytes) -> None:
        """Give the writer what the log of a model has after event `seq`; the writer has the model already."""
        with self._lock:
            self._tail.follow(name, lineage, seq, chain)
        self._more.set()

    def forget(self, name: str) -> None:
        """Forget a model that was dropped, or is damaged; another one of its name begins at the end of its log."""
        with self._lock:
            self._tail.forget(name)
            self._held.discard(name)

    def stop(self, timeout_s: float) -> None:
        """End the thread; what is not learnt yet is in the log."""
        self._ending.set()
        self._more.set()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        lower_priority(BESIDE)
        try:
            while not self._ending.is_set():
                self._more.clear()
                names = self._tail.names()
                asked = self._context.catalogue.asked
                self._ahead_bytes = 0 if self._learning is None else sum(map(self._learning.writer.waiting_bytes, names))
                names = sorted(filter(self._has_room, names), key=lambda name: name != asked)
                gave = [self._step(names[at : at + TOGETHER]) for at in range(0, len(names), TOGETHER)]
                if not any(gave):
                    self._more.wait(PAUSE_S if self._tail.names() else None)
        except Exception as error:  # the thread's outer edge
            if not self._ending.is_set():
                self._failed(error)

    def _step(self, names: list[str]) -> bool:
        """Give the writer the next slices of these models; return whether there were any."""
        if self._ending.is_set():
            return False
        lineages = [self._tail.lineage(name) for name in names]
        slices = self._context.log_thread.call(lambda s: self._read_each(s, names)).result()
        given = [self._give(*each) for each in zip(names, lineages, slices, strict=True)]
        return any(given)

    def _give(self, name: str, lineage: bytes | None, found: list[Record] | Corrupt | NotFound | None) -> bool:
        """Give the writer what was read of a model; return whether that was anything."""
        if isinstance(found, NotFound):
            self.forget(name)
        elif isinstance(found, Corrupt):
            if self._tail.lineage(name) is not None:
                self._damaged(self._tail.give_up(name, found))
        elif found is not None and self._learning is not None:
            with self._lock:
                if self._tail.lineage(name) != lineage:
                    return False
                if not self._tail.hand_over(name, found):
                    raise LogFork(f"the log of {name} does not continue what was learnt of it")
                if found:
                    self._learning.writer.put(PublishNow(name))  # few records would be left to gather
                if name not in self._held:
                    self._tail.forget(name)
            return bool(found)
        return False

    def _put(self, record: Record, batch: Batch | None) -> None:
        if self._learning is not None:
            self._learning.writer.put(Logged(record, batch))
            self._ahead_bytes += len(record.payload)

    def _has_room(self, name: str) -> bool:
        if self._learning is None:
            return False
        mine = self._learning.writer.waiting_bytes(name)
        if not mine or mine >= AHEAD_BYTES_EACH:
            return not mine
        return self._ahead_bytes < AHEAD_BYTES

    def _read_each(self, store: Store, names: list[str]) -> list[list[Record] | Corrupt | NotFound | None]:
        """Return the next records of each model, or why it cannot be read; None once PACED_BYTES were read of others."""
        found: list[list[Record] | Corrupt | NotFound | None] = []
        left = PACED_BYTES
        for name in names:
            try:
                records = self._read(store, name) if left > 0 else None
                left -= sum([len(record.payload) for record in records or ()])
                found.append(records)
            except (Corrupt, NotFound) as error:
                if isinstance(error, Corrupt) and not harms_one_model(error):
                    raise
                found.append(error)
        return found

    def _read(self, store: Store, name: str) -> list[Record]:
        head: Head = store.head(name)
        if head.lineage != self._tail.lineage(name):
            raise NotFound(f"model {name} was dropped", "model_not_found")
        records = self._tail.read(store, name, PACED_BYTES)
        if not records:
            self._held.discard(name)
        served_model = self._context.catalogue.served_models.get(name)
        if served_model is not None and served_model.lineage == head.lineage:
            served_model.logged = max(served_model.logged, head.seq)
        return records


class AloneEngine(Engine):
    """An engine that owns its store from its start to its end."""

    opened = False
    recovered = False  # whether every model was looked at, and those that can be are served
    archiving = False
    starting: Starting | None = None
    replaying: Replaying | None = None
    relations: WhoFollows | None = None

    def __init__(self, *parts: Any, **more: Any) -> None:
        super().__init__(*parts, **more)
        self._gone: dict[str, frozenset[str]] = {}  # by leader, the challengers that its log still names
        self._unfollowing: list[tuple[str, asyncio.Task[None]]] = []
        self._taken_up: list[Future[None]] = []  # each is done when a state of the start is served completely

    def _store_watch(self) -> StoreWatch:
        return StoreWatch(lambda: OwnStore(self._log_thread), self._not_watched, every_s=OWN_EVERY_S)

    async def _start(self) -> None:
        """Own the store, recover every model, begin to learn. Raises what the store or the recovery raises."""
        await asyncio.wrap_future(self._log_thread.start())
        self.context.crash_note.open()  # the directory is locked now
        self.opened = True
        nonce, now_ms = self.draw(16), self.clock.unix_ms()
        owner = await self.call(lambda s: s.acquire(nonce, registry.ALGO_VERSION, self.settings.host, now_ms))
        try:
            await self._lead(owner)
        except Stopped:
            await self.call(lambda s: s.release(owner))
            raise

    async def _lead(self, owner: Owner) -> None:
        context = self.context
        await self.call(lambda s: s.drop_stale_stages(owner))
        self.watch.start()
        if self.settings.archive is not None:
            context.archive = Archive(
                self.settings.archive, self._log_thread.call, self._origins, self._log_thread.waiting, context.segment_writing
            )
        learning = Learning(context, owner)
        self.replaying = replaying = Replaying(context, learning.give_up, self._failed)
        learning.on_dropped = replaying.forget
        learning.writer.start()
        replaying.start(learning)
        try:
            await aside(self._look, owner, learning, replaying)
        except BaseException:
            replaying.stop(STOPPING_S)
            learning.writer.close(0.0)  # the next start learns the logs again
            raise
        self.learning = learning  # from here on models may be created and dropped
        await asyncio.gather(*map(asyncio.wrap_future, self._taken_up))
        if not {DEFAULT_MODEL} & {*self.served_models, *context.catalogue.damaged, *context.catalogue.coming}:
            await self.create(DEFAULT_MODEL, ModelConfig())
        await asyncio.gather(*(task for leader, task in self._unfollowing if leader in self.served_models))
        self.recovered = True
        log.info("ready: %d model%s", len(self.served_models), "" if len(self.served_models) == 1 else "s")
        self.scrubbing = asyncio.create_task(scrub_while_running(context, lambda: self.learning))
        if context.archive is not None:
            context.archive.start()
            self.archiving = True

    def _look(self, owner: Owner, learning: Learning, replaying: Replaying) -> None:
        """Look at every model, and have it begin, in a thread. Raises `Stopped` soon after the engine is stopped."""
        context, call = self.context, self._log_thread.call

        def expected(names: Sequence[str]) -> None:
            relations.unknown(names)
            for name in names:
                replaying.hold(name)

        def hand_over(found: Recovered, names: Names) -> None:
            state = found.state
            place = (state.name, state.lineage, state.applied, state.chain)  # the writer changes the state from here on
            if not learning.take_up(found, names):
                self._taken_up.append(learning.writer.settle(state.name))
            replaying.follow(*place)

        def follow(leader: str, followers: tuple[str, ...]) -> None:
            call(lambda _store: self._log_thread.followers.update({leader: followers})).result()

        self.relations = relations = WhoFollows(call, follow, self._are_gone)
        hooks = StartHooks(self._go_on, expected, relations.arrived, hand_over, learning.give_up, self._failed)
        self.starting = starting = Starting(context, owner, hooks)
        starting.look(learning)

    def _go_on(self) -> None:
        if self.stopping:
            raise Stopped

    def _failed(self, error: BaseException) -> None:
        self._learning_failed(f"the start failed: {error.detail if isinstance(error, RiataError) else repr(error)}")

    def _are_gone(self, leader: str, gone: frozenset[str]) -> None:
        """Models that `leader` names as its challengers do not have its events: say so in its log, when it is served."""
        if self.loop is not None:
            later(self.loop, lambda: self._unfollow_soon(leader, gone))

    async def forget_challenger(self, model: str) -> None:
        """Before `model` is dropped: no model that is not served yet still has it as a challenger."""
        self._gone.pop(model, None)
        for leader in () if self.relations is None else self.relations.forget(model):
            await self.call(partial(self._log_thread.forget_follower, leader, model))
            self._unfollow_soon(leader, frozenset([model]))

    def _unfollow_soon(self, leader: str, gone: frozenset[str]) -> None:
        self._gone[leader] = self._gone.get(leader, frozenset()) | gone
        self._unfollowing.append((leader, asyncio.create_task(self.unfollowed(leader))))

    async def unfollowed(self, leader: str) -> None:
        """Have the log of `leader` say which challengers it lost before it was served. Waits until it is served."""
        while leader in self._gone and ((served := self.served_models.get(leader)) is None or served.published is None):
            await asyncio.sleep(LOOK_S)
        if leader not in self._gone:
            return
        async with self.served_models[leader].changing:
            theirs, gone = await self.latest(leader), self._gone.get(leader, frozenset())
            kept = tuple(one for one in theirs.pairs.challengers if one not in gone)
            if kept != theirs.pairs.challengers:
                log.warning("model %s: these challengers no longer have its events: %s", leader, ", ".join(sorted(gone)))
                payload = Change(theirs.config, challengers=kept).payload()
                await self.append(Append(leader, "config", self.clock.unix_ms(), payload=payload, followers=kept))
            self._gone[leader] = self._gone.get(leader, frozenset()) - gone
            if not self._gone[leader]:
                del self._gone[leader]

    def _origins(self) -> list[Origin]:
        """Return the models to archive."""
        served = list(self.served_models.values())
        return [Origin(one.name, one.lineage, fingerprint(one.encoder)) for one in served]

    async def _stop(self) -> None:
        loop = asyncio.get_running_loop()
        self.watch.stop()
        await loop.run_in_executor(None, self.watch.join)
        if self.archiving and self.context.archive is not None:
            await loop.run_in_executor(None, self.context.archive.stop)
        for _, task in self._unfollowing:
            task.cancel()
        if self.starting is not None and self.replaying is not None:
            await loop.run_in_executor(None, self.starting.join, STOPPING_S)
            await loop.run_in_executor(None, self.replaying.stop, STOPPING_S)
        if self.learning is None:
            return
        owner = self.learning.owner
        await finish(self.learning, fatal=self.fatal is not None)
        if self.fatal is None:
            await self.call(lambda s: s.release(owner))

    @property
    def started(self) -> bool:
        return self.recovered

    def not_started(self) -> RiataError:
        return Busy(f"{self.waits_for()}; try again", "not_ready")

    def waits_for(self) -> str:
        if self.learning is None and self.starting is None:
            return "the models are being looked at" if self.opened else "the store is being opened"
        starting = self.starting
        read = "" if starting is None or not starting.models else f": {starting.read} of {starting.models} models"
        return f"the snapshots and logs of the models are being read{read}"

    def why_not_led(self, what: str) -> RiataError:  # noqa: ARG002  it will be possible soon
        return self.not_started()

    async def _served(self, name: str, lineage: bytes, record: Record | None) -> bool:
        if self.learning is not None and record is not None:
            state = ModelState(name, lineage)
            state.apply(record)
            self.learning.begin(state)
            await self.learning.settle(name)
        return True

    def _on_logged(self, logged: Sequence[tuple[Append, Appended]]) -> None:
        super()._on_logged(logged)
        if self.learning is None:
            return
        replaying, now_ms = self.replaying, self.clock.unix_ms()
        self.learning.writer.put_logged(
            [
                Logged(appended.record, appended.batch, max(0, now_ms - append.accepted_ms) / 1000)
                for append, appended in logged
                if appended.record is not None and (replaying is None or not replaying.holds(append.model))
            ]
        )

    def _not_watched(self, reason: str) -> None:
        """The store is watched through its only thread; if that failed, it has reported the failure itself."""
        if self.fatal is None:
            self._learning_failed(reason)


# Which models follow which at a start: the log thread has to know before the first row of a leader is appended.
#
# Two models that have learnt the same events say so with equal numbers and chains (`pairs.py`). The states of a start are of
# different moments, so what they will say at the ends of their logs is computed from the digests of the records that they have
# not learnt yet. A follower that is not known yet, or is damaged, keeps its place: its log goes on.


class WhoFollows:
    """The relations of the models of one store, as their states become known.

    follow : tells the log thread the followers of a leader
    gone   : called with a leader and the models that its state names and that do not have its events
    """

    def __init__(
        self, call: Call, follow: Callable[[str, tuple[str, ...]], None], gone: Callable[[str, frozenset[str]], None]
    ) -> None:
        self._call = call
        self._follow = follow
        self._gone = gone
        self._known: dict[str, Pairs] = {}
        self._unknown: set[str] = set()
        self._kept: dict[str, tuple[str, ...]] = {}  # by leader
        self._dropped: set[str] = set()  # since the start; a new model of such a name does not arrive
        self._lock = threading.Lock()

    def unknown(self, names: Iterable[str]) -> None:
        """Note models whose states are not known yet, or never will be."""
        self._unknown.update(names)

    def arrived(self, several: Iterable[Recovered]) -> None:
        """Note states that will be served next. Nothing was appended to the logs of leaders among them since they were read."""
        with self._lock:
            names = []
            for found in several:
                name, pairs = found.state.name, found.state.observers[Pairs]
                if name in self._dropped:
                    continue
                if pairs.shared:
                    pairs = at_the_end(pairs, self._rest(found))
                self._known[name] = pairs
                self._unknown.discard(name)
                names.append(name)
            for name in names:
                self._decide(name)
                if (leader := self._known[name].follows) in self._known and leader not in names:
                    self._decide(leader)

    def forget(self, name: str) -> list[str]:
        """Forget a model that is dropped. Returns the models that it follows, as far as is known."""
        with self._lock:
            self._dropped.add(name)
            self._unknown.discard(name)
            self._known.pop(name, None)
            self._kept.pop(name, None)
            leaders = [leader for leader, kept in self._kept.items() if name in kept]
            for leader in leaders:
                self._kept[leader] = tuple(one for one in self._kept[leader] if one != name)
            return leaders

    def _rest(self, found: Recovered) -> Iterator[Record]:
        rest = read_log(self._call, found.state.name, found.state.applied)
        return itertools.takewhile(lambda record: record.last <= found.end, rest)

    def _decide(self, leader: str) -> None:
        pairs = self._known[leader]
        before = self._kept.get(leader, pairs.challengers)
        kept = tuple(one for one in before if self._is_kept(one, leader))
        if leader not in self._kept and kept:
            self._follow(leader, kept)
        self._kept[leader] = kept
        if kept != before:
            self._gone(leader, frozenset(before) - frozenset(kept))

    def _is_kept(self, follower: str, leader: str) -> bool:
        if follower in self._unknown:
            return True
        known = self._known.get(follower)
        return known is not None and has_followed(known, leader, self._known[leader].shared[follower])
