"""POST /observe through the fast path and through ASGI: the same bytes, and the errors that only the fast path could make."""

from __future__ import annotations

import gzip
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import httpx
import pytest
from fastapi import FastAPI

from riata.base.settings import Settings
from riata.run.admin import Admin
from riata.run.engine import Engine
from riata.run.service import Service
from riata.web.app import create_app
from riata.web.server import connection, framing
from riata.web.server.body import SMALL_BYTES
from riata.web.server.connection import Connection
from riata.wiring import build_engine
from tests.settings import web_settings
from tests.web.serving import serving

HEAD = "POST {path} HTTP/1.1\r\nHost: h\r\nContent-Type: {kind}\r\n{more}Content-Length: {length}\r\n\r\n"
JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Node:
    """A service behind a socket."""

    port: int
    engine: Engine
    app: FastAPI


def built(fast: bool) -> tuple[FastAPI, Engine]:
    def fatal(reason: str) -> None:
        raise AssertionError(reason)

    engine = build_engine(Settings(store="memory:"), fatal)
    return create_app(Service(engine), Admin(engine), web_settings(fast_path=fast), engine.clock), engine


@pytest.fixture(scope="module")
def houses() -> Iterator[tuple[Node, Node]]:
    """One service with the fast path and one without."""
    (fast, of_fast), (slow, of_slow) = built(True), built(False)
    with serving(fast) as one, serving(slow) as other:
        for port in (one, other):
            while httpx.get(f"http://127.0.0.1:{port}/readyz").status_code != 200:
                time.sleep(0.01)
        yield Node(one, of_fast, fast), Node(other, of_slow, slow)


def row(at: int, **more: object) -> bytes:
    return json.dumps({"features": {f"f{at % 5}": 1.5, "size": float(at)}, "label": at % 2, **more}).encode()


def request(body: bytes, kind: str = JSON, more: str = "", path: str = "/observe") -> bytes:
    return HEAD.format(path=path, kind=kind, more=more, length=len(body)).encode() + body


def answers(link: socket.socket, count: int) -> list[bytes]:
    """This many complete answers, without their dates."""
    data, found = b"", list[bytes]()
    while len(found) < count:
        end = data.find(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", data[: end + 2]) if end >= 0 else None
        if length is not None and len(data) >= end + 4 + int(length[1]):
            stop = end + 4 + int(length[1])
            found.append(re.sub(rb"date: [^\r]*\r\n", b"", data[:stop]))
            data = data[stop:]
            continue
        piece = link.recv(65536)
        if not piece:
            raise AssertionError(f"closed after {data!r}")
        data += piece
    assert not data
    return found


def ask(node: Node, asked: bytes, count: int = 1) -> list[bytes]:
    with socket.create_connection(("127.0.0.1", node.port), 10) as link:
        link.sendall(asked)
        return answers(link, count)


def long(first: int, *others: bytes, rows: int = 800) -> bytes:
    """A body that is parsed outside the event loop: more than INLINE_BYTES_MAX."""
    wide = b"".join(row(at, event_id=f"{first}/{at}") + b" " * 64 + b"\n" for at in range(first, first + rows))
    return wide + b"".join(other + b"\n" for other in others)


NDJSON = "application/x-ndjson"
LONG = [
    request(long(1000), NDJSON),
    request(long(1000), NDJSON),
    request(long(1001), NDJSON),
    request(long(3000, b"{}", b'{"features":{"a":1},"label":7}'), NDJSON),
    request(long(3000, row(1), row(2)), NDJSON, more="Idempotency-Key: long\r\n"),
    request(long(3000, row(1), row(2)), NDJSON, more="Idempotency-Key: long\r\n"),
    request(b"{}\n" * 30_000, NDJSON),
    request(b'{"features":{"a":3},"label":1,"event_id":"1000/1000"}\n' * 2000, NDJSON),
    request(long(5000, b'{"prediction_id":"nobody","label":1}'), NDJSON),
    request(b" " * 70_000, NDJSON),
    request(b"[" + long(6000).strip().replace(b"\n", b",") + b"]"),
    request(long(7000), "application/x-ndjson; charset=latin-1"),
    request(long(7000), NDJSON, path="/observe?wait=applied"),
    request(long(8000), NDJSON, path="/observe?atomic=true"),
    request(long(9000), NDJSON, path="/models/nobody/observe"),
    request(long(9000), NDJSON, more="Content-Encoding: br\r\n"),
    request(gzip.compress(long(9500)), NDJSON, more="Content-Encoding: gzip\r\n"),
    request(long(9000), NDJSON, more="Connection: close\r\n"),
    request(b"1 |a b c:2 d:3.5\n" * 5000, "text/x-vw"),
]
ASKED = [
    request(row(1)),
    request(row(2, event_id="a"), more="Idempotency-Key: k\r\n"),
    request(row(2, event_id="a")),
    request(row(3, event_id="a")),
    request(row(4), more="Idempotency-Key: l\r\n"),
    request(row(4), more="Idempotency-Key: l\r\n"),
    request(row(5), more="Idempotency-Key: a b\r\n"),
    request(row(5), more="Idempotency-Key: m\r\nIdempotency-Key: m\r\n"),
    request(row(6) + b"\n" + row(7), "application/x-ndjson; charset=utf-8"),
    request(row(6) + b"\n{}\n", "application/x-ndjson"),
    request(b"{}"),
    request(b'{"features":'),
    request(b""),
    request(b"[" + row(8) + b"," + row(9) + b"]"),
    request(b"1 |a b c:2", "text/x-vw"),
    request(row(10), "text/plain"),
    request(row(10), "application/json; charset=latin-1"),
    request(row(11), path="/observe?wait=applied"),
    request(row(11), path="/observe?wait=never"),
    request(row(12), path="/observe?atomic=true"),
    request(row(13), path="/models/default/observe"),
    request(row(13), path="/models/nobody/observe"),
    request(row(13), path="/models/No/observe"),
    request(row(14), more="Content-Encoding: gzip\r\n"),
    request(gzip.compress(row(14)), more="Content-Encoding: GZIP\r\n"),
    request(gzip.compress(row(16))[:-9], more="Content-Encoding: gzip\r\n"),
    request(row(15), more="Connection: close\r\n"),
    request(b'{"prediction_id":"nobody","label":1}'),
    request(json.dumps({"features": {f"n{i}": 1 for i in range(3000)}, "label": 0}).encode()),
]


def test_both_paths_answer_with_the_same_bytes(houses: tuple[Node, Node]) -> None:
    fast, slow = houses
    for asked in ASKED + LONG:
        assert ask(fast, asked) == ask(slow, asked), asked[:200]


def test_what_is_counted_is_the_same(houses: tuple[Node, Node]) -> None:
    def counted(node: Node) -> list[str]:
        lines = httpx.get(f"http://127.0.0.1:{node.port}/metrics").text.splitlines()
        wanted = r"riata_rows_total|riata_requests_total\{.*observe|riata_request_duration_seconds_count\{.*observe"
        return [line for line in lines if re.match(wanted, line)]

    assert counted(houses[0]) == counted(houses[1]) != []


def test_requests_sent_at_once_are_answered_in_their_order(houses: tuple[Node, Node]) -> None:
    for node in houses:
        before = node.engine.served_models["default"].logged
        found = ask(node, b"".join(request(row(at)) for at in range(10)), 10)
        assert [json.loads(answer.partition(b"\r\n\r\n")[2])["seq"] for answer in found] == list(range(before + 1, before + 11))


def bodies_under_way(node: Node) -> int:
    held: int = node.app.state.bodies.held
    return held


def test_a_long_body_in_pieces_is_taken_by_the_fast_path_and_counted_until_it_is_answered(
    houses: tuple[Node, Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(framing, "AT_ONCE_BYTES", 1)  # the event loop hears of every piece
    asked = request(long(20_000), NDJSON)
    found = []
    for node in houses:
        with socket.create_connection(("127.0.0.1", node.port), 10) as link:
            for at in range(0, len(asked), 30_000):
                link.sendall(asked[at : at + 30_000])
                time.sleep(0.01)
                if SMALL_BYTES < at < len(asked) - 30_000:  # fewer bytes are not counted
                    wait_until(lambda: bodies_under_way(node) > at)  # noqa: B023
            found += answers(link, 1)
        assert bodies_under_way(node) == 0
    assert all(answer.startswith(b"HTTP/1.1 202") for answer in found)
    accepted = [json.loads(answer.partition(b"\r\n\r\n")[2])["accepted"] for answer in found]
    assert accepted == [800, 800]


def read_past(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Records what happens to bodies that bypass the parser: they are completed, or handed back."""
    became: list[str] = []

    def noted(what: str, was: Callable[..., None]) -> Callable[..., None]:
        def note(self: Connection, body: bytes) -> None:
            became.append(f"{what} {len(body)}")
            was(self, body)

        return note

    for what in ("whole", "parted"):
        monkeypatch.setattr(Connection, what, noted(what, getattr(Connection, what)))
    return became


def test_a_long_body_is_read_past_the_parser_which_then_reads_what_follows(
    houses: tuple[Node, Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    became, asked, body = read_past(monkeypatch), request(long(26_000) * 3, NDJSON), len(long(26_000) * 3)
    ask_more = request(row(1), more="Idempotency-Key: behind\r\n")
    for node in houses:
        with socket.create_connection(("127.0.0.1", node.port), 10) as link:
            for _ in range(2):
                link.sendall(asked[:-body])
                time.sleep(0.02)
                link.sendall(asked[-body:] + ask_more)
                first, second = answers(link, 2)
                assert first.startswith(b"HTTP/1.1 202")
                assert second.startswith(b"HTTP/1.1 202")
    assert became == [f"whole {body}"] * 2


def test_a_long_body_that_was_read_past_the_parser_can_still_go_the_other_way(
    houses: tuple[Node, Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    became, body = read_past(monkeypatch), len(long(29_000) * 3)
    asked = request(long(29_000) * 3, NDJSON, path="/observe?wait=applied")
    for node in houses:
        with socket.create_connection(("127.0.0.1", node.port), 10) as link:
            for _ in range(2):
                link.sendall(asked[:-body])
                time.sleep(0.02)
                link.sendall(asked[-body:] + request(row(1), more="Idempotency-Key: behind\r\n"))
                first, second = answers(link, 2)
                assert first.startswith(b"HTTP/1.1 200")
                assert b"connection: close" not in first
                assert second.startswith(b"HTTP/1.1 202")
    assert became == [f"whole {body}"] * 2


def test_a_long_body_that_stops_for_a_while_is_parsed_on_and_comes_to_its_end(
    houses: tuple[Node, Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "BODY_WAIT_S", 0.1)
    became, asked, body = read_past(monkeypatch), request(long(27_000) * 3, NDJSON), len(long(27_000) * 3)
    for node in houses:
        with socket.create_connection(("127.0.0.1", node.port), 10) as link:
            link.sendall(asked[:-body])
            time.sleep(0.02)
            link.sendall(asked[-body:-40])  # less than the loop is woken for, until its time is over
            wait_until(lambda: bodies_under_way(node) == body - 40)  # noqa: B023
            link.sendall(asked[-40:])
            assert answers(link, 1)[0].startswith(b"HTTP/1.1 202")
        assert bodies_under_way(node) == 0
    assert [what.partition(" ")[0] for what in became] == ["parted"]


def test_a_long_body_that_ends_before_its_end_is_refused(houses: tuple[Node, Node], monkeypatch: pytest.MonkeyPatch) -> None:
    became, asked, body = read_past(monkeypatch), request(long(28_000) * 3, NDJSON), len(long(28_000) * 3)
    found = []
    for node in houses:
        before = node.engine.served_models["default"].logged
        with socket.create_connection(("127.0.0.1", node.port), 10) as link:
            link.sendall(asked[:-body])
            time.sleep(0.02)
            link.sendall(asked[-body:-1])
            link.shutdown(socket.SHUT_WR)
            found += answers(link, 1)
        wait_until(lambda: bodies_under_way(node) == 0)  # noqa: B023
        assert node.engine.served_models["default"].logged == before
    assert found[0] == found[1]
    assert found[0].startswith(b"HTTP/1.1 400")
    assert became == [f"parted {body - 1}"]


def test_bodies_beyond_the_memory_bound_are_refused_on_both_paths(houses: tuple[Node, Node]) -> None:
    asked = request(long(21_000), NDJSON)
    for node in houses:
        bodies = node.app.state.bodies
        for room in (20_000, 60_000):  # at the first part that is counted, and at a later one
            assert bodies.take_bytes(bodies.bytes_max - room)
            with socket.create_connection(("127.0.0.1", node.port), 10) as link:
                for at in range(0, len(asked), 50_000):
                    link.sendall(asked[at : at + 50_000])
                    time.sleep(0.02)
                assert b"bodies_full" in answers(link, 1)[0]
            bodies.give_bytes(bodies.bytes_max - room)
        assert ask(node, asked)[0].startswith(b"HTTP/1.1 202")
        assert bodies_under_way(node) == 0


def test_a_long_body_that_breaks_off_is_not_counted_any_more(houses: tuple[Node, Node]) -> None:
    asked = request(long(22_000), NDJSON)
    for node in houses:
        before = node.engine.served_models["default"].logged
        with socket.create_connection(("127.0.0.1", node.port), 10) as link:
            link.sendall(asked[:-1])
            wait_until(lambda: bodies_under_way(node) > 0)  # noqa: B023
        wait_until(lambda: bodies_under_way(node) == 0)  # noqa: B023
        assert node.engine.served_models["default"].logged == before


def test_a_long_body_that_is_late_goes_the_other_way(houses: tuple[Node, Node], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "BODY_WAIT_S", 0.0)
    asked = request(long(23_000), NDJSON)
    for node in houses:
        with socket.create_connection(("127.0.0.1", node.port), 10) as link:
            for at in range(0, len(asked), 30_000):
                link.sendall(asked[at : at + 30_000])
                time.sleep(0.01)
            assert answers(link, 1)[0].startswith(b"HTTP/1.1 202")
        assert bodies_under_way(node) == 0


def test_a_request_that_waits_for_a_silent_log_gets_the_reason(
    houses: tuple[Node, Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    for node, first in zip(houses, (24_000, 25_000), strict=True):
        patient = replace(node.engine.settings, observe_timeout_ms=900_000)
        monkeypatch.setattr(node.engine, "settings", replace(patient, observe_timeout_ms=100))
        free = held(node)
        found = ask(node, request(long(first), NDJSON))[0]
        free.set()
        assert found.startswith(b"HTTP/1.1 503")
        assert b"log_timeout" in found
        wait_until(lambda: bodies_under_way(node) == 0)  # noqa: B023
        monkeypatch.setattr(node.engine, "settings", patient)  # a busy disk may take longer than that to answer
        again = ask(node, request(long(first), NDJSON))[0]
        assert json.loads(again.partition(b"\r\n\r\n")[2])["duplicate"] == 800


def wait_until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def held(node: Node) -> threading.Event:
    """Block the log thread until the event is set."""
    begun, free = threading.Event(), threading.Event()

    def wait(_store: object) -> None:
        begun.set()
        free.wait(900)

    node.engine.context.log_thread.call(wait)
    assert begun.wait(900)
    return free


def until_it_waits(node: Node) -> None:
    """Return when a row waits for the log thread."""
    deadline = time.monotonic() + 890.0  # the thread is held for no longer than 900 seconds
    while not node.engine.context.log_thread.waiting():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_prediction_waits_for_a_row_of_its_connection_and_not_of_another(houses: tuple[Node, Node]) -> None:
    for node in houses:
        free = held(node)
        predict = b"GET /predict?size=1 HTTP/1.1\r\nHost: h\r\n\r\n"
        with socket.create_connection(("127.0.0.1", node.port), 10) as link:
            link.sendall(request(row(1)) + predict)
            assert b"200" in ask(node, predict)[0][:15]
            link.settimeout(0.05)
            with pytest.raises(TimeoutError):
                link.recv(1)
            link.settimeout(10)
            free.set()
            first, second = answers(link, 2)
        assert first.startswith(b"HTTP/1.1 202")
        assert second.startswith(b"HTTP/1.1 200")


def test_a_connection_that_is_lost_while_its_row_waits_loses_its_answer_only(houses: tuple[Node, Node]) -> None:
    for node in houses:
        before = node.engine.served_models["default"].logged
        free = held(node)
        with socket.create_connection(("127.0.0.1", node.port), 10) as link:
            link.sendall(request(row(1)))
            until_it_waits(node)
        time.sleep(0.05)  # the end of the connection is noticed, or is not
        free.set()
        reported = json.loads(ask(node, request(row(2)))[0].partition(b"\r\n\r\n")[2])
        assert reported["seq"] == before + 2


def test_a_stop_waits_for_rows_that_are_on_their_way() -> None:
    app, engine = built(True)
    found: list[bytes] = []
    with serving(app) as port:
        while httpx.get(f"http://127.0.0.1:{port}/readyz").status_code != 200:
            time.sleep(0.01)
        node = Node(port, engine, app)
        free = held(node)
        asking = threading.Thread(target=lambda: found.extend(ask(node, request(row(1)))))
        asking.start()
        until_it_waits(node)
        threading.Timer(0.2, free.set).start()
    asking.join(900)
    assert found
    assert found[0].startswith(b"HTTP/1.1 202")
