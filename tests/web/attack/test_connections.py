"""Too many connections, and a stop that is not held up by any of them."""

from __future__ import annotations

import re
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import httpx
import psutil
import pytest

from tests.running import HANG_S, Running
from tests.web.attack.conftest import CALM, Start
from tests.web.attack.raw import ROW, Received, get, listen_to, post, talk

PATIENCE_S = 900.0
FULL = [(503, "connections_full")]
GROWTH_MAX = 64 * 2**20  # of a process with a thousand connections open


def until(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=300)


def test_one_connection_too_many_is_refused_and_a_free_place_is_reused(start: Start) -> None:
    target = start(replace(CALM, connections_max=3))
    with ExitStack() as stack:
        held = [stack.enter_context(connect(target.port)) for _ in range(3)]
        for connection in held:
            connection.sendall(get(b"/livez"))
            assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")
        for sent in (b"", get(b"/livez"), post(ROW)):
            received = talk(target.port, sent)
            assert received.told == FULL
            assert received.closed
            assert received.replies[0].headers["retry-after"] == "1"
        assert target.appended == 0
        held[0].close()
        until(lambda: talk(target.port, get(b"/livez"), silence_s=0.2, awaited=0).told == [(200, "")], "no place became free")


def test_refused_connections_do_not_stay(start: Start) -> None:
    target = start(replace(CALM, connections_max=1, lingering_max=8))
    with ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(connect(target.port))
        until(lambda: target.front.refused["connections_full"] == 99, "some were let in")
        assert target.front.lingering <= 8
        until(lambda: target.front.lingering == 0, "some linger")


def probes_of(running: Running) -> int:
    """The port of the probes, from the line in the log."""
    found = re.search(r"probes and metrics on http://127\.0\.0\.1:(\d+)", Path(f"{running.directory}.log").read_text())
    assert found is not None
    return int(found[1])


@pytest.fixture
def running(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Running]:
    """The service with probes on a separate port; settings and module are the parameter."""
    environment = {"RIATA_HEALTH_PORT": "0", **getattr(request, "param", {})}
    module = environment.pop("MODULE", "riata")
    with Running(tmp_path / "data", environment, module) as found:
        found.start()
        yield found


def test_two_thousand_idle_connections_leave_the_probes_answering(running: Running) -> None:
    probes = f"http://127.0.0.1:{probes_of(running)}"
    before = psutil.Process(running.process.pid).memory_info().rss
    with ExitStack() as stack:
        for _ in range(2000):
            connection = stack.enter_context(socket.socket())
            connection.connect(("127.0.0.1", running.port))
        for path in ("/livez", "/readyz", "/startupz", "/version", "/metrics", "/v2/health/live", "/v2/health/ready"):
            assert httpx.get(f"{probes}{path}", timeout=PATIENCE_S).status_code == 200, path
        assert talk(running.port, get(b"/livez"), silence_s=2).told == FULL
        figures = httpx.get(f"{probes}/metrics").text
        refused = re.search(r'riata_connections_refused_total\{code="connections_full"\} ([\d.]+)', figures)
        assert refused is not None
        assert float(refused[1]) >= 900
        assert psutil.Process(running.process.pid).memory_info().rss - before < GROWTH_MAX
    until(lambda: talk(running.port, get(b"/livez"), silence_s=0.5, awaited=0).told == [(200, "")], "no place became free")


def test_the_health_listener_answers_only_probes_and_metrics(running: Running) -> None:
    port = probes_of(running)
    for sent in (post(ROW), get(b"/models"), get(b"/predict?a=1"), get(b"/openapi.json"), get(b"/docs")):
        assert talk(port, sent, silence_s=0.3).told == [(404, "no_such_route")]


@pytest.mark.parametrize("running", [{"MODULE": "tests.web.attack.few_files"}], indirect=True)
def test_without_free_file_descriptors_probes_answer_and_the_service_recovers(running: Running) -> None:
    probes = f"http://127.0.0.1:{probes_of(running)}"
    with ExitStack() as stack:
        held = [stack.enter_context(connect(running.port)) for _ in range(100)]
        assert httpx.get(f"{probes}/livez", timeout=PATIENCE_S).status_code == 200
        assert httpx.get(f"{probes}/readyz", timeout=PATIENCE_S).status_code == 200
        refused = [
            received for received in (listen_to(connection, 0.05, awaited=0) for connection in held[70:]) if received.replies
        ]
        assert [received.told for received in refused] == [FULL] * len(refused)
        assert refused
    until(lambda: talk(running.port, post(ROW), silence_s=1, awaited=0).told == [(202, "")], "the service did not recover")
    assert "Traceback" not in Path(f"{running.directory}.log").read_text()
    assert running.stop() == 0


def predict_much(port: int) -> socket.socket:
    """Request more than the buffers of the sockets hold, and read nothing."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
    connection.connect(("127.0.0.1", port))
    rows = b"[" + b",".join([b'{"features":{"a":1}}'] * 10_000) + b"]"
    connection.settimeout(5)
    with suppress(TimeoutError):  # it does not read on while nothing is taken
        connection.sendall(post(rows, path=b"/predict") * 16)
    return connection


@pytest.mark.parametrize("running", [{"RIATA_GRACEFUL_STOP_S": "8"}], indirect=True)
def test_a_stop_answers_what_is_asked_refuses_what_never_ends_and_ends_in_time(running: Running) -> None:
    probes = f"http://127.0.0.1:{probes_of(running)}"
    with ExitStack() as stack:
        silent, half_head, stalled, finishing = (stack.enter_context(connect(running.port)) for _ in range(4))
        half_head.sendall(b"GET /livez HTTP/1.1\r\nHost")
        stalled.sendall(post(ROW[:10], length=len(ROW)))
        finishing.sendall(post(ROW[:10], length=len(ROW)))
        slow = stack.enter_context(predict_much(running.port))
        begun = time.monotonic()
        running.process.send_signal(signal.SIGTERM)
        until(lambda: httpx.get(f"{probes}/readyz", timeout=PATIENCE_S).status_code == 503, "readiness was not taken back")
        assert httpx.get(f"{probes}/livez", timeout=PATIENCE_S).status_code == 200
        until(lambda: refuses(running.port), "new connections are still taken")
        finishing.sendall(ROW[10:])
        assert listen_to(finishing, 5).told == [(202, "")]
        assert listen_to(silent, 5) == Received([], True)
        assert listen_to(half_head, 5).closed
        assert listen_to(stalled, 10).told == [(503, "stopping")]
        assert running.process.wait(HANG_S) == 0
        assert time.monotonic() - begun < 8 + PATIENCE_S
        slow.close()
    assert "Traceback" not in Path(f"{running.directory}.log").read_text()


def refuses(port: int) -> bool:
    try:
        connect(port).close()
    except ConnectionRefusedError:
        return True
    return False
