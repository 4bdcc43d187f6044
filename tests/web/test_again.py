"""A request whose head is the one before it is answered as if it had been parsed, or is parsed.

Two connections are told the same and answer the same; one of them forgets every head, so that everything goes through its
parser, and one is heard together with others of its kind once it has said the same head twice.
"""

from __future__ import annotations

import asyncio
import random
import re
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest
import uvicorn
from fastapi import FastAPI
from uvicorn.server import ServerState

from riata.run.outcome import Observed
from riata.run.pending_reply import Told
from riata.run.published import Published
from riata.run.warm_up import warm_up
from riata.web.again import Again, Quick, learn
from riata.web.app import create_app
from riata.web.bounds import Bounds, ListenerState
from riata.web.buckets import Buckets
from riata.web.fast_lane import FastLane, FastRequest, HotLine
from riata.web.fast_protocol import FastProtocol
from riata.web.gate import Gate, KeysFile
from riata.web.keys import Key, KeyEntry, digest_of, new_token, ring_of
from riata.web.settings import WebSettings
from tests.doubles.manual_clock import ManualClock
from tests.web.fake_service import FakeService

NOW_MS = 1_800_000_000_000
READER, BRIEF, HASTY = (new_token(name) for name in ("reader", "brief", "hasty"))
ENTRIES = [
    KeyEntry("reader", digest_of(READER), ["predict", "observe"], "*"),
    KeyEntry("brief", digest_of(BRIEF), ["predict"], "*", expires=datetime.fromtimestamp(NOW_MS / 1000 + 30, UTC)),
    KeyEntry("hasty", digest_of(HASTY), ["predict", "observe"], "*", requests_per_s=1.0),
]


class Wire:
    """A transport, and its socket, that keeps what is written."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.write = self.heard.append
        self.over = self.paused = False

    def get_extra_info(self, name: str, default: object = None) -> object:
        return self if name == "socket" else default

    def fileno(self) -> int:
        return -1

    def getsockname(self) -> tuple[str, int]:
        return "127.0.0.1", 1

    getpeername = getsockname

    def is_closing(self) -> bool:
        return self.over

    def get_write_buffer_size(self) -> int:
        return 0

    def write_eof(self) -> None:
        self.heard.append(b"<eof>")

    def close(self) -> None:
        self.over = True

    abort = close

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False


class Forgetful(FastLane):
    """Has every request parsed."""

    def learn(self, data: bytes, request: FastRequest, target: bytes, target_bytes_max: int) -> Again | None:  # noqa: ARG002
        return None


@dataclass
class Connection:
    """One connection of one application."""

    app: FastAPI
    service: FakeService
    bounds: Bounds
    KIND: ClassVar[type[FastProtocol]] = FastProtocol

    def __post_init__(self) -> None:
        lane: FastLane = self.app.state.fast_lane
        config = uvicorn.Config(self.app, ws="none", lifespan="off", log_config=None)
        config.load()
        self.state, self.wire = ServerState(), Wire()
        self.state.default_headers = [(b"date", b"today")]
        self.protocol = self.KIND(ListenerState(self.bounds), lane, config=config, server_state=self.state, app_state={})
        self.protocol.connection_made(cast(asyncio.Transport, self.wire))

    async def say(self, *parts: bytes) -> bytes:
        """Hand over what a client sends, and return what it hears."""
        for part in parts:
            self.tell(part)
        at = self.protocol
        waits = at.in_head or at.in_body or at.flow.write_paused  # for more to come, or for the client to take what is written
        while (self.state.tasks or at.stand_in is not None) and not waits:
            if self.state.tasks:
                await asyncio.wait(self.state.tasks, timeout=5)
            await asyncio.sleep(0)
        heard = b"".join(self.wire.heard)
        self.wire.heard.clear()
        return heard

    def tell(self, part: bytes) -> None:
        self.protocol.data_received(part)

    async def leave(self) -> None:
        self.protocol.connection_lost(None)
        if self.state.tasks:
            await asyncio.wait(self.state.tasks, timeout=5)


class Counted(FastProtocol):
    """Counts what it is given to read."""

    read = 0

    def data_received(self, data: bytes) -> None:
        self.read += 1
        super().data_received(data)


class Listening(Connection):
    """A connection with a socket."""

    KIND = Counted
    listened = 0  # requests that were heard and not read

    def __post_init__(self) -> None:
        super().__post_init__()
        self.client, self.socket = socket.socketpair()
        self.client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        self.protocol.socket = self.socket.fileno()

    @property
    def is_expected(self) -> bool:
        """Whether it is heard, and not read."""
        return self.protocol.fast.audience.expects(self.protocol)

    def tell(self, part: bytes) -> None:
        protocol = cast(Counted, self.protocol)
        read, heard = protocol.read, len(self.wire.heard)
        if not part:
            protocol.data_received(part)
            return
        self.client.sendall(part)
        if self.is_expected:
            protocol.fast.audience.hear()
        else:
            protocol.data_received(self.socket.recv(1 << 20))
        self.listened += protocol.read == read and (protocol.stand_in is not None or len(self.wire.heard) > heard)

    async def leave(self) -> None:
        await super().leave()
        self.client.close()
        self.socket.close()


class Taking(FakeService):
    """Answers a small body of one object once the event loop has gone round; others have to go by themselves."""

    seen: tuple[object, ...] = ()

    def now(self, model: str) -> tuple[Published, float]:
        """What is served stays the same until something changes, as in the service."""
        at, stale_s = self.model(model), self.stale_s(model)
        state = (model, at.learnt, at.seq, self.clock.now_ms, stale_s)
        if state != self.seen:
            self.seen, self.served = state, self.published(model)
        return self.served, stale_s

    def observe_soon(self, model: str, body: bytes, content_type: str, key: str | None, told: Told) -> bool:  # noqa: ARG002
        self.model(model)
        if not body.startswith(b"{"):
            return False
        self.taken = getattr(self, "taken", 0) + 1
        asyncio.get_running_loop().call_soon(told, Observed(1, 0, 0, self.taken, [], "memory", False))
        return True


class Both:
    """The two connections, each to an application of its own."""

    def __init__(self, keyed: bool = False, bounds: Bounds | None = None, settings: WebSettings | None = None) -> None:
        self.file = KeysFile(Path("/nowhere"), ring_of(ENTRIES))
        self.bounds = bounds or Bounds()
        self.settings = settings or WebSettings()
        self.ends: list[Connection] = []
        self.houses = [self._house(keyed) for _ in range(2)]
        self.houses[0][0].state.fast_lane.__class__ = Forgetful  # it has no socket

    def _house(self, keyed: bool) -> tuple[FastAPI, FakeService]:
        service = Taking(ManualClock(NOW_MS))
        service.all["default"].weights = {slot: slot % 7 - 3.5 for slot in range(0, 2**22, 9999)}
        service.all["default"].learnt = 7
        gate = Gate(service.clock, self.file, Buckets(1e6, 1e6)) if keyed else None
        return create_app(service, service, self.settings, service.clock, gate=gate), service

    async def connect(self) -> None:
        """Leave, where there are connections, and open new ones."""
        await self.leave()
        kinds = (Connection, Listening)
        self.ends = [kind(app, service, self.bounds) for kind, (app, service) in zip(kinds, self.houses, strict=True)]

    async def leave(self) -> None:
        for end in self.ends:
            await end.leave()

    async def same(self, *parts: bytes) -> bytes:
        """Say the same to all; return what they answer, which has to be the same."""
        first, second = [await end.say(*parts) for end in self.ends]
        assert first == second, parts
        states = [(end.protocol.deaf, end.protocol.in_head, end.protocol.in_body, end.wire.over) for end in self.ends]
        assert states[0] == states[1]
        return first

    @property
    def heard(self) -> Listening:
        """The connection that is heard where it is expected."""
        return cast(Listening, self.ends[1])

    @property
    def is_expected(self) -> bool:
        """Whether it is heard now, and its socket not read by anybody else."""
        assert self.heard.wire.paused or not self.heard.is_expected
        return self.heard.is_expected

    @property
    def again(self) -> int:
        """How many requests were answered, or taken, without parsing."""
        return self.heard.listened


def get(query: bytes, *headers: bytes, path: bytes = b"/predict") -> bytes:
    return b"\r\n".join([b"GET " + path + b"?" + query + b" HTTP/1.1", b"Host: t", *headers, b"", b""])


def post(body: bytes, *headers: bytes, length: bytes | None = None, path: bytes = b"/predict") -> bytes:
    said = b"%d" % len(body) if length is None else length
    head = [b"POST " + path + b" HTTP/1.1", b"Host: t", b"Content-Length: " + said, b"Content-Type: application/json", *headers]
    return b"\r\n".join([*head, b"", body])


def to_learn(body: bytes, *headers: bytes, length: bytes | None = None, path: bytes = b"/observe") -> bytes:
    return post(body, *headers, length=length, path=path)


def bearer(token: str) -> bytes:
    return b"Authorization: Bearer " + token.encode()


def run(act: Callable[[Both], Awaitable[None]], **named: Any) -> None:
    warm_up()

    async def whole() -> None:
        both = Both(**named)
        await both.connect()
        try:
            await act(both)
        finally:
            await both.leave()

    asyncio.run(whole())


def status(heard: bytes) -> int:
    return int(heard.split(b" ", 2)[1]) if heard else 0


A, B = b'{"features":{"a":1}}', b'{"features":{"bb":2.5,"c":-1}}'
# What comes after a request of the same client, with the status, and whether its head is known by then.
QUERIES: list[tuple[bytes, int, bool]] = [
    (get(b"b=2"), 200, True),
    (get(b""), 200, True),
    (get(b"a=1&b=x&c=-2.5e3&d=~"), 200, True),
    (get(b"a=%41"), 200, False),
    (get(b"a=1+2"), 200, False),
    (get(b"a=1#b"), 200, False),
    (get(b"a=1&_explain=true"), 200, False),
    (get(b"a=1&a=2"), 422, False),
    (get(b"a=\xe4"), 400, False),
    (get(b"a=b c"), 400, False),
    (get(b"a=1\r\n"), 400, False),
    (get(b"a=1", b"X: y"), 200, False),
    (get(b"a=1", path=b"/models/default/predict"), 200, False),
    (get(b"a=1", path=b"/models/nobody/predict"), 404, False),
    (get(b"a=1") + get(b"b=1"), 200, False),
    (get(b"a=1 HTTP/1.1\r\nHost: u\r\n\r\nGET /predict?b=1"), 200, False),
    (get(b"a=1").replace(b"1.1", b"1.0"), 200, False),
    (get(b"a=1").replace(b"GET", b"PUT"), 405, False),
    (get(b"a=1").replace(b"Host: t", b"host: t"), 200, False),
    (get(b"a=1")[:-2], 0, False),
    (b"\r\n" + get(b"a=1"), 200, False),
    (post(A), 200, False),
]  # fmt: skip
BODIES: list[tuple[bytes, int, bool]] = [
    (post(B), 200, True),
    (post(A), 200, True),
    (post(b'{"features":{' + b",".join(b'"f%d":1' % k for k in range(99)) + b"}}"), 200, True),
    (post(b'{"features":{"a":"b"}}'), 200, True),
    (post(b'{"features":{"a":"\xc3\xa4"}}'), 200, False),
    (post(b"{"), 400, False),
    (post(b""), 400, False),
    (post(b"[" + A + b"]"), 200, False),
    (post(b'{"features":{"a":1,"a":2}}'), 422, False),
    (post(A, length=b"020"), 200, False),
    (post(A, length=b"+20"), 400, False),
    (post(A, length=b"19"), 400, False),
    (post(A, length=b"21"), 0, False),
    (post(A, length=b"20 "), 200, False),
    (post(A, length=b"20\r\nX: y"), 200, False),
    (post(A, length=b"20\r\nContent-Length: 20"), 400, False),
    (post(A, b"Content-Encoding: gzip"), 415, False),
    (post(A, b"Accept: application/x-ndjson"), 200, False),
    (post(A, path=b"/predict?explain=true"), 200, False),
    (post(A) + post(B), 200, False),
    (post(A).replace(b"json", b"jsox"), 415, False),
    (get(b"a=1"), 200, False),
]  # fmt: skip


LEARNT = b'{"features":{"a":1},"label":1}'
ROWS: list[tuple[bytes, int, bool]] = [
    (to_learn(LEARNT), 202, True),
    (to_learn(b'{"features":{"bb":2.5,"c":-1},"label":0}'), 202, True),
    (to_learn(b"{"), 202, True),  # what is in it is the service's business
    (to_learn(b"[" + LEARNT + b"]"), 202, False),
    (to_learn(b""), 400, False),
    (to_learn(LEARNT, length=b"030"), 202, False),
    (to_learn(LEARNT, length=b"31"), 0, False),
    (to_learn(LEARNT, length=b"30\r\nContent-Length: 30"), 400, False),
    (to_learn(LEARNT, b"Idempotency-Key: k"), 202, False),
    (to_learn(LEARNT) + to_learn(LEARNT), 202, False),
    (to_learn(b"[" + LEARNT + b"]") + to_learn(LEARNT), 202, False),
    (to_learn(LEARNT, path=b"/models/default/observe"), 202, False),
    (to_learn(LEARNT, path=b"/models/nobody/observe"), 404, False),
    (to_learn(LEARNT, path=b"/observe?atomic=true"), 202, False),
    (post(A), 200, False),
]  # fmt: skip


@pytest.mark.parametrize(
    ("first", "cases"), [(get(b"a=1"), QUERIES), (post(A), BODIES), (to_learn(LEARNT), ROWS)], ids=["query", "body", "row"]
)
def test_what_follows_a_request_is_answered_as_if_it_came_first(first: bytes, cases: list[tuple[bytes, int, bool]]) -> None:
    async def act(both: Both) -> None:
        for following, expected, known in cases:
            await both.connect()
            assert status(await both.same(first)) in (200, 202)
            await both.same(first)
            before = both.again
            heard = await both.same(following)
            assert status(heard) == expected, (following, heard)
            assert both.again == before + known, following
            await both.same(first)

    run(act)


def test_a_head_is_known_from_the_second_request_to_the_last() -> None:
    async def act(both: Both) -> None:
        for k in range(5):
            heard = await both.same(post(b'{"features":{"a":%d}}' % 10**k))
            assert heard.count(b"HTTP/1.1 200 ") == 1
        assert both.again == 3, "who says it twice is expected to say it again"
        for k in range(5):
            await both.same(get(b"a=%d" % k))
        assert both.again == 6

    run(act)


def test_who_says_this_and_that_is_not_waited_for() -> None:
    async def act(both: Both) -> None:
        for _ in range(3):
            await both.same(get(b"a=1"))
            await both.same(post(A))
        assert both.again == 0
        assert not both.is_expected
        await both.same(post(A))
        assert both.is_expected
        await both.same(to_learn(LEARNT))
        assert not both.is_expected

    run(act)


@pytest.mark.parametrize(
    "request_of_another_kind", [get(b"a=%41"), post(b'{"features":{"a":"\xc3\xa4"}}'), post(b"[" + A + b"]")]
)
def test_who_asks_for_rows_of_another_kind_is_not_waited_for(request_of_another_kind: bytes) -> None:
    async def act(both: Both) -> None:
        plain = get(b"a=1") if request_of_another_kind.startswith(b"GET") else post(A)
        for _ in range(3):
            assert status(await both.same(request_of_another_kind)) == 200
            assert not both.is_expected
        await both.same(plain)
        assert not both.is_expected
        await both.same(plain)
        assert both.is_expected

    run(act)


def test_what_comes_before_the_answer_waits_for_it() -> None:
    async def act(both: Both) -> None:
        await both.same(to_learn(LEARNT))
        for second in (to_learn(LEARNT), post(A), to_learn(b"[" + LEARNT + b"]")):
            heard = await both.same(to_learn(LEARNT), second)
            assert heard.count(b"HTTP/1.1 20") == 2
            heard = await both.same(to_learn(b"[" + LEARNT + b"]"), second)
            assert heard.count(b"HTTP/1.1 20") == 2
            await both.same(to_learn(LEARNT))
        assert both.again > 0

    run(act)


def test_a_connection_that_is_lost_or_told_to_go_gets_no_further_row() -> None:
    async def act(both: Both) -> None:
        for _ in range(2):
            await both.same(to_learn(LEARNT))
        for end in both.ends:
            end.tell(to_learn(LEARNT))
            end.protocol.shutdown()
        assert b"connection: close" in await both.same()
        assert both.again == 1
        assert await both.same(to_learn(LEARNT)) == b""
        await both.connect()
        for _ in range(2):
            await both.same(to_learn(LEARNT))
        for end in both.ends:
            end.tell(to_learn(LEARNT))
            end.protocol.connection_lost(None)
        assert both.again == 1
        assert not both.is_expected
        await asyncio.sleep(0)
        assert [end.wire.heard for end in both.ends] == [[], []]

    run(act)


def test_what_comes_in_parts_is_parsed_and_what_comes_after_it_is_known() -> None:
    async def act(both: Both) -> None:
        whole = post(B)
        for cut in (1, 30, whole.index(b"\r\n\r\n") + 4, len(whole) - 1):
            await both.same(post(A))
            await both.same(post(A))
            before = both.again
            assert status(await both.same(whole[:cut], whole[cut:])) == 200
            assert both.again == before
            assert not both.is_expected

    run(act)


def test_requests_that_come_together_are_all_answered() -> None:
    async def act(both: Both) -> None:
        await both.same(get(b"a=1"))
        await both.same(get(b"a=1"))
        heard = await both.same(get(b"a=2") + get(b"a=3") + get(b"a=4"))
        assert heard.count(b"HTTP/1.1 200 ") == 3
        assert both.again == 0

    run(act)


def test_a_connection_that_is_on_its_way_out_hears_nothing_more() -> None:
    async def act(both: Both) -> None:
        await both.same(get(b"a=1"))
        await both.same(get(b"a=1"))
        for end in both.ends:
            end.protocol.shutdown()
        assert await both.same(get(b"a=2")) == b""
        assert both.again == 0

    run(act)


def test_who_is_heard_and_says_no_more_is_waited_for_as_long_as_others() -> None:
    async def act(both: Both) -> None:
        for _ in range(3):
            await both.same(get(b"a=1"))
        assert both.is_expected
        now = asyncio.get_running_loop().time()
        for end in both.ends:
            end.protocol.sweep(now + both.bounds.idle_s - 1.0)
        assert status(await both.same(get(b"a=2"))) == 200
        for end in both.ends:
            end.protocol.sweep(now + both.bounds.idle_s + 1.0)
            assert end.wire.over
            end.protocol.connection_lost(None)
        assert not both.is_expected

    run(act)


def test_a_client_that_takes_no_answers_is_not_given_more_of_them() -> None:
    async def act(both: Both) -> None:
        await both.same(get(b"a=1"))
        await both.same(get(b"a=1"))
        for end in both.ends:
            end.protocol.pause_writing()
        assert not both.is_expected
        await both.same(get(b"a=2"))
        assert both.again == 0
        for end in both.ends:
            end.protocol.resume_writing()
        assert status(await both.same(get(b"a=3"))) == 200

    run(act)


def test_a_target_is_no_longer_than_the_bound() -> None:
    async def act(both: Both) -> None:
        await both.same(get(b"a=1"))
        await both.same(get(b"a=1"))
        assert status(await both.same(get(b"a=" + b"x" * 29))) == 200
        assert both.again == 1
        assert status(await both.same(get(b"a=" + b"x" * 30))) == 414

    run(act, bounds=Bounds(target_bytes_max=len(b"/predict?a=") + 29))


def test_a_row_is_no_longer_than_the_bound() -> None:
    async def act(both: Both) -> None:
        for _ in range(3):
            assert status(await both.same(to_learn(LEARNT))) == 202
        assert both.again == 0, "the head says nothing of it"
        assert status(await both.same(to_learn(LEARNT + b" " * 1000))) == 413

    run(act, settings=WebSettings(body_bytes_max=1000))


def test_a_model_that_is_gone_or_too_old_or_newer_is_seen() -> None:
    async def act(both: Both) -> None:
        await both.same(get(b"a=1"))
        first = await both.same(get(b"a=1"))
        for end in both.ends:
            end.service.all["default"].learnt = 8
        second = await both.same(get(b"a=1"))
        assert b'"seq":7,' in first
        assert b'"seq":8,' in second
        assert both.again == 1
        for end in both.ends:
            end.service.stale = 9999.0
        assert status(await both.same(get(b"a=1"))) == 503
        for end in both.ends:
            end.service.stale = 0.0
            del end.service.all["default"]
        assert status(await both.same(get(b"a=1"))) == 404

    run(act)


def test_keys_that_are_in_force_are_asked_for_every_time() -> None:
    async def act(both: Both) -> None:
        for token, expected, known in (
            (BRIEF, 200, 0),
            (BRIEF, 200, 0),
            (BRIEF, 200, 1),
            (READER, 200, 1),
            (READER, 200, 1),
            (READER, 200, 2),
        ):
            assert status(await both.same(get(b"a=1", bearer(token)))) == expected
            assert both.again == known
        wrong = bearer(READER)[:-1] + (b"?" if READER[-1] != "?" else b"!")
        for header in (wrong, b"X: y"):
            assert status(await both.same(get(b"a=1", header))) == 401
        for token, expected in ((BRIEF, 200), (BRIEF, 200)):
            assert status(await both.same(post(A, bearer(token)))) == expected
        for end in both.ends:
            end.service.clock.now_ms += 60_000
        assert status(await both.same(post(A, bearer(BRIEF)))) == 401
        assert [status(await both.same(post(A, bearer(READER)))) for _ in range(2)] == [200, 200]
        both.file.ring = ring_of(ENTRIES)
        known = both.again
        assert [status(await both.same(post(A, bearer(READER)))) for _ in range(2)] == [200, 200]
        assert both.again == known + 1
        rows = [to_learn(LEARNT, bearer(token)) for token in (READER, READER, BRIEF)]
        assert [status(await both.same(request)) for request in rows] == [202, 202, 401]
        await both.same(to_learn(LEARNT, bearer(READER)))
        both.file.ring = ring_of(ENTRIES[1:])
        assert status(await both.same(to_learn(LEARNT, bearer(READER)))) == 401
        assert status(await both.same(post(A, bearer(READER)))) == 401

    run(act, keyed=True)


def test_rates_are_counted_every_time() -> None:
    async def act(both: Both) -> None:
        asked = [get(b"a=%d" % k, bearer(HASTY)) for k in range(4)]
        assert [status(await both.same(request)) for request in asked] == [200, 200, 429, 429]
        assert both.again == 2, "what is refused is heard too"
        for end in both.ends:
            end.service.clock.now_ms += 1000
        assert status(await both.same(asked[0])) == 200
        rows = [to_learn(LEARNT, bearer(HASTY)) for _ in range(4)]
        for again in (3, 4):  # a row that is refused is parsed, and another one after it
            for end in both.ends:
                end.service.clock.now_ms += 10_000
            assert [status(await both.same(request)) for request in rows] == [202, 202, 429, 429]
            assert both.again == again

    run(act, keyed=True)


def test_what_is_counted_is_the_same() -> None:
    async def act(both: Both) -> None:
        for request in (get(b"a=1"), get(b"a=2"), get(b"a=2"), post(A), post(B), get(b"a=1&a=2"), get(b"a=1&_explain=true")):
            await both.same(request)
        for request in (to_learn(LEARNT), to_learn(LEARNT), to_learn(b"[" + LEARNT + b"]"), to_learn(LEARNT)):
            await both.same(request)
        texts = [end.app.state.meters.text() for end in both.ends]
        wanted = re.compile(rb"^riata_(?:requests|rows)_total.*|^riata_request_duration_seconds_count.*", re.MULTILINE)
        assert wanted.findall(texts[0]) == wanted.findall(texts[1]) != []
        assert [end.state.total_requests for end in both.ends] == [11, 11]

    run(act)


def test_changed_bytes_are_met_by_the_parser() -> None:
    draw = random.Random(5)
    put = [b"", b"\r", b"\n", b"\r\n", b" ", b"#", b"%", b"?", b"&", b"=", b"\x00", b"\xff", b":", b"0", b"HTTP/1.1", b"\r\n\r\n"]

    async def act(both: Both) -> None:
        for _ in range(400):
            await both.connect()
            first = draw.choice([get(b"a=1&bc=2"), post(A), post(B, b"X-Y: z")])
            await both.same(first)
            at = draw.randrange(len(first))
            await both.same(first[:at] + draw.choice(put) + first[at + draw.choice([0, 1, 1, 5]) :])
            await both.same(first)
            await both.same(first)

    run(act)


LINES = {b"GET": HotLine("GET", "/predict", lambda *_: None), b"POST": HotLine("POST", "/predict", lambda *_: None)}  # type: ignore[arg-type]


def learnt(data: bytes, body: bytes = b"", target: bytes = b"/predict?a=1", key: Key | None = None) -> Again | None:
    line = LINES[data.lstrip().split(b" ")[0]]
    request = FastRequest(line, "default", target.partition(b"?")[2], [], 0.0, body=body, key=key)
    return learn(data, request, cast(Quick, lambda _row: b""), target, 100)


def test_only_the_usual_form_is_remembered() -> None:
    assert learnt(get(b"a=1")) is not None
    assert learnt(b"\r\n" + get(b"a=1")) is None
    assert learnt(get(b"a=1") + b"\r\n") is None
    assert learnt(get(b"a=1") + get(b"a=1")) is None
    assert learnt(get(b"a=1").replace(b"?a=1", b""), target=b"/predict") is None
    assert learnt(post(A), A, b"/predict") is not None
    assert learnt(post(A, length=b"020"), A, b"/predict") is None
    assert learnt(post(A).replace(b"h: ", b"h:"), A, b"/predict") is None
    assert learnt(post(A).replace(b"h: ", b"h:  "), A, b"/predict") is None
    assert learnt(post(A, b"Content-Length: 20"), A, b"/predict") is None
    assert learnt(post(A) + b"\r\n", A, b"/predict") is None
