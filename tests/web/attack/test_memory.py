"""What unfinished long bodies take of a real process, and that it is given back after them."""

from __future__ import annotations

import contextlib
import socket
import time
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.bench.service import MIB, memory
from tests.chaos.repeats import slow
from tests.running import Running, wait_for
from tests.settings import web_settings
from tests.web.attack.raw import ROW, post, talk

UNFINISHED = 48
BODY_BYTES = 15 * MIB
CHUNK_BYTES = 2**16
MORE = 1.2  # resident over counted: what is copied while a body goes from one reader to another
RATIO_MAX = 1.3  # of what is left afterwards
HELD_S = 3.0
LINE = b'{"features":{"a":1.5,"country":"de"},"label":1}\n'


def without_end(chunked: bool) -> bytes:
    """A request whose body lacks its last bytes."""
    body = (LINE * (BODY_BYTES // len(LINE)))[:-200_000]
    if not chunked:
        return post(body, length=BODY_BYTES)
    chunks = (b"%x\r\n%b\r\n" % (CHUNK_BYTES, body[:CHUNK_BYTES])) * (len(body) // CHUNK_BYTES)
    return post(b"", b"Transfer-Encoding: chunked").replace(b"Content-Length: 0\r\n", b"") + chunks


def answer_of(link: socket.socket) -> bytes | None:
    """What has been answered until now; empty if the connection was closed, None if it is held."""
    link.settimeout(0)
    try:
        return link.recv(4096)
    except BlockingIOError:
        return None
    except OSError:
        return b""


@pytest.mark.parametrize("chunked", [slow(False), True], ids=["announced", "chunked"])
def test_unfinished_bodies_take_no_more_than_is_counted_and_give_it_back(chunked: bool, tmp_path: Path) -> None:
    sent = without_end(chunked)
    with Running(tmp_path / "data") as running, ExitStack() as stack, ThreadPoolExecutor(UNFINISHED) as pool:
        running.start()
        assert talk(running.port, post(ROW)).told == [(202, "")]
        before = peak = memory(running.process.pid)
        links = [
            stack.enter_context(socket.create_connection(("127.0.0.1", running.port), timeout=120)) for _ in range(UNFINISHED)
        ]

        def send(link: socket.socket) -> None:
            with contextlib.suppress(OSError):  # refused
                link.sendall(sent)

        sending = [pool.submit(send, link) for link in links]
        held_until = time.monotonic() + HELD_S
        while wait(sending, 0.25).not_done or time.monotonic() < held_until:
            peak = max(peak, memory(running.process.pid))
        assert talk(running.port, post(ROW)[:-10], post(ROW)[-10:]).told == [(202, "")], "small bodies go on"
        answers = [answer_of(link) for link in links]
        assert None in answers, "none is held"
        assert any(answer == b"" or b'"code":"bodies_full"' in answer for answer in answers if answer is not None)
        assert peak - before <= MORE * web_settings().bodies_bytes_max
        assert peak > RATIO_MAX * before, "it was no load"
        stack.close()
        wait_for("the memory is given back", lambda: memory(running.process.pid) < RATIO_MAX * before)
