"""The command `riata snapshots`: the stored states of a model. List, save and delete them."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from riata.cli.connect import DEFAULT_URL, ModelArgument, UrlOption, connected

EXAMPLE: Final = """Examples:

- `riata snapshots clicks` lists them.
- `riata snapshots clicks --note "before the import"` saves one with a note, which is kept until it is deleted.
- `riata snapshots clicks --delete 12` deletes one that was saved."""


def snapshots(
    model: ModelArgument = "default",
    new: Annotated[bool, typer.Option("--new", help="Save a snapshot, which is kept until it is deleted.")] = False,
    note: Annotated[str, typer.Option(help="Save a snapshot, and what to say of it.")] = "",
    delete: Annotated[int | None, typer.Option(min=1, help="Number of a saved snapshot to delete.")] = None,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """List the snapshots of a model that the store keeps, save one, or delete a saved one.

    Besides those that are saved, the service keeps the newest by itself, and of the older ones one for each doubling of age. As
    long as the log has the events after a snapshot, the model can go back to any of these events, else only to that of the
    snapshot: `riata restore MODEL --to EVENT`.
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    with connected(url) as riata:
        if new or note:
            made = riata.snapshot_now(model, note=note)
            typer.echo(f"saved snapshot {made['generation']} at event {made['seq']}")
        if delete is not None:
            riata.delete_snapshot(model, delete)
            typer.echo(f"deleted snapshot {delete}")
        found = riata.snapshots(model)["snapshots"]
    table = Table(title=f"snapshots of model {model}")
    for name in ("number", "time", "age", "bytes", "goes back to", "kept as"):
        table.add_column(name, justify="right" if name in ("number", "age", "bytes") else "left")
    for one in found:
        reached = f"any event from {one['seq']:,} on" if one["leads_on"] else f"exactly event {one['seq']:,}"
        kept = one["cause"] + (f": {one['note']}" if one["note"] else "") + ("" if one["verified"] else ", not verified")
        when = f"{one['created'][:19].replace('T', ' ')} Z"
        table.add_row(str(one["generation"]), when, shown_age(one["age_s"]), f"{one['bytes']:,}", reached, escape(kept))
    Console().print(table)


def shown_age(seconds: float) -> str:
    """Return an age in its two largest units: `3 h 20 min`."""
    parts: list[str] = []
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        count, seconds = divmod(seconds, size)
        if count or parts or unit == "s":
            parts.append(f"{int(count)} {unit}")
    return " ".join(parts[:2])
