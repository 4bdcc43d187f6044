"""Delayed labels: stores predictions until their label arrives, and joins labels to them.

 predict ──► remember ──► store: features under a new id ──► answer with the id
                                    │
 {"prediction_id", "label"} ──► join: recall, put the label in ──► observe, as any other event ──► mark as labelled
                                    │                                       ▲
                           due, without a label ──► expiry ── default ──────┘

Theory of operation
    The event id of a joined event is a digest of the prediction's key. The dedupe index decides inside the transaction of the
    append. So the label becomes one event, however often, by which client and in which order it is sent. The stored features
    are replaced by the label and its log position only after the event is durable. If the process crashes between the two, the
    features are still stored as pending, and the index knows which ids were accepted. The label is kept until the prediction
    is due. Until then a repeated or conflicting label is detected even if the index has evicted the id.

    If a restore may have undone the event of a label, the event is looked up in the log, and a label that is sent again goes
    with its features to the index of ids, as an event that is sent again does.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from riata.base.arrays import U8
from riata.base.errors import Busy, Corrupt, RiataError, Unavailable
from riata.run.engine import Engine
from riata.run.labels.pending_rows import Delays, Labelled, Waiting, decode_row, encode_labelled, encode_waiting
from riata.run.outcome import Observed, RowsRefused
from riata.run.state.config import require_one_margin
from riata.store.payload import decode_batch
from riata.store.store import PendingPrediction, Store
from riata.wire.batch import Batch, join_batches, slice_rows, take_rows
from riata.wire.names import NOTHING_NAMED, Names, NamesSeen
from riata.wire.parsed import NO_JOINS, Parsed, RowError

GROUP_MAX: Final = 256  # requests in one transaction

log = logging.getLogger("riata.run")

CHANCE_BYTES: Final = 10
NO_BOUND: Final = 2**50  # bytes: no limit is needed, since a label takes less room than the features it replaces
LARGE: Final = 50  # rows; more would block the event loop for too long: about two milliseconds
FULL_RETRY_S: Final = 30.0
REUSED: Final = "id_reused"  # code of `Service.observe` for an event id that was sent with other content


# Group commit of pending predictions: one store transaction for all requests that are waiting.


@dataclass(frozen=True, slots=True, eq=False)
class _Request:
    rows: list[PendingPrediction]
    answer: asyncio.Future[bool]


class Gathering:
    """Queue of one model's predictions on their way into the store.

    The request that gets the lock first writes the rows of all waiting requests. The others then find their answer set. If the
    first was cancelled before it set the answers, the next one writes.
    """

    def __init__(self, engine: Engine, model: str, bytes_max: int) -> None:
        self._engine = engine
        self._model = model
        self._bytes_max = bytes_max
        self._waiting: list[_Request] = []
        self._turn = asyncio.Lock()

    async def keep(self, rows: list[PendingPrediction]) -> bool:
        """Store `rows`, durable on return. Returns false, and stores none of them, if there is no room. Raises what the store
        raises; `Unavailable` (code `store_timeout`) if it does not answer."""
        mine = _Request(rows, asyncio.get_running_loop().create_future())
        self._waiting.append(mine)
        try:
            async with self._turn:
                if not mine.answer.done():
                    others = [one for one in self._waiting if one is not mine and not one.answer.done()]
                    await self._settle([mine, *others[: GROUP_MAX - 1]])
        finally:
            self._waiting.remove(mine)
        return mine.answer.result()

    async def _settle(self, group: list[_Request]) -> None:
        rows = [row for request in group for row in request.rows]
        try:
            kept = await asyncio.wait_for(
                self._engine.call(lambda s: s.remember(self._model, rows, self._bytes_max)),
                self._engine.settings.observe_timeout_ms / 1000,
            )
        except TimeoutError:
            _fail(group, Unavailable("the store did not answer in time, so no row was predicted", "store_timeout"))
        except RiataError as error:
            _fail(group, error)
        else:
            if not kept and len(group) > 1:  # there may be room for some of them
                for request in group:
                    await self._settle([request])
                return
            for request in group:
                request.answer.set_result(kept)


def _fail(group: list[_Request], error: RiataError) -> None:
    for request in group:
        request.answer.set_exception(error)
        request.answer.exception()  # mark as retrieved: the waiting request may have been cancelled


@dataclass(slots=True)
class RememberedTally:
    """Counts of one model since the start. rows, bytes: the stored predictions, if this process sweeps them; otherwise None.
    delays: of joined labels, as long as `label_ttl_s` is what it was at the prediction."""

    remembered: int = 0
    joined: int = 0
    repeated: int = 0
    conflict: int = 0
    late: int = 0
    unknown: int = 0
    damaged: int = 0
    expired: int = 0  # deleted without a label
    defaulted: int = 0  # given the default label
    rows: int | None = None
    bytes: int | None = None
    delays: Delays = dataclasses.field(default_factory=Delays)

    def refuse(self, slug: str) -> None:
        """Count a row that was refused."""
        self.unknown += slug == UNKNOWN[0]
        self.late += slug == LATE[0]
        self.conflict += slug == CONFLICT[0]
        self.damaged += slug == DAMAGED[0]


class ObserveRows(Protocol):
    """`Service.observe`."""

    async def __call__(self, model: str, parsed: Parsed, *, atomic: bool = False, wait_applied: bool = False) -> Observed:
        """Append the rows of a body without labels for predictions."""
        ...


@dataclass(frozen=True, slots=True)
class Way:
    """What a join needs from the rest of the service.

    require : (what, model) raises if this process does not observe or remember, or if nothing can be logged now
    served  : waits until the served model includes a log position; false if that takes too long
    """

    observe: ObserveRows
    require: Callable[[str, str], None]
    served: Callable[[str, int], Awaitable[bool]]


class Remembering:
    """Stores predictions and joins labels to them. Every method is called by the event loop."""

    def __init__(self, engine: Engine, way: Way, bytes_max: int) -> None:
        self.tallies: dict[str, RememberedTally] = {}
        self._engine = engine
        self._way = way
        self._bytes_max = bytes_max
        self._gatherings: dict[str, Gathering] = {}

    def tally(self, model: str) -> RememberedTally:
        """Return the counts of one model."""
        return self.tallies.setdefault(model, RememberedTally())

    async def remember(self, model: str, rows: list[bytes]) -> list[str]:
        """Store rows that `encode_waiting` wrote; durable on return. Returns an id for each.

        Raises `Busy` (code `remember_full`) if there is no room for all of them, `Conflict` (code `not_for_classes`) if the model
        has several classes, and what the store raises.
        """
        self._way.require("remember", model)
        engine = self._engine
        config = engine.published(model).config
        require_one_margin(config, "a prediction that waits for its label")
        due_ms = engine.clock.unix_ms() + 1000 * config.label_ttl_s
        kept = [PendingPrediction(make_key(due_ms, engine.draw(CHANCE_BYTES)), due_ms, row) for row in rows]
        gathering = self._gatherings.get(model)
        if gathering is None:
            gathering = self._gatherings[model] = Gathering(engine, model, self._bytes_max)
        if not await gathering.keep(kept):
            raise Busy(
                f"the predictions that wait for a label take {self._bytes_max} bytes, the limit set by remember_bytes_max: send "
                "their labels, remember fewer, lower label_ttl_s or raise remember_bytes_max",
                "remember_full",
                FULL_RETRY_S,
            )
        self.tally(model).remembered += len(kept)
        return [row.key.hex() for row in kept]

    async def observe(self, model: str, parsed: Parsed, *, atomic: bool, wait_applied: bool) -> Observed:
        """`Service.observe` for a body in which some rows label a prediction."""
        self._way.require("observe", model)
        joined = await self._join(model, parsed)
        for slug in joined.refused:
            self.tally(model).refuse(slug)
        if not joined.repeated:
            return await self._append(model, joined, atomic, wait_applied)
        errors = joined.parsed.errors
        observed = Observed(0, 0, len(errors), 0, errors, self._engine.settings.durability, False)
        if joined.parsed.batch.n or (atomic and errors):
            try:
                observed = await self._append(model, joined, atomic, wait_applied)
            except RowsRefused as error:
                if atomic:
                    raise
                observed = error.observed
        count, seq = len(joined.repeated), max(observed.seq, *joined.repeated)
        self.tally(model).repeated += count
        applied = wait_applied and await self._way.served(model, seq)
        return dataclasses.replace(observed, duplicate=observed.duplicate + count, seq=seq, applied=applied)

    # -- inside ----------------------------------------------------------------------------------------------------

    async def _join(self, model: str, parsed: Parsed) -> Joined:
        keys = list(dict.fromkeys(parsed.joins.key))
        changes = self._engine.published(model).changes

        def find(store: Store) -> tuple[dict[bytes, PendingPrediction], dict[bytes, PendingPrediction]]:
            recalled = recall(store, model, keys)
            return recalled, undone(store, model, recalled, changes)

        recalled, again = await self._engine.call(find)
        arguments = (parsed, {**recalled, **again}, self._engine.clock.unix_ms(), self._engine.served_model(model).seen)
        if parsed.joins.n <= LARGE:
            joined = join(*arguments)
        else:
            joined = await asyncio.get_running_loop().run_in_executor(None, join, *arguments)
        return dataclasses.replace(joined, again=frozenset(again))

    async def _append(self, model: str, joined: Joined, atomic: bool, wait_applied: bool) -> Observed:
        try:
            observed = await self._way.observe(model, joined.parsed, atomic=atomic, wait_applied=wait_applied)
        except RowsRefused as error:
            raise RowsRefused(error.detail, error.code, self._retold(model, joined, error.observed)) from None
        observed = self._retold(model, joined, observed)
        await self._mark(model, joined, observed)
        return observed

    def _retold(self, model: str, joined: Joined, observed: Observed) -> Observed:
        """Report errors of joined rows in terms of their labels instead of their event ids, and count the outcomes."""
        tally, now_ms = self.tally(model), self._engine.clock.unix_ms()
        errors = []
        for error in observed.errors:
            if error.code == REUSED and error.index in joined.waiting:
                due_ms = joined.waiting[error.index][-1]  # after that, the other label is the default
                error = RowError(error.index, *(LATE if due_ms <= now_ms else CONFLICT))
                tally.refuse(error.code)
            errors.append(error)
        repeated = len(joined.waiting.keys() & set(observed.duplicate_rows))
        tally.repeated += repeated
        if observed.accepted:
            left = joined.waiting.keys() - {error.index for error in errors} - set(observed.duplicate_rows)
            tally.joined += len(left)
            ttl_ms = 1000 * self._engine.published(model).config.label_ttl_s
            for row in left:
                tally.delays.add((now_ms - (joined.waiting[row][-1] - ttl_ms)) / 1000)
        return dataclasses.replace(observed, errors=errors)

    async def _mark(self, model: str, joined: Joined, observed: Observed) -> None:
        """Replace stored features by their label. The event is in the log: if this fails, the dedupe index still has its id."""
        refused = {error.index for error in observed.errors}
        known = {row for row in observed.duplicate_rows if row in joined.waiting and joined.waiting[row][0] in joined.again}
        marks = [
            PendingPrediction(key, due_ms, encode_labelled(Labelled(label, weight, observed.seq)))
            for row, (key, label, weight, due_ms) in joined.waiting.items()
            if row not in refused and row not in known
        ]
        if not marks:
            return
        try:
            await self._engine.call(lambda s: s.remember(model, marks, NO_BOUND))
        except RiataError as error:
            log.warning("model %s: %d labels are in the log but not marked as used: %s", model, len(marks), error.detail)


# Joins labels to stored predictions: the recalled rows become events among the other events of a body.


UNKNOWN: Final = (
    "prediction_unknown",
    "prediction_id: this model has no such prediction waiting for a label; predict with remember=true and the same model",
)
LATE: Final = ("prediction_late", "prediction_id: the label arrived later than label_ttl_s allows")
CONFLICT: Final = ("label_conflict", "prediction_id: it already has another label or weight; nothing was changed")
DAMAGED: Final = ("prediction_damaged", "prediction_id: its stored features are damaged; send the features with the label")

KEY_BYTES: Final = 16
DUE_BYTES: Final = 6


@dataclass(frozen=True, slots=True)
class Joined:
    """A body after its labels were joined to their predictions.

    parsed   : the body without labels of predictions; joined events are among its rows, in the order of the body
    waiting  : by joined row: key, label, weight, due_ms
    repeated : log positions of the rows whose prediction already has the same label; they are not in `parsed`
    refused  : codes of the rows that could not be joined; their errors are in `parsed`
    again    : keys of joined rows that had a label before, of an event that a restore may have undone
    """

    parsed: Parsed
    waiting: dict[int, tuple[bytes, float, float, int]]
    repeated: list[int]
    refused: list[str]
    again: frozenset[bytes] = frozenset()


def event_id(key: bytes) -> U8:
    """Return the id of the event that a prediction becomes with its label: 16 bytes that no id sent by a client maps to."""
    return np.frombuffer(hashlib.blake2b(key, digest_size=KEY_BYTES, person=b"riata prediction").digest(), np.uint8)


def labelled(waiting: Waiting, key: bytes, label: float, weight: float) -> Waiting:
    """Return the event that a prediction becomes with its label, as a batch of one."""
    batch = dataclasses.replace(
        waiting.batch,
        label=np.array([label]),
        weight=np.array([weight]),
        event_id=event_id(key).reshape(1, KEY_BYTES),
        has_id=np.ones(1, np.bool_),
    )
    return Waiting(batch, waiting.names)


def new_names(names: Iterable[Names], seen: NamesSeen) -> Names:
    """Return the names that are not in the log yet, each once."""
    found: dict[int, bytes] = {}
    if not seen.full:
        for some in names:
            found.update((fingerprint, name) for fingerprint, name in some if fingerprint not in found)
    return Names.of((fingerprint, name) for fingerprint, name in found.items() if fingerprint not in seen)


def recall(store: Store, model: str, keys: Sequence[bytes]) -> dict[bytes, PendingPrediction]:
    """`Store.recall`; if the store finds a damaged row, that row is returned empty and the others as they are."""
    try:
        return store.recall(model, keys)
    except Corrupt:
        found = {}
        for key in keys:
            try:
                found.update(store.recall(model, [key]))
            except Corrupt:
                found[key] = PendingPrediction(key, due_of(key), b"")
        return found


def undone(
    store: Store, model: str, recalled: Mapping[bytes, PendingPrediction], changes: Sequence[int]
) -> dict[bytes, PendingPrediction]:
    """Return those labelled predictions whose event a restore may have undone, with the features that they have in the log. The
    index of ids then decides whether such an event still counts, and is repeated, or is learnt again.

    changes : the events that have changed the model, restores among them
    """
    found: dict[bytes, PendingPrediction] = {}
    for key, kept in recalled.items():
        try:
            row = decode_row(kept.row)
        except Corrupt:
            continue  # `join` refuses it
        if isinstance(row, Labelled) and any(at > row.seq for at in changes):
            event = _in_log(store, model, row.seq, key)
            if event is not None:
                found[key] = dataclasses.replace(kept, row=encode_waiting(event, NOTHING_NAMED)[0])
    return found


def _in_log(store: Store, model: str, seq: int, key: bytes) -> Batch | None:
    """Return the event of a labelled prediction; None if neither the log nor the index of ids is known to have it."""
    head = store.head(model)
    records = store.read(model, seq - 1, 1) if seq >= max(head.dedupe_floor, head.first_seq) else []
    if not records or records[0].kind != "observe":
        return None
    batch = decode_batch(records[0].payload)
    rows = np.flatnonzero((batch.event_id == event_id(key)).all(axis=1) & batch.has_id)
    return slice_rows(batch, int(rows[0]), int(rows[0]) + 1) if len(rows) else None


def join(parsed: Parsed, recalled: Mapping[bytes, PendingPrediction], now_ms: int, seen: NamesSeen) -> Joined:
    """Join the labels of `parsed` to their predictions; `recalled` are those that the store still has."""
    joins, errors, events = parsed.joins, list(parsed.errors), []
    waiting: dict[int, tuple[bytes, float, float, int]] = {}
    repeated, refused = [], []
    for row, key, label, weight in zip(joins.row.tolist(), joins.key, joins.label.tolist(), joins.weight.tolist(), strict=True):
        found = _find(key, recalled, now_ms)
        if isinstance(found, Waiting):
            events.append(labelled(found, key, label, weight))
            waiting[row] = (key, label, weight, recalled[key].due_ms)
        elif isinstance(found, Labelled) and (found.label, found.weight) == (label, weight):
            repeated.append(found.seq)
        else:
            slug, sentence = CONFLICT if isinstance(found, Labelled) else found
            errors.append(RowError(row, slug, sentence))
            refused.append(slug)
    errors.sort(key=lambda error: error.index)
    whole = dataclasses.replace(parsed, errors=errors, joins=NO_JOINS)
    return Joined(_with_events(whole, list(waiting), events, seen), waiting, repeated, refused)


def _find(key: bytes, recalled: Mapping[bytes, PendingPrediction], now_ms: int) -> Waiting | Labelled | tuple[str, str]:
    if key not in recalled:
        return LATE if due_of(key) <= now_ms else UNKNOWN
    try:
        return decode_row(recalled[key].row)
    except Corrupt as error:
        log.error("prediction %s: %s", key.hex(), error.detail)
        return DAMAGED


def _with_events(parsed: Parsed, rows: list[int], events: list[Waiting], seen: NamesSeen) -> Parsed:
    """Merge events into the rows of `parsed`, in the order of the body."""
    if not events:
        return parsed
    row = np.concatenate([parsed.row, np.array(rows, np.int64)])
    order = np.argsort(row, kind="stable")
    batch = take_rows(join_batches([parsed.batch, *(event.batch for event in events)]), order)
    fresh = new_names((event.names for event in events), seen)
    names = Names.of([*parsed.names, *fresh]) if len(fresh) else parsed.names
    return dataclasses.replace(parsed, batch=batch, row=row[order], names=names)


# The key of a prediction whose label is awaited: when the label is due, and chance.
#
# A prediction's id is its key in hexadecimal:
#
#      0                       6                                        16 bytes
#     ┌───────────────────────┬────────────────────────────────────────┐
#     │ due_ms u48, big endian│ chance, 80 bits                         │
#     └───────────────────────┴────────────────────────────────────────┘
#
# `due_ms` is the unix time until which the label is awaited. It is part of the id so that a label that comes too late can be
# distinguished from a label of an unknown prediction after all other state of both is gone.


def make_key(due_ms: int, chance: bytes) -> bytes:
    """The key of a prediction whose label is awaited until `due_ms`; `chance` is 10 random bytes."""
    return due_ms.to_bytes(DUE_BYTES, "big") + chance


def due_of(key: bytes) -> int:
    """The unix time, in ms, until which the label of a prediction is awaited."""
    return int.from_bytes(key[:DUE_BYTES], "big")
