"""`riata warm`."""

from __future__ import annotations

import time
from typing import Final

import typer

EXAMPLE: Final = "Example: `NUMBA_CACHE_DIR=/srv/kernels riata warm` before the first start."


def warm() -> None:
    """Compile everything the service may need, of every learner, and keep the machine code for later starts.

    It is kept where NUMBA_CACHE_DIR says, else beside the installed package. What is there already is loaded, not compiled.
    """
    from riata.run.warm_up import warm_up_all

    started = time.monotonic()
    warm_up_all(lambda part: typer.echo(f"{part}: ready after {time.monotonic() - started:.1f} s"))
