"""Compiler processes: at most as many at once as there are cores. None of them outlives this process.

The standard input of each is a pipe from this process; closing the pipe ends it (`run/compile_part.py`). The system closes the
pipe also when this process is killed. Each compiler leads a process group of its own: Ctrl-C on a terminal reaches this process
only, which then ends the compilers.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

from riata.base.cores import cores
from riata.base.errors import Busy
from riata.base.priority import lower_priority_of
from riata.jit.cache_folder import cache_folder

_PACKAGES: Final = Path(__file__).parents[2]
log = logging.getLogger("riata.run")


def child_environment() -> dict[str, str]:
    """Return the environment of a process that uses the same package and compilation cache as this one."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(_PACKAGES), *filter(None, sys.path)])}
    if folder := cache_folder():
        environment["NUMBA_CACHE_DIR"] = folder
    return environment


class Stopped(Busy):
    """Compiling, or loading compiled code, was abandoned because the process is stopping."""

    def __init__(self) -> None:
        super().__init__("the service is stopping", "stopping", retry_after_s=5)


class Compilers:
    """Compiles parts in processes. Any thread may call any method."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stopped = False
        self._running: dict[str, tuple[subprocess.Popen[bytes], float]] = {}
        self._wanted: dict[str, float] = {}  # parts being compiled that cannot be called yet, and since when

    def compile(self, parts: list[str], tell: Callable[[str], None], low_priority: bool = False) -> None:
        """Compile every part. `tell` is called with each part when its process has ended, from any thread. Raises `Stopped`.

        low_priority : let everything else have the processors first

        A part that a process did not finish, for example for lack of memory, has to be compiled by the caller.
        """
        with self._lock:
            self._wanted.update(dict.fromkeys(parts, time.monotonic()))
        with ThreadPoolExecutor(min(len(parts), cores()), thread_name_prefix="riata-compile") as waiting:
            try:
                for _ in waiting.map(partial(self._compile, tell, low_priority), parts):
                    pass
            except BaseException:  # Ctrl-C: leaving this block waits for the processes
                self.stop()
                raise
        self.check()

    def done(self, part: str) -> None:
        """Record that a part can be called now."""
        with self._lock:
            self._wanted.pop(part, None)

    def compiling_s(self, part: str) -> float | None:
        """Return for how long a part has been compiling, seconds; None if it is not being compiled."""
        since_s = self._wanted.get(part)
        return None if since_s is None else time.monotonic() - since_s

    def stop(self) -> None:
        """Kill every process and start no more. Does not wait."""
        with self._lock:
            self._stopped = True
            for process, _ in self._running.values():
                process.kill()

    def check(self) -> None:
        """Raise `Stopped` after `stop`."""
        if self._stopped:
            raise Stopped

    def running(self) -> dict[str, float]:
        """Return the parts that are being compiled now, and for how many seconds each."""
        now_s = time.monotonic()
        with self._lock:
            return {part: now_s - begun_s for part, (_, begun_s) in self._running.items()}

    def _compile(self, tell: Callable[[str], None], low_priority: bool, part: str) -> None:
        process = self._start(part)
        if process is not None:
            if low_priority:
                lower_priority_of(process.pid)
            log.info("compiling %s, in process %d", part, process.pid)
            with process:
                process.wait()
            with self._lock:
                _, begun_s = self._running.pop(part)
            log.info("compiling %s ended after %.0f s", part, time.monotonic() - begun_s)
        if not self._stopped:
            tell(part)

    def _start(self, part: str) -> subprocess.Popen[bytes] | None:
        """Start a process that uses the same package and compilation cache as this one. Returns None after `stop`, or if the
        system cannot start a process."""
        environment = child_environment()
        command = [sys.executable, "-m", "riata.run.compile_part", part]
        with self._lock:
            if self._stopped:
                return None
            try:
                process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, process_group=0)
            except OSError:  # for example, no memory for a process
                return None
            self._running[part] = process, time.monotonic()
            return process
