"""Batch small request bodies that wait for the same sync: parsed by one call, logged as one record, answered by one wake-up.

Theory of operation
    A request of one row costs a parse, a record of the log, an entry in the writer's queue and two thread switches, each far more
    than the row itself. Here small requests wait, unparsed, for the store's thread, and a group pays these costs once.

             event loop                          store's thread
    put ───► waiting ─┐ gather, once      ┌─ take all that waits; parse and encode it together; one append per model
    put ───► waiting ─┼──────────────────►┤  one transaction, durable
    put ───► waiting ─┘                   └─ one call to the event loop
    reply to each  ◄────────────────────────  which settles every request of the group, and gathers what waits by then

    Nothing waits for a timer. The first request calls the store's thread as soon as the event loop has read from every
    connection that had input. Requests that arrive while a group is in progress form the next group. It leaves once the last
    reply is sent and the event loop has polled every connection again, so it includes clients that send again at once. A
    single connection waits only for its own sync, and many connections share one. Two groups in progress at a time, one
    parsed while the other is answered, would each have half the size, and a group costs as much as thirty rows.

    Only requests that need no further checks are batched: all rows acceptable, all ids new. The append requires this
    (`only_if_all_new`): if an id is known, nothing of the group is logged, the requests with that id are returned, and the
    others are appended again. A returned request is parsed and logged on its own, which gives the same reply, with the
    reasons. A group may contain several models and formats; then each has its own append. Models that encode rows in the same way
    are read by one call of the reader; if it refuses any row, each model is read by itself. If they are TOGETHER_MIN or more and
    their rows have no ids, one record holds them all, on a store that can.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Final

import numpy as np

from riata.base.arrays import sizes_of
from riata.base.errors import NotFound, RiataError
from riata.base.frozen_dataclass import frozen_dataclass
from riata.run.engine import Engine
from riata.run.engine_context import later
from riata.run.log.log_thread import GROUP_REQUESTS_MAX, Request, Together
from riata.run.outcome import Observed, not_in_time
from riata.run.served_model import UNREAD, Reading, ServedModel
from riata.run.writer.published import Published
from riata.store.records import write_parts_ahead
from riata.store.store import Append, Appended, JointRows
from riata.wire.batch import Batch, select_rows
from riata.wire.fields import meet_of_each
from riata.wire.names import Names, NamesOfEach
from riata.wire.parse import Context, lines_of, read_for_models, read_together, with_keyed_subjects, with_keys
from riata.wire.parsed import names_in
from riata.wire.read_body import Format

BODY_BYTES_MAX: Final = 16 * 2**10  # of a request that waits here; larger bodies are parsed outside the store's thread
LIKENESSES_KEPT: Final = 256  # ways to encode rows; of a forgotten one, models are read in two calls
GROUP_BYTES_MAX: Final = 2**20  # parsed in about half a millisecond
TOGETHER_MIN: Final = 4  # models: to log fewer by themselves costs less than to do it later

Settle = Callable[[Observed | RiataError | None], None]
log = logging.getLogger("riata.run")


@dataclass(slots=True, eq=False)
class _Small:
    """One request. settle: None once it is answered; due_s: its deadline, by the event loop's clock."""

    model: str
    form: Format
    lines: bytes
    key: str | None
    settle: Settle | None
    due_s: float


@frozen_dataclass(frozen=True, slots=True)
class _Group:
    """Requests to one model that wait together."""

    model: str
    form: Format
    smalls: list[_Small]
    reading: Reading


@frozen_dataclass(frozen=True, slots=True)
class _Pending:
    """An append in progress: its requests, and where the rows of each end."""

    append: Append
    smalls: list[_Small]
    stop: list[int]
    again: bool = False  # this is the second attempt


@frozen_dataclass(frozen=True, slots=True)
class _PendingJoint:
    """One record in progress for several models: the requests to each, and how many rows each request has."""

    rows: JointRows
    groups: list[_Group]
    count: list[int]


class SmallBodyBatcher:
    """The batcher. `put` and every `settle` run in the event loop; the rest runs in the store's thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._log_thread = engine.context.log_thread
        self._waiting: deque[_Small] = deque()
        self._log_thread.gathering = self._waiting
        self._timeout_s = engine.settings.observe_timeout_ms / 1000
        self._called = False  # a group is in progress, from the call of the store's thread to the last reply
        self._owed = 0  # requests of that group without a reply
        self._unanswered = 0  # appends in progress; like the next two, of the store's thread
        self._answers: list[tuple[_Small, Observed | RiataError | None]] = []  # replies that the event loop is told of together
        self._common = lru_cache(LIKENESSES_KEPT)(Context)  # the same object for equal settings: to compare it takes no time
        self._open: deque[_Small] = deque()  # in order of arrival; answered ones are removed from the front
        self._timer: asyncio.TimerHandle | None = None

    def put(self, model: str, body: bytes, content_type: str, key: str | None, settle: Settle) -> bool:
        """Take a request that may be logged now, to a model without a closed vocabulary; false if it has to go on its own.
        `settle` is called later, with the result, the error, or None if it has to go on its own after all."""
        loop = self._engine.loop
        found = lines_of(body, content_type) if len(body) <= BODY_BYTES_MAX else None
        if found is None or loop is None:
            return False
        form, lines = found
        small = _Small(model, form, lines, key, settle, loop.time() + self._timeout_s)
        self._open.append(small)
        if self._timer is None:
            self._timer = loop.call_later(self._timeout_s, self._give_up, loop)
        self._waiting.append(small)
        if not self._called:
            self._called = True
            loop.call_soon(self._log_thread.gather, self._gather)
        return True

    # -- in the event loop -----------------------------------------------------------------------------------------

    def _give_up(self, loop: asyncio.AbstractEventLoop) -> None:
        """Answer requests that have timed out; they may still be logged."""
        now_s = loop.time()
        while self._open and (self._open[0].settle is None or self._open[0].due_s <= now_s):
            _settle(self._open.popleft(), not_in_time())
        self._timer = loop.call_later(self._open[0].due_s - now_s, self._give_up, loop) if self._open else None

    def _reply(self, answered: Sequence[tuple[_Small, Observed | RiataError | None]]) -> None:
        for small, answer in answered:
            _settle(small, answer)
        while self._open and self._open[0].settle is None:
            self._open.popleft()
        self._owed -= len(answered)
        if self._owed == 0:
            self._called = bool(self._waiting)
            if self._called and self._engine.loop is not None:
                self._engine.loop.call_soon(self._log_thread.gather, self._gather)

    # -- in the store's thread -------------------------------------------------------------------------------------

    def _gather(self) -> list[Request | Together]:
        """Take what waits now, as one append per model and format, or as one record of several models."""
        groups: dict[tuple[str, int], _Group] = {}
        together: dict[tuple[int, object], list[_Group]] = {}  # those that one call of the reader can read
        requests = size = 0
        while self._waiting and requests < GROUP_REQUESTS_MAX and size < GROUP_BYTES_MAX:
            small = self._waiting.popleft()
            requests, size = requests + 1, size + len(small.lines)
            group = groups.get(at := (small.model, id(small.form)))
            if group is None:
                reading = self._reading(small.model)
                group = groups[at] = _Group(small.model, small.form, [], reading)
                alike = small.model if reading.alike is None else id(reading.alike)
                together.setdefault((at[1], alike), []).append(group)
            group.smalls.append(small)
        self._owed = requests  # before any of them is answered
        pending: list[_Pending | _PendingJoint] = []
        for several in together.values():
            pending += self._read_alike(several)
        self._unanswered += len(pending)
        self._tell()
        return [
            (one.append, partial(self._on_appended, one))
            if isinstance(one, _Pending)
            else Together(one.rows, partial(self._on_joint_appended, one))
            for one in pending
        ]

    def _read_alike(self, alike: list[_Group]) -> list[_Pending | _PendingJoint]:
        """Parse requests and make an append for each model, those that can be parsed with others."""
        if len(alike) > 1:
            try:
                if (pending := self._read_several(alike)) is not None:
                    return pending
            except RiataError:  # each gets the reason by itself
                pass
            except Exception:  # outer edge for input from clients: the store's thread continues
                log.exception("requests to several models could not be read together")
        return [one for one in map(self._read, alike) if one is not None]

    def _read_several(self, alike: list[_Group]) -> list[_Pending | _PendingJoint] | None:
        """As `_read` for several models; None if any of their rows is not accepted."""
        smalls = [small for group in alike for small in group.smalls]
        contexts = [group.reading.context for group in alike if group.reading.context is not None]
        if (common := alike[0].reading.alike) is None:
            return None
        bodies, seen = np.array([len(group.smalls) for group in alike]).cumsum(), [one.names for one in contexts]
        lines, kinds = [one.lines for one in smalls], [one.kinds for one in contexts]
        read = read_for_models(lines, bodies, alike[0].form, common, seen, kinds)
        if read is None:
            return None
        batch, now_ms = self._keyed(read.batch, smalls, read.stop.tolist()), self._engine.clock.unix_ms()
        if self._may_join(alike) and not batch.has_id.any():
            models = tuple(group.model for group in alike)
            rows = JointRows(models, read.last.tolist(), batch, read.names, now_ms)
            return [_PendingJoint(rows, alike, sizes_of(read.stop).tolist())]
        pending: list[_Pending | _PendingJoint] = []
        start = 0
        encodings = write_parts_ahead(batch, read.last, [now_ms] * len(alike))
        for group, names, encoded in zip(alike, read.names, encodings, strict=True):
            append = Append(group.model, "observe", now_ms, encoded.batch, names=names, only_if_all_new=True, encoded=encoded)
            end = start + len(group.smalls)
            first_row = int(read.stop[start - 1]) if start else 0
            pending.append(_Pending(append, group.smalls, (read.stop[start:end] - first_row).tolist()))
            start = end
        return pending

    def _may_join(self, alike: Sequence[_Group]) -> bool:
        """Whether one record may hold the rows of these models: none of them has challengers, whose logs get the rows too."""
        followers = self._log_thread.followers
        return self._log_thread.joins and len(alike) >= TOGETHER_MIN and not any(followers.get(group.model) for group in alike)

    def _keyed(self, batch: Batch, smalls: Sequence[_Small], stop: Sequence[int]) -> Batch:
        """Give rows the ids and subjects that their requests and this store say."""
        start, keys = 0, []
        for small, end in zip(smalls, stop, strict=True):
            if small.key is not None:
                keys.append((small.key, start, end))
            start = end
        batch = with_keys(batch, keys) if keys else batch
        return batch if batch.subject is None else with_keyed_subjects(batch, self._log_thread.subject_key)

    def _read(self, group: _Group) -> _Pending | None:
        """Parse requests of one model and make their append; None if none of them can be parsed together."""
        smalls, together = group.smalls, None
        try:
            if (context := group.reading.context) is not None:
                together = read_together([small.lines for small in smalls], group.form, context)
        except Exception as error:
            if not isinstance(error, RiataError):  # outer edge for input from clients: the store's thread continues
                log.exception("a batch of requests could not be read")
        if together is None or not together.taken:
            self._answer(smalls, [None] * len(smalls))
            return None
        if len(together.taken) < len(smalls):
            taken = set(together.taken)
            left = [small for at, small in enumerate(smalls) if at not in taken]
            self._answer(left, [None] * len(left))
            smalls = [smalls[at] for at in together.taken]
        stop = together.stop.tolist()
        batch, now_ms = self._keyed(together.batch, smalls, stop), self._engine.clock.unix_ms()
        return _Pending(Append(group.model, "observe", now_ms, batch, names=together.names, only_if_all_new=True), smalls, stop)

    def _reading(self, model: str) -> Reading:
        """Return how bodies of a model are read."""
        served_model = self._engine.served_models.get(model)
        if served_model is None or (published := served_model.published) is None:
            return UNREAD
        if served_model.reading.of is not published:
            served_model.reading = self._reading_of(served_model, published)
        return served_model.reading

    def _reading_of(self, served_model: ServedModel, published: Published) -> Reading:
        if published.is_checked_row_by_row or served_model.encoder.curves:
            return Reading(published)  # curves: this is the log thread, and comparing them takes long
        before, encoder, labels, kinds = (
            served_model.reading,
            served_model.encoder,
            published.config.labels,
            served_model.names.kinds,
        )
        same = before.context
        if same is not None and same.encoder is encoder and same.labels == labels and same.kinds is kinds:
            return Reading(published, same, before.alike)
        return Reading(published, Context(encoder, labels, served_model.seen, kinds=kinds), self._common(encoder, labels))

    def _on_appended(self, one: _Pending, answer: Appended | RiataError) -> None:
        """Answer every request of an append, or append those with new ids again; tell the event loop after the last one."""
        self._unanswered -= 1
        self._judge(one, answer)
        if self._unanswered == 0:
            self._tell()

    def _on_joint_appended(self, joint: _PendingJoint, answer: list[int] | RiataError) -> None:
        """As `_on_appended` for one record of several models."""
        self._unanswered -= 1
        if isinstance(answer, RiataError):
            error = None if isinstance(answer, NotFound) else self._engine.why_not_logged(answer)
            for group in joint.groups:
                self._answer(group.smalls, [error] * len(group.smalls))
        else:
            count, promise = iter(joint.count), self._engine.settings.durability
            served_models = [*map(self._engine.served_models.get, joint.rows.models)]
            # Later rows are read by the kinds of fields that these tell. The names are kept when the rows are distributed.
            meet_of_each([None if one is None else one.names.kinds for one in served_models], NamesOfEach.of(joint.rows.names))
            for group, served_model, seq, rows in zip(joint.groups, served_models, answer, joint.rows.counts(), strict=True):
                if served_model is not None:
                    served_model.logged = max(served_model.logged, seq)
                before = seq - rows
                for small in group.smalls:
                    n = next(count)
                    before += n
                    self._answers.append((small, Observed(n, 0, 0, before, [], promise, False)))
        if self._unanswered == 0:
            self._tell()

    def _judge(self, one: _Pending, answer: Appended | RiataError) -> None:
        if isinstance(answer, RiataError):
            error = self._engine.why_not_logged(answer)
            self._answer(one.smalls, [error] * len(one.smalls))
        elif answer.record is None:
            self._divert(one, answer)
        else:
            before, promise = answer.record.first - 1, self._engine.settings.durability
            start = 0
            for small, stop in zip(one.smalls, one.stop, strict=True):
                self._answers.append((small, Observed(stop - start, 0, 0, before + stop, [], promise, False)))
                start = stop

    def _divert(self, one: _Pending, answer: Appended) -> None:
        """Return the requests with a known id; all of them if known ids are not why nothing was logged."""
        known = np.add.reduceat(answer.duplicate | answer.reused, [0, *one.stop[:-1]]).astype(np.bool_)
        if one.again or answer.refused is not None or not known.any() or known.all():
            self._answer(one.smalls, [None] * len(one.smalls))
            return
        batch, count = one.append.batch, sizes_of(np.array(one.stop))
        if batch is not None:
            kept = select_rows(batch, ~np.repeat(known, count))
            append = replace(one.append, batch=kept, names=names_in(Names.of(one.append.names), kept))
            smalls = [small for small, is_known in zip(one.smalls, known.tolist(), strict=True) if not is_known]
            again = _Pending(append, smalls, np.cumsum(count[~known]).tolist(), again=True)
            self._unanswered += 1
            # Before the returned requests, which may repeat these ids.
            self._log_thread.submit(append, partial(self._on_appended, again))
        back = [small for small, is_known in zip(one.smalls, known.tolist(), strict=True) if is_known]
        self._answer(back, [None] * len(back))

    def _answer(self, smalls: Sequence[_Small], answers: Sequence[Observed | RiataError | None]) -> None:
        self._answers += zip(smalls, answers, strict=True)

    def _tell(self) -> None:
        """Tell the event loop of the replies so far: to wake it costs more than a reply."""
        if self._answers and self._engine.loop is not None:
            answered, self._answers = self._answers, []
            later(self._engine.loop, self._reply, answered)


def _settle(small: _Small, answer: Observed | RiataError | None) -> None:
    settle, small.settle = small.settle, None
    if settle is not None:
        try:
            settle(answer)
        except Exception:  # outer edge for the caller's callback: the other requests and the next group must go on
            log.exception("a request could not be answered; the others of its batch are not affected")
