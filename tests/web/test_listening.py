"""A client that asks again at once hears the same whether its connection is listened to or read by the event loop."""

from __future__ import annotations

import itertools
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from riata.base.clock import ManualClock
from riata.predict import heard, one_row
from riata.web.app import create_app
from riata.web.busy_poll import cores
from riata.web.fast_lane import FastLane
from riata.web.settings import WebSettings
from riata.wire import parse
from tests.web.serving import serving
from tests.web.test_again import NOW_MS, A, B, Taking, get, post

MANY = 60  # requests; the loop takes some of them however the threads are scheduled
Heard = list[bytes | None]


class Client:
    """A connection that reads whole answers."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")

    def say(self, said: bytes) -> bytes:
        self.socket.sendall(said)
        return self.hear()

    def hear(self) -> bytes:
        """The next answer, but for the date."""
        head = list(iter(self.file.readline, b"\r\n"))
        size = next(int(line.split(b":")[1]) for line in head if line.startswith(b"content-length"))
        return b"".join(line for line in head if not line.startswith(b"date")) + self.file.read(size)

    def close(self) -> None:
        self.file.close()
        self.socket.close()


@contextmanager
def served(busy_poll_us: int) -> Iterator[int]:
    service = Taking(ManualClock(NOW_MS))
    service.all["default"].weights = {slot: slot % 7 - 3.5 for slot in range(0, 2**22, 9999)}
    app = create_app(service, service, WebSettings(busy_poll_us=busy_poll_us), service.clock)
    with serving(app) as port:
        yield port


@pytest.fixture(scope="module")
def asleep() -> Iterator[int]:
    """A server whose loop reads everything."""
    for room in (parse, one_row, heard):
        room.warm_up()
    with served(0) as port:
        yield port


@pytest.fixture
def listened(monkeypatch: pytest.MonkeyPatch) -> Heard:
    """What listening gave, whenever somebody listened."""
    found: Heard = []
    listen = FastLane.listen

    def listening(*given: object) -> bytes | None:
        found.append(listen(*given))  # type: ignore[arg-type]
        return found[-1]

    monkeypatch.setattr(FastLane, "listen", listening)
    return found


@pytest.fixture
def awake() -> Iterator[int]:
    """One that listens for long enough for any client."""
    if cores() == 1:
        pytest.skip("on one core nothing is polled")
    with served(200_000) as port:
        yield port


def test_rows_are_answered_the_same(asleep: int, awake: int, listened: Heard) -> None:
    ends = [Client(port) for port in (asleep, awake)]
    asked = [get(b"a=1"), get(b"b=2&c=x"), get(b"a=1&a=2"), post(A), post(B), post(b"{"), post(b"[" + A + b"]"), get(b"a=%41")]
    for request in [*asked, *itertools.islice(itertools.cycle([get(b"a=1"), get(b"b=2")]), MANY), post(A), *[post(B)] * MANY]:
        first, second = [end.say(request) for end in ends]
        assert first == second
    for end in ends:
        end.close()
    answered = Counter(listened)[b""]
    assert answered > MANY // 2, "most requests were answered by listening"
    assert any(listened), "and some came that have to be read"


def test_parts_and_several_at_once_are_read_whole(asleep: int, awake: int, listened: Heard) -> None:
    ends = [Client(port) for port in (asleep, awake)]
    for end in ends:
        for _ in range(3):
            end.say(post(A))
    for at in range(1, len(post(B)), 7):
        for part in (post(B)[:at], post(B)[at:]):
            for end in ends:
                end.socket.sendall(part)
        first, second = [end.hear() for end in ends]
        assert first == second
    for _ in range(MANY):
        for end in ends:
            end.socket.sendall(post(A) + post(B) + get(b"a=1"))
        heard_of = [[end.hear() for _ in range(3)] for end in ends]
        assert heard_of[0] == heard_of[1]
    for end in ends:
        end.close()
    assert any(listened)


def test_others_are_answered_meanwhile(awake: int, listened: Heard) -> None:
    first, second = Client(awake), Client(awake)
    expected = first.say(post(A))
    for _ in range(MANY):
        assert first.say(post(A)) == first.say(post(A)) == second.say(post(A)) == expected
    first.close()
    assert [second.say(post(A)) for _ in range(MANY)] == [expected] * MANY
    second.close()
    assert Counter(listened)[b""] > 0


def test_a_client_that_has_said_all_hears_the_end(awake: int, listened: Heard) -> None:
    for _ in range(10):
        client = Client(awake)
        for _ in range(5):
            client.say(get(b"a=1"))
        client.socket.shutdown(socket.SHUT_WR)
        assert client.file.read() == b""
        client.close()
    for _ in range(10):
        client = Client(awake)
        for _ in range(5):
            client.say(get(b"a=1"))
        client.socket.sendall(get(b"b=1"))
        client.socket.shutdown(socket.SHUT_WR)
        assert client.hear().startswith(b"HTTP/1.1 200")
        assert client.file.read() == b""
        client.close()
    assert Counter(listened)[b""] > 0
