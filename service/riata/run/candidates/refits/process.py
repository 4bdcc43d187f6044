"""The child process of a refit, from both ends: `python -m riata.run.candidates.refits.process FOLDER`.

The service starts it at a low priority, reads it line by line, asks it to stop, or kills it. It inherits no descriptor but its
three standard streams, so neither the store's files nor its lock. It leads a process group of its own: Ctrl-C on a terminal
reaches the service only.

The process does the task in the folder (`work.py`) and writes one line of JSON about each pass to standard output. It never
opens the store. Its standard input is a pipe from the service: a byte asks it to stop with the best weights so far, and the end
of the pipe, which the system closes when the service ends for any reason, ends it.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from riata.base import errors
from riata.base.errors import RiataError, Unavailable
from riata.base.process import end_child, start_child

_KINDS: Final = ("BadInput", "Conflict", "TooLarge", "Corrupt", "Unavailable", "NotFound")
ERRORS: Final = "stderr.txt"  # in the folder: what the process writes to its standard error
TOLD_BYTES: Final = 500  # of the last output of a process that failed


class RefitProcess:
    """One child process, of the priority of the thread that makes it. `stop` and `kill` may be called by any thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            with (folder / ERRORS).open("wb") as output:
                self._process = start_child("riata.run.candidates.refits.process", folder, output)
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
        end_child(self._process)

    def _last_output(self) -> str:
        said = (self._folder / ERRORS).read_bytes()[-TOLD_BYTES:].decode("utf-8", "replace").strip()
        return said.splitlines()[-1] if said else "it said nothing"


def _error_of(line: dict[str, Any]) -> RiataError:
    kind = line["error"] if line["error"] in _KINDS else "RiataError"
    error: RiataError = getattr(errors, kind)(str(line["detail"]), str(line["code"]))
    return error


# The other end: what runs in the process.

STDIN: Final = 0
ABANDONED: Final = 3  # exit code of a process whose service has ended
REFUSED: Final = 4  # exit code after an error that the last line reports
NO_MEMORY: Final = "the memory bound was reached: raise memory_bytes_max, or ask for fewer events or a smaller k"


class Stops:
    """Reads standard input in a thread. asked : whether to stop with the best so far."""

    def __init__(self) -> None:
        self.asked = False
        threading.Thread(target=self._read, name="riata-parent", daemon=True).start()

    def may_go_on(self) -> bool:
        """False once the service asked to stop."""
        return not self.asked

    def _read(self) -> None:
        while os.read(STDIN, 1):
            self.asked = True
        os._exit(ABANDONED)


def say(line: dict[str, Any]) -> None:
    """Write one line for the service."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def main(folder: Path) -> int:
    """Do the task in a folder. Returns the exit code."""
    stops = Stops()
    from riata.run.candidates.refits.work import refit  # imported here: loading it takes seconds, in which the service may end

    try:
        refit(folder, say, stops.may_go_on)
    except RiataError as error:
        say({"error": type(error).__name__, "code": error.code, "detail": error.detail})
        return REFUSED
    except MemoryError:
        say({"error": "TooLarge", "code": "memory_bound", "detail": NO_MEMORY})
        return REFUSED
    return 0


if __name__ == "__main__":
    code = main(Path(sys.argv[1]))
    sys.stdout.flush()
    os._exit(code)  # every file is closed; freeing the memory piece by piece takes long
