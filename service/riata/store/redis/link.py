"""One connection to Redis: one attempt per call, with an exception that says whether a failed call may have been executed.

The connection is that of redis-py (`link.py`). Its clients and pools are not used: they repeat calls that were not answered, and
only this program knows which calls may be repeated. This module reports whether a failed call was sent, and selects the node to
connect to (Sentinel, cluster). It closes a connection that failed, so a late reply is never read as that of the next call.
"""

from __future__ import annotations

import hashlib
import socket
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.resources import files
from typing import Any, Final, Protocol

from redis.backoff import NoBackoff
from redis.connection import Connection, DefaultParser, UnixDomainSocketConnection
from redis.exceptions import InvalidResponse, RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeout
from redis.retry import Retry

from riata.store.redis.url import Address

READ_BYTES: Final = 2**14
READS_MAX: Final = 2**16  # of one answer: 1 GiB, and still more than the largest record if each read returns one segment

# What a connection may raise if the peer is gone, slow, or not a Redis.
FAILURES: Final = (RedisError, OSError, MemoryError, OverflowError, TypeError, ValueError)

Reply = bytes | int | None | list["Reply"]

REDIRECTS_MAX: Final = 5


# Adapter of a redis-py connection: it connects, authenticates, packs requests and reads replies.
#
# Differences from redis-py: one deadline for a whole answer, since a peer that trickles bytes never reaches a timeout per read; a
# limit on the number of reads of an answer; error messages are kept verbatim; no retries, and no commands of its own.


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


class NotSent(Exception):
    """The call was not executed."""


class Lost(Exception):
    """It is unknown whether the call was executed; its connection is closed."""


class Refused(Exception):
    """The server answered with an error: `code` is its first word, `text` the rest."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.code, _, self.text = message.partition(" ")


class Calls(Protocol):
    """Calls of a `RedisStore` to the server. Every call is one attempt; it raises `NotSent`, `Lost` or `Refused`."""

    @property
    def address(self) -> str:
        """Address of the server for messages, without secrets."""
        ...

    def script(self, name: str, keys: Sequence[bytes], arguments: Sequence[bytes], timeout_ms: int) -> Reply:
        """Run lua/<name>.lua."""
        ...

    def command(self, parts: Sequence[bytes], timeout_ms: int) -> Reply:
        """Run one command."""
        ...

    def close(self) -> None: ...


@cache
def script_text(name: str, modern: bool = True) -> bytes:
    """Return the source of a script as it is sent. Servers before version 7 have no script flags, and replicate effects only on
    request."""
    folder = files("riata.store.redis") / "lua"
    flags, _, body = (folder / f"{name}.lua").read_text(encoding="utf-8").partition("\n")
    if not modern:
        flags = "redis.replicate_commands()"
    return "\n".join([flags, (folder / "common.lua").read_text(encoding="utf-8"), body]).encode()


@dataclass(slots=True)
class Credentials:
    """User and password for the server."""

    user: str = ""
    password: str = field(default="", repr=False)


class Link:
    """`Calls` over a connection of redis-py. Connects on first use and again after each failure."""

    def __init__(self, address: Address, credentials: Credentials) -> None:
        self._where = address
        self._credentials = credentials
        self._wire: Wire | None = None
        self._patience = Patience()
        self._moved: tuple[str, int] | None = None  # the cluster node that serves our slot
        self._turn = -1
        self._modern = True
        self._digests: dict[str, bytes] = {}

    @property
    def address(self) -> str:
        return self._where.shown

    def script(self, name: str, keys: Sequence[bytes], arguments: Sequence[bytes], timeout_ms: int) -> Reply:
        deadline = _deadline(timeout_ms)
        self._connect(deadline)
        rest = [b"%d" % len(keys), *keys, *arguments]
        try:
            return self._follow([b"EVALSHA", self._digest(name), *rest], deadline)
        except Refused as error:
            if error.code != "NOSCRIPT":
                raise
        self._connect(deadline)
        return self._follow([b"EVAL", script_text(name, self._modern), *rest], deadline)

    def command(self, parts: Sequence[bytes], timeout_ms: int) -> Reply:
        deadline = _deadline(timeout_ms)
        self._connect(deadline)
        return self._follow(parts, deadline)

    def close(self) -> None:
        if self._wire is not None:
            self._wire.disconnect()
            self._wire = None

    def _digest(self, name: str) -> bytes:
        key = f"{name}{self._modern}"
        if key not in self._digests:
            text = script_text(name, self._modern)
            self._digests[key] = hashlib.sha1(text, usedforsecurity=False).hexdigest().encode()
        return self._digests[key]

    def _follow(self, parts: Sequence[bytes], deadline: float) -> Reply:
        """Send a command over the connection; if a cluster redirects it to another node, send it there."""
        for _ in range(REDIRECTS_MAX):
            if self._wire is None:
                self._connect(deadline)
            try:
                return self._ask(parts, deadline)
            except Refused as error:
                if error.code in ("READONLY", "MASTERDOWN"):
                    self.close()  # another node may be the master now: look it up again
                if error.code != "MOVED" or not self._where.cluster:
                    raise
                self.close()
                self._moved = _node(error.text)
        raise Refused("CLUSTERDOWN the nodes redirect the request in a circle")

    def _ask(self, parts: Sequence[bytes], deadline: float) -> Reply:
        """Send one command and read its reply. Afterwards the connection is either reusable or closed."""
        wire, left = self._wire, deadline - time.monotonic()
        if wire is None or left <= 0:
            raise NotSent("not connected" if wire is None else "no time is left")
        self._patience.begin(deadline)
        try:
            wire.update_current_socket_timeout(left)
            wire.send_packed_command(wire.pack_command(*parts), check_health=False)
            reply = wire.read_response(disable_decoding=True)
            if not silent(wire):
                raise InvalidResponse("the server sent more answers than there were commands")
            return _plain(reply)
        except ResponseError as error:
            raise Refused(str(error)) from None
        except FAILURES as error:
            self.close()
            raise Lost(_words(error)) from None

    def _connect(self, deadline: float) -> None:
        """Connect to the node that serves our keys, unless connected. Raises `NotSent` or `Refused`."""
        if self._wire is not None and idle(self._wire):
            return
        self.close()
        reason = "no address"
        moved, self._moved = self._moved, None
        for host, port in [moved] if moved else self._masters(deadline):
            try:
                self._open(host, port, deadline)
                self._moved = moved
            except Lost as error:
                reason = f"{self._where.place(host, port)}: {error}"
                continue
            return
        raise NotSent(reason)

    def _masters(self, deadline: float) -> Sequence[tuple[str, int]]:
        nodes = self._where.nodes
        self._turn = (self._turn + 1) % len(nodes)  # a node that hangs uses all of the timeout: begin with another one next time
        nodes = nodes[self._turn :] + nodes[: self._turn]
        if not self._where.sentinel:
            return nodes
        for host, port in nodes:
            try:
                self._dial(host, port, deadline, Credentials())
                found = self._ask([b"SENTINEL", b"get-master-addr-by-name", self._where.sentinel.encode()], deadline)
            except (Lost, Refused):
                continue
            finally:
                self.close()
            match found:
                case [bytes() as node, bytes() as number]:
                    if place := _place(node.decode(errors="replace"), number.decode(errors="replace")):
                        return [place]
        raise NotSent(f"no sentinel names the master of {self._where.sentinel!r}")

    def _open(self, host: str, port: int, deadline: float) -> None:
        """Connect, authenticate, select the database, read the version. Raises `Lost`, `NotSent` or `Refused`."""
        self._dial(host, port, deadline, self._credentials, self._where.db)
        try:
            if self._where.sentinel:
                role = self._ask([b"ROLE"], deadline)
                if not isinstance(role, list) or not role or role[0] != b"master":
                    raise Refused("READONLY the node named by the sentinel is not a master yet")
            self._modern = version_of(self._ask([b"INFO", b"server"], deadline)) >= (7,)
        except (NotSent, Refused):
            self.close()  # a connection with an incomplete handshake must not be used
            raise

    def _dial(self, host: str, port: int, deadline: float, who: Credentials, db: int = 0) -> None:
        """Connect and authenticate as `who`. Raises `Lost`, or `Refused` if the server answers with an error."""
        self.close()
        self._patience.begin(deadline)
        try:
            self._wire = dial(self._where, (host, port), self._patience, who.user, who.password, db)
        except ResponseError as error:
            raise Refused(str(error)) from None
        except FAILURES as error:
            if isinstance(error.__context__, ssl.SSLCertVerificationError):
                raise Refused(f"WRONGCERT its certificate is not trusted: {error.__context__.verify_message}") from None
            raise Lost(_words(error)) from None


def version_of(info: Reply) -> tuple[int, ...]:
    """Return the version in an answer to INFO; (0,) if there is none."""
    for line in info.splitlines() if isinstance(info, bytes) else []:
        name, _, value = line.partition(b":")
        if name == b"redis_version":
            return tuple(int(part) for part in value.split(b".") if part.isdigit()) or (0,)
    return (0,)


def _deadline(timeout_ms: int) -> float:
    return time.monotonic() + timeout_ms / 1000


def _plain(reply: object) -> Reply:
    """Accept only types of RESP 2. An error inside a list is raised like one alone."""
    if reply is None or type(reply) is bytes or type(reply) is int:
        return reply
    if type(reply) is list:
        return [_plain(part) for part in reply]
    if isinstance(reply, ResponseError):
        raise reply
    raise InvalidResponse("the answer has an unexpected type")


def _node(text: str) -> tuple[str, int] | None:
    """Return (host, port) of "slot host:port"."""
    host, _, port = text.rpartition(" ")[2].rpartition(":")
    return _place(host, port)


def _place(host: str, port: str) -> tuple[str, int] | None:
    """Return (host, port), None if they are invalid."""
    return (host, int(port)) if host and port.isascii() and port.isdigit() and len(port) <= 5 and int(port) < 2**16 else None


def _words(error: BaseException) -> str:
    if isinstance(error, (TimeoutError, RedisTimeout)):
        return "no answer in time"
    return str(error) or type(error).__name__
