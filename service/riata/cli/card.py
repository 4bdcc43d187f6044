"""The command `riata card MODEL`: what a model is and how good it is, on one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from riata.cli.connect import DEFAULT_URL, ModelArgument, UrlOption, connected

EXAMPLE: Final = "Example: `riata card clicks --out clicks.md`"


def card(
    model: ModelArgument = "default",
    out: Annotated[Path | None, typer.Option(help="File to write. [default: standard output]")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write the card as JSON instead of Markdown.")] = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Show the card of a model: configuration, data, figures, warnings, largest weights and changes."""
    from riata.base.directories import write_whole

    with connected(url) as riata:
        content = riata.card(model, form="json" if as_json else "markdown")
    if out is None:
        typer.echo(content.decode().rstrip("\n"))
    else:
        write_whole(out, content)
