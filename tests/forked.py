"""Starts a service as a fork of a process that has imported the program: that saves 1.5 s of processor time for each start.

The fork is a process like any other: it has a pid, takes signals, and has the environment and the output it is given. What a
variable of the environment decides while Python starts or while modules are imported cannot be given to a fork: see `can_fork`.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

_SERVERS: Final = multiprocessing.get_context("forkserver")
_SERVERS.set_forkserver_preload(["tests.preloaded"])
RUN_S: Final = 900.0
READ_AT_IMPORT: Final = {"RIATA_NATIVE_VARIANT"}
UNREAD: Final = {"PYTHONPATH", "PYTEST_CURRENT_TEST"}  # a fork has the search path of the tests
READ_WHEN_RUN: Final = {"DIES_AT", "TEST_ALGO_VERSION", "TEST_NUMERICS"}  # by modules of tests, which run in the fork
_AT_FIRST: Final = dict(os.environ)


def can_fork(environment: Mapping[str, str]) -> bool:
    """True if `environment` differs from the one at first in settings only, which the service reads when it starts."""
    names = environment.keys() | _AT_FIRST.keys()
    changed = {name for name in names if environment.get(name) != _AT_FIRST.get(name)}
    return all(name.startswith("RIATA_") and name not in READ_AT_IMPORT for name in changed - UNREAD - READ_WHEN_RUN)


def _run(module: str, arguments: Sequence[str], environment: Mapping[str, str], output: Path, folder: Path) -> None:
    """Become `python -m module arguments`, in the fork."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for stream in (1, 2):
        os.dup2(os.open(output, os.O_WRONLY | os.O_APPEND | os.O_CREAT), stream)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


class Forked:
    """The part of `subprocess.Popen` that the tests use."""

    def __init__(self, module: str, arguments: Sequence[str], environment: Mapping[str, str], output: Path, folder: Path) -> None:
        self._process = _SERVERS.Process(target=_run, args=(module, arguments, dict(environment), output, folder), daemon=True)
        self._lock = threading.Lock()  # the end of a process can be read once
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self.poll()

    def poll(self) -> int | None:
        with self._lock:
            return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        multiprocessing.connection.wait([self._process.sentinel], timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired("a fork", timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            if self.poll() is None:
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


Program = subprocess.Popen[bytes] | Forked


def start(
    module: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    output: Path,
    folder: Path,
    before: Sequence[str] = (),
) -> Program:
    """Start `python -m module arguments` in `folder`. Its output is appended to the file `output`.

    before : a command that runs this command, such as strace
    """
    if not before and can_fork(environment):
        return Forked(module, arguments, environment, output, folder)
    with output.open("ab") as log:
        command = [*before, sys.executable, "-m", module, *arguments]
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, cwd=folder)


def run(command: Sequence[str], environment: Mapping[str, str], folder: Path, before: Sequence[str] = ()) -> tuple[int, str]:
    """Run `python -m` with the words of `command` to its end; returns the exit code and what it printed. before: as of `start`"""
    with tempfile.NamedTemporaryFile() as output:
        program = start(command[0], command[1:], environment, Path(output.name), folder, before)
        return program.wait(RUN_S), output.read().decode(errors="replace")
