"""Planning of an append before anything is written: dedupe, sequence numbers, chain. Shared by every store.

The log of a follower gets a copy of each record of its leader: the same payload and digest at the follower's own position and
chain. Which rows are accepted is decided for the leader alone; a follower remembers no ids.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from riata.base.arrays import BOOL
from riata.base.errors import BadInput, Corrupt, NotFound
from riata.base.frozen_dataclass import frozen_dataclass
from riata.store import layout, records
from riata.store.records import first_chain, next_chain, observe_record, record_digest, row_digests
from riata.store.store import Append, Appended, Head, Record
from riata.wire.batch import Batch, select_rows

# Which events of a log restores undid, so that the ids of these are free again.
#
# Theory of operation
#     An id is known if one of its events counts in the state at the end of the log (`run/log/effective_log.py`). A restore takes
#     events out of that state, and a later one may bring them back. So a store keeps of each model its restores, and of each id
#     all events that had it. An event gets an id that is known to no event that counts, so of the events of an id at most one
#     counts in any state.
#
#     In the index the entry of an id is its newest event: (position, content digest). Those before it are appended to the digest:
#
#         position  u64 │ content 16 bytes │ [ u64 position │ content 16 bytes ] ...     newest first
#
#     Restores below the dedupe floor say nothing about ids above it, so they are not kept.

CONTENT_BYTES: Final = 16
Seen = tuple[int, bytes]  # (position of an event, digest of its content); as an entry of the index, all events of an id
_BEFORE: Final = struct.Struct("<Q16s")
_PAIR: Final = struct.Struct("<QQ")


class Restored(NamedTuple):
    """A restore: its event, and the event after which the state was that it put in place; 0 for a state of another log."""

    event: int
    returned_to: int


Restores = tuple[Restored, ...]  # of one model, oldest first


def positions(entry: Seen) -> Iterator[Seen]:
    """Yield the events of an entry of the index, newest first."""
    seq, content = entry
    yield seq, content[:CONTENT_BYTES]
    yield from _BEFORE.iter_unpack(content[CONTENT_BYTES:])


def united(entries: Iterable[Seen]) -> Seen:
    """Return one entry of all events of these entries of an id."""
    found = sorted({seen for entry in entries for seen in positions(entry)}, reverse=True)
    return found[0][0], found[0][1] + b"".join(_BEFORE.pack(*seen) for seen in found[1:])


def up_to(entry: Seen, last: int) -> Seen | None:
    """Return an entry without its events after `last`; None if none is left."""
    left = [seen for seen in positions(entry) if seen[0] <= last]
    return united(left) if left else None


def counted(restores: Sequence[Restored], last: int) -> list[tuple[int, int]]:
    """Return the spans of events that count in the state after event `last`, newest first."""
    spans: list[tuple[int, int]] = []
    for event, returned_to in reversed(restores):
        if event <= last:
            spans.append((event + 1, last))
            last = returned_to
    return [*spans, (1, last)]


def counting(entry: Seen, spans: Sequence[tuple[int, int]], floor: int) -> Seen | None:
    """Return the event of an entry that counts, at `floor` or above; None if none does."""
    for seq, content in positions(entry):
        if seq >= floor and any(first <= seq <= last for first, last in spans):
            return seq, content
    return None


def claimed(payload: bytes, head: Head) -> tuple[int, bytes] | None:
    """Return the event and the chain after which the state in a restore says that it is, for a log that ends at `head`.

    The event is 0 for a state of another log. None for what undoes no event: a promotion, and a state that is ahead of the log,
    which puts events back that the log has lost.
    """
    try:
        if records.decode_through(payload) is not None:
            return None
        header = layout.checkpoint_header(records.decode_restore(payload)[1])
        applied, chain = int(header["applied"]), bytes.fromhex(header["chain"])
    except (Corrupt, KeyError, TypeError, ValueError):
        return 0, b""  # it will be refused when it is applied; until then nothing before it counts
    if header.get("lineage") != head.lineage.hex() or applied < 0:
        return 0, b""
    return None if applied > head.seq else (applied, chain)


def restored(payload: bytes, head: Head, chain_of: Callable[[int], bytes | None]) -> Restored | None:
    """Return the restore that follows `head`; None for what undoes no event.

    chain_of : returns the chain after the record with an event; None if the log no longer has it
    """
    found = claimed(payload, head)
    if found is None:
        return None
    applied, chain = found
    known = chain_of(applied) if applied else None  # after a rollback of a shared store, the same number is another event
    return Restored(head.seq + 1, applied if known is None or known == chain else 0)


def pack(restores: Iterable[Restored]) -> bytes:
    """Return restores in stored form."""
    return b"".join(_PAIR.pack(*one) for one in restores)


def unpack(stored: bytes) -> Restores:
    """Read what `pack` wrote. Raises `Corrupt`."""
    if len(stored) % _PAIR.size:
        raise Corrupt(f"the list of restores has {len(stored)} bytes, not a whole number of entries")
    return tuple(Restored(*pair) for pair in _PAIR.iter_unpack(stored))


def and_then(restores: Restores, one: Restored, floor: int) -> Restores:
    """Return `restores` and another one, without those that say nothing about ids at `floor` or above."""
    return (*(before for before in restores if before.event >= floor), one)


ID_BYTES = 16
LookUp = Callable[[str, Sequence[bytes], int], Mapping[bytes, Seen]]
"""(model, ids, floor) -> the entries of those ids whose newest position is at `floor` or above."""
ChainOf = Callable[[str, int], bytes | None]
"""(model, event) -> the chain of its log after the record with the event; None if the log no longer has that."""
_NOWHERE: Final[Seen] = (0, b"")
_NO_IDS: Final[Mapping[bytes, Seen]] = MappingProxyType({})
_FEW_ROWS: Final = 64


@frozen_dataclass(frozen=True, slots=True)
class Planned:
    """The plan of one append. head is the model's head afterwards; ids are the new entries of the dedupe index; is_copy: of a
    record of the leader, which the request before it has; restores: those of the model afterwards, None if they do not change."""

    request: Append
    appended: Appended
    head: Head | None
    ids: list[tuple[bytes, int, bytes]]
    is_copy: bool = False
    restores: Restores | None = None


def new_head(lineage: bytes) -> Head:
    """Return the head of a model without events."""
    return Head(lineage=lineage, seq=0, chain=first_chain(lineage), first_seq=1, dedupe_floor=1)


def plan_group(
    group: Sequence[Append],
    heads: Mapping[str, Head],
    look_up: LookUp,
    dedupe_events: int,
    restores: Mapping[str, Restores] = MappingProxyType({}),
    chain_of: ChainOf = lambda _model, _event: None,
) -> list[Planned]:
    """Plan a whole group in order; later requests see the ids and restores of earlier ones. `heads` is not changed.

    restores : of each model that has any
    The plan of a request is followed by those of its copies, for followers that are in `heads`.
    """
    ahead = dict(heads)
    undoing = dict(restores)
    fresh: dict[str, dict[bytes, Seen]] = {}
    planned: list[Planned] = []
    for request in group:
        before, undone = ahead.get(request.model), undoing.get(request.model, ())
        plan = plan_one(request, before, fresh.get(request.model, _NO_IDS), look_up, dedupe_events, undone)
        if plan.head is not None and before is not None:
            ahead[request.model] = plan.head
            if request.kind == "restore" and (
                one := restored(request.payload, before, partial(_chain_after, planned, chain_of, request.model))
            ):
                undoing[request.model] = and_then(undone, one, before.dedupe_floor)
                plan = replace(plan, restores=undoing[request.model])
            if plan.ids:
                new = fresh.setdefault(request.model, {})
                again = [(key, united([(seq, content), new[key]])) for key, seq, content in plan.ids if key in new and undone]
                new.update({key: (seq, content) for key, seq, content in plan.ids})
                new.update(again)
        planned += _with_copies(plan, ahead) if request.followers else (plan,)
    return planned


def _chain_after(planned: Sequence[Planned], chain_of: ChainOf, model: str, event: int) -> bytes | None:
    """As `chain_of`, in a log that already has the records of `planned`."""
    new = (plan.appended.record for plan in planned if plan.request.model == model)
    return next((one.chain for one in new if one is not None and one.first <= event <= one.last), None) or chain_of(model, event)


def parts(group: Sequence[Append]) -> Iterator[Sequence[Append]]:
    """Cut a group after each restore: it may free ids that requests before it had. For stores that look these up only once."""
    begin = 0
    for at, request in enumerate(group, 1):
        if request.kind == "restore" or at == len(group):
            yield group[begin:at]
            begin = at


def models_of(group: Sequence[Append]) -> set[str]:
    """Return the models whose logs a group may go into."""
    return {name for request in group for name in (request.model, *(request.followers or ()))}


def _with_copies(plan: Planned, ahead: dict[str, Head]) -> list[Planned]:
    """Return the plan of a request and those of its copies; moves the heads of the followers ahead."""
    request, record = plan.request, plan.appended.record
    if record is None or request.kind != "observe":
        return [plan]
    copies = []
    for name in request.followers or ():
        if (head := ahead.get(name)) is None:
            continue
        copied = _record(replace(request, model=name), head, record.count, record.payload, record.digest)
        ahead[name] = _after(head, copied, head.dedupe_floor)
        appended = replace(plan.appended, record=copied, seq=copied.last)
        copies.append(Planned(replace(request, model=name, followers=None), appended, ahead[name], [], is_copy=True))
    told = tuple(copy.appended.record for copy in copies if copy.appended.record is not None)
    return [replace(plan, appended=replace(plan.appended, copies=told)), *copies]


def plan_one(
    request: Append,
    head: Head | None,
    fresh: Mapping[bytes, Seen],
    look_up: LookUp,
    dedupe_events: int,
    restores: Restores = (),
) -> Planned:
    """Plan one request for a model at `head` (None: no such model); `fresh` are the ids of earlier requests of the group."""
    n = 0 if request.batch is None else len(request.batch.label)
    if head is None:
        return _nothing(request, _rows(n), NotFound(f"no model {request.model!r}", "model_not_found"))
    if request.kind != "observe":
        return _plan_payload(request, head)
    if request.batch is None or n == 0:
        return _nothing(request, _rows(n), BadInput("observe: expected at least one event", "bad_batch"))
    floor = max(head.dedupe_floor, head.seq - dedupe_events + 1)
    rows, kept = _all(n), request.batch
    if 1 in kept.has_id.tobytes():  # faster than numpy for few rows
        spans = counted(restores, head.seq) if restores else []

        def known(ids: Sequence[bytes]) -> Mapping[bytes, Seen]:
            return _known(ids, fresh, look_up(request.model, ids, floor), floor, spans)

        rows = _judge(request, request.batch, head.seq, known)
        if not rows.accepted.any():
            return _nothing(request, rows, None)
        kept = select_rows(request.batch, rows.accepted)
    try:
        payload, digest = _payload(request, kept)
    except BadInput as error:
        return _nothing(request, _rows(n), error)
    record = _record(request, head, len(kept.label), payload, digest)
    after = _after(head, record, floor)
    return Planned(request, Appended(record, kept, rows.accepted, rows.duplicate, rows.reused, after.seq), after, rows.ids)


def _plan_payload(request: Append, head: Head) -> Planned:
    if not request.payload:
        return _nothing(request, _rows(0), BadInput(f"{request.kind}: expected a payload", "bad_payload"))
    digest = record_digest(request.kind, 1, request.accepted_ms, request.payload)
    record = _record(request, head, 1, request.payload, digest)
    none = _rows(0)
    appended = Appended(record, None, none.accepted, none.duplicate, none.reused, record.last)
    return Planned(request, appended, _after(head, record, head.dedupe_floor), [])


@frozen_dataclass(frozen=True, slots=True)
class _Rows:
    accepted: BOOL
    duplicate: BOOL
    reused: BOOL
    seq: int
    ids: list[tuple[bytes, int, bytes]]


def _rows(n: int) -> _Rows:
    return _Rows(np.zeros(n, np.bool_), np.zeros(n, np.bool_), np.zeros(n, np.bool_), 0, [])


def _all(n: int) -> _Rows:
    """Accept every row. Nobody writes to these arrays."""
    return _few(n) if n <= _FEW_ROWS else _every(n)


def _every(n: int) -> _Rows:
    """Uses `np.frombuffer`, as it does not release the interpreter's lock."""
    accepted, none = np.frombuffer(b"\x01" * n, np.bool_), np.frombuffer(bytes(n), np.bool_)
    return _Rows(accepted, none, none, 0, [])


_few: Final = cache(_every)  # of up to _FEW_ROWS rows


def _judge(request: Append, batch: Batch, seq: int, known: Callable[[list[bytes]], Mapping[bytes, Seen]]) -> _Rows:
    """Classify the rows of one request as accepted, duplicate or reused; only accepted rows get positions."""
    with_id = batch.has_id.nonzero()[0].tolist()
    accepted, duplicate, reused = np.ones(batch.n, np.bool_), np.zeros(batch.n, np.bool_), np.zeros(batch.n, np.bool_)
    raw = batch.event_id.tobytes()
    keys = [raw[ID_BYTES * i : ID_BYTES * (i + 1)] for i in with_id]
    stored = known(keys)
    here: dict[bytes, Seen] = {}
    repeated = []  # rows that repeat a row of the same request
    highest = dropped = 0
    for i, key, content in zip(with_id, keys, _contents(request, batch, with_id), strict=True):
        found = stored.get(key) or here.get(key)
        if found is None:
            here[key] = (seq + 1 + i - dropped, content)
            continue
        accepted[i] = False
        dropped += 1
        if found[1][:CONTENT_BYTES] == content:
            duplicate[i] = True
            highest = max(highest, found[0])
            repeated += [i] if key in here else []
        else:
            reused[i] = True
    if (request.atomic and reused.any()) or (request.only_if_all_new and not accepted.all()):
        accepted[:] = False
        duplicate[repeated] = request.only_if_all_new  # the row they repeat was not accepted; only `only_if_all_new` reports them
        highest = max((stored.get(key, _NOWHERE)[0] for i, key in zip(with_id, keys, strict=True) if duplicate[i]), default=0)
        return _Rows(accepted, duplicate, reused, highest, [])
    return _Rows(accepted, duplicate, reused, highest, [(key, at, content) for key, (at, content) in here.items()])


def _known(
    ids: Sequence[bytes], fresh: Mapping[bytes, Seen], stored: Mapping[bytes, Seen], floor: int, spans: Sequence[tuple[int, int]]
) -> Mapping[bytes, Seen]:
    """Return of each known id the event that counts. spans: of the events that count; empty if none was undone."""
    pending = {key: fresh[key] for key in ids if key in fresh and fresh[key][0] >= floor}
    if not spans:
        return {**stored, **pending}
    known = {}
    for key in {**stored, **pending}:
        entry = united(found for found in (stored.get(key), pending.get(key)) if found is not None)
        if (seen := counting(entry, spans, floor)) is not None:
            known[key] = seen
    return known


def _nothing(request: Append, rows: _Rows, refused: BadInput | None) -> Planned:
    return Planned(request, Appended(None, None, rows.accepted, rows.duplicate, rows.reused, rows.seq, refused), None, [])


def _contents(request: Append, batch: Batch, with_id: list[int]) -> Sequence[bytes]:
    """Return the content digests of these rows, from the request if it came encoded with this batch, otherwise computed."""
    ready = request.encoded
    return ready.contents if ready is not None and ready.batch is batch else row_digests(batch, with_id)


def _payload(request: Append, kept: Batch) -> tuple[bytes, bytes]:
    """Return payload and digest of `kept`: those that came with the request if they are of these rows and this time."""
    ready = request.encoded
    if ready is not None and ready.batch is kept and ready.accepted_ms == request.accepted_ms:
        return ready.payload, ready.digest
    return observe_record(kept, request.accepted_ms)


def _record(request: Append, head: Head, count: int, payload: bytes, digest: bytes) -> Record:
    first = head.seq + 1
    chain = next_chain(head.chain, digest)
    return Record(request.model, request.kind, first, count, request.accepted_ms, payload, digest, chain)


def _after(head: Head, record: Record, floor: int) -> Head:
    return Head(head.lineage, record.last, record.chain, head.first_seq, floor)
