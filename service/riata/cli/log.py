"""`riata log`: exports the events of a model, and makes the segments of its log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from riata.base.errors import BadInput
from riata.cli.connect import ModelArgument
from riata.cli.open_store import DATA_HELP, STORE_HELP, kept
from riata.cli.verbs import ModelCommand, group_of

if TYPE_CHECKING:
    from riata.store.segment import Segments

EXAMPLE: Final = """Examples:

- `riata log export clicks --to clicks.arrow --data ./riata-data` after the service has stopped.
- `riata log export clicks --to clicks.arrow --store redis://localhost:6379/0` at any time.
- `riata log segments clicks --data ./riata-data --verify` compares every stored segment with its digests."""
COLUMNS_HELP: Final = """**Columns** of the Arrow stream, one row for each example that counts:

- `seq`: the number of the event; `accepted_ms`: when it was accepted, Unix time in milliseconds.
- `label`: 0 or 1, or the number of a model with real labels; `weight`: its importance weight.
- `indices`, `values`: lists of feature hashes (32 bits) and values. The slot of a feature is the top bits of its hash.
- `ts_ms`: the time `ts` of the row, Unix time in milliseconds; null if it had none, or if the event comes from the archive.

In Python, `pyarrow.ipc.open_stream("clicks.arrow").read_all()` or `polars.read_ipc_stream("clicks.arrow")` reads it."""

app = group_of("Export the events of a model, and make the segments of its log.", EXAMPLE)


@app.command("export", cls=ModelCommand, epilog=f"{COLUMNS_HELP}\n\n{EXAMPLE}")
def export(
    model: ModelArgument,
    to: Annotated[Path, typer.Option(help="File to write, an Arrow stream. It appears when it is complete.")],
    data: Annotated[Path | None, typer.Option(help=DATA_HELP)] = None,
    store: Annotated[str | None, typer.Option(help=STORE_HELP)] = None,
) -> None:
    """Write the examples of a model as columns, for pandas, polars, DuckDB or another learner.

    An example counts unless the service skipped it or a restore undid it; the others are left out, and their number is printed.
    Events that the log no longer has come from the archive of the data directory, if there is one. Nothing stored is changed.
    """
    with kept(data, store) as (_, opened):
        from riata.base.directories import replaced
        from riata.cli.progress import seq_progress
        from riata.run.candidates.segment_building import origin_of, segments_of
        from riata.run.log.log_export import export_log
        from riata.run.state.replay import in_this_thread

        call = in_this_thread(opened)
        found = [] if data is None else segments_of(call, origin_of(opened, model), _segments(data, model, True))
        with replaced(to) as part, part.open("wb") as file, seq_progress(model) as advance:
            window = export_log(call, model, found, file.write, advance)
    left_out = f"{window.skipped:,} skipped and {window.undone_by_restore:,} undone by a restore are left out"
    typer.echo(f"{to}: {window.events:,} examples of events {window.first} to {window.last} of {window.of}; {left_out}")


@app.command("segments", cls=ModelCommand, epilog=EXAMPLE)
def segments(
    model: ModelArgument,
    data: Annotated[Path, typer.Option(help=DATA_HELP)],
    verify: Annotated[
        bool, typer.Option("--verify", help="Read every stored segment and compare it with its digests before it is kept.")
    ] = False,
    drop: Annotated[bool, typer.Option("--drop", help="Delete the segments, those of the archive too, and make none.")] = False,
) -> None:
    """Make the segments of a log: files in which its examples are read many times faster than in the log.

    A refit, and the archive of a service, make them as they need them; this makes them beforehand. Segments that fit the log are
    kept, others are made again from the log. Events that the log no longer has are kept in the segments that have them.
    """
    if verify and drop:
        raise BadInput("give only one of --verify and --drop", "bad_option")
    with kept(data, None) as (_, opened):
        from riata.cli.progress import seq_progress
        from riata.run.candidates.segment_building import build_segments, origin_of
        from riata.run.state.replay import in_this_thread

        files, origin = _segments(data, model, verify), origin_of(opened, model)
        if drop:
            typer.echo(f"{files.directory}: {len(files.drop(0))} files deleted")
            return
        last = opened.head(model).seq
        with seq_progress(model) as advance:
            found = build_segments(in_this_thread(opened), origin, files, on_progress=lambda at: advance(at, last))
    for why in files.damaged:
        typer.echo(f"made again: {why}", err=True)
    size = sum(one.bytes for one in found)
    rows = sum(one.rows for one in found)
    typer.echo(f"{files.directory}: {len(found)} segments, {rows:,} examples, {size:,} bytes")


def _segments(data: Path, model: str, verify: bool) -> Segments:
    from riata.store.segment import FOLDER, Segments

    return Segments(data / FOLDER / model, verify)
