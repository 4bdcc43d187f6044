"""The operations that the web package calls: the hot path and everything read-only. `admin` has what changes models."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from riata.base.arrays import I64
from riata.base.clock import rfc3339
from riata.base.document import write_document
from riata.base.errors import BadInput, Busy, RiataError, Unavailable
from riata.learn.registry import spec_of
from riata.predict.name_book import NameBook
from riata.predict.posterior import posterior_document
from riata.run.candidates.challengers import relations
from riata.run.candidates.forgetting import Forgetting
from riata.run.candidates.going_back import GoingBack
from riata.run.candidates.refits.refits import Refits
from riata.run.changing import take_up
from riata.run.cluster.lease import WriterPosition
from riata.run.engine import Engine
from riata.run.engine_context import settle
from riata.run.health import Health, health_of, stale_for_s
from riata.run.labels.expiry import Expiry
from riata.run.labels.pending_rows import Delays
from riata.run.labels.remembering import RememberedTally, Remembering, Way
from riata.run.log.event_times import EventTime, EventTimes
from riata.run.log.fields import FieldsSince, Looked, look
from riata.run.log.small_body_batcher import Settle, SmallBodyBatcher
from riata.run.outcome import Observed, PendingReply, RowsRefused, row_errors
from riata.run.served_model import ServedModel, memory_of
from riata.run.state.changes import Changes
from riata.run.state.model_state import NO_CLASS, NO_ROOM, ModelState
from riata.run.state.vocabulary import LARGE, within
from riata.run.writer.published import Published
from riata.run.writer.queue import PathQuestion, SketchCopy, path_answer
from riata.run.writer.stopping import wanted
from riata.store import records
from riata.store.store import Append, Appended
from riata.wire.classes import renumber_classes
from riata.wire.fields import Field
from riata.wire.parse import StoreContext
from riata.wire.parsed import Parsed, RowError

log = logging.getLogger("riata.run")

CODES: Final = {NO_ROOM: "vocabulary_full", NO_CLASS: "unknown_class"}
OTHERWISE: Final = "not_finite"
LOOKS_MAX: Final = 20  # the skip events may not be in the log yet when the learnt state is published
LOOK_EVERY_S: Final = 0.05


class Service:
    """The running service: models that learn from their logs and answer from what was last published."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._append = engine.append
        self._arena = SmallBodyBatcher(engine)
        way = Way(self.observe, self._require, self._served)
        self._remembering = Remembering(engine, way, engine.settings.remember_bytes_max)
        self._expiry = Expiry(engine, self._remembering, self._owns_store)
        self.jobs = engine.jobs
        self.refits, self.forgetting, self.going_back = Refits(engine), Forgetting(engine), GoingBack(engine)
        self._changes = Changes(engine)
        self._since = FieldsSince(engine, self._changes)
        self._times = EventTimes(engine)
        self._solving = asyncio.Lock()  # one path at a time: a sketch may take 128 MB, and so does its copy

    async def start(self) -> None:
        """Start, and recover every model; see `health().ready`."""
        await self.jobs.start()
        await self._engine.start()
        self._expiry.start()
        self.refits.start()

    def give_up_start(self) -> None:
        """Make an unfinished start end soon; `stop` has to follow."""
        self._engine.give_up_start()

    async def stop(self) -> None:
        """Learn what is logged, save it, release the store."""
        await self._expiry.stop()
        await self.jobs.stop()
        self.refits.stop()
        await self._engine.stop()

    # -- hot -------------------------------------------------------------------------------------------------------

    def published(self, model: str) -> Published:
        """Return what is served of `model` now, for a client: the writer serves a newer state soon, if there is one. Raises
        `NotFound`; `Busy` while the log is replayed."""
        published, served_model = self._engine.published(model), self._engine.served_model(model)
        if served_model.is_behind:
            self._engine.hurry(served_model)
        return published

    def served(self, model: str) -> Published:
        """As `published`, for what looks at every model or only at settings: the writer is not asked for anything."""
        return self._engine.published(model)

    async def await_arrival(self, model: str) -> None:
        """Wait a moment for a stored model that is not served yet; the start of the process takes it before others."""
        await self._engine.await_arrival(model)

    def now(self, model: str) -> tuple[Published, float]:
        """Return what is served of `model` now, and its `stale_s`. Raises as `published` and `stale_s` do."""
        engine = self._engine
        served_model = engine.context.catalogue.served_models.get(model)
        published = None if served_model is None else served_model.published
        if published is not None and engine.learning is not None and not engine.settings.shared:
            if served_model is not None and served_model.is_behind:
                engine.hurry(served_model)
            return published, 0.0  # the only process has the newest model; a fast path, because every prediction calls this
        return self.published(model), self.stale_s(model)

    def context(self, model: str, labelled: bool) -> StoreContext:
        """Return the context for parsing a body for `model`; only labelled rows bring names into the log."""
        served, config = self._engine.served_model(model), self.served(model).config
        key, seen = self._engine.context.log_thread.subject_key, served.seen if labelled else None
        kinds = served.names.kinds
        context = StoreContext(served.encoder, config.labels, seen, config.classes, kinds=kinds, subject_key=key)
        context = served.contexts[labelled] = context.or_same(served.contexts.get(labelled))
        return context

    def names(self, model: str) -> NameBook:
        """Return the feature names that `model` has seen."""
        return self._engine.served_model(model).names

    async def observe(self, model: str, parsed: Parsed, *, atomic: bool = False, wait_applied: bool = False) -> Observed:
        """Append the rows, durable on return; with `wait_applied`, served on return. Rows for which a full vocabulary has no room
        are refused. Rows that were logged while it filled become skip events instead; only calls with `wait_applied` report these
        as refused. Labels of predictions are joined first.

        Raises `RowsRefused` if no row is accepted, or with `atomic` if any is not; `Busy` and `Unavailable` as the engine does.
        """
        if parsed.joins.n:
            return await self._remembering.observe(model, parsed, atomic=atomic, wait_applied=wait_applied)
        self._require("observe", model)
        parsed = await self._within_vocabulary(model, await add_classes(self._engine, model, parsed))
        skipped = self.published(model).skipped
        appended = await self._append(self._append_of(model, parsed, atomic))
        observed = self._observed(parsed, appended, atomic)
        if not wait_applied or not await self._served(model, appended.seq):
            return observed
        rows = parsed.row[appended.accepted] if appended.record is not None else parsed.row[:0]
        return await applied(self._engine, model, observed, rows, skipped)

    def awaited(self, told: Settle) -> PendingReply:
        """Return a pending reply with the timeout of `observe`. Called in the event loop."""
        return PendingReply(asyncio.get_running_loop(), told, self._engine.settings.observe_timeout_ms / 1000)

    def observe_read(self, model: str, read: Callable[[], Parsed], awaited: PendingReply) -> None:
        """`observe` what `read` returns, in the calling thread and then in the store's thread; the event loop is notified when it
        is durable. `awaited` gets the result, the error, or None if the caller has to use `observe`."""
        try:
            parsed = read()
            self._require("observe", model)
            if parsed.joins.n or self.served(model).is_checked_row_by_row:
                awaited.tell(None)
                return
            append = self._append_of(model, parsed, False)
        except RiataError as error:
            awaited.tell(error)
        except Exception:  # outer edge for input from clients: the caller's retry with `observe` reports the error
            log.exception("rows could not be read in a worker thread")
            awaited.tell(None)
        else:
            self._engine.append_soon(append, partial(self._landed, parsed, awaited))

    def _landed(self, parsed: Parsed, awaited: PendingReply, answer: Appended | RiataError) -> None:
        try:
            awaited.tell(answer if isinstance(answer, RiataError) else self._observed(parsed, answer, False))
        except RowsRefused as error:
            awaited.tell(error)

    def observe_soon(self, model: str, body: bytes, content_type: str, key: str | None, told: Settle) -> bool:
        """Add a small body of labelled rows to the batcher, unparsed; `key` is an Idempotency-Key. Returns false if it has to be
        parsed and passed to `observe` on its own. `told` is called in the event loop: with the result when it is durable, with
        the error, or with None if it has to go to `observe` after all. Raises as `context` and `observe` do before anything is
        logged."""
        served_model = self._engine.served_model(model)
        published = served_model.published or self.served(model)
        self._engine.require_role("observe")
        self._engine.require_accepting(served_model)
        published.pairs.require_no_leader(model)
        return not published.is_checked_row_by_row and self._arena.put(model, body, content_type, key, told)

    async def observe_small(
        self, model: str, body: bytes, content_type: str, key: str | None, *, wait_applied: bool = False
    ) -> Observed | None:
        """`observe` a small body together with others, see `observe_soon`; None if it has to go to `observe` on its own."""
        skipped = self.served(model).skipped if wait_applied else 0
        future: asyncio.Future[Observed | None] = asyncio.get_running_loop().create_future()
        if not self.observe_soon(model, body, content_type, key, partial(settle, future)):
            return None
        observed = await future
        if observed is None or not wait_applied:
            return observed
        if not await self._served(model, observed.seq):
            return observed
        return await applied(self._engine, model, observed, np.arange(observed.accepted), skipped)

    async def remember(self, model: str, rows: list[bytes]) -> list[str]:
        """Keep rows of `encode_waiting` until their labels arrive; durable on return. Returns an id for each row.

        Raises `Busy` (code `remember_full`), and as `observe` does if this process accepts no events now, or in its role."""
        return await self._remembering.remember(model, rows)

    def remembered(self) -> Mapping[str, RememberedTally]:
        """Return the tallies of remembered predictions and their labels, by model."""
        tallies = self._remembering.tallies
        return {model: tallies[model] for model in sorted(tallies.keys() & self._engine.served_models.keys())}

    def lateness(self) -> Mapping[str, Delays]:
        """Return how old rows with a time were when this process logged them, by model; only of models that got such rows."""
        models = self._engine.served_models
        return {model: models[model].lateness for model in sorted(models) if any(models[model].lateness.counts)}

    async def wait_for(self, model: str, seq: int) -> Published:
        """Wait for a limited time until what is served includes event `seq`. Raises `BadInput` (code `min_seq_ahead`) if the log
        does not have it yet, `Busy` (code `not_yet`) if it is not served in time."""
        logged = self._engine.served_model(model).logged
        if seq > logged and self._engine.settings.shared:
            logged = await self._engine.logged_now(model)
        if seq > logged:
            raise BadInput(f"min_seq {seq} is beyond the end of the log at event {logged}", "min_seq_ahead")
        return await self._engine.wait_for(model, seq, self._engine.settings.min_seq_wait_ms)

    # -- read-only -------------------------------------------------------------------------------------------------

    def models(self) -> list[dict[str, Any]]:
        """Return one line for each model, by name. One that is not served has only its name, and why it is not."""
        catalogue, positions = self._engine.context.catalogue, self._positions()
        served = [(one, one.published) for one in catalogue.served_models.values()]
        lines = [self._line(one, published, positions) for one, published in served if published is not None]
        lines += [{"name": name, "damaged": damage.sentence()} for name, damage in catalogue.damaged.items()]
        unserved = catalogue.coming.keys() - {line["name"] for line in lines}
        lines += [{"name": name, "waits": catalogue.coming[name].waits_for()} for name in unserved]
        return sorted(lines, key=lambda line: str(line["name"]))

    def describe(self, model: str) -> dict[str, Any]:
        """Return the configuration, counters, what it follows and what follows it, warnings, metrics, drift, memory by part,
        whether predictions have standard errors and, if not, why not, the state of the posterior, whether a closed vocabulary is
        full, the feature names, and the log."""
        published = self.published(model)
        served_model = self._engine.served_model(model)
        return {
            **self._line(served_model, published, self._positions()),
            **relations(self._engine, published),
            "config": write_document(published.config),
            "warnings": published.warnings(served_model.names),
            "metrics": {key: published.figures[key] for key in ("cumulative", "faded", "window")},
            **{key: published.figures.get(key) for key in ("drift", "mixed")},
            "memory_bytes": memory_of(served_model),
            "std_error": {"available": not published.no_std_error, "why_not": published.no_std_error or None},
            "posterior": posterior_document(published.model, served_model.names.in_slot),
            "vocabulary_full": published.closed_vocabulary is not None,
            "names": {"kept": len(served_model.names), "kept_max": served_model.names.capacity},
            "log": {"last_seq": served_model.logged, "lineage": published.model.origin.lineage.hex()},
        }

    async def path(self, model: str, question: PathQuestion) -> dict[str, Any]:
        """Return the regularisation path of `model`, solved in another thread. Raises as `curvature_of` and `path_answer` do."""
        published = self.published(model)
        async with self._solving:
            looked = await curvature_of(self._engine, model)
            return await wanted(self._engine.context.halts, partial(path_answer, model, looked, question, published))

    def stale_s(self, model: str) -> float:
        """Return for how long it is not known whether what is served of `model` is the newest; 0.0 if this process learns.

        Raises `Unavailable` (code `too_stale`) above the limit `max_staleness_s`."""
        stale_s = stale_for_s(self._engine, self._engine.served_model(model))
        bound = self._engine.settings.max_staleness_s
        if stale_s > bound:
            raise Unavailable(
                f"the served version of {model} was last known to be the newest {stale_s:.0f} s ago; "
                f"the setting max_staleness_s is {bound:.0f}",
                "too_stale",
            )
        return stale_s

    async def event_times(self, model: str, events: Sequence[int]) -> list[EventTime]:
        """Return when events of the log of `model` were accepted and when they happened, as far as known."""
        return await self._times.of(model, events)

    async def look_at_fields(self, model: str, fields: Sequence[Field]) -> tuple[Looked, Looked]:
        """Return what fields look like in the newest rows of the log of `model`, and in the oldest."""
        return await look(self._engine, model, fields)

    async def fields_since(self, model: str, fields: Sequence[Field]) -> dict[str, int | None]:
        """Return the event from which on each of some fields has its kind, by name; None where it is not known any more."""
        return await self._since.of(model, fields)

    async def changes(self, model: str) -> list[dict[str, Any]]:
        """Return what changed the configuration or the state of `model`, newest first."""
        return await self._changes.of(model)

    def health(self) -> Health:
        """Return the health of the service. Never accesses the store."""
        return health_of(self._engine)

    def _require(self, what: str, model: str) -> None:
        self._engine.require_role(what)
        self._engine.require_accepting(self._engine.served_model(model))
        self.published(model).pairs.require_no_leader(model)

    def _owns_store(self) -> bool:
        """Whether this process has to expire remembered predictions. Two processes at once do no harm."""
        return self._engine.leads and not self._engine.stopping and self._engine.fatal is None

    async def _within_vocabulary(self, model: str, parsed: Parsed) -> Parsed:
        published = self.published(model)
        vocabulary, bits = published.closed_vocabulary, published.model.weights.bits
        if vocabulary is None or parsed.batch.nnz < LARGE:
            return parsed if vocabulary is None else within(parsed, vocabulary, bits)
        return await asyncio.get_running_loop().run_in_executor(None, within, parsed, vocabulary, bits)

    async def _served(self, model: str, seq: int) -> bool:
        """Wait until event `seq` is served; false if that takes too long. Nothing is lost then: the event is in the log."""
        try:
            await self._engine.wait_for(model, seq, self._engine.settings.observe_timeout_ms)
        except Busy:
            return False
        return True

    def _line(self, served_model: ServedModel, published: Published, positions: Mapping[str, WriterPosition]) -> dict[str, Any]:
        return {
            "name": served_model.name,
            "learner": published.config.learner.kind,
            "mode": getattr(published.config.learner, "mode", None),
            "examples": published.examples,
            "skipped": published.skipped,
            "non_zeros": published.model.weights.non_zeros,
            "seq_logged": served_model.logged,
            "seq_applied": positions[served_model.name].applied if served_model.name in positions else published.applied,
            "memory_bytes_total": memory_of(served_model)["total"],
            "served": {
                "version": published.version,
                "seq": published.model.seq,
                "generation": published.model.gen,
                "published": rfc3339(published.published_ms),
                "age_s": (self._engine.clock.monotonic_ms() - published.published_mono_ms) / 1000,
            },
        }

    def _positions(self) -> Mapping[str, WriterPosition]:
        """What the writer of this process has learnt, served or not."""
        return {} if self._engine.learning is None else self._engine.learning.writer.positions()

    def _append_of(self, model: str, parsed: Parsed, atomic: bool) -> Append:
        """Return the log's append for parsed rows. Raises `RowsRefused`."""
        if parsed.batch.n == 0 or (atomic and parsed.errors):
            raise self._refused(parsed, parsed.errors, atomic)
        written = parsed.encoded
        accepted_ms = self._engine.clock.unix_ms() if written is None else written.accepted_ms
        return Append(model, "observe", accepted_ms, parsed.batch, names=parsed.names, atomic=atomic, encoded=written)

    def _observed(self, parsed: Parsed, appended: Appended, atomic: bool) -> Observed:
        """Return the outcome for parsed rows. Raises `RowsRefused`."""
        record, durability = appended.record, self._engine.settings.durability
        if record is not None and record.count == parsed.batch.n:  # the common case
            return Observed(record.count, 0, len(parsed.errors), appended.seq, parsed.errors, durability, False)
        errors = row_errors(parsed, appended)
        accepted, duplicate = int(appended.accepted.sum()), int(appended.duplicate.sum())
        if accepted == 0 and duplicate == 0:
            raise self._refused(parsed, errors, atomic)
        again = tuple(parsed.row[appended.duplicate].tolist()) if duplicate else ()
        return Observed(accepted, duplicate, len(errors), appended.seq, errors, durability, False, again)

    def _refused(self, parsed: Parsed, errors: list[RowError], atomic: bool) -> RowsRefused:
        observed = Observed(0, 0, parsed.rows, 0, errors, self._engine.settings.durability, False)
        if atomic and len(errors) < parsed.rows:
            return RowsRefused(
                f"{len(errors)} of {parsed.rows} rows are not acceptable, so no row was accepted", "atomic_refused", observed
            )
        return RowsRefused(f"none of {parsed.rows} rows is acceptable", "nothing_accepted", observed)


# Classes are added to a model when their first row comes.
#
# A class is added by a `config` event, which the log has before the first row of the class. So replay, recovery and the live
# writer
# have the same classes at every event, and every process that reads rows knows their numbers from the configuration it serves.


async def add_classes(engine: Engine, model: str, parsed: Parsed) -> Parsed:
    """Add the classes that `parsed` brings to the model, and return its rows with the numbers that the model gives them.

    Raises what `take_up` raises. A row is refused (code `too_many_classes`) if there is no room for its class.
    """
    config = engine.published(model).config
    if not parsed.classes or not parsed.batch.n or not config.has_classes:
        return parsed
    if not set(parsed.classes) <= set(config.classes.names):
        config, _ = await take_up(engine, model, lambda old: replace(old, classes=old.classes.extended(parsed.classes)))
    return renumber_classes(parsed, config.classes)


# The curvature of a model, from which its path is solved: of the learner itself, or elsewhere of the newest snapshot.


async def curvature_of(engine: Engine, model: str) -> SketchCopy:
    """Return copies of the curvature of `model`: as it is now if this process learns, else as it was when the newest snapshot was
    written, at most `checkpoint_every_s` ago while events come.

    Raises `Conflict` (code `other_role`) if this process does not learn and there is no snapshot yet.
    """
    published = engine.published(model)
    if engine.leads or not engine.settings.shared:
        return await engine.led("the path").look(model)
    if not spec_of(published.config.learner).keeps_curvature:
        return SketchCopy(published.version, published.applied, None, [])
    found = [one.gen for one in await engine.call(lambda s: s.generations(model)) if one.verified]
    if not found:
        raise engine.why_not_led("the path of a model without a snapshot")
    content = await engine.call(lambda s: s.open_generation(model, found[0]))

    def read() -> SketchCopy:
        state = ModelState.of(content)
        seq = state.applied if state.has_learnt else 0
        return SketchCopy(published.version, seq, state.learner.sketch(), state.learner.shadows())

    return await asyncio.get_running_loop().run_in_executor(None, read)


# Which rows of a request were refused by the learner although they are in the log, for replies that wait until they are applied.
#
# A closed vocabulary refuses rows before the log after it is full (`run/state/vocabulary.py`). Rows that arrive while it fills
# are logged, and the learner refuses those that it has no room for: each gets a skip event. The process that learns knows them
# directly; any other process finds their skip events in the log.


async def applied(engine: Engine, model: str, observed: Observed, rows: I64, skipped: int) -> Observed:
    """Return the outcome for rows that are applied now: those that the learner refused count as rejected.

    rows    : i64[accepted], positions in the body of the rows that were logged, the last of them as event `observed.seq`
    skipped : events of the model that had been skipped before these were logged
    """
    first = observed.seq - len(rows) + 1
    reasons = await _left_out(engine, model, first, observed.seq, skipped) if len(rows) else {}
    if not reasons:
        return replace(observed, applied=True)
    left_out = [
        RowError(int(rows[seq - first]), CODES.get(reason, OTHERWISE), f"logged as event {seq}, but not learnt: {reason}")
        for seq, reason in reasons.items()
    ]
    return replace(
        observed,
        applied=True,
        accepted=observed.accepted - len(left_out),
        rejected=observed.rejected + len(left_out),
        errors=sorted([*observed.errors, *left_out], key=lambda error: error.index),
    )


async def _left_out(engine: Engine, model: str, first: int, last: int, skipped: int) -> dict[int, str]:
    served_model = engine.served_model(model)
    if engine.leads:
        return {seq: reason for seq, reason in served_model.left_out.items() if first <= seq <= last}
    found: dict[int, str] = {}
    for _ in range(LOOKS_MAX if engine.published(model).skipped > skipped else 0):
        before = len(found)
        for record in await engine.call(lambda s: s.read(model, last)):
            if record.kind == "skip":
                seq, reason = records.decode_skip(record.payload)
                if first <= seq <= last:
                    found[seq] = reason
        if found and len(found) == before:
            break
        await asyncio.sleep(LOOK_EVERY_S)
    return found
