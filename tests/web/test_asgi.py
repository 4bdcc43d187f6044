"""An ASGI application behind a connection of this service, and this service behind uvicorn alone (`service/docs/inside.md`)."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from riata.web.server.bounds import ListenerState
from tests.settings import connection_bounds
from tests.web.attack.raw import ROW, get, post, talk
from tests.web.serving import Whole, serving

START_S = 900.0


@contextmanager
def alone(app: ASGIApp, http: str) -> Iterator[int]:
    """Serve with uvicorn as installed, without any part of this service's front."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(app, http=http, lifespan="on", log_config=None))
        thread = threading.Thread(target=lambda: asyncio.run(server.serve([listening])))
        thread.start()
        until = time.monotonic() + START_S
        while not server.started and time.monotonic() < until:
            time.sleep(0.01)
        try:
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


def works(port: int) -> None:
    """Send a request to every kind of route."""
    with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
        assert client.get("/livez").json() == {"alive": True}
        assert client.post("/observe", content=ROW, headers={"content-type": "application/json"}).status_code == 202
        assert client.get("/predict?a=1").json()["model"]["name"] == "default"
        assert client.post("/predict", json={"features": {"a": 1}}).status_code == 200
        chunks = client.post(
            "/predict", content=iter([b'{"features":', b'{"a":1}}']), headers={"content-type": "application/json"}
        )
        assert chunks.status_code == 200
        assert client.get("/none").status_code == 404


@pytest.mark.parametrize("http", ["httptools", "h11"])
def test_the_application_runs_on_uvicorn_alone(http: str) -> None:
    whole = Whole()
    with alone(whole.app(), http) as port:
        whole.until_ready()
        works(port)
    assert whole.logged() == 2


@pytest.mark.parametrize("fast", [True, False])
def test_the_service_runs_with_and_without_the_fast_path(fast: bool) -> None:
    whole = Whole()
    app = whole.app(fast_path=fast)
    with serving(app) as port:
        whole.until_ready()
        works(port)
    assert whole.logged() == 2
    assert (app.state.fast_path is not None) is fast


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a body with itself; do nothing for `/nothing`, fail for `/fault`, begin and fail for `/half`."""
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    if scope["path"] == "/nothing":
        return
    if scope["path"] == "/fault":
        raise RuntimeError("a fault")
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    if scope["path"] == "/half":
        raise RuntimeError("a fault")
    await send({"type": "http.response.body", "body": body})


def chunks(*parts: bytes) -> bytes:
    head = b"POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def test_requests_of_one_connection_are_given_to_the_application_one_after_the_other() -> None:
    front = ListenerState(connection_bounds())
    with serving(echo, front=front) as port:
        sent = [post(b"one", path=b"/echo"), chunks(b"two", b"-", b"more"), get(b"/echo"), post(b"three" * 20_000, path=b"/echo")]
        received = talk(port, b"".join(sent), silence_s=0.3, awaited=4)
        assert [reply.body for reply in received.replies] == [b"one", b"two-more", b"", b"three" * 20_000]
        assert not received.closed
        pieces = [b"".join(sent)[at : at + 7] for at in range(0, 260, 7)] + [b"".join(sent)[266:]]
        assert [reply.body for reply in talk(port, *pieces, silence_s=0.3, awaited=4).replies][:3] == [b"one", b"two-more", b""]
    assert not front.refused


@pytest.mark.parametrize("path", [b"/nothing", b"/fault"])
def test_an_application_that_fails_is_answered_for_and_the_connection_closes(path: bytes) -> None:
    with serving(echo) as port:
        received = talk(port, get(path) + get(b"/echo"))
    assert [reply.status for reply in received.replies] == [500]
    assert received.closed


def test_an_answer_that_breaks_off_closes_the_connection() -> None:
    with serving(echo) as port, socket.create_connection(("127.0.0.1", port), timeout=300) as connection:
        connection.sendall(post(b"abc", path=b"/half"))
        received = b""
        while part := connection.recv(4096):
            received += part
    assert received.startswith(b"HTTP/1.1 200 ")
    assert received.endswith(b"\r\n\r\n")


def test_a_request_for_another_protocol_is_answered_and_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    with serving(echo) as port:
        received = talk(port, get(b"/echo", b"Connection: Upgrade", b"Upgrade: websocket"), silence_s=0.3)
    assert [reply.status for reply in received.replies] == [200]
    assert [record for record in caplog.records if record.levelname == "WARNING"] == []
