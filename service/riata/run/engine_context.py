"""What the parts of an engine share: the served models, the store's thread, the counters, and the callbacks between threads."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from riata.base.clock import Clock
from riata.base.errors import Conflict
from riata.base.halt import Halt
from riata.base.process import lower_priority
from riata.learn.registry import LearnerConfig
from riata.run.cluster.ledger import Ledger
from riata.run.cluster.store_identity import StoreIdentityFile
from riata.run.engine_settings import EngineSettings, Tally
from riata.run.log.archive import Archive
from riata.run.log.log_thread import LogThread
from riata.run.served_model import Catalogue, ServedModel
from riata.run.state.crash_note import CrashNote
from riata.run.writer.loop_yield import LoopYield
from riata.store.store import SharedStore, Store

T = TypeVar("T")
log = logging.getLogger("riata.run")


@dataclass(slots=True)
class EngineContext:
    """Created by the engine, used by `Learning`, `Following` and `Contender`.

    open_store : opens another store object on the same content, for another thread
    wake       : makes the event loop answer the requests that wait for a served model; any thread may call it
    fatal      : learning has ended, for this reason; any thread may call it
    lost       : this process may no longer own the store, or the store was replaced: end the process; any thread may call it
    """

    settings: EngineSettings
    clock: Clock
    draw: Callable[[int], bytes]
    open_store: Callable[[], Store]
    log_thread: LogThread
    wake: Callable[[ServedModel], None]
    fatal: Callable[[str], None]
    lost: Callable[[str], None]
    catalogue: Catalogue = field(default_factory=Catalogue)
    ledger: Ledger = field(init=False)  # of a shared store
    crash_note: CrashNote = field(init=False)
    tally: Tally = field(default_factory=Tally)
    yield_to_loop: LoopYield = field(default_factory=LoopYield)
    archive: Archive | None = None  # of the embedded store, if it has one
    segment_writing: threading.Lock = field(default_factory=threading.Lock)  # held by whoever writes or deletes segments
    halts: list[Halt] = field(default_factory=list)  # of what is computed for requests
    creating: dict[str, LearnerConfig] = field(default_factory=dict)  # models that are being created, until they are served

    def __post_init__(self) -> None:
        self.ledger = Ledger(StoreIdentityFile(self.settings.note), self.settings.lost_events_max)
        self.crash_note = CrashNote(self.settings.crash_note)

    async def call(self, work: Callable[[Store], T]) -> T:
        """Run `work` in the store's thread."""
        return await asyncio.wrap_future(self.log_thread.call(work))


def shared(store: Store) -> SharedStore:
    """Return the store with the type of a shared store. Call only if `settings.shared`."""
    return store  # type: ignore[return-value]  # settings.shared says so, and wiring chose both


async def aside(work: Callable[..., T], *args: object, niceness: int = 0) -> T:
    """Run `work` in its own daemon thread, which does not delay the end of the process. niceness : of the thread, if not 0"""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            if niceness:
                lower_priority(niceness)
            answer: T | Exception = work(*args)
        except Exception as error:  # the thread's outer edge: the caller gets the error
            answer = error
        later(loop, settle, future, answer)

    threading.Thread(target=run, name="riata-aside", daemon=True).start()
    return await future


def later(loop: asyncio.AbstractEventLoop, work: Callable[..., None], *args: object) -> None:
    """Schedule `work` in the event loop; do nothing if the loop is closed."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(work, *args)


def settle(future: asyncio.Future[T], answer: T | Exception) -> None:
    """Set a future unless it is done, for example cancelled. Called in the event loop."""
    if future.done():
        return
    if isinstance(answer, Exception):
        future.set_exception(answer)
    else:
        future.set_result(answer)


def begin_log(store: Store, name: str, lineage: bytes) -> bool:
    """Create an empty log; return false if one with events exists. A log without events was left by a process that crashed."""
    try:
        store.create(name, lineage)
    except Conflict as error:
        if error.code != "model_exists":
            raise
        return store.head(name).seq == 0
    return True
