"""One connection to Redis: one attempt per call, and a word on what became of it where there was no answer.

The connection speaks the protocol itself, on top of hiredis, because three things must be known that a general client hides:
whether anything was sent before a call failed, how long a call may take as a whole (a peer that trickles bytes keeps a timeout
per read from ever coming), and that a reply which comes too late is never taken for that to the next call.
"""

from __future__ import annotations

import contextlib
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

from riata.store.redis_url import Address

Reply = bytes | int | None | list["Reply"]

REPLY_BYTES_MAX: Final = 512 * 2**20
READ_BYTES: Final = 2**16
REDIRECTS_MAX: Final = 5


class NotSent(Exception):
    """The call was surely not executed."""


class Lost(Exception):
    """Whether the call was executed is not known; the connection it was sent on is gone."""


class Refused(Exception):
    """The server answered with an error: `code` is its first word, `text` the rest."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.code, _, self.text = message.partition(" ")


class Calls(Protocol):
    """How a `RedisStore` reaches the server. Every call is one attempt; it raises `NotSent`, `Lost` or `Refused`."""

    @property
    def address(self) -> str:
        """Of whom to complain; without secrets."""
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
    """The source of a script as it is sent. Servers before 7 know no flags, and replicate a script's effects only if told to."""
    folder = files("riata.store") / "lua"
    flags, _, body = (folder / f"{name}.lua").read_text(encoding="utf-8").partition("\n")
    if not modern:
        flags = "redis.replicate_commands()"
    return "\n".join([flags, (folder / "common.lua").read_text(encoding="utf-8"), body]).encode()


@dataclass(slots=True)
class Credentials:
    """Who we are to the server."""

    user: str = ""
    password: str = field(default="", repr=False)


class Link:
    """`Calls` over a socket. Connects when it is first needed and again after each failure."""

    def __init__(self, address: Address, credentials: Credentials) -> None:
        self._where = address
        self._credentials = credentials
        self._socket: socket.socket | None = None
        self._reader = hiredis.Reader()
        self._moved: tuple[str, int] | None = None  # the node of a cluster that has our slot
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
        return self._follow(parts, _deadline(timeout_ms))

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _digest(self, name: str) -> bytes:
        key = f"{name}{self._modern}"
        if key not in self._digests:
            text = script_text(name, self._modern)
            self._digests[key] = hashlib.sha1(text, usedforsecurity=False).hexdigest().encode()
        return self._digests[key]

    def _follow(self, parts: Sequence[bytes], deadline: float) -> Reply:
        """Send a command; where a cluster says that another node has our slot, send it there."""
        for _ in range(REDIRECTS_MAX):
            self._connect(deadline)
            try:
                return self._ask(parts, deadline)
            except Refused as error:
                if error.code in ("READONLY", "MASTERDOWN"):
                    self.close()  # it may be another's turn now: look again
                if error.code != "MOVED" or not self._where.cluster:
                    raise
                self.close()
                self._moved = _node(error.text)
        raise Refused("CLUSTERDOWN the nodes send us round in a circle")

    def _ask(self, parts: Sequence[bytes], deadline: float) -> Reply:
        """One command, one reply. The connection is fit for the next one, or closed."""
        sock = self._socket
        if sock is None:
            raise NotSent("not connected")
        if deadline <= time.monotonic():
            raise NotSent("no time is left")
        try:
            sock.settimeout(_left(deadline))
            sock.sendall(hiredis.pack_command(tuple(parts)))  # type: ignore[arg-type]  # declared to take one part
            return self._answer(sock, deadline)
        except OSError as error:
            self.close()
            raise Lost(_words(error)) from None

    def _answer(self, sock: socket.socket, deadline: float) -> Reply:
        size = 0
        while True:
            try:
                reply = self._reader.gets()
            except (hiredis.HiredisError, MemoryError, TypeError, ValueError) as error:
                self.close()
                raise Lost(f"the answer is no answer of a Redis server: {_words(error)}") from None
            if isinstance(reply, hiredis.ReplyError):
                raise Refused(str(reply))
            if reply is not False:
                if self._reader.has_data():
                    self.close()
                    raise Lost("more was answered than asked")
                try:
                    return _plain(reply)
                except Lost:
                    self.close()
                    raise
            sock.settimeout(_left(deadline))
            data = sock.recv(READ_BYTES)
            size += len(data)
            if not data or size > REPLY_BYTES_MAX:
                self.close()
                raise Lost("the connection was closed" if not data else f"an answer of more than {REPLY_BYTES_MAX} bytes")
            self._reader.feed(data)

    def _connect(self, deadline: float) -> None:
        """Be connected to whoever serves our keys. Raises `NotSent` or `Refused`."""
        if self._socket is not None and _stale(self._socket):
            self.close()
        if self._socket is not None:
            return
        reason = "no address"
        moved, self._moved = self._moved, None
        for host, port in [moved] if moved else self._masters(deadline):
            try:
                self._open(host, port, deadline)
                self._moved = moved
            except ssl.SSLCertVerificationError as error:
                self.close()
                raise Refused(f"WRONGCERT its certificate is not trusted: {error.verify_message}") from None
            except (OSError, Lost) as error:
                self.close()
                reason = f"{self._where.place(host, port)}: {_words(error)}"
                continue
            return
        raise NotSent(reason)

    def _masters(self, deadline: float) -> Sequence[tuple[str, int]]:
        nodes = self._where.nodes
        self._turn = (self._turn + 1) % len(nodes)  # one that hangs takes all the time there is: begin with another the next time
        nodes = nodes[self._turn :] + nodes[: self._turn]
        if not self._where.sentinel:
            return nodes
        for host, port in nodes:
            try:
                self._dial(host, port, deadline)
                found = self._ask([b"SENTINEL", b"get-master-addr-by-name", self._where.sentinel.encode()], deadline)
            except (OSError, Lost, Refused):
                continue
            finally:
                self.close()
            match found:
                case [bytes() as node, bytes() as number] if number.isdigit():
                    return [(node.decode(errors="replace"), int(number))]
        raise NotSent(f"no sentinel names the master of {self._where.sentinel!r}")

    def _open(self, host: str, port: int, deadline: float) -> None:
        """Connect, say who we are, choose the database, learn the version."""
        self._dial(host, port, deadline)
        try:
            if self._credentials.password or self._credentials.user:
                user = [self._credentials.user.encode()] if self._credentials.user else []
                self._ask([b"AUTH", *user, self._credentials.password.encode()], deadline)
            if self._where.db:
                self._ask([b"SELECT", b"%d" % self._where.db], deadline)
            if self._where.sentinel:
                role = self._ask([b"ROLE"], deadline)
                if not isinstance(role, list) or not role or role[0] != b"master":
                    raise Refused("READONLY the node that the sentinel names is not a master yet")
            self._modern = version_of(self._ask([b"INFO", b"server"], deadline)) >= (7,)
        except (NotSent, Refused):
            self.close()  # half introduced it must not be used
            raise

    def _dial(self, host: str, port: int, deadline: float) -> None:
        self.close()
        self._reader = hiredis.Reader()
        left = _left(deadline)
        if self._where.path:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._socket = sock
            sock.settimeout(left)
            sock.connect(self._where.path)
            return
        sock = socket.create_connection((host, port), left)
        self._socket = sock
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self._where.tls:
            context = ssl.create_default_context(cafile=self._where.authority or None)
            sock.settimeout(_left(deadline))
            self._socket = None
            with contextlib.ExitStack() as failing:
                failing.callback(sock.close)
                self._socket = context.wrap_socket(sock, server_hostname=host)
                failing.pop_all()


def version_of(info: Reply) -> tuple[int, ...]:
    """The version in an answer to INFO; (0,) where there is none."""
    for line in info.splitlines() if isinstance(info, bytes) else []:
        name, _, value = line.partition(b":")
        if name == b"redis_version":
            return tuple(int(part) for part in value.split(b".") if part.isdigit()) or (0,)
    return (0,)


def _deadline(timeout_ms: int) -> float:
    return time.monotonic() + timeout_ms / 1000


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("no answer in time")
    return left


def _stale(sock: socket.socket) -> bool:
    """Whether the peer closed, or sent what nobody asked for: such a connection is not used again."""
    if isinstance(sock, ssl.SSLSocket) and sock.pending():
        return True
    poll = select.poll()
    poll.register(sock, select.POLLIN | select.POLLHUP | select.POLLERR)
    return bool(poll.poll(0))


def _plain(reply: object) -> Reply:
    """Only what RESP 2 knows; an error inside of a list is as bad as one alone."""
    if reply is None or type(reply) is bytes or type(reply) is int:
        return reply
    if type(reply) is list:
        return [_plain(part) for part in reply]
    if isinstance(reply, hiredis.ReplyError):
        raise Refused(str(reply))
    raise Lost("the answer has a type that was not asked for")


def _node(text: str) -> tuple[str, int] | None:
    """(host, port) of "slot host:port"."""
    host, _, port = text.rpartition(" ")[2].rpartition(":")
    return (host, int(port)) if host and port.isdigit() else None


def _words(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return str(error) or type(error).__name__
