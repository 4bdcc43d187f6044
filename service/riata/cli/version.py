"""The command `riata version`."""

from __future__ import annotations

import platform
import sqlite3
from typing import Final

import typer

from riata import __version__

EXAMPLE: Final = "Example: `riata version`"


def version() -> None:
    """Print the installed version of Riata, of Python, of SQLite and of the operating system."""
    python, sqlite, system = platform.python_version(), sqlite3.sqlite_version, f"{platform.system()} {platform.machine()}"
    typer.echo(f"riata {__version__} (Python {python}, SQLite {sqlite}, {system})")
