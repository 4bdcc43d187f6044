"""A service to measure: started as a process on a free port, spoken to over plain HTTP; and what the system says about it."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.running import ROOT, Running

REQUEST_S_MAX: Final = 120.0
READY_S_MAX: Final = 300.0
PROBE_S: Final = 0.004
MIB: Final = 2**20
# Byte code is written at a first start, as anybody's Python does it; a first start is what warms it up.
NORMAL: Final = {"PYTHONDONTWRITEBYTECODE": ""}


class ServiceFailed(RuntimeError):
    """The service did not start, or gave an unexpected answer."""


@dataclass(slots=True)
class Connection:
    """One keep-alive connection."""

    http: http.client.HTTPConnection

    def call(self, method: str, path: str, body: bytes = b"", content_type: str = "application/json") -> dict[str, Any]:
        """Send one request and return its JSON answer. Raises `ServiceFailed` on any status of 400 and above."""
        self.http.request(method, path, body=body, headers={"Content-Type": content_type})
        answer = self.http.getresponse()
        text = answer.read()
        if answer.status >= http.HTTPStatus.BAD_REQUEST:
            raise ServiceFailed(f"{method} {path}: {answer.status} {text[:2000].decode(errors='replace')}")
        return dict(json.loads(text)) if text else {}


def connect(port: int) -> Connection:
    """Open a connection to the service on `port` of this machine."""
    return Connection(http.client.HTTPConnection("127.0.0.1", port, timeout=REQUEST_S_MAX))


@contextlib.contextmanager
def running_service() -> Iterator[int]:
    """Start `riata serve` in a separate process over a new folder; yields its port."""
    with tempfile.TemporaryDirectory() as folder, Running(Path(folder) / "data") as running:
        running.start()
        yield running.port
        running.stop()


@dataclass(frozen=True, slots=True)
class Start:
    """One start: seconds from exec to ready, CPU seconds of it, bytes it had to read from the disk, anonymous memory after it."""

    seconds: float
    cpu_s: float
    read_bytes: int
    memory: int


def service(data: Path, **settings: str) -> Running:
    """A service over `data` with settings of the environment, as a user has it."""
    return Running(data, {**NORMAL, **settings})


def start(running: Running) -> Start:
    """Start it and wait for /readyz in small steps."""
    begun = time.perf_counter()
    running.start(wait=False)
    while not _is_ready(running.port):
        if running.process.poll() is not None or time.perf_counter() - begun > READY_S_MAX:
            raise RuntimeError(f"the service did not start:\n{running.output()}")
        time.sleep(PROBE_S)
    seconds = time.perf_counter() - begun
    return Start(seconds, cpu_s(running.process.pid), _read_bytes(running.process.pid), memory(running.process.pid))


def _is_ready(port: int) -> bool:
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        link.request("GET", "/readyz")
        return link.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        link.close()


def cpu_s(pid: int) -> float:
    """User and system seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> int:
    """Anonymous resident bytes of a process: what it has written, without the files that it only reads."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("RssAnon:"):
            return 1024 * int(line.split()[1])
    raise RuntimeError("the kernel does not say RssAnon")


def _read_bytes(pid: int) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/io").read_text(encoding="ascii").splitlines():
            if line.startswith("read_bytes:"):
                return int(line.split()[1])
    return 0


def files_of_a_start(data: Path) -> Iterator[Path]:
    """The files that a start reads: the interpreter and its library, installed packages, this package with its machine code,
    the data.
    """
    paths = sysconfig.get_paths()
    for folder in {paths["stdlib"], paths["purelib"], paths["platlib"], str(ROOT / "service"), str(data)}:
        yield from (path for path in Path(folder).rglob("*") if path.is_file())
    yield Path(sys.executable).resolve()


def cool(data: Path) -> None:
    """Remove those files from the kernel's cache. This needs no privilege; pages that other processes have mapped stay."""
    for path in files_of_a_start(data):
        with contextlib.suppress(OSError):
            number = os.open(path, os.O_RDONLY)
            try:
                os.fdatasync(number)
                os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(number)
