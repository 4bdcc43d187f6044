"""Lost events in `riata repair`: reports acknowledged events that are missing from a store, and accepts their loss."""

from __future__ import annotations

from pathlib import Path

import typer

from riata.base.errors import BadInput

RIGHT_FILES = "nothing was changed; restore all files from one consistent backup, or accept the loss of these events with --yes"
RIGHT_STORE = "nothing was changed; restore the store, or accept the loss of these events with --yes"


def missing_in_directory(data: Path, yes: bool) -> bool:
    """Report the events that a data directory has lost; if `yes`, accept the loss. Return whether some are still missing."""
    from riata.base.clock import SystemClock
    from riata.run.state.accept_loss import accept, find

    losses = find(data)
    for loss in losses:
        typer.echo(f"{loss.model or 'the store'}: EVENTS MISSING: {loss.why}")
    if losses and not yes:
        typer.echo(RIGHT_FILES)
        return True
    for done in accept(data, SystemClock().unix_ms()) if losses else ():
        result = f"by event {done.seq} of the log" if done.seq else "the model is gone"
        typer.echo(f"{done.model}: the loss is accepted, {result}")
    return False


def missing_in_shared_store(store: str, data: Path | None, yes: bool) -> bool:
    """Report the events that a Redis has lost; if `yes`, accept the loss. Return whether some were missing.

    data : directory of a process of the service; its note records the known events. Default: that of `riata serve`
    """
    import secrets

    from riata import wiring
    from riata.base.clock import SystemClock
    from riata.base.read_settings import load_settings
    from riata.run.cluster.accepting import accept, compare
    from riata.run.cluster.ledger import Ledger, sentence
    from riata.run.cluster.store_identity import StoreIdentityFile
    from riata.run.engine_context import shared

    settings = load_settings({"data": data, "store": store})
    if not settings.store_scheme.shared:
        raise BadInput("--store: expected the URL of a Redis; for a directory give only --data", "bad_option")
    ledger = Ledger(StoreIdentityFile(settings.data / wiring.NOTE, read_only=True), settings.lost_events_max)
    if ledger.note.problem:
        raise BadInput(ledger.note.problem, "bad_note")
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
        typer.echo(f"no event recorded in {ledger.note.path} is missing")
    elif yes:
        typer.echo("the loss is accepted; clients that still have the lost events can send them again")
    else:
        typer.echo(RIGHT_STORE, err=True)
    return bool(missing)
