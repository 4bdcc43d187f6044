"""The command `riata backup DIRECTORY`: a copy of everything that a service stores, while it runs or not."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from riata.base.errors import BadInput
from riata.cli.connect import DEFAULT_URL, UrlOption, connected

EXAMPLE: Final = """Examples:

- `riata backup /backups/monday` of the service on this machine, while it runs.
- `riata backup /backups/monday --data ./riata-data` of a service that is not running.
- `riata serve --data /backups/monday` starts on the copy, on this or another machine."""


def backup(
    to: Annotated[Path, typer.Argument(help="Directory to make; it must not exist.")],
    data: Annotated[
        Path | None, typer.Option(help="Data directory of a service that is not running. [default: the running one of --url]")
    ] = None,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Copy the log, event ids, snapshots, remembered predictions and segments of a service, and read the copy back.

    Every event that was acknowledged before the command is in the copy. Events and predictions go on meanwhile. The copy is made
    inside the data directory, which needs room for it, then it is read back, record by record, and moved to its place. Keys and
    settings are not part of it.
    """
    from riata.base.directories import keep_private
    from riata.store.sqlite.offline import copy_stopped
    from riata.store.sqlite.online_backup import require_new

    keep_private()
    require_new(to)
    if data is not None:
        copy_stopped(data, to)
        _report(to, to)
        return
    with connected(url) as riata:
        made = _made(riata.back_up())
    if not made.is_dir():
        raise BadInput(
            f"the backup is complete, in {made} on the machine of the service, which cannot be read from here: copy it "
            "from there, or run this command there",
            "no_file",
        )
    _report(made, to)


def _made(answer: dict[str, Any]) -> Path:
    return Path(answer["directory"])


def _report(made: Path, to: Path) -> None:
    """Read a copy back, move it to its place and print what is in it. Raises `Corrupt` and leaves it where it is."""
    from riata.store.sqlite.offline import verify

    ends = verify(made)
    if made != to:
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(made, to)
    size = sum(path.stat().st_size for path in to.rglob("*") if path.is_file())
    for model, end in ends.items():
        typer.echo(f"{model}: up to event {end:,}, every record and snapshot read back")
    typer.echo(f"{to}: {size:,} bytes; start on it with `riata serve --data {to}`")
