"""The `vw` program: over a file in a separate process, and as its daemon over TCP.

How the daemon serves connections (read in its source, 9.11): it forks `--num_children` children before it serves anybody;
each takes one connection and serves it alone until the client closes it, then takes the next. Weights are shared memory that
all children write without locks. More connections than children wait unserved, in a queue of one. So 64 connections at a
time need 64 children: `VwDaemon(connections=64)`, which is the best it can do for them.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

import psutil

from tests.running import ROOT, free_port

BUILT: Final = ROOT / ".vw" / "vw"
READY_S_MAX: Final = 30.0
STOP_S_MAX: Final = 10.0
ANSWER_S_MAX: Final = 120.0
READ_BYTES: Final = 1 << 16


class RivalFailed(RuntimeError):
    """A peer did not start, or is not installed."""


class VwRun(NamedTuple):
    """Wall seconds from start to end of the process, its user and system seconds, its own final average loss, its rows."""

    seconds: float
    cpu_s: float
    progressive_loss: float
    examples: int = 0


def vw_program() -> Path:
    """Find the program: the variable RIATA_VW, then the PATH, then .vw/vw. Raises `RivalFailed` saying how to get it."""
    named = os.environ.get("RIATA_VW")
    if named:
        if os.access(named, os.X_OK):
            return Path(named)
        raise RivalFailed(f"RIATA_VW names {named}, which is not a program that can be run")
    found = shutil.which("vw")
    if found:
        return Path(found)
    if os.access(BUILT, os.X_OK):
        return BUILT
    raise RivalFailed("the program `vw` is not here: `make vw` builds it, or name one in the variable RIATA_VW")


def vw_run(arguments: Sequence[str], input_file: Path | None = None) -> VwRun:
    """Run `vw` over a file. Raises `RivalFailed` if it fails or says no loss.

    arguments  : its options, without --quiet; the loss is read from what it prints
    input_file : given with -d; None if the options name what is read, as --cache_file does
    """
    command = [str(vw_program()), *arguments, *(["-d", str(input_file)] if input_file is not None else [])]
    with tempfile.TemporaryFile() as said:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        text = said.read().decode(errors="replace")
    loss = re.search(r"^average loss = (\S+)", text, re.MULTILINE)
    if process.returncode != 0 or loss is None:
        raise RivalFailed(f"{' '.join(command)} ended with {process.returncode}:\n{text[-4000:]}")
    rows = re.search(r"^number of examples(?: per pass)? = (\d+)", text, re.MULTILINE)
    passes = re.search(r"^passes used = (\d+)", text, re.MULTILINE)
    average = float(loss[1].removesuffix("h").strip())
    return VwRun(seconds, used.ru_utime + used.ru_stime, average, int(rows[1]) * (int(passes[1]) if passes else 1) if rows else 0)


class VwConnection:
    """One connection to the daemon, which answers every line with its prediction on a line."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S_MAX)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = b""

    def ask(self, line: bytes) -> bytes:
        """Send one line (with its line end) and wait for its answer."""
        self.socket.sendall(line)
        while b"\n" not in self._rest:
            self._rest += self._read()
        answer, _, self._rest = self._rest.partition(b"\n")
        return answer

    def pipeline(self, lines: bytes) -> int:
        """Send many lines at once while their answers are read; returns the number of answers, one a line."""
        wanted, got = lines.count(b"\n"), self._rest.count(b"\n")
        failure: list[OSError] = []

        def send() -> None:
            try:
                self.socket.sendall(lines)
            except OSError as error:
                failure.append(error)

        sender = threading.Thread(target=send)
        sender.start()
        try:
            while got < wanted:
                got += self._read().count(b"\n")
        finally:
            sender.join()
        if failure:
            raise failure[0]
        return got

    def close(self) -> None:
        """Close it: the child accepts the next one."""
        self.socket.close()

    def _read(self) -> bytes:
        data = self.socket.recv(READ_BYTES)
        if not data:
            raise RivalFailed("the daemon closed the connection")
        return data

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class VwDaemon:
    """Context manager: `vw --daemon --foreground` on `port`, a child for each of `connections` at a time.

    arguments : options of the learner, as ("--loss_function", "logistic", "-b", "22")
    """

    def __init__(self, arguments: Sequence[str] = ("--loss_function", "logistic"), connections: int = 1) -> None:
        self.port = free_port()
        self._command = [str(vw_program()), "--daemon", "--foreground", "--port", str(self.port)]
        self._command += ["--num_children", str(connections), "--quiet", *arguments]
        self._process: subprocess.Popen[bytes] | None = None
        self._connections = connections

    def connect(self) -> VwConnection:
        """Open one connection."""
        return VwConnection(self.port)

    def processes(self) -> list[psutil.Process]:
        """The daemon and its children."""
        if self._process is None:
            raise RivalFailed("the daemon is not running")
        parent = psutil.Process(self._process.pid)
        return [parent, *parent.children(recursive=True)]

    def cpu_s(self) -> float:
        """User and system seconds of the daemon and its children so far."""
        return float(sum(times.user + times.system for times in (process.cpu_times() for process in self.processes())))

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(  # a session of its own: the children end with it
            self._command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
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
                raise RivalFailed(f"{' '.join(self._command)} ended at once")
            try:
                with self.connect() as connection:
                    connection.ask(b"|f ready\n")  # unlabelled: nothing is learnt
                if len(self.processes()) > self._connections:
                    return
            except OSError:
                pass
            time.sleep(0.02)
        raise RivalFailed(f"{' '.join(self._command)} does not answer after {READY_S_MAX:.0f} s")

    def _stop(self) -> None:
        if self._process is None:
            return
        os.killpg(self._process.pid, signal.SIGTERM)
        try:
            self._process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._process = None
