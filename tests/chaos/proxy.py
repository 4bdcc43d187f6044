"""A TCP proxy that makes connections slow, cut, frozen or one-way, or delivers them byte by byte.

with Proxy(target_port) as proxy:
    proxy.delay_s = 0.2          # every piece in both directions waits so long
    proxy.drop_replies = True    # requests arrive, answers do not: they are swallowed
    proxy.frozen = True          # nothing moves in either direction, connections stay open
    proxy.trickle_bytes = 64     # this many bytes a second in each direction; 0 for no limit
    proxy.cut_after(1000)        # every connection is reset after this many more bytes of answers
    proxy.cut()                  # reset every connection now
    proxy.half_close()           # end the sending half towards the target: it sees the end of the requests
    proxy.refuse = True          # new connections are closed at once
    proxy.hold_requests = True   # requests are kept, and delivered when this is false again
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from types import TracebackType
from typing import Self

PIECE = 65_536
TICK_S = 0.005


class Link:
    """One connection through the proxy."""

    def __init__(self, proxy: Proxy, near: socket.socket, far: socket.socket) -> None:
        self.proxy, self.near, self.far = proxy, near, far
        self.left: int | None = None  # bytes of answers until the cut
        self.ended = False
        self.pumps = [
            threading.Thread(target=self._pump, args=way, daemon=True) for way in ((near, far, True), (far, near, False))
        ]

    def start(self) -> None:
        for pump in self.pumps:
            pump.start()

    def cut(self) -> None:
        """Reset both sides."""
        self.ended = True
        for end in (self.near, self.far):
            with contextlib.suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)  # wakes the pump that reads it

    def _pump(self, source: socket.socket, sink: socket.socket, requests: bool) -> None:
        proxy = self.proxy
        try:
            while not self.ended:
                piece = source.recv(PIECE)
                if not piece:
                    break
                arrived = time.monotonic()
                while not self.ended and (
                    proxy.frozen or (requests and proxy.hold_requests) or time.monotonic() < arrived + proxy.delay_s
                ):
                    time.sleep(TICK_S)
                if self.ended:
                    break
                if requests:
                    proxy.requests += 1
                elif proxy.drop_replies:
                    proxy.dropped += 1
                    continue
                self._pass_on(piece, sink, requests)
            if not self.ended:
                sink.shutdown(socket.SHUT_WR)
        except OSError:
            self.cut()

    def _pass_on(self, piece: bytes, sink: socket.socket, requests: bool) -> None:
        if not requests and self.left is not None:
            piece, self.left = piece[: self.left], self.left - len(piece)
        rate = self.proxy.trickle_bytes
        step = max(1, rate // 20) if rate else len(piece)
        for start in range(0, len(piece), step or 1):
            if self.ended:
                return
            sink.sendall(piece[start : start + step])
            if rate:
                time.sleep(step / rate)
        if not requests and self.left is not None and self.left <= 0:
            self.cut()

    def close(self) -> None:
        self.cut()
        for pump in self.pumps:
            pump.join(5)
        for end in (self.near, self.far):
            end.close()


class Proxy:
    """Listens on a free port and passes on to `target_port`."""

    def __init__(self, target_port: int) -> None:
        self.target_port = target_port
        self.delay_s = 0.0
        self.trickle_bytes = 0
        self.drop_replies = self.frozen = self.refuse = self.hold_requests = False
        self.requests = self.dropped = 0
        self._cut_after: int | None = None
        self._links: list[Link] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.1)
        self._closing = False
        self._thread = threading.Thread(target=self._accept, daemon=True)

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    def url_of(self, scheme: str = "redis", path: str = "/0") -> str:
        """The URL under which clients reach the target through this proxy."""
        return f"{scheme}://127.0.0.1:{self.port}{path}"

    def cut_after(self, reply_bytes: int | None) -> None:
        """Reset current and future connections after this many bytes of answers; None: no longer."""
        self._cut_after = reply_bytes
        for link in self._links:
            link.left = reply_bytes

    def cut(self) -> None:
        """Reset every connection."""
        for link in list(self._links):
            link.cut()

    def half_close(self) -> None:
        """Signal to the target on every connection that no more requests follow; answers still pass."""
        for link in list(self._links):
            with contextlib.suppress(OSError):
                link.far.shutdown(socket.SHUT_WR)

    def heal(self) -> None:
        """End all faults; connections that were reset stay reset."""
        self.delay_s, self.trickle_bytes = 0.0, 0
        self.drop_replies = self.frozen = self.refuse = self.hold_requests = False
        self.cut_after(None)

    def _accept(self) -> None:
        while not self._closing:
            try:
                near, _ = self._listener.accept()
            except TimeoutError:
                self._forget_ended()
                continue
            except OSError:
                return
            if self.refuse:
                near.close()
                continue
            try:
                far = socket.create_connection(("127.0.0.1", self.target_port), timeout=5)
            except OSError:
                near.close()
                continue
            far.settimeout(None)
            near.settimeout(None)
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link = Link(self, near, far)
            link.left = self._cut_after
            self._links.append(link)
            link.start()

    def _forget_ended(self) -> None:
        for link in [link for link in self._links if not any(pump.is_alive() for pump in link.pumps)]:
            self._links.remove(link)
            link.close()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._closing = True
        self._thread.join(5)
        self._listener.close()
        for link in self._links:
            link.close()
