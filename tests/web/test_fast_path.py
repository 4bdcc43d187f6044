"""Hot routes that answer later, or fail: what their connection sees meanwhile."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest

from riata.base.errors import BadInput
from riata.web.metrics.meters import Meters
from riata.web.server.answers import Answer, json_answer
from riata.web.server.body import Bodies
from riata.web.server.bounds import Bounds, ListenerState
from riata.web.server.fast_path import BusyPoll, FastPath
from riata.web.server.request import DEFERRED, Aside, Handled, HotRoute, Reply, Request, Router
from riata.web.server.server import Server, build_server, run
from tests.settings import connection_bounds
from tests.web.attack.raw import Reply as Received
from tests.web.attack.raw import listen_to, read_replies
from tests.web.serving import Whole

BODY = b'{"features":{"a":1},"label":1}'
WAIT_S = 900.0


@dataclass
class Slow:
    """A handler that answers on request, from any thread."""

    waiting: list[tuple[asyncio.AbstractEventLoop, Reply]] = field(default_factory=list)
    came: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    failed: list[Exception] = field(default_factory=list)

    def __call__(self, request: Request, reply: Reply) -> Handled:
        if b"fail" in request.query:
            raise RuntimeError("an internal fault")
        if b"refuse" in request.query:
            raise BadInput("not this one")
        if b"aside" in request.query:
            return Aside(self.aside)
        if b"broken" in request.query:
            return Aside(self.broken)
        self.waiting.append((asyncio.get_running_loop(), reply))
        self.came.release()
        return DEFERRED

    async def aside(self) -> Answer:
        """Work in a thread, outside the protocol."""
        await asyncio.sleep(0)
        return json_answer("aside")

    async def broken(self) -> Answer:
        """Work of this kind that fails."""
        raise RuntimeError("an internal fault")

    def wait(self) -> None:
        """Wait until a request has arrived."""
        assert self.came.acquire(timeout=WAIT_S)

    def answer(self, document: object = "done") -> None:
        """Answer the oldest waiting request."""
        loop, reply = self.waiting.pop(0)
        done = threading.Event()

        def say() -> None:
            try:
                reply(json_answer(document, 202))
            except RuntimeError as error:
                self.failed.append(error)
            finally:
                done.set()

        loop.call_soon_threadsafe(say)
        assert done.wait(WAIT_S)


@dataclass
class Target:
    """A server with this handler; `stop` begins its shutdown."""

    port: int
    slow: Slow
    meters: Meters
    server: Server
    service: Whole

    def stop(self) -> None:
        self.server.should_exit = True

    def counted(self, status: int) -> float:
        """The number of observe requests that were answered with this status."""
        labels = {"code": str(status), "method": "POST", "route": "/observe"}
        return self.meters.registry.get_sample_value("riata_requests_total", labels) or 0.0


@pytest.fixture
def target() -> Iterator[Target]:
    with ExitStack() as stack:
        yield begin(stack)


def begin(stack: ExitStack, bounds: Bounds | None = None, stop_s: int = 5) -> Target:
    whole, slow = Whole(), Slow()
    app = whole.app()
    router = Router([HotRoute("POST", "/observe", slow, lambda _: None, 2**16)])
    app.state.fast_path = FastPath(router, app.state.meters, whole.service, None, Bodies(2**20), BusyPoll(0))
    server = build_server(app, "127.0.0.1", 0, stop_s, ListenerState(bounds or connection_bounds()))
    listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    thread = threading.Thread(target=run, args=(server, [listening]))
    thread.start()

    def end() -> None:
        server.should_exit = True
        thread.join()

    stack.callback(end)
    deadline = time.monotonic() + WAIT_S
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.01)
    return Target(listening.getsockname()[1], slow, app.state.meters, server, whole)


def observe(query: bytes = b"", body: bytes = BODY) -> bytes:
    head = b"POST /observe%b HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % (query, len(body)) + body


LIVE = b"GET /livez HTTP/1.1\r\nHost: t\r\n\r\n"


def connect(target: Target) -> socket.socket:
    return socket.create_connection(("127.0.0.1", target.port), timeout=WAIT_S)


def replies(connection: socket.socket, count: int) -> list[Received]:
    """Read `count` complete answers."""
    connection.settimeout(WAIT_S)
    received = b""
    while True:
        received += connection.recv(1 << 20)
        head, _, body = received.rpartition(b"\r\n\r\n")
        length = head.rpartition(b"content-length: ")[2].split(b"\r\n")[0]
        if received.count(b"HTTP/1.1 ") == count and len(body) == int(length or -1):
            return read_replies(received)


def silent(connection: socket.socket, seconds: float = 0.3) -> bool:
    connection.settimeout(seconds)
    try:
        connection.recv(1)
    except TimeoutError:
        return True
    return False


def test_an_answer_may_come_later(target: Target) -> None:
    with connect(target) as connection:
        for status in (1, 2):
            connection.sendall(observe())
            target.slow.wait()
            assert silent(connection)
            target.slow.answer(status)
            assert [(reply.status, reply.body) for reply in replies(connection, 1)] == [(202, b"%d" % status)]
        assert silent(connection)
    assert target.counted(202) == 2


def test_requests_behind_it_wait_for_it_in_order(target: Target) -> None:
    with connect(target) as connection:
        connection.sendall(observe() + LIVE + observe(b"?aside") + LIVE)
        target.slow.wait()
        assert silent(connection)
        target.slow.answer("first")
        received = replies(connection, 4)
    assert [reply.status for reply in received] == [202, 200, 200, 200]
    assert [received[0].body, received[2].body] == [b'"first"', b'"aside"']


def test_a_request_that_comes_while_it_waits_is_answered_after_it(target: Target) -> None:
    with connect(target) as connection:
        connection.sendall(observe())
        target.slow.wait()
        connection.sendall(LIVE)
        assert silent(connection)
        target.slow.answer()
        assert [reply.status for reply in replies(connection, 2)] == [202, 200]
        connection.sendall(observe())  # and the connection is as new
        target.slow.wait()
        target.slow.answer()
        assert [reply.status for reply in replies(connection, 1)] == [202]


def test_a_connection_that_is_lost_meanwhile_affects_no_other(target: Target) -> None:
    connection = connect(target)
    connection.sendall(observe() + LIVE)
    target.slow.wait()
    connection.close()
    time.sleep(0.2)
    target.slow.answer()
    assert target.slow.failed == []
    assert target.counted(202) == 1
    with connect(target) as other:
        other.sendall(LIVE)
        assert [reply.status for reply in replies(other, 1)] == [200]


def test_a_client_that_has_sent_the_whole_request_is_answered(target: Target) -> None:
    with connect(target) as connection:
        connection.sendall(observe())
        connection.shutdown(socket.SHUT_WR)
        target.slow.wait()
        assert silent(connection)
        target.slow.answer()
        received = listen_to(connection)
    assert [reply.status for reply in received.replies] == [202]
    assert received.closed


def test_nonsense_behind_it_is_refused_after_it(target: Target) -> None:
    with connect(target) as connection:
        connection.sendall(observe() + b"nonsense\r\n\r\n")
        target.slow.wait()
        assert silent(connection)
        target.slow.answer()
        received = listen_to(connection)
    assert received.told == [(202, ""), (400, "malformed_request")]
    assert received.closed


def test_a_connection_that_waits_for_its_answer_is_not_idle() -> None:
    with ExitStack() as stack:
        target = begin(stack, connection_bounds(idle_s=0.3, head_s=0.3, body_idle_s=0.3))
        with connect(target) as connection:
            connection.sendall(observe())
            target.slow.wait()
            assert silent(connection, 1.0)
            target.slow.answer()
            received = listen_to(connection, 2.0)
            assert [reply.status for reply in received.replies] == [202]
            assert received.closed  # and afterwards it is


def test_the_stop_waits_for_it() -> None:
    with ExitStack() as stack:
        target = begin(stack)
        connection = stack.enter_context(connect(target))
        connection.sendall(observe())
        target.slow.wait()
        target.stop()
        assert silent(connection, 0.5)
        assert not target.service.engine.stopping
        target.slow.answer()
        received = listen_to(connection)
        assert [(reply.status, reply.headers["connection"]) for reply in received.replies] == [(202, "close")]
        assert received.closed


def test_a_stop_that_has_waited_long_enough_cuts_it() -> None:
    with ExitStack() as stack:
        target = begin(stack, stop_s=1)
        connection = stack.enter_context(connect(target))
        connection.sendall(observe())
        target.slow.wait()
        target.stop()
        received = listen_to(connection)
        assert received.replies == []
        assert received.closed


def test_a_second_answer_is_a_fault(target: Target) -> None:
    with connect(target) as connection:
        connection.sendall(observe())
        target.slow.wait()
        target.slow.waiting *= 2
        target.slow.answer()
        target.slow.answer()
        assert [reply.status for reply in replies(connection, 1)] == [202]
    assert len(target.slow.failed) == 1


def test_a_refusal_and_a_fault_are_answered(target: Target, caplog: pytest.LogCaptureFixture) -> None:
    with connect(target) as connection:
        connection.sendall(observe(b"?refuse"))
        assert [reply.status for reply in replies(connection, 1)] == [422]
        for query in (b"?fail", b"?broken"):
            connection.sendall(observe(query))
            assert [(reply.status, reply.code) for reply in replies(connection, 1)] == [(500, "internal")]
        connection.sendall(observe(b"?aside"))
        assert [(reply.status, reply.body) for reply in replies(connection, 1)] == [(200, b'"aside"')]
    assert [record.message for record in caplog.records] == ["POST /observe failed"] * 2
    assert target.slow.waiting == []


def test_a_reply_may_be_work_that_is_still_to_be_done(target: Target) -> None:
    with connect(target) as connection:
        for work, expected in ((target.slow.aside, (200, b'"aside"')), (target.slow.broken, (500, None))):
            connection.sendall(observe() + LIVE)
            target.slow.wait()
            loop, reply = target.slow.waiting.pop(0)
            loop.call_soon_threadsafe(reply, Aside(work))
            first, second = replies(connection, 2)
            assert (first.status, first.body if expected[1] else None) == expected
            assert second.status == 200
