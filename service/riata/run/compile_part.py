"""The program of a process that compiles: `python -m riata.run.compile_part PART`.

Its standard input is a pipe that its parent never writes to. The system closes that pipe when the parent ends for any reason,
and this process then exits too: nothing would use what it compiles, and it holds up to 0.75 GiB.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from typing import Final

STDIN: Final = 0
READABLE: Final = 0o022  # machine code is not private, unlike what the parent writes: another user may have this installation too
ABANDONED: Final = 3  # exit code of a process whose parent has ended
GARBAGE_EVERY: Final = 200_000  # objects, instead of 700: a tenth of the time for 10 to 25 % more memory


def end_with_parent() -> None:
    """Start a thread that waits for the end of the parent, then exits this process at once."""
    threading.Thread(target=_await_end, name="riata-parent", daemon=True).start()


def _await_end() -> None:
    while os.read(STDIN, 1):
        pass
    os._exit(ABANDONED)


def main(part: str) -> None:
    """Compile a part, or load it if it is compiled already."""
    end_with_parent()
    os.umask(READABLE)
    gc.set_threshold(GARBAGE_EVERY, 20, 20)
    from riata.run.warm_up import warm_up_part  # imported here: loading it takes seconds, in which the parent may end

    warm_up_part(part)


if __name__ == "__main__":
    main(sys.argv[1])
