"""The stored states of a model: `riata snapshots` lists, saves and deletes them, `riata restore` goes back to one."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import typer

from riata.base.clock import read_moment, said
from riata.base.errors import BadInput
from riata.cli.connect import DEFAULT_URL, ModelArgument, UrlOption, connected

SNAPSHOTS_EXAMPLE: Final = """Examples:

- `riata snapshots clicks` lists them.
- `riata snapshots clicks --note "before the import"` saves one with a note, which is kept until it is deleted.
- `riata snapshots clicks --delete 12` deletes one that was saved."""


def snapshots(
    model: ModelArgument = "default",
    new: Annotated[bool, typer.Option("--new", help="Save a snapshot, which is kept until it is deleted.")] = False,
    note: Annotated[str, typer.Option(help="Save a snapshot with this note.")] = "",
    delete: Annotated[int | None, typer.Option(min=1, help="Number of a saved snapshot to delete.")] = None,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """List the snapshots of a model that the store keeps, save one, or delete a saved one.

    Besides those that are saved, the service keeps the newest by itself, and of the older ones one for each doubling of age. As
    long as the log has the events after a snapshot, the model can go back to any of these events with
    `riata restore MODEL --to EVENT`; otherwise only to that of the snapshot.
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


# The command `riata restore`: a model goes back to one of its events, or to a moment.


RESTORE_EXAMPLE: Final = """Examples:

- `riata restore clicks --to 14:00 --dry-run` says what going back to before 14:00 would undo, and changes nothing.
- `riata restore clicks --to 14:00` says it, asks, and goes back: a rollback after an incident.
- `riata restore clicks --to 120500 --yes` goes back to the state right after event 120,500.
- `riata restore clicks --to -2h` goes back to two hours ago; `--to 2026-03-01T14:00:00+01:00` names a day and a zone."""
_COUNTED: Final = (
    ("configurations", "change of the configuration", "changes of the configuration"),
    ("restores", "restore", "restores"),
    ("promotions", "promotion", "promotions"),
    ("forgets", "request to forget, whose rows stay forgotten", "requests to forget, whose rows stay forgotten"),
)


def restore(
    model: ModelArgument = "default",
    to: Annotated[
        str,
        typer.Option(
            metavar="EVENT|TIME",
            help="The event to go back to, or a moment: the last event accepted before it. 14:00 is in the zone of this machine.",
        ),
    ] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be undone, with loss and weights then and now; change nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON. Needs --dry-run or --yes.")] = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Undo what a model has learnt since an event or a moment (a rollback, after an incident or a bad deployment).

    The state is learnt from the nearest snapshot and the log, exactly. Events that are undone stay in the log; sent again under
    their ids, they are learnt once. Going back is an event of the log itself, and can be undone like any other.
    """
    from riata.cli.progress import share_progress

    if not to:
        raise BadInput("restore: --to is missing: name an event, or a moment such as 14:00 or -2h", "bad_option")
    asked = _meant(to, quiet=as_json)
    if as_json and not (dry_run or yes):
        raise BadInput("restore: --json needs --dry-run or --yes", "bad_option")
    if not (dry_run or yes or sys.stdin.isatty()):
        raise BadInput("restore: there is no terminal to ask at: add --yes, or --dry-run to look first", "bad_option")
    with connected(url) as riata:
        if not yes:
            with share_progress("looking") as advance:
                found = riata.restore(model, to=asked, dry_run=True, on_progress=advance)
            if as_json or dry_run:
                typer.echo(json.dumps(found) if as_json else told(found))
                return
            typer.echo(told(found))
            typer.confirm(f"Go back to event {found['to']:,}?", abort=True)
            asked = found["to"]
        with share_progress("going back") as advance:
            done = riata.restore(model, to=asked, on_progress=advance)
    typer.echo(json.dumps(done) if as_json else told_after(done, with_undone=yes))


def _meant(text: str, quiet: bool) -> int | str:
    """Return the event or the moment that a text names; says a moment back, with its zone. Raises `BadInput`."""
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        moment = read_moment(text, datetime.now(UTC), None)
    except BadInput as error:
        raise BadInput(f"--to: {error.detail}; or the number of an event", error.code) from None
    if not quiet:
        typer.echo(f"{text} is {said(moment)} ({moment.tzname()})")
    return said(moment)


def told(found: dict[str, Any]) -> str:
    """Return what a dry run found, for people."""
    undone = found["undone"]
    lines = [
        f"model {found['model']!r}, event {found['to']:,}" + _when(found["to_time"], ", accepted at {}"),
        f"going back undoes {undone['events']:,} events{_span(undone)}",
    ]
    return "\n".join([*lines, *_beside(found), *_figures(found, "now")])


def told_after(done: dict[str, Any], with_undone: bool) -> str:
    """Return what was done and what to do next, for people."""
    lines = [f"model {done['model']!r} is as it was after event {done['to']:,}, from event {done['seq']:,} on"]
    if with_undone:
        undone = done["undone"]
        lines.append(f"{undone['events']:,} events were undone{_span(undone)}")
        lines += [*_beside(done), *_figures(done, "now")]
    lines += [
        "next: stop what sends wrong events, then send the corrected ones, under the same ids or new ones: each is learnt once",
        f"a client that still retries an event that was undone teaches it again; watch `riata metrics {done['model']}`",
        f"to take this back: riata restore {done['model']} --to {done['seq'] - 1}",
    ]
    return "\n".join(lines)


def _when(time: str | None, text: str) -> str:
    return "" if time is None else text.format(time)


def _span(undone: dict[str, Any]) -> str:
    if not undone["events"]:
        return ""
    times = "" if undone["from_time"] is None else f", accepted from {undone['from_time']} to {undone['to_time']}"
    return f": {undone['from']:,} to {undone['to']:,}{times}"


def _beside(found: dict[str, Any]) -> list[str]:
    """Return what else going back does."""
    undone, lines = found["undone"], []
    counts = [f"{undone[key]} {one if undone[key] == 1 else more}" for key, one, more in _COUNTED if undone[key]]
    lines += [f"among what came since: {', '.join(counts)}"] if counts else []
    if undone["brought_back"]:
        lines.append(f"{undone['brought_back']:,} events that an earlier restore undid count again")
    if found["relearnt"]:
        lines.append(
            "rows that were forgotten since stay forgotten: the state is learnt again without them, from the first event on"
        )
    if found["refits_undone"]:
        lines.append(
            f"promotions at events {', '.join(map(str, found['refits_undone']))} were made with such rows and are left out"
        )
    if found["taken_off"]:
        several = ", ".join(found["taken_off"])
        lines.append(
            f"challengers that are taken off, as they have learnt what is undone: {several}; "
            "drop them and create them again with --backfill"
        )
    return lines


def _figures(found: dict[str, Any], later: str) -> list[str]:
    """Return a small table of the figures then and now."""
    rows = [("", "then", "now"), ("weights", f"{found['then']['non_zeros']:,}", f"{found[later]['non_zeros']:,}")]
    for horizon in ("faded", "cumulative"):
        for key in ("log_loss", "loss"):
            then, now = (found[side][horizon].get(key) for side in ("then", later))
            if then is not None or now is not None:
                before, after = ("–" if value is None else f"{value:.5f}" for value in (then, now))
                rows.append((f"{horizon} {key.replace('_', ' ')}", before, after))
                break
    return [f"{name:<20}{then:>12}{now:>12}" for name, then, now in rows]
