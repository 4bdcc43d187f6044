"""The state of a model, which its log determines, and the one function that advances it: `apply`.

The live writer, recovery and the offline replay all call the same `apply`, so they cannot differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from riata.base.arrays import BOOL, Arrays
from riata.base.dataclass import dataclass
from riata.base.errors import BadInput, Corrupt
from riata.learn.learner import Learner, Stepped, Weights
from riata.learn.registry import spec_of
from riata.maths.links import Answers
from riata.run.log.log_reading import ReadAgain, counted, joined, skip_mask
from riata.run.state.config import Change, ModelConfig, change_from_payload, config_payload, read_stored, stored_document
from riata.run.state.crash_note import Stepping, not_noted
from riata.run.state.decision import served_weights
from riata.run.state.parts import Asked, Observers, build_parts, why_refused
from riata.run.state.provenance import current, read_provenance
from riata.run.writer.loop_yield import no_yield
from riata.store import layout, records
from riata.store.payload import decode_batch
from riata.store.store import Kind, Record
from riata.watch.observer import Rows
from riata.watch.progressive import Progressive, number, part, typed
from riata.wire.batch import Batch, slice_rows
from riata.wire.classes import ClassesConfig

LEARNER = "learner."  # prefix of the named arrays of the learner in a checkpoint
CHANGES_KEPT: Final = 64
NO_LOG: Final = bytes(16)  # the lineage of a model without a log; the same rows make the same file


@dataclass(frozen=True, slots=True)
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
        self.observers.observe(rows, stepped, self.learner.weights)
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
    state.apply(unlogged(state, "config", 1, config_payload(config, after=0)))
    return state


def add_unlogged(state: ModelState, classes: ClassesConfig) -> None:
    """Have the model of `state` know these classes, by the event that a log would have."""
    state.apply(unlogged(state, "config", 1, config_payload(replace(state.config, classes=classes))))


def unlogged(state: ModelState, kind: Kind, count: int, payload: bytes = b"") -> Record:
    """Return the next record for `state` of a log that is not stored: its digest and chain are never checked."""
    return Record(state.name, kind, state.applied + 1, count, 0, payload, b"", state.chain)
