"""The reference for the store: every record that was ever in the log, the state it must give, and the answers of clients.

The oracle gets each write of the file when it is made, decodes payloads with readers of its own, and keeps for every record the
state that a slow and obvious learner has after it. When the store falls back to an earlier moment the oracle does too.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from riata.base.arrays import Arrays
from riata.base.errors import Corrupt
from riata.run.state.provenance import Provenance
from riata.store.layout import decode_checkpoint
from tests.simulation.releases import BASE, RELEASES, keep_of
from tests.simulation.toy import SLOTS

Content = tuple[int, float, int]  # hash, value, label
KIND_CODES: Final = {b"observe": 1, b"config": 2, b"skip": 3, b"restore": 4, b"upgrade": 5, b"repair": 6}


class Violation(AssertionError):
    """A guarantee was violated."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """The expected model after a record."""

    beta: tuple[float, ...]
    digest: bytes
    count: int


@dataclass(frozen=True, slots=True)
class Carried:
    """An upgrade event that counts: from event `at` on the model continues from `lesson`, under another release."""

    first: int
    at: int
    after: Provenance
    lesson: Lesson


@dataclass(frozen=True, slots=True)
class Promoted:
    """A promotion that counts: the model goes on from `lesson`, which has learnt the log up to event `through`."""

    through: int
    lesson: Lesson


@dataclass(frozen=True, slots=True)
class Restored:
    """A restore: the model goes on from `lesson`. ids: those of the state that it puts in place."""

    lesson: Lesson
    ids: dict[bytes, tuple[int, Content]]


@dataclass(slots=True)
class Told:
    """One record of the log, and the expected model after it. changes: it sets the configuration or the state. ids: those whose
    event is in the state, with its position and content."""

    at: int  # which effect of the file wrote it
    first: int
    last: int
    chain: bytes
    events: list[tuple[bytes, Content]]
    lesson: Lesson
    carried: Carried | None = None
    promoted: Promoted | None = None
    changes: bool = False
    restored: Restored | None = None
    ids: dict[bytes, tuple[int, Content]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Committed:
    """One generation as it was committed."""

    at: int
    gen: int
    applied: int
    epoch: int
    digest: bytes
    release: Provenance


@dataclass(slots=True)
class Fate:
    """The outcome of one event as its client knows it."""

    contents: set[Content]
    open: int = 0  # requests under way
    unknown: int = 0  # requests whose outcome is unknown
    acked: int = 0
    not_accepted: int = 0
    seq: int = (
        0  # the latest that an acknowledgement named: after a restore an event may come again, and is then not acknowledged yet
    )
    lost: bool = False  # acknowledged, and taken back by a failure that the mode allows


@dataclass(slots=True)
class Oracle:
    """The history of one model."""

    lossless: bool  # acknowledged events may never go
    fates: dict[bytes, Fate] = field(default_factory=dict)
    lineage: bytes = b""
    history: list[Told] = field(default_factory=list)
    places: dict[bytes, list[int]] = field(default_factory=dict)  # event id -> log positions, of which one counts at most
    restores: bool = False  # whether restores undo events, which are then sent again
    known: int = 0  # answers that an id was known
    again: int = 0  # events in the log whose id an undone event has
    generations: list[Committed] = field(default_factory=list)
    durable: int = 0  # effects that survive every crash the mode allows
    losses: int = 0
    taken_back: int = 0  # events
    rollbacks: int = 0  # acknowledged or learnt ends of the log that were taken back
    base: Provenance = BASE  # under which the log is learnt from its first event

    # -- what is written -------------------------------------------------------------------------------------------

    def created(self, lineage: bytes) -> None:
        """A log begins."""
        if self.lineage and self.lineage != lineage and self.history:
            raise Violation("a model with a history was begun again")
        self.lineage = lineage

    @property
    def seq(self) -> int:
        return self.history[-1].last if self.history else 0

    @property
    def chain(self) -> bytes:
        if self.history:
            return self.history[-1].chain
        return hashlib.sha1(b"riata log 1\0" + self.lineage, usedforsecurity=False).digest()

    @property
    def lesson(self) -> Lesson:
        return self.history[-1].lesson if self.history else Lesson((0.0,) * SLOTS, bytes(16), 0)

    def logged(self, at: int, last: int, kind: bytes, count: int, accepted_ms: int, payload: bytes, log_first: int = 1) -> Told:
        """A record was written at the end of the log, which now begins at event `log_first`. Raises `Violation`."""
        first = last - count + 1
        if first != self.seq + 1:
            raise Violation(f"the log goes from event {self.seq} to {first}")
        digest = hashlib.sha256(struct.pack("<B7xQq", KIND_CODES[kind], count, accepted_ms) + payload).digest()
        chain = hashlib.sha1(self.chain + digest, usedforsecurity=False).digest()
        events: list[tuple[bytes, Content]] = []
        if kind == b"observe":
            events = decode_events(payload)
            if len(events) != count:
                raise Violation(f"the record at event {first} says {count} events and holds {len(events)}")
            for place, (key, content) in enumerate(events, first):
                self._told(place, key, content)
        told = Told(at, first, last, chain, events, self.lesson)
        told.ids = self.ids | {key: (place, content) for place, (key, content) in enumerate(events, first)}
        if kind == b"upgrade":
            told.carried = self._carried(first, payload)
        elif kind == b"config":
            told.changes = True  # none here is derived from another
        elif kind == b"restore":
            told.promoted = self._promoted(first, payload, log_first)
            if payload[0] != 2:
                told.restored = self._restored(first, payload, log_first)
                told.ids = told.restored.ids
            told.changes = told.promoted is not None or told.restored is not None
        told.lesson = lesson_after(told, self.lesson, self.history, self.release)
        if told.promoted is not None:
            self._check_once(told)
        self.history.append(told)
        if told.carried is not None:
            self._learn_again()
        return told

    @property
    def ids(self) -> dict[bytes, tuple[int, Content]]:
        """The ids whose event is in the state at the end of the log."""
        return self.history[-1].ids if self.history else {}

    def _restored(self, first: int, payload: bytes, log_first: int) -> Restored:
        """Read a restore. A state that is not of this log, because the end of it was taken back, has none of its events."""
        header, arrays = decode_checkpoint(payload[8 + int.from_bytes(payload[4:8], "little") :])
        applied, chain, lesson = int(header["applied"]), bytes.fromhex(header["chain"]), lesson_in(arrays)
        if applied > self.seq:
            return Restored(lesson, self.ids)  # it has what was taken back too
        told = next((told for told in self.history if told.last == applied), None)
        if applied >= log_first and (told is None or told.chain != chain):
            return Restored(lesson, {})
        if told is not None and told.chain == chain and told.lesson != lesson:
            raise Violation(f"event {first} restores another state than the one after event {applied}")
        return Restored(lesson, told.ids if told is not None else {})

    def _promoted(self, first: int, payload: bytes, log_first: int) -> Promoted | None:
        """Read a promotion; None where it is void: the model was changed since, or the log does not lead from its state to it."""
        length, through, chain = struct.unpack_from("<IQ20s", payload, 4)
        told = next((told for told in self.history if told.last == through), None)
        if payload[0] != 2 or told is None or told.chain != chain or through < log_first - 1:
            return None
        if any(told.changes for told in self.history if told.first > through):
            return None
        header, arrays = decode_checkpoint(payload[36 + length :])
        if header["applied"] != through:
            raise Violation(f"event {first} promotes a state of event {header['applied']} as one of event {through}")
        return Promoted(through, lesson_in(arrays))

    def _check_once(self, promotion: Told) -> None:
        """After a promotion every event counts exactly once, in the order of the log. Raises `Violation`."""
        once = pure(self.history, promotion.first, self.release, False)
        if (promotion.lesson.digest, promotion.lesson.count) != (once.digest, once.count):
            raise Violation(f"after the promotion {promotion.first} the model has not learnt every event exactly once")

    @property
    def upgrades(self) -> list[Carried]:
        """The upgrade events that count, oldest first."""
        return [told.carried for told in self.history if told.carried is not None]

    @property
    def release(self) -> Provenance:
        """The release under which the end of the log is learnt."""
        upgrades = self.upgrades
        return upgrades[-1].after if upgrades else self.base

    def _carried(self, first: int, payload: bytes) -> Carried | None:
        """Read an upgrade event; None if it is void: it does not name the one before it, or its state is one of a history that
        was taken back. Raises `Violation`."""
        length = int.from_bytes(payload[4:8], "little")
        said = json.loads(payload[8 : 8 + length])
        before, after = (Provenance(said[name]["algo_version"], said[name]["numerics"]) for name in ("before", "after"))
        header, arrays = decode_checkpoint(payload[8 + length :])
        if header["applied"] != said["at"]:
            raise Violation(f"the upgrade event {first} carries the state of event {header['applied']}, not {said['at']}")
        upgrades = self.upgrades
        if upgrades and said["at"] < upgrades[-1].first:
            return None
        if bytes.fromhex(header["chain"]) not in {told.chain for told in self.history if told.last == said["at"]}:
            if not self.rollbacks:
                raise Violation(f"the upgrade event {first} carries the state of another log, and nothing was taken back")
            return None
        if before == after or (upgrades and upgrades[-1].after == after):
            raise Violation(f"event {first} is an upgrade to {after}, under which the log is learnt already")
        told = self.after(said["at"])
        lesson = lesson_in(arrays)
        if (lesson.digest, lesson.count) != (told.lesson.digest, told.lesson.count):
            raise Violation(f"the upgrade event {first} carries the state of other events than the first {said['at']}")
        return Carried(first, said["at"], after, lesson)

    def _learn_again(self) -> None:
        """Compute the expected model of every record, after the base has changed, or an upgrade event was added or lost."""
        upgrades = {upgrade.at: upgrade for upgrade in self.upgrades}
        lesson, release = Lesson((0.0,) * SLOTS, bytes(16), 0), self.base
        for told in self.history:
            lesson = told.lesson = lesson_after(told, lesson, self.history, release)
            if upgrade := upgrades.get(told.last):
                lesson, release = upgrade.lesson, upgrade.after
                told.lesson = lesson

    def _begin_under(self, release: Provenance) -> None:
        """No learnt state is left, or there was none: a process has learnt the log from its first event."""
        if not self.upgrades and self.base != release:
            self.base = release
            self._learn_again()

    def _told(self, place: int, key: bytes, content: Content) -> None:
        fate = self.fates.get(key)
        if fate is None or content not in fate.contents:
            raise Violation(f"event {place} is none that a client sent")
        if key in self.ids:
            raise Violation(f"event {place} is in the state already, as event {self.ids[key][0]}")
        if not (fate.open or fate.unknown or fate.acked):
            raise Violation(f"event {place} was logged for a client that was told it was not")
        self.again += key in self.places
        self.places.setdefault(key, []).append(place)

    def committed(self, generation: Committed, content: bytes, chain: bytes) -> None:
        """A generation became the newest. Raises `Violation`."""
        newest = self.generations[-1] if self.generations else None
        if generation.gen != (newest.gen + 1 if newest else 1):
            raise Violation(f"generation {generation.gen} follows {newest.gen if newest else 0}")
        if newest and generation.applied < newest.applied:
            raise Violation(f"generation {generation.gen} is of event {generation.applied}, the one before of {newest.applied}")
        if pure(self.history, generation.applied, generation.release) == _read(content):
            self._begin_under(generation.release)
        self.check_model("generation", generation.applied, chain, content)
        self.generations.append(generation)

    def may_be(self, applied: int, beta: tuple[float, ...]) -> bool:
        """Whether a model with these weights may be served after event `applied`: as the log is learnt, or, as long as no
        upgrade event names the release, as any release learns it from its first event.
        """
        if self.after(applied).lesson.beta == beta:
            return True
        return not self.upgrades and any(pure(self.history, applied, release).beta == beta for release in RELEASES)

    def check_model(self, what: str, applied: int, chain: bytes, content: bytes) -> None:
        """The bytes of a checkpoint equal the model that the log gives after event `applied`. Raises `Violation`."""
        told = self.after(applied)
        if chain != told.chain:
            raise Violation(f"{what} of event {applied} carries the chain of another log")
        try:
            header, arrays = decode_checkpoint(content)
        except Corrupt as error:
            raise Violation(f"{what} of event {applied} cannot be read: {error}") from error
        if int(header["applied"]) != applied or bytes.fromhex(header["chain"]) != chain:
            raise Violation(f"{what} of event {applied} holds the state of event {header['applied']}")
        if lesson_in(arrays) != told.lesson:
            raise Violation(f"{what} of event {applied} is not what the log teaches")

    def after(self, applied: int) -> Told:
        """The record that ends at event `applied`. Raises `Violation` if there is none."""
        low, high = 0, len(self.history)
        while low < high:
            middle = (low + high) // 2
            if self.history[middle].last < applied:
                low = middle + 1
            else:
                high = middle
        if low < len(self.history) and self.history[low].last == applied:
            return self.history[low]
        raise Violation(f"no record of the log ends at event {applied}")

    # -- what is taken back ----------------------------------------------------------------------------------------

    def fell_back(self, effects: int) -> list[Told]:
        """The store now holds only the first `effects` effects of its file. Returns the lost records. Raises `Violation` if an
        acknowledged event was lost that must not be.
        """
        kept = [told for told in self.history if told.at < effects]
        gone = self.history[len(kept) :]
        self.history = kept
        self.generations = [generation for generation in self.generations if generation.at < effects]
        for told in gone:
            for place, (key, _) in enumerate(told.events, told.first):
                self.places[key].remove(place)
                if not self.places[key]:
                    del self.places[key]
                fate = self.fates[key]
                if fate.seq >= place:
                    fate.lost = True
                    self.losses += 1
                    if self.lossless:
                        raise Violation(f"event {place} was acknowledged and is lost")
        self.rollbacks += bool(gone)
        self.taken_back += sum(told.last - told.first + 1 for told in gone)
        if any(told.carried is not None for told in gone):
            self._learn_again()
        return gone

    # -- what clients are told -------------------------------------------------------------------------------------

    def sending(self, key: bytes, content: Content) -> None:
        fate = self.fates.setdefault(key, Fate({content}))
        fate.contents.add(content)
        fate.open += 1

    def was_known(self, key: bytes, content: Content | None, since: int) -> None:
        """A client was told that an id was known, with this content, or with another than it sent (None). `since`: records of the
        log when it was sent. Raises `Violation` if no state since then had it."""
        self.known += 1
        if self.rollbacks:
            return
        found = [told.ids[key][1] for told in self.history[max(since - 1, 0) :] if key in told.ids]
        if not found or (content is not None and content not in found):
            raise Violation(f"an id was said to be known, which is in no state since event {since}")

    def answered(self, key: bytes, outcome: str, seq: int = 0) -> None:
        """A request with this event ended. Raises `Violation` if the answer is not true."""
        fate = self.fates[key]
        fate.open -= 1
        if outcome in ("accepted", "duplicate"):
            fate.acked += 1
            fate.seq = max(fate.seq, seq)
            place = min(self.places.get(key, []), default=None)
            if place is None and not self.rollbacks:
                raise Violation(f"event {seq} was acknowledged and is not in the log")
            if place is None:
                fate.lost = True
                self.losses += 1
                if self.lossless:
                    raise Violation(f"event {seq} was acknowledged after it was lost")
            elif place > seq:
                raise Violation(f"an acknowledgement says event {seq}, the log has it as event {place}")
        elif outcome == "unknown":
            fate.unknown += 1
        else:
            fate.not_accepted += 1
            if key in self.places and not (fate.open or fate.unknown or fate.acked):
                raise Violation(f"event {self.places[key]} is in the log, and its client was told it is not")


def lesson_in(arrays: Arrays) -> Lesson:
    """The model in a checkpoint."""
    beta, digest = tuple(arrays["learner.beta"].tolist()), arrays["learner.digest"].tobytes()
    return Lesson(beta, digest, int(arrays["learner.count"][0]))


def _read(content: bytes) -> Lesson | None:
    """The content of a checkpoint; None if it cannot be read."""
    try:
        return lesson_in(decode_checkpoint(content)[1])
    except Corrupt:
        return None


def pure(history: Sequence[Told], applied: int, release: Provenance, promotes: bool = True) -> Lesson:
    """The model that one release learns from the first `applied` events; without promotions unless `promotes`."""
    lesson = Lesson((0.0,) * SLOTS, bytes(16), 0)
    for told in history:
        if told.last <= applied:
            after = lesson_after(told, lesson, history, release)
            lesson = after if promotes else learnt_all(lesson, told.events, release)
    return lesson


def lesson_after(told: Told, before: Lesson, history: Sequence[Told], release: Provenance) -> Lesson:
    """The model after one more record: a promotion has what its state has learnt, and then what came after that."""
    if told.restored is not None:
        return told.restored.lesson
    if told.promoted is None:
        return learnt_all(before, told.events, release)
    lesson = told.promoted.lesson
    for between in history:
        if told.promoted.through < between.first < told.first:
            lesson = learnt_all(lesson, between.events, release)
    return lesson


def learnt_all(before: Lesson, events: Sequence[tuple[bytes, Content]], release: Provenance) -> Lesson:
    """The model after more events."""
    for key, content in events:
        before = learnt(before, key, content, keep_of(release))
    return before


def learnt(before: Lesson, key: bytes, content: Content, keep: float) -> Lesson:
    """The model after one more event, computed in the simplest way."""
    hashed, value, label = content
    beta = list(before.beta)
    beta[hashed % SLOTS] = beta[hashed % SLOTS] * keep + value * (1.0 if label else -1.0)
    digest = hashlib.blake2b(before.digest + key + b"%d %d" % (hashed, label), digest_size=16).digest()
    return Lesson(tuple(beta), digest, before.count + 1)


def decode_events(payload: bytes) -> list[tuple[bytes, Content]]:
    """The events of an `observe` payload as the simulation sends them: one feature, an id, no weight. Zeros if no event has an
    id, as in rows that a challenger takes from the log of its leader."""
    version, flags, form, digits, n, nnz, total = struct.unpack_from("<BBBBIII", payload)
    if version != 2 or total != len(payload) or nnz != n or flags not in (0, 8) or form > 7:
        raise Violation("a payload is not as clients sent it")
    at = 16 + 2 * n
    hashes = struct.unpack_from(f"<{n}I", payload, at)
    at += 4 * n
    letter = "df-BbHhi"[form]  # of a value; none where all are 1
    stored = (1,) * n if form == 2 else struct.unpack_from(f"<{n}{letter}", payload, at)
    values = [number / 10**digits for number in stored]
    at += 0 if form == 2 else struct.calcsize(f"<{n}{letter}")
    bits = payload[at : at + (n + 7) // 8]
    at += 2 * len(bits)  # labels, then which events carry an id: all do
    labels = [bits[i // 8] >> (7 - i % 8) & 1 for i in range(n)]
    keys = [payload[at + 16 * i : at + 16 * i + 16] if flags else bytes(16) for i in range(n)]
    return [(keys[i], (hashes[i], float(values[i]), labels[i])) for i in range(n)]
