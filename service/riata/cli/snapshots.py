"""The command `riata snapshots`: the stored states of a model, and going back to one of them."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from riata.cli.connect import DEFAULT_URL, ModelArgument, UrlOption, connected

EXAMPLE: Final = """Examples:

- `riata snapshots clicks` lists them.
- `riata snapshots clicks --new` writes one now.
- `riata snapshots clicks --restore 12` goes back to the state of snapshot 12."""


def snapshots(
    model: ModelArgument = "default",
    new: Annotated[bool, typer.Option("--new", help="Write a snapshot now.")] = False,
    restore: Annotated[int | None, typer.Option(min=1, help="Number of the snapshot to go back to.")] = None,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """List the snapshots of a model that the store keeps, write one, or go back to one.

    Going back is an event of the log. The events since the snapshot stay in the log, and the model no longer includes them.
    """
    from rich.console import Console
    from rich.table import Table

    with connected(url) as riata:
        if new:
            made = riata.snapshot_now(model)
            typer.echo(f"wrote snapshot {made['generation']} at event {made['seq']}")
        if restore is not None:
            done = riata.restore(model, restore)
            typer.echo(f"model {model!r} is at snapshot {restore}, from event {done['seq']} on")
        found = riata.snapshots(model)["snapshots"]
    table = Table(title=f"snapshots of model {model}")
    for name in ("number", "at event", "time", "bytes", "cause", ""):
        table.add_column(name, justify="right" if name in ("number", "at event", "bytes") else "left")
    for one in found:
        cells = (str(one["generation"]), f"{one['seq']:,}", one["created"], f"{one['bytes']:,}", one["cause"])
        table.add_row(*cells, "verified" if one["verified"] else "not verified")
    Console().print(table)
