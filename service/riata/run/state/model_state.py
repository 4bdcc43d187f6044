"""The state of a model, which its log determines: its learner, the observers that watch it, and `apply`, which advances it.

The live writer, recovery and the offline replay all call the same `apply`, so they cannot differ. What watches a model is one
module, with an `Observer`, and one line of `KINDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeVar, cast

import numpy as np

from riata.base.arrays import BOOL, Arrays
from riata.base.errors import BadInput, Corrupt
from riata.base.frozen_dataclass import frozen_dataclass
from riata.learn.learner import Learner, Stepped, Weights
from riata.learn.registry import build_learner, spec_of
from riata.maths.links import Answers
from riata.run.candidates.pairs import pairs_as_asked
from riata.run.log.log_reading import ReadAgain, counted, is_set, joined, skip_mask
from riata.run.state.config import Change, ModelConfig, change_from_payload, read_stored, stored_document
from riata.run.state.crash_note import Stepping, not_noted
from riata.run.state.decision import served_weights
from riata.run.state.provenance import current, read_provenance
from riata.run.writer.loop_yield import no_yield
from riata.store import layout, records
from riata.store.payload import decode_batch
from riata.store.store import Kind, Record
from riata.watch.class_progressive import ClassProgressive
from riata.watch.drift import Alarm, DriftDetector, detector_as_asked
from riata.watch.observer import Observer, Rows
from riata.watch.progressive import Progressive, ProgressiveConfig, number, part, typed
from riata.watch.slices import slices_as_asked
from riata.watch.warnings import columns_as_asked
from riata.watch.weight_history import followed_as_asked
from riata.wire.batch import Batch, slice_rows
from riata.wire.classes import ClassesConfig

O = TypeVar("O", bound=Observer)  # noqa: E741

NOT_FINITE: Final = "learning it would have made a weight non-finite"
NO_CLASS: Final = "its class is not one of the model's classes"
NO_ROOM: Final = "it has a feature for which the learner's vocabulary has no room"


def build_parts(config: ModelConfig, bits: int) -> tuple[Learner, Answers]:
    """Return the empty learner of a configuration, with 2^bits slots, and its answers as `ProgressiveConfig.answers`."""
    settings, classes = config.learner, config.classes
    if config.encoder.normalise == "l2" or (config.has_classes and not classes.limited):
        settings = settings.as_sent()
    several = (len(classes.names), classes.max) if config.has_classes else None
    learner = build_learner(settings, bits, config.encoder.hash_key, several)
    return learner, "real" if config.labels == "real" else learner.weights().link


def why_refused(stepped: Stepped, row: int) -> str:
    """Return why a learner refused a row by itself."""
    if is_set(stepped.no_room, row):
        return NO_ROOM
    return NO_CLASS if stepped.margin.ndim > 1 and stepped.label[row] >= stepped.margin.shape[1] else NOT_FINITE


@frozen_dataclass(frozen=True, slots=True)
class Asked:
    """What decides which observers a model has.

    change  : a config event, or the configuration of a state that was put in place
    answers : of the learner, as `ProgressiveConfig.answers`
    now     : number of events that were learnt, and what returns the weights
    """

    change: Change
    answers: Answers
    now: tuple[int, Callable[[], Weights]]


class ObserverKind(NamedTuple):
    """A kind of observer.

    name     : of its part of a checkpoint
    as_asked : returns the one that the model is to have: a new one, or the one it has; None for none
    lasts    : whether another state that is put in place keeps it
    """

    name: str
    as_asked: Callable[[Asked, Any], Observer | None]
    lasts: bool = False


def _progressive(asked: Asked, held: Progressive | None) -> Progressive:
    config, measured = asked.change.config, ProgressiveConfig(answers=asked.answers)
    if not config.has_classes:
        return held or Progressive(measured)
    found = held if isinstance(held, ClassProgressive) else ClassProgressive(measured, config.classes.names)
    found.grow(config.classes.names)
    return found


def _drift(asked: Asked, held: Any) -> Observer | None:
    drift = asked.change.config.drift
    return detector_as_asked(drift.action, drift.rest_events, asked.change.alarm, asked.answers, held)


def _columns(asked: Asked, held: Any) -> Observer | None:
    config = asked.change.config
    return columns_as_asked(config.learner.slot_bits(config.encoder.bits) if config.learner.wants_scaled() else None, held)


WATCH: Final = "watch"  # the one that every model has
KINDS: Final = (
    ObserverKind(WATCH, _progressive),
    ObserverKind("drift", _drift),
    ObserverKind("slices", lambda a, held: slices_as_asked(a.change.config.slices, a.change.names, a.answers, held)),
    ObserverKind("followed", lambda a, held: followed_as_asked(a.change.config.weights_followed, a.change.names, a.now, held)),
    ObserverKind("pairs", lambda a, held: pairs_as_asked(a.change.follow, a.change.challengers, a.answers, held), lasts=True),
    ObserverKind("columns", _columns),
)


class Observers:
    """What watches one model, in the order of `KINDS`."""

    def __init__(self, held: Mapping[str, Observer] | None = None) -> None:
        self._held = dict(held or {})

    def __iter__(self) -> Iterator[Observer]:
        return iter(self._held.values())

    def get(self, kind: type[O]) -> O | None:
        """Return the observer of this type; None if the model has none."""
        return next((one for one in self if isinstance(one, kind)), None)

    def __getitem__(self, kind: type[O]) -> O:
        if (found := self.get(kind)) is None:
            raise KeyError(kind.__name__)
        return found

    @property
    def progressive(self) -> Progressive:
        """The one that every model has."""
        return cast(Progressive, self._held[WATCH])

    @property
    def examples(self) -> int:
        """Number of events that were learnt."""
        return self.progressive.examples if WATCH in self._held else 0

    def lasting(self) -> Observers:
        """Return those that another state keeps when it is put in place."""
        return Observers({kind.name: self._held[kind.name] for kind in KINDS if kind.lasts and kind.name in self._held})

    def put(self, name: str, observer: Observer) -> None:
        """Have this observer in place of the one of this name."""
        self._held[name] = observer

    def configure(self, asked: Asked) -> None:
        """Have the observers that are asked for: new ones, or those there are with other settings."""
        found = ((kind.name, kind.as_asked(asked, self._held.get(kind.name))) for kind in KINDS)
        self._held = {name: one for name, one in found if one is not None}

    def observe(self, rows: Rows, stepped: Stepped, weights: Callable[[], Weights]) -> None:
        """Show rows that were just learnt, and at a point of the learning curve the weights."""
        for one in self:
            one.observe(rows, stepped)
        if self.progressive.awaits_count:
            counted = weights()
            for one in self:
                one.count(self.progressive.examples, counted)

    def copy(self) -> Observers:
        """Return copies of all: see `Observer.copy`."""
        return Observers({name: one.copy() for name, one in self._held.items()})

    def figures(self) -> dict[str, Any]:
        """Return the figures of the one that every model has, and those of each other under its name."""
        others = {name: one.figures() for name, one in self._held.items() if name != WATCH}
        return {**self.progressive.figures(), **{name: told for name, told in others.items() if told is not None}}

    def memory(self) -> int:
        """Return bytes."""
        return sum(size for one in self for size in one.memory().values())

    def header(self) -> dict[str, Any]:
        """As of an `Observer`."""
        return {key: told for one in self for key, told in one.header().items()}

    def freeze(self) -> Arrays:
        """Return a copy of all as arrays."""
        return {f"{name}.{key}": array for name, one in self._held.items() for key, array in one.freeze().items()}

    def thaw(self, arrays: Arrays, header: Mapping[str, Any], but: Observers) -> None:
        """Restore all but some from the arrays of a checkpoint and its header. Raises as `Observer.thaw` does."""
        for name, one in self._held.items():
            if name not in but._held:
                one.thaw(part(arrays, f"{name}."), header)


LEARNER = "learner."  # prefix of the named arrays of the learner in a checkpoint
CHANGES_KEPT: Final = 64
NO_LOG: Final = bytes(16)  # the lineage of a model without a log; the same rows make the same file


@frozen_dataclass(frozen=True, slots=True)
class Frozen:
    """A copy of a state, unaffected by later events: the content of a checkpoint."""

    header: dict[str, Any]
    arrays: Arrays

    def digest(self) -> bytes:
        """BLAKE2b-256 over the content: configuration, counters and arrays, without the log's identity and position."""
        return layout.state_digest({key: self.header[key] for key in ("config", "skipped")}, self.arrays)

    def parts(self) -> list[layout.Part]:
        """Return the bytes of a checkpoint in pieces, without copying the arrays."""
        return layout.checkpoint_parts(self.header, self.arrays)

    def encode(self) -> bytes:
        """Return the bytes of a checkpoint."""
        return layout.encode_checkpoint(self.header, self.arrays)


class ModelState:
    """The state of one model after events 1..applied of its log. Owned by one thread."""

    config: ModelConfig
    learner: Learner
    answers: Answers  # of the learner, as `ProgressiveConfig.answers`

    def __init__(self, name: str, lineage: bytes) -> None:
        self.name = name
        self.lineage = lineage
        self.applied = 0
        self.chain = records.first_chain(lineage)
        self.skipped = 0  # events that the learner refused or a skip event removed
        self.restored = False
        self.learnt_under = current()  # of a thawed state: what its checkpoint was written under, until an upgrade event
        self.yield_to_loop: Callable[[], None] = no_yield  # called between two steps of Python
        self.read_again: ReadAgain = _no_log  # set by those who apply a log in which there may be promotions
        self.on_learnt: Callable[[Stepped], None] | None = None  # is shown what was predicted before it was learnt
        self.stepping: Stepping = not_noted  # what a step that learns events is made in
        self.left_out: frozenset[int] = frozenset()  # events that skip events of the log remove, as far as they are known
        self.careful_to = 0  # a process has died in a step up to here: records are learnt one by one, that with it event by event
        self.changes: tuple[int, ...] = ()  # the last events that set the configuration; empty if unknown
        self.observers = Observers()

    @property
    def progressive(self) -> Progressive:
        """The observer that every model has."""
        return self.observers.progressive

    @property
    def has_learnt(self) -> bool:
        """False while the model can answer only its prior."""
        return self.restored or self.progressive.examples > 0

    def apply(self, record: Record, batch: Batch | None = None, skips: frozenset[int] = frozenset()) -> dict[int, str]:
        """Advance the state over `record`, whose position in the log the caller has checked.

        `batch` may be the decoded payload, if the caller still has it. `skips` are the numbers of events that later skip events
        remove. Returns the numbers of the events that the learner refused by itself, and why. Raises `Corrupt` if a payload
        cannot be read; the state is then unchanged.
        """
        refused: dict[int, str] = {}
        if record.kind == "observe":
            batch = batch if batch is not None else decode_batch(record.payload)
            batch, first = counted(record, batch), record.first
            careful = first <= self.careful_to <= record.last
            for rows in (slice_rows(batch, i, i + 1) for i in range(batch.n)) if careful else [batch]:
                with self.stepping(self.name, self.lineage, first, first + rows.n - 1):
                    refused.update(self.learn(first, [rows], skips | self.left_out))
                first += rows.n
            self._note_records([record])
        elif record.kind == "config":
            self._configure(record)
        elif record.kind == "restore":
            self._restore(record, skips)
        elif record.kind not in ("skip", "repair", "upgrade"):  # these concern other events: readers look ahead for them
            raise Corrupt(f"event {record.first} is of kind {record.kind!r}, which this version does not know")
        self.applied = record.last
        self.chain = record.chain
        return refused

    def apply_all(
        self, run: Sequence[Record], batches: Sequence[Batch | None] = (), skips: frozenset[int] = frozenset()
    ) -> dict[int, str]:
        """Like `apply` of each record in turn, bit for bit, but in one step. `run` is a sequence of observe records, or one
        record of any kind. `batches` is empty, or has one item for each record."""
        if len(run) == 1 or run[0].first <= self.careful_to:
            each_of = zip(run, batches or [None] * len(run), strict=True)
            return {seq: why for record, batch in each_of for seq, why in self.apply(record, batch, skips).items()}
        rows = joined(run, batches, spec_of(self.config.learner).takes_many)
        with self.stepping(self.name, self.lineage, run[0].first, run[-1].last):
            refused = self.learn(run[0].first, rows, skips | self.left_out)
        self._note_records(run)
        self.applied = run[-1].last
        self.chain = run[-1].chain
        return refused

    def freeze(self) -> Frozen:
        """Return a copy of the state."""
        header = {
            "model": self.name,
            "lineage": self.lineage.hex(),
            "applied": self.applied,
            "chain": self.chain.hex(),
            **current().document(),
            "config": stored_document(self.config),
            "skipped": self.skipped,
            "restored": self.restored,
            "changes": list(self.changes),
            **self.observers.header(),
        }
        learner = {LEARNER + name: array for name, array in self.learner.freeze().items()}
        return Frozen(header, {**learner, **self.observers.freeze()})

    @staticmethod
    def thaw(header: dict[str, Any], arrays: Arrays, bits: int | None = None) -> ModelState:
        """Return the state that was frozen. Raises `Corrupt` if the content is not a valid state.

        bits : of the learner's table, if it is not to have as many as the configuration says; the state can then not learn
        """
        try:
            state = ModelState(typed(header["model"], str), bytes.fromhex(header["lineage"]))
            state._take_content(header, arrays, bits)
            state.applied = number(header["applied"])
            state.chain = bytes.fromhex(header["chain"])
            state.restored = typed(header["restored"], bool)
            state.learnt_under = read_provenance(header)
            state.changes = tuple(number(seq) for seq in header.get("changes", ()))  # older checkpoints do not have them
        except (KeyError, TypeError, ValueError, BadInput) as error:
            raise Corrupt(f"the snapshot's header cannot be read: {error!r}") from error
        return state

    @staticmethod
    def of(content: bytes) -> ModelState:
        """Return the state in a checkpoint. Raises `Corrupt`."""
        return ModelState.thaw(*layout.decode_checkpoint(content))

    def served_weights(self) -> Weights:
        """Return the learner's weights as they are served."""
        return served_weights(self.learner.weights(), self.config.served_shift)

    def memory(self) -> dict[str, int]:
        """Return the bytes of memory by part."""
        return {**self.learner.memory(), "watch": self.observers.memory()}

    def _configure(self, record: Record) -> None:
        """Adopt another configuration, unless it was derived from one that is no longer in force: then nothing changes, and its
        author finds that out. So of two concurrent changes of the same configuration neither undoes the other."""
        change = change_from_payload(record.payload)
        in_force = self.changes[-1] if self.changes else 0
        if self.applied > 0 and change.after is not None and change.after != in_force:
            return
        if self.applied == 0:
            self._start_over(change.config)
        elif change.config.learner != self.config.learner:
            self.learner.adjust(change.config.learner)
        self.config = change.config
        if change.forget is not None:
            self.learner.forget(change.forget)
        self._adapt(change)
        self.note_change(record.last)

    def know_classes(self, classes: ClassesConfig) -> None:
        """Know these classes, of which the classes so far are the first."""
        self.config = replace(self.config, classes=classes)
        self._adapt(Change(self.config))

    def _adapt(self, change: Change) -> None:
        """Have the learner know the classes of the configuration, and have the observers that the change asks for."""
        self.learner.grow(len(self.config.classes.names))
        self.observers.configure(Asked(change, self.answers, (self.observers.examples, self.learner.weights)))

    def note_change(self, seq: int) -> None:
        """Note that event `seq` set the configuration or the state."""
        self.changes = (*self.changes, seq)[-CHANGES_KEPT:]

    def _start_over(self, config: ModelConfig, bits: int | None = None) -> None:
        self.config = config
        self.learner, self.answers = build_parts(config, config.encoder.bits if bits is None else bits)
        self.observers = self.observers.lasting()
        self._adapt(Change(config))

    def _note_records(self, run: Sequence[Record]) -> None:
        digests = [record.digest for record in run]
        for one in self.observers:
            one.note_digests(digests)

    def learn(self, first: int, batches: Sequence[Batch], skips: frozenset[int], *, again: bool = False) -> dict[int, str]:
        """The part of `apply` for the rows of observe records, from event `first` on. The caller sets `applied` and `chain`.

        again : as in `Rows`
        """
        refused: dict[int, str] = {}
        for some in self._until_counts(batches):
            count = sum(batch.n for batch in some)
            refused.update(self._learn_rows(Rows(some, first, again), skip_mask(first, count, skips)))
            first += count
        return refused

    def _until_counts(self, batches: Sequence[Batch]) -> Iterator[list[Batch]]:
        """Cut batches after every event at which the weights may be counted; each yielded list must be learnt before the next."""
        rows: list[Batch] = []
        room = self.progressive.until_count
        if sum([batch.n for batch in batches]) < room:  # the common case
            yield list(batches)
            return
        for batch in batches:
            start = 0
            while batch.n - start >= room:
                yield [*rows, slice_rows(batch, start, start + room)]
                start += room
                rows, room = [], self.progressive.until_count
            if start < batch.n:
                rows.append(slice_rows(batch, start, batch.n))
                room -= batch.n - start
        if rows:
            yield rows

    def _learn_rows(self, rows: Rows, skip: BOOL | None) -> dict[int, str]:
        """Test, then train. Weights are counted for the learning curve right after the event of its point, so that the cut into
        batches has no effect on it."""
        self.yield_to_loop()
        stepped = self.config.label_weight.step_all(self.learner, rows.batches, skip)
        self.yield_to_loop()
        if self.on_learnt is not None:
            self.on_learnt(stepped)
        self.observers.observe(rows, stepped, self.learner.linear_weights)
        if not stepped.refusals:
            return {}
        self.skipped += stepped.refusals
        new = stepped.refused if skip is None else stepped.refused & ~skip
        return {rows.first + i: why_refused(stepped, i) for i in np.flatnonzero(new).tolist()}

    def _restore(self, record: Record, skips: frozenset[int]) -> None:
        """Adopt the state that `record` carries. If that state has learnt this log up to an event before the record, a promotion,
        the events between are learnt again, so that the result has learnt each event of the log once.

        A promotion is void, and changes nothing, if an event after the one that its state has reached set the configuration or
        the state, or if the log does not lead from that state to the record.
        """
        source, content = records.decode_restore(record.payload)
        (header, arrays), again = layout.decode_checkpoint(content), None
        if (through := records.decode_through(record.payload)) is not None:
            if header.get("applied") != through.seq or header.get("lineage") != self.lineage.hex():
                raise Corrupt(f"event {record.first} promotes a state of another event than it says")
            again = None if self.changes and self.changes[-1] > through.seq else self.read_again(record, through)
            if again is None:
                return
            skips |= again.skips
        known = self.config.classes
        self._take_content(header, arrays)
        if known.names[: len(self.config.classes.names)] == self.config.classes.names:  # numbers of classes are for ever
            self.know_classes(replace(self.config.classes, names=known.names))
        self.restored = True
        for one in self.observers:
            one.note_source(source)
            if header["lineage"] != self.lineage.hex():
                one.carry(record.last)
        self.note_change(record.last)
        for run in again.runs if again is not None else ():
            if run[0].kind == "observe":  # a refusal needs no skip event: that would exclude the event before the promotion
                self.learn(run[0].first, joined(run, [], True), skips, again=True)

    def _take_content(self, header: dict[str, Any], arrays: Arrays, bits: int | None = None) -> None:
        kept = self.observers.lasting()
        self._start_over(read_stored(header["config"]), bits)
        self.learner.thaw(part(arrays, LEARNER))
        self.observers.thaw(arrays, header, but=kept)
        self.skipped = number(header["skipped"])


def _no_log(record: Record, _through: records.Through) -> None:
    raise Corrupt(f"event {record.first} is a promotion, which needs the log before it")


# States without a log.


def begun(config: ModelConfig, name: str, lineage: bytes = NO_LOG) -> ModelState:
    """Return an empty state of this configuration, as the first event of a log sets it."""
    state = ModelState(name, lineage)
    state.apply(unlogged(state, "config", 1, Change(config, after=0).payload()))
    return state


def add_unlogged(state: ModelState, classes: ClassesConfig) -> None:
    """Have the model of `state` know these classes, by the event that a log would have."""
    state.apply(unlogged(state, "config", 1, Change(replace(state.config, classes=classes)).payload()))


def unlogged(state: ModelState, kind: Kind, count: int, payload: bytes = b"") -> Record:
    """Return the next record for `state` of a log that is not stored: its digest and chain are never checked."""
    return Record(state.name, kind, state.applied + 1, count, 0, payload, b"", state.chain)


AGAIN_EVENTS: Final = 10_000  # learnt since an answer was asked for that has not come: the store may have refused it

AnswerAsked = tuple[int, int, int]  # alarm, event that set the configuration in force, position


def asks_for(state: ModelState, before: AnswerAsked | None) -> AnswerAsked | None:
    """Return what to answer now: None if no alarm is open, or if an answer to it was asked for a moment ago.

    before : what this function returned when an answer was last asked for
    An answer is void if the configuration was changed meanwhile; then it is asked for again.
    """
    alarm = _open_alarm(state)
    if alarm is None:
        return None
    asked = alarm.seq, state.changes[-1] if state.changes else 0, state.applied
    if before is not None and before[:2] == asked[:2] and state.applied - before[2] < AGAIN_EVENTS:
        return None
    return asked


def answer_payload(state: ModelState) -> bytes:
    """Return the payload of the event that answers the open alarm of `state`. It is valid for the configuration in force only.

    Forgetting is for changes that cost something: if only names or labels changed and the loss did not, nothing is forgotten.
    """
    alarm = _open_alarm(state)
    if alarm is None:
        raise ValueError("there is no alarm to answer")
    drift = state.config.drift
    keep = drift.keep if drift.action == "forget" and alarm.is_costly else None
    return Change(state.config, state.changes[-1] if state.changes else 0, forget=keep, alarm=alarm.document()).payload()


def answer_unlogged(state: ModelState) -> None:
    """Answer the open alarm of a model without a log, if there is one, by the event that a log would have."""
    if _open_alarm(state) is not None:
        state.apply(unlogged(state, "config", 1, answer_payload(state)))


def _open_alarm(state: ModelState) -> Alarm | None:
    detector = state.observers.get(DriftDetector)
    return None if detector is None else detector.unanswered
