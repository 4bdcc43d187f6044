"""Adapter of a redis-py connection: it connects, authenticates, packs requests and reads replies.

Differences from redis-py: one deadline for a whole answer, since a peer that trickles bytes never reaches a timeout per read; a
limit on the number of reads of an answer; error messages are kept verbatim; no retries, and no commands of its own.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, Protocol

from redis.backoff import NoBackoff
from redis.connection import Connection, DefaultParser, UnixDomainSocketConnection
from redis.exceptions import InvalidResponse, RedisError, ResponseError
from redis.retry import Retry

from riata.store.redis.url import Address

READ_BYTES: Final = 2**14
READS_MAX: Final = 2**16  # of one answer: 1 GiB, and still more than the largest record if each read returns one segment

# What a connection may raise if the peer is gone, slow, or not a Redis.
FAILURES: Final = (RedisError, OSError, MemoryError, OverflowError, TypeError, ValueError)


class Patience:
    """Deadline for the whole answer to a call, and the limit on its reads."""

    def __init__(self) -> None:
        self._deadline = 0.0
        self._reads = 0

    def begin(self, deadline: float) -> None:
        """Start a new call; `deadline` is in seconds of the monotonic clock."""
        self._deadline, self._reads = deadline, 0

    def left(self) -> float:
        """Return the seconds that are left. Raises `TimeoutError` if none are."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("no answer in time")
        return left

    def spend_read(self) -> float:
        """Return the seconds that the next read may take. Raises `TimeoutError`, and `InvalidResponse` after READS_MAX reads."""
        self._reads += 1
        if self._reads > READS_MAX:
            raise InvalidResponse(f"an answer of more than {READS_MAX} pieces")
        return self.left()


class Answers(DefaultParser):  # type: ignore[misc, valid-type]  # a name for one of three classes; here it is that on hiredis
    """The parser of redis-py with one deadline for a whole answer instead of one for each read, and verbatim errors."""

    def __init__(self, socket_read_size: int, patience: Patience) -> None:
        super().__init__(socket_read_size=socket_read_size)
        self._patience = patience

    def read_from_socket(self, timeout: object = None, raise_on_timeout: bool = True) -> bool:  # noqa: ARG002  the patience knows
        """Read one more piece of the answer."""
        return bool(super().read_from_socket(self._patience.spend_read(), raise_on_timeout))

    @classmethod
    def parse_error(cls, response: str) -> ResponseError:
        """Return the error message verbatim; `session.py` interprets it."""
        return ResponseError(response)

    def handle_push_response(self, response: object, **_: object) -> object:
        """Refuse push messages: there are no subscriptions."""
        raise InvalidResponse(f"the server pushed {type(response).__name__}")


class Encrypted(Connection):
    """A TLS connection. The class of redis-py also trusts the system's authorities; this one does not."""

    def __init__(self, trusted: ssl.SSLContext, patience: Patience, **options: Any) -> None:
        super().__init__(**options)  # type: ignore[no-untyped-call]
        self._trusted = trusted
        self._patience = patience

    def _connect(self) -> ssl.SSLSocket:
        sock: socket.socket = super()._connect()  # type: ignore[no-untyped-call]
        try:
            sock.settimeout(self._patience.left())
            return self._trusted.wrap_socket(sock, server_hostname=self.host)
        except BaseException:
            sock.close()
            raise


class Wire(Protocol):
    """The part of a redis-py connection that is used."""

    @property
    def is_connected(self) -> bool: ...
    def connect(self) -> None: ...
    def disconnect(self) -> None: ...
    def can_read(self, timeout: float) -> bool: ...
    def pack_command(self, *args: bytes) -> Sequence[bytes]: ...
    def update_current_socket_timeout(self, relaxed_timeout: float) -> None: ...
    def send_packed_command(self, command: Sequence[bytes], check_health: bool) -> None: ...
    def read_response(self, disable_decoding: bool) -> object: ...


def dial(where: Address, node: tuple[str, int], patience: Patience, user: str, password: str, db: int) -> Wire:
    """Connect to `node` and authenticate. Raises `FAILURES`: `ResponseError` if the server answers with an error."""
    left = patience.left()
    options: dict[str, Any] = {
        "username": user, "password": password, "db": db, "protocol": 2, "driver_info": None,
        "socket_connect_timeout": left, "socket_timeout": left, "socket_read_size": READ_BYTES, "encoding_errors": "replace",
        "retry": Retry(NoBackoff(), 0), "parser_class": partial(Answers, patience=patience),
    }  # fmt: skip
    wire = _wire(where, node, patience, options)
    wire.connect()
    return wire


def _wire(where: Address, node: tuple[str, int], patience: Patience, options: dict[str, Any]) -> Wire:
    if where.path:
        return UnixDomainSocketConnection(path=where.path, **options)  # type: ignore[abstract, no-untyped-call]
    host, port = node
    if where.tls:
        return Encrypted(ssl.create_default_context(cafile=where.authority or None), patience, host=host, port=port, **options)
    return Connection(host=host, port=port, **options)  # type: ignore[no-untyped-call]


def silent(wire: Wire) -> bool:
    """Return whether the peer sent nothing after the answer; it may have closed the connection."""
    try:
        return not wire.can_read(0)
    except (RedisError, OSError):
        return True


def idle(wire: Wire) -> bool:
    """Return whether the connection can be reused: the peer neither closed it nor sent anything unrequested."""
    try:
        return wire.is_connected and not wire.can_read(0)
    except (RedisError, OSError):
        return False
