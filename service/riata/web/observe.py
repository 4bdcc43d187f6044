"""POST /observe: parse labelled rows, append them to the log, answer with counts once they are durable."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import numpy as np

from riata.base.errors import BadInput, RiataError
from riata.run.outcome import Observed, RowsRefused
from riata.store.records import write_ahead
from riata.web.answers import Answer, json_answer
from riata.web.body import idempotency_key
from riata.web.keys import Key
from riata.web.meters import Meters
from riata.web.options import flag, model_named, read_options
from riata.web.problems import answer_error, counts, internal, shown
from riata.web.quotas import Quotas
from riata.web.request import DEFERRED, Aside, Handled, Reply, Request
from riata.web.settings import INLINE_BYTES_MAX
from riata.web.tools import Tools
from riata.wire.padded_buffer import PaddedBuffer
from riata.wire.parse import Context, parse_examples
from riata.wire.parsed import Parsed
from riata.wire.small_bodies import id_of

log = logging.getLogger("riata.web")
_USUAL: Final = (  # what `answer_document` gives if every row was accepted
    b'{"accepted":%d,"duplicate":0,"rejected":0,"seq":%d,"outcome":"accepted","durability":"%b","errors":[]}'
)


@dataclass(frozen=True, slots=True)
class Choices:
    """The options of a request to observe; `wait`: answered once the rows are applied; `key`: its Idempotency-Key;
    `caller`: its API key."""

    wait: bool
    atomic: bool
    key: str | None
    caller: Key | None = None


@dataclass(frozen=True, slots=True)
class Observe:
    """The handler of the observe routes. Its methods belong to the event loop's thread."""

    tools: Tools
    meters: Meters
    quotas: Quotas | None = None
    under_way: set[asyncio.Task[None]] = field(default_factory=set)  # requests that could not be batched after all

    def check_head(self, request: Request) -> None:
        """Refuse what can be refused before the body is read. Raises errors of `riata.base.errors`."""
        model = model_named(request.model)
        read_choices(request)
        self.tools.service.context(model, labelled=True)

    def handle(self, request: Request, reply: Reply) -> Handled:
        """Have the rows logged; the answer comes once they are durable. Small bodies are batched. Raises errors of
        `riata.base.errors`."""
        model, choices = request.model, read_choices(request)
        service, body, kind = self.tools.service, request.body, request.kind
        if isinstance(body, bytes) and not request.is_long and not choices.wait:
            told = partial(self._told, model, body, kind, choices, reply)
            if service.observe_soon(model, body, kind, choices.key, told):
                return DEFERRED
        context = service.context(model, labelled=True)
        if request.is_long and not choices.wait and not choices.atomic:
            read = partial(parse_and_write, body, kind, context, choices.key, self.tools.clock.unix_ms())
            awaited = service.awaited(partial(self._told, model, body, kind, choices, reply))
            self.tools.pool.submit(service.observe_read, model, read, awaited)
            return DEFERRED
        return Aside(partial(self._aside, model, body, kind, choices))

    async def _aside(self, model: str, body: bytes | PaddedBuffer, kind: str, choices: Choices) -> Answer:
        """Log rows that are not batched, or that are to be applied before they are answered."""
        service, observed = self.tools.service, None
        if choices.wait and isinstance(body, bytes):
            observed = await service.observe_small(model, body, kind, choices.key, wait_applied=True)
        if observed is None:
            parsed = await self._parse(body, kind, service.context(model, labelled=True), choices.key)
            observed = await self._append(model, parsed, choices.atomic, choices.wait)
        return self.answer(model, observed, choices)

    def _told(
        self, model: str, body: bytes | PaddedBuffer, kind: str, choices: Choices, reply: Reply,
        told: Observed | RiataError | None,
    ) -> None:  # fmt: skip
        """Answer with the outcome of the rows; None means that they could not be batched."""
        if isinstance(told, Observed):
            reply(answer_of(told, False))
            self._count(model, told, choices)
        elif told is not None:
            if isinstance(told, RowsRefused):
                self.meters.rows(model, told.observed)
            reply(answer_error(told))
        else:
            task = asyncio.get_running_loop().create_task(self._by_itself(model, body, kind, choices, reply))
            self.under_way.add(task)
            task.add_done_callback(self.under_way.discard)

    async def _by_itself(self, model: str, body: bytes | PaddedBuffer, kind: str, choices: Choices, reply: Reply) -> None:
        try:
            answer = await self._aside(model, body, kind, choices)
        except RiataError as error:
            answer = answer_error(error)
        except Exception:
            log.exception("rows of the model %s could not be observed", model)
            answer = internal().answer()
        reply(answer)

    def answer(self, model: str, observed: Observed, choices: Choices) -> Answer:
        """Count the rows, and return the answer with their outcomes."""
        self._count(model, observed, choices)
        return answer_of(observed, choices.wait)

    def _count(self, model: str, observed: Observed, choices: Choices) -> None:
        self.meters.rows(model, observed)
        if self.quotas is not None and choices.caller is not None:
            self.quotas.add(choices.caller, events=observed.accepted)

    async def _parse(self, body: bytes | PaddedBuffer, kind: str, context: Context, key: str | None) -> Parsed:
        if len(body) <= INLINE_BYTES_MAX:
            return parse_with_ids(body, kind, context, key)
        loop = asyncio.get_running_loop()
        now_ms = self.tools.clock.unix_ms()
        return await loop.run_in_executor(self.tools.pool, parse_and_write, body, kind, context, key, now_ms)

    async def _append(self, model: str, parsed: Parsed, atomic: bool, wait_applied: bool) -> Observed:
        try:
            return await self.tools.service.observe(model, parsed, atomic=atomic, wait_applied=wait_applied)
        except RowsRefused as error:
            self.meters.rows(model, error.observed)
            raise


def read_choices(request: Request) -> Choices:
    """Read the options and the Idempotency-Key."""
    options = read_options(request.query, request.route.options) if request.query else {}
    return Choices(wants_applied(options), flag(options, "atomic"), idempotency_key(request.idempotency_key), request.key)


def wants_applied(options: dict[str, str]) -> bool:
    """Read `wait`, whose one value is `applied`."""
    wait = options.get("wait")
    if wait not in (None, "applied"):
        raise BadInput("wait: the only allowed value is applied", "bad_option")
    return wait is not None


def parse_with_ids(body: bytes | PaddedBuffer, kind: str, context: Context, key: str | None) -> Parsed:
    """Parse a body of labelled rows. Rows without an id get the id `key/index` if the request carries an Idempotency-Key."""
    parsed = parse_examples(body, kind, context, labelled=True)
    return parsed if key is None else with_ids(parsed, key)


def parse_and_write(body: bytes | PaddedBuffer, kind: str, context: Context, key: str | None, accepted_ms: int) -> Parsed:
    """Do `parse_with_ids`, and encode the log record of the rows here: in a pool thread, not in the one writer thread."""
    parsed = parse_with_ids(body, kind, context, key)
    return replace(parsed, encoded=write_ahead(parsed.batch, accepted_ms)) if parsed.batch.n else parsed


def with_ids(parsed: Parsed, key: str) -> Parsed:
    """Give each row without an event id the id `key/index`, where index is its position in the body, from 0."""
    batch = parsed.batch
    event_id = batch.event_id.copy()
    for at in np.flatnonzero(~batch.has_id).tolist():
        event_id[at] = np.frombuffer(id_of(key, int(parsed.row[at])), dtype=np.uint8)
    return replace(parsed, batch=replace(batch, event_id=event_id, has_id=np.ones_like(batch.has_id)))


def answer_of(observed: Observed, waited: bool) -> Answer:
    """Return the answer with the outcomes of the rows. `waited`: whether the request has `wait=applied`."""
    if waited or observed.duplicate or observed.rejected:
        rows = observed.accepted + observed.duplicate + observed.rejected
        status = 200 if observed.applied and waited else 202
        return json_answer(answer_document(observed, waited), status)._replace(rows=rows)
    return Answer(202, _USUAL % (observed.accepted, observed.seq, observed.durability.encode()), rows=observed.accepted)


def answer_document(observed: Observed, waited: bool) -> dict[str, Any]:
    """Return the document with the outcomes of the rows. It has `applied` only if `waited`."""
    document: dict[str, Any] = {
        **counts(observed),
        "seq": observed.seq,
        "outcome": "accepted" if observed.accepted else "duplicate",
        "durability": observed.durability,
        "errors": shown(observed.errors) if observed.errors else [],
    }
    if waited:
        document["applied"] = observed.applied
    return document
