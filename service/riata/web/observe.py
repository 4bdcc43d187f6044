"""POST /observe: parse labelled rows, append them to the log, answer with counts once they are durable."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import numpy as np
from starlette.types import Receive, Scope

from riata.base.errors import BadInput, RiataError
from riata.predict.heard import Asked, Ear
from riata.run.outcome import Observed, RowsRefused
from riata.store.records import write_ahead
from riata.web.again import Quick, Reply
from riata.web.answers import Answer, json_answer
from riata.web.body import content_type, header, idempotency_key, read_body
from riata.web.fast_lane import LATER, NOT_HERE, FastRequest, Verdict
from riata.web.hot import Tools
from riata.web.meters import Meters
from riata.web.options import flag, model_in_path, read_options
from riata.web.problems import answer_error, counts, internal, shown
from riata.web.settings import INLINE_BYTES_MAX
from riata.wire.padded_buffer import PaddedBuffer
from riata.wire.parse import Context, parse_examples
from riata.wire.parsed import Parsed
from riata.wire.small_bodies import id_of

log = logging.getLogger("riata.web")
OPTIONS: Final = ("wait", "atomic")
_USUAL: Final = (  # what `answer_document` gives if every row was accepted
    b'{"accepted":%d,"duplicate":0,"rejected":0,"seq":%d,"outcome":"accepted","durability":"%b","errors":[]}'
)


@dataclass(frozen=True, slots=True)
class Observe:
    """The handler of the observe routes."""

    tools: Tools
    meters: Meters
    under_way: set[asyncio.Task[None]] = field(default_factory=set)  # requests of the fast path that are not batched

    async def __call__(self, scope: Scope, receive: Receive) -> Answer:
        """Parse and append rows; answer once they are durable. Raises errors of `riata.base.errors`."""
        service, settings = self.tools.service, self.tools.settings
        model = model_in_path(scope["path_params"])
        options = read_options(scope["query_string"], OPTIONS)
        wait_applied = wants_applied(options)
        atomic = flag(options, "atomic")
        key = idempotency_key(header(scope, b"idempotency-key"))
        context = service.context(model, labelled=True)
        body = await read_body(scope, receive, settings.body_bytes_max, settings.body_deadline_s)
        kind = content_type(scope)
        observed = await service.observe_small(model, body, kind, key, wait_applied=wait_applied)
        if observed is None:
            parsed = await self._parse(body, kind, context, key)
            observed = await self._append(model, parsed, atomic, wait_applied)
        return self.answer(model, observed, wait_applied)

    def soon(self, request: FastRequest, reply: Reply) -> Answer | Verdict:
        """Accept a request of the fast path, without options; it is answered once it is durable. Small bodies are batched."""
        if request.query or len(request.whole) > self.tools.settings.body_bytes_max:
            return NOT_HERE
        key = idempotency_key(request.headers.get(b"idempotency-key"))
        if not request.is_long:
            return LATER if self.take(request, request.body, reply, key) else NOT_HERE
        context = self.tools.service.context(request.model, labelled=True)
        read = partial(parse_and_write, request.whole, kind_of(request), context, key, self.tools.clock.unix_ms())
        awaited = self.tools.service.awaited(partial(self._told, request, request.whole, reply, key))
        self.tools.pool.submit(self.tools.service.observe_read, request.model, read, awaited)
        return LATER

    def quick(self, request: FastRequest) -> Quick | None:
        """Return how to process rows under the head of `request`. None if it carries an Idempotency-Key, which the next request
        will not carry, or if its head does not ensure that a body is within the limit."""
        others = request.query or request.is_long or b"idempotency-key" in request.headers
        return None if others or self.tools.settings.body_bytes_max < INLINE_BYTES_MAX else self

    def heard(self, ear: Ear, at: int, count: int) -> tuple[int, list[Asked]]:
        """Return the rows received from index `at` on that are to be learnt, and the index where they end."""
        return ear.rows(at, count)

    def take(self, request: FastRequest, row: bytes, reply: Reply, key: str | None = None) -> bool:
        """Have a small body logged in a batch; false if it cannot be batched. Raises as `Service.observe_soon` does."""
        told = partial(self._told, request, row, reply, key)
        return self.tools.service.observe_soon(request.model, row, kind_of(request), key, told)

    def _told(
        self, request: FastRequest, body: bytes | PaddedBuffer, reply: Reply, key: str | None, told: Observed | RiataError | None
    ) -> None:
        """Answer a request of the fast path with the outcome of its rows; None means that it could not be batched."""
        if isinstance(told, Observed):
            reply(answer_of(told, False))
            self.meters.rows(request.model, told)
        elif told is not None:
            if isinstance(told, RowsRefused):
                self.meters.rows(request.model, told.observed)
            reply(answer_error(told))
        else:
            task = asyncio.get_running_loop().create_task(self._by_itself(request, body, reply, key))
            self.under_way.add(task)
            task.add_done_callback(self.under_way.discard)

    async def _by_itself(self, request: FastRequest, body: bytes | PaddedBuffer, reply: Reply, key: str | None) -> None:
        """Answer a request of the fast path that could not be batched."""
        model = request.model
        try:
            parsed = await self._parse(body, kind_of(request), self.tools.service.context(model, labelled=True), key)
            answer = self.answer(model, await self._append(model, parsed, False, False), False)
        except RiataError as error:
            answer = answer_error(error)
        except Exception:
            log.exception("POST %s failed", request.line.template)
            answer = internal().answer()
        reply(answer)

    def answer(self, model: str, observed: Observed, waited: bool) -> Answer:
        """Count the rows, and return the answer with their outcomes."""
        self.meters.rows(model, observed)
        return answer_of(observed, waited)

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


def kind_of(request: FastRequest) -> str:
    """Read the Content-Type."""
    return request.headers.get(b"content-type", b"").decode("latin-1")


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
        return json_answer(answer_document(observed, waited), 200 if observed.applied and waited else 202)
    return Answer(202, _USUAL % (observed.accepted, observed.seq, observed.durability.encode()))


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
