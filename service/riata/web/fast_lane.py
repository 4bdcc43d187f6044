"""The fast path: requests answered from the parser's callback, without an ASGI scope or a task, with one write.

Most of the cost of a prediction is the ASGI dispatch to its handler and back. A hot line is a route whose handler can answer a
complete request synchronously. The protocol (`web/fast_protocol.py`) calls it from the parser's callback. Requests that the
handler does not take, and all that are not simple, go through ASGI (`web/shell.py`), where every route is mounted too. So a hot
line has no behaviour of its own, and both paths give the same bytes.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from riata.base.errors import RiataError
from riata.web.again import Again, Quick, Reply, Take, learn
from riata.web.answers import JSON, STANDING_HEADERS, Answer
from riata.web.audience import Audience
from riata.web.body import Bodies
from riata.web.busy_poll import BusyPoll
from riata.web.gate import Caller, Gate
from riata.web.keys import Key
from riata.web.meters import Meters
from riata.web.options import is_model_name
from riata.web.problems import answer_error
from riata.web.routes.table import DEFAULT_MODEL, MODELS
from riata.web.service import ServiceProtocol
from riata.web.settings import INLINE_BYTES_MAX
from riata.wire.padded_buffer import PaddedBuffer

log = logging.getLogger("riata.web")
Headers = list[tuple[bytes, bytes]]
CLOSE_HEADER: Final = (b"connection", b"close")
_CLOSE: Final = b"connection: close\r\n"
_MODELS: Final = MODELS.encode()
_STANDING: Final = b"".join(b"%b: %b\r\n" % pair for pair in STANDING_HEADERS)
_FINE_END: Final = b"\r\n%b\r\n" % _STANDING  # what follows the length of an answer without headers of its own


class Verdict(Enum):
    """What a handler returns if it has no answer yet."""

    NOT_HERE = "not here"  # nothing was done: ASGI handles the request from its beginning
    LATER = "later"  # `reply` will get the answer, once, in the event loop and not before the handler has returned


NOT_HERE: Final = Verdict.NOT_HERE
LATER: Final = Verdict.LATER


@dataclass(slots=True)
class FastRequest:
    """A complete request: its body is within the limit of its line, no header is repeated, and it has no content encoding.

    line       : the route; `model` is the name of the model that the request is for
    query      : as sent, after the question mark
    header_list: names in lower case; `headers` is the same as a dict, set before a handler sees the request
    key        : the API key of the request; None if keys are not required
    admitted   : whether its head was checked and admitted, by the gate too if there is one
    more       : the parts of a body after the first; joined once the last has arrived
    is_plain   : whether it was answered in a way that others with the same head can be (`HotLine.quick`)
    past       : a long body read past the parser (`web/long_body.py`), all of it; `body` is the part that came before
    """

    line: HotLine
    model: str
    query: bytes
    header_list: Headers
    started: float
    headers: dict[bytes, bytes] = field(default_factory=dict)
    body: bytes = b""
    key: Key | None = None
    admitted: bool = False
    more: list[bytes] | None = None
    is_plain: bool = False
    past: PaddedBuffer | None = None

    def add(self, part: bytes) -> None:
        """Append the next part of the body."""
        if not self.body:
            self.body = part
        elif self.more is None:
            self.more = [part]
        else:
            self.more.append(part)

    @property
    def is_long(self) -> bool:
        """Whether its body is parsed in another thread, so that it does not block the event loop."""
        return len(self.whole) > INLINE_BYTES_MAX

    @property
    def whole(self) -> bytes | PaddedBuffer:
        """The body, once it is complete."""
        return self.body if self.past is None else self.past

    def join(self) -> None:
        """Join the parts of the body."""
        if self.more is not None:
            self.body = b"".join([self.body, *self.more])
            self.more = None


Write = Callable[[bytes], None]
FastHandler = Callable[[FastRequest, Reply], Answer | Verdict]


@dataclass(frozen=True)
class HotLine:
    """One route of the fast path. `template` is the path of the ASGI route that answers what the handler does not take.

    The handler may raise errors of `riata.base.errors`, which are answered as on every route. It gets bodies of at most
    `bytes_max`. `quick` returns how to process rows of further requests with the same head, None if the head alone does not
    decide that.
    """

    method: str
    template: str
    handler: FastHandler
    bytes_max: int = INLINE_BYTES_MAX
    quick: Callable[[FastRequest], Quick | None] | None = None

    @cached_property
    def route(self) -> tuple[str, str]:
        """The key of the route in the table of scopes: method and template."""
        return self.method, self.template


class FastLane:
    """The hot lines of an application, and what all their requests share: access check, metrics, response head.

    `awake` keeps the event loop polling for a short time after each answer. `bodies` counts the bodies that arrive in parts, on
    the fast path and on the ASGI path.
    """

    def __init__(
        self,
        lines: Iterable[HotLine],
        meters: Meters,
        service: ServiceProtocol,
        gate: Gate | None,
        bodies: Bodies,
        busy_poll_us: int = 0,
    ) -> None:
        self.awake = BusyPoll(busy_poll_us)
        self.audience = Audience(self.answered)
        self.bodies = bodies
        self.meters = meters
        self.service = service
        self.gate = gate
        self._short: dict[tuple[bytes, bytes], HotLine] = {}
        self._long: dict[tuple[bytes, bytes], HotLine] = {}
        for line in lines:
            of_model = line.template.startswith(MODELS)
            path = line.template.removeprefix(f"{MODELS}{{model}}/") if of_model else line.template
            (self._long if of_model else self._short)[line.method.encode(), path.encode()] = line
        self._standing: Headers | None = None
        self._openings: dict[tuple[int, bytes], bytes] = {}
        self._fine = b""  # the opening of a prediction's answer

    def find(self, method: bytes, target: bytes, headers: Headers) -> FastRequest | None:
        """Return the request that a head begins, None if it has to go through ASGI."""
        path, _, query = target.partition(b"?")
        model = DEFAULT_MODEL
        line = self._short.get((method, path))
        if line is None:
            if not path.startswith(_MODELS):
                return None
            name, _, verb = path[len(_MODELS) :].partition(b"/")
            line = self._long.get((method, verb))
            model = name.decode("latin-1")
            if line is None or not is_model_name(model):
                return None
        return None if b"#" in target else FastRequest(line, model, query, headers, time.perf_counter())

    def ask(self, request: FastRequest, reply: Reply, caller: Caller) -> Answer | Verdict:
        """Return the answer to a complete request of a connection, or the verdict if there is none yet."""
        refusal = self._look_at(request, caller)
        if refusal is not None:
            return refusal
        try:
            return request.line.handler(request, reply)
        except RiataError as error:
            return answer_error(error)
        except Exception:
            log.exception("the fast path failed; the request is answered by the application instead")
            return NOT_HERE

    def learn(self, data: bytes, request: FastRequest, target: bytes, target_bytes_max: int) -> Again | None:
        """Return the head to remember of a request that arrived alone and was answered at once, or accepted. None if the head is
        not of the common form."""
        quick = None if request.line.quick is None else request.line.quick(request)
        return None if quick is None else learn(data, request, quick, target, target_bytes_max)

    def take(self, known: Again, take: Take, row: bytes, started: float, caller: Caller, reply: Reply) -> bool:
        """Have a row under a known head answered later. Returns false, and does nothing, if the parser has to handle it."""
        request, gate = known.request, self.gate
        if gate is not None and not (gate.stands(caller, request.key) and gate.spares(request.key)):
            return False
        request.started = started
        try:
            if not take(request, row, reply):
                return False
        except Exception:
            return False  # the ASGI path meets the same error and reports it
        if gate is not None:
            gate.rate(request.key)
        return True

    def say(self, known: Again, document: bytes, started: float, caller: Caller, standing: Headers, write: Write) -> bool:
        """Write the answer to a row under a known head. Returns false, and does nothing, if the parser has to handle it.

        Whatever can be done after the write is done after it: a client whose core is not asleep yet need not be woken.
        """
        request, gate = known.request, self.gate
        refusal = None
        if gate is not None:
            if not gate.stands(caller, request.key):
                return False
            refusal = gate.rate(request.key)
        if refusal is not None:
            write(self.written(refusal, standing, False))
        elif standing is self._standing:
            write(b"%b%d%b%b" % (self._fine, len(document), _FINE_END, document))
        else:
            write(self.written(Answer(200, document), standing, False))
        self.note(request, 200 if refusal is None else refusal.status, started)
        return True

    def awaits(self, request: FastRequest, caller: Caller) -> bool:
        """Return whether to wait for the body of a request here: not if its head alone is reason to refuse it."""
        if self._look_at(request, caller) is not None:
            return False
        try:
            self.service.published(request.model)
        except RiataError:
            return False
        return True

    def _look_at(self, request: FastRequest, caller: Caller) -> Answer | Verdict | None:
        """Check a head, once. Returns None if it is admitted."""
        if request.admitted:
            return None
        line, found = request.line, dict(request.header_list)
        if len(found) != len(request.header_list) or b"content-encoding" in found:
            return NOT_HERE
        request.headers = found
        if self.gate is not None:
            authorization = found.get(b"authorization")
            refusal, request.key = self.gate.ask(line.route, request.model, authorization, self.service, caller)
            if refusal is not None:
                return refusal
        request.admitted = True
        return None

    def answered(self, loop: asyncio.AbstractEventLoop) -> None:
        """Keep the event loop polling after an answer, for the client's next request."""
        self.awake.stay(loop, self.audience.listen)

    def note(self, request: FastRequest, status: int, started: float) -> None:
        """Count an answered request."""
        line = request.line
        self.meters.answered(line.method, line.template, status, time.perf_counter() - started)

    def written(self, answer: Answer, standing: Headers, closing: bool) -> bytes:
        """Return an answer's bytes as uvicorn would write them. `standing`: uvicorn's default headers, a new list each second."""
        if standing is not self._standing:
            self._standing = standing
            self._openings.clear()
            self._fine = self._opening(200, JSON)
        opening = self._openings.get((answer.status, answer.content_type)) or self._opening(answer.status, answer.content_type)
        more = b"".join(b"%b: %b\r\n" % pair for pair in answer.headers) if answer.headers else b""
        end = _CLOSE if closing and CLOSE_HEADER not in answer.headers else b""
        return b"%b%d\r\n%b%b%b\r\n%b" % (opening, len(answer.body), more, _STANDING, end, answer.body)

    def _opening(self, status: int, content_type: bytes) -> bytes:
        """Write the part of a response head that stays the same for a second, and cache it."""
        lines = b"".join(b"%b: %b\r\n" % pair for pair in self._standing or ())
        opening = b"%b%bcontent-type: %b\r\ncontent-length: " % (STATUS_LINE[status], lines, content_type)
        self._openings[status, content_type] = opening
        return opening
