"""The command `riata warm`: compiles all kernels before the first start."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

import typer

if TYPE_CHECKING:
    from riata.run.compilers import Compilers

EXAMPLE: Final = "Example: `NUMBA_CACHE_DIR=/srv/kernels riata warm` before the first start."
REPORT_EVERY_S: Final = 15.0


def warm() -> None:
    """Compile all native code before the first start of the service.

    The code of every learner is compiled and stored in NUMBA_CACHE_DIR, or next to the installed package if that is not set.
    Later starts load the stored code. Code that is already stored is not compiled again.
    """
    typer.echo("loading the compiler")
    from riata.run.compilers import Compilers
    from riata.run.warm_up import warm_up_all

    started, compilers, done = time.monotonic(), Compilers(), threading.Event()
    reporter = threading.Thread(target=_report_progress, args=(compilers, done), name="riata-progress", daemon=True)
    reporter.start()
    try:
        warm_up_all(lambda part: typer.echo(f"{part}: ready after {time.monotonic() - started:.1f} s"), compilers)
    finally:
        done.set()
        reporter.join()


def _report_progress(compilers: Compilers, done: threading.Event) -> None:
    """Print every REPORT_EVERY_S seconds what is being compiled, and for how long."""
    while not done.wait(REPORT_EVERY_S):
        running = [f"{part} ({seconds:.0f} s)" for part, seconds in compilers.running().items()]
        if running:
            typer.echo(f"compiling {', '.join(running)}")
