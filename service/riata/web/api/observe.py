"""POST /observe: parse labelled rows, append them to the log, answer with counts once they are durable."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
from msgspec import UNSET

from riata.base.errors import BadInput, RiataError
from riata.base.frozen_dataclass import frozen_dataclass
from riata.run.outcome import Observed, RowsRefused, refused_whole
from riata.store.records import write_ahead
from riata.web.api.options import model_named, read_options
from riata.web.api.problems import answer_error, counts, shown
from riata.web.api.routes import observe as declared
from riata.web.auth.keys import Key
from riata.web.auth.quotas import Quotas
from riata.web.metrics.meters import Meters
from riata.web.server.answers import Answer, json_answer
from riata.web.server.request import DEFERRED, Aside, Handled, Reply, Request
from riata.web.settings import INLINE_BYTES_MAX, Tools
from riata.wire.given import OtherLabels
from riata.wire.parse import StoreContext, id_of, parse_for_store
from riata.wire.parsed import ID_BYTES, Parsed
from riata.wire.workspace import PaddedBuffer

_USUAL: Final = (  # what `answer_document` gives if every row was accepted
    b'{"accepted":%d,"duplicate":0,"rejected":0,"seq":%d,"outcome":"accepted","durability":"%b","errors":[]}'
)


# Event ids of rows that carry none: from an Idempotency-Key, or given after the rows, at the end of the body.
#
# With the option `ids=N` the last 16 N bytes of a body are the ids of its N rows, in their order and in no format: 128-bit
# digests
# that the client made. So rows of every format can have ids, in place of texts inside the rows.


@frozen_dataclass(frozen=True, slots=True)
class RowNames:
    """The ids of the rows of a body. key: row i without an id gets the id `key/i`; digests: 16 bytes a row, in place of that."""

    key: str | None = None
    digests: bytes | None = None

    def given_to(self, parsed: Parsed) -> Parsed:
        """Give each row without an event id its id, by its position in the body. Raises `BadInput` (code `bad_ids`) if there are
        more or fewer digests than rows."""
        batch = parsed.batch
        event_id = batch.event_id.copy()
        without = np.flatnonzero(~batch.has_id)
        if self.digests is not None:
            digests = np.frombuffer(self.digests, np.uint8).reshape(-1, ID_BYTES)
            if len(digests) != parsed.rows:
                raise BadInput(f"ids: {len(digests)} ids for {parsed.rows} rows; give one for each row of the body", "bad_ids")
            event_id[without] = digests[parsed.row[without]]
        elif self.key is not None:
            for at in without.tolist():
                event_id[at] = np.frombuffer(id_of(self.key, int(parsed.row[at])), dtype=np.uint8)
        return replace(parsed, batch=replace(batch, event_id=event_id, has_id=np.ones_like(batch.has_id)))


NO_NAMES: Final = RowNames()


def cut_ids(body: bytes | PaddedBuffer, count: int) -> tuple[bytes | PaddedBuffer, RowNames]:
    """Cut `count` ids off the end of a body. Raises `BadInput` (code `bad_ids`) if it is too short."""
    size = len(body) - ID_BYTES * count
    if size < 0:
        raise BadInput(f"ids: the body has {len(body)} bytes, fewer than {count} ids of {ID_BYTES} bytes", "bad_ids")
    if isinstance(body, PaddedBuffer):
        return body.first(size), RowNames(digests=body.bytes[size:].tobytes())
    return body[:size], RowNames(digests=body[size:])


@frozen_dataclass(frozen=True, slots=True)
class Choices:
    """The options of a request to observe; `wait`: answered once the rows are applied; `key`: its Idempotency-Key;
    `caller`: its API key; `ids`: how many event ids follow the rows in the body; `by_row`: rows are refused one by one, even if
    the labels of all are those of another setting."""

    wait: bool
    atomic: bool
    key: str | None
    caller: Key | None = None
    ids: int | None = None
    by_row: bool = False


@dataclass(frozen=True, slots=True)
class Observe:
    """The handler of the observe routes. Its methods belong to the event loop's thread."""

    tools: Tools
    meters: Meters
    quotas: Quotas | None = None

    def check_head(self, request: Request) -> None:
        """Refuse what can be refused before the body is read. Raises errors of `riata.base.errors`."""
        model = model_named(request.model)
        read_choices(request)
        self.tools.service.context(model, labelled=True)

    def handle(self, request: Request, reply: Reply) -> Handled:
        """Have the rows logged; the answer comes once they are durable. Small bodies are batched. Raises errors of
        `riata.base.errors`."""
        model, choices = request.model, read_choices(request)
        service, kind = self.tools.service, request.kind
        body, names = request.body, RowNames(choices.key)
        if choices.ids is not None:
            body, names = cut_ids(body, choices.ids)
        elif isinstance(body, bytes) and not request.is_long and not choices.wait:
            told = partial(self._told, model, body, kind, (choices, names), reply)
            if service.observe_soon(model, body, kind, choices.key, told):
                return DEFERRED
        context = self._context(model, choices)
        if request.is_long and not choices.wait and not choices.atomic:
            read = partial(parse_and_write, body, kind, context, names, self.tools.clock.unix_ms())
            awaited = service.awaited(partial(self._told, model, body, kind, (choices, names), reply))
            self.tools.pool.submit(service.observe_read, model, read, awaited)
            return DEFERRED
        return Aside(partial(self._aside, model, body, kind, (choices, names)))

    async def _aside(self, model: str, body: bytes | PaddedBuffer, kind: str, how: tuple[Choices, RowNames]) -> Answer:
        """Log rows that are not batched, or that are to be applied before they are answered."""
        service, observed = self.tools.service, None
        choices, names = how
        if choices.wait and isinstance(body, bytes) and choices.ids is None:
            observed = await service.observe_small(model, body, kind, choices.key, wait_applied=True)
        if observed is None:
            try:
                parsed = await self._parse(body, kind, self._context(model, choices), names)
            except OtherLabels as error:
                self._count_refused(model, error)
                raise
            observed = await self._append(model, parsed, choices.atomic, choices.wait)
        return self.answer(model, observed, choices)

    def _told(
        self, model: str, body: bytes | PaddedBuffer, kind: str, how: tuple[Choices, RowNames], reply: Reply,
        told: Observed | RiataError | None,
    ) -> None:  # fmt: skip
        """Answer with the outcome of the rows; None means that they could not be batched."""
        if isinstance(told, Observed):
            reply(answer_of(told, False))
            self._count(model, told, how[0])
        elif told is not None:
            self._count_refused(model, told)
            reply(answer_error(told))
        else:
            reply(Aside(partial(self._aside, model, body, kind, how)))

    def answer(self, model: str, observed: Observed, choices: Choices) -> Answer:
        """Count the rows, and return the answer with their outcomes."""
        self._count(model, observed, choices)
        return answer_of(observed, choices.wait)

    def _count(self, model: str, observed: Observed, choices: Choices) -> None:
        self.meters.rows(model, observed)
        if self.quotas is not None and choices.caller is not None:
            self.quotas.add(choices.caller, events=observed.accepted)

    def _count_refused(self, model: str, error: RiataError) -> None:
        """Count the rows of a request none of which was accepted."""
        if isinstance(error, RowsRefused):
            self.meters.rows(model, error.observed)
        elif isinstance(error, OtherLabels):
            self.meters.rows(model, refused_whole(error))

    def _context(self, model: str, choices: Choices) -> StoreContext:
        context = self.tools.service.context(model, labelled=True)
        return replace(context, by_row=True) if choices.by_row else context

    async def _parse(self, body: bytes | PaddedBuffer, kind: str, context: StoreContext, names: RowNames) -> Parsed:
        if len(body) <= INLINE_BYTES_MAX:
            return parse_with_ids(body, kind, context, names)
        loop = asyncio.get_running_loop()
        now_ms = self.tools.clock.unix_ms()
        return await loop.run_in_executor(self.tools.pool, parse_and_write, body, kind, context, names, now_ms)

    async def _append(self, model: str, parsed: Parsed, atomic: bool, wait_applied: bool) -> Observed:
        try:
            return await self.tools.service.observe(model, parsed, atomic=atomic, wait_applied=wait_applied)
        except RowsRefused as error:
            self._count_refused(model, error)
            raise


def read_choices(request: Request) -> Choices:
    """Read the options and the Idempotency-Key."""
    if not request.query:
        return Choices(False, False, request.idempotency_key, request.key)
    options = read_options(request.query, request.route.options)
    wait, atomic, ids = declared.WAIT.of(options), declared.ATOMIC.of(options), declared.IDS.of(options)
    by_row = declared.LABELS.of(options) is not None
    return Choices(wait is not None, atomic, request.idempotency_key, request.key, ids, by_row)


def parse_with_ids(body: bytes | PaddedBuffer, kind: str, context: StoreContext, names: RowNames) -> Parsed:
    """Parse a body of labelled rows, and give those without an event id theirs."""
    parsed = parse_for_store(body, kind, context, labelled=True)
    return parsed if names == NO_NAMES else names.given_to(parsed)


def parse_and_write(body: bytes | PaddedBuffer, kind: str, context: StoreContext, names: RowNames, accepted_ms: int) -> Parsed:
    """Do `parse_with_ids`, and encode the log record of the rows here: in a pool thread, not in the one writer thread."""
    parsed = parse_with_ids(body, kind, context, names)
    return replace(parsed, encoded=write_ahead(parsed.batch, accepted_ms)) if parsed.batch.n else parsed


def answer_of(observed: Observed, waited: bool) -> Answer:
    """Return the answer with the outcomes of the rows. `waited`: whether the request has `wait=applied`."""
    if waited or observed.duplicate or observed.rejected:
        rows = observed.accepted + observed.duplicate + observed.rejected
        status = 200 if observed.applied and waited else 202
        return json_answer(answer_document(observed, waited), status)._replace(rows=rows)
    return Answer(202, _USUAL % (observed.accepted, observed.seq, observed.durability.encode()), rows=observed.accepted)


def answer_document(observed: Observed, waited: bool) -> declared.Observed:
    """Return the document with the outcomes of the rows. It has `applied` only if `waited`."""
    return declared.Observed(
        **counts(observed),
        seq=observed.seq,
        outcome="accepted" if observed.accepted else "duplicate",
        durability=observed.durability,
        errors=shown(observed.errors),
        applied=observed.applied if waited else UNSET,
    )
