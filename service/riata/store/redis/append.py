"""Append to a Redis store from any process: planned here, decided by a Lua script.

Theory of operation
    Many processes append to one log. Each process plans its requests as every store does (`append_plan`), assuming that no id
    is known, and sends encoded records without sequence numbers. The script assigns the sequence numbers, in order, and stops
    at the first request with a known id. It returns the known ids of that request and of all after it. The rest is planned
    again with these ids and sent again. So a group costs one round trip if no id is known, and two if some are. Each request
    is appended atomically, and before all that follow it in the group.

    Each call carries a ticket: the source, and a number that rises by one. The script stores the last number of each source
    with its answer, and returns the same answer for the same number. So a call may be repeated until an answer arrives. An older
    number is refused, so a delayed copy of a call has no effect.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final

import numpy as np

from riata.base.errors import Corrupt, LogFork, TooLarge, Unavailable
from riata.base.limits import RESTORE_BYTES_MAX_SHARED
from riata.store.append_plan import ID_BYTES, Planned, Seen, claimed, parts, plan_one
from riata.store.records import names_digest, next_chain
from riata.store.redis.codec import Answer, State
from riata.store.redis.session import Session
from riata.store.redis.url import Keys, ModelKeys, bucket_of
from riata.store.store import Append, Appended, Head, Record
from riata.wire.names import Names

TICKET_MS: Final = 24 * 3_600_000
SEND_BYTES_MAX: Final = 16 * 2**20  # of one script call; a larger group is sent in parts
SEND_IDS_MAX: Final = 20_000
PAYLOAD_BYTES_MAX: Final = 500 * 2**20  # Redis takes arguments of up to 512 MiB
ROUNDS_MAX: Final = 20  # consecutive rounds that append no request, before `store_contended`
TICKETS_MAX: Final = 3
SEQ_MAX: Final = 2**53  # the script compares the event of a state with the end of the log


@dataclass(slots=True)
class _Place:
    """Last known head of a model."""

    number: int
    keys: ModelKeys
    head: Head
    window: int
    bits: int


class Appender:
    """The appending half of a store object. One thread uses it.

    number_of : the incarnation of a model, None if there is no such model; with the flag set, asks the store
    states_of : the states of these incarnations in the store
    renew     : begin a new ticket; returns the name of its source
    """

    def __init__(
        self,
        session: Session,
        keys: Keys,
        number_of: Callable[[str, bool], int | None],
        states_of: Callable[[Sequence[int]], list[State | None]],
        renew: Callable[[], str],
    ) -> None:
        self._session = session
        self._keys = keys
        self._number_of = number_of
        self._states_of = states_of
        self._renew = renew
        self._source = ""
        self._ticket = 0
        self._used_ms = 0
        self._places: dict[str, _Place] = {}

    def append(self, group: Sequence[Append]) -> list[Appended]:
        """See `Store.append`."""
        finished: list[Appended] = []
        try:
            for part in parts(group):
                self._append(part, finished)
        except Unavailable as error:
            if any(done.record is not None for done in finished):
                error.outcome = "unknown"  # for the whole group: a part of it is in the log
            raise
        return finished

    def _append(self, group: Sequence[Append], finished: list[Appended]) -> None:
        """Append `group`; adds the result of each request to `finished`."""
        known: dict[str, dict[bytes, Seen]] = {}
        rest = list(group)
        probed: set[int] = set()
        idle = 0
        while rest and idle < ROUNDS_MAX:
            planned = self._plan(rest, known, probed)
            sent = [plan for plan in planned if plan.appended.record is not None or plan.ids]
            sent = sent[: _as_many_as_fit(sent)]
            answer = self._send(sent) if sent else None
            accepted, reason = self._places_given(answer, sent)
            step = self._finish(planned, accepted, known)
            finished += step
            rest = rest[len(step) :]
            idle = 0 if step else idle + 1
            if answer is not None:
                self._learn(answer, sent, known)
            if rest and reason:
                self._react(reason, sent[len(accepted)].request.model, known)
                probed.add(id(sent[len(accepted)].request) if reason == "KNOWN" else 0)
        if rest:
            raise Unavailable("other processes append too often; these events could not be appended", "store_contended")

    def forget(self, model: str) -> None:
        """Forget the head of `model`; the next append asks the store for it."""
        self._places.pop(model, None)

    def _plan(self, rest: Sequence[Append], known: dict[str, dict[bytes, Seen]], probed: set[int]) -> list[Planned]:
        self._find({request.model for request in rest})
        ahead = {model: place.head for model, place in self._places.items()}
        fresh: dict[str, dict[bytes, Seen]] = {}
        planned = []
        for request in rest:
            new = fresh.setdefault(request.model, {})
            seen = known.setdefault(request.model, {})
            place = self._places.get(request.model)
            window = place.window if place else 1

            def look_up(_: str, ids: Sequence[bytes], floor: int, seen: Mapping[bytes, Seen] = seen) -> Mapping[bytes, Seen]:
                return {key: seen[key] for key in ids if key in seen and seen[key][0] >= floor}

            plan = plan_one(request, ahead.get(request.model), new, look_up, window)
            most = RESTORE_BYTES_MAX_SHARED if request.kind == "restore" else PAYLOAD_BYTES_MAX
            if len(request.payload) > most:
                plan = _too_large(plan, most)
            if plan.appended.record is None and place is not None and id(request) not in probed:
                plan = _probe(plan, seen.keys() | new.keys())
            planned.append(plan)
            if plan.head is not None:
                ahead[request.model] = plan.head
                new.update({key: (seq, content) for key, seq, content in plan.ids})
        return planned

    def _find(self, models: set[str]) -> None:
        """Read the heads of these models from the store, except of those that do not exist."""
        fresh = False
        for _ in range(ROUNDS_MAX):
            wanted = sorted(model for model in models if model not in self._places)
            numbers = {model: self._number_of(model, fresh and model == wanted[0]) for model in wanted}
            there = {model: number for model, number in numbers.items() if number is not None}
            states = self._states_of(list(there.values())) if there else []
            for (model, number), state in zip(there.items(), states, strict=True):
                if state is not None:
                    self._places[model] = _Place(number, self._keys.of(number), state.head, state.window, state.bits)
                elif fresh and self._number_of(model, True) == number:
                    raise Corrupt(f"model {model!r} has lost its key `meta`", "store_damaged")
            if all(model in self._places for model in wanted) or (fresh and not there):
                return
            fresh = True  # the rest was created, or dropped and created again, since the store was asked

    def _send(self, sent: Sequence[Planned]) -> Answer:
        """Send records under a new ticket. Raises `Unavailable` (outcome unknown, if they may have been appended)."""
        ahead = {model: place.head.seq for model, place in self._places.items()}
        keys: list[bytes] = []
        arguments: list[bytes] = []
        for plan in sent:
            model = plan.request.model
            more_keys, more_arguments = _request(plan, self._places[model], ahead[model])
            keys += more_keys
            arguments += more_arguments
            ahead[model] += more_count(plan)
        for _ in range(TICKETS_MAX):
            now = self._session.chance.monotonic_ms()
            if not self._source or now - self._used_ms > TICKET_MS // 2:
                self._source, self._ticket = self._renew(), 0
            self._ticket += 1
            self._used_ms = now
            begun = [b"%d" % self._ticket, b"%d" % TICKET_MS]
            own = [self._keys.own, self._keys.ticket(self._source)]
            answer, again = self._session.run_counted("append", own + keys, begun + arguments)
            if answer.word == "OK":
                return answer
            self._source = ""
            if again:
                raise Unavailable(
                    "the store has discarded the ticket of the sender of these events", "store_unreachable", "unknown"
                )
        raise Unavailable("the store discards tickets at once", "store_unreachable")

    def _places_given(self, answer: Answer | None, sent: Sequence[Planned]) -> tuple[list[tuple[int, bytes]], str]:
        """Return (seq before, chain) of each appended request, with the chain verified, and why the next one was not appended."""
        if answer is None:
            return [], ""
        given = answer.nested()
        accepted: list[tuple[int, bytes]] = []
        ends: dict[str, tuple[int, bytes]] = {}
        while len(given):
            if len(accepted) == len(sent):
                raise Corrupt("the store has appended more than it was sent", "store_answer")
            before, chain_before, chain = given.number(), given.bytes(20), given.bytes(20)
            plan = sent[len(accepted)]
            model, record = plan.request.model, plan.appended.record
            if record is None or chain != next_chain(chain_before, record.digest):
                raise LogFork(f"log of {model!r}: the chain of event {before + 1} in the store differs from that of its record")
            if ends.setdefault(model, (before, chain_before)) != (before, chain_before):
                raise LogFork(f"log of {model!r}: the store has not appended the events in order at event {before + 1}")
            ends[model] = (before + record.count, chain)
            accepted.append((before, chain))
        return accepted, answer.text()

    def _finish(
        self,
        planned: Sequence[Planned],
        accepted: Sequence[tuple[int, bytes]],
        known: dict[str, dict[bytes, Seen]],
    ) -> list[Appended]:
        """Return the results of the requests up to the first that was not appended."""
        finished: list[Appended] = []
        done = 0
        for plan in planned:
            record, model = plan.appended.record, plan.request.model
            if record is None and not plan.ids:
                finished.append(_with_true_seq(plan, known.get(model, {})))
                continue
            if record is None or done == len(accepted):
                break
            before, chain = accepted[done]
            done += 1
            moved, appended = before + 1 - record.first, plan.appended
            if moved or chain != record.chain:
                record = dataclasses.replace(record, first=before + 1, chain=chain)
                appended = dataclasses.replace(appended, record=record, seq=record.last)
            finished.append(appended)
            if plan.ids:
                known.setdefault(model, {}).update({key: (seq + moved, content) for key, seq, content in plan.ids})
            self._move(model, plan, before, record)
        return finished

    def _move(self, model: str, plan: Planned, before: int, record: Record) -> None:
        place = self._places[model]
        head, floor = place.head, place.head.dedupe_floor
        if plan.request.kind == "observe":
            floor = max(floor, before - place.window + 1)
        place.head = Head(head.lineage, record.last, record.chain, head.first_seq, floor)

    def _learn(self, answer: Answer, sent: Sequence[Planned], known: dict[str, dict[bytes, Seen]]) -> None:
        """Apply the known ids and heads that the script returned for the requests that were not appended."""
        told, heads = answer.nested(), answer.nested()
        while len(told):
            request, at, seq, content = told.number(), told.number(), told.number(), told.bytes(16)
            if request >= len(sent) or at >= len(sent[request].ids):
                raise Corrupt("the store answered with ids that were not in the request", "store_answer")
            plan = sent[request]
            known.setdefault(plan.request.model, {})[plan.ids[at][0]] = (seq, content)
        while len(heads):
            request, seq, floor = heads.number(), heads.number(), heads.number()
            if request >= len(sent):
                raise Corrupt("the store answered with models that were not in the request", "store_answer")
            place = self._places[sent[request].request.model]
            place.head = dataclasses.replace(place.head, seq=seq, dedupe_floor=floor)  # the next record brings the chain

    def _react(self, reason: str, model: str, known: dict[str, dict[bytes, Seen]]) -> None:
        """Handle the reason why a request was not appended: raise, or drop outdated state before the next round."""
        if reason == "FORK":
            raise LogFork(f"log of {model!r}: it has entries beyond its end that this service has not appended")
        if reason == "DAMAGED":
            raise Corrupt(f"ids of {model!r} that were written are missing: a key was deleted", "store_damaged")
        if reason != "MODEL":
            return  # the answer already brought the known ids and heads
        known.pop(model, None)  # these were ids of a model that was dropped
        place = self._places.pop(model, None)
        if place is not None and self._number_of(model, True) == place.number:
            raise Corrupt(f"model {model!r} has lost its key `meta`", "store_damaged")


def more_count(plan: Planned) -> int:
    """Number of events that a plan appends."""
    return 0 if plan.appended.record is None else plan.appended.record.count


def _request(plan: Planned, place: _Place, before: int) -> tuple[list[bytes], list[bytes]]:
    """(keys, arguments) of one request, expected to follow event `before`; see append.lua."""
    record, request = plan.appended.record, plan.request
    own = place.keys
    now, last = before // place.window, (before + more_count(plan)) // place.window
    prior = 1 if now else 0
    named = [own.meta, own.log, own.names]
    if plan.ids:
        spans = [*range(now - prior, now + 1), *([last] if last > now else [])]
        named += [own.bitmap(span) for span in spans]
        heads = [own.bitmap(span) + b":%d" for span in spans]
        buckets = [bucket_of(key, place.bits) for key, _, _ in plan.ids]
        named += [head % bucket for bucket in buckets for head in heads]
    ids = b"".join([key for key, _, _ in plan.ids])
    place_of = [b"%d %d %d" % (now, last, prior), b"%d" % place.bits, ids]
    if record is None:
        return named, [b"probe", b"0", b"0", b"", b"", b"", b"", *place_of, b""]
    names = Names.of(request.names).content if request.names else b""
    rows = [(at - record.first + 1).to_bytes(4, "big") + content for _, at, content in plan.ids]
    if record.kind == "restore" and (found := claimed(record.payload, dataclasses.replace(place.head, seq=SEQ_MAX))) is not None:
        rows = [b"%d %s" % (found[0], found[1].hex().encode())]
    arguments = [
        record.kind.encode(), b"%d" % record.count, b"%d" % record.accepted_ms, record.payload, record.digest,
        names, names_digest(names) if names else b"", *place_of, b"".join(rows),
    ]  # fmt: skip
    return named, arguments


def _probe(plan: Planned, known: Set[bytes]) -> Planned:
    """Give a request that appends nothing those of its ids that were not looked up yet, so that the script looks them up first.

    An invalid row may turn out to be known, or more than one row of an atomic request.
    """
    batch, refused = plan.request.batch, plan.appended.refused
    if batch is None or (refused is not None and refused.code != "bad_batch"):
        return plan
    ids = [batch.event_id[i].tobytes() for i in np.flatnonzero(batch.has_id).tolist()]
    return dataclasses.replace(plan, ids=[(key, 0, b"") for key in dict.fromkeys(ids) if key not in known])


def _as_many_as_fit(sent: Sequence[Planned]) -> int:
    """Return how many of these fit into one script call; at least one."""
    size = ids = 0
    for count, plan in enumerate(sent):
        size += 0 if plan.appended.record is None else len(plan.appended.record.payload)
        ids += len(plan.ids)
        if count and (size > SEND_BYTES_MAX or ids > SEND_IDS_MAX):
            return count
    return len(sent)


def _with_true_seq(plan: Planned, known: Mapping[bytes, Seen]) -> Appended:
    """Return the result of a request that appended nothing, with `seq` from the present positions of its duplicates."""
    batch, duplicate = plan.request.batch, plan.appended.duplicate
    if batch is None or not duplicate.any():
        return plan.appended
    raw = batch.event_id.tobytes()
    places = [known.get(raw[ID_BYTES * i : ID_BYTES * (i + 1)], (0, b""))[0] for i in np.flatnonzero(duplicate).tolist()]
    return dataclasses.replace(plan.appended, seq=max(places))


def _too_large(plan: Planned, most: int) -> Planned:
    kind, size = plan.request.kind, len(plan.request.payload)
    detail = (
        f"the {kind} of model {plan.request.model} takes {size} bytes: a shared store accepts at most {most}, because every "
        "other request waits for it"
    )
    appended = dataclasses.replace(plan.appended, record=None, seq=0, refused=TooLarge(detail))
    return Planned(plan.request, appended, None, [])
