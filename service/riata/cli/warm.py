"""The command `riata warm`: compiles all kernels before the first start."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

import typer

if TYPE_CHECKING:
    from riata.run.compilers import Compilers

EXAMPLE: Final = "Example: `NUMBA_CACHE_DIR=/srv/kernels riata warm` before the first start."
TELL_EVERY_S: Final = 15.0


def warm() -> None:
    """Compile everything that the service may need, for every learner, and store the machine code for later starts.

    It is stored in NUMBA_CACHE_DIR, or next to the installed package if that is not set. Stored code is loaded, not compiled.
    """
    typer.echo("loading what compiles")
    from riata.run.compilers import Compilers
    from riata.run.warm_up import warm_up_all

    started, compilers, done = time.monotonic(), Compilers(), threading.Event()
    telling = threading.Thread(target=_tell_what_runs, args=(compilers, done), name="riata-telling", daemon=True)
    telling.start()
    try:
        warm_up_all(lambda part: typer.echo(f"{part}: ready after {time.monotonic() - started:.1f} s"), compilers)
    finally:
        done.set()
        telling.join()


def _tell_what_runs(compilers: Compilers, done: threading.Event) -> None:
    """Print every TELL_EVERY_S seconds what is being compiled, and for how long."""
    while not done.wait(TELL_EVERY_S):
        running = [f"{part} ({seconds:.0f} s)" for part, seconds in compilers.running().items()]
        if running:
            typer.echo(f"compiling {', '.join(running)}")
