"""The child process of a refit, as the service sees it: started at a low priority, read line by line, asked to stop, killed.

It inherits no descriptor but its three standard streams, so neither the store's files nor its lock. It leads a process group of
its own: Ctrl-C on a terminal reaches the service only.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from riata.base import errors
from riata.base.child_process import child_environment
from riata.base.errors import RiataError, Unavailable
from riata.run.candidates.refits.task import ERRORS

_ONE_THREAD: Final = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}  # the pool has the threads
_KINDS: Final = ("BadInput", "Conflict", "TooLarge", "Corrupt", "Unavailable", "NotFound")
TOLD_BYTES: Final = 500  # of the last output of a process that failed
STOP_S: Final = 10.0


class RefitProcess:
    """One child process, of the priority of the thread that makes it. `stop` and `kill` may be called by any thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        command = [sys.executable, "-m", "riata.run.candidates.refits.child", str(folder)]
        with (folder / ERRORS).open("wb") as output:
            try:
                self._process = subprocess.Popen(
                    command,
                    env={**child_environment(), **_ONE_THREAD},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=output,
                    process_group=0,
                )
            except OSError as error:
                raise Unavailable(f"the process that solves could not be started: {error}", "refit_failed") from None

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield what it reports, until it has ended. Raises the error that it reports, and `Unavailable` (code `refit_failed`)
        if it ends without a result."""
        assert self._process.stdout is not None
        failed: RiataError | None = None
        for text in self._process.stdout:
            with contextlib.suppress(ValueError):  # a process that was killed may have written half a line
                line = json.loads(text)
                if "error" in line:
                    failed = _error_of(line)
                else:
                    yield line
        code = self._process.wait()
        if code:
            raise failed or Unavailable(f"the process that solves ended with {code}: {self._last_output()}", "refit_failed")

    def stop(self) -> None:
        """Ask it to end with the best weights so far."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError, ValueError):  # it has ended
            self._process.stdin.write(b"s")
            self._process.stdin.flush()

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    def close(self) -> None:
        """End it if it still runs, and close the pipes."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _last_output(self) -> str:
        said = (self._folder / ERRORS).read_bytes()[-TOLD_BYTES:].decode("utf-8", "replace").strip()
        return said.splitlines()[-1] if said else "it said nothing"


def _error_of(line: dict[str, Any]) -> RiataError:
    kind = line["error"] if line["error"] in _KINDS else "RiataError"
    error: RiataError = getattr(errors, kind)(str(line["detail"]), str(line["code"]))
    return error
