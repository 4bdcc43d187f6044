"""The fast path: what connections share to answer hot requests without an ASGI scope or a task, each with one write."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Final

from riata.base.errors import RiataError
from riata.base.process import cores
from riata.run.service import Service
from riata.web.api.problems import answer_error, internal
from riata.web.auth.gate import Caller, Gate
from riata.web.metrics.meters import Meters
from riata.web.server.answers import CLOSE_HEADER, STANDING_HEADERS, Answer, status_line
from riata.web.server.body import Bodies
from riata.web.server.request import Aside, Deferred, Handled, Headers, HotRoute, Reply, Request, Router

log = logging.getLogger("riata.web")
PATHS_MAX: Final = 1024  # hot paths that are remembered
_CLOSE: Final = b"connection: close\r\n"

_STANDING: Final = b"".join(b"%b: %b\r\n" % pair for pair in STANDING_HEADERS)


class FastPath:
    """The hot routes of an application, and what all their requests share: gate, metrics, response head.

    `awake` keeps the event loop polling for a short time after each answer. `bodies` counts the bodies that arrive in parts.
    """

    def __init__(
        self, router: Router, meters: Meters, service: Service, gate: Gate | None, bodies: Bodies, awake: BusyPoll
    ) -> None:
        self.router = router
        self.meters = meters
        self.service = service
        self.gate = gate
        self.bodies = bodies
        self.awake = awake
        self._paths: dict[tuple[str, bytes], tuple[HotRoute, str]] = {}  # by method and path, as they were sent
        self._asides: set[asyncio.Task[None]] = set()
        self._standing: Headers | None = None
        self._openings: dict[tuple[int, bytes], bytes] = {}

    def find(self, request: Request) -> bool:
        """Set route and model of a request. Returns false if its route is not hot, or it is to be answered through ASGI."""
        if not request.may_be_hot:
            return False
        at = (request.method, request.path)
        found = self._paths.get(at)
        if found is None:
            if request.method not in ("GET", "POST"):
                return False
            found = self.router.find_named(request.method == "POST", request.path.decode("ascii"))
            if found is None:
                return False
            if len(self._paths) == PATHS_MAX:
                self._paths.clear()
            self._paths[at] = found
        request.route, request.model = found
        return request.length <= found[0].bytes_max

    def admit(self, request: Request, caller: Caller) -> Answer | None:
        """Ask the gate. Returns the refusal, or None and sets the key of the request."""
        if self.gate is None:
            return None
        authorization = request.values.get(b"authorization")
        refusal, request.key = self.gate.ask(request.route.key, request.model, authorization, self.service, caller)
        return refusal

    def refuse(self, request: Request) -> Answer | None:
        """Return the refusal of an admitted request whose head is reason enough, None if its body has to be read."""
        try:
            request.route.check_head(request)
        except RiataError as error:
            return answer_error(error)
        return None

    def handle(self, request: Request, reply: Reply) -> Answer | Deferred:
        """Answer a complete and admitted request, or have `reply` called later."""
        try:
            found: Handled = request.route.handle(request, reply)
        except RiataError as error:
            return answer_error(error)
        except Exception:
            return _failed(request)
        if isinstance(found, Aside):
            self.set_aside(found, request, reply)
            return Deferred.DEFERRED
        return found

    def set_aside(self, aside: Aside, request: Request, reply: Reply) -> None:
        """Do the work beside the event loop's other work, and reply with its answer."""
        task = asyncio.get_running_loop().create_task(self._aside(aside, request, reply))
        self._asides.add(task)
        task.add_done_callback(self._asides.discard)

    async def _aside(self, aside: Aside, request: Request, reply: Reply) -> None:
        try:
            answer = await aside.work()
        except RiataError as error:
            answer = answer_error(error)
        except Exception:
            answer = _failed(request)
        reply(answer)

    def note(self, request: Request, answer: Answer) -> None:
        """Count an answered request."""
        route = request.route
        self.meters.answered(route.method, route.template, answer.status, time.perf_counter() - request.started)

    def written(self, answer: Answer, standing: Headers, closing: bool) -> bytes:
        """Return an answer's bytes, as `asgi.py` writes them. `standing`: uvicorn's default headers, a new list each second."""
        if standing is not self._standing:
            self._standing = standing
            self._openings.clear()
        opening = self._openings.get((answer.status, answer.content_type)) or self._opening(answer.status, answer.content_type)
        if answer.headers or closing:
            more = b"".join(b"%b: %b\r\n" % pair for pair in answer.headers)
            end = _CLOSE if closing and CLOSE_HEADER not in answer.headers else b""
            return b"%b%d\r\n%b%b%b\r\n%b" % (opening, len(answer.body), more, _STANDING, end, answer.body)
        return b"%b%d\r\n%b\r\n%b" % (opening, len(answer.body), _STANDING, answer.body)

    def _opening(self, status: int, content_type: bytes) -> bytes:
        """Write the part of a response head that stays the same for a second, and cache it."""
        lines = b"".join(b"%b: %b\r\n" % pair for pair in self._standing or ())
        opening = b"%b%bcontent-type: %b\r\ncontent-length: " % (status_line(status), lines, content_type)
        self._openings[status, content_type] = opening
        return opening


def _failed(request: Request) -> Answer:
    log.exception("%s %s failed", request.route.method, request.route.template)
    return internal().answer()


# Busy polling: the event loop polls its sockets for a short time after each answer instead of sleeping.
#
# Waking a sleeping core when a request arrives takes some 20 to 50 µs in a virtual machine: longer than a prediction. A client
# that sends one request after another is mostly back within that time. So after an answer the event loop polls its sockets
# without blocking for a short time, but only while requests come that fast: if the answer before was longer ago, it sleeps at
# once.
# Polling after every answer takes up to 28 % more processor time at 200 to 2000 requests a second. It releases the interpreter's
# lock at each poll, so that other threads can run.


class BusyPoll:
    """Keeps an event loop polling for `micros` µs after each answer that follows another within that time. With a single core it
    does nothing, since the client may be waiting for that core."""

    def __init__(self, micros: int) -> None:
        self._seconds = micros / 1e6 if cores() > 1 else 0.0
        self._answered = -1.0  # when
        self._until = 0.0
        self._looking = False

    def stay(self, loop: asyncio.AbstractEventLoop) -> None:
        """Note an answer, and restart the polling period; called in `loop`, which is always the same."""
        if self._seconds:
            now = time.perf_counter()
            soon, self._answered = now - self._answered < self._seconds, now
            self._until = now + self._seconds if soon else 0.0
            if soon and not self._looking:
                self._looking = True
                loop.call_soon(self._look, loop)

    def rest(self) -> None:
        """End the polling period: the loop now waits for another thread of this process, which needs the interpreter's lock."""
        self._until = 0.0

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Schedule this again after the loop has polled its sockets, until the period is over."""
        if time.perf_counter() < self._until:
            loop.call_soon(self._look, loop)
        else:
            self._looking = False
