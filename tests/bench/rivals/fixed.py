"""uvloop that writes one fixed answer for whatever comes: the limit of what a server of this interpreter can say on this machine.

It only counts the requests in what has come: what its round trip takes is the kernel, the event loop and the client. It may stay
awake after an answer, as the service does.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from types import TracebackType
from typing import Final, Self, cast

import psutil
import uvloop

from riata.web.server.fast_path import BusyPoll
from tests.running import ROOT, free_port

READY_S_MAX: Final = 30.0
PROBE_S: Final = 0.02
LINE_END: Final = b" HTTP/1.1\r\n"  # of the first line of each
BODY: Final = b'{"probability":0.5,"margin":0.0,"label":1,"std_error":null,"known_features":9,"unknown_features":1}'
ANSWER: Final = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(BODY), BODY)


class Fixed(asyncio.Protocol):
    """One connection."""

    transport: asyncio.Transport

    def __init__(self, awake: BusyPoll) -> None:
        self._awake = awake
        self._loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep it."""
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Answer."""
        self.transport.write(ANSWER * data.count(LINE_END))
        self._awake.stay(self._loop)


async def serve(port: int, busy_poll_us: int) -> None:
    """Serve until the process is ended."""
    awake = BusyPoll(busy_poll_us)
    server = await asyncio.get_running_loop().create_server(lambda: Fixed(awake), "127.0.0.1", port)
    await server.serve_forever()


class UvloopFixed:
    """Context manager: the server above as a separate process, on `port` of 127.0.0.1; it polls for `busy_poll_us` after an
    answer.
    """

    def __init__(self, busy_poll_us: int = 0) -> None:
        self.port = free_port()
        self._busy_poll_us = busy_poll_us

    def cpu_s(self) -> float:
        """User and system seconds it has used."""
        times = psutil.Process(self._process.pid).cpu_times()
        return float(times.user + times.system)

    def __enter__(self) -> Self:
        self._process = subprocess.Popen([sys.executable, "-m", __name__, str(self.port), str(self._busy_poll_us)], cwd=ROOT)
        deadline = time.monotonic() + READY_S_MAX
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=5).close()
            except OSError:
                if time.monotonic() > deadline:
                    self._process.kill()
                    raise
                time.sleep(PROBE_S)
            else:
                return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait()


if __name__ == "__main__":
    uvloop.run(serve(*map(int, sys.argv[1:])))
