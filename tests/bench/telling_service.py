"""The real service, which reports details of its memory and threads that are not visible from outside.

`python -m tests.bench.telling_service serve ...` is `riata serve ...` with one thread more, which waits on the port in
BENCH_CONTROL and answers a line with one line of JSON. `memory`: the bytes that SQLite, the allocator of the C library and
Python's own for small objects have given out or keep free. `threads`: CPU nanoseconds of each thread so far, by its name.
Between two questions it does nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import re
import socket
import socketserver
import sqlite3
import sys
import threading
import time
from pathlib import Path
from typing import Final

from riata.cli.main import main
from tests.bench.measured import NORMAL
from tests.running import Running, free_port

CONTROL: Final = "BENCH_CONTROL"
ALL: Final = "all threads"
_MEMORY_USED: Final = 0  # SQLITE_STATUS_MEMORY_USED
_CACHE_USED: Final = 1  # SQLITE_DBSTATUS_CACHE_USED
_SAID: Final = ("# bytes in allocated blocks", "Total")  # the first total is that of the arenas
_CONNECTION_AT: Final = 2 * ctypes.sizeof(ctypes.c_void_p)  # of `sqlite3 *` in Python's connection: after count and type


class _Allocator(ctypes.Structure):
    """What mallinfo2 of the C library returns (malloc.h)."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")
    ]


def memory() -> dict[str, int]:
    """Bytes by owner."""
    clib = ctypes.CDLL(None)
    clib.mallinfo2.restype = _Allocator
    allocator = clib.mallinfo2()
    return {
        "sqlite": _sqlite_memory(),
        "sqlite_pages": sum(_sqlite_pages(found) for found in gc.get_objects() if isinstance(found, sqlite3.Connection)),
        "c_in_use": allocator.uordblks + allocator.hblkhd,
        "c_free": allocator.fordblks,
        **_python_memory(clib),
    }


def threads() -> dict[str, int]:
    """CPU nanoseconds by name of thread, those of one name together; and of all there ever were."""
    took = {ALL: time.process_time_ns()}
    for thread in threading.enumerate():
        with contextlib.suppress(FileNotFoundError):
            spent = Path(f"/proc/self/task/{thread.native_id}/schedstat").read_text(encoding="ascii").split()[0]
            took[thread.name] = took.get(thread.name, 0) + int(spent)
    return took


def _python_memory(clib: ctypes.CDLL) -> dict[str, int]:
    """Small objects of Python: bytes in use, and bytes of its arenas that are free. Both are read from a page of text."""
    clib.open_memstream.restype = ctypes.c_void_p
    text, size = ctypes.c_void_p(), ctypes.c_size_t()
    stream = ctypes.c_void_p(clib.open_memstream(ctypes.byref(text), ctypes.byref(size)))
    ctypes.pythonapi._PyObject_DebugMallocStats(stream)
    clib.fclose(stream)
    said = ctypes.string_at(text, size.value).decode()
    clib.free(text)
    used, arenas = (int(re.findall(rf"^{label} *= *([0-9,]+)$", said, re.M)[0].replace(",", "")) for label in _SAID)
    return {"python": used, "python_free": arenas - used}


def _sqlite_memory() -> int:
    used, most = ctypes.c_int64(), ctypes.c_int64()
    ctypes.CDLL("libsqlite3.so.0").sqlite3_status64(_MEMORY_USED, ctypes.byref(used), ctypes.byref(most), 0)
    return used.value


def _sqlite_pages(connection: sqlite3.Connection) -> int:
    address = ctypes.c_void_p.from_address(id(connection) + _CONNECTION_AT)
    used, most = ctypes.c_int(), ctypes.c_int()
    if address.value:
        ctypes.CDLL("libsqlite3.so.0").sqlite3_db_status(address, _CACHE_USED, ctypes.byref(used), ctypes.byref(most), 0)
    return used.value


class _Answer(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        for line in self.rfile:
            reported = memory() if line == b"memory\n" else threads()
            self.wfile.write(json.dumps(reported).encode() + b"\n")


class Telling(Running):
    """Such a service in a separate process, as a user has it but for `settings`."""

    def __init__(self, data: Path, **settings: str) -> None:
        self._control = free_port()
        super().__init__(data, {**NORMAL, **settings, CONTROL: str(self._control)}, module="tests.bench.telling_service")

    def ask(self, word: str) -> dict[str, int]:
        """What it says to `memory` or `threads`."""
        with socket.create_connection(("127.0.0.1", self._control), timeout=60) as link, link.makefile("rwb") as lines:
            lines.write(word.encode() + b"\n")
            lines.flush()
            return dict(json.loads(lines.readline()))


def run() -> None:
    """`riata serve` with the reporting thread."""
    socketserver.TCPServer.allow_reuse_address = True  # a killed one is started again on its port
    server = socketserver.TCPServer(("127.0.0.1", int(os.environ[CONTROL])), _Answer)
    threading.Thread(target=server.serve_forever, name="telling", daemon=True).start()
    main()


if __name__ == "__main__":
    sys.exit(run())  # type: ignore[func-returns-value]
