"""The commands `riata export` and `riata import`: a model as a file, from and to a running service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from riata.cli.connect import DEFAULT_URL, ModelArgument, UrlOption, connected

EXPORT_EXAMPLE: Final = "Example: `riata export clicks --out clicks.riata`; `riata inspect clicks.riata` shows what is in it."
IMPORT_EXAMPLE: Final = "Example: `riata import clicks clicks.riata`"


def export(
    model: ModelArgument,
    out: Annotated[Path, typer.Option(help="File to write.")],
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Write a model to a file: its configuration, its state and the names of its features. The log is not part of it."""
    from riata.base.directories import write_whole

    with connected(url) as riata:
        content = riata.export(model)
    write_whole(out, content)
    typer.echo(f"wrote {len(content):,} bytes to {out}")


def import_(
    model: ModelArgument,
    file: Annotated[Path, typer.Argument(help="File of `riata export`, `riata fit --out` or `riata refit --out`.")],
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Replace the state of a model with that of a file, or create the model from it.

    The import is an event of the log: the events before it stay in the log, and restoring an earlier snapshot undoes it.
    """
    with connected(url) as riata:
        answer = riata.import_(model, file.read_bytes())
    typer.echo(f"model {model!r} continues from the file, from event {answer['seq']} on")
