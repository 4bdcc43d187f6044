"""What concerns a process as a whole: its children, its cores, its priority, and the memory of its heap."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Final

# Child processes of this package, which run one of its modules.
#
# A child inherits no descriptor but its three standard streams. It leads a process group of its own: Ctrl-C on a terminal reaches
# its parent only. It ends with its standard input, which the system closes when the parent ends for any reason.

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


# Number of CPU cores available to this process.


def cores() -> int:
    """Return how many CPU cores this process may use."""
    of_process = getattr(os, "sched_getaffinity", None)
    return len(of_process(0)) if of_process is not None else os.cpu_count() or 1


# Process memory: resident size, and returning free heap pages to the system (`malloc_trim`).

_RESIDENT = 1  # field of /proc/self/statm: resident pages


def resident_bytes() -> int:
    """Resident memory of this process; 0 if the system does not report it."""
    try:
        fields = Path("/proc/self/statm").read_bytes().split()
    except OSError:
        return 0
    return int(fields[_RESIDENT]) * os.sysconf("SC_PAGE_SIZE")


def trim_heap() -> None:
    """Return the free pages of every malloc arena to the system. Does nothing without glibc.

    Takes about 0.1 s for a GiB. The interpreter's lock is released meanwhile, but a thread that allocates from an arena that is
    being trimmed waits.
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return
    trim(0)


# Operating system priority of a thread or a process.

BESIDE: Final = 5  # of threads that work in the background: beside a busy process it gets a quarter of a processor. With 19 it
# gets a seventieth: its work does not end, and when it holds the interpreter's lock, everything waits for seconds


def lower_priority(niceness: int = BESIDE) -> None:
    """Lower the priority of the calling thread, and of the threads and processes that it starts, permanently.

    niceness : as of nice(1). No effect if it is below that of the thread, or not on Linux
    """
    if sys.platform == "linux":
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, max(niceness, os.getpriority(os.PRIO_PROCESS, thread)))


def lower_priority_of(pid: int, niceness: int) -> None:
    """Lower the priority of a process, or of a thread by its native id, permanently.

    Linux only; otherwise, if the process has ended, or if its priority is lower already, no effect."""
    if sys.platform == "linux":
        with contextlib.suppress(ProcessLookupError):
            os.setpriority(os.PRIO_PROCESS, pid, max(niceness, os.getpriority(os.PRIO_PROCESS, pid)))
