"""Opens the store of a service, a data directory or a shared one, for the commands that read it; `riata inspect` shows it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from riata.base.errors import BadInput

if TYPE_CHECKING:
    from riata.store.store import Store
import json
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

if TYPE_CHECKING:
    from riata.store.store import Generation, Store

DATA_HELP = "Data directory of a service that is not running."
STORE_HELP = "URL of a Redis store, as for `riata serve --store`, instead of a directory. Services may be running."


@contextmanager
def kept(data: Path | None, store: str | None) -> Iterator[tuple[str, Store]]:
    """Open the given store for reading; yields its name, without secrets, and the store.

    User, password file and namespace of a shared store come from the environment, as for `riata serve`. Raises `BadInput`
    (code `bad_option`) unless exactly one is given, `NotFound` (code `no_store`) if there is no store.
    """
    if (data is None) == (store is None):
        raise BadInput("give either --data with a directory, or --store with the URL of a Redis", "bad_option")
    name, opened = _directory(data) if data is not None else _shared(str(store))
    try:
        yield name, opened
    finally:
        opened.close()


def _directory(data: Path) -> tuple[str, Store]:
    from riata.store.sqlite.store import read_sqlite

    return str(data), read_sqlite(data)


def _shared(url: str) -> tuple[str, Store]:
    from riata import wiring
    from riata.base.read_settings import load_settings

    settings = load_settings({"store": url})
    if not settings.store_scheme.shared:
        raise BadInput(f"--store: {url!r} is not a Redis; give the data directory of the service with --data", "bad_option")
    return wiring.where(settings), wiring.open_store(settings)


# `riata inspect --data DIR`, `riata inspect --store URL` and `riata inspect FILE`.


INSPECT_EXAMPLE: Final = """Examples:

- `riata inspect --data ./riata-data` after the service has stopped.
- `riata inspect --store redis://localhost:6379/0` at any time.
- `riata inspect clicks.riata` for an exported model."""


def inspect(
    file: Annotated[
        Path | None, typer.Argument(help="An exported model, written by `riata fit --out` or by GET /models/{model}/export.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help=DATA_HELP)] = None,
    store: Annotated[str | None, typer.Option(help=STORE_HELP)] = None,
) -> None:
    """Show the contents of a store, or of an exported model, without changing anything.

    For each model of a store: its log, its snapshots and its configuration.
    """
    if file is not None:
        if data is not None or store is not None:
            raise BadInput("give only one of FILE, --data and --store", "bad_option")
        _show_export(file)
        return
    with kept(data, store) as (name, opened):
        size = "" if data is None else f"{_size(_bytes_of(data))}, "
        typer.echo(f"{name}: {size}{_owner(opened)}")
        for warning in opened.warnings():
            typer.echo(f"warning: {warning}", err=True)
        for model in opened.models():
            _show_model(opened, model)


def _show_export(file: Path) -> None:
    from riata.base.document import write_document
    from riata.run.candidates.exports import read_export

    content = file.read_bytes()
    state, names = read_export(content)
    weights = state.learner.weights()
    learnt = f"{state.progressive.examples:,} rows learnt, log loss {state.progressive.log_loss:.4f}"
    typer.echo(f"{file}: {_size(len(content))}, model {state.name}, {learnt}")
    shaped = f", {weights.shaped_columns} columns with shapes" if weights.shaped_columns else ""
    digest = state.freeze().digest().hex()[:16]
    typer.echo(f"  {len(weights.slot):,} non-zero weights{shaped}, {len(names):,} names, state {digest}")
    typer.echo(f"  config {json.dumps(write_document(state.config), separators=(', ', ': '))}")


def _show_model(store: Store, name: str) -> None:
    head = store.head(name)
    kept = (
        f"events {head.first_seq} to {head.seq} in the log" if head.first_seq <= head.seq else f"log empty, last event {head.seq}"
    )
    typer.echo(f"\n{name}: {kept}, lineage {head.lineage.hex()}")
    generations = store.generations(name)
    for line in map(_generation_line, generations) if generations else ["no snapshot yet: a start learns the whole log"]:
        typer.echo(f"  {line}")
    typer.echo(f"  config {json.dumps(_config(store, name), separators=(', ', ': '))}")


def _generation_line(generation: Generation) -> str:
    from riata.base.clock import rfc3339

    checked = "verified" if generation.verified else "not verified"
    facts = "".join(f", {key} {_fact(value)}" for key, value in generation.info.items())
    return (
        f"snapshot {generation.gen} at event {generation.applied}, {rfc3339(generation.created_ms)}, "
        f"{_size(generation.bytes)}, {checked}, state {generation.state_digest.hex()[:16]}{facts}"
    )


def _fact(value: float | str) -> str:
    return f"{value:.4f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def _config(store: Store, name: str) -> Any:
    """Read the configuration from the newest checkpoint, or from the log if there is none."""
    from riata.base.document import write_document
    from riata.run.state.config import change_from_payload
    from riata.store.layout import decode_checkpoint

    for generation in store.generations(name)[:1]:
        header, _ = decode_checkpoint(store.open_generation(name, generation.gen))
        return header.get("config")
    first = store.read(name, 0, 1)
    return write_document(change_from_payload(first[0].payload).config) if first and first[0].kind == "config" else None


def _owner(store: Store) -> str:
    epochs = [generation.epoch for name in store.models() for generation in store.generations(name)]
    return f"last snapshot in epoch {max(epochs)}" if epochs else "no snapshot yet"


def _bytes_of(directory: Path) -> int:
    return sum(entry.stat().st_size for entry in directory.iterdir() if entry.is_file())


def _size(count: int) -> str:
    """Format a number of bytes with a binary unit."""
    size = float(count)
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
