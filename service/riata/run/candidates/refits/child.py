"""The program of the process that solves a refit: `python -m riata.run.candidates.refits.child FOLDER`.

It does the task in the folder (`work.py`) and writes one line of JSON about each pass to standard output. It never opens the
store. Its standard input is a pipe from the service: a byte asks it to stop with the best weights so far, and the end of the
pipe, which the system closes when the service ends for any reason, ends it.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any, Final

from riata.base.errors import RiataError

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
