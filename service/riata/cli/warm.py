"""The command `riata warm`, which has nothing left to do."""

from __future__ import annotations

from typing import Final

import typer

EXAMPLE: Final = "Example: leave `riata warm` out; the next release does not have it."


def warm() -> None:
    """Do nothing: no code is compiled at a start.

    Versions before 0.2 compiled into NUMBA_CACHE_DIR, or into folders `kernels` beside the package; these can be deleted.
    """
    typer.echo("nothing to do: no code is compiled at a start")
