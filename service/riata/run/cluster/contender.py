"""The part of an engine that can become leader of a shared store: standby, lease, recovery, leading. It never steps back.

    riata-lease     acquires the lease, then renews it every third of its term, unless learning is stuck
    riata-recover   after the lease is acquired: replays every model from its newest generation to the end of its log, then ends
    riata-tail      passes the records that any process appends to the writer, in order, and new models; those of this process
                    are passed by the log thread, if they continue what was passed
    riata-editions  publishes the served models for the followers
Each thread has its own store object. If the lease is lost, or the store was rolled back or exchanged, the process restarts.
"""

from __future__ import annotations

import logging
import queue
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from typing import Final

from riata.base.errors import Conflict, LogFork, LogGap, NotFound, RiataError, Stopped, Unavailable
from riata.run.cluster.accepting import record_losses
from riata.run.cluster.editions import Publisher
from riata.run.cluster.follower import learn_names, marks_present
from riata.run.cluster.lease import Lease, WriterPosition
from riata.run.cluster.store_identity import Mark
from riata.run.cluster.store_watch import RETRY_S, PollThread
from riata.run.cluster.tail import Tail
from riata.run.engine_context import EngineContext, shared
from riata.run.state.damage import Damage
from riata.run.state.model_state import ModelState
from riata.run.state.recovery import Recovered
from riata.run.state.starting import StartHooks, Starting
from riata.run.writer.learning import LOST, Learning
from riata.run.writer.queue import Logged
from riata.store.records import RECORD_DAMAGED, first_chain
from riata.store.store import Append, Appended, Head, Owner, Record, SharedStore, Standing, Store
from riata.wire.batch import Batch
from riata.wire.names import Names

log = logging.getLogger("riata.run")

RECOVERING_MS = 120_000  # longest recovery without visible progress
FULL_S = 0.005  # until the log is read again if the writer has enough of every model that is behind
OWN_S = 0.1  # until the ends of the logs are read again while this process appends: each append says where its log ends
AHEAD_BYTES = 64 * 2**20  # limit of the records of one model that are queued for the writer
STOPPING_S = 0.5  # for a thread that replays to end; one in a long step ends with the process
NOT_YET_S, LOOK_S = 0.1, 0.01

NAMES_EVERY_MS: Final = 1000


class Contender:
    """Stands by until it owns the store, then leads until the end of the process.

    on_leading : called once, in a thread, before the first recovered model is served; after that nothing else may serve
    may_take   : returns why the lease must not be requested now; empty if it may be
    looked     : returns whether the followed models were compared with the store since a time of the monotonic clock. A leader
                 no longer follows, so a rollback of the store must be detected before it leads
    """

    def __init__(
        self,
        context: EngineContext,
        on_leading: Callable[[Learning], None],
        may_take: Callable[[], str],
        looked: Callable[[int], bool],
    ) -> None:
        self.learning: Learning | None = None
        self.since_ms: int | None = None  # when the lease was acquired
        self._context = context
        self._on_leading = on_leading
        self._may_take = may_take
        self._looked = looked
        self._store: SharedStore | None = None
        settings = context.settings
        self.lead = Lease(self._call, context.draw(16), settings.host, settings.lease_ttl_ms, context.clock)
        self._lease = PollThread("riata-lease", context.open_store, self._lease_step, self._failed)
        self._lease.at_end = self._release
        self._recovering: threading.Thread | None = None
        self._progress_ms = 0
        self._ending = False
        self._tail = Tail(self._put)
        self._appends: set[str] = set()  # models to which this process has appended since the ends of the logs were read
        self._looked_ms = 0  # when the ends of the logs were read
        self._before: dict[str, int] = {}  # where the tail was then in the logs that seemed to have more
        self._starting: Starting | None = None
        self._arrived: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()  # changes of the tail, from other threads
        self._expected: set[bytes] = set()  # lineages of models that are not in the tail yet: they still learn
        self._unchecked: set[str] = set()  # models of the tail whose acknowledged records were not compared with the log yet
        self._named_ms = 0  # when names were fetched
        self._tailing = PollThread("riata-tail", context.open_store, self._tail_step, self._failed)
        self._publishing: PollThread | None = None
        self._publisher: Publisher | None = None

    def start(self) -> None:
        """Start to request the lease."""
        self._lease.start()

    @property
    def leads(self) -> bool:
        """Whether this process owns the store and has recovered."""
        return self.learning is not None

    def held(self) -> bool:
        """Return whether the lease was renewed within its term, by this machine's clock."""
        return self.lead.owner is not None and self.lead.unrenewed_ms() <= self._context.settings.lease_ttl_ms

    def unreachable(self) -> str:
        """Return why the store did not answer the last lease request or renewal; empty if it did."""
        return self._lease.unreachable

    def answers(self) -> bool:
        """Return whether the store answered the last step of every thread here."""
        poll_threads = (self._lease, self._tailing, self._publishing)
        return not any(poll_thread.unreachable for poll_thread in poll_threads if poll_thread is not None)

    @property
    def editions(self) -> int:
        """Number of editions published."""
        return self._publisher.published if self._publisher else 0

    def give_up(self) -> None:
        """Begin to shut down: start nothing new, finish the calls in progress."""
        self._ending = True
        self._tailing.stop()
        if self.lead.owner is None:
            self._lease.stop()

    def stop_reading(self) -> None:
        """Pass no more records to the writer, and stop standing by. Blocks for as long as a call of the store may take."""
        self.give_up()
        if self.lead.owner is None:
            self._lease.join()
        self._tailing.join()
        if self._recovering is not None:
            self._recovering.join()
        if self._starting is not None:
            self._starting.join(STOPPING_S)

    def stop(self) -> None:
        """Publish the last edition and release the lease. Blocks."""
        if self._publishing is not None:
            self._publishing.stop()
            self._publishing.join()
        self._lease.stop()
        self._lease.join()

    def logged(self, append: Append, appended: Appended) -> None:
        """Learn a record that this process has appended. Called in the log thread. The record is read from the log instead if it
        does not continue what was learnt, or if the writer has enough."""
        if self.learning is None or appended.record is None or self._ending:
            return
        name = append.model
        has_room = self.learning.writer.waiting_bytes(name) <= AHEAD_BYTES
        if has_room and self._tail.hand_over(name, [appended.record], appended.batch):
            self._appends.add(name)
        else:
            self._appends = set()
            self._tailing.kick()

    # -- the lease -------------------------------------------------------------------------------------------------

    def _call(self, work: Callable[[SharedStore], object]) -> object:
        if self._store is None:
            raise Unavailable("the store is not open", "store_unreachable")
        return work(self._store)

    def _lease_step(self, store: Store) -> float:
        self._store = shared(store)
        term_s = self._context.settings.lease_ttl_ms / 3000
        if self.lead.owner is None:
            return self._stand_by(term_s)
        if stuck := self._stuck():
            log.error("the lease cannot be renewed: %s", stuck)
            return min(term_s, RETRY_S)
        standings = self.lead.renew(self._beliefs)
        if self._publisher is not None and self._publishing is not None and self._publisher.recheck(standings):
            self._publishing.kick()
        return term_s

    def _stand_by(self, term_s: float) -> float:
        if self._may_take():
            return min(term_s, NOT_YET_S)
        owner = self.lead.try_acquire()
        if owner is None:
            left_s = max(0, self.lead.holder.remaining_ms) / 1000 if self.lead.holder else 0.0
            return min(term_s, left_s + 0.02) * random.uniform(0.7, 1.0) + 0.01
        log.info("this process now owns the store, epoch %d", owner.epoch)
        self._context.tally.elections += 1
        self.since_ms = self._progress_ms = self._context.clock.monotonic_ms()
        self._recovering = threading.Thread(target=self._recover, args=(owner,), name="riata-recover", daemon=True)
        self._recovering.start()
        return term_s

    def _stuck(self) -> str:
        """Return why the lease must not be renewed: a leader without progress must let another process lead. Empty if it may."""
        if self.learning is None:
            still_ms = self._context.clock.monotonic_ms() - self._progress_ms
            return f"recovery has made no progress for {still_ms} ms" if still_ms > RECOVERING_MS else ""
        if not self.learning.writer.alive():
            return "the learning thread has ended"
        held_ms = self.learning.writer.held_ms()
        return f"learning has been stuck for {held_ms} ms" if held_ms > self._context.settings.lease_ttl_ms else ""

    def _beliefs(self) -> dict[str, WriterPosition]:
        return self.learning.positions() if self.learning else {}

    def _release(self, _store: Store) -> None:
        self.lead.release()

    # -- recovery --------------------------------------------------------------------------------------------------

    def _recover(self, owner: Owner) -> None:
        context = self._context
        try:
            while not self._ending:
                try:
                    self._take_over(owner)
                    return
                except Stopped:
                    return
                except Unavailable as error:
                    log.warning("recovery: the store does not answer: %s", error.detail)
                    context.tally.retries += 1
                    time.sleep(RETRY_S)
        except Exception as error:  # top level of the thread
            self._failed(error)

    def _take_over(self, owner: Owner) -> None:
        context = self._context
        begun_ms = context.clock.monotonic_ms()
        context.log_thread.call(lambda s: s.drop_stale_stages(owner)).result()
        learning: list[Learning] = []

        def hand_over(found: Recovered, names: Names) -> None:
            state = found.state
            place = (state.name, state.lineage, state.applied, state.chain)  # the writer changes the state from here on
            learning[0].take_up(found, names)
            self._arrived.put(lambda: self._follow(*place))  # after the writer has it

        def damaged(damage: Damage) -> None:
            self._arrived.put(lambda: self._tail.leave_out(damage))
            learning[0].give_up(damage)

        hooks = StartHooks(self._progressed, lambda _names: None, lambda _found: None, hand_over, damaged, self._failed)
        starting = Starting(context, owner, hooks)
        starting.look()
        self._expected = {coming.lineage for coming in context.catalogue.coming.values()}
        self._await_look()
        learning.append(Learning(context, owner))
        self._on_leading(learning[0])
        self._starting = starting
        learning[0].writer.start()
        starting.begin(learning[0])
        publisher = Publisher(context.catalogue, owner, context.settings.follow_every_ms, context.clock)
        self._publisher = publisher
        self._publishing = PollThread("riata-editions", context.open_store, self._publish_step, self._failed)
        self._publishing.at_end = lambda store: publisher.step(shared(store), at_once=True)
        learning[0].on_published = self._on_published
        context.tally.recovered(0, max(1, context.clock.monotonic_ms() - begun_ms) / 1000)  # what is replayed is counted later
        self.learning = learning[0]
        self._tailing.start()
        self._publishing.start()
        record_losses(context)
        log.info("this process leads %d models", starting.models)

    def _await_look(self) -> None:
        while not self._looked(self.since_ms or 0):
            if self._ending:
                raise Stopped
            time.sleep(LOOK_S)
        if why := self._may_take():  # the store has just lost events: a new start will refuse it
            raise LogFork(why)

    def _progressed(self) -> None:
        if self._ending:
            raise Stopped
        self._progress_ms = self._context.clock.monotonic_ms()

    # -- tailing the log -------------------------------------------------------------------------------------------

    def _tail_step(self, store: Store) -> float:
        source, learning = shared(store), self.learning
        if learning is None:
            return 0.01
        while not self._arrived.empty():
            self._arrived.get()()
        self._expected.difference_update(filter(None, map(self._tail.lineage, self._tail.names())))
        appends, self._appends = self._appends, set()
        if not appends:  # otherwise the store would send each of these records back
            found = source.await_log(self._tail.places(), self._context.settings.follow_every_ms)
            is_soon = self._context.clock.monotonic_ms() - self._looked_ms < 1000 * OWN_S
            if found and self._take(learning, found) and is_soon:
                return 0.0
        self._looked_ms = self._context.clock.monotonic_ms()
        served_models = self._context.catalogue.served_models
        acked = {name: one.acked_marks() for name, one in served_models.items()}  # before the ends of the logs
        standings = source.standings()
        self._context.ledger.saw(standings, source.changes())  # before a new model is served
        self._meet(source, learning, standings)
        behind = self._behind(standings, appends)
        ready = [name for name in behind if learning.writer.waiting_bytes(name) <= AHEAD_BYTES]
        for name, marks in acked.items():
            if name in standings and standings[name].head.lineage == self._tail.lineage(name):
                self._require_logged(source, name, standings[name].head, marks)
        for name in ready:
            records = self._read(source, name)
            _require_same(name, acked.get(name, []), records)
            self._hand_over(name, records)
            if served_model := self._context.catalogue.served_models.get(name):
                served_model.logged = max(served_model.logged, standings[name].head.seq)
        self._learn_names(source, standings)
        if behind:
            return 0.0 if ready else FULL_S
        return OWN_S if appends else 0.0

    def _take(self, learning: Learning, found: Mapping[str, Sequence[Record]]) -> bool:
        """Learn the records that the store answered with. Returns false if anything has to be read or compared first."""
        for name, records in found.items():
            served_model = self._context.catalogue.served_models.get(name)
            is_full = learning.writer.waiting_bytes(name) > AHEAD_BYTES
            if not records or served_model is None or is_full or name in self._unchecked:
                return False
            _require_same(name, served_model.acked_marks(), records)
            if not self._tail.hand_over(name, records):
                return False
            served_model.logged = max(served_model.logged, records[-1].last)
        return True

    def _behind(self, standings: Mapping[str, Standing], appends: Set[str]) -> list[str]:
        """Return the models to read. Those of `appends` may seem to be behind because an append of this process is under way.
        They are read if nothing was handed over since they were looked at before."""
        places, behind = self._tail.places(), self._tail.behind(standings)
        before, self._before = self._before, {name: places[name] for name in behind}
        return [name for name in behind if name not in appends or before.get(name) == places[name]]

    def _follow(self, name: str, lineage: bytes, seq: int, chain: bytes) -> None:
        self._tail.follow(name, lineage, seq, chain)
        self._unchecked.add(name)

    def _require_logged(self, store: SharedStore, name: str, head: Head, acked: Sequence[Mark]) -> None:
        """Raise `LogFork` if a log lacks a record that this process acknowledged: a failover of the store may take it back before
        it is read. What was read before the model was followed is compared once, the rest as it is read."""
        lost = [seq for seq, chain in acked if seq > head.seq or (seq == head.seq and chain != head.chain)]
        if name in self._unchecked:
            present = marks_present(store, name, head, acked)
            lost += [seq for (seq, _), is_there in zip(acked, present, strict=True) if is_there is False]
            self._unchecked.discard(name)
        if lost:
            raise _lost(name, lost[0])

    def _meet(self, store: SharedStore, learning: Learning, standings: Mapping[str, Standing]) -> None:
        """Adopt models created by other processes, forget dropped ones. The lease renewal detects a missing model of this one."""
        for name in [name for name in [*self._tail.names(), *self._context.catalogue.coming] if name not in standings]:
            self._tail.forget(name)
            self._context.catalogue.remove(name)
        for name, standing in standings.items():
            if (
                standing.head.seq == 0
                or self._tail.lineage(name) == standing.head.lineage
                or standing.head.lineage in self._expected
            ):
                continue
            self._tail.follow(name, standing.head.lineage, 0, first_chain(standing.head.lineage))
            records = self._read(store, name)
            if not records:
                self._tail.forget(name)
                continue
            state = ModelState(name, standing.head.lineage)
            state.apply(records[0])
            learning.begin(state)
            self._tail.follow(name, state.lineage, records[0].last, records[0].chain)  # after the writer has it
            self._hand_over(name, records[1:])
            log.info("model %s: this process now learns it", name)

    def _read(self, store: SharedStore, name: str) -> list[Record]:
        try:
            return self._tail.read(store, name)
        except NotFound:
            self._tail.forget(name)
            return []
        except (LogGap, LogFork) as error:
            if self._tail.is_another(store, name):
                self._tail.forget(name)
                return []
            if error.code != RECORD_DAMAGED or self.learning is None:
                raise
            self.learning.record_damaged(store, self._tail.give_up(name, error))
            return []

    def _learn_names(self, store: SharedStore, standings: Mapping[str, Standing]) -> None:
        """Fetch the new names of rows that other processes append, unless that was done a moment ago."""
        now_ms = self._context.clock.monotonic_ms()
        if now_ms - self._named_ms < NAMES_EVERY_MS:
            return
        self._named_ms = now_ms
        for name, served_model in self._context.catalogue.served_models.items():
            with suppress(NotFound):
                learn_names(store, served_model, standings[name].head.seq if name in standings else 0)

    def _hand_over(self, name: str, records: Sequence[Record]) -> None:
        if not self._tail.hand_over(name, records):
            raise _lost(name, records[-1].last)

    def _put(self, record: Record, batch: Batch | None) -> None:
        if self.learning is not None:
            self.learning.writer.put(Logged(record, batch))

    # -- editions --------------------------------------------------------------------------------------------------

    def _on_published(self, name: str) -> None:
        """Have an edition published, unless the thread looks at the model again anyway. Called in the writer's thread."""
        if self._publisher is not None and self._publishing is not None and not self._publisher.awaits(name):
            self._publishing.kick()

    def _publish_step(self, store: Store) -> float:
        due_ms = self._publisher.step(shared(store)) if self._publisher is not None else 10
        return 1.0 if due_ms is None else due_ms / 1000

    def _failed(self, error: BaseException) -> None:
        """Handle an error that ended a thread here."""
        if isinstance(error, Stopped) or (self._ending and isinstance(error, Unavailable)):
            return
        detail = error.detail if isinstance(error, RiataError) else repr(error)
        code = error.code if isinstance(error, RiataError) else ""
        if isinstance(error, LogGap | LogFork):
            self._context.tally.forks += 1
        if code == "fenced":
            self._context.tally.fenced += 1
        if code in LOST or isinstance(error, Conflict):
            self._context.lost(detail)
        else:
            self._context.fatal(f"this process could not lead the store: {detail}")


def _require_same(name: str, acked: Sequence[Mark], records: Sequence[Record]) -> None:
    """Raise `LogFork` if one of the records is in the place of one that this process acknowledged."""
    for seq, chain in acked:
        if any(one.first <= seq <= one.last and one.chain != chain for one in records):
            raise _lost(name, seq)


def _lost(name: str, seq: int) -> LogFork:
    return LogFork(f"the log of {name} has lost event {seq}, which this process acknowledged: the log was rolled back")
