"""The proxy makes the faults that it promises, so that each row of the fault matrix has the fault it names."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.chaos.proxy import Proxy


@pytest.fixture
def echo() -> Iterator[int]:
    """A port that echoes every byte."""
    server = socket.create_server(("127.0.0.1", 0))
    ends: list[socket.socket] = []

    def serve() -> None:
        while True:
            try:
                end, _ = server.accept()
            except OSError:
                return
            ends.append(end)
            threading.Thread(target=answer, args=(end,), daemon=True).start()

    def answer(end: socket.socket) -> None:
        try:
            while piece := end.recv(65_536):
                end.sendall(piece)
            end.sendall(b"end")
        except OSError:
            pass

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield server.getsockname()[1]
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    thread.join()
    for end in ends:
        end.close()


@pytest.fixture
def proxy(echo: int) -> Iterator[Proxy]:
    with Proxy(echo) as found:
        yield found


@pytest.fixture
def client(proxy: Proxy) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=5) as end:
        yield end


def say(client: socket.socket, text: bytes, back: int) -> bytes:
    """Send, and wait for `back` bytes of answer, or fewer if the connection ends."""
    client.sendall(text)
    return receive(client, back)


def receive(client: socket.socket, back: int) -> bytes:
    received = b""
    while len(received) < back and (piece := client.recv(65_536)):
        received += piece
    return received


def silent(client: socket.socket, for_s: float) -> bool:
    client.settimeout(for_s)
    try:
        return not client.recv(1)
    except TimeoutError:
        return True
    finally:
        client.settimeout(5)


def test_without_a_fault_everything_passes(client: socket.socket) -> None:
    assert say(client, b"x" * 200_000, 200_000) == b"x" * 200_000


def test_a_delay_is_paid_both_ways(proxy: Proxy, client: socket.socket) -> None:
    proxy.delay_s = 0.1
    began = time.monotonic()
    assert say(client, b"hello", 5) == b"hello"
    assert time.monotonic() - began >= 0.2


def test_dropped_replies_do_not_arrive_and_later_ones_do(proxy: Proxy, client: socket.socket) -> None:
    proxy.drop_replies = True
    client.sendall(b"lost")
    assert silent(client, 0.2)
    assert proxy.dropped == 1
    proxy.heal()
    assert say(client, b"kept", 4) == b"kept"


def test_frozen_nothing_moves_and_thawed_all_arrives(proxy: Proxy, client: socket.socket) -> None:
    proxy.frozen = True
    client.sendall(b"late")
    assert silent(client, 0.2)
    proxy.heal()
    assert receive(client, 4) == b"late"


def test_held_requests_are_executed_later(proxy: Proxy, client: socket.socket) -> None:
    proxy.hold_requests = True
    client.sendall(b"held")
    assert silent(client, 0.2)
    assert proxy.requests == 0
    proxy.heal()
    assert receive(client, 4) == b"held"


def test_a_connection_is_cut_after_so_many_bytes_of_answers(proxy: Proxy, client: socket.socket) -> None:
    proxy.cut_after(3)
    with contextlib.suppress(ConnectionResetError):  # the reset may overtake what was sent before it
        assert say(client, b"abcdef", 6) == b"abc"
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=5) as again:
        proxy.cut_after(None)
        assert say(again, b"abcdef", 6) == b"abcdef"


def test_a_cut_ends_what_is_open_and_a_refusal_what_is_new(proxy: Proxy, client: socket.socket) -> None:
    assert say(client, b"x", 1) == b"x"
    proxy.refuse = True
    proxy.cut()
    with contextlib.suppress(ConnectionResetError):
        assert client.recv(1) == b""
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=5) as refused, contextlib.suppress(ConnectionResetError):
        assert refused.recv(1) == b""


def test_half_closed_the_target_sees_the_end_and_still_answers(proxy: Proxy, client: socket.socket) -> None:
    assert say(client, b"x", 1) == b"x"
    proxy.half_close()
    assert receive(client, 3) == b"end"


def test_a_slow_link_has_its_stated_rate(proxy: Proxy, client: socket.socket) -> None:
    proxy.trickle_bytes = 400
    began = time.monotonic()
    assert say(client, b"x" * 100, 100) == b"x" * 100
    assert time.monotonic() - began >= 0.2  # the last of its five pieces is not waited for
