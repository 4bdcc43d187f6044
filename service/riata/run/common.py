"""What the sides of an engine share: the desks, the store's thread, the counts, and how to wake who waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from riata.base.clock import Clock
from riata.base.errors import RiataError
from riata.learn.registry import LearnerConfig, machine_code
from riata.run.desk import Board, Desk
from riata.run.engine_settings import EngineSettings, Tally
from riata.run.giving_way import GivingWay
from riata.run.keeper import Keeper
from riata.run.sharing.ledger import Ledger
from riata.run.sharing.note import Note
from riata.run.warm_up import warm_up_learner
from riata.store.store import SharedStore, Store

T = TypeVar("T")


@dataclass(slots=True)
class Common:
    """Made by the engine, used by what leads and what follows.

    open_store : opens another store object on the same content, for a thread of its own
    wake       : has the event loop look after those who wait at a desk; any thread may call it
    fatal      : learning has ended, for this reason; any thread may call it
    lost       : this process may no longer own the store, or the store is not what it was: end it; any thread may call it
    """

    settings: EngineSettings
    clock: Clock
    draw: Callable[[int], bytes]
    open_store: Callable[[], Store]
    keeper: Keeper
    wake: Callable[[Desk], None]
    fatal: Callable[[str], None]
    lost: Callable[[str], None]
    board: Board = field(default_factory=Board)
    ledger: Ledger = field(init=False)  # of a shared store
    tally: Tally = field(default_factory=Tally)
    warm_kinds: set[str] = field(default_factory=set)
    give_way: GivingWay = field(default_factory=GivingWay)

    def __post_init__(self) -> None:
        self.ledger = Ledger(Note(self.settings.note), self.settings.lost_events_max)

    def warm(self, config: LearnerConfig) -> None:
        """Make the kernels of this kind of learner ready, once: they may have to be compiled, which takes a minute or more."""
        if machine_code(config) not in self.warm_kinds:
            warm_up_learner(config)
            self.warm_kinds.add(machine_code(config))


def shared(store: Store) -> SharedStore:
    """The store, of which it is known that several processes share it."""
    return store  # type: ignore[return-value]  # settings.shared says so, and wiring chose both


def later(loop: asyncio.AbstractEventLoop, work: Callable[..., None], *args: object) -> None:
    """Have the event loop call `work`, or nobody where the loop has ended."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(work, *args)


def settle(future: asyncio.Future[T], answer: T | RiataError) -> None:
    """Set a future unless whoever waits for it has gone. Called in the event loop."""
    if future.done():
        return
    if isinstance(answer, RiataError):
        future.set_exception(answer)
    else:
        future.set_result(answer)
