"""What long bodies take of a real process, and that it is given back after them."""

from __future__ import annotations

import socket
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bench.service import memory
from tests.chaos.repeats import slow
from tests.running import Running
from tests.settings import web_settings
from tests.web.attack import long_bodies as load

GIVEN_BACK_S = 90.0  # of rest on a busy machine; an idle one needs 15
MORE = 1.2  # resident over counted: what is copied while a body goes from one reader to another
SMALL = b'{"features": {"a": 1.0}, "label": 1}'


def given_back(running: Running, before: int) -> bool:
    """Whether memory has nearly returned to its initial value."""
    until = time.monotonic() + GIVEN_BACK_S
    while memory(running.process.pid) > load.RATIO_MAX * before:
        if time.monotonic() > until:
            return False
        time.sleep(0.2)
    return True


def small_in_two_parts(port: int) -> bytes:
    """The answer to a short body that arrives separately from its head."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as link:
        link.sendall(b"POST /observe HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n")
        link.sendall(b"Content-Length: %d\r\n\r\n" % len(SMALL) + SMALL[:10])
        time.sleep(0.2)
        link.sendall(SMALL[10:])
        return link.recv(4096)


@pytest.mark.parametrize("chunked", [slow(False), True], ids=["announced", "chunked"])
def test_unfinished_bodies_take_no_more_than_is_counted_and_give_it_back(chunked: bool, tmp_path: Path) -> None:
    small: list[bytes] = []

    def loaded(port: int) -> Counter[str]:
        return load.unfinished(port, chunked, meanwhile=lambda: small.append(small_in_two_parts(port)))

    curve = loaded_service(tmp_path, loaded, [load.rows(load.WARM_ROWS, 9)])
    assert curve.answers["bodies_full"] + curve.answers["closed"] > 0, curve.answers
    assert curve.answers["held"] > 0, curve.answers
    assert curve.peak - curve.before <= MORE * web_settings().bodies_bytes_max
    assert small[0].startswith(b"HTTP/1.1 202"), small


@pytest.mark.slow
def test_a_bulk_overload_gives_its_memory_back(tmp_path: Path) -> None:
    bodies = load.bulk_bodies()
    curve = loaded_service(tmp_path, lambda port: load.bulk(port, bodies, 8.0), bodies)
    assert curve.peak > 1.5 * load.RATIO_MAX * curve.before, "it was no overload"


def loaded_service(tmp_path: Path, work: Callable[[int], Counter[str]], first: list[bytes]) -> load.Curve:
    """A service under a load, and after the load, when its memory has been returned."""
    with Running(tmp_path / "data") as running:
        running.start()
        load.warm(running, first)
        curve = load.measure(running, work, rest_s=0.0)
        assert given_back(running, curve.before), (curve.before, memory(running.process.pid))
    return curve
