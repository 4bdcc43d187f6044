"""Child processes of this package, which run one of its modules.

A child inherits no descriptor but its three standard streams. It leads a process group of its own: Ctrl-C on a terminal reaches
its parent only. It ends with its standard input, which the system closes when the parent ends for any reason.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import IO, Final

_PACKAGES: Final = Path(__file__).parents[2]
_ONE_THREAD: Final = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}  # the pools have the threads


def child_environment() -> dict[str, str]:
    """Return the environment of a process that uses the same package as this one."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(_PACKAGES), *filter(None, sys.path)])}


def start_child(module: str, argument: Path, errors: int | IO[bytes], buffer_bytes: int = -1) -> subprocess.Popen[bytes]:
    """Run a module of this package with one argument. Standard input and output are pipes. Raises `OSError`.

    errors : where its standard error goes; buffer_bytes : of the pipes, as for `open`
    """
    return subprocess.Popen(
        [sys.executable, "-m", module, str(argument)],
        env={**child_environment(), **_ONE_THREAD},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        process_group=0,
        bufsize=buffer_bytes,
    )


def end_child(process: subprocess.Popen[bytes], seconds: float = 0.0) -> None:
    """Close the pipes of a child and let it end, or kill it after so many seconds."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    process.kill()
    process.wait()
