"""One connection to Redis: one attempt per call, with an exception that says whether a failed call may have been executed.

hiredis parses answers; everything else is here. The clients of redis-py repeat calls that were not answered,
and only this program knows which calls may be repeated. This module reports whether a failed call was sent, and selects the node
to connect to (Sentinel, cluster). It closes a connection that failed, so a late reply is never read as that of the next call.
"""

from __future__ import annotations

import hashlib
import select
import socket
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Final, Protocol

import hiredis

from riata.store.redis.url import Address

READ_BYTES: Final = 2**14
READS_MAX: Final = 2**16  # of one answer: 1 GiB, and still more than the largest record if each read returns one segment

Reply = bytes | int | None | list["Reply"]

REDIRECTS_MAX: Final = 5
KEPT_ALIVE: Final = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}  # in s; firewalls forget connections that idle


class ErrorReply(Exception):
    """An error as an answer; its message is that of the server."""


# What a connection may raise if the peer is gone, slow, or not a Redis.
FAILURES: Final = (hiredis.HiredisError, OSError, MemoryError, OverflowError, TypeError, ValueError)


class Wire:
    """A connected socket that speaks RESP 2. Every call raises one of `FAILURES` if it fails; then the wire must be closed."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._parser = hiredis.Reader(
            protocolError=hiredis.ProtocolError, replyError=ErrorReply, errors="replace", notEnoughData=NotImplemented
        )
        self._buffer = bytearray(READ_BYTES)
        self._arrivals = select.poll()
        self._arrivals.register(connected, select.POLLIN)

    def ask(self, parts: Sequence[bytes], deadline: float) -> object:
        """Send one command and return its reply.

        deadline : in seconds of the monotonic clock, of the whole answer: a peer that trickles bytes never reaches one per read
        """
        self._socket.settimeout(_left(deadline))
        self._socket.sendall(packed(parts))
        for _ in range(READS_MAX):
            self._socket.settimeout(_left(deadline))
            read = self._socket.recv_into(self._buffer)
            if not read:
                raise ConnectionError("the server closed the connection")
            self._parser.feed(self._buffer, 0, read)  # type: ignore[arg-type]  # any buffer
            reply = self._parser.gets(False)
            if reply is not NotImplemented:
                break
        else:
            raise ConnectionError(f"an answer of more than {READS_MAX} pieces")
        if self._parser.has_data():
            raise ConnectionError("the server sent more answers than there were commands")
        return reply

    def idle(self) -> bool:
        """Return whether the wire can be used again: the peer neither closed it nor sent anything unrequested."""
        return not self._arrivals.poll(0)

    def close(self) -> None:
        self._socket.close()


def packed(parts: Sequence[bytes]) -> bytes:
    """Return a command as it is sent. hiredis takes 350 µs of processor time for one of 360 kB, this 11 µs."""
    pieces = [b"*%d\r\n" % len(parts)]
    for part in parts:
        pieces += (b"$%d\r\n" % len(part), part, b"\r\n")
    return b"".join(pieces)


def dial(where: Address, node: tuple[str, int], deadline: float) -> Wire:
    """Connect to `node`. Raises `FAILURES`."""
    connected = socket.socket(socket.AF_UNIX) if where.path else socket.create_connection(node, _left(deadline))
    try:
        connected.settimeout(_left(deadline))
        if where.path:
            connected.connect(where.path)
            return Wire(connected)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in KEPT_ALIVE.items():
            if hasattr(socket, option):
                connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
        if where.tls:
            trusted = ssl.create_default_context(cafile=where.authority or None)
            connected = trusted.wrap_socket(connected, server_hostname=node[0])
        return Wire(connected)
    except BaseException:
        connected.close()
        raise


def _left(deadline: float) -> float:
    """Return the seconds that are left. Raises `TimeoutError` if none are."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("no answer in time")
    return left


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
    """`Calls` over a `Wire`. Connects on first use and again after each failure."""

    def __init__(self, address: Address, credentials: Credentials) -> None:
        self._where = address
        self._credentials = credentials
        self._wire: Wire | None = None
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
            self._wire.close()
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
        wire = self._wire
        if wire is None or deadline <= time.monotonic():
            raise NotSent("not connected" if wire is None else "no time is left")
        try:
            return _plain(wire.ask(parts, deadline))
        except ErrorReply as error:
            raise Refused(str(error)) from None
        except FAILURES as error:
            self.close()
            raise Lost(_words(error)) from None
        except BaseException:
            self.close()  # the reply may still come
            raise

    def _connect(self, deadline: float) -> None:
        """Connect to the node that serves our keys, unless connected. Raises `NotSent` or `Refused`."""
        if self._wire is not None and self._wire.idle():
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
                self._dial(host, port, deadline)
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
        self._dial(host, port, deadline)
        try:
            self._introduce(deadline)
            if self._where.sentinel:
                role = self._ask([b"ROLE"], deadline)
                if not isinstance(role, list) or not role or role[0] != b"master":
                    raise Refused("READONLY the node named by the sentinel is not a master yet")
            self._modern = version_of(self._ask([b"INFO", b"server"], deadline)) >= (7,)
        except (NotSent, Refused):
            self.close()  # a connection with an incomplete handshake must not be used
            raise

    def _introduce(self, deadline: float) -> None:
        who = self._credentials
        if who.user or who.password:
            names = [who.user.encode()] if who.user else []
            self._ask([b"AUTH", *names, who.password.encode()], deadline)
        if self._where.db:
            self._ask([b"SELECT", b"%d" % self._where.db], deadline)

    def _dial(self, host: str, port: int, deadline: float) -> None:
        self.close()
        try:
            self._wire = dial(self._where, (host, port), deadline)
        except ssl.SSLCertVerificationError as error:
            raise Refused(f"WRONGCERT its certificate is not trusted: {error.verify_message}") from None
        except FAILURES as error:
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
    if isinstance(reply, ErrorReply):
        raise reply
    raise TypeError("the answer has an unexpected type")


def _node(text: str) -> tuple[str, int] | None:
    """Return (host, port) of "slot host:port"."""
    host, _, port = text.rpartition(" ")[2].rpartition(":")
    return _place(host, port)


def _place(host: str, port: str) -> tuple[str, int] | None:
    """Return (host, port), None if they are invalid."""
    return (host, int(port)) if host and port.isascii() and port.isdigit() and len(port) <= 5 and int(port) < 2**16 else None


def _words(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return str(error) or type(error).__name__
