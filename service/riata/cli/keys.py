"""`riata keys`: creates, lists and revokes API keys in the file that the service reads."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from riata.base.errors import BadInput, Conflict, NotFound
from riata.cli.verbs import group_of

if TYPE_CHECKING:
    from riata.web.auth.keys import KeyEntry

DEFAULT_FILE: Final = Path("riata-keys.toml")
FILE_MODE: Final = 0o640
HEAD: Final = (
    "# API keys of riata, stored as hashes. Written by `riata keys`; the service reads the file again when it changes.\n"
)
EXAMPLE: Final = "Example: `riata keys new --id clicks --scope observe --scope predict --model clicks`"
SCOPES_HELP: Final = """**Scopes**; no scope includes another:

- `observe`: send events and labels.
- `predict`: predict, and read the metrics, weights and path of a model.
- `admin`: create, change, save, restore, export, import and drop models, and read `/metrics`.
- `watch`: read everything except exports, and change nothing: `/metrics`, models, their metrics, weights, path, snapshots."""

FileOption = Annotated[
    Path, typer.Option("--keys-file", envvar="RIATA_KEYS_FILE", help="File of keys; the service reads the same file.")
]

app = group_of("Create, list and revoke API keys.", EXAMPLE)


@app.command("new", epilog=f"{SCOPES_HELP}\n\n{EXAMPLE}")
def new(
    id_: Annotated[str, typer.Option("--id", help="Name of the key: letters, digits and dashes. It is not secret.")],
    scope: Annotated[
        list[str], typer.Option(help="What the key allows: observe, predict, admin or watch; see below. Repeat it for several.")
    ],
    model: Annotated[
        list[str] | None, typer.Option(help="Model that the key gives access to. Repeat it for several; * for every model.")
    ] = None,
    requests_per_s: Annotated[
        float | None,
        typer.Option(
            min=0, help="Most requests a second with this key. [default: the setting requests_per_s_max of the service]"
        ),
    ] = None,
    models_max: Annotated[int | None, typer.Option(min=1, help="With access to so many models the key can create none.")] = None,
    events_a_day: Annotated[int | None, typer.Option(min=1, help="Most events that are accepted in a day of UTC.")] = None,
    bytes_a_day: Annotated[int | None, typer.Option(min=1, help="Most bytes of request bodies in a day of UTC.")] = None,
    expires: Annotated[
        str | None, typer.Option(help="Time after which the key is invalid, such as 2027-01-31T00:00:00Z. [default: never]")
    ] = None,
    keys_file: FileOption = DEFAULT_FILE,
) -> None:
    """Create a key, print it once, and add its hash to the file. The key cannot be shown again."""
    from riata.web.auth.keys import EVERY_MODEL, ID_PATTERN, KeyEntry, digest_of, entry_text, new_token, parse_keys

    if not re.match(ID_PATTERN, id_):
        raise BadInput("--id: expected 1 to 32 lower-case letters, digits and dashes", "bad_option")
    text = _text_of(keys_file)
    names = model or []
    if not names:
        raise BadInput("--model: name the models that the key gives access to, or '*' for every model", "bad_option")
    token = new_token(id_)
    models = EVERY_MODEL if EVERY_MODEL in names else names
    entry = KeyEntry(
        id_, digest_of(token), scope, models, requests_per_s, _moment(expires), models_max, events_a_day, bytes_a_day
    )
    if any(known.id == id_ for known in parse_keys(text.encode(), str(keys_file))):
        raise Conflict(f"{keys_file} has a key {id_}; to rotate a key give the new one another id", "key_exists")
    added = f"{text.rstrip()}\n\n{entry_text(entry)}" if text.strip() else f"{HEAD}\n{entry_text(entry)}"
    parse_keys(added.encode(), "the new key")
    _write(keys_file, added)
    typer.echo(token)
    typer.echo(f"added {id_} to {keys_file}; the key above is not stored and cannot be shown again", err=True)


@app.command("list", epilog="Example: `riata keys list`")
def list_(keys_file: FileOption = DEFAULT_FILE) -> None:
    """List the keys of the file: id, scopes, models, rate and expiry. No secret is shown."""
    from riata.web.auth.keys import read_keys

    for entry in read_keys(keys_file):
        typer.echo("\t".join(_line(entry)))


@app.command("revoke", epilog="Example: `riata keys revoke --id clicks`")
def revoke(id_: Annotated[str, typer.Option("--id", help="Name of the key.")], keys_file: FileOption = DEFAULT_FILE) -> None:
    """Remove a key from the file. The service refuses it within a second.

    Comments in the file are lost.
    """
    from riata.web.auth.keys import entry_text, read_keys

    entries = read_keys(keys_file)
    left = [entry for entry in entries if entry.id != id_]
    if len(left) == len(entries):
        raise NotFound(f"{keys_file} has no key {id_[:64]!r}", "key_not_found")
    _write(keys_file, HEAD + "".join(f"\n{entry_text(entry)}" for entry in left))
    typer.echo(f"removed {id_} from {keys_file}", err=True)


def _line(entry: KeyEntry) -> Sequence[str]:
    from riata.web.auth.keys import QUOTAS

    models = entry.models if isinstance(entry.models, str) else ",".join(entry.models)
    rate = "" if entry.requests_per_s is None else f"{entry.requests_per_s:g}/s"
    until = "" if entry.expires is None else f"until {entry.expires.isoformat()}"
    quotas = [f"{name}={value}" for name in QUOTAS if (value := getattr(entry, name)) is not None]
    return entry.id, ",".join(entry.scopes), models, rate, " ".join([*quotas, *([until] if until else [])])


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise BadInput(f"--expires {text[:64]}: expected a time, such as 2027-01-31T00:00:00Z", "bad_option") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _text_of(path: Path) -> str:
    """Return the text of a file of keys after checking that it is one; empty if there is none yet."""
    from riata.web.auth.keys import read_keys

    if not path.exists():
        return ""
    read_keys(path)
    return path.read_text(encoding="utf-8")


def _write(path: Path, text: str) -> None:
    """Replace the file atomically, keeping its owner, group and mode."""
    try:
        before = path.stat()
    except FileNotFoundError:
        before = None
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    number = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, FILE_MODE)
    try:
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fchmod(number, FILE_MODE if before is None else before.st_mode & FILE_MODE)
            if before is not None and (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(number, before.st_uid, before.st_gid)
            os.fsync(number)
        os.replace(aside, path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
