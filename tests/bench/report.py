"""What every bench shares: conditions of a run, markdown tables, and where they are written."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

EVIDENCE: Final = Path(__file__).resolve().parents[2] / "service" / "docs" / "evidence"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A markdown table; the first column is text, the others are right-aligned."""
    rule = ["---", *("---:" for _ in heads[1:])]
    lines = ["| " + " | ".join(cells) + " |" for cells in (heads, rule, *rows)]
    return "\n".join(lines) + "\n"


def today() -> str:
    """The date, as pages have it."""
    return f"{datetime.now(UTC):%Y-%m-%d}"


def conditions(command: str, packages: Sequence[str]) -> str:
    """The lines below a table with the date, the machine and the command."""
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    return (
        f"Made by `{command}` on {today()}, Python {platform.python_version()}, {versions}, "
        f"{os.cpu_count()} virtual cores, load average {os.getloadavg()[0]:.1f} at the end.\n"
    )


def publish(name: str, text: str, *, write: bool) -> None:
    """Show a report, and write it as service/docs/evidence/`name`.md if `write` is true."""
    sys.stdout.write(text)
    if write:
        EVIDENCE.mkdir(parents=True, exist_ok=True)
        (EVIDENCE / f"{name}.md").write_text(text, encoding="utf-8")


def arguments(about: str) -> argparse.ArgumentParser:
    """A parser with the module's docstring as help, and the options of every bench."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-write", action="store_true", help="print the report only, leave service/docs/evidence alone")
    return parser
