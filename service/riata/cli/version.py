"""The command `riata version`."""

from __future__ import annotations

import platform
from typing import Final

import typer

from riata import __version__

EXAMPLE: Final = "Example: `riata version`"


def version() -> None:
    """Print the installed version of Riata, of Python and of the operating system."""
    typer.echo(f"riata {__version__} (Python {platform.python_version()}, {platform.system()} {platform.machine()})")
