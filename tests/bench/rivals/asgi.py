"""Raw ASGI that answers 200 with a fixed small document whatever it is asked: the limit of what uvicorn can serve."""

from __future__ import annotations

from typing import Final

from starlette.types import Receive, Scope, Send

from tests.bench.rivals.server import UvicornRival

BODY: Final = b'{"probability":0.5,"label":1,"seq":1}'
HEADERS: Final = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(BODY))]


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Read the body to its end, as any answer that depends on it must, and answer."""
    if scope["type"] == "lifespan":
        for phase in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{phase}.complete"})
        return
    more = True
    while more:
        message = await receive()
        more = message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await send({"type": "http.response.body", "body": BODY})


class RawAsgi(UvicornRival):
    """The application above, served."""

    def __init__(self) -> None:
        super().__init__("tests.bench.rivals.asgi:app")
