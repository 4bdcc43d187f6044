"""Requests that are answered where they are parsed: no scope, no task, one write.

Most of what a prediction costs is the way to its handler and back. A hot line is a route whose handler can say its answer at
once from a request that is whole: the protocol (`web/fast_protocol.py`) asks it from the parser's callback. What a handler
does not take, and every request that is not plain, goes the ASGI way (`web/shell.py`), which all routes have: so a hot line
has no behaviour of its own, and both lanes give the same bytes.
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
from riata.web.hot import MODELS
from riata.web.keys import Key
from riata.web.meters import Meters
from riata.web.options import is_model_name
from riata.web.problems import answer_error
from riata.web.scopes import DEFAULT_MODEL
from riata.web.service import ServiceProtocol
from riata.web.settings import INLINE_BYTES_MAX
from riata.wire.padded_buffer import PaddedBuffer

log = logging.getLogger("riata.web")
Headers = list[tuple[bytes, bytes]]
CLOSE_HEADER: Final = (b"connection", b"close")
_CLOSE: Final = b"connection: close\r\n"
_MODELS: Final = MODELS.encode()
_STANDING: Final = b"".join(b"%b: %b\r\n" % pair for pair in STANDING_HEADERS)
_FINE_END: Final = b"\r\n%b\r\n" % _STANDING  # behind the length of an answer without headers of its own


class Verdict(Enum):
    """What a handler says where it has no answer yet."""

    NOT_HERE = "not here"  # nothing was done: the ASGI way takes the request from its beginning
    LATER = "later"  # the answer will be given to `reply`, once, from the event loop and not before the handler has returned


NOT_HERE: Final = Verdict.NOT_HERE
LATER: Final = Verdict.LATER


@dataclass(slots=True)
class FastRequest:
    """A request that is whole: no more of a body than its line takes, no header line twice, sent as it is.

    template   : of its route; `model` is the model it speaks of
    query      : as it was sent, behind the question mark
    header_list: names in lower case; `headers` is the same to look up in, and set before a handler sees the request
    key        : what it was let through with; None where keys are not asked for
    admitted   : whether its head was looked at and let through, by the gate too where there is one
    more       : the parts of a body behind its first, which are joined once the last has come
    is_plain   : whether it was answered in the way that others with its head can be (`HotLine.quick`)
    past       : a long body that came past the parser (`web/long_body.py`), all of it; `body` is what came of it before
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
        """Take the next part of the body."""
        if not self.body:
            self.body = part
        elif self.more is None:
            self.more = [part]
        else:
            self.more.append(part)

    @property
    def is_long(self) -> bool:
        """Whether its body is read beside the event loop, which has other things to do meanwhile."""
        return len(self.whole) > INLINE_BYTES_MAX

    @property
    def whole(self) -> bytes | PaddedBuffer:
        """The body, once all of it has come."""
        return self.body if self.past is None else self.past

    def join(self) -> None:
        """Make one of the parts."""
        if self.more is not None:
            self.body = b"".join([self.body, *self.more])
            self.more = None


Write = Callable[[bytes], None]
FastHandler = Callable[[FastRequest, Reply], Answer | Verdict]


@dataclass(frozen=True)
class HotLine:
    """One route of the fast lane. `template` is that of the ASGI route that answers what the handler does not take.

    The handler may raise errors of `riata.base.errors`, which are answered as on every route; it is given bodies of at most
    `bytes_max`. `quick` says of a request what is done with rows of others with the same head; None where that is not known
    from the head.
    """

    method: str
    template: str
    handler: FastHandler
    bytes_max: int = INLINE_BYTES_MAX
    quick: Callable[[FastRequest], Quick | None] | None = None

    @cached_property
    def route(self) -> tuple[str, str]:
        """As the table of scopes has it."""
        return self.method, self.template


class FastLane:
    """The hot lines of an application, and what every answer of theirs goes through: gate, meters, head.

    `awake` keeps the event loop from sleeping for a moment after each. `bodies` counts those that come in parts, of both lanes.
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
        self._fine = b""  # of them, that of a prediction

    def find(self, method: bytes, target: bytes, headers: Headers) -> FastRequest | None:
        """Return the request that a head begins, None where it goes the ASGI way."""
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
        """Return the answer to a request of a connection that is whole, or why there is none yet."""
        refusal = self._look_at(request, caller)
        if refusal is not None:
            return refusal
        try:
            return request.line.handler(request, reply)
        except RiataError as error:
            return answer_error(error)
        except Exception:
            log.exception("the fast lane failed; the request goes the other way")
            return NOT_HERE

    def learn(self, data: bytes, request: FastRequest, target: bytes, target_bytes_max: int) -> Again | None:
        """Return what to remember of a request that was answered at once, or taken, and was all that came; None where it is not
        usual."""
        quick = None if request.line.quick is None else request.line.quick(request)
        return None if quick is None else learn(data, request, quick, target, target_bytes_max)

    def take(self, known: Again, take: Take, row: bytes, started: float, caller: Caller, reply: Reply) -> bool:
        """Have a row under a known head answered later; false where the parser has to look, and nothing was done."""
        request, gate = known.request, self.gate
        if gate is not None and not (gate.stands(caller, request.key) and gate.spares(request.key)):
            return False
        request.started = started
        try:
            if not take(request, row, reply):
                return False
        except Exception:
            return False  # the other way meets it too, and says what it is
        if gate is not None:
            gate.rate(request.key)
        return True

    def say(self, known: Again, document: bytes, started: float, caller: Caller, standing: Headers, write: Write) -> bool:
        """Write the answer to a row under a known head; false where the parser has to look, and nothing was done.

        What can be done behind the answer is: a client whose core has not gone to sleep yet need not be woken.
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
        """Say whether the body of a request is waited for here: not where the head is enough to refuse it."""
        if self._look_at(request, caller) is not None:
            return False
        try:
            self.service.published(request.model)
        except RiataError:
            return False
        return True

    def _look_at(self, request: FastRequest, caller: Caller) -> Answer | Verdict | None:
        """Look at a head, once: None where it is let through."""
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
        """Somebody was answered: stay awake for what he says next."""
        self.awake.stay(loop, self.audience.listen)

    def note(self, request: FastRequest, status: int, started: float) -> None:
        """Count an answered request."""
        line = request.line
        self.meters.answered(line.method, line.template, status, time.perf_counter() - started)

    def written(self, answer: Answer, standing: Headers, closing: bool) -> bytes:
        """Write an answer as uvicorn would: `standing` are the headers that it puts in front, a new list each second."""
        if standing is not self._standing:
            self._standing = standing
            self._openings.clear()
            self._fine = self._opening(200, JSON)
        opening = self._openings.get((answer.status, answer.content_type)) or self._opening(answer.status, answer.content_type)
        more = b"".join(b"%b: %b\r\n" % pair for pair in answer.headers) if answer.headers else b""
        end = _CLOSE if closing and CLOSE_HEADER not in answer.headers else b""
        return b"%b%d\r\n%b%b%b\r\n%b" % (opening, len(answer.body), more, _STANDING, end, answer.body)

    def _opening(self, status: int, content_type: bytes) -> bytes:
        """Write a head as far as it is the same for a second, and keep it as long."""
        lines = b"".join(b"%b: %b\r\n" % pair for pair in self._standing or ())
        opening = b"%b%bcontent-type: %b\r\ncontent-length: " % (STATUS_LINE[status], lines, content_type)
        self._openings[status, content_type] = opening
        return opening
