"""Expiry of predictions whose label did not arrive in time: they get the default label, as an event of the log, or are deleted.

One slice reads the due rows from the store, appends the events that get the default label, and deletes the rows. If a process
crashes in between, the rows are still due. The next process then appends the same events under the same ids, and the dedupe
index rejects them. The same holds if two processes sweep at once, or if a label arrived but its row was not marked as labelled.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

import numpy as np

from riata.base.errors import Busy, Corrupt, NotFound, RiataError, Unavailable
from riata.run.engine import Engine
from riata.run.labels.pending_rows import Waiting, decode_row
from riata.run.labels.remembering import Remembering, labelled, new_names
from riata.run.state.vocabulary import within
from riata.store.store import Append, Appended, PendingPrediction, Store
from riata.wire.batch import join_batches
from riata.wire.names import NamesSeen
from riata.wire.parsed import Parsed

T = TypeVar("T")
log = logging.getLogger("riata.run")

SLICE_ROWS: Final = 100  # of at most 256 KiB each, so that a slice never takes more than 25 MB
SLICES_A_TURN: Final = 20  # for each model: 2000 rows, less than a second of the store's time
MODELS_A_TURN: Final = 50  # if there are more models, each waits for some turns
EVERY_S: Final = 1.0
SOON_S: Final = 0.05  # before the next turn, if the last one left something to do


class Doors(Protocol):
    """Access to the store and the log for `sweep`. Both calls block, and raise errors of `riata.base.errors`."""

    def call(self, work: Callable[[Store], T]) -> T:
        """Run `work` on the store."""
        ...

    def append(self, append: Append) -> Appended:
        """Append, durable on return."""
        ...


@dataclass(frozen=True, slots=True)
class Terms:
    """How due predictions of a model are handled.

    default : the label that they get, as in a batch; None for none
    seen    : the names that are in the log
    fits    : removes the events that the model could not learn
    """

    default: float | None
    seen: NamesSeen
    fits: Callable[[Parsed], Parsed] = lambda parsed: parsed


@dataclass(frozen=True, slots=True)
class Swept:
    """Counts of one slice: rows that were due, rows that got the default label, rows deleted without any label."""

    due: int = 0
    defaulted: int = 0
    expired: int = 0


def sweep(doors: Doors, model: str, now_ms: int, terms: Terms) -> Swept:
    """Process up to SLICE_ROWS predictions that are due. Raises what the store raises. Idempotent: it is safe to retry."""
    due = doors.call(lambda s: s.due(model, now_ms, SLICE_ROWS))
    if not due:
        return Swept()
    waiting, damaged = _waiting(due)
    defaulted = known = 0
    if waiting and terms.default is not None:
        append = default_events(model, now_ms, waiting, terms)
        if append is not None:
            appended = doors.append(append)
            if appended.refused is not None:
                raise appended.refused
            defaulted = int(appended.accepted.sum())
            known = int(appended.duplicate.sum()) + int(appended.reused.sum())
    doors.call(lambda s: s.forget(model, [row.key for row in due]))
    return Swept(len(due), defaulted, damaged + len(waiting) - defaulted - known)


def default_events(model: str, now_ms: int, waiting: Sequence[tuple[bytes, Waiting]], terms: Terms) -> Append | None:
    """Return the events that predictions become with the default label; None if the model could learn none of them."""
    default = 0.0 if terms.default is None else terms.default
    events = [labelled(one, key, default, 1.0) for key, one in waiting]
    names = new_names((event.names for event in events), terms.seen)
    batch = join_batches([event.batch for event in events])
    parsed = terms.fits(Parsed(batch, np.arange(batch.n), [], batch.n, names, single=False))
    return Append(model, "observe", now_ms, parsed.batch, names=parsed.names) if parsed.batch.n else None


def _waiting(due: Sequence[PendingPrediction]) -> tuple[list[tuple[bytes, Waiting]], int]:
    """Return the rows without a label, with their keys, and the number of damaged rows."""
    found, damaged = [], 0
    for row in due:
        try:
            decoded = decode_row(row.row)
        except Corrupt as error:
            log.error("prediction %s is discarded: %s", row.key.hex(), error.detail)
            damaged += 1
            continue
        if isinstance(decoded, Waiting):
            found.append((row.key, decoded))
    return found, damaged


class Expiry:
    """Sweeps periodically while this process owns the store. Created in the event loop; the work is done in a thread."""

    def __init__(self, engine: Engine, remembering: Remembering, owns: Callable[[], bool]) -> None:
        self._engine = engine
        self._remembering = remembering
        self._owns = owns
        self._next = 0  # index of the next model, in the order of names
        self._failing = ""
        self._ending = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to sweep."""
        self._running = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Stop sweeping. Returns after the current turn has ended."""
        self._ending.set()
        if self._running is not None:
            await self._running

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._ending.is_set():
            more = await loop.run_in_executor(None, self._turn, loop)
            try:
                await asyncio.wait_for(self._ending.wait(), SOON_S if more else EVERY_S)
            except TimeoutError:
                continue

    def _turn(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Sweep some models. Returns whether there is more to do at once."""
        if not self._owns():
            self._forget_sizes()
            return False
        names = sorted(self._engine.served_models)
        visited = (names[self._next :] + names[: self._next])[:MODELS_A_TURN]
        self._next = (self._next + len(visited)) % max(len(names), 1)
        doors = _EngineDoors(self._engine, loop)
        more, failing = False, ""
        for model in self._with_rows(doors, visited):
            try:
                more = self._visit(doors, model) or more
            except (Busy, NotFound):
                continue  # the model is being prepared, or was just dropped
            except RiataError as error:
                failing = error.code
                if self._failing != failing:
                    log.warning("model %s: expired predictions have to wait: %s", model, error.detail)
                if isinstance(error, Unavailable):
                    break  # the other models would fail too
        self._failing = failing
        return more and not failing

    def _with_rows(self, doors: _EngineDoors, models: Sequence[str]) -> list[str]:
        """Return those models of which rows are kept. One call for all: with many models most keep none."""
        try:
            sizes = doors.call(lambda s: {model: _size(s, model) for model in models})
        except RiataError:
            return list(models)  # each says why
        for model, size in sizes.items():
            if size is not None:
                tally = self._remembering.tally(model)
                tally.rows, tally.bytes = size
        return [model for model, size in sizes.items() if size is not None and size[0]]

    def _visit(self, doors: _EngineDoors, model: str) -> bool:
        tally = self._remembering.tally(model)
        for _ in range(SLICES_A_TURN):
            if self._ending.is_set() or not self._owns() or self._lags(model):
                return False
            swept = sweep(doors, model, self._engine.clock.unix_ms(), self._terms(model))
            tally.defaulted += swept.defaulted
            tally.expired += swept.expired
            if swept.due < SLICE_ROWS:
                return False
        return True

    def _lags(self, model: str) -> bool:
        """Return whether learning lags so far that no client may send events; the default labels then wait too."""
        return self._engine.lag_refusal(self._engine.served_model(model)) is not None

    def _terms(self, model: str) -> Terms:
        published = self._engine.published(model)
        vocabulary, bits = published.closed_vocabulary, published.model.weights.bits
        seen = self._engine.served_model(model).seen
        if vocabulary is None:
            return Terms(published.config.default_target, seen)
        return Terms(published.config.default_target, seen, lambda parsed: within(parsed, vocabulary, bits))

    def _forget_sizes(self) -> None:
        for tally in list(self._remembering.tallies.values()):
            tally.rows = tally.bytes = None


def _size(store: Store, model: str) -> tuple[int, int] | None:
    try:
        return store.remembered(model)
    except NotFound:  # just dropped
        return None


@dataclass(frozen=True, slots=True)
class _EngineDoors:
    """The engine, as used from a thread other than the event loop's."""

    engine: Engine
    loop: asyncio.AbstractEventLoop

    def call(self, work: Callable[[Store], T]) -> T:
        return self._wait(self.engine.call(work))

    def append(self, append: Append) -> Appended:
        return self._wait(self.engine.append(append))

    def _wait(self, asked: Coroutine[Any, Any, T]) -> T:
        waiting = asyncio.run_coroutine_threadsafe(asked, self.loop)
        try:
            return waiting.result(self.engine.settings.observe_timeout_ms / 1000)
        except TimeoutError:
            waiting.cancel()
            raise Unavailable("the store does not answer in time", "store_timeout") from None
