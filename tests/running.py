"""The real service as a separate process that tests can send requests to, kill and restart."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import itertools
import os
import random
import signal
import socket
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

from tests import forked
from tests.forked import Program

HANG_S = 900.0  # nothing takes longer, however slow or busy the machine; what does hangs
READY_S = HANG_S
ROOT = Path(__file__).parents[1]


def environment(**more: str) -> dict[str, str]:
    """Variables of a process that runs this tree: no settings of the service but those in `more`."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith("RIATA_")}
    return {**outside, "PYTHONPATH": os.pathsep.join((str(ROOT / "service"), str(ROOT))), **more}


def wait_for(what: str, found: Callable[[], object], every_s: float = 0.05) -> None:
    """Wait until something is found. what : said if it is never found"""
    deadline = time.monotonic() + HANG_S
    while not found():
        assert time.monotonic() < deadline, what
        time.sleep(every_s)


def until(holds: Callable[[], object]) -> None:
    """Wait for a condition that takes no time to look at."""
    wait_for("it never held", holds, every_s=0.005)


OUTGOING = Path("/proc/sys/net/ipv4/ip_local_port_range")
_FIRST, _STOP, _ENOUGH = 11_000, 32_000, 2_000


def served_ports() -> range:
    """Return the ports below the ephemeral range, if that leaves enough of them.

    A port from there may belong to a client of another test by the time a server wants it, and stay with it for as long as that
    test runs.
    """
    lowest = int(OUTGOING.read_text().split()[0]) if OUTGOING.exists() else _STOP
    return range(_FIRST, min(lowest, _STOP) if lowest >= _FIRST + _ENOUGH else _STOP)


_PORTS = served_ports()
_ports = itertools.count(random.SystemRandom().randrange(len(_PORTS)))


@functools.cache
def _ports_taken() -> int:
    """A file in which each test process locks the bytes whose offsets are its ports, as long as it lives."""
    return os.open(Path(tempfile.gettempdir()) / f"riata-test-ports-{os.getuid()}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def free_port() -> int:
    """Return a port that is free now and reserved for this process, even while its server is down.

    Raises `RuntimeError` if none is free.
    """
    for number in itertools.islice(_ports, len(_PORTS)):
        port = _PORTS[number % len(_PORTS)]
        with socket.socket() as probe, contextlib.suppress(OSError):
            fcntl.lockf(_ports_taken(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError(f"no port from {_PORTS[0]} to {_PORTS[-1]} is free")


class Running:
    """`riata serve` on a directory; `start` again after `kill` finds what was there."""

    def __init__(
        self, directory: Path, environment: dict[str, str] | None = None, module: str = "riata", arguments: tuple[str, ...] = ()
    ) -> None:
        self.directory = directory
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._module = module
        self._environment = environment or {}
        self._arguments = arguments
        self._log = directory.parent / f"{directory.name}.log"
        self._process: Program | None = None
        self._begun = 0  # of the log, where the present process begins

    def start(self, wait: bool = True) -> None:
        arguments = ["serve", "--port", str(self.port), "--data", str(self.directory), *self._arguments]
        # The tests keep the processors busy, and some of them wait for a refit.
        variables = environment(**{"RIATA_REFIT_NICE": "0", **self._environment})
        self._begun = len(self.log()) if self._log.exists() else 0
        self._process = forked.start(self._module, arguments, variables, self._log, Path.cwd())
        if wait:
            self.wait_until_ready()

    @staticmethod
    def of_role(directory: Path, role: str, store: str, environment: dict[str, str] | None = None) -> Running:
        """A process of a service on a shared store, whose lease is short enough for tests."""
        short = {"RIATA_LEASE_TTL_MS": "3000", "RIATA_FOLLOW_EVERY_MS": "50", "RIATA_STORE_TIMEOUT_MS": "2000"}
        return Running(directory, {**short, **(environment or {})}, arguments=("--role", role, "--store", store))

    def wait_until_ready(self) -> None:
        """Wait until events and predictions are accepted, and everything from before the start is learnt.

        Raises `RuntimeError` if the process ends, or its liveness probe fails.
        """
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError(f"the service ended with {self.process.returncode}:\n{self.output()}")
            try:
                answer = httpx.get(f"{self.url}/readyz", timeout=5)
                if answer.status_code == 200 and not answer.json().get("replaying"):
                    return
                alive = httpx.get(f"{self.url}/livez", timeout=5)
                if alive.status_code != 200:
                    raise RuntimeError(f"the service is not alive: {alive.text}:\n{self.output()}")
            except httpx.TransportError:
                pass
            time.sleep(0.02)
        raise RuntimeError(f"the service is not ready after {READY_S} s:\n{self.output()}")

    def lives(self) -> bool:
        """Start; returns whether it became ready."""
        self.start(wait=False)
        try:
            self.wait_until_ready()
        except RuntimeError:
            return False
        return True

    def pause(self) -> None:
        """SIGSTOP: connections stay open and the process does not run."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self.process.send_signal(signal.SIGCONT)

    def wait(self, timeout_s: float = HANG_S) -> int:
        """Wait until the process ends; returns the exit code."""
        return self.process.wait(timeout_s)

    @property
    def process(self) -> Program:
        if self._process is None:
            raise RuntimeError("not started")
        return self._process

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(HANG_S)

    def output(self) -> str:
        return self._log.read_text(errors="replace")[-4000:]

    def log(self) -> str:
        """Everything that the processes have written so far."""
        return self._log.read_text(errors="replace")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()
