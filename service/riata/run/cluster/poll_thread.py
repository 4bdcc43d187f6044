"""A thread with its own store object that repeats one step, through outages of the store, until it is stopped."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TypeVar

from riata.base.errors import RiataError, StoreFailed, Unavailable
from riata.run.stopped import Stopped
from riata.store.store import Store

T = TypeVar("T")
log = logging.getLogger("riata.run")

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
