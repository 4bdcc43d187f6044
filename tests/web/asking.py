"""Sends requests to the application: through httpx without a socket, and as raw ASGI messages."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from fastapi import FastAPI
from starlette.types import Message, Scope


class Client:
    """A synchronous client of an application in this process; its lifespan runs as long as the client lives."""

    def __init__(self, app: FastAPI, runner: asyncio.Runner) -> None:
        self.app = app
        self.runner = runner

    def ask(self, method: str, url: str, **more: Any) -> httpx.Response:
        """Send one request."""

        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
                return await client.request(method, url, **more)

        return self.runner.run(send())

    def get(self, url: str, **more: Any) -> httpx.Response:
        return self.ask("GET", url, **more)

    def post(self, url: str, body: bytes | str, kind: str = "application/json", **headers: str) -> httpx.Response:
        """POST bytes of a content type; headers are named with underscores."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.ask("POST", url, content=body, headers={"Content-Type": kind, **named})

    def job(self, at: str) -> dict[str, Any]:
        """Wait until the job at an address has ended."""
        deadline = time.monotonic() + 300.0
        while (found := self.get(at).json())["state"] == "running":
            assert time.monotonic() < deadline, found
        job: dict[str, Any] = found
        return job

    def put(self, url: str, body: bytes | str, kind: str = "application/json") -> httpx.Response:
        return self.ask("PUT", url, content=body, headers={"Content-Type": kind})

    def patch(self, url: str, body: bytes | str, kind: str = "application/json") -> httpx.Response:
        return self.ask("PATCH", url, content=body, headers={"Content-Type": kind})


@contextmanager
def asking(app: FastAPI, ready: bool = True) -> Iterator[Client]:
    """Run the lifespan of `app` around a client. ready : only once its service is"""

    async def begin() -> None:
        await lifespan.__aenter__()
        while ready and not app.state.parts.service.health().ready:
            await asyncio.sleep(0.001)

    with asyncio.Runner() as runner:
        lifespan = app.router.lifespan_context(app)
        runner.run(begin())
        try:
            yield Client(app, runner)
        finally:
            runner.run(lifespan.__aexit__(None, None, None))


@dataclass
class Received:
    """The messages that an application sent."""

    messages: list[Message] = field(default_factory=list)
    asked: int = 0

    @property
    def status(self) -> int | None:
        """The status of the answer, None if there was none."""
        return self.messages[0]["status"] if self.messages else None

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.messages[1:])

    def header(self, name: bytes) -> bytes | None:
        return dict(self.messages[0]["headers"]).get(name)


def post_scope(path: str, headers: Sequence[tuple[bytes, bytes]] = ()) -> Scope:
    """The scope of a POST of JSON."""
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"content-type", b"application/json"), *headers],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "state": {},
    }


def run_asgi(client: Client, scope: Scope, incoming: Sequence[Message]) -> Received:
    """Pass `incoming` to the application, message by message, and collect the messages that it sends."""
    received = Received()

    async def receive() -> Message:
        received.asked += 1
        return incoming[received.asked - 1]

    async def send(message: Message) -> None:
        received.messages.append(message)

    async def run() -> None:
        await client.app(scope, receive, send)

    client.runner.run(run())
    return received
