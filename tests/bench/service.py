"""A service of our own to measure: started as a process on a free port, spoken to over plain HTTP, stopped afterwards."""

from __future__ import annotations

import http.client
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.running import Running

REQUEST_S_MAX: Final = 120.0


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


@contextmanager
def running_service(data: Path | None = None) -> Iterator[int]:
    """Start `riata serve` in a separate process over `data` (a new folder by default); yields its port."""
    with tempfile.TemporaryDirectory() as folder, Running(data or Path(folder) / "data") as running:
        running.start()
        yield running.port
        running.stop()
