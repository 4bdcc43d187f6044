"""A peer served by uvicorn as most people start it, in a separate process: uvloop, httptools, one worker, no access log."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import tempfile
import time
from types import TracebackType
from typing import Final, Self

import psutil

from tests.running import ROOT, free_port

READY_S_MAX: Final = 60.0
STOP_S_MAX: Final = 10.0
PROBE_S: Final = 0.02


class RivalFailed(RuntimeError):
    """A peer did not start, or is not installed."""


class UvicornRival:
    """Context manager: the peer runs inside it and answers on `port` of 127.0.0.1.

    application : `module:name` of an ASGI application, or of what builds it where `factory`
    environment : variables it is given beside ours
    """

    def __init__(self, application: str, factory: bool = False, environment: dict[str, str] | None = None) -> None:
        self.port = free_port()
        self._application = application
        self._factory = factory
        self._environment = environment or {}
        self._process: subprocess.Popen[bytes] | None = None
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed by _stop

    @property
    def pid(self) -> int:
        """Number of its process."""
        if self._process is None:
            raise RivalFailed(f"{self._application} is not running")
        return self._process.pid

    def cpu_s(self) -> float:
        """User and system seconds it has used."""
        times = psutil.Process(self.pid).cpu_times()
        return float(times.user + times.system)

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "uvicorn", self._application, *(["--factory"] if self._factory else [])]
        command += ["--host", "127.0.0.1", "--port", str(self.port), "--loop", "uvloop", "--http", "httptools", "--workers", "1"]
        command += ["--no-access-log", "--log-level", "warning", "--timeout-keep-alive", "600"]
        paths = os.pathsep.join((str(ROOT / "service"), str(ROOT)))
        environment = {**os.environ, "PYTHONPATH": paths, **self._environment}
        self._process = subprocess.Popen(command, stdout=self._said, stderr=self._said, env=environment)
        try:
            self._wait_until_ready()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop()

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + READY_S_MAX
        while time.monotonic() < deadline:
            if self._process is None or self._process.poll() is not None:
                raise RivalFailed(f"{self._application} ended:\n{self._output()}")
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
            try:
                connection.request("GET", "/ready")
                if connection.getresponse().status == http.HTTPStatus.OK:
                    return
            except OSError:
                time.sleep(PROBE_S)
            finally:
                connection.close()
        raise RivalFailed(f"{self._application} does not answer after {READY_S_MAX:.0f} s:\n{self._output()}")

    def _output(self) -> str:
        self._said.seek(0)
        return self._said.read().decode(errors="replace")[-4000:]

    def _stop(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None
        self._said.close()
