"""The state of a model, which its log determines, and the one function that advances it: `apply`.

The live writer, recovery and the offline replay all call the same `apply`, so they cannot differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import numpy as np

from riata.base.arrays import BOOL, Arrays
from riata.base.errors import BadInput, Corrupt
from riata.learn.learner import Learner, Stepped, Weights
from riata.learn.one_vs_rest import each
from riata.learn.registry import spec_of
from riata.predict.explain import weights_of
from riata.run.candidates.pairs import Pairs
from riata.run.log.log_reading import ReadAgain
from riata.run.log.row_groups import counted, joined, skip_mask
from riata.run.state.config import ModelConfig, change_from_payload, read_stored, stored_document
from riata.run.state.crash_note import Stepping, not_noted
from riata.run.state.decision import served_weights
from riata.run.state.drift import forget
from riata.run.state.header import FADED_BASES, carried, faded_bases, number, part, typed
from riata.run.state.parts import build_parts, grow, why_refused
from riata.run.state.provenance import current, read_provenance
from riata.run.writer.loop_yield import no_yield
from riata.store import layout, records
from riata.store.payload import decode_batch
from riata.store.store import Record
from riata.watch.columns import Columns
from riata.watch.drift import DriftDetector, detector_as_asked
from riata.watch.progressive import Progressive
from riata.watch.slices import Slices, slices_as_asked
from riata.watch.weight_history import WeightHistory, history_as_asked
from riata.wire.batch import Batch, slice_rows

T = TypeVar("T")

LEARNER = "learner."  # prefixes of the named arrays of a checkpoint
WATCH = "watch."
DRIFT = "drift."
SLICES = "slices."
FOLLOWED = "followed."
PAIRS = "pairs."
CHANGES_KEPT: Final = 64


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
    progressive: Progressive
    drift: DriftDetector | None  # if the configuration asks for it
    slices: Slices | None  # likewise
    followed: WeightHistory | None  # likewise
    columns: Columns | None  # of rows learnt since the process started, if the learner wants scaled values; not part of the state

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
        self.pairs = Pairs()

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
            self.pairs.note_records([record])
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
        self.pairs.note_records(run)
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
            "carried": list(self.progressive.carried),
            FADED_BASES: self.progressive.faded_bases,
            **self.pairs.header(),
        }
        parts: tuple[Any, ...] = (self.learner, self.progressive, self.drift, self.slices, self.followed, self.pairs)
        named = zip((LEARNER, WATCH, DRIFT, SLICES, FOLLOWED, PAIRS), parts, strict=True)
        return Frozen(
            header, {first + key: array for first, one in named if one is not None for key, array in one.freeze().items()}
        )

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
            state.pairs = Pairs.thaw(header, part(arrays, PAIRS))
            state.changes = tuple(number(seq) for seq in header.get("changes", ()))  # older checkpoints do not have them
        except (KeyError, TypeError, ValueError, BadInput) as error:
            raise Corrupt(f"the snapshot's header cannot be read: {error!r}") from error
        return state

    def served_weights(self) -> Weights:
        """Return the learner's weights as they are served."""
        return served_weights(self.learner.weights(), self.config.served_shift)

    def memory(self) -> dict[str, int]:
        """Return the bytes of memory by part."""
        more = sum(one.memory() for one in (self.drift, self.slices, self.followed) if one is not None)
        return {**self.learner.memory(), "watch": sum(self.progressive.memory().values()) + more}

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
            for one in each(self.learner):
                spec_of(change.config.learner).adjust(one, change.config.learner)
        self.config = change.config
        grow(self.learner, self.progressive, change.config.classes)
        self._watch_as_asked()
        self.pairs.configure(change.follow, change.challengers, self.progressive.config.answers)
        if change.forget is not None:
            forget(spec_of(self.config.learner), self.learner, change.forget)
        if change.alarm is not None and self.drift is not None:
            self.drift.answer(change.alarm["seq"])
        if change.names is not None and self.slices is not None:
            self.slices.follow(change.names)
        if change.names is not None and self.followed is not None:
            self.followed = self.followed.following(change.names, self.config.weights_followed)
            self._note_weights(self.learner.weights(), is_extra=True)
        self.note_change(record.last)

    def _watch_as_asked(self) -> None:
        """Have a detector, slices and a history of weights if the configuration asks for them: new ones, or those there are with
        other settings."""
        asked, answers = self.config.drift, self.progressive.config.answers
        self.slices = slices_as_asked(self.config.slices, answers, self.slices)
        self.followed = history_as_asked(self.config.weights_followed, self.followed)
        self.drift = detector_as_asked(None if asked.action == "off" else asked.rest_events, answers, self.drift)

    def note_change(self, seq: int) -> None:
        """Note that event `seq` set the configuration or the state."""
        self.changes = (*self.changes, seq)[-CHANGES_KEPT:]

    def _start_over(self, config: ModelConfig, bits: int | None = None) -> None:
        self.config = config
        self.learner, self.progressive = build_parts(config, config.encoder.bits if bits is None else bits)
        spec = spec_of(config.learner)
        self.columns = Columns(spec.slot_bits(config.learner, config.encoder.bits)) if spec.wants_scaled(config.learner) else None
        self.drift = self.slices = self.followed = None
        self._watch_as_asked()

    def learn(self, first: int, batches: Sequence[Batch], skips: frozenset[int]) -> dict[int, str]:
        """The part of `apply` for the rows of observe records, from event `first` on. The caller sets `applied` and `chain`."""
        refused: dict[int, str] = {}
        for rows in self._until_counts(batches):
            count = sum(batch.n for batch in rows)
            refused.update(self._learn_rows(rows, skip_mask(first, count, skips), first))
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

    def _learn_rows(self, rows: Sequence[Batch], skip: BOOL | None, first: int) -> dict[int, str]:
        """Test, then train. Weights are counted for the learning curve right after the event of its point, so that the cut into
        batches has no effect on it."""
        self.yield_to_loop()
        if self.columns is not None:
            self.columns.observe(rows[0])  # a sample: small batches are learnt many at a time
        stepped = self.config.label_weight.step_all(self.learner, rows, skip)
        self.yield_to_loop()
        if self.on_learnt is not None:
            self.on_learnt(stepped)
        if self.drift is not None:
            self.drift.observe(rows, (stepped.margin, stepped.label, stepped.weight), stepped.refused, first)
        self.pairs.note_losses(stepped, self.progressive.config.answers)
        if self.slices is not None:
            self.slices.observe(rows, (stepped.margin, stepped.label, stepped.weight), stepped.refused)
        if self.progressive.observe(stepped.margin, stepped.label, stepped.weight, stepped.refused, first):
            weights = self.learner.weights()
            self.progressive.note_non_zeros(weights.non_zeros)
            self._note_weights(weights)
        if not stepped.refusals:
            return {}
        self.skipped += stepped.refusals
        new = stepped.refused if skip is None else stepped.refused & ~skip
        return {first + i: why_refused(stepped, i) for i in np.flatnonzero(new).tolist()}

    def _note_weights(self, weights: Weights, is_extra: bool = False) -> None:
        """Add a point to the history of the followed weights, if there is one."""
        if self.followed is not None:
            beta = weights_of(weights, self.followed.hash.tolist())
            self.followed = self.followed.with_point(self.progressive.examples, beta, is_extra)

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
            self.config = replace(self.config, classes=replace(self.config.classes, names=known.names))
            grow(self.learner, self.progressive, self.config.classes)
        self.restored = True
        self.pairs.note_source(source)
        if header["lineage"] != self.lineage.hex():
            self.progressive.carry(record.last)
            if self.drift is not None:
                self.drift.carry()
        self.note_change(record.last)
        with self.pairs.paused():
            for run in again.runs if again is not None else ():
                if run[0].kind == "observe":  # a refusal needs no skip event: that would exclude the event before the promotion
                    self.learn(run[0].first, joined(run, [], True), skips)

    def _take_content(self, header: dict[str, Any], arrays: Arrays, bits: int | None = None) -> None:
        self._start_over(read_stored(header["config"]), bits)
        self.learner.thaw(part(arrays, LEARNER))
        self.progressive.thaw(part(arrays, WATCH), carried(header), faded_bases(header))
        for prefix, one in ((DRIFT, self.drift), (SLICES, self.slices)):
            if one is not None:
                one.thaw(part(arrays, prefix))
        if self.followed is not None:
            self.followed = WeightHistory.thaw(part(arrays, FOLLOWED))
        self.skipped = number(header["skipped"])


def _no_log(record: Record, _through: records.Through) -> None:
    raise Corrupt(f"event {record.first} is a promotion, which needs the log before it")
