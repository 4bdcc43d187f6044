"""A service of our own to measure: started as a process on a free port, spoken to over plain HTTP, stopped afterwards."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

START_S_MAX: Final = 120.0  # the first start on a machine compiles every kernel
STOP_S_MAX: Final = 30.0
REQUEST_S_MAX: Final = 120.0


class ServiceFailed(RuntimeError):
    """The service did not start, or answered what the bench did not expect."""


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


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running_service(data: Path | None = None) -> Iterator[int]:
    """Start `riata serve` in a process of its own over `data` (a fresh folder by default); yields its port."""
    with tempfile.TemporaryDirectory() as folder:
        port = _free_port()
        log = Path(folder) / "service.log"
        command = [sys.executable, "-m", "riata", "serve", "--port", str(port), "--data", str(data or Path(folder) / "data")]
        package = str(Path(__file__).resolve().parents[2] / "service")
        with log.open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output, env=os.environ | {"PYTHONPATH": package})
        try:
            _await_ready(process, port, log)
            yield port
        finally:
            process.terminate()
            try:
                process.wait(STOP_S_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _await_ready(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    give_up = time.monotonic() + START_S_MAX
    while time.monotonic() < give_up and process.poll() is None:
        try:
            connect(port).call("GET", "/startupz")
            return
        except (OSError, http.client.HTTPException, ServiceFailed):
            time.sleep(0.1)
    raise ServiceFailed(f"riata serve did not start:\n{log.read_text(errors='replace')[-4000:]}")
