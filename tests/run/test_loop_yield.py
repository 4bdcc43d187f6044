from __future__ import annotations

import asyncio
import select
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
import uvloop

from riata.run.writer.loop_yield import PAUSE_S, REST_S, LoopYield, waits_at

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="no thread yields elsewhere")


@dataclass
class Times:
    """A stopped clock, and a list of the pauses that were made."""

    now_s: float = 1.0
    pauses: list[float] = field(default_factory=list)


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> Times:
    made = Times()
    monkeypatch.setattr(time, "monotonic", lambda: made.now_s)
    monkeypatch.setattr(time, "sleep", made.pauses.append)
    return made


@dataclass
class Door:
    """A thread that waits at an epoll for data from a client, and a thread that yields to it."""

    client: socket.socket
    served: socket.socket
    epoll: select.epoll
    yield_to_loop: LoopYield


@pytest.fixture
def door() -> Iterator[Door]:
    client, served = socket.socketpair()
    with client, served, select.epoll() as epoll:
        epoll.register(served, select.EPOLLIN)
        yield_to_loop = LoopYield()
        yield_to_loop.to(epoll.fileno())
        yield Door(client, served, epoll, yield_to_loop)


@ON_LINUX
def test_a_pause_is_made_while_something_waits_to_be_read_and_not_otherwise(door: Door, times: Times) -> None:
    door.yield_to_loop()
    assert times.pauses == []
    door.client.send(b"GET")
    door.epoll.poll()  # the loop is awake, and has not read it
    door.yield_to_loop()
    assert times.pauses == [PAUSE_S]
    door.served.recv(3)
    times.now_s += 2 * REST_S
    door.yield_to_loop()
    assert times.pauses == [PAUSE_S]


@ON_LINUX
def test_a_thread_that_has_just_yielded_continues_for_a_while(door: Door, times: Times) -> None:
    door.client.send(b"GET")
    for _ in range(3):
        door.yield_to_loop()
    assert len(times.pauses) == 1
    times.now_s += REST_S
    door.yield_to_loop()
    assert len(times.pauses) == 2


@ON_LINUX
def test_no_thread_yields_to_a_loop_that_is_closed_or_has_no_selector(door: Door, times: Times) -> None:
    door.client.send(b"GET")
    door.epoll.close()
    door.yield_to_loop()
    other = LoopYield()
    other()
    other.to(None)
    other()
    assert times.pauses == []


@ON_LINUX
def test_the_loop_of_the_service_reports_its_selector() -> None:
    async def is_seen() -> bool:
        loop = asyncio.get_running_loop()
        descriptor = waits_at(loop)
        assert descriptor is not None
        seen = select.poll()
        seen.register(descriptor, select.POLLIN)
        while seen.poll(0):  # what it has put there itself
            await asyncio.sleep(0)
        client, served = socket.socketpair()
        with client, served:
            served.setblocking(False)
            loop.add_reader(served, lambda: None)
            await asyncio.sleep(0.01)
            assert not seen.poll(0)
            client.send(b"GET")
            found = bool(seen.poll(0))
            loop.remove_reader(served)
        return found

    assert uvloop.run(is_seen())


def test_another_loop_reports_nothing() -> None:
    loop = asyncio.SelectorEventLoop()
    assert waits_at(loop) is None
    loop.close()
