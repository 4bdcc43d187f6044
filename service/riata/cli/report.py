"""A report that is shown, or printed as JSON, and drawn to a file: what commands that compare have in common."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from riata.base.errors import BadInput


def require_svg(plot: Path | None) -> None:
    """Raise `BadInput` (code `bad_option`) unless the file of a drawing, if there is one, ends in .svg."""
    if plot is not None and plot.suffix != ".svg":
        raise BadInput(f"--plot: {plot.name[:64]!r} does not end in .svg", "bad_option")


def give(
    report: dict[str, Any],
    plot: Path | None,
    svg_of: Callable[[dict[str, Any]], str],
    show: Callable[[dict[str, Any]], None],
    as_json: bool,
) -> None:
    """Draw a report to `plot`, if it is given, which is noted in the report as `plot`. Then show it, or print it as JSON."""
    from riata.base.directories import write_whole

    if plot is not None:
        write_whole(plot, svg_of(report).encode())
        report["plot"] = str(plot)
    if as_json:
        typer.echo(json.dumps(report))
    else:
        show(report)
