"""Reading what a request brings: headers, and a body that is never held beyond its bound."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from starlette.types import Message, Receive, Scope

from riata.base.errors import BadInput, Busy, Malformed, TooLarge, Unsupported

SMALL_BYTES: Final = 64 * 2**10  # of a body that is not counted
BODIES: Final = "riata.bodies"  # in the scope: what all bodies together take
HELD: Final = "riata.body_bytes"  # in the scope: what the body of this request takes


@dataclass(slots=True)
class Bodies:
    """The memory of all bodies that come in parts, from their first part until their request is answered.

    Bodies of at most SMALL_BYTES, and those that come in one part, are not counted: `connections_max` bounds what they take, and
    no number of long bodies keeps them out.

    bytes_max : setting `bodies_bytes_max`
    held      : bytes counted now
    """

    bytes_max: int
    held: int = 0
    _most: int = 0  # held at once since `most_since` was last asked

    def take(self, scope: Scope, size: int) -> None:
        """Have `size` bytes counted for a request. Raises `Busy` (bodies_full) if that is too many."""
        counted = scope.get(HELD, 0)
        if not self.take_bytes(counted_bytes(size) - counted):
            raise Busy(
                f"all bodies under way together take {self.held} bytes, and bodies_bytes_max allows {self.bytes_max}; "
                "nothing of this one was accepted",
                "bodies_full",
            )
        scope[HELD] = counted_bytes(size)

    def take_bytes(self, size: int) -> bool:
        """Count `size` more bytes, to be given back by `give_bytes`; false, and nothing done, if that is too many."""
        if size > 0 and self.held + size > self.bytes_max:
            return False
        self.held += size
        self._most = max(self._most, self.held)
        return True

    def most_since(self) -> int:
        """The most bytes held at once since this was last asked."""
        most, self._most = self._most, self.held
        return most

    def give_back(self, scope: Scope) -> None:
        """Forget the body of a request."""
        self.give_bytes(scope.pop(HELD, 0))

    def give_bytes(self, size: int) -> None:
        """Forget bytes that were counted without a scope."""
        self.held -= size


def counted_bytes(size: int) -> int:
    """How many bytes are counted of a body of which `size` bytes have come."""
    return size if size > SMALL_BYTES else 0


class ClientGone(Exception):
    """The connection ended before the body did: nobody is there to be answered, nothing was accepted."""


def header(scope: Scope, name: bytes) -> bytes | None:
    """Return one header (`name` in lower case), None where it is absent. Raises `Malformed` where it comes twice."""
    found: bytes | None = None
    for key, value in scope["headers"]:
        if key == name:
            if found is not None:
                raise Malformed(f"{name.decode()}: sent twice, and the two may disagree", "repeated_header")
            found = value
    return found


def content_type(scope: Scope) -> str:
    """Return the Content-Type header, empty where there is none."""
    return (header(scope, b"content-type") or b"").decode("latin-1")


def idempotency_key(raw: bytes | None) -> str | None:
    """Read an Idempotency-Key header, None where it is absent.

    Raises `BadInput` (bad_idempotency_key) unless it is 1 to 200 visible ASCII characters.
    """
    if raw is None:
        return None
    if not 1 <= len(raw) <= 200 or not all(0x21 <= byte <= 0x7E for byte in raw):
        raise BadInput("Idempotency-Key: expected 1 to 200 visible ASCII characters without spaces", "bad_idempotency_key")
    return raw.decode("ascii")


async def read_body(scope: Scope, receive: Receive, bytes_max: int, deadline_s: float) -> bytes:
    """Read a whole body.

    Raises `TooLarge` (body_too_large) as soon as more than `bytes_max` are announced or have come, `Unsupported` for a
    Content-Encoding, `Busy` (bodies_full) where all bodies together take too much, `BadInput` (body_too_slow) after
    `deadline_s`, `ClientGone` where the connection ends early.
    """
    encoding = header(scope, b"content-encoding")
    if encoding is not None and encoding.strip().lower() not in (b"", b"identity"):
        raise Unsupported("Content-Encoding: only identity is read here; send the body as it is", "unsupported_encoding")
    announced = header(scope, b"content-length")
    if announced is not None and announced.isdigit() and _beyond(announced, bytes_max):
        raise too_large(bytes_max)
    first = await receive()
    if first["type"] == "http.request" and not first.get("more_body", False):
        body: bytes = first.get("body", b"")
        if len(body) > bytes_max:
            raise too_large(bytes_max)
        return body
    try:
        async with asyncio.timeout(deadline_s):
            return await _read_parts(first, receive, bytes_max, scope)
    except TimeoutError:
        raise BadInput(f"the body did not arrive within {deadline_s:g} seconds", "body_too_slow") from None


def too_large(bytes_max: int) -> TooLarge:
    """Return the error for a body beyond its bound."""
    return TooLarge(f"the body has more than {bytes_max} bytes; send the rows in several requests", "body_too_large")


def _beyond(announced: bytes, bytes_max: int) -> bool:
    digits = announced.lstrip(b"0")
    return len(digits) > len(str(bytes_max)) or int(digits or b"0") > bytes_max


async def _read_parts(message: Message, receive: Receive, bytes_max: int, scope: Scope) -> bytes:
    parts: list[bytes] = []  # joined once: a body that grows part by part is copied over and over
    size = 0
    bodies: Bodies | None = scope.get(BODIES)
    while True:
        if message["type"] != "http.request":
            raise ClientGone
        part = message.get("body", b"")
        size += len(part)
        if bodies is not None:
            bodies.take(scope, size)
        parts.append(part)
        if size > bytes_max:
            raise too_large(bytes_max)
        if not message.get("more_body", False):
            return b"".join(parts)
        message = await receive()
