"""The follower part of an engine: a thread that keeps the served models on the newest editions, and a replica's copies."""

from __future__ import annotations

import logging
import random
import time

from riata.base.errors import Corrupt, RiataError
from riata.run.cluster.accepting import record_losses
from riata.run.cluster.copies import Copies
from riata.run.cluster.follower import Fetched, Follower, jittered_s
from riata.run.cluster.poll_thread import RETRY_S, PollThread
from riata.run.engine_context import EngineContext, shared
from riata.store.processes import Holder
from riata.store.store import Store

log = logging.getLogger("riata.run")

AWAITED_S = 0.03  # between two steps while a request waits for an event to be served
LEAST_MS = 10
RECORD_AFTER_MS = (2000, 8000)  # random, so that processes record at different times
HOLDER_EVERY_MS = 2000
HOLDER_MISSED_EVERY_MS = 200  # while no owner of the store is known


class Following:
    """Follows the store until it is stopped. It cannot be started again."""

    def __init__(self, context: EngineContext, copies: Copies | None = None) -> None:
        self.follower = Follower(context.catalogue, context.clock, context.ledger, self._on_fetched)
        self.follower.refuses_damaged = context.settings.role != "replica"
        self.holder: Holder | None = None  # the owner of the store when it was last read
        self.copies = copies
        self._context = context
        self._asked_ms: int | None = None
        self._stepped_ms = 0
        self._record_at_ms: int | None = None  # when to record losses accepted here, unless another process does so first
        self._looper = PollThread("riata-follow", context.open_store, self._step, self._failed)

    def start(self) -> None:
        """Start to follow, serving the copies on disk first if there are any."""
        if self.copies is not None:
            for kept in self.copies.load():
                if self.follower.take_up(kept.edition, kept.published, kept.edition.applied):
                    served_model = self._context.catalogue.served_models[kept.published.model.origin.name]
                    served_model.learn_names(kept.names)
                    ago_ms = max(0, self._context.clock.unix_ms() - kept.confirmed_ms)
                    served_model.confirmed_ms = self._context.clock.monotonic_ms() - ago_ms
        self._looper.start()

    def kick(self) -> None:
        """Run the next step now."""
        self._looper.kick()

    def why_not_lead(self) -> str:
        """Return why this process must not ask for the lease now; empty if it may."""
        if self.follower.heard_ms is None:
            return "the store has not answered yet"
        return self.follower.strange

    def looked(self, since_ms: int) -> bool:
        """Return whether the served models were compared with the store since then. If not, start a comparison now."""
        heard_ms = self.follower.heard_ms
        if heard_ms is not None and heard_ms >= since_ms:
            return True
        self.kick()
        return False

    def unreachable(self) -> str:
        """Return why the store did not answer the last step; empty if it did."""
        return self._looper.unreachable

    def stop(self) -> None:
        """Stop following after the current step."""
        self._looper.stop()

    def join(self) -> None:
        """Wait until the thread has ended, and write the remaining copies."""
        self._looper.join()
        if self.copies is not None:
            self.copies.step(None)

    def _step(self, store: Store) -> float:
        source = shared(store)
        since_ms = self._context.clock.monotonic_ms() - self._stepped_ms
        time.sleep(max(0, LEAST_MS - since_ms) / 1000)  # a minimum interval, however often `kick` is called
        self._stepped_ms = self._context.clock.monotonic_ms()
        try:
            more = self.follower.step(source)
        except Corrupt as error:  # another store, or a damaged one; the served models stay
            self.follower.note_strange(error.detail)
            return RETRY_S
        now_ms = self._context.clock.monotonic_ms()
        self._record(now_ms)
        every_ms = HOLDER_EVERY_MS if self.holder else HOLDER_MISSED_EVERY_MS
        if self._asked_ms is None or now_ms - self._asked_ms >= every_ms:
            self._asked_ms = now_ms
            self.holder = source.holder()
        if self.copies is not None:
            self.copies.step(now_ms)
        if more:
            return 0.0
        awaited = any(served_model.lowest_wanted is not None for served_model in self._context.catalogue.served_models.values())
        return AWAITED_S if awaited else jittered_s(self._context.settings.follow_every_ms)

    def _record(self, now_ms: int) -> None:
        """Record losses that were accepted here after a delay: if the leader knows them, it records them at once."""
        if not self._context.ledger.has_to_record() or self._context.settings.role == "replica":
            self._record_at_ms = None
        elif self._record_at_ms is None:
            self._record_at_ms = now_ms + int(random.uniform(*RECORD_AFTER_MS))
        elif now_ms >= self._record_at_ms:
            record_losses(self._context)

    def _on_fetched(self, fetched: Fetched) -> None:
        self._context.wake(fetched.served_model)
        if self.copies is not None:
            self.copies.offer(fetched)

    def _failed(self, error: BaseException) -> None:
        detail = error.detail if isinstance(error, RiataError) else repr(error)
        self._context.fatal(f"following the store has stopped: {detail}")
