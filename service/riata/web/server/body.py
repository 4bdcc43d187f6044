"""Read request headers and bodies; a body is never held in memory beyond its size limit."""

from __future__ import annotations

import asyncio
import sys
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, ParamSpec, Protocol, TypeVar

from starlette.types import Message, Receive, Scope

from riata.base.errors import BadInput, Busy, Malformed, TooLarge, Unsupported
from riata.base.process import lower_priority, resident_bytes, trim_heap

IDENTITY: Final = b"identity"
SMALL_BYTES: Final = 64 * 2**10  # bodies up to this size are not counted
BODIES: Final = "riata.bodies"  # key in the scope: the `Bodies` of the application
HELD: Final = "riata.body_bytes"  # key in the scope: bytes counted for the body of this request


@dataclass(slots=True)
class Bodies:
    """Memory accounting for all bodies that arrive in parts, from their first part until their request is answered.

    Bodies of at most SMALL_BYTES, and those that arrive in one part, are not counted: `connections_max` bounds what they take.
    So long bodies, however many, cannot keep them out.

    bytes_max : setting `bodies_bytes_max`
    held      : bytes counted now
    """

    bytes_max: int
    held: int = 0
    _most: int = 0  # peak of `held` since the last call of `most_since`

    def take(self, scope: Scope, size: int) -> None:
        """Count `size` bytes for a request. Raises `Busy` (bodies_full) if that exceeds `bytes_max`."""
        counted = scope.get(HELD, 0)
        if not self.take_bytes(counted_bytes(size) - counted):
            raise Busy(
                f"the request bodies being read take {self.held} bytes, and the setting bodies_bytes_max is {self.bytes_max}; "
                "nothing of this request was accepted",
                "bodies_full",
            )
        scope[HELD] = counted_bytes(size)

    def take_bytes(self, size: int) -> bool:
        """Count `size` more bytes, to be released by `give_bytes`. Returns false, without counting, beyond `bytes_max`."""
        if size > 0 and self.held + size > self.bytes_max:
            return False
        self.held += size
        self._most = max(self._most, self.held)
        return True

    def has_room(self, size: int) -> bool:
        """Return whether `size` more bytes can be counted."""
        return self.held + size <= self.bytes_max

    def most_since(self) -> int:
        """Return the peak of the bytes held since the last call."""
        most, self._most = self._most, self.held
        return most

    def give_back(self, scope: Scope) -> None:
        """Release the bytes counted for a request."""
        self.give_bytes(scope.pop(HELD, 0))

    def give_bytes(self, size: int) -> None:
        """Release bytes that were counted without a scope."""
        self.held -= size


def counted_bytes(size: int) -> int:
    """Return how many bytes are counted for a body of which `size` bytes have arrived."""
    return size if size > SMALL_BYTES else 0


class ClientGone(Exception):
    """The connection ended before the body did: there is no client to answer, and nothing was accepted."""


def header(scope: Scope, name: bytes) -> bytes | None:
    """Return one header (`name` in lower case), None if it is absent. Raises `Malformed` if it was sent twice."""
    found: bytes | None = None
    for key, value in scope["headers"]:
        if key == name:
            if found is not None:
                raise Malformed(f"{name.decode()}: sent twice; send this header once", "repeated_header")
            found = value
    return found


def content_type(scope: Scope) -> str:
    """Return the Content-Type header, empty if there is none."""
    return (header(scope, b"content-type") or b"").decode("latin-1")


async def read_body(scope: Scope, receive: Receive, bytes_max: int, deadline_s: float) -> bytes:
    """Read a whole body, and unpack it while it arrives.

    Raises `TooLarge` (body_too_large) as soon as more than `bytes_max` are announced, have arrived or are unpacked, `Unsupported`
    and `Malformed` as `Unpacker` does, `Busy` (bodies_full) if all bodies together take too much memory, `BadInput`
    (body_too_slow) after `deadline_s`, `ClientGone` if the connection ends early.
    """
    encoding = (header(scope, b"content-encoding") or IDENTITY).strip().lower() or IDENTITY
    unpacker = None if encoding == IDENTITY else Unpacker(encoding)
    announced = header(scope, b"content-length")
    if announced is not None and announced.isdigit() and _beyond(announced, bytes_max):
        raise too_large(bytes_max)
    first = await receive()
    if unpacker is None and first["type"] == "http.request" and not first.get("more_body", False):
        body: bytes = first.get("body", b"")
        if len(body) > bytes_max:
            raise too_large(bytes_max)
        return body
    try:
        async with asyncio.timeout(deadline_s):
            return await _read_parts(first, receive, bytes_max, scope, unpacker)
    except TimeoutError:
        raise BadInput(f"the body did not arrive within {deadline_s:g} seconds", "body_too_slow") from None


def too_large(bytes_max: int) -> TooLarge:
    """Return the error for a body beyond its size limit."""
    return TooLarge(f"the body has more than {bytes_max} bytes; send the rows in several requests", "body_too_large")


def _beyond(announced: bytes, bytes_max: int) -> bool:
    digits = announced.lstrip(b"0")
    return len(digits) > len(str(bytes_max)) or int(digits or b"0") > bytes_max


async def _read_parts(message: Message, receive: Receive, bytes_max: int, scope: Scope, unpacker: Unpacker | None) -> bytes:
    pieces: list[bytes] = []  # joined once at the end: appending to one bytes object would copy it for every piece
    arrived = size = 0
    bodies: Bodies | None = scope.get(BODIES)
    while True:
        if message["type"] != "http.request":
            raise ClientGone
        part = message.get("body", b"")
        arrived += len(part)
        for piece in [part] if unpacker is None else unpacker.feed(part):
            size += len(piece)
            if bodies is not None:
                bodies.take(scope, size)
            pieces.append(piece)
            if size > bytes_max:
                raise too_large(bytes_max)
            if unpacker is not None:
                await asyncio.sleep(0)  # others are served between two pieces
        if arrived > bytes_max:
            raise too_large(bytes_max)
        if not message.get("more_body", False):
            if unpacker is not None:
                unpacker.finish()
            return b"".join(pieces)
        message = await receive()


# Unpacking of compressed request bodies, part by part as they arrive, in pieces of bounded size.


if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


PIECE_BYTES: Final = 256 * 2**10  # unpacked in less than a millisecond
WINDOW_LOG_MAX: Final = 23  # 8 MiB, the most that a frame may ask a decoder of HTTP content for (RFC 9659)
_GZIP_FORMAT: Final = 16  # of zlib: with the header and the checksum of gzip


class Frame(Protocol):
    """A gzip member or a zstd frame that is being unpacked."""

    @property
    def ended(self) -> bool:
        """Whether all of it was unpacked."""

    def unpack(self, packed: bytes) -> tuple[bytes, bytes]:
        """Return at most PIECE_BYTES, and what of `packed` has to be given again. Nothing of both: more has to arrive."""


class GzipMember:
    """A gzip member."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(zlib.MAX_WBITS | _GZIP_FORMAT)

    @property
    def ended(self) -> bool:
        return self._member.eof

    def unpack(self, packed: bytes) -> tuple[bytes, bytes]:
        piece = self._member.decompress(packed, PIECE_BYTES)
        return piece, self._member.unused_data if self._member.eof else self._member.unconsumed_tail


class ZstdFrame:
    """A zstd frame. It keeps the input that it has not used."""

    def __init__(self) -> None:
        self._frame = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: WINDOW_LOG_MAX})

    @property
    def ended(self) -> bool:
        return bool(self._frame.eof)

    def unpack(self, packed: bytes) -> tuple[bytes, bytes]:
        piece = self._frame.decompress(packed, PIECE_BYTES)
        return piece, self._frame.unused_data if self._frame.eof else b""


_FORMATS: Final[dict[bytes, tuple[Callable[[], Frame], str]]] = {
    b"gzip": (GzipMember, "bad_gzip"),
    b"x-gzip": (GzipMember, "bad_gzip"),
    b"zstd": (ZstdFrame, "bad_zstd"),
}


class Unpacker:
    """Unpacks a body of one or more members or frames."""

    def __init__(self, encoding: bytes) -> None:
        """Raises `Unsupported` (unsupported_encoding) for an encoding that is not known."""
        if encoding not in _FORMATS:
            raise Unsupported("Content-Encoding: expected gzip, zstd or identity", "unsupported_encoding")
        self._open, self._code = _FORMATS[encoding]
        self._name = encoding.decode()
        self._frame: Frame | None = None
        self._begun = False

    def feed(self, packed: bytes) -> Iterator[bytes]:
        """Unpack the next part of the body, in pieces of at most PIECE_BYTES. Raises `Malformed` if it is damaged."""
        while packed or self._frame is not None:
            frame = self._frame = self._frame or self._open()
            self._begun = True
            try:
                piece, packed = frame.unpack(packed)
            except (zlib.error, zstd.ZstdError):
                raise Malformed(f"the body is not what its Content-Encoding, {self._name}, says", self._code) from None
            if piece:
                yield piece
            if frame.ended:
                self._frame = None
            elif not piece and not packed:
                return

    def finish(self) -> None:
        """Raise `Malformed` if the body ended too early."""
        if not self._begun:
            raise Malformed(f"the body is empty, and its Content-Encoding says {self._name}", self._code)
        if self._frame is not None:
            raise Malformed(f"the body ends before its {self._name} data does", self._code)


# Return memory to the system after a burst of long bodies.
#
# The C library keeps freed memory (`wiring.hold_freed_memory`), and the threads that parse long bodies keep scratch buffers.
# Under load both are reused, which makes a bulk load fast. After it they would stay resident for ever. So a task checks, every
# few seconds, the peak of the bytes of bodies held since its last check. When a burst is over and few bytes are held, it
# replaces the threads of the pool, which frees their scratch buffers, and trims the heap. It repeats this while it helps: events
# that are accepted but not learnt yet are freed later.


P = ParamSpec("P")
T = TypeVar("T")

LOOK_S: Final = 5.0
BURST_BYTES: Final = 8 * 2**20  # peak of held bytes; a smaller one leaves little to return
QUIET_SHARE: Final = 4  # a burst is over when at most 1/QUIET_SHARE of its bytes are held
GAIN_BYTES: Final = 8 * 2**20  # a trim that returns less has not helped
IDLE_TRIMS: Final = 2  # trimming ends after this many trims in a row that did not help
NICENESS: Final = 10  # of threads that parse long bodies: after the event loop, before the learner (ADR 31)


class RenewedPool(Executor):
    """A thread pool of lower priority whose threads can be replaced by new ones. Called in the event loop only."""

    def __init__(self, threads: int, name: str) -> None:
        self._threads = threads
        self._name = name
        self._pool = self._make()

    def submit(self, work: Callable[P, T], /, *args: P.args, **named: P.kwargs) -> Future[T]:
        """As of every executor."""
        return self._pool.submit(work, *args, **named)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """As of every executor."""
        self._pool.shutdown(wait, cancel_futures=cancel_futures)

    def renew(self) -> None:
        """Replace the threads. The old ones end after their work, and their scratch buffers are freed."""
        old, self._pool = self._pool, self._make()
        old.shutdown(wait=False)

    def _make(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._threads, self._name, partial(lower_priority, NICENESS))


@dataclass(slots=True)
class Quiet:
    """Decides when to trim. A trim is due from the start, for the memory of recovery.

    burst: peak of the bytes of bodies held since memory was last returned
    """

    burst: int = BURST_BYTES
    without_gain: int = 0

    def may_trim(self, most: int) -> bool:
        """Return whether to trim now; `most` is the peak of the bytes held since the last call."""
        if most > self.burst or (most >= BURST_BYTES and self.without_gain):
            self.burst = max(most, self.burst)
            self.without_gain = 0
        return self.burst >= BURST_BYTES and most * QUIET_SHARE <= self.burst

    def trimmed(self, gained: int) -> None:
        """Record a trim that returned `gained` bytes."""
        self.without_gain = 0 if gained >= GAIN_BYTES else self.without_gain + 1
        if self.without_gain >= IDLE_TRIMS:
            self.burst = self.without_gain = 0


@dataclass(slots=True)
class IdleMemory:
    """The task. `look_s`: seconds between two checks."""

    bodies: Bodies
    pool: RenewedPool
    look_s: float = LOOK_S
    quiet: Quiet = field(default_factory=Quiet)

    async def watch(self) -> None:
        """Check periodically, until cancelled."""
        loop: Any = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self.look_s)
            if self.quiet.may_trim(self.bodies.most_since()):
                before = resident_bytes()
                self.pool.renew()
                await loop.run_in_executor(None, trim_heap)
                self.quiet.trimmed(before - resident_bytes())
