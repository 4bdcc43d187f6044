"""A client that asks again and again hears the same whether its connection is heard with others or read by the event loop."""

from __future__ import annotations

import itertools
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from riata.base.cores import cores
from riata.predict.heard import AT_ONCE
from riata.run.warm_up import warm_up
from riata.web.app import create_app
from riata.web.fast_protocol import FastProtocol
from riata.web.settings import WebSettings
from tests.doubles.manual_clock import ManualClock
from tests.web.serving import serving
from tests.web.test_again import LEARNT, NOW_MS, A, B, Taking, get, post, to_learn

MANY = 60  # requests; the loop takes some of them however the threads are scheduled
Heard = list[bool]


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
def served(busy_poll_us: int, heard: bool = True) -> Iterator[int]:
    service = Taking(ManualClock(NOW_MS))
    service.all["default"].weights = {slot: slot % 7 - 3.5 for slot in range(0, 2**22, 9999)}
    app = create_app(service, service, WebSettings(busy_poll_us=busy_poll_us), service.clock)
    if not heard:
        app.state.fast_lane.audience.enter = lambda _: None
    with serving(app) as port:
        yield port


@pytest.fixture(scope="module")
def read() -> Iterator[int]:
    """A server whose loop reads everything."""
    warm_up()
    with served(0, heard=False) as port:
        yield port


@pytest.fixture
def listened(monkeypatch: pytest.MonkeyPatch) -> Heard:
    """Whether a request was answered, whenever one was heard."""
    found: Heard = []
    answer = FastProtocol.answer

    def answering(*given: object) -> bool:
        found.append(answer(*given))  # type: ignore[arg-type]
        return found[-1]

    monkeypatch.setattr(FastProtocol, "answer", answering)
    return found


@pytest.fixture(params=[0, 200_000])
def together(request: pytest.FixtureRequest) -> Iterator[int]:
    """One whose loop sleeps at once, and one that listens for long enough for any client."""
    if request.param and cores() == 1:
        pytest.skip("on one core nothing is polled")
    with served(request.param) as port:
        yield port


def test_rows_are_answered_the_same(read: int, together: int, listened: Heard) -> None:
    ends = [Client(port) for port in (read, together)]
    asked = [get(b"a=1"), get(b"b=2&c=x"), get(b"a=1&a=2"), post(A), post(B), post(b"{"), post(b"[" + A + b"]"), get(b"a=%41")]
    for request in [*asked, *itertools.islice(itertools.cycle([get(b"a=1"), get(b"b=2")]), MANY), post(A), *[post(B)] * MANY]:
        first, second = [end.say(request) for end in ends]
        assert first == second
    for end in ends:
        end.close()
    assert Counter(listened)[True] > MANY, "most requests were heard"


def test_rows_to_learn_are_taken_the_same(listened: Heard) -> None:
    row, other = to_learn(LEARNT), to_learn(b'{"features":{"bb":2.5,"c":-1},"label":0}')
    said = [row, row, *[other] * MANY, post(A), *[row] * MANY, to_learn(b"[" + LEARNT + b"]"), row + row, *[row] * MANY]
    with served(0, heard=False) as read, served(100) as together:
        ends = [Client(port) for port in (read, together)]
        for request in said:
            for end in ends:
                end.socket.sendall(request)
            for _ in range(request.count(b"POST")):
                first, second = [end.hear() for end in ends]
                assert first == second
        for end in ends:
            end.close()
    assert Counter(listened)[True] > MANY, "most requests were heard"


def test_parts_and_several_at_once_are_read_whole(read: int, together: int, listened: Heard) -> None:
    ends = [Client(port) for port in (read, together)]
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


def test_others_are_answered_meanwhile(together: int, listened: Heard) -> None:
    first, second = Client(together), Client(together)
    expected = first.say(post(A))
    for _ in range(MANY):
        assert first.say(post(A)) == first.say(post(A)) == second.say(post(A)) == expected
    first.close()
    assert [second.say(post(A)) for _ in range(MANY)] == [expected] * MANY
    second.close()
    assert Counter(listened)[True] > 0


def test_a_client_that_has_said_all_hears_the_end(together: int, listened: Heard) -> None:
    for _ in range(10):
        client = Client(together)
        for _ in range(5):
            client.say(get(b"a=1"))
        client.socket.shutdown(socket.SHUT_WR)
        assert client.file.read() == b""
        client.close()
    for _ in range(10):
        client = Client(together)
        for _ in range(5):
            client.say(get(b"a=1"))
        client.socket.sendall(get(b"b=1"))
        client.socket.shutdown(socket.SHUT_WR)
        assert client.hear().startswith(b"HTTP/1.1 200")
        assert client.file.read() == b""
        client.close()
    assert Counter(listened)[True] > 0


def test_many_at_once_are_all_answered(together: int, listened: Heard) -> None:
    clients = [Client(together) for _ in range(AT_ONCE + 20)]
    expected = [client.say(post(A)) for client in clients]
    for _ in range(5):
        for client in clients:
            client.socket.sendall(post(A))
        assert [client.hear() for client in clients] == expected
    for client in clients[::2]:
        client.close()
    assert [client.say(post(A)) for client in clients[1::2]] == expected[1::2]
    for client in clients[1::2]:
        client.close()
    assert Counter(listened)[True] > 4 * len(clients)


def test_what_fails_is_the_connection_s_own(together: int, listened: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    clients = [Client(together) for _ in range(3)]
    expected = [[client.say(post(A)) for client in clients] for _ in range(3)][-1]
    failed: list[FastProtocol] = []
    answer = FastProtocol.answer

    def failing(protocol: FastProtocol, document: bytes, started: float) -> bool:
        if not failed:
            failed.append(protocol)
            raise RuntimeError("this was to be expected")
        return answer(protocol, document, started)

    monkeypatch.setattr(FastProtocol, "answer", failing)
    clients[0].socket.sendall(post(A))
    assert clients[0].file.read() == b"", "it is over"
    assert [client.say(post(A)) for client in clients[1:]] == expected[1:]
    for client in clients:
        client.close()
    assert True in listened
