"""Whether the store may be written to: asked when the service starts, and again and again, so that nobody finds out by losing."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from riata.base.errors import Corrupt, RiataError, Unavailable
from riata.run.cluster.poll_thread import PollThread
from riata.store.store import Store

if TYPE_CHECKING:
    from riata.run.log_thread import LogThread

log = logging.getLogger("riata.run")

EVERY_S = 10.0
OWN_EVERY_S = 1.0  # of an embedded store: it takes one look at the disk
ANSWER_S = 60.0  # for an embedded store's thread, which may be in the middle of a large transaction
RESERVES = frozenset({"memory_reserve", "disk_reserve"})  # codes of `Store.refusals` where only room is missing
WRONG_EVERY_S = 1.0  # while something is wrong: who mends it should not have to wait


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why no event is accepted now: a stable slug, and sentences for people."""

    code: str
    detail: str

    def error(self) -> Unavailable:
        """The refusal as requests get it: nothing was accepted."""
        return Unavailable(self.detail, self.code, outcome="not_accepted")


class OwnStore:
    """What `StoreWatch` asks of an embedded store, by way of the one thread that owns it. Only what it asks is here."""

    def __init__(self, log_thread: LogThread) -> None:
        self._log_thread = log_thread

    def refusals(self) -> list[str]:
        """See `Store`."""
        return self._log_thread.call(lambda store: store.refusals()).result(ANSWER_S)

    def warnings(self) -> list[str]:
        """See `Store`."""
        return self._log_thread.call(lambda store: store.warnings()).result(ANSWER_S)

    def close(self) -> None:
        """Its owner closes it."""


class StoreWatch:
    """Asks the store how it is, in a thread with a store object of its own."""

    def __init__(
        self,
        open_store: Callable[[], Store | OwnStore],
        on_failed: Callable[[str], None],
        on_short: Callable[[], None] = lambda: None,
        every_s: float = EVERY_S,
    ) -> None:
        """on_short: called in this thread, again and again while the store has no room but its reserve."""
        self.refusal: Refusal | None = None
        self.warnings: list[str] = []  # what weakens a promise of the store, as it last said
        self.counts: dict[str, int] = {}  # how often something began to be wrong, by code
        self._on_failed = on_failed
        self._on_short = on_short
        self._every_s = every_s
        self._looper = PollThread(
            "riata-watch", cast(Callable[[], Store], open_store), self._step, self._failed, self._unreachable
        )

    def start(self) -> None:
        """Begin to ask."""
        self._looper.start()

    def stop(self) -> None:
        """Ask no more, as soon as the answer under way has come."""
        self._looper.stop()

    def join(self) -> None:
        """Wait for the end of it."""
        self._looper.join()

    def kick(self) -> None:
        """Ask now: somebody found that the store does not answer."""
        self._looper.kick()

    def _step(self, store: Store) -> float:
        try:
            found = store.refusals()
            self.warnings = store.warnings()
        except Corrupt as error:  # it is another store now, or a damaged one: predicting goes on
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
        self._on_failed(f"the store is not watched: {detail}")

    def _unreachable(self, error: Unavailable) -> None:
        self._note(Refusal(error.code, error.detail))

    def _note(self, refusal: Refusal | None) -> None:
        before, self.refusal = self.refusal, refusal
        if refusal is not None and (before is None or before.code != refusal.code):
            self.counts[refusal.code] = self.counts.get(refusal.code, 0) + 1
            log.error("no events are accepted: %s", refusal.detail)
        elif refusal is None and before is not None:
            log.info("events are accepted again")
