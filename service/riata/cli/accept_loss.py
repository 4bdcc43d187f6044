"""`riata accept-loss`: go on with a shared store that has lost acknowledged events."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

EXAMPLE: Final = "Example: `riata accept-loss --store redis://localhost:6379/0 --data riata-data`, then the same with `--yes`"
DATA_HELP: Final = "Directory of a process of the service, whose note says which events were known. [riata-data]"


def accept_loss(
    data: Annotated[Path | None, typer.Option(help=DATA_HELP)] = None,
    store: Annotated[str | None, typer.Option(help="Redis store, as `riata serve --store` takes it.")] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file of settings, as `riata serve` reads it.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Accept the loss. Without it nothing is changed.")] = False,
) -> None:
    """Say which acknowledged events a shared store has lost, and with --yes go on without them.

    A process does not use a store from which events are missing: emptied, put back from an older copy, or failed over to a copy
    that lagged. Accepting writes a `repair` record into the logs; the processes of the service find it there and go on. Those
    that were running when the store was emptied have to be started again. Settings come from the environment as for
    `riata serve`. The exit code is 1 where something is missing and --yes is not given.
    """
    import secrets

    from riata import wiring
    from riata.base.clock import SystemClock
    from riata.base.errors import BadInput
    from riata.base.settings import load_settings
    from riata.run.common import shared
    from riata.run.sharing.accepting import accept, compare
    from riata.run.sharing.ledger import Ledger, sentence
    from riata.run.sharing.note import Note

    settings = load_settings({"data": data, "store": store}, config)
    if settings.store_kind != "redis":
        raise BadInput("--store: give the Redis of the service; a directory is not shared", "bad_option")
    ledger = Ledger(Note(settings.data / wiring.NOTE, read_only=True), settings.lost_events_max)
    if ledger.note.unread:
        raise BadInput(ledger.note.unread, "bad_note")
    opened = shared(wiring.open_store(settings))
    try:
        if yes:
            missing = accept(opened, ledger, SystemClock().unix_ms(), secrets.token_bytes)
        else:
            compare(opened, ledger)
            missing = ledger.missing
    finally:
        opened.close()
    for name, one in sorted(missing.items()):
        typer.echo(f"model {name}: {sentence(one)}")
    if not missing:
        typer.echo(f"no event that is known from {ledger.note.path} is missing")
    elif yes:
        typer.echo("the loss is accepted; events whose clients still have them can be sent again")
    else:
        typer.echo("nothing was changed; to go on without these events give --yes", err=True)
        raise typer.Exit(1)
