"""Joins labels to stored predictions: the recalled rows become events among the other events of a body."""

from __future__ import annotations

import dataclasses
import hashlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from riata.base.arrays import U8
from riata.base.errors import Corrupt
from riata.run.labels.pending_rows import Labelled, Waiting, decode_row, encode_waiting
from riata.store.payload import decode_batch
from riata.store.store import PendingPrediction, Store
from riata.wire.batch import Batch, join_batches, slice_rows, take_rows
from riata.wire.names import NOTHING_NAMED, Names, NamesSeen
from riata.wire.parsed import NO_JOINS, Parsed, RowError

log = logging.getLogger("riata.run")

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
