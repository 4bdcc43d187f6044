"""Has the writer of an embedded store learn, while its models are served, what their logs have after their checkpoints.

     log   1 ... checkpoint │ ... given to the writer ... │ ... to be read ...  ◄── appended now
                            └─ served: somewhere in here

The thread reads a slice of one model after the other and puts it into the writer, as long as the writer keeps up: a model that is
slow to learn holds up neither the others nor the memory. An append to a model that is not at the end of its log yet is not given
to the writer when it is made: the thread finds it in the log. When it finds nothing more, it says so in the same call of the log
thread, so that no append falls between.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from riata.base.errors import Corrupt, NotFound
from riata.base.priority import BESIDE, lower_priority
from riata.run.cluster.tail import Tail
from riata.run.engine_context import EngineContext
from riata.run.log.log_reading import PACED_BYTES
from riata.run.state.damage import Damage, harms_one_model
from riata.run.writer.learning import Learning
from riata.run.writer.queue import Logged
from riata.run.writer.writer import Writer
from riata.store.store import Head, Record, Store

log = logging.getLogger("riata.run")

AHEAD_BYTES: Final = 64 * 2**20  # of all records that wait in the writer; a model of which none waits may always have one slice
AHEAD_BYTES_EACH: Final = 8 * 2**20
PAUSE_S: Final = 0.005


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
        self._tail = Tail()
        self._ending, self._more = threading.Event(), threading.Event()
        self._learning: Learning | None = None
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
                gave = [self._step(name) for name in names]
                if not any(gave):
                    self._more.wait(PAUSE_S if names else None)
        except Exception as error:  # the thread's outer edge
            if not self._ending.is_set():
                self._failed(error)

    def _step(self, name: str) -> bool:
        """Give the writer the next slice of a model; return whether there was one, and room for it."""
        learning = self._learning
        if learning is None or self._ending.is_set():
            return False
        if not self._has_room(learning.writer, name):
            return False
        lineage = self._tail.lineage(name)
        try:
            records: list[Record] = self._context.log_thread.call(lambda s: self._read(s, name)).result()
        except NotFound:
            self.forget(name)
            return False
        except Corrupt as error:
            if not harms_one_model(error):
                raise
            if self._tail.lineage(name) is not None:
                self._damaged(self._tail.give_up(name, error))
            return False
        with self._lock:
            if self._tail.lineage(name) != lineage:
                return False
            for record in records:
                learning.writer.put(Logged(record, None))
            if name not in self._held:
                self._tail.forget(name)
        return bool(records)

    def _has_room(self, writer: Writer, name: str) -> bool:
        mine = writer.waiting_bytes(name)
        if not mine or mine >= AHEAD_BYTES_EACH:
            return not mine
        return sum(map(writer.waiting_bytes, self._tail.names())) < AHEAD_BYTES

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
