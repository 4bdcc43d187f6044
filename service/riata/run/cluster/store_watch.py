"""Health check of the store: whether it may be written to, checked at start and periodically, before any event is lost."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from riata.base.errors import Corrupt, RiataError, Unavailable
from riata.store.store import Store

if TYPE_CHECKING:
    from riata.run.log.log_thread import LogThread
import threading
from typing import TypeVar

from riata.base.errors import Stopped, StoreFailed

log = logging.getLogger("riata.run")

EVERY_S = 10.0
OWN_EVERY_S = 1.0  # for an embedded store, whose check is one look at the disk
ANSWER_S = 60.0  # timeout for an embedded store's thread, which may be in the middle of a large transaction
RESERVES = frozenset({"memory_reserve", "disk_reserve"})  # codes of `Store.refusals` if only memory or disk space is missing
WRONG_EVERY_S = 1.0  # while something is wrong, so that a repair is noticed soon


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why no event is accepted now: a stable code, and a human-readable detail."""

    code: str
    detail: str

    def error(self) -> Unavailable:
        """Return the error that requests get: nothing was accepted."""
        return Unavailable(self.detail, self.code, outcome="not_accepted")


class OwnStore:
    """An embedded store as `StoreWatch` uses it, through the one thread that owns it. It has only the methods needed there."""

    def __init__(self, log_thread: LogThread) -> None:
        self._log_thread = log_thread

    def refusals(self) -> list[str]:
        """See `Store`."""
        return self._log_thread.call(lambda store: store.refusals()).result(ANSWER_S)

    def warnings(self) -> list[str]:
        """See `Store`."""
        return self._log_thread.call(lambda store: store.warnings()).result(ANSWER_S)

    def close(self) -> None:
        """Do nothing: the owner closes the store."""


class StoreWatch:
    """Checks the store periodically, in a thread with its own store object."""

    def __init__(
        self,
        open_store: Callable[[], Store | OwnStore],
        on_failed: Callable[[str], None],
        on_short: Callable[[], None] = lambda: None,
        every_s: float = EVERY_S,
        meet: Callable[[Store], None] = lambda _store: None,
    ) -> None:
        """on_short: called in this thread, repeatedly while the store has no room other than its reserve
        meet    : called in this thread at each check of a store that answers
        """
        self._meet = meet
        self.refusal: Refusal | None = None
        self.warnings: list[str] = []  # what weakens a guarantee of the store, as of the last check
        self.counts: dict[str, int] = {}  # how often a problem began, by code
        self._on_failed = on_failed
        self._on_short = on_short
        self._every_s = every_s
        self._looper = PollThread(
            "riata-watch", cast(Callable[[], Store], open_store), self._step, self._failed, self._unreachable
        )

    def start(self) -> None:
        """Start checking."""
        self._looper.start()

    def stop(self) -> None:
        """Stop checking after the current check."""
        self._looper.stop()

    def join(self) -> None:
        """Wait until the thread has ended."""
        self._looper.join()

    def kick(self) -> None:
        """Check now, because a caller found that the store does not answer."""
        self._looper.kick()

    def _step(self, store: Store) -> float:
        try:
            found = store.refusals()
            self.warnings = store.warnings()
            self._meet(store)
        except Corrupt as error:  # it is another store now, or a damaged one: predictions continue
            self._note(Refusal(error.code, error.detail))
            return WRONG_EVERY_S
        except Unavailable as error:
            if error.code not in RESERVES:
                raise
            self._note(Refusal(error.code, error.detail))
            self._on_short()
            return WRONG_EVERY_S
        self._note(Refusal("store_refuses", "; ".join(found)) if found else None)
        return WRONG_EVERY_S if found else self._every_s

    def _failed(self, error: BaseException) -> None:
        detail = error.detail if isinstance(error, RiataError) else repr(error)
        self._on_failed(f"the store is no longer checked: {detail}")

    def _unreachable(self, error: Unavailable) -> None:
        self._note(Refusal(error.code, error.detail))

    def _note(self, refusal: Refusal | None) -> None:
        before, self.refusal = self.refusal, refusal
        if refusal is not None and (before is None or before.code != refusal.code):
            self.counts[refusal.code] = self.counts.get(refusal.code, 0) + 1
            log.error("events are refused: %s", refusal.detail)
        elif refusal is None and before is not None:
            log.info("events are accepted again")


# A thread with its own store object that repeats one step, through outages of the store, until it is stopped.


T = TypeVar("T")

RETRY_S = 1.0  # between two tries while the store does not answer


class PollThread:
    """Calls `step(store)` repeatedly. `step` returns the seconds to wait until the next call.

    If the store does not answer (`Unavailable`), the step is retried. Every other error, including `StoreFailed`, ends the
    thread, and `on_failed` is called in the thread.
    """

    def __init__(
        self,
        name: str,
        open_store: Callable[[], Store],
        step: Callable[[Store], float],
        on_failed: Callable[[BaseException], None],
        on_unreachable: Callable[[Unavailable], None] = lambda _error: None,
    ) -> None:
        self.at_end: Callable[[Store], object] = lambda _store: None  # called last, unless the thread failed
        self.unreachable = ""  # why the store did not answer the last step; empty if it did
        self._name = name
        self._open_store = open_store
        self._step = step
        self._on_failed = on_failed
        self._on_unreachable = on_unreachable
        self._stopping = threading.Event()
        self._kicked = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def kick(self) -> None:
        """Run the next step now."""
        self._kicked.set()

    def stopping(self) -> bool:
        """Return whether the thread was told to stop. Long steps check this periodically."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """End the thread after the current step."""
        self._stopping.set()
        self._kicked.set()

    def join(self, timeout_s: float | None = None) -> None:
        """Wait until the thread has ended, if it was started."""
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    def alive(self) -> bool:
        """Return whether the thread runs."""
        return self._thread.is_alive()

    def _run(self) -> None:
        store: Store | None = None
        try:
            while not self._stopping.is_set():
                self._kicked.clear()
                try:
                    if store is None:
                        store = self._open_store()
                    wait_s = self._step(store)
                    self.unreachable = ""
                except Unavailable as error:
                    if isinstance(error, StoreFailed):
                        raise
                    self._note(error)
                    wait_s = RETRY_S
                if not self._stopping.is_set():
                    self._kicked.wait(wait_s)
            if store is not None and not self.unreachable:
                self._end(store)
        except Stopped:
            log.info("%s: abandoned because the process is stopping", self._name)
        except Exception as error:  # top level of the thread: `on_failed` decides
            detail = error.detail if isinstance(error, RiataError) else repr(error)
            log.error("%s: %s", self._name, detail)
            self._on_failed(error)
        finally:
            if store is not None:
                store.close()

    def _end(self, store: Store) -> None:
        try:
            self.at_end(store)
        except Unavailable as error:
            log.warning("%s: the store does not answer during shutdown: %s", self._name, error.detail)

    def _note(self, error: Unavailable) -> None:
        if not self.unreachable:
            log.warning("%s: the store does not answer: %s", self._name, error.detail)
        self.unreachable = error.detail
        self._on_unreachable(error)
