"""The command `riata repair --data DIR` or `riata repair --store URL`: diagnoses damaged models and repairs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from riata.base.errors import BadInput, nearest
from riata.cli.open_store import DATA_HELP, kept

if TYPE_CHECKING:
    from riata.run.state.repair import Action, Diagnosis, Repairer
    from riata.store.store import Store

EXAMPLE: Final = """Examples:

- `riata repair --data ./riata-data` shows what is damaged and what each possible repair would lose.
- `riata repair --data ./riata-data --yes` repairs it and loses as little as possible.
- `riata repair --data ./riata-data --model clicks --action set_aside --yes` moves a model out of the way, damaged or not."""
STORE_HELP: Final = "URL of a Redis store, as for `riata serve --store`, instead of a directory. A log there cannot be cut."
ROUNDS_MAX: Final = 3  # a log that was cut may also be damaged before its checkpoint
RIGHT_FILES = "nothing was changed; restore all files from one consistent backup, or accept the loss of these events with --yes"
RIGHT_STORE = "nothing was changed; restore the store, or accept the loss of these events with --yes"


def repair(
    data: Annotated[
        Path | None, typer.Option(help=f"{DATA_HELP} With --store: data directory of a process of the service.")
    ] = None,
    store: Annotated[str | None, typer.Option(help=STORE_HELP)] = None,
    model: Annotated[
        str | None,
        typer.Option(help="Only this model; it may also be the first word. [default: all]"),
    ] = None,
    action: Annotated[
        str | None, typer.Option(help="How to repair: restore, cut or set_aside. [default: the one that loses least]")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Repair. Without this option nothing is changed.")] = False,
) -> None:
    """Find damaged models, report what each possible repair would lose, and with --yes repair them.

    **restore**: the damage is before the newest snapshot that verifies. The model is restored from that snapshot and learns
    the events after it again. Only history is lost: the log then begins at that snapshot.

    **cut**: the damage is after that snapshot. The log is cut before the damage. The events from there on are lost and counted.

    **set_aside**: the model is moved, unchanged, into a directory of its own below DIR/set-aside. A Redis keeps it, and the
    commands that read a store find it under the URL with `?aside=NAME-TIME`. Its name is then free. With --model it works on any
    model, damaged or not: also on one whose next event takes for ever to learn.

    Acknowledged events that are missing at the end of a log are reported first, and with --yes their loss is accepted. A Redis
    is compared with the note in --data, the directory of a process of the service. Processes that wait for the loss to be
    accepted then continue.

    Other models are not changed. Each repair is an event of the log, and `riata replay --verify` succeeds afterwards. The exit
    code is 0 if nothing is damaged or everything was repaired, and 1 if damage is left.
    """
    wanted = _action(action)
    if store is not None:
        if not _is_aside(store) and missing_in_shared_store(store, data, yes):
            raise typer.Exit(0 if yes else 1)
        data = None
    elif data is not None and missing_in_directory(data, yes):
        raise typer.Exit(1)
    if not yes:
        with kept(data, store) as (_, opened):
            found = [_look(opened, name) for name in _names(opened, model)]
            if any(one.event is not None for one in found):
                typer.echo("\nnothing was changed; --yes applies the first action of each list, --action chooses another")
                raise typer.Exit(1)
            if wanted == "set_aside" and model is not None:
                typer.echo(f"  --action set_aside: {found[0].loses['set_aside']}")
                typer.echo("\nnothing was changed; --yes sets the model aside")
            return
    with _opened_to_write(data, store) as (opened, repairer):
        sound = wanted == "set_aside" and model is not None  # one that is named is set aside even if it is not damaged
        left = [name for name in _names(opened, model) if not _mend(opened, repairer, name, (wanted, sound), data)]
    if left:
        raise typer.Exit(1)


def _is_aside(store: str) -> bool:
    """Whether a URL is of a model that was set aside: no process has noted what is there."""
    from riata.store.redis.url import read_url

    return "aside=" in store and bool(read_url(store).aside)


def _action(text: str | None) -> Action | None:
    from riata.run.state.repair import ACTIONS

    for action in ACTIONS:
        if text == action:
            return action
    if text is None:
        return None
    raise BadInput(f"--action: {nearest(text, ACTIONS)}", "bad_option")


def _names(store: Store, model: str | None) -> list[str]:
    if model is None:
        return store.models()
    store.head(model)
    return [model]


@contextmanager
def _opened_to_write(data: Path | None, store: str | None) -> Iterator[tuple[Store, Repairer]]:
    import secrets
    import socket

    from riata.base.clock import SystemClock
    from riata.run.state.repair import Repairer

    with kept(data, store) as (_, opened):
        writable = opened
        if data is not None:  # opening for reading has checked that the directory has a store and is not in use
            opened.close()
            writable = _directory(data)
        try:
            shared = data is None
            repairer = Repairer(writable, secrets.token_bytes(16), socket.gethostname(), SystemClock().unix_ms, shared)
            try:
                yield writable, repairer
            finally:
                repairer.release()
        finally:
            writable.close()


def _directory(data: Path) -> Store:
    from riata.store.sqlite.offline import open_for_repair

    return open_for_repair(data)


def _look(store: Store, name: str) -> Diagnosis:
    """Diagnose one model and print the findings."""
    from riata.cli.progress import seq_progress
    from riata.run.state.repair import diagnose

    with seq_progress(name) as advance:
        found = diagnose(store, name, advance)
    for line in _lines(found):
        typer.echo(line)
    return found


def _lines(found: Diagnosis) -> Iterator[str]:
    head = found.head
    if found.event is None:
        yield f"{found.model}: no damage, events {head.first_seq} to {head.seq} in the log"
    else:
        at = f" at event {found.event}" if found.event else ""
        yield f"{found.model}: DAMAGED{at}: {found.what}"
        newest = found.newest
        verifies = "every snapshot failed verification" if found.rotten else "it has no snapshot"
        if newest is not None:
            verifies = f"the newest snapshot that verifies is {newest.gen}, at event {newest.applied}"
        yield f"  events {head.first_seq} to {head.seq} in the log; {verifies}"
        for action, loses in found.loses.items():
            yield f"  --action {action}: {loses}"
    if found.rotten:
        yield f"  snapshots {', '.join(map(str, found.rotten))} failed verification; the service skips them and writes new ones"


def _mend(store: Store, repairer: Repairer, name: str, asked: tuple[Action | None, bool], data: Path | None) -> bool:
    """Repair one model until it is sound or set aside; return false if damage is left. asked : the action, and whether it is
    wanted for a sound model too"""
    from riata.cli.progress import seq_progress

    wanted, sound_too = asked
    for round_ in range(ROUNDS_MAX):
        found = _look(store, name)
        if found.event is None and not (sound_too and round_ == 0):
            return True
        least = next(iter(found.loses))
        action = wanted if wanted is not None and round_ == 0 else least
        with seq_progress(name) as advance:
            done = repairer.repair(found, action, _beside(data, name), partial(_advance, advance, found.head.seq))
        typer.echo(f"{name}: {done}")
        if action == "set_aside":
            return True
    return False


def _advance(advance: Callable[[int, int], None], of: int, done: int) -> None:
    advance(done, of)


def _beside(data: Path | None, name: str) -> Path:
    """Return a new path for a model that is set aside: below DIR/set-aside, for a shared store a name alone."""
    import time

    place = Path(f"{name}-{time.strftime('%Y%m%dT%H%M%S')}-{time.time_ns() % 10**9:09d}")
    return place if data is None else data / "set-aside" / place


# Lost events in `riata repair`: reports acknowledged events that are missing from a store, and accepts their loss.


def missing_in_directory(data: Path, yes: bool) -> bool:
    """Report the events that a data directory has lost; if `yes`, accept the loss. Return whether some are still missing."""
    from riata.base.clock import SystemClock
    from riata.run.state.repair import accept
    from riata.store.sqlite.witness import find_losses

    losses = find_losses(data)
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
